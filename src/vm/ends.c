/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ends that nobody asked for: the machine, one of its processes, or a guest that does not answer.
 * What is told is the cause, by whoever knows it best.
 */
#include "vm/monitor.h"

#include "base/log.h"
#include "base/str.h"
#include "cgroup/stats.h"
#include "oci/settings.h"
#include "vmm/vmm.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/*
 * A guest that hangs is told from a host that is busy by the processor time it had: booting takes
 * less than a second of it, and some (ten, of a distribution's kernel) under an emulated KVM.
 */
#define BOOT_CPU_SECONDS 30
#define SUSPICION_MS	 200

#define HINT_KVM                                                                                   \
	"this KVM does not seem able to run a kernel (moat doctor says more): use a machine with " \
	"real hardware virtualization, or --isolation=sandbox"
#define HINT_INIT                                                                                  \
	"its \"init\" must be moat's; an imported kernel needs the one that moat kernel import "   \
	"printed"
#define HINT_LATE "; if it is only slow, set a greater guestTimeout in the operator's file"

#define NOT_ANSWERING "run the container: the guest's init does not answer any more"
#define HALTED	      "run the container: the guest was halted or switched off from within"

/* What the machine was for when it failed. Put in front of the reason. */
static int wrap_purpose(const struct monitor *monitor, struct err *err)
{
	if (monitor->phase <= PHASE_CREATING)
		err->code = ERR_GUEST_LOST;
	if (monitor->phase == PHASE_BOOTING)
		return err_wrap(err, "boot the guest kernel %s", monitor->machine->kernel_path);
	return err_wrap(err, monitor->phase <= PHASE_CREATED ? "make the container in the guest"
							     : "run the container");
}

/* Says why the machine ended though nobody had asked it to. */
void end_of_machine(struct monitor *monitor, const struct vmm_event *event)
{
	char text[sizeof(event->text) * 4];
	struct err err;

	str_escape(event->text, strnlen(event->text, sizeof(event->text)), text, sizeof(text));
	if (event->end == VMM_END_RESET)
		err_set(&err, 0, "the guest kernel panicked, or reset the machine");
	else
		err_set(&err, 0, "%s", text);
	wrap_purpose(monitor, &err);
	if ((event->end == VMM_END_RESET || event->end == VMM_END_PANIC) &&
	    monitor->phase == PHASE_BOOTING)
		err_hint(&err, "%s", HINT_INIT);
	if (event->end == VMM_END_RESET || event->end == VMM_END_PANIC)
		err_hint(&err, "--debug shows its console");
	if (event->end == VMM_END_KVM && monitor->phase == PHASE_BOOTING)
		err_hint(&err, "%s", HINT_KVM);
	if (event->end != VMM_END_ERROR) {
		monitor_fail(monitor, &err);
		return;
	}
	/* It may be because fsd died: then that is the reason, and about to be known. */
	monitor->suspicion = err;
	monitor_set_timer(monitor, SUSPICION_MS);
}

/* Not the workload's lack, which the guest's own OOM killer deals with. */
static void end_for_memory(enum role role, struct err *err)
{
	err_set(err, 0,
		"the %s was killed by the host's OOM killer: the host ran out of memory for it, or "
		"the machine's cgroup reached its limit",
		role_names[role]);
	err_hint(err, "raise \"overhead\" in /etc/moat/moat.json, or have fewer machines");
}

/* vmm or fsd has ended by itself: how, and who. */
void end_of_child(struct monitor *monitor, struct child *child, enum role role)
{
	int status = spawn_end(child);
	struct err err;

	if (monitor->phase == PHASE_OVER)
		return;
	if (monitor->phase == PHASE_ENDING && role == ROLE_VMM) {
		monitor_over(monitor);
		return;
	}
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		err_set(&err, 0, "the %s made a system call that its filter does not allow",
			role_names[role]);
	else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
		 cgroup_oom_read(monitor->oom_count) > 0)
		end_for_memory(role, &err);
	else if (WIFSIGNALED(status))
		err_set(&err, 0, "the %s was killed by signal %d (%s)", role_names[role],
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		err_set(&err, 0, "the %s ended with status %d", role_names[role],
			WEXITSTATUS(status));
	monitor_fail(monitor, &err);
}

static bool is_late(const struct monitor *monitor)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec - monitor->started >= monitor->container->settings->guest_timeout;
}

static bool has_time_to_boot(const struct monitor *monitor)
{
	struct timespec cpu = { 0 };
	clockid_t clock;

	if (clock_getcpuclockid(monitor->machine->vmm.pid, &clock) == 0)
		clock_gettime(clock, &cpu);
	return cpu.tv_sec < BOOT_CPU_SECONDS && !is_late(monitor);
}

int end_of_time(struct source *source, uint32_t events, struct err *err)
{
	struct monitor *monitor = source->data;
	uint64_t times;
	struct err reason;

	if (read(source->fd, &times, sizeof(times)) != (ssize_t)sizeof(times))
		return 0;
	if (monitor->suspicion.text[0]) {
		monitor_fail(monitor, &monitor->suspicion);
		return 0;
	}
	switch (monitor->phase) {
	case PHASE_BOOTING:
		if (has_time_to_boot(monitor)) {
			monitor_check_boot(monitor);
			return 0;
		}
		err_set(&reason, ETIMEDOUT, "wait for its init to answer");
		wrap_purpose(monitor, &reason);
		err_hint(&reason, "%s%s", HINT_KVM, is_late(monitor) ? HINT_LATE : "");
		break;
	case PHASE_CREATING:
		err_set(&reason, ETIMEDOUT, "make the container in the guest");
		break;
	case PHASE_DRAINING:
		if (!monitor->given_up && monitor->executions) {
			monitor->given_up = true;
			monitor_check_drained(monitor);
			return 0;
		}
		err_set(&reason, 0, NOT_ANSWERING);
		break;
	case PHASE_ENDING:
		monitor_over(monitor); /* the children are killed */
		return 0;
	default:
		if (monitor->starting.waiting && !monitor->killed) {
			starting_late(monitor);
			return 0;
		}
		if (monitor->killed) {
			log_warning("the workload did not end though it was killed; the machine is "
				    "switched off");
			monitor_stop(monitor, 128 + SIGKILL);
			return 0;
		}
		/* The agent's end is the machine's, unless the kernel has gone before. */
		err_set(&reason, 0, monitor->agent_gone ? HALTED : NOT_ANSWERING);
	}
	monitor_fail(monitor, &reason);
	return 0;
}
