/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a machine is made from, and its processes beside the monitor. */
#include "vm/machine.h"

#include "base/fd.h"
#include "base/log.h"
#include "fs/fsd.h"
#include "virtio/memory.h"
#include "vm/host.h"
#include "vm/rootless.h"
#include "vm/start.h"
#include "vmm/initramfs.h"
#include "vmm/kvm_probe.h"
#include "vmm/vmm.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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

/* The four that the vmm was made from, which nobody needs when it is there. */
static void close_parts(struct machine *machine)
{
	int *fds[] = { &machine->kvm_fd, &machine->kernel_fd, &machine->initrd_fd,
		       &machine->memory_fd };

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fd_replace(fds[i], -1);
}

/* What a child is told; filled in before the fork, so that it is there in the child's copy. */
struct launch {
	struct machine *machine;
	int control_fd;		/* to the monitor */
	int fs_fd;		/* between vmm and fsd */
	struct disk_ends disks; /* likewise of diskd */
	int serial_fd;
	uid_t uid; /* the vmm's; fsd stays who it is */
};

/* A template that turns out to be none costs the time to look at it, nothing else. */
static struct vmm *set_up_vmm(struct machine *machine, struct vmm_config *config, struct err *err)
{
	struct vmm *vmm = vmm_setup(config, err);

	if (vmm || config->template_fd < 0)
		return vmm;
	log_debug("%s", err->text);
	template_discard(&machine->template);
	config->template_fd = -1;
	return guest_memory_clear(machine->memory_fd, err) < 0 ? NULL : vmm_setup(config, err);
}

static void make_template(struct machine *machine, struct vmm *vmm, const struct vmm_config *config)
{
	struct err err;

	if (vmm_make_template(vmm, config, machine->template.make_fd, &err) < 0)
		log_debug("%s", err.text);
}

static int vmm_body(void *data, int ready_fd)
{
	struct launch *launch = data;
	struct machine *machine = launch->machine;
	struct template *template = &machine->template;
	struct err err;
	struct vmm_config config = { .kvm_fd = machine->kvm_fd,
				     .memory_fd = machine->memory_fd,
				     .memory_size = machine->size.memory,
				     .vcpus = machine->size.vcpus,
				     .kernel_fd = machine->kernel_fd,
				     .initrd_fd = machine->initrd_fd,
				     .kernel_name = machine->kernel_path,
				     .initrd_name = machine->initrd_path,
				     .cmdline = machine->cmdline,
				     .control_fd = launch->control_fd,
				     .fs_fd = launch->fs_fd,
				     .serial_fd = launch->serial_fd,
				     .keep_memory = machine->container->settings->hugepages,
				     .nets = machine->nets,
				     .net_pairs = sizing_queues(machine->size.vcpus),
				     .template_key = template->key,
				     .template_key_size = template->key_size,
				     .boot_patience = machine->container->settings->guest_timeout,
				     .template_fd = template->use_fd };
	struct jail jail = { .role = ROLE_VMM,
			     .uid = launch->uid,
			     .namespaces_of = machine->fsd.pidfd };
	struct vmm *vmm;

	disks_describe(&machine->disks, &launch->disks, &config);
	vmm = set_up_vmm(machine, &config, &err);
	fd_replace(&template->dir_fd, -1);
	if (!vmm || jail_enter(&jail, &err) < 0 || vmm_start(vmm, &err) < 0) {
		spawn_ready(ready_fd, &err);
		return 1;
	}
	fd_replace(&machine->fsd.pidfd, -1);
	if (template->make_fd >= 0)
		make_template(machine, vmm, &config);
	close_parts(machine);
	template_close(template);
	if (filter_load(ROLE_VMM, &err) < 0) {
		spawn_ready(ready_fd, &err);
		return 1;
	}
	spawn_ready(ready_fd, NULL);
	return vmm_run(vmm, &err) < 0 ? 1 : 0;
}

static int fsd_body(void *data, int ready_fd)
{
	struct launch *launch = data;
	struct fsd_config config = { .vmm_fd = launch->fs_fd,
				     .monitor_fd = launch->control_fd,
				     .memory_fd = launch->machine->memory_fd,
				     .memory_size = launch->machine->size.memory,
				     .request_queues =
					     fsd_request_queues(launch->machine->size.vcpus),
				     .watches_uid = launch->uid };
	struct jail jail = { .role = ROLE_FSD,
			     .uid = launch->uid,
			     .capabilities = role_reach[ROLE_FSD].capabilities,
			     .namespaces_of = JAIL_BORN_IN };
	struct fsd *fsd;
	struct err err;

	fsd = fsd_setup(&config, &err);
	fd_replace(&launch->machine->memory_fd, -1);
	if (!fsd || jail_enter(&jail, &err) < 0 || fsd_enter(fsd, &err) < 0 ||
	    filter_load(ROLE_FSD, &err) < 0) {
		spawn_ready(ready_fd, &err);
		return 1;
	}
	spawn_ready(ready_fd, NULL);
	if (fsd_run(fsd, &err) == 0)
		return 0;
	log_error("the file server ended: %s", err.text);
	return 1;
}

