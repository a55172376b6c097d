/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The host's side of hostile guests. */
#include "hostile_host.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/path.h"
#include "virtio/memory.h"
#include "vmm/x86/x86.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/kvm.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

#define MEMORY	   (32ull << 20)
#define LOG_MAX	   (4u << 10)  /* bytes of what a machine's processes say in its life */
#define KEPT	   9u	       /* descriptors of a child, at most */
#define GROWTH_MAX (24u << 10) /* KiB of its own, beside the guest's memory */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __real_ioctl(int fd, unsigned long request, void *argument);

/* The network's other ends are sockets, which keep packets apart as a tap does. */
int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
	if (request == TUNSETOFFLOAD || request == TUNSETQUEUE)
		return 0;
	return __real_ioctl(fd, request, argument);
}

int __wrap_x86_vcpu_setup(int vcpu_fd, const struct kvm_cpuid2 *cpuid, bool boot, uint64_t entry,
			  struct err *err);
int __real_x86_vcpu_setup(int vcpu_fd, const struct kvm_cpuid2 *cpuid, bool boot, uint64_t entry,
			  struct err *err);

/*
 * Further vCPUs begin where the first does: what a guest would need to wake them up from real mode
 * is many instructions which a KVM without hardware emulates, and no part of what is tried here.
 */
int __wrap_x86_vcpu_setup(int vcpu_fd, const struct kvm_cpuid2 *cpuid, bool boot, uint64_t entry,
			  struct err *err)
{
	struct kvm_mp_state runs = { .mp_state = KVM_MP_STATE_RUNNABLE };

	if (__real_x86_vcpu_setup(vcpu_fd, cpuid, true, entry, err) < 0)
		return -1;
	if (ioctl(vcpu_fd, KVM_SET_MP_STATE, &runs) < 0)
		return err_set(err, errno, "let a vCPU run");
	return 0;
}

static bool jailed(void)
{
	return geteuid() == 0 && !SANITIZED;
}

static int enter(enum role role, uint64_t capabilities, struct err *err)
{
	struct jail jail = { role, JAIL_UID_BASE + 9, capabilities };

	return jailed() ? jail_enter(&jail, err) : 0;
}

static int fail_child(const struct err *err)
{
	dprintf(2, "%s\n", err->text);
	return 3;
}

/* A crash is to end the process, not to go on with the tests in it; what it says is counted. */
static void leave_tests(const struct machine *machine)
{
	static const int crashes[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS, SIGABRT };

	for (size_t i = 0; i < ARRAY_LEN(crashes) && !SANITIZED; i++)
		signal(crashes[i], SIG_DFL);
	dup2(machine->log, STDERR_FILENO);
	close(machine->log);
}

static int vmm_body(void *data, int ready_fd)
{
	struct machine *machine = data;
	struct err err;
	struct vmm *vmm = vmm_setup(&machine->config, &err);

	leave_tests(machine);
	if (!vmm || enter(ROLE_VMM, 0, &err) < 0 || vmm_start(vmm, &err) < 0 ||
	    (jailed() && filter_load(ROLE_VMM, &err) < 0))
		return fail_child(&err);
	spawn_ready(ready_fd, NULL);
	return vmm_run(vmm, &err) < 0 ? fail_child(&err) : 0;
}

static int fsd_body(void *data, int ready_fd)
{
	struct machine *machine = data;
	struct err err;
	struct fsd *fsd = fsd_setup(&machine->fs, &err);

	leave_tests(machine);
	if (!fsd || enter(ROLE_FSD, role_reach[ROLE_FSD].capabilities, &err) < 0 ||
	    (jailed() && (fsd_enter(fsd, &err) < 0 || filter_load(ROLE_FSD, &err) < 0)))
		return fail_child(&err);
	spawn_ready(ready_fd, NULL);
	return fsd_run(fsd, &err) < 0 ? fail_child(&err) : 0;
}

static int diskd_body(void *data, int ready_fd)
{
	struct machine *machine = data;
	struct err err;
	struct diskd *diskd = diskd_setup(&machine->disk, &err);

	leave_tests(machine);
	if (!diskd || enter(ROLE_DISKD, 0, &err) < 0 || diskd_start(diskd, &err) < 0 ||
	    (jailed() && filter_load(ROLE_DISKD, &err) < 0))
		return fail_child(&err);
	spawn_ready(ready_fd, NULL);
	return diskd_run(diskd, &err) < 0 ? fail_child(&err) : 0;
}

