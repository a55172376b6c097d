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
#include "oci/settings.h"
#include "vm/execution.h"
#include "vm/host.h"
#include "vm/view.h"
#include "vmm/vmm.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>

#define BOOT_CHECK_MS	    10000u
#define SHUTDOWN_TIMEOUT_MS 20000
#define STOP_TIMEOUT_MS	    3000
#define RESIZE_TIMEOUT_MS   10000
/* After the workload's end, for what further processes have said; those in its pid namespace ended
 * with it. */
#define EXECUTIONS_WAIT_MS 1000

void monitor_note(const char *step)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	log_debug("machine: %lld.%06ld %s", (long long)now.tv_sec, now.tv_nsec / 1000, step);
}

void monitor_set_timer(struct monitor *monitor, unsigned int ms)
{
	struct itimerspec when = { .it_value = { .tv_sec = ms / 1000,
						 .tv_nsec = ms % 1000 * 1000000L } };

	timerfd_settime(monitor->timer.fd, 0, &when, NULL);
}

void monitor_check_boot(struct monitor *monitor)
{
	uint32_t all = monitor->container->settings->guest_timeout * 1000;

	monitor_set_timer(monitor, all < BOOT_CHECK_MS ? all : BOOT_CHECK_MS);
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

void monitor_over(struct monitor *monitor)
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
	monitor_over(monitor);
}

void monitor_stop(struct monitor *monitor, int status)
{
	struct vmm_request request = { .type = VMM_REQUEST_STOP };

	if (monitor->phase >= PHASE_ENDING)
		return;
	monitor->phase = PHASE_ENDING;
	monitor->status = status;
	monitor_set_timer(monitor, STOP_TIMEOUT_MS);
	(void)fd_send(monitor->machine->vmm_fd, &request, sizeof(request), NULL, 0);
}

/* The guest has written back what it held: there is nothing to wait for in how it goes down. */
static void guest_synced(void *data, const struct err *err)
{
	struct vmm_request request = { .type = VMM_REQUEST_STOP };
	struct monitor *monitor = data;

	if (!err && monitor->machine->vmm_fd >= 0)
		(void)fd_send(monitor->machine->vmm_fd, &request, sizeof(request), NULL, 0);
}

static void shut_down(struct monitor *monitor)
{
	struct err err;

	monitor_note("output delivered");
	monitor->phase = PHASE_ENDING;
	monitor_set_timer(monitor, SHUTDOWN_TIMEOUT_MS);
	if (agent_shutdown(monitor->agent, guest_synced, &err) < 0)
		monitor_fail(monitor, &err);
}

void monitor_check_drained(struct monitor *monitor)
{
	if (monitor->phase == PHASE_DRAINING && !monitor->undrained &&
	    (!monitor->executions || monitor->given_up))
		shut_down(monitor);
}

static void workload_ended(void *data, uint32_t status, bool oom, const struct err *err)
{
	struct monitor *monitor = data;

	if (monitor->phase != PHASE_CREATED && monitor->phase != PHASE_RUNNING)
		return;
	if (err) {
		/* The connection's end comes before the reason for it: that is told by the vmm. */
		monitor_set_timer(monitor, STOP_TIMEOUT_MS);
		return;
	}
	monitor_note("exited");
	watching_last(monitor);
	monitor->ran_out = oom;
	if (oom)
		log_warning("container %s: the workload ran out of memory", monitor->container->id);
	monitor->phase = PHASE_DRAINING;
	monitor->status = (int)status;
	monitor_set_timer(monitor, monitor->executions ? EXECUTIONS_WAIT_MS : 0);
	monitor_check_drained(monitor);
}

static void resized(void *data, const struct err *err)
{
	if (err)
		log_debug("%s", err->text);
}

bool monitor_take_size(struct monitor *monitor)
{
	struct stdio *stdio = &monitor->machine->stdio;
	struct err err;

	if (!stdio->terminal || stdio->stream[0].fd < 0 ||
	    !stdio_take_size(stdio->stream[0].fd, &stdio->rows, &stdio->columns))
		return false;
	if (agent_resize(monitor->agent, monitor->container->id, "", stdio->rows, stdio->columns,
			 monitor_timeout(monitor, RESIZE_TIMEOUT_MS), resized, NULL, &err) < 0)
		log_debug("%s", err.text);
	return true;
}

static void created(void *data, const struct err *err)
{
	struct monitor *monitor = data;
	struct err reason;

	if (monitor->phase != PHASE_CREATING)
		return;
	if (!err && agent_wait(monitor->agent, monitor->container->id, "", workload_ended, monitor,
			       &reason) < 0)
		err = &reason;
	if (err) {
		monitor_fail(monitor, err);
		return;
	}
	monitor_note("created");
	trees_close(&monitor->machine->trees);
	monitor->phase = PHASE_CREATED;
	monitor_set_timer(monitor, 0);
	tell_create(monitor, NULL);
}

static void hello_said(void *data, const struct err *err)
{
	struct monitor *monitor = data;

	if (monitor->phase != PHASE_BOOTING)
		return;
	if (err && err->code == ECONNRESET)
		return; /* the vmm says why */
	if (err) {
		monitor_fail(monitor, err);
		return;
	}
	monitor_note("hello");
	monitor->phase = PHASE_CREATING;
	monitor_set_timer(monitor, monitor->container->settings->guest_timeout * 1000);
}

static void agent_closed(void *data, const char *text)
{
	struct monitor *monitor = data;

	if (monitor->phase >= PHASE_ENDING)
		return;
	monitor->agent_gone = true;
	monitor_set_timer(monitor, STOP_TIMEOUT_MS); /* for the vmm to say why */
}

