/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The monitor's life: it starts the machine, makes the container through the agent, waits for the
 * workload, lets its output out, and shuts the guest down. Whatever ends early is told apart here.
 */
#include "vm/monitor.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/str.h"
#include "oci/config.h"
#include "vm/host.h"
#include "vmm/vmm.h"

#include <linux/capability.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>

/*
 * A guest that hangs is told from a host that is busy by the processor time it had: booting takes
 * less than a second of it, and some under an emulated KVM.
 */
#define BOOT_CHECK_MS	    10000
#define BOOT_CPU_SECONDS    120
#define BOOT_WALL_SECONDS   600
#define CREATE_TIMEOUT_MS   300000
#define SHUTDOWN_TIMEOUT_MS 20000
#define STOP_TIMEOUT_MS	    3000
#define SUSPICION_MS	    200

#define HINT_KVM                                                                                   \
	"this KVM does not seem able to run a kernel (moat doctor says more): use a machine with " \
	"real hardware virtualization, or --isolation=sandbox"

void monitor_note(const char *step)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	log_debug("machine: %lld.%06ld %s", (long long)now.tv_sec, now.tv_nsec / 1000, step);
}

static void set_timer(struct monitor *monitor, unsigned int ms)
{
	struct itimerspec when = { .it_value = { .tv_sec = ms / 1000,
						 .tv_nsec = ms % 1000 * 1000000L } };

	timerfd_settime(monitor->timer.fd, 0, &when, NULL);
}

/* create hears how it went; from then on the monitor lives without it. */
static void tell_create(struct monitor *monitor, const struct err *err)
{
	struct err message = { 0 };

	if (err)
		message = *err;
	if (!err)
		prctl(PR_SET_PDEATHSIG, 0);
	(void)fd_write_full(monitor->ready_fd, &message, sizeof(message));
	fd_replace(&monitor->ready_fd, -1);
}

static void over(struct monitor *monitor)
{
	monitor->phase = PHASE_OVER;
	loop_quit(&monitor->loop);
}

void monitor_fail(struct monitor *monitor, const struct err *err)
{
	if (monitor->phase >= PHASE_DRAINING) {
		/* The workload's status is known; what is lost is output, or a clean end. */
		log_warning("%s", err->text);
	} else if (monitor->ready_fd >= 0) {
		tell_create(monitor, err);
		monitor->status = 1;
	} else {
		log_error("%s", err->text);
		monitor->status = MONITOR_STATUS_LOST;
	}
	over(monitor);
}

void monitor_stop(struct monitor *monitor, int status)
{
	struct vmm_request request = { .type = VMM_REQUEST_STOP };

	if (monitor->phase >= PHASE_ENDING)
		return;
	monitor->phase = PHASE_ENDING;
	monitor->status = status;
	set_timer(monitor, STOP_TIMEOUT_MS);
	(void)fd_send(monitor->machine->vmm_fd, &request, sizeof(request), NULL, 0);
}

static void shut_down(struct monitor *monitor)
{
	struct err err;

	monitor_note("output delivered");
	monitor->phase = PHASE_ENDING;
	set_timer(monitor, SHUTDOWN_TIMEOUT_MS);
	if (agent_shutdown(monitor->agent, &err) < 0)
		monitor_fail(monitor, &err);
}

static void workload_ended(void *data, uint32_t status, bool oom, const struct err *err)
{
	struct monitor *monitor = data;

	if (monitor->phase != PHASE_CREATED && monitor->phase != PHASE_RUNNING)
		return;
	if (err) {
		/* The connection's end comes before the reason for it: that is told by the vmm. */
		set_timer(monitor, STOP_TIMEOUT_MS);
		return;
	}
	monitor_note("exited");
	if (oom)
		log_warning("the workload ran out of memory");
	monitor->phase = PHASE_DRAINING;
	monitor->status = (int)status;
	if (!monitor->undrained)
		shut_down(monitor);
}

static void created(void *data, const struct err *err)
{
	struct monitor *monitor = data;
	struct err reason;

	if (monitor->phase != PHASE_CREATING)
		return;
	if (!err && agent_wait(monitor->agent, monitor->container->id, workload_ended, &reason) < 0)
		err = &reason;
	if (err) {
		monitor_fail(monitor, err);
		return;
	}
	monitor_note("created");
	trees_close(&monitor->machine->trees);
	monitor->phase = PHASE_CREATED;
	set_timer(monitor, 0);
	tell_create(monitor, NULL);
}

