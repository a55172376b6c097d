/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tries from inside a container what breakout checklists try, without doing harm where a try
 * succeeds. A line for each: "NAME reached", or "NAME refused ERRNO". A call whose refusal is not
 * for lack of rights has reached the kernel's own code: that counts as reached.
 *
 * usage: probe [ABSTRACT-SOCKET-NAME]
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NSFS 0x6e736673

static void tell(const char *name, int reached)
{
	if (reached)
		printf("%s reached\n", name);
	else
		printf("%s refused %d\n", name, errno);
	fflush(stdout);
}

/* For calls: did it get past the checks of rights? */
static void tell_call(const char *name, long result)
{
	tell(name, result >= 0 || (errno != EPERM && errno != EACCES && errno != ENOSYS &&
				   errno != EAFNOSUPPORT && errno != ESOCKTNOSUPPORT &&
				   errno != EPROTONOSUPPORT && errno != ENOSPC));
}

static void write_to(const char *name, const char *path)
{
	int fd = open(path, O_WRONLY);

	tell(name, fd >= 0);
	if (fd >= 0)
		close(fd);
}

static void cgroup_release_agent(void)
{
	static const char *const options[] = { "memory", "pids", "freezer",
					       "rdma",	 "cpu",	 "none,name=probe" };
	int reached = 0;

	mkdir("/tmp/cg", 0700);
	for (size_t i = 0; !reached && i < sizeof(options) / sizeof(*options); i++)
		if (mount("cgroup", "/tmp/cg", "cgroup", 0, options[i]) == 0) {
			int fd = open("/tmp/cg/release_agent", O_WRONLY);

			reached = fd >= 0;
			close(fd);
			umount2("/tmp/cg", MNT_DETACH);
		}
	if (!reached && mount("cgroup2", "/tmp/cg", "cgroup2", 0, NULL) == 0) {
		reached = access("/tmp/cg/cgroup.procs", W_OK) == 0;
		umount2("/tmp/cg", MNT_DETACH);
	}
	tell("cgroup-release-agent", reached);
}

static void device_node(const char *name, mode_t type, dev_t device)
{
	int fd;

	unlink("/tmp/node");
	if (mknod("/tmp/node", type | 0600, device) < 0) {
		tell(name, 0);
		return;
	}
	fd = open("/tmp/node", O_RDONLY | O_NONBLOCK);
	tell(name, fd >= 0 || errno == ENXIO || errno == ENODEV);
	if (fd >= 0)
		close(fd);
	unlink("/tmp/node");
}

static void file_handle(void)
{
	struct {
		struct file_handle handle;
		unsigned char bytes[MAX_HANDLE_SZ];
	} h = { .handle = { .handle_bytes = MAX_HANDLE_SZ } };
	int id, top = open("/", O_RDONLY), fd;

	if (name_to_handle_at(AT_FDCWD, "/tmp", &h.handle, &id, 0) < 0) {
		/* A guess is as good: the numbers of inodes are small. */
		h.handle.handle_bytes = 8;
		h.handle.handle_type = 1;
		memcpy(h.bytes, "\2\0\0\0\0\0\0\0", 8);
	}
	fd = open_by_handle_at(top, &h.handle, O_RDONLY);
	tell("open-by-handle", fd >= 0 || errno == ESTALE);
}

/* Descriptors that nobody gave us on purpose, and namespaces among them. */
static void leaked_descriptors(void)
{
	int found = 0, joined = 0;

	errno = ENOENT;
	for (int fd = 3; fd < 1024; fd++) {
		struct statfs fs;

		if (fcntl(fd, F_GETFD) < 0)
			continue;
		found++;
		if (fstatfs(fd, &fs) == 0 && fs.f_type == NSFS) {
			pid_t child = fork();
			int status;

			if (child == 0)
				_exit(setns(fd, 0) < 0 ? errno : 0);
			waitpid(child, &status, 0);
			errno = WEXITSTATUS(status);
			joined += errno == 0;
		}
	}
	tell("setns-leaked", joined);
	errno = ENOENT;
	tell("leaked-descriptor", found);
}

static void abstract_socket(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	size_t n = strlen(name);

	memcpy(address.sun_path + 1, name, n);
	tell("abstract-socket",
	     connect(fd, (struct sockaddr *)&address,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n)) == 0);
	close(fd);
}

static void socket_of(const char *name, int domain, int type, int protocol)
{
	int fd = socket(domain, type, protocol);

	tell_call(name, fd);
	if (fd >= 0)
		close(fd);
}

static void in_child(const char *name, long (*attempt)(void))
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		long result = attempt();

		_exit(result >= 0 ? 0 : errno);
	}
	waitpid(child, &status, 0);
	errno = WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
	tell_call(name, errno ? -1 : 0);
}

static long new_user_namespace(void)
{
	return unshare(CLONE_NEWUSER);
}

static long new_network_namespace(void)
{
	return unshare(CLONE_NEWNET);
}

