/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The host's side of hostile guests: a machine from its start to its end. */
#include "hostile_host.h"

#include "base/fd.h"
#include "virtio/memory.h"

#include <fcntl.h>
#include <linux/kvm.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LOG_MAX	   (4u << 10)  /* bytes of what a machine's processes say in its life */
#define GROWTH_MAX (24u << 10) /* KiB of its own, beside the guest's memory */

void machine_request(struct machine *machine, struct vmm_request message, int fd)
{
	/* One that has ended is found by its last event. */
	(void)fd_send(machine->control, &message, sizeof(message), &fd, fd >= 0);
	if (fd >= 0)
		close(fd);
}

/* Streams of each kind: sockets, pipes that are read, pipes that are written, a file. */
static void add_port(struct machine *machine, uint32_t port)
{
	struct vmm_request message = { .type = VMM_REQUEST_PORT_ADD, .port = port };
	int pair[2] = { -1, -1 }, *ours = &machine->ports[port - 1];

	fd_replace(ours, -1);
	switch (port % 4) {
	case 0:
		assert_int_equal(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
			0);
		message.flags = VMM_PORT_READ | VMM_PORT_WRITE | VMM_PORT_SOCKET;
		break;
	case 1:
		assert_int_equal(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
		message.flags = VMM_PORT_READ;
		break;
	case 2:
		assert_int_equal(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
		message.flags = VMM_PORT_WRITE;
		*ours = pair[0];
		pair[0] = pair[1];
		pair[1] = *ours;
		break;
	default:
		pair[0] = open("/dev/zero", O_RDWR | O_CLOEXEC);
		message.flags = VMM_PORT_READ | VMM_PORT_WRITE;
		break;
	}
	*ours = pair[1];
	machine_request(machine, message, pair[0]);
}

/* Of two queues. Fills the vmm's ends. */
static void start_disk(struct machine *machine, int ends[2])
{
	int image = machine->plan->image, keep[4];
	struct vmm_disk *disk = &machine->config.disk[0];

	image = image < 0 ? memfd_create("image", MFD_CLOEXEC) : fcntl(image, F_DUPFD_CLOEXEC, 3);
	assert_int_equal(ftruncate(image, SECTORS * DISK_SECTOR), 0);
	machine->disk = (struct diskd_config){ .memory_fd = machine->config.memory_fd,
					       .memory_size = MEMORY,
					       .queues = 2 };
	*disk = (struct vmm_disk){ .queues = 2, .sectors = SECTORS };
	machine->config.disks = 1;
	keep[0] = image;
	keep[1] = machine->config.memory_fd;
	for (int i = 0; i < 2; i++) {
		int pair[2];

		assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
		machine->disk.queue[i] = (struct diskd_queue){
			.vmm_fd = pair[1], .image_fd = image, .direct_fd = -1, .sectors = SECTORS
		};
		ends[i] = disk->fd[i] = pair[0];
		keep[2 + i] = pair[1];
	}
	machine_start_child(machine, ROLE_DISKD, keep, 4);
	close(keep[2]);
	close(keep[3]);
	close(image);
}

/* The first has two queues. */
static void add_net(struct machine *machine, uint32_t place)
{
	struct vmm_request message = { .type = VMM_REQUEST_NET_ADD, .port = place };
	int net[2], taps[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, net), 0);
	machine->nets[place] = net[0];
	taps[0] = net[1];
	taps[1] = dup(net[1]);
	(void)fd_send(machine->control, &message, sizeof(message), taps, place == 0 ? 2 : 1);
	close(taps[0]);
	close(taps[1]);
}

void machine_open(struct machine *machine, const struct plan *plan)
{
	int control[2], trees[2], queues[2], console[2], disk[2];
	struct err err;

	*machine = (struct machine){ .plan = plan, .log = memfd_create("log", MFD_CLOEXEC) };
	memset(machine->ports, -1, sizeof(machine->ports));
	machine_make_files(machine);
	assert_int_equal(fd_socketpair(SOCK_SEQPACKET, control), 0);
	assert_int_equal(fd_socketpair(SOCK_SEQPACKET, trees), 0);
	assert_int_equal(fd_socketpair(SOCK_SEQPACKET, queues), 0);
	assert_int_equal(pipe2(console, O_CLOEXEC), 0);
	machine->config = (struct vmm_config){
		.kvm_fd = open("/dev/kvm", O_RDWR | O_CLOEXEC),
		.memory_fd = guest_memory_create(MEMORY, &err),
		.memory_size = MEMORY,
		.vcpus = plan->vcpus,
		.kernel_fd = open(HOSTILE_GUEST, O_RDONLY | O_CLOEXEC),
		.initrd_fd = -1,
		.cmdline = plan->cmdline,
		.control_fd = control[1],
		.fs_fd = queues[0],
		.serial_fd = console[1],
		.nets = NETS + 1, /* one stays empty */
		.net_pairs = 2,
	};
	assert_true(machine->config.kvm_fd >= 0 && machine->config.kernel_fd >= 0);
	machine->fs = (struct fsd_config){ .vmm_fd = queues[1],
					   .monitor_fd = trees[1],
					   .memory_fd = machine->config.memory_fd,
					   .memory_size = MEMORY,
					   .request_queues = fsd_request_queues(plan->vcpus) };
	machine->control = control[0];
	machine->trees = trees[0];
	machine->console = console[0];
	fcntl(console[0], F_SETFL, O_NONBLOCK);
	machine_start_child(machine, ROLE_FSD,
			    (int[]){ queues[1], trees[1], machine->config.memory_fd }, 3);
	machine_give_tree(machine);
	start_disk(machine, disk);
	machine_start_child(machine, ROLE_VMM,
			    (int[]){ control[1], queues[0], console[1], machine->config.memory_fd,
				     machine->config.kvm_fd, machine->config.kernel_fd, disk[0],
				     disk[1] },
			    8);
	for (size_t i = 0; i < 8; i++)
		close((int[]){ control[1], queues[0], queues[1], trees[1], console[1],
			       machine->config.kernel_fd, disk[0], disk[1] }[i]);
	close(machine->config.kvm_fd);
	close(machine->config.memory_fd);
	for (uint32_t i = 0; i < NETS; i++)
		add_net(machine, i);
	for (uint32_t port = 1; port <= PORTS; port++)
		add_port(machine, port);
}

/* What the vmm took for itself, in KiB. */
static long own_memory(pid_t pid)
{
	char path[64], line[256];
	long size = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "RssAnon: %ld", &size);
	if (file)
		fclose(file);
	return size;
}

