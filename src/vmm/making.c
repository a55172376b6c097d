/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Making a template: the guest boots until it first speaks, that is, until its first packet waits
 * in the socket device's queue, where it is left. The guest has heard nothing of its container by
 * then, nor from anyone but the operator: what it is made of is the operator's kernel and init. So
 * this happens before the seccomp filter, which has no calls to save a machine with. From then on
 * no vCPU runs until that filter is loaded.
 *
 * The first packet needs no agreement with the guest: it comes from each that is to be of any use,
 * once, and means nothing afterwards.
 */
#include "vmm/snapshot.h"

#include "base/fd.h"
#include "base/mem.h"
#include "vmm/machine.h"
#include "vmm/vsock.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

#define PATIENCE_S 30u

struct making {
	struct vmm *vmm;
	struct source timer;
	bool late;
};

static int out_of_time(struct source *source, uint32_t events, struct err *err)
{
	struct making *making = source->data;

	loop_forget(&making->vmm->loop, source);
	making->late = true;
	vcpus_command(making->vmm, RUN_PAUSE);
	return 0;
}

static int watch_time(struct making *making, uint32_t patience, struct err *err)
{
	const struct itimerspec when = { .it_value.tv_sec = patience && patience < PATIENCE_S
								    ? patience
								    : PATIENCE_S };

	making->timer = (struct source){ .ready = out_of_time, .data = making };
	making->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (making->timer.fd < 0 || timerfd_settime(making->timer.fd, 0, &when, NULL) < 0)
		return err_set(err, errno, "make a timer");
	return loop_watch(&making->vmm->loop, &making->timer, EPOLLIN, err);
}

/* The loop ends when all vCPUs stand still, or with the machine. */
static int boot(struct making *making, uint32_t patience, struct err *err)
{
	struct vmm *vmm = making->vmm;
	int r;

	if (watch_time(making, patience, err) < 0)
		return -1;
	loop_forget(&vmm->loop, &vmm->control);
	vsock_hold(vmm->vsock, true);
	vmm->making = true;
	vcpus_command(vmm, RUN_GO);
	r = loop_run(&vmm->loop, err);
	loop_forget(&vmm->loop, &making->timer);
	if (r < 0)
		machine_end(vmm, VMM_END_ERROR, "%s", err->text);
	if (r < 0 || vmm->end)
		return err_set(err, 0,
			       "the machine ended while it booted"); /* vmm_run() says why */
	vsock_hold(vmm->vsock, false);
	vmm->making = false;
	vmm->again = true;
	vmm->loop.quit = false;
	if (loop_watch(&vmm->loop, &vmm->control, EPOLLIN, err) < 0)
		machine_end(vmm, VMM_END_ERROR, "%s", err->text);
	return making->late ? err_set(err, ETIMEDOUT, "wait for the guest's first word") : 0;
}

int vmm_make_template(struct vmm *vmm, const struct vmm_config *config, int fd, struct err *err)
{
	struct making making = { .vmm = vmm, .timer.fd = -1 };
	int r = boot(&making, config->boot_patience, err);

	fd_replace(&making.timer.fd, -1);
	if (r == 0)
		r = machine_save(vmm, config, fd, err);
	return r < 0 ? err_wrap(err, "make a template") : 0;
}