static void port_closed(struct monitor *monitor, uint32_t port)
{
	for (int i = 0; i < 3; i++) {
		struct stream_port *stream = &monitor->machine->stdio.stream[i];

		if (!port || stream->port != port)
			continue;
		monitor->undrained &= ~(1u << i);
		fd_replace(&stream->fd, -1); /* a terminal's other side sees its end */
	}
	execution_port_closed(monitor, port);
	monitor_check_drained(monitor);
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
	if (event.type == VMM_EVENT_PAUSED || event.type == VMM_EVENT_RESUMED) {
		pausing_event(monitor, event.type);
	} else if (event.type == VMM_EVENT_PORT_CLOSED) {
		port_closed(monitor, event.port);
	} else if (event.type == VMM_EVENT_NET_ADDED) {
		starting_net_added(monitor, &event);
	} else if (event.type == VMM_EVENT_ENDED) {
		monitor_note("machine ended");
		if (monitor->phase == PHASE_ENDING)
			monitor_over(monitor);
		else if (monitor->phase != PHASE_OVER)
			end_of_machine(monitor, &event);
	}
	return true;
}

static int vmm_ready(struct source *source, uint32_t events, struct err *err)
{
	take_vmm_event(source->data);
	return 0;
}

static int vmm_exited(struct source *source, uint32_t events, struct err *err)
{
	struct monitor *monitor = source->data;

	while (monitor->phase != PHASE_OVER && take_vmm_event(monitor))
		;
	loop_forget(&monitor->loop, source);
	if (!monitor->suspicion.text[0])
		end_of_child(monitor, &monitor->machine->vmm, ROLE_VMM);
	return 0;
}

static int fsd_exited(struct source *source, uint32_t events, struct err *err)
{
	struct monitor *monitor = source->data;

	loop_forget(&monitor->loop, source);
	end_of_child(monitor, &monitor->machine->fsd, ROLE_FSD);
	return 0;
}

static int diskd_exited(struct source *source, uint32_t events, struct err *err)
{
	struct monitor *monitor = source->data;

	loop_forget(&monitor->loop, source);
	end_of_child(monitor, &monitor->machine->diskd, ROLE_DISKD);
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
	if (machine->diskd.pid &&
	    watch(monitor, &monitor->diskd_exit, machine->diskd.pidfd, diskd_exited, err) < 0)
		return -1;
	monitor->agent =
		agent_new(&monitor->loop, fd_steal(&machine->agent_fd), agent_closed, monitor, err);
	if (!monitor->agent)
		return -1;
	for (uint32_t i = 0; i < 3; i++)
		if (machine->stdio.stream[i].flags & VMM_PORT_WRITE)
			monitor->undrained |= 1u << i;
	/* Both are there when the agent is: it does not wait for us between the two. */
	if (agent_hello(monitor->agent, monitor->container->config->hostname, 0, hello_said, err) <
		    0 ||
	    agent_create(monitor->agent, machine, 0, created, err) < 0)
		/* Where the machine has ended already the loop is about to hear why. */
		return err->code == EPIPE ? 0 : -1;
	return 0;
}

static int set_up(struct monitor *monitor, struct err *err)
{
	struct machine *machine = monitor->machine;
	int state_fd = monitor->container->state_fd;
	struct timespec now;

	if (host_enter(machine, monitor->ready_fd, &monitor->network_claim, err) < 0 ||
	    loop_init(&monitor->loop, err) < 0 || record_add(&monitor->record, 0, err) < 0 ||
	    record_write(&monitor->record, state_fd, err) < 0)
		return -1;
	monitor->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (monitor->timer.fd < 0)
		return err_set(err, errno, "make a timer");
	if (watch(monitor, &monitor->timer, monitor->timer.fd, end_of_time, err) < 0 ||
	    machine_launch(machine, err) < 0)
		return -1;
	monitor_note("vmm ready");
	if (host_make_network(monitor->container->config, &monitor->network_claim, err) < 0 ||
	    machine_serve(machine, err) < 0)
		return -1;
	clock_gettime(CLOCK_MONOTONIC, &now);
	monitor->started = now.tv_sec;
	monitor_check_boot(monitor);
	if (fcntl(machine->vmm_fd, F_SETFL, O_NONBLOCK) < 0) /* it may not hold us up */
		return err_set(err, errno, "make the vmm's socket non-blocking");
	if (record_add(&monitor->record, machine->vmm.pid, err) < 0 ||
	    record_add(&monitor->record, machine->fsd.pid, err) < 0 ||
	    (machine->diskd.pid && record_add(&monitor->record, machine->diskd.pid, err) < 0) ||
	    record_write(&monitor->record, state_fd, err) < 0 || requests_init(monitor, err) < 0 ||
	    watch_machine(monitor, err) < 0)
		return -1;
	lack_open(monitor);
	if (host_leave_stdio(err) < 0 || view_enter(monitor->container, err) < 0 ||
	    jail_restrict(ROLE_MONITOR, role_reach[ROLE_MONITOR].capabilities, err) < 0)
		return -1;
	return filter_load(ROLE_MONITOR, err);
}

int monitor_main(struct machine *machine, int ready_fd)
{
	struct monitor monitor = { .machine = machine,
				   .container = machine->container,
				   .ready_fd = ready_fd,
				   .network_claim = -1,
				   .oom_count = -1,
				   .oom_teller = OOM_TELLER_NONE,
				   .network_table = -1 };
	struct err err;

	monitor_note("monitor started");
	if (set_up(&monitor, &err) < 0 || loop_run(&monitor.loop, &err) < 0)
		monitor_fail(&monitor, &err);
	executions_close(&monitor);
	pausing_close(&monitor);
	watching_close(&monitor);
	requests_close(&monitor);
	starting_close(&monitor, true);
	machine_close(machine);
	monitor_note("over");
	lack_close(&monitor);
	return monitor.status;
}
