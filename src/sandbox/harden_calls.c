/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The system calls of level sandbox: those that are let through, in groups with what they are for,
 * and how arguments are looked at. The kernel answers with the stricter of this filter and the
 * bundle's own. What is not here gets EPERM; what newer C libraries try first and know how to do
 * without gets ENOSYS.
 *
 * Left out on purpose: bpf, perf_event_open, userfaultfd, kexec and modules, keyrings, mounting,
 * setns and unshare, file handles, quotas, accounting, swap, reboot, clocks, ports and descriptor
 * tables of the processor, the kernel log, fanotify, vmsplice, policies of NUMA, and looking into
 * other processes (ptrace and its kin, which the operator can allow).
 */
#include "sandbox/harden_private.h"

#include "base/mem.h"
#include "oci/config.h"

#include <linux/netlink.h>
#include <linux/sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define ALLOW	  "SCMP_ACT_ALLOW"
#define REFUSE	  "SCMP_ACT_ERRNO"
#define ALL_OF_IT 0xffffffffu /* of an int: the kernel does not look at the upper half */
#define TYPE_BITS 0xfu	      /* of socket(2)'s type: the rest are flags */
#define NAMESPACES                                                                                 \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |             \
	 CLONE_NEWPID | CLONE_NEWNET)

/* Names separated by spaces. permission: only where the operator gives it; NULL: always. */
static const struct {
	const char *permission, *names, *reason;
} groups[] = {
	{ NULL,
	  "read write readv writev pread64 pwrite64 preadv pwritev lseek close close_range dup "
	  "dup2 dup3 fcntl flock fsync fdatasync sync sync_file_range truncate ftruncate "
	  "fallocate fadvise64 copy_file_range sendfile splice",
	  "data of open files" },
	{ NULL,
	  "open openat openat2 creat stat fstat lstat newfstatat statx statfs fstatfs access "
	  "faccessat faccessat2 getdents64 getcwd chdir fchdir mkdir mkdirat rmdir rename "
	  "renameat renameat2 link linkat symlink symlinkat unlink unlinkat readlink readlinkat "
	  "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat umask utimes utimensat",
	  "files by name; what lies behind a name is the mounts' matter" },
	{ NULL,
	  "setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr "
	  "flistxattr removexattr lremovexattr fremovexattr",
	  "tar, package managers" },
	{ NULL, "chroot", "daemons that lock themselves up; takes a capability" },
	{ NULL, "inotify_init inotify_init1 inotify_add_watch inotify_rm_watch",
	  "programs that reload what changes" },
	{ NULL,
	  "pipe pipe2 select pselect6 poll ppoll epoll_create epoll_create1 epoll_ctl "
	  "epoll_wait epoll_pwait eventfd2 signalfd4 timerfd_create timerfd_settime "
	  "timerfd_gettime memfd_create",
	  "waiting for several things" },
	{ NULL, "io_setup io_destroy io_submit io_cancel io_getevents",
	  "databases with asynchronous files" },
	{ NULL,
	  "mmap munmap mremap mprotect madvise brk mlock munlock mlockall munlockall msync "
	  "membarrier",
	  "memory of the process's own" },
	{ NULL,
	  "fork vfork execve execveat exit exit_group wait4 waitid kill tkill tgkill getpid "
	  "getppid gettid getpgid setpgid getpgrp setsid getsid pidfd_open pidfd_send_signal "
	  "set_tid_address set_robust_list futex rseq restart_syscall",
	  "processes and threads" },
	{ NULL,
	  "getuid geteuid getgid getegid setuid setgid setreuid setregid setresuid getresuid "
	  "setresgid getresgid getgroups setgroups capget capset prctl arch_prctl seccomp",
	  "who the process is, and giving up rights" },
	{ NULL,
	  "getrlimit setrlimit prlimit64 getrusage times getpriority setpriority sched_yield "
	  "sched_setparam sched_getparam sched_setscheduler sched_getscheduler "
	  "sched_get_priority_max sched_get_priority_min sched_setaffinity sched_getaffinity "
	  "uname sysinfo getrandom",
	  "limits and priorities; the cgroup holds whatever they say" },
	{ NULL,
	  "rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait "
	  "rt_sigqueueinfo rt_sigsuspend sigaltstack pause alarm getitimer setitimer",
	  "signals" },
	{ NULL,
	  "nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time timer_create "
	  "timer_settime timer_gettime timer_getoverrun timer_delete",
	  "reading clocks and waiting for them; not setting them" },
	{ NULL,
	  "bind connect listen accept accept4 getsockname getpeername sendto recvfrom sendmsg "
	  "recvmsg sendmmsg recvmmsg shutdown setsockopt getsockopt",
	  "sockets, of the kinds that socket below lets through" },
	{ NULL,
	  "shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl "
	  "mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr",
	  "what lives in the ipc namespace: PostgreSQL" },
	{ "ioUring", "io_uring_setup io_uring_enter io_uring_register",
	  "fast, and a kernel within the kernel that no filter sees into" },
	{ "ptrace", "ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd",
	  "debuggers; only of the container's own processes, and of the same user" },
};

