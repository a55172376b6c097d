/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Pause and resume: the vCPUs stand still, so the guest answers nothing. What may be asked of a
 * paused container is therefore asked before; as nothing runs, it stays true.
 */
#include "base/fd.h"
#include "base/log.h"
#include "vm/control.h"
#include "vm/monitor.h"
#include "vmm/vmm.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#define ASK_TIMEOUT_MS 10000
#define VMM_TIMEOUT_S  10

unsigned int monitor_timeout(const struct monitor *monitor, unsigned int ms)
{
	return monitor->pausing.paused ? 0 : ms;
}

static void forget_answers(struct pausing *pausing)
{
	free(steal(pausing->stats));
	free(steal(pausing->processes));
}

/* The command hears how it went. */
static void finish(struct monitor *monitor, const struct err *err)
{
	struct pausing *pausing = &monitor->pausing;

	loop_forget(&monitor->loop, &pausing->timer);
	pausing->asked = false;
	if (!pausing->paused)
		forget_answers(pausing);
	client_reply(steal(pausing->client), err);
}

static int send_to_vmm(const struct monitor *monitor, uint32_t type, struct err *err)
{
	struct vmm_request request = { .type = type };

	if (fd_send(monitor->machine->vmm_fd, &request, sizeof(request), NULL, 0) < 0)
		return err_set(err, errno, "ask the vmm");
	return 0;
}

static int vmm_is_silent(struct source *source, uint32_t events, struct err *err)
{
	struct monitor *monitor = source->data;
	struct err reason;
	uint64_t times;

	if (read(source->fd, &times, sizeof(times)) != (ssize_t)sizeof(times) ||
	    !monitor->pausing.client)
		return 0;
	if (!monitor->pausing.resume)
		(void)send_to_vmm(monitor, VMM_REQUEST_RESUME, NULL);
	err_set(&reason, ETIMEDOUT, "%s the machine", monitor->pausing.resume ? "resume" : "pause");
	finish(monitor, &reason);
	return 0;
}

static int start_timer(struct monitor *monitor, struct err *err)
{
	struct itimerspec when = { .it_value = { .tv_sec = VMM_TIMEOUT_S } };
	struct source *timer = &monitor->pausing.timer;

	if (timer->fd <= 0)
		*timer = (struct source){
			.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
			.ready = vmm_is_silent,
			.data = monitor,
		};
	if (timer->fd < 0 || timerfd_settime(timer->fd, 0, &when, NULL) < 0)
		return err_set(err, errno, "make a timer");
	return loop_watch(&monitor->loop, timer, EPOLLIN, err);
}

/* Has the vmm stop or go on; it says when it is so. */
static void ask_vmm(struct monitor *monitor)
{
	struct pausing *pausing = &monitor->pausing;
	uint32_t request = pausing->resume ? VMM_REQUEST_RESUME : VMM_REQUEST_PAUSE;
	struct err err;

	if (monitor->phase != PHASE_CREATED && monitor->phase != PHASE_RUNNING)
		err_set(&err, ERR_NOT_RUNNING, "the container is not running");
	else if (start_timer(monitor, &err) == 0 && send_to_vmm(monitor, request, &err) == 0)
		pausing->asked = true;
	if (!pausing->asked)
		finish(monitor, &err);
}

/* Without an answer the questions are refused while it is paused. */
static void keep_processes(void *data, const char *text, const struct err *err)
{
	struct monitor *monitor = data;

	if (err)
		log_debug("%s", err->text);
	else
		monitor->pausing.processes = xstrdup(text);
	ask_vmm(monitor);
}

static void keep_stats(void *data, const char *text, const struct err *err)
{
	struct monitor *monitor = data;
	struct err reason;

	if (err)
		log_debug("%s", err->text);
	else
		monitor->pausing.stats = xstrdup(text);
	if (agent_processes(monitor->agent, monitor->container->id, ASK_TIMEOUT_MS, keep_processes,
			    monitor, &reason) < 0)
		keep_processes(monitor, NULL, &reason);
}

void pausing_begin(struct client *client, bool resume)
{
	struct monitor *monitor = client->monitor;
	struct pausing *pausing = &monitor->pausing;
	struct err reason;

	if (monitor->phase != PHASE_CREATED && monitor->phase != PHASE_RUNNING) {
		client_refuse(client, "the container is not running");
		return;
	}
	if (pausing->client) {
		client_refuse(client, "the container is being paused or resumed already");
		return;
	}
	if (pausing->paused != resume) { /* it is as it is to be */
		client_reply(client, NULL);
		return;
	}
	pausing->client = client;
	pausing->resume = resume;
	client->waiting = true;
	if (resume)
		ask_vmm(monitor);
	else if (agent_stats(monitor->agent, monitor->container->id, ASK_TIMEOUT_MS, keep_stats,
			     monitor, &reason) < 0)
		keep_stats(monitor, NULL, &reason);
}

void pausing_event(struct monitor *monitor, uint32_t type)
{
	if (!monitor->pausing.asked || monitor->pausing.resume != (type == VMM_EVENT_RESUMED))
		return; /* it came too late, or nobody had asked */
	monitor->pausing.paused = type == VMM_EVENT_PAUSED;
	finish(monitor, NULL);
}

void pausing_close(struct monitor *monitor)
{
	forget_answers(&monitor->pausing);
	if (monitor->pausing.timer.fd > 0)
		fd_replace(&monitor->pausing.timer.fd, -1);
}