static void show_log(const struct machine *machine)
{
	char text[4096];
	ssize_t n;

	lseek(machine->log, 0, SEEK_SET);
	while ((n = read(machine->log, text, sizeof(text))) > 0)
		(void)!write(STDERR_FILENO, text, (size_t)n);
}

/* Without root there are no namespaces to be had. */
static void start_child(struct machine *machine, struct child *child, enum role role,
			const int *given, size_t count, int (*body)(void *data, int ready_fd))
{
	struct err err = { 0 };
	int pair[2], keep[KEPT] = { machine->log };

	memcpy(keep + 1, given, count++ * sizeof(int));
	*child = (struct child){ .pidfd = -1, .ready_fd = -1 };
	if (jailed()) {
		if (spawn(child, role, keep, count, body, machine, &err) < 0)
			fail_msg("%s", err.text);
	} else {
		assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
		child->pid = fork();
		if (child->pid == 0) {
			int all[KEPT + 1] = { pair[1] };

			memcpy(all + 1, keep, count * sizeof(int));
			fd_close_except(3, all, count + 1);
			_exit(body(machine, pair[1]));
		}
		close(pair[1]);
		child->ready_fd = pair[0];
	}
	if (spawn_wait_ready(child, role, &err) < 0) {
		show_log(machine);
		fail_msg("%s", err.text);
	}
}

void machine_make_files(struct machine *machine)
{
	int directory;

	if (machine->plan->directory) {
		snprintf(machine->directory, sizeof(machine->directory), "%s",
			 machine->plan->directory);
		return;
	}
	snprintf(machine->directory, sizeof(machine->directory), "/tmp/moat-hostile.XXXXXX");
	assert_non_null(mkdtemp(machine->directory));
	directory = open(machine->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(directory, "tree", 0777), 0);
	assert_int_equal(file_replace(directory, "outside", "secret", 6, 0644, NULL), 0);
	assert_int_equal(file_replace(directory, "tree/file", "contents", 8, 0644, NULL), 0);
	assert_int_equal(symlinkat("../outside", directory, "tree/link"), 0);
	assert_int_equal(mkfifoat(directory, "tree/fifo", 0666), 0);
	close(directory);
}

void machine_check_files(struct machine *machine)
{
	char path[100];
	char *text;

	snprintf(path, sizeof(path), "%s/outside", machine->directory);
	text = file_read(AT_FDCWD, path, 100, NULL, NULL);
	assert_non_null(text);
	assert_string_equal(text, "secret");
	free(text);
	snprintf(path, sizeof(path), "%s/made", machine->directory);
	assert_int_equal(access(path, F_OK), -1);
	if (machine->plan->directory)
		return;
	assert_int_equal(path_remove_tree(AT_FDCWD, machine->directory, NULL), 0);
}

static void give_tree(struct machine *machine)
{
	struct fs_tree_add add = { .index = 0 };
	char path[100];
	int tree;

	snprintf(path, sizeof(path), "%s/tree", machine->directory);
	tree = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fd_send(machine->trees, &add, sizeof(add), &tree, 1), 0);
	assert_int_equal(read(machine->trees, &add, sizeof(add)), sizeof(add));
	assert_int_equal(add.index, 0);
	close(tree);
}

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
	start_child(machine, &machine->diskd, ROLE_DISKD, keep, 4, diskd_body);
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
	start_child(machine, &machine->fsd, ROLE_FSD,
		    (int[]){ queues[1], trees[1], machine->config.memory_fd }, 3, fsd_body);
	give_tree(machine);
	start_disk(machine, disk);
	start_child(machine, &machine->vmm, ROLE_VMM,
		    (int[]){ control[1], queues[0], console[1], machine->config.memory_fd,
			     machine->config.kvm_fd, machine->config.kernel_fd, disk[0], disk[1] },
		    8, vmm_body);
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
		show_log(machine);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("the %s ended with status %#x", name, status);
}

/* The guest chooses how often it breaks a device, and so may not choose how much is said of it. */
static void check_log(struct machine *machine)
{
	off_t size = lseek(machine->log, 0, SEEK_END);

	if (size > LOG_MAX)
		fail_msg("the guest had %lld bytes logged", (long long)size);
	show_log(machine);
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