#define SAME(index, number)                                                                        \
	{                                                                                          \
		index, ALL_OF_IT, number                                                           \
	}
#define MASKED(index, mask, number)                                                                \
	{                                                                                          \
		index, mask, number                                                                \
	}

/* One line is one way to pass, or not to; the first whose tests all hold decides. */
static const struct {
	const char *name, *action;
	unsigned int code; /* errno of REFUSE */
	struct {
		unsigned int index;
		uint64_t mask, value;
	} tests[3]; /* those without a mask are none */
} checked[] = {
	/* No namespaces. clone3's arguments are in memory, where no filter sees them. */
	{ "clone", ALLOW, 0, { MASKED(0, NAMESPACES, 0) } },
	{ "clone3", REFUSE, ENOSYS, { { 0 } } },

	/* Unix and internet sockets, no raw ones; of netlink only what lists interfaces. */
	{ "socket", ALLOW, 0, { SAME(0, AF_UNIX) } },
	{ "socket", ALLOW, 0, { SAME(0, AF_INET), MASKED(1, TYPE_BITS, SOCK_STREAM) } },
	{ "socket", ALLOW, 0, { SAME(0, AF_INET), MASKED(1, TYPE_BITS, SOCK_DGRAM) } },
	{ "socket", ALLOW, 0, { SAME(0, AF_INET6), MASKED(1, TYPE_BITS, SOCK_STREAM) } },
	{ "socket", ALLOW, 0, { SAME(0, AF_INET6), MASKED(1, TYPE_BITS, SOCK_DGRAM) } },
	{ "socket", ALLOW, 0, { SAME(0, AF_NETLINK), SAME(2, NETLINK_ROUTE) } },
	{ "socket", REFUSE, EPERM, { SAME(0, AF_INET) } },
	{ "socket", REFUSE, EPERM, { SAME(0, AF_INET6) } },
	{ "socket", REFUSE, EAFNOSUPPORT, { { 0 } } },
	{ "socketpair", ALLOW, 0, { SAME(0, AF_UNIX) } },

	/* No keystrokes for whoever reads the terminal next, no line disciplines. */
	{ "ioctl", REFUSE, EPERM, { SAME(1, TIOCSTI) } },
	{ "ioctl", REFUSE, EPERM, { SAME(1, TIOCLINUX) } },
	{ "ioctl", REFUSE, EPERM, { SAME(1, TIOCSETD) } },
	{ "ioctl", ALLOW, 0, { { 0 } } },

	/* FIFOs and sockets; a user namespace can make no devices anyway. */
	{ "mknod", ALLOW, 0, { MASKED(1, S_IFMT, S_IFIFO) } },
	{ "mknod", ALLOW, 0, { MASKED(1, S_IFMT, S_IFSOCK) } },
	{ "mknod", ALLOW, 0, { MASKED(1, S_IFMT, S_IFREG) } },
	{ "mknodat", ALLOW, 0, { MASKED(2, S_IFMT, S_IFIFO) } },
	{ "mknodat", ALLOW, 0, { MASKED(2, S_IFMT, S_IFSOCK) } },
	{ "mknodat", ALLOW, 0, { MASKED(2, S_IFMT, S_IFREG) } },

	/* Those that are harmless, and asking what it is. */
	{ "personality", ALLOW, 0, { SAME(0, PER_LINUX) } },
	{ "personality", ALLOW, 0, { SAME(0, PER_LINUX32) } },
	{ "personality", ALLOW, 0, { SAME(0, UNAME26) } },
	{ "personality", ALLOW, 0, { SAME(0, UNAME26 | PER_LINUX32) } },
	{ "personality", ALLOW, 0, { SAME(0, 0xffffffff) } },

	/* Left out without harm: programs take what came before. */
	{ "epoll_pwait2", REFUSE, ENOSYS, { { 0 } } },
	{ "futex_waitv", REFUSE, ENOSYS, { { 0 } } },
	{ "get_mempolicy", REFUSE, ENOSYS, { { 0 } } },
	{ "io_uring_setup", REFUSE, ENOSYS, { { 0 } } },
	{ "landlock_create_ruleset", REFUSE, ENOSYS, { { 0 } } },
	{ "mlock2", REFUSE, ENOSYS, { { 0 } } },
	{ "pkey_alloc", REFUSE, ENOSYS, { { 0 } } },
	{ "preadv2", REFUSE, ENOSYS, { { 0 } } },
	{ "pwritev2", REFUSE, ENOSYS, { { 0 } } },
};