/* The descriptors that the vmm keeps of the monitor's. */
static int spawn_vmm(struct launch *launch, struct err *err)
{
	struct machine *machine = launch->machine;
	const struct template *template = &machine->template;
	int keep[11 + DISK_ENDS_MAX] = { launch->control_fd, launch->fs_fd,	launch->serial_fd,
					 machine->memory_fd, machine->kvm_fd,	machine->kernel_fd,
					 machine->initrd_fd, template->dir_fd,	template->use_fd,
					 template->make_fd,  machine->fsd.pidfd };

	memcpy(keep + 11, launch->disks.fd, launch->disks.count * sizeof(int));
	return spawn(&machine->vmm, ROLE_VMM, 0, keep, 11 + launch->disks.count, vmm_body, launch,
		     err);
}

/* Forks them; each sets itself up while the others do. */
static int start_children(struct machine *machine, struct err *err)
{
	_cleanup_fd_ int vmm_end = -1, fsd_end = -1, fs_vmm = -1, fs_fsd = -1, serial = -1;
	struct launch launch = { .machine = machine,
				 .serial_fd = -1,
				 .uid = rootless_jail_uid(JAIL_UID_BASE + (uid_t)getpid()) };
	struct jail disks_jail = { .role = ROLE_DISKD };
	int r;

	if (spawn_pair(&machine->vmm_fd, &vmm_end, err) < 0 ||
	    spawn_pair(&machine->fsd_fd, &fsd_end, err) < 0 ||
	    spawn_pair(&fs_vmm, &fs_fsd, err) < 0)
		return -1;
	if (machine->options->debug) {
		serial = fcntl(log_fd() >= 0 ? log_fd() : STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
		launch.serial_fd = serial;
	}
	launch.control_fd = fsd_end;
	launch.fs_fd = fs_fsd;
	if (spawn(&machine->fsd, ROLE_FSD, JAIL_NAMESPACES,
		  (int[]){ fsd_end, fs_fsd, machine->memory_fd }, 3, fsd_body, &launch, err) < 0)
		return -1;
	disks_jail.uid = rootless_jail_uid(JAIL_UID_BASE + JAIL_UID_SECOND + (uid_t)getpid());
	disks_jail.namespaces_of = machine->fsd.pidfd;
	r = disks_start(&machine->disks, &machine->diskd, &disks_jail, machine->memory_fd,
			machine->size.memory, &launch.disks, err);
	launch.control_fd = vmm_end;
	launch.fs_fd = fs_vmm;
	if (r == 0)
		r = spawn_vmm(&launch, err);
	disk_ends_close(&launch.disks);
	return r;
}

static int send_tree(struct machine *machine, uint32_t index, struct err *err)
{
	const struct tree *tree = &machine->trees.tree[index];
	struct fs_tree_add message = { .index = index,
				       .flags = tree->read_only ? FS_TREE_READ_ONLY : 0 };

	if (index > 0) /* not the container's own root */
		message.flags |= FS_TREE_SHARED;
	if (fd_send(machine->fsd_fd, &message, sizeof(message), &tree->fd, 1) < 0)
		return err_set(err, errno, "give directory %u to the file server", index);
	return 0;
}

/* Gives fsd the trees, and waits for each answer: the guest may look for them at once. */
static int send_trees(struct machine *machine, struct err *err)
{
	struct fs_tree_add answer;

	for (uint32_t i = 0; i < machine->trees.count; i++) {
		if (machine->trees.tree[i].fd < 0) /* the root, where it is a disk */
			continue;
		if (send_tree(machine, i, err) < 0)
			return -1;
		if (fd_receive(machine->fsd_fd, &answer, sizeof(answer), NULL, 0) !=
			    (ssize_t)sizeof(answer) ||
		    answer.index != i)
			return err_set(err, 0, "give directory %u to the file server: it refused",
				       i);
	}
	return 0;
}

int machine_launch(struct machine *machine, struct err *err)
{
	const struct container *container = machine->container;

	template_open(&machine->template, machine);
	machine->memory_fd = container->settings->hugepages
				     ? guest_memory_create_huge(machine->size.memory, err)
				     : guest_memory_create(machine->size.memory, err);
	if (machine->memory_fd < 0 ||
	    trees_open(&machine->trees, container->config, container->bundle, err) < 0 ||
	    stdio_open(&machine->stdio, container->config->process,
		       machine->options->console_socket, VMM_PORT_FIRST, err) < 0 ||
	    start_children(machine, err) < 0 || machine_add_ports(machine, err) < 0 ||
	    spawn_wait_ready(&machine->fsd, ROLE_FSD, err) < 0 || send_trees(machine, err) < 0 ||
	    (machine->diskd.pid && spawn_wait_ready(&machine->diskd, ROLE_DISKD, err) < 0) ||
	    spawn_wait_ready(&machine->vmm, ROLE_VMM, err) < 0)
		return -1;
	template_settle(&machine->template, machine);
	close_parts(machine);
	disks_close_files(&machine->disks);
	if (machine->stdio.terminal) /* kept until its port is closed, to ask for its size */
		return stdio_watch_size(machine->stdio.stream[0].fd, err);
	stdio_close(&machine->stdio); /* the vmm's alone, so that ends of streams are seen */
	return 0;
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
	close_parts(machine);
	template_close(&machine->template);
	free(machine->cmdline);
	machine->cmdline = NULL;
}