static void hello_said(void *data, const struct err *err)
{
	struct monitor *monitor = data;
	struct machine *machine = monitor->machine;
	struct err reason;

	if (monitor->phase != PHASE_BOOTING)
		return;
	if (err && err->code == ECONNRESET)
		return; /* the vmm says why */
	if (!err) {
		monitor_note("hello");
		monitor->phase = PHASE_CREATING;
		set_timer(monitor, CREATE_TIMEOUT_MS);
		if (agent_create(monitor->agent, monitor->container->id, monitor->container->config,
				 &machine->trees, &machine->stdio, 0, created, &reason) < 0)
			err = &reason;
	}
	if (err)
		monitor_fail(monitor, err);
}

static void agent_closed(void *data, const char *text)
{
	struct monitor *monitor = data;

	if (monitor->phase < PHASE_ENDING)
		set_timer(monitor, STOP_TIMEOUT_MS); /* for the vmm to say why */
}

/* What the machine was for when it failed. Put in front of the reason. */
static int wrap_purpose(const struct monitor *monitor, struct err *err)
{
	if (monitor->phase == PHASE_BOOTING)
		return err_wrap(err, "boot the guest kernel %s", monitor->machine->kernel_path);
	return err_wrap(err, monitor->phase <= PHASE_CREATED ? "make the container in the guest"
							     : "run the container");
}

/* Says why the machine ended though nobody had asked it to. */
static void machine_ended(struct monitor *monitor, const struct vmm_event *event)
{
	char text[sizeof(event->text) * 4];
	struct err err;

	str_escape(event->text, strnlen(event->text, sizeof(event->text)), text, sizeof(text));
	if (event->end == VMM_END_RESET)
		err_set(&err, 0, "the guest kernel panicked, or reset the machine");
	else
		err_set(&err, 0, "%s", text);
	wrap_purpose(monitor, &err);
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
	set_timer(monitor, SUSPICION_MS);
}

static void port_closed(struct monitor *monitor, uint32_t port)
{
	for (int i = 0; i < 3; i++)
		if (port && monitor->machine->stdio.stream[i].port == port)
			monitor->undrained &= ~(1u << i);
	if (monitor->phase == PHASE_DRAINING && !monitor->undrained)
		shut_down(monitor);
}

/* Returns false where there was nothing to read. */
static bool take_vmm_event(struct monitor *monitor)
{
	struct vmm_event event;
	ssize_t n = recv(monitor->vmm.fd, &event, sizeof(event), MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return false;
	if (n != (ssize_t)sizeof(event)) {
		loop_forget(&monitor->loop, &monitor->vmm); /* its exit says more */
		return false;
	}
	if (event.type == VMM_EVENT_BOOTED) {
		monitor_note("booted");
	} else if (event.type == VMM_EVENT_PORT_CLOSED) {
		port_closed(monitor, event.port);
	} else if (event.type == VMM_EVENT_ENDED) {
		monitor_note("machine ended");
		if (monitor->phase == PHASE_ENDING)
			over(monitor);
		else if (monitor->phase != PHASE_OVER)
			machine_ended(monitor, &event);
	}
	return true;
}

static int vmm_ready(struct source *source, uint32_t events, struct err *err)
{
	take_vmm_event(source->data);
	return 0;
}

/* vmm or fsd has ended by itself: how, and who. */
static void child_ended(struct monitor *monitor, struct child *child, enum role role)
{
	int status = spawn_end(child);
	struct err err;

	if (monitor->phase == PHASE_OVER)
		return;
	if (monitor->phase == PHASE_ENDING && role == ROLE_VMM) {
		over(monitor);
		return;
	}
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		err_set(&err, 0, "the %s made a system call that its filter does not allow",
			role_names[role]);
	else if (WIFSIGNALED(status))
		err_set(&err, 0, "the %s was killed by signal %d (%s)", role_names[role],
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		err_set(&err, 0, "the %s ended with status %d", role_names[role],
			WEXITSTATUS(status));
	monitor_fail(monitor, &err);
}

static int vmm_exited(struct source *source, uint32_t events, struct err *err)
{
	struct monitor *monitor = source->data;

	while (monitor->phase != PHASE_OVER && take_vmm_event(monitor))
		;
	loop_forget(&monitor->loop, source);
	if (!monitor->suspicion.text[0])
		child_ended(monitor, &monitor->machine->vmm, ROLE_VMM);
	return 0;
}

static int fsd_exited(struct source *source, uint32_t events, struct err *err)
{
	struct monitor *monitor = source->data;

	loop_forget(&monitor->loop, source);
	child_ended(monitor, &monitor->machine->fsd, ROLE_FSD);
	return 0;
}

static bool has_time_to_boot(const struct monitor *monitor)
{
	struct timespec cpu = { 0 }, now;
	clockid_t clock;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (clock_getcpuclockid(monitor->machine->vmm.pid, &clock) == 0)
		clock_gettime(clock, &cpu);
	return cpu.tv_sec < BOOT_CPU_SECONDS && now.tv_sec - monitor->started < BOOT_WALL_SECONDS;
}

static int timer_ready(struct source *source, uint32_t events, struct err *err)
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
			set_timer(monitor, BOOT_CHECK_MS);
			return 0;
		}
		err_set(&reason, ETIMEDOUT, "wait for its init to answer");
		wrap_purpose(monitor, &reason);
		err_hint(&reason, "%s", HINT_KVM);
		break;
	case PHASE_CREATING:
		err_set(&reason, ETIMEDOUT, "make the container in the guest");
		break;
	case PHASE_ENDING:
		over(monitor); /* the children are killed */
		return 0;
	default:
		err_set(&reason, 0, "run the container: the guest's init does not answer any more");
	}
	monitor_fail(monitor, &reason);
	return 0;
}

