/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hostile guests (hostile_guest.c) in machines with all devices, a file server, a disk and peers
 * for their network and streams. The guest may end its machine; the vmm, fsd and diskd may not
 * crash, leave their jail (where they are in it: as root, without sanitizers), grow, fill the log,
 * or stop listening to the monitor.
 *
 * Attacks on VMMs that others met, by the number that the guest has for each, and what does them:
 *
 *  1 descriptors beyond memory            attack_descriptors    test_virtqueue.c, fuzz_virtqueue
 *    (CVE-2019-18960)
 *  2 a console that nobody reads          test_vmm.c: survives_a_flood; test_vsock.c: a flood of
 *    (CVE-2020-27174)                     what must be answered
 *  3 no buffers to receive into           attack_starved        test_net.c, test_vsock.c
 *    (CVE-2020-16843)
 *  4 registers after DRIVER_OK            attack_registers      test_mmio.c
 *    (CVE-2026-5747)
 *  5 planted links (CVE-2026-1386)        attack_links          test_jail.c: the jail has no
 *                                                               directory, its root is a new tmpfs
 *  6 resets with requests under way       attack_resets         test_mmio.c, test_fsd.c
 *    (CVE-2026-45782)
 *  7 a disk's rewritten header            attack_disk_header    test_vm_storage.py: only raw images
 *    (GHSA-jmr4-g2hv-mjj6)
 *  8 configuration and numbers out of     attack_ranges         test_mmio.c
 *    range (CVE-2021-45464)
 *  9 names, devices, links and handles    attack_files          test_fs_attacks.c, fuzz_fuse; the
 *    (CVE-2020-35517, CVE-2020-10717,                           attributes that a write clears:
 *    CVE-2021-20263, CVE-2022-0358)                             test_fs_attacks.c, test_fs.py
 * 10 writes to a shared, read-only part   attack_constants
 *    (CVE-2026-24834)
 * 11 rings that jump, loop or overlap     attack_rings          test_virtqueue.c
 * 12 sectors that are not there           attack_sectors        test_disk.c
 * 13 to 15 the same by vCPUs at once      race_rings, race_resets, race_registers
 *  0 anything                             random_guest, random_guests (two vCPUs)
 *
 * Those on OCI runtimes are in tests/integration/test_attacks.py.
 */
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "disk/diskd.h"
#include "fs/fsd.h"
#include "virtio/memory.h"
#include "vm/spawn.h"
#include "vmm/vmm.h"
#include "vmm/x86/x86.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/kvm.h>
#include <poll.h>
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
#define NETS	   2u
#define PORTS	   8u
#define SECTORS	   2048u
#define LOG_MAX	   (4u << 10)  /* bytes of what a machine's processes say in its life */
#define KEPT	   8u	       /* descriptors of a child, at most */
#define QUIET_MS   30000       /* the vmm answers within this, or it hangs */
#define GROWTH_MAX (24u << 10) /* KiB of its own, beside the guest's memory */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

/* What machines may have in common, and what they differ in. */
struct plan {
	const char *cmdline;
	unsigned int vcpus;
	const char *directory; /* NULL: one of its own */
	int image;	       /* -1: one of its own */
};

struct machine {
	const struct plan *plan;
	struct vmm_config config;
	struct fsd_config fs;
	struct diskd_config disk;
	struct child vmm, fsd, diskd;
	int control, trees, console; /* our ends */
	int nets[NETS], ports[PORTS];
	char directory[64];
	int log; /* what all three write to standard error */
	bool ended;
	unsigned int packets, streams; /* that the guest brought about */
};

int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __real_ioctl(int fd, unsigned long request, void *argument);