static long clone_user_namespace(void)
{
	return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
}

static long clone3_user_namespace(void)
{
	uint64_t args[11] = { CLONE_NEWUSER, 0, 0, 0, SIGCHLD };

	return syscall(SYS_clone3, args, sizeof(args));
}

/* High bits that the kernel does not look at must not get past a filter. */
static long socket_with_high_bits(void)
{
	return syscall(SYS_socket, 0x100000000ull | AF_ALG, SOCK_SEQPACKET, 0);
}

static long mount_tmpfs(void)
{
	return mount("tmpfs", "/tmp", "tmpfs", 0, NULL);
}

static long remount_proc_sys(void)
{
	return mount(NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND, NULL);
}

static long unmount_mask(void)
{
	return umount2("/proc/kcore", MNT_DETACH);
}

static long trace_another(void)
{
	pid_t other = fork();
	long result;

	if (other == 0) {
		if (setresuid(1234, 1234, 1234) < 0)
			_exit(1);
		sleep(5);
		_exit(0);
	}
	usleep(50000);
	result = ptrace(PTRACE_ATTACH, other, NULL, NULL);
	int saved = errno;

	kill(other, SIGKILL);
	errno = saved;
	return result;
}

static void calls(void)
{
	struct perf_event_attr perf = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(perf) };
	union bpf_attr bpf = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1
	};
	char log[64], params[256] = "";

	tell_call("bpf", syscall(SYS_bpf, BPF_MAP_CREATE, &bpf, sizeof(bpf)));
	tell_call("perf-event", syscall(SYS_perf_event_open, &perf, 0, -1, -1, 0));
	tell_call("userfaultfd", syscall(SYS_userfaultfd, 0));
	tell_call("io-uring", syscall(SYS_io_uring_setup, 1, params));
	tell_call("kexec", syscall(SYS_kexec_load, 0, 0, NULL, 0xffff0000ul));
	tell_call("module", syscall(SYS_finit_module, 0, "", 0));
	tell_call("kernel-log", syscall(SYS_syslog, 3, log, sizeof(log)));
	tell_call("keyring",
		  syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
	tell_call("add-key",
		  syscall(SYS_add_key, "user", "probe", "x", 1, KEY_SPEC_PROCESS_KEYRING));
	tell_call("quotactl", syscall(SYS_quotactl, 0, "/", 0, 0));
	tell_call("acct", syscall(SYS_acct, "/nowhere"));
	tell_call("swapon", syscall(SYS_swapon, "/nowhere", 0));
	tell_call("reboot", syscall(SYS_reboot, 0, 0, 0, NULL));
	tell_call("settime", syscall(SYS_clock_settime, 0, NULL));
	tell_call("iopl", syscall(SYS_iopl, 3));
	tell_call("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
	tell_call("open-tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
	tell_call("pivot-root", syscall(SYS_pivot_root, ".", "."));
	tell_call("fanotify", syscall(SYS_fanotify_init, 0, 0));
	tell_call("read-others-memory",
		  syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0));
	tell_call("tiocsti", ioctl(0, TIOCSTI, "x"));
	tell_call("tiocsti-high-bits", syscall(SYS_ioctl, 0, 0x100000000ull | TIOCSTI, "x"));
}

int main(int argc, char **argv)
{
	leaked_descriptors();
	cgroup_release_agent();
	write_to("core-pattern", "/proc/sys/kernel/core_pattern");
	write_to("modprobe-path", "/proc/sys/kernel/modprobe");
	write_to("drop-caches", "/proc/sys/vm/drop_caches");
	write_to("sysrq", "/proc/sysrq-trigger");
	write_to("sysfs", "/sys/kernel/mm/transparent_hugepage/enabled");
	device_node("block-device", S_IFBLK, makedev(7, 0));
	device_node("memory-device", S_IFCHR, makedev(1, 1));
	device_node("kernel-log-device", S_IFCHR, makedev(1, 11));
	file_handle();
	if (argc > 1)
		abstract_socket(argv[1]);
	socket_of("packet-socket", AF_PACKET, SOCK_RAW, 0);
	socket_of("raw-socket", AF_INET, SOCK_RAW, 1);
	socket_of("alg-socket", AF_ALG, SOCK_SEQPACKET, 0);
	socket_of("netfilter-socket", AF_NETLINK, SOCK_RAW, 12);
	in_child("socket-high-bits", socket_with_high_bits);
	in_child("user-namespace", new_user_namespace);
	in_child("user-namespace-clone", clone_user_namespace);
	in_child("user-namespace-clone3", clone3_user_namespace);
	in_child("network-namespace", new_network_namespace);
	in_child("mount", mount_tmpfs);
	in_child("writable-proc-sys", remount_proc_sys);
	in_child("unmount-mask", unmount_mask);
	in_child("trace-another-user", trace_another);
	calls();
	return 0;
}