void machine_check_growth(const struct machine *machine)
{
	if (!SANITIZED)
		assert_in_range(own_memory(machine->vmm.pid), 0, GROWTH_MAX);
}

static void check_child(struct machine *machine, struct child *child, const char *name)
{
	int status;

	assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
	child->pid = 0;
	fd_replace(&child->pidfd, -1);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		machine_show_log(machine);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("the %s ended with status %#x", name, status);
}

/* The guest chooses how often it breaks a device, and so may not choose how much is said of it. */
static void check_log(struct machine *machine)
{
	off_t size = lseek(machine->log, 0, SEEK_END);

	if (size > LOG_MAX)
		fail_msg("the guest had %lld bytes logged", (long long)size);
	machine_show_log(machine);
}

void machine_close(struct machine *machine)
{
	if (!SANITIZED)
		assert_in_range(own_memory(machine->fsd.pid), 1, GROWTH_MAX);
	if (!SANITIZED)
		assert_in_range(own_memory(machine->diskd.pid), 0,
				GROWTH_MAX); /* 0: it has ended */
	check_child(machine, &machine->vmm, "vmm");
	check_child(machine, &machine->diskd, "disk server");
	close(machine->trees);
	check_child(machine, &machine->fsd, "file server");
	check_log(machine);
	close(machine->log);
	close(machine->control);
	close(machine->console);
	for (uint32_t i = 0; i < NETS; i++)
		close(machine->nets[i]);
	for (uint32_t i = 0; i < PORTS; i++)
		fd_replace(&machine->ports[i], -1);
	machine_check_files(machine);
}

bool machine_take_event(struct machine *machine)
{
	struct vmm_event event;

	if (fd_receive(machine->control, &event, sizeof(event), NULL, 0) != sizeof(event))
		fail_msg("the vmm is gone without a word");
	if (event.type == VMM_EVENT_PORT_CLOSED && event.port >= 1 && event.port <= PORTS) {
		machine->streams++;
		add_port(machine, event.port);
	}
	if (event.type != VMM_EVENT_ENDED)
		return true;
	if (event.end == VMM_END_ERROR)
		fail_msg("the vmm ended: %s", event.text);
	machine->ended = true;
	return false;
}

void machine_send(struct machine *machine)
{
	static char packet[2100];
	static unsigned int turn;

	turn++;
	for (uint32_t i = 0; i < NETS; i++)
		for (size_t size = 20; size < 2000; size += 333)
			(void)!send(machine->nets[i], packet, size + turn % 60, 0);
}

void machine_exchange(struct machine *machine)
{
	static char junk[70000];
	static unsigned int turn;

	turn++;
	machine_send(machine);
	for (uint32_t i = 0; i < NETS; i++)
		while (recv(machine->nets[i], junk, sizeof(junk), 0) > 0)
			machine->packets++;
	for (uint32_t i = 0; i < PORTS; i++) {
		if (machine->ports[i] < 0 || (turn + i) % 3)
			continue;
		(void)!read(machine->ports[i], junk, sizeof(junk));
		(void)!write(machine->ports[i], junk, 1 + turn % 3000);
		if (turn % 97 == i) /* gone */
			fd_replace(&machine->ports[i], -1);
	}
	while (read(machine->console, junk, sizeof(junk)) > 0)
		;
}

uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}