static int watch(struct monitor *monitor, struct source *source, int fd, source_fn ready,
		 struct err *err)
{
	*source = (struct source){ .fd = fd, .ready = ready, .data = monitor };
	return loop_watch(&monitor->loop, source, EPOLLIN, err);
}

static int watch_machine(struct monitor *monitor, struct err *err)
{
	struct machine *machine = monitor->machine;

	if (watch(monitor, &monitor->vmm, machine->vmm_fd, vmm_ready, err) < 0 ||
	    watch(monitor, &monitor->vmm_exit, machine->vmm.pidfd, vmm_exited, err) < 0 ||
	    watch(monitor, &monitor->fsd_exit, machine->fsd.pidfd, fsd_exited, err) < 0)
		return -1;
	monitor->agent =
		agent_new(&monitor->loop, fd_steal(&machine->agent_fd), agent_closed, monitor, err);
	if (!monitor->agent)
		return -1;
	for (uint32_t i = 0; i < 3; i++)
		if (machine->stdio.stream[i].flags & VMM_PORT_WRITE)
			monitor->undrained |= 1u << i;
	return agent_hello(monitor->agent, monitor->container->config->hostname, 0, hello_said,
			   err);
}

static int set_up(struct monitor *monitor, struct err *err)
{
	struct machine *machine = monitor->machine;
	int state_fd = monitor->container->state_fd;
	struct timespec now;

	if (host_enter(machine, monitor->ready_fd, err) < 0 || loop_init(&monitor->loop, err) < 0 ||
	    record_add(&monitor->record, 0, err) < 0 ||
	    record_write(&monitor->record, state_fd, err) < 0)
		return -1;
	monitor->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (monitor->timer.fd < 0)
		return err_set(err, errno, "make a timer");
	if (watch(monitor, &monitor->timer, monitor->timer.fd, timer_ready, err) < 0 ||
	    machine_launch(machine, err) < 0)
		return -1;
	monitor_note("vmm ready");
	clock_gettime(CLOCK_MONOTONIC, &now);
	monitor->started = now.tv_sec;
	set_timer(monitor, BOOT_CHECK_MS);
	if (record_add(&monitor->record, machine->vmm.pid, err) < 0 ||
	    record_add(&monitor->record, machine->fsd.pid, err) < 0 ||
	    record_write(&monitor->record, state_fd, err) < 0 || requests_init(monitor, err) < 0 ||
	    watch_machine(monitor, err) < 0)
		return -1;
	if (host_leave_stdio(err) < 0 ||
	    jail_restrict(ROLE_MONITOR, 1ull << CAP_KILL, err) < 0) /* the vmm is another user's */
		return -1;
	return filter_load(ROLE_MONITOR, err);
}

int monitor_main(struct machine *machine, int ready_fd)
{
	struct monitor monitor = { .machine = machine,
				   .container = machine->container,
				   .ready_fd = ready_fd };
	struct err err;

	monitor_note("monitor started");
	if (set_up(&monitor, &err) < 0 || loop_run(&monitor.loop, &err) < 0)
		monitor_fail(&monitor, &err);
	requests_close(&monitor);
	machine_close(machine);
	monitor_note("over");
	return monitor.status;
}