/* The network's other ends are sockets, which keep packets apart as a tap does. */
int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
	return request == TUNSETOFFLOAD ? 0 : __real_ioctl(fd, request, argument);
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
	if (!diskd || enter(ROLE_DISKD, 0, &err) < 0 ||
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

static void make_files(struct machine *machine)
{
	int directory;

	if (machine->plan->directory) {
		snprintf(machine->directory, sizeof(machine->directory), "%s",
			 machine->plan->directory);
		return;
	}
	strcpy(machine->directory, "/tmp/moat-hostile.XXXXXX");
	assert_non_null(mkdtemp(machine->directory));
	directory = open(machine->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(directory, "tree", 0777), 0);
	assert_int_equal(file_replace(directory, "outside", "secret", 6, 0644, NULL), 0);
	assert_int_equal(file_replace(directory, "tree/file", "contents", 8, 0644, NULL), 0);
	assert_int_equal(symlinkat("../outside", directory, "tree/link"), 0);
	assert_int_equal(mkfifoat(directory, "tree/fifo", 0666), 0);
	close(directory);
}

static void check_files(struct machine *machine)
{
	char command[128], path[100];
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
	snprintf(command, sizeof(command), "rm -rf %s", machine->directory);
	assert_int_equal(system(command), 0);
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

static void request(struct machine *machine, struct vmm_request message, int fd)
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
	request(machine, message, pair[0]);
}

/* Returns the vmm's end. */
static int start_disk(struct machine *machine)
{
	int pair[2], image = machine->plan->image;

	image = image < 0 ? memfd_create("image", MFD_CLOEXEC) : fcntl(image, F_DUPFD_CLOEXEC, 3);
	assert_int_equal(ftruncate(image, SECTORS * DISK_SECTOR), 0);
	assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
	machine->disk = (struct diskd_config){ .image_fd = image,
					       .sectors = SECTORS,
					       .vmm_fd = pair[1],
					       .memory_fd = machine->config.memory_fd,
					       .memory_size = MEMORY };
	machine->config.disk[0] = (struct vmm_disk){ .fd = pair[0], .sectors = SECTORS };
	machine->config.disks = 1;
	start_child(machine, &machine->diskd, ROLE_DISKD,
		    (int[]){ pair[1], image, machine->config.memory_fd }, 3, diskd_body);
	close(pair[1]);
	close(image);
	return pair[0];
}

static void open_machine(struct machine *machine, const struct plan *plan)
{
	int control[2], trees[2], queues[2], console[2], net[2], disk;
	struct err err;

	*machine = (struct machine){ .plan = plan, .log = memfd_create("log", MFD_CLOEXEC) };
	memset(machine->ports, -1, sizeof(machine->ports));
	make_files(machine);
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
	};
	assert_true(machine->config.kvm_fd >= 0 && machine->config.kernel_fd >= 0);
	machine->fs = (struct fsd_config){ .vmm_fd = queues[1],
					   .monitor_fd = trees[1],
					   .memory_fd = machine->config.memory_fd,
					   .memory_size = MEMORY };
	machine->control = control[0];
	machine->trees = trees[0];
	machine->console = console[0];
	fcntl(console[0], F_SETFL, O_NONBLOCK);
	start_child(machine, &machine->fsd, ROLE_FSD,
		    (int[]){ queues[1], trees[1], machine->config.memory_fd }, 3, fsd_body);
	give_tree(machine);
	disk = start_disk(machine);
	start_child(machine, &machine->vmm, ROLE_VMM,
		    (int[]){ control[1], queues[0], console[1], machine->config.memory_fd,
			     machine->config.kvm_fd, machine->config.kernel_fd, disk },
		    7, vmm_body);
	for (size_t i = 0; i < 7; i++)
		close((int[]){ control[1], queues[0], queues[1], trees[1], console[1],
			       machine->config.kernel_fd, disk }[i]);
	close(machine->config.kvm_fd);
	close(machine->config.memory_fd);
	for (uint32_t i = 0; i < NETS; i++) {
		assert_int_equal(
			socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, net), 0);
		machine->nets[i] = net[0];
		request(machine, (struct vmm_request){ .type = VMM_REQUEST_NET_ADD, .port = i },
			net[1]);
	}
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

static void close_machine(struct machine *machine)
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
	check_files(machine);
}

/* The monitor's part. Returns false after the machine's last event. */
static bool take_event(struct machine *machine)
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

/* As many as there is room for: a guest that takes none has some waiting. */
static void send_packets(struct machine *machine)
{
	static char packet[2100];
	static unsigned int turn;

	turn++;
	for (uint32_t i = 0; i < NETS; i++)
		for (size_t size = 20; size < 2000; size += 333)
			(void)!send(machine->nets[i], packet, size + turn % 60, 0);
}

