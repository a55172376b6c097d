/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * PID 1 of the guest, from the initramfs on. Every step here is on the way from the start of the
 * kernel to the workload, so there is only what containers or the namespace engine need.
 */
#include "guest/boot.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "fs/fsd.h"
#include "guest/disk.h"
#include "guest/repeat.h"
#include "vmm/vmm.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <net/if.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CGROUP_ROOT    "/sys/fs/cgroup"
#define CONTROL_MAX    4096
#define READ_AHEAD_KIB "512"
#define TIDY_MAX       (8ul << 20) /* boot leaves less than that behind in small pieces */
#define LIST_PAGES     256ul	   /* 1 MiB for each processor */
#define FRACTION_MIN   8ul	   /* the kernel's own limit */
#define SETTLE_ROUNDS  500
#define SETTLE_NS      10000000L /* of one round: 10 ms */

void boot_streams(void)
{
	/* The initramfs has these two nodes; the kernel gives us a console, or no descriptors. */
	int null = open("/dev/null", O_RDWR), log = open("/dev/kmsg", O_WRONLY);

	if (null >= 0)
		dup2(null, STDIN_FILENO);
	dup2(log >= 0 ? log : STDIN_FILENO, STDOUT_FILENO);
	dup2(STDOUT_FILENO, STDERR_FILENO);
	fd_close_except(STDERR_FILENO + 1, NULL, 0);
}

/*
 * The initramfs is the root mount itself, and pivot_root(2) wants one that has a parent: so bind it
 * over itself and move there.
 */
static int make_root(struct err *err)
{
	if (mount("/", "/root", NULL, MS_BIND, NULL) < 0 || chdir("/root") < 0 ||
	    mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0)
		return err_set(err, errno, "make a root file system out of the initramfs");
	return 0;
}

/* Let the cgroups below the root have every controller that there is. */
static int delegate_controllers(struct err *err)
{
	_cleanup_free_ char *names =
		file_read(AT_FDCWD, CGROUP_ROOT "/cgroup.controllers", CONTROL_MAX, NULL, err);
	char text[CONTROL_MAX + 1] = "", *rest = names, *name;
	size_t used = 0;

	if (!names)
		return -1;
	while ((name = strsep(&rest, " \n")))
		if (*name && used + strlen(name) + 3 < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "+%s ", name);
	return file_write(AT_FDCWD, CGROUP_ROOT "/cgroup.subtree_control", text, err);
}