static struct oci_syscall *add(struct oci_seccomp *profile, const char *action, unsigned int code)
{
	struct oci_syscall *last;

	profile->syscalls =
		xrealloc(profile->syscalls, profile->n_syscalls + 1, sizeof(*profile->syscalls));
	last = &profile->syscalls[profile->n_syscalls++];
	*last = (struct oci_syscall){
		.action = xstrdup(action),
		.has_errno_ret = code != 0,
		.errno_ret = code,
	};
	return last;
}

static void add_name(struct oci_syscall *s, const char *name)
{
	s->names = xrealloc(s->names, s->n_names + 2, sizeof(char *));
	s->names[s->n_names++] = xstrdup(name);
	s->names[s->n_names] = NULL;
}

static void add_group(struct oci_seccomp *profile, const char *names)
{
	struct oci_syscall *s = add(profile, ALLOW, 0);
	_cleanup_free_ char *copy = xstrdup(names);

	for (char *rest = copy, *name; (name = strsep(&rest, " "));)
		add_name(s, name);
}

/* A line without a test holds whatever the arguments are, but not in place of those above it. */
static void add_checked(struct oci_seccomp *profile, size_t i)
{
	struct oci_syscall *s = add(profile, checked[i].action, checked[i].code);

	add_name(s, checked[i].name);
	s->args = xcalloc(ARRAY_LEN(checked[i].tests), sizeof(*s->args));
	for (size_t j = 0; j < ARRAY_LEN(checked[i].tests); j++) {
		if (!checked[i].tests[j].mask && j)
			continue;
		s->args[s->n_args++] = (struct oci_syscall_arg){
			.index = checked[i].tests[j].index,
			.value = checked[i].tests[j].mask,
			.value_two = checked[i].tests[j].value,
			.op = xstrdup("SCMP_CMP_MASKED_EQ"),
		};
	}
}

struct oci_seccomp *harden_calls(const struct moat_settings *settings)
{
	struct oci_seccomp *profile = xcalloc(1, sizeof(*profile));

	profile->default_action = xstrdup(REFUSE);
	profile->has_default_errno_ret = true;
	profile->default_errno_ret = EPERM;
	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		if (!groups[i].permission || harden_allows(settings, groups[i].permission))
			add_group(profile, groups[i].names);
	/* A rule of a group, which has no tests, would win over those here: permissions do. */
	for (size_t i = 0; i < ARRAY_LEN(checked); i++)
		add_checked(profile, i);
	return profile;
}

void harden_calls_free(struct oci_seccomp *profile)
{
	for (size_t i = 0; profile && i < profile->n_syscalls; i++) {
		struct oci_syscall *s = &profile->syscalls[i];

		for (size_t j = 0; j < s->n_names; j++)
			free(s->names[j]);
		for (size_t j = 0; j < s->n_args; j++)
			free(s->args[j].op);
		free(s->names);
		free(s->args);
		free(s->action);
	}
	if (profile) {
		free(profile->syscalls);
		free(profile->default_action);
	}
	free(profile);
}
