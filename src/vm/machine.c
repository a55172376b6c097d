/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a machine is made from, and its processes beside the monitor. */
#include "vm/machine.h"

#include "base/fd.h"
#include "base/log.h"
#include "vm/host.h"
#include "vm/start.h"
#include "vmm/initramfs.h"
#include "vmm/kvm_probe.h"
#include "vmm/vmm.h"

#include <fcntl.h>
#include <sys/stat.h>

/*
 * Beside what the VMM asks for: no probing of devices that are not there (an i8042 alone can cost
 * hundreds of milliseconds), fast grace periods, random numbers from the processor.
 */
#define CMDLINE                                                                                    \
	"i8042.noaux i8042.nomux i8042.dumbkbd swiotlb=noforce rcupdate.rcu_expedited=1 "          \
	"cryptomgr.notests random.trust_cpu=on rootfstype=ramfs"
#define CMDLINE_QUIET "quiet loglevel=0"
#define CMDLINE_DEBUG "loglevel=7"

#define HINT_INIT                                                                                  \
	"install it (agent.cpio, made by the build), or name it in /etc/moat/moat.json as "        \
	"\"init\""

/* A KVM that needs no hardware is asked whether it can boot a kernel: it would take seconds to
 * fail. */
static int open_kvm(struct err *err)
{
	_cleanup_fd_ int fd = kvm_open(err);

	if (fd >= 0 && kvm_is_emulated() && kvm_probe(fd, err) < 0)
		return -1;
	return fd_steal(&fd);
}

static int open_image(const char *path, const char *what, const char *hint, struct err *err)
{
	/* O_NONBLOCK: a FIFO there shall be an error, and not wait for a writer. */
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0) {
		err_set(err, errno, "open the %s %s", what, path);
		return err_hint(err, "%s", hint);
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, 0, "open the %s %s: it is not a regular file", what, path);
	return fd_steal(&fd);
}

/* A kernel that cannot read its init panics, and says so only on its console. */
static int check_init(int fd, const char *path, const char *hint, struct err *err)
{
	unsigned char head[INITRAMFS_MAGIC_MAX];
	ssize_t n = pread(fd, head, sizeof(head), 0);

	if (n < 0)
		return err_set(err, errno, "read the guest's init %s", path);
	if (initramfs_is(head, (size_t)n))
		return 0;
	err_set(err, 0, "use the guest's init %s: it is not an initramfs (a cpio archive)", path);
	return err_hint(err, "%s", hint);
}

static char *make_cmdline(const struct machine *machine)
{
	const struct oci_vm *vm = machine->container->config->vm;
	char *cmdline = xasprintf("%s %s", CMDLINE,
				  machine->options->debug ? CMDLINE_DEBUG : CMDLINE_QUIET);

	for (size_t i = 0; vm && vm->kernel && i < vm->kernel->n_parameters; i++) {
		char *longer = xasprintf("%s %s", cmdline, vm->kernel->parameters[i]);

		free(cmdline);
		cmdline = longer;
	}
	return cmdline;
}

int machine_open(struct machine *machine, const struct container *container,
		 const struct create_options *options, struct err *err)
{
	const struct moat_settings *settings = container->settings;
	const struct oci_vm *vm = container->config->vm;

	*machine = (struct machine){ .container = container,
				     .options = options,
				     .kernel_path = settings->kernel,
				     .initrd_path = settings->init,
				     .kvm_fd = -1,
				     .kernel_fd = -1,
				     .initrd_fd = -1,
				     .memory_fd = -1,
				     .vmm_fd = -1,
				     .fsd_fd = -1,
				     .agent_fd = -1,
				     .network_fd = -1,
				     .ends = { .control_fd = -1, .fs_fd = -1 },
				     .template = TEMPLATE_NONE,
				     .vmm = { .pidfd = -1, .ready_fd = -1 },
				     .fsd = { .pidfd = -1, .ready_fd = -1 },
				     .diskd = { .pidfd = -1, .ready_fd = -1 } };
	for (int i = 0; i < 3; i++)
		machine->stdio.stream[i].fd = -1;
	if (vm && vm->hypervisor)
		return err_set(err, 0, "vm.hypervisor: moat has its own; remove it");
	if (vm && vm->kernel && !settings->bundle_kernel) {
		err_set(err, 0, "vm.kernel: a bundle may not choose the guest's kernel");
		return err_hint(err, "remove it, or set \"bundleKernel\" in /etc/moat/moat.json");
	}
	if (vm && vm->kernel) {
		machine->kernel_path = vm->kernel->path;
		if (vm->kernel->initrd)
			machine->initrd_path = vm->kernel->initrd;
	}
	if (host_check(container->config, err) < 0 ||
	    sizing_check_memory(container->config, settings, sizing_host_memory(), err) < 0 ||
	    sizing_choose(container->config, settings, &machine->size, err) < 0 ||
	    disks_open(&machine->disks, container->config, settings, machine->size.vcpus, err) < 0)
		return -1;
	machine->cmdline = make_cmdline(machine);
	machine->nets = start_has_network(container->config) ? VMM_NETS_MAX : 0;
	machine->kernel_fd = open_image(machine->kernel_path, "guest kernel",
					"build one with contrib/kernel/build, or name one in "
					"/etc/moat/moat.json as \"kernel\"",
					err);
	if (machine->kernel_fd < 0)
		return -1;
	machine->initrd_fd = open_image(machine->initrd_path, "guest's init", HINT_INIT, err);
	if (machine->initrd_fd < 0 ||
	    check_init(machine->initrd_fd, machine->initrd_path, HINT_INIT, err) < 0)
		return -1;
	machine->kvm_fd = open_kvm(err);
	return machine->kvm_fd < 0 ? -1 : 0;
}

void machine_close(struct machine *machine)
{
	int *fds[] = { &machine->vmm_fd, &machine->fsd_fd, &machine->agent_fd };
	struct child *children[] = { &machine->vmm, &machine->fsd, &machine->diskd };

	for (size_t i = 0; i < ARRAY_LEN(children); i++)
		spawn_kill(children[i]);
	for (size_t i = 0; i < ARRAY_LEN(children); i++)
		spawn_end(children[i]);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fd_replace(fds[i], -1);
	disks_close(&machine->disks);
	trees_close(&machine->trees);
	stdio_close(&machine->stdio);
	machine_close_parts(machine);
	fd_replace(&machine->network_fd, -1);
	machine_close_ends(machine);
	template_close(&machine->template);
	free(machine->cmdline);
	machine->cmdline = NULL;
}
