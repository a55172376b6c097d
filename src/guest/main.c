/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * /init of the guest: brings the machine up, serves the monitor, and ends the machine with it. It
 * runs as root outside of every container, and takes orders from the host alone.
 */
#include "base/fd.h"
#include "base/log.h"
#include "guest/agent.h"
#include "guest/boot.h"
#include "guest/network.h"
#include "guest/repeat.h"
#include "guest/reporting.h"
#include "guest/vsock.h"
#include "vmm/vmm.h"

static const struct machine guest = {
	.trees = BOOT_TREES,
	.cgroup = BOOT_CGROUP,
	.connect = vsock_begin,
	.connected = vsock_finish,
	.greet = greet,
	.network = guest_network_make,
	.repeat = repeat_start,
	.settle = boot_settle,
};

static int serve(struct agent *agent, struct err *err)
{
	_cleanup_fd_ int control = -1;
	struct reporting reporting;

	/*
	 * The machine may be saved when it first speaks, and start again from there many times
	 * (vmm/making.c): everything that does not depend on the container comes before, and the
	 * file server is not spoken to until the host has answered.
	 */
	if (boot_mounts(err) < 0 || boot_protect(err) < 0 || boot_memory(err) < 0 ||
	    boot_loopback(err) < 0 || agent_init(agent, &guest, err) < 0)
		return -1;
	boot_tidy();
	control = vsock_begin(VMM_PORT_CONTROL, err);
	if (control < 0 || vsock_finish(control, VMM_PORT_CONTROL, err) < 0 ||
	    boot_trees(err) < 0 || agent_serve(agent, fd_steal(&control), err) < 0 ||
	    reporting_start(&reporting, &agent->loop, err) < 0)
		return -1;
	return loop_run(&agent->loop, err);
}

int main(void)
{
	struct agent agent;
	struct err err;

	boot_streams();
	boot_modules();
	if (serve(&agent, &err) < 0)
		log_error("the guest's agent failed: %s", err.text);
	boot_settle();
	boot_end();
}
