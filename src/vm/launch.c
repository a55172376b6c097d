/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Starting a machine's processes. The vmm is first: what a guest waits for is its processors. One
 * that boots has no use for the servers of its files and disks for long, so they are started while
 * it does; one that comes out of a template asks for a file at once, so they start with the vmm.
 */
#include "vm/machine.h"

#include "base/fd.h"
#include "base/log.h"
#include "fs/fsd.h"
#include "oci/settings.h"
#include "virtio/memory.h"
#include "vm/rootless.h"
#include "vmm/vmm.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* The four that the vmm was made from, which nobody needs when it is there. */
void machine_close_parts(struct machine *machine)
{
	int *fds[] = { &machine->kvm_fd, &machine->kernel_fd, &machine->initrd_fd,
		       &machine->memory_fd };

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fd_replace(fds[i], -1);
}

void machine_close_ends(struct machine *machine)
{
	fd_replace(&machine->ends.control_fd, -1);
	fd_replace(&machine->ends.fs_fd, -1);
	disk_ends_close(&machine->ends.disks);
}

/* What the vmm is told; filled in before the fork, so that it is there in the child's copy. */
struct launch {
	struct machine *machine;
	int control_fd; /* to the monitor */
	int fs_fd;	/* to fsd */
	int serial_fd;
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
	const struct jail jail = { .role = ROLE_VMM,
				   .uid = machine->ends.uid,
				   .namespaces_of = JAIL_BORN_IN };
	struct vmm *vmm;

	disks_describe(&machine->disks, &machine->ends.disks, &config);
	vmm = set_up_vmm(machine, &config, &err);
	fd_replace(&template->dir_fd, -1);
	if (!vmm || jail_enter(&jail, &err) < 0 || vmm_start(vmm, &err) < 0) {
		spawn_ready(ready_fd, &err);
		return 1;
	}
	if (template->make_fd >= 0)
		make_template(machine, vmm, &config);
	machine_close_parts(machine);
	template_close(template);
	if (filter_load(ROLE_VMM, &err) < 0) {
		spawn_ready(ready_fd, &err);
		return 1;
	}
	spawn_ready(ready_fd, NULL);
	return vmm_run(vmm, &err) < 0 ? 1 : 0;
}

/* The descriptors that the vmm keeps of the monitor's. */
static int spawn_vmm(struct launch *launch, struct err *err)
{
	struct machine *machine = launch->machine;
	const struct template *template = &machine->template;
	const struct disk_ends *disks = &machine->ends.disks;
	int keep[10 + DISK_ENDS_MAX] = { launch->control_fd, launch->fs_fd,    launch->serial_fd,
					 machine->memory_fd, machine->kvm_fd,  machine->kernel_fd,
					 machine->initrd_fd, template->dir_fd, template->use_fd,
					 template->make_fd };

	memcpy(keep + 10, disks->vmm_fd, disks->count * sizeof(int));
	return spawn(&machine->vmm, ROLE_VMM, JAIL_NAMESPACES, keep, 10 + disks->count, vmm_body,
		     launch, err);
}

/*
 * The vmm's network namespace is held until all have ended: the kernel takes one down in a step
 * that KVM waits for when it takes down its machine.
 */
static int open_network(const struct child *vmm)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)vmm->pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int start_vmm(struct machine *machine, struct err *err)
{
	_cleanup_fd_ int control = -1, fs = -1, serial = -1;
	struct launch launch = { .machine = machine, .serial_fd = -1 };

	if (spawn_pair(&machine->vmm_fd, &control, err) < 0 ||
	    spawn_pair(&machine->fsd_fd, &machine->ends.control_fd, err) < 0 ||
	    spawn_pair(&fs, &machine->ends.fs_fd, err) < 0 ||
	    disks_pair(&machine->disks, &machine->ends.disks, err) < 0)
		return -1;
	if (machine->options->debug)
		serial = fcntl(log_fd() >= 0 ? log_fd() : STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	machine->ends.uid = rootless_jail_uid(JAIL_UID_BASE + (uid_t)getpid());
	launch.serial_fd = serial;
	launch.control_fd = control;
	launch.fs_fd = fs;
	if (spawn_vmm(&launch, err) < 0)
		return -1;
	machine->network_fd = open_network(&machine->vmm);
	return 0;
}

static int fsd_body(void *data, int ready_fd)
{
	struct machine *machine = data;
	struct fsd_config config = { .vmm_fd = machine->ends.fs_fd,
				     .monitor_fd = machine->ends.control_fd,
				     .memory_fd = machine->memory_fd,
				     .memory_size = machine->size.memory,
				     .request_queues = fsd_request_queues(machine->size.vcpus),
				     .watches_uid = machine->ends.uid };
	const struct jail jail = { .role = ROLE_FSD,
				   .uid = machine->ends.uid,
				   .capabilities = role_reach[ROLE_FSD].capabilities,
				   .namespaces_of = machine->vmm.pidfd };
	struct fsd *fsd;
	struct err err;

	fsd = fsd_setup(&config, &err);
	fd_replace(&machine->memory_fd, -1);
	if (!fsd || jail_enter(&jail, &err) < 0) {
		spawn_ready(ready_fd, &err);
		return 1;
	}
	fd_replace(&machine->vmm.pidfd, -1);
	if (fsd_enter(fsd, &err) < 0 || filter_load(ROLE_FSD, &err) < 0) {
		spawn_ready(ready_fd, &err);
		return 1;
	}
	spawn_ready(ready_fd, NULL);
	if (fsd_run(fsd, &err) == 0)
		return 0;
	log_error("the file server ended: %s", err.text);
	return 1;
}

/* Each sets itself up while the others do. */
static int start_servers(struct machine *machine, struct err *err)
{
	const struct jail jail = { .role = ROLE_DISKD,
				   .uid = rootless_jail_uid(JAIL_UID_BASE + JAIL_UID_SECOND +
							    (uid_t)getpid()),
				   .namespaces_of = machine->vmm.pidfd };
	const int keep[] = { machine->ends.control_fd, machine->ends.fs_fd, machine->memory_fd,
			     machine->vmm.pidfd };
	int r;

	r = spawn(&machine->fsd, ROLE_FSD, 0, keep, ARRAY_LEN(keep), fsd_body, machine, err);
	if (r == 0)
		r = disks_start(&machine->disks, &machine->diskd, &jail, machine->memory_fd,
				machine->size.memory, &machine->ends.disks, err);
	machine_close_ends(machine);
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
	    start_vmm(machine, err) < 0 ||
	    (machine->template.use_fd >= 0 && start_servers(machine, err) < 0) ||
	    machine_add_ports(machine, err) < 0)
		return -1;
	return spawn_wait_ready(&machine->vmm, ROLE_VMM, err);
}

int machine_serve(struct machine *machine, struct err *err)
{
	if ((!machine->fsd.pid && start_servers(machine, err) < 0) ||
	    spawn_wait_ready(&machine->fsd, ROLE_FSD, err) < 0 || send_trees(machine, err) < 0 ||
	    (machine->diskd.pid && spawn_wait_ready(&machine->diskd, ROLE_DISKD, err) < 0))
		return -1;
	template_settle(&machine->template, machine);
	machine_close_parts(machine);
	disks_close_files(&machine->disks);
	if (machine->stdio.terminal) /* kept until its port is closed, to ask for its size */
		return stdio_watch_size(machine->stdio.stream[0].fd, err);
	stdio_close(&machine->stdio); /* the vmm's alone, so that ends of streams are seen */
	return 0;
}