int boot_mounts(struct err *err)
{
	static const struct {
		const char *source, *target, *type;
		unsigned long flags;
	} mounts[] = {
		{ "proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC },
		{ "dev", "/dev", "devtmpfs", MS_NOSUID | MS_NOEXEC },
		{ "sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC },
		{ "cgroup2", CGROUP_ROOT, "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC },
	};

	if (make_root(err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(mounts); i++)
		if (mount(mounts[i].source, mounts[i].target, mounts[i].type, mounts[i].flags,
			  NULL) < 0)
			return err_set(err, errno, "mount %s on %s", mounts[i].type,
				       mounts[i].target);
	if (delegate_controllers(err) < 0)
		return -1;
	if (mkdir(CGROUP_ROOT BOOT_CGROUP, 0755) < 0)
		return err_set(err, errno, "make cgroup %s", BOOT_CGROUP);
	return 0;
}

/*
 * How far Linux reads ahead in files of the host; its own choice, 128 KiB, is for disks that seek.
 * Here each request is two switches of a processor, and one carries up to 1 MiB. To look at the
 * mount waits for what the file server allows, which would lower a number that was set before.
 */
static void set_read_ahead(void)
{
	char path[64];
	struct stat st;
	struct err err;

	if (stat(BOOT_TREES, &st) < 0)
		return;
	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", major(st.st_dev),
		 minor(st.st_dev));
	if (file_write(AT_FDCWD, path, READ_AHEAD_KIB, &err) < 0)
		log_warning("%s", err.text);
}

int boot_trees(struct err *err)
{
	if (mount(FSD_TAG, BOOT_TREES, "virtiofs", MS_NODEV, NULL) < 0)
		return err_set(err, errno, "mount virtiofs on %s", BOOT_TREES);
	/* As a host's are: a container may ask for mounts that are slaves of it. */
	if (mount(NULL, BOOT_TREES, NULL, MS_SHARED, NULL) < 0)
		return err_set(err, errno, "share what is mounted on %s", BOOT_TREES);
	set_read_ahead();
	return 0;
}

/* Its processes have the usual priority. */
static int boot_priority(struct err *err)
{
	const struct sched_attr attr = {
		.size = sizeof(attr),
		.sched_policy = SCHED_NORMAL,
		.sched_flags = SCHED_FLAG_RESET_ON_FORK,
		.sched_nice = -20,
	};

	if (syscall(SYS_sched_setattr, 0, &attr, 0) < 0)
		return err_set(err, errno, "give the agent a high priority");
	return 0;
}

int boot_protect(struct err *err)
{
	if (boot_priority(err) < 0)
		return -1;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_set(err, errno, "guard the agent's memory");
	return file_write(AT_FDCWD, "/proc/self/oom_score_adj", "-1000", err);
}

/*
 * What the lists of free pages of each processor hold is not reported to the host, and since Linux
 * 6.7 they grow to an eighth of the memory. The limit is a fraction of it, for each of them.
 */
static int limit_page_lists(struct err *err)
{
	unsigned long pages, fraction, cpus = (unsigned long)sysconf(_SC_NPROCESSORS_ONLN);
	struct sysinfo info;
	char text[24];

	if (sysinfo(&info) < 0)
		return err_set(err, errno, "ask how much memory there is");
	pages = info.totalram * info.mem_unit / (unsigned long)sysconf(_SC_PAGESIZE);
	fraction = pages / (LIST_PAGES * cpus);
	snprintf(text, sizeof(text), "%lu", fraction < FRACTION_MIN ? FRACTION_MIN : fraction);
	return file_write(AT_FDCWD, "/proc/sys/vm/percpu_pagelist_high_fraction", text, err);
}

int boot_memory(struct err *err)
{
	if (limit_page_lists(err) < 0) /* a kernel that has no such lists is none the worse */
		log_debug("%s", err->text);
	return file_write(AT_FDCWD, "/proc/sys/vm/overcommit_memory", "1", err);
}

/*
 * Pages are zero when a program gets them. So they are taken, and given back: the kernel hands out
 * those first that it used last, and splits large pieces of memory, which nobody has touched, only
 * when there are no small ones left.
 */
void boot_tidy(void)
{
	struct sysinfo info;
	size_t size = TIDY_MAX;
	void *pages;

	if (!getenv(VMM_TIDY) || sysinfo(&info) < 0)
		return;
	if (size > info.freeram / 4 * info.mem_unit)
		size = info.freeram / 4 * info.mem_unit;
	pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
		     -1, 0);
	if (pages != MAP_FAILED)
		munmap(pages, size);
}

int boot_loopback(struct err *err)
{
	_cleanup_fd_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		return err_set(err, errno, "set the interface lo up");
	return 0;
}

/* All have been killed: wait until they are gone, as their last writes go out with them. */
static void wait_for_all(void)
{
	const struct timespec pause = { 0, SETTLE_NS };

	for (int i = 0; i < SETTLE_ROUNDS; i++) {
		pid_t pid;

		while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
			;
		if (pid < 0)
			return;
		nanosleep(&pause, NULL);
	}
}

/*
 * What the guest's kernel still holds, such as pages that were written through a mapping, goes to
 * the host's, and disks of the machine's own are flushed. That the host's kernel writes it to a
 * disk is not waited for, nor is it for a program that ends on the host.
 */
static void write_back(void)
{
	setfsgid(FSD_END_GID);
	sync();
}

void boot_settle(void)
{
	static bool settled;

	if (settled)
		return;
	settled = true;
	repeat_stop(BOOT_TREES);
	if (kill(-1, SIGKILL) == 0)
		wait_for_all();
	disk_unmount_root();
	write_back();
}

void boot_end(void)
{
	reboot(RB_AUTOBOOT);
	/* Never reached as root of a guest; the end of PID 1 is a panic, which resets it, too. */
	_exit(1);
}
