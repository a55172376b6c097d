/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kernel alone asks for a container: the namespaces, mounts, devices and masks of the
 * benchmark's bundle, done with bare system calls and nothing else: no config, no state, no
 * checks, no errors told. No runtime can be quicker.
 *
 *   floor ROOTFS PROGRAM
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define CGROUP	   "/sys/fs/cgroup/moat-floor"
#define NAMESPACES (CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNS)

static void must(int r, const char *what)
{
	if (r >= 0)
		return;
	perror(what);
	_exit(1);
}

static void mounts(void)
{
	must(mount("proc", "proc", "proc", 0, NULL), "proc");
	must(mount("tmpfs", "dev", "tmpfs", MS_NOSUID | MS_STRICTATIME, "mode=755,size=65536k"),
	     "dev");
	must(mkdir("dev/pts", 0755) | mkdir("dev/shm", 0755) | mkdir("dev/mqueue", 0755), "mkdir");
	must(mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		   "newinstance,ptmxmode=0666,mode=0620"),
	     "devpts");
	must(mount("shm", "dev/shm", "tmpfs", MS_NOSUID | MS_NOEXEC | MS_NODEV,
		   "mode=1777,size=65536k"),
	     "shm");
	must(mount("mqueue", "dev/mqueue", "mqueue", MS_NOSUID | MS_NOEXEC | MS_NODEV, NULL),
	     "mqueue");
	must(mount("sysfs", "sys", "sysfs", MS_NOSUID | MS_NOEXEC | MS_NODEV | MS_RDONLY, NULL),
	     "sysfs");
}

static void devices(void)
{
	static const struct {
		const char *path;
		unsigned int major, minor;
	} nodes[] = { { "dev/null", 1, 3 },   { "dev/zero", 1, 5 },    { "dev/full", 1, 7 },
		      { "dev/random", 1, 8 }, { "dev/urandom", 1, 9 }, { "dev/tty", 5, 0 } };
	static const char *const links[][2] = { { "/proc/self/fd", "dev/fd" },
						{ "/proc/self/fd/0", "dev/stdin" },
						{ "/proc/self/fd/1", "dev/stdout" },
						{ "/proc/self/fd/2", "dev/stderr" },
						{ "pts/ptmx", "dev/ptmx" } };

	umask(0);
	for (size_t i = 0; i < sizeof(nodes) / sizeof(*nodes); i++)
		must(mknod(nodes[i].path, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)),
		     "mknod");
	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++)
		must(symlink(links[i][0], links[i][1]), "symlink");
	umask(022);
}

static void masks(void)
{
	static const char *const files[] = { "proc/kcore", "proc/keys", "proc/timer_list" };
	static const char *const directories[] = { "proc/acpi", "sys/firmware" };
	static const char *const readonly[] = { "proc/bus", "proc/fs", "proc/irq", "proc/sys",
						"proc/sysrq-trigger" };

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		mount("dev/null", files[i], NULL, MS_BIND, NULL);
	for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++)
		mount("tmpfs", directories[i], "tmpfs", MS_RDONLY, NULL);
	for (size_t i = 0; i < sizeof(readonly) / sizeof(*readonly); i++) {
		mount(readonly[i], readonly[i], NULL, MS_BIND | MS_REC, NULL);
		mount(NULL, readonly[i], NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL);
	}
}

static void enter(const char *rootfs)
{
	must(mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL), "private");
	must(mount(rootfs, rootfs, NULL, MS_BIND | MS_REC, NULL), "bind");
	must(chdir(rootfs), "chdir");
	mounts();
	devices();
	masks();
	must((int)syscall(SYS_pivot_root, ".", "."), "pivot_root");
	must(umount2(".", MNT_DETACH), "umount");
	must(chdir("/"), "chdir");
}

static void loopback(void)
{
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	must(ioctl(fd, SIOCSIFFLAGS, &request), "lo");
	close(fd);
}

static void drop(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { .effective = 0x20, .permitted = 0x20 } };
	struct rlimit limit = { 1024, 1024 };

	setrlimit(RLIMIT_NOFILE, &limit);
	for (unsigned long cap = 0; cap <= CAP_LAST_CAP; cap++)
		prctl(PR_CAPBSET_DROP, cap);
	must((int)syscall(SYS_capset, &header, data), "capset");
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

int main(int argc, char **argv)
{
	struct clone_args args = { .flags = NAMESPACES | CLONE_INTO_CGROUP,
				   .exit_signal = SIGCHLD };
	char *const program[] = { argc > 2 ? argv[2] : NULL, NULL };
	char *const environment[] = { "PATH=/bin", NULL };
	int fd, status;
	pid_t pid;

	if (argc != 3)
		return 2;
	must(mkdir(CGROUP, 0755), CGROUP);
	fd = open(CGROUP, O_PATH | O_DIRECTORY | O_CLOEXEC);
	args.cgroup = (uint64_t)fd;
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	must(pid, "clone3");
	if (pid == 0) {
		must(unshare(CLONE_NEWCGROUP), "unshare");
		enter(argv[1]);
		loopback();
		must(sethostname("moat-test", 9), "sethostname");
		drop();
		execve(program[0], program, environment);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	while (rmdir(CGROUP) < 0 && errno == EBUSY)
		;
	return WEXITSTATUS(status);
}