/* The other ends of streams and networks take what comes, and say something now and then. */
static void exchange(struct machine *machine)
{
	static char junk[70000];
	static unsigned int turn;

	turn++;
	send_packets(machine);
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

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void run_plan(const struct plan *plan, const char *says)
{
	struct machine machine;
	char text[200] = "";
	uint64_t end = now_ms() + 4 * QUIET_MS;
	size_t used = 0;

	open_machine(&machine, plan);
	while (!machine.ended) {
		struct pollfd ready = { .fd = machine.control, .events = POLLIN };

		if (poll(&ready, 1, 10) > 0)
			take_event(&machine);
		send_packets(&machine);
		assert_true(now_ms() < end);
	}
	for (ssize_t n; used < sizeof(text) - 1 &&
			(n = read(machine.console, text + used, sizeof(text) - 1 - used)) > 0;)
		used += (size_t)n;
	close_machine(&machine);
	assert_string_equal(text, says);
}

static void run_attack(const char *number, unsigned int vcpus, const char *says)
{
	struct plan plan = { .vcpus = vcpus, .image = -1 };
	char cmdline[40];

	snprintf(cmdline, sizeof(cmdline), "attack=%s vcpus=%u", number, vcpus);
	plan.cmdline = cmdline;
	run_plan(&plan, says);
}

#define ATTACK(name, number, says)                                                                 \
	static void attack_##name(void **state)                                                    \
	{                                                                                          \
		run_attack(number, 1, says ": ok\n");                                              \
	}
#define RACE(name, number, says)                                                                   \
	static void race_##name(void **state)                                                      \
	{                                                                                          \
		run_attack(number, 3, says ": ok\n");                                              \
	}

ATTACK(descriptors, "1", "descriptors")
ATTACK(starved, "3", "starved")
ATTACK(registers, "4", "registers")
ATTACK(resets, "6", "resets")
ATTACK(ranges, "8", "ranges")
ATTACK(files, "9", "files")
ATTACK(rings, "11", "rings")
ATTACK(sectors, "12", "sectors")
RACE(rings, "13", "racing rings")
RACE(resets, "14", "racing resets")
RACE(registers, "15", "racing registers")

/* What one guest has planted is there when the next machine starts in the same tree. */
static void attack_links(void **state)
{
	struct machine first = { .plan = &(struct plan){ .image = -1 } };
	struct plan plan = { .vcpus = 1, .image = -1 };

	make_files(&first);
	plan.directory = first.directory;
	plan.cmdline = "attack=5";
	run_plan(&plan, "links: ok\n");
	plan.cmdline = "attack=5 again=1";
	run_plan(&plan, "links: ok\n");
	check_files(&first);
}

/* The next machine with the image takes it for what the first took it for. */
static void attack_disk_header(void **state)
{
	struct plan plan = { .cmdline = "attack=7", .vcpus = 1 };
	struct stat st;

	plan.image = memfd_create("image", MFD_CLOEXEC);
	run_plan(&plan, "disk header: ok\n");
	run_plan(&plan, "disk header: ok\n");
	assert_int_equal(fstat(plan.image, &st), 0);
	assert_int_equal(st.st_size, SECTORS * DISK_SECTOR);
	close(plan.image);
}

static void attack_constants(void **state)
{
	size_t before_size, after_size;
	char *before = file_read(AT_FDCWD, HOSTILE_GUEST, 1 << 22, &before_size, NULL), *after;

	run_attack("10", 1, "constants: ok\n");
	after = file_read(AT_FDCWD, HOSTILE_GUEST, 1 << 22, &after_size, NULL);
	assert_int_equal(before_size, after_size);
	assert_memory_equal(before, after, before_size);
	free(before);
	free(after);
}

/* Runs one guest until it ends or the time is over; then the vmm still hears the monitor. */
static void run_random(unsigned int seed, unsigned int vcpus, uint64_t end)
{
	struct machine machine;
	char cmdline[64];
	struct plan plan = { .cmdline = cmdline, .vcpus = vcpus, .image = -1 };
	uint64_t stop_sent = 0;

	snprintf(cmdline, sizeof(cmdline), "attack=0 seed=%u", seed);
	open_machine(&machine, &plan);
	while (!machine.ended) {
		struct pollfd ready = { .fd = machine.control, .events = POLLIN };
		uint64_t now = now_ms();

		if (poll(&ready, 1, 2) > 0 && !take_event(&machine))
			break;
		exchange(&machine);
		if (!SANITIZED)
			assert_in_range(own_memory(machine.vmm.pid), 0, GROWTH_MAX);
		if (!stop_sent && now > end) {
			request(&machine, (struct vmm_request){ .type = VMM_REQUEST_STOP }, -1);
			stop_sent = now;
		}
		if (stop_sent && now > stop_sent + QUIET_MS)
			fail_msg("the vmm does not hear the monitor (seed %u)", seed);
	}
	print_message("seed %u: %u packets, %u streams\n", seed, machine.packets, machine.streams);
	close_machine(&machine);
}

static void run_randoms(unsigned int vcpus)
{
	const char *given = getenv("MOAT_SEED");
	unsigned int seed = given ? (unsigned int)atoi(given) : 1;
	uint64_t end = now_ms() + (getenv("MOAT_TEST_ALL") ? 60000 : 5000);

	while (now_ms() < end)
		run_random(seed++, vcpus, end);
}

static void random_guest(void **state)
{
	run_randoms(1);
}

static void random_guests(void **state)
{
	run_randoms(2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attack_descriptors), cmocka_unit_test(attack_starved),
		cmocka_unit_test(attack_registers),   cmocka_unit_test(attack_links),
		cmocka_unit_test(attack_resets),      cmocka_unit_test(attack_disk_header),
		cmocka_unit_test(attack_ranges),      cmocka_unit_test(attack_files),
		cmocka_unit_test(attack_constants),   cmocka_unit_test(attack_rings),
		cmocka_unit_test(attack_sectors),     cmocka_unit_test(race_rings),
		cmocka_unit_test(race_resets),	      cmocka_unit_test(race_registers),
		cmocka_unit_test(random_guest),	      cmocka_unit_test(random_guests),
	};

	if (access("/dev/kvm", R_OK | W_OK) < 0) {
		dprintf(1, "skipped: there is no /dev/kvm\n");
		return 77;
	}
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
