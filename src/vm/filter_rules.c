/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The system calls of each role, with the reason beside each. What is not listed ends the process,
 * save for some of the allocator's: those answer ENOSYS. No role makes processes or threads.
 */
#include "vm/filter_rules.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/if_tun.h>
#include <linux/kvm.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#define CALL(name, reason)                                                                         \
	{                                                                                          \
		.line = {.call = SYS_##name, .why = reason }                                       \
	}
#define CALL_IF(name, condition, reason)                                                           \
	{                                                                                          \
		.line = { .call = SYS_##name, .why = reason, .arguments = 1 },                     \
		.arguments = { condition },                                                        \
	}
#define CALL_IF2(name, first, second, reason)                                                      \
	{                                                                                          \
		.line = { .call = SYS_##name, .why = reason, .arguments = 2 },                     \
		.arguments = { first, second },                                                    \
	}
#define END                                                                                        \
	{                                                                                          \
		.line = {.why = NULL }                                                             \
	}

#define IS(index, value)                                                                           \
	{                                                                                          \
		index, UINT64_MAX, value                                                           \
	}
#define WITH(index, bits)                                                                          \
	{                                                                                          \
		index, bits, bits                                                                  \
	}
#define WITHOUT(index, bits)                                                                       \
	{                                                                                          \
		index, bits, 0                                                                     \
	}

/* An int of flags: with all of these, and of the others only those that may be there. */
#define FLAGS(index, with, may)                                                                    \
	{                                                                                          \
		index, UINT32_MAX &((uint64_t)(with) | ~(uint64_t)(may)), (with)                   \
	}
/* What files are opened relative to: the working directory. */
#define IS_HERE(index)                                                                             \
	{                                                                                          \
		index, UINT32_MAX, (uint32_t)AT_FDCWD                                              \
	}

/* Of the vmm in its pid namespace. */
#define VMM_PID 1

static const struct filter_rule monitor_rules[] = {
	CALL(epoll_wait, "the loop"),
	CALL(epoll_ctl, "the loop: clients come and go"),
	CALL(read, "the agent's answers, signals, timers, a network to be told of"),
	CALL(write, "requests to the agent, the word to create, log lines"),
	CALL(recvfrom, "events of the vmm"),
	CALL(recvmsg, "requests of clients, with descriptors"),
	CALL(sendmsg, "requests to the vmm"),
	CALL(sendto, "replies to clients"),
	CALL(shutdown, "the connection to the agent, when it has ended"),
	CALL(accept4, "clients of the control socket"),
	CALL_IF2(getsockopt, IS(1, SOL_SOCKET), IS(2, SO_PEERCRED), "who a client is"),
	CALL(geteuid, "whether the client is us"),
	CALL(timerfd_create, "time-outs of calls to the agent, at the first of them"),
	CALL(timerfd_settime, "time-outs"),
	CALL(getrandom, "ports of the guest's that its workload cannot guess"),
	CALL(clock_gettime, "times, and the processor time that the vmm had"),
	CALL(clock_getres, "whether the vmm's clock is there"),
	CALL_IF(ioctl, IS(1, TIOCGWINSZ), "the size of the container's terminal"),
	CALL_IF2(prctl, IS(0, PR_SET_PDEATHSIG), IS(1, 0), "outlive the caller of create"),
	CALL_IF(pidfd_send_signal, IS(1, SIGKILL), "end the vmm and fsd, of which it has pidfds"),
	CALL(wait4, "how they ended"),
	CALL(clock_nanosleep, "at the end: until engines have heard of a lack of memory"),
	CALL(close, "connections, and all at the end"),
	CALL_IF(mmap, WITHOUT(2, PROT_EXEC), "memory of the allocator; never executable"),
	CALL(munmap, "the same, given back"),
	CALL(brk, "the allocator"),
	CALL(rt_sigreturn, "a signal came"),
	CALL(restart_syscall, "the process was stopped and goes on"),
	CALL(exit_group, "the process ends"),
	END,
};

static const struct filter_rule standin_rules[] = {
	CALL(epoll_wait, "the loop"),
	CALL(epoll_ctl, "the loop: its two sources"),
	CALL(read, "signals; the word that the process runs"),
	CALL(recvfrom, "the end of the process"),
	CALL(sendmsg, "signals and sizes, to the monitor"),
	CALL_IF(ioctl, IS(1, TIOCGWINSZ), "the size of the terminal"),
	CALL(close, "the word that the process runs"),
	CALL(write, "log lines"),
	CALL(restart_syscall, "the process was stopped and goes on"),
	CALL(exit_group, "the process ends"),
	END,
};

/* cgroup/oom_tell.h says what it is for. */
static const struct filter_rule victim_rules[] = {
	CALL(read, "the word to act"),
	CALL(write, "its score for the OOM killer, and limits below what it has"),
	CALL(restart_syscall, "the process was stopped and goes on"),
	CALL(exit_group, "the process ends"),
	END,
};

static const struct filter_rule vmm_rules[] = {
	CALL_IF(ioctl, IS(1, KVM_RUN), "run a vCPU"),
	CALL_IF(ioctl, IS(1, KVM_GET_REGS), "say where a vCPU stood when it crashed"),
	CALL_IF(ioctl, IS(1, KVM_KVMCLOCK_CTRL), "tell the guest that it was paused"),
	CALL_IF(ioctl, IS(1, KVM_IRQFD), "the interrupt of a network device that appears"),
	CALL_IF(ioctl, IS(1, KVM_IOEVENTFD), "its doorbells"),
	CALL_IF(ioctl, IS(1, TUNSETOFFLOAD), "let a tap leave to the guest what its driver can do"),
	CALL_IF(ioctl, IS(1, TUNSETQUEUE),
		"have a tap's queue take part, or not, as its driver says"),
	CALL_IF(clock_gettime, IS(0, CLOCK_MONOTONIC_COARSE),
		"how often it says so, where the kernel's page does not tell the time"),
	CALL(epoll_wait, "the loop"),
	CALL(epoll_ctl, "the loop: streams come and go"),
	CALL(read, "eventfds: kicks and calls to the loop's thread; a tap"),
	CALL(write, "eventfds: interrupts; the serial console; log lines"),
	CALL(readv, "a stream's descriptor or a tap, into the guest's buffers"),
	CALL(writev, "a stream's descriptor or a tap, from the guest's buffers"),
	CALL(recvmsg, "requests of the monitor; a stream that is a socket"),
	CALL(sendmsg, "events to the monitor, queues to fsd; a stream that is a socket"),
	CALL(shutdown, "one half of a stream that is a socket"),
	CALL(poll, "a shared descriptor that may block; the answer of fsd"),
	CALL(close, "streams that have ended"),
	CALL(getrandom, "the entropy device"),
	CALL(futex, "between the vCPUs' threads and the loop's"),
	CALL_IF(madvise, IS(2, MADV_REMOVE), "the guest's free pages back to the host"),
	CALL(brk, "the allocator"),
	CALL_IF2(tgkill, IS(0, VMM_PID), IS(2, SIGUSR1),
		 "take a vCPU of this process out of KVM_RUN"),
	CALL(rt_sigreturn, "the handler of that signal returns"),
	CALL(restart_syscall, "the process was stopped and goes on"),
	CALL(exit_group, "the process ends"),
	END,
};

/* Flags of openat(2): of whatever is below a directory, of what is for data; see fs/open.c. */
#define BELOW_ALWAYS (O_NOFOLLOW | O_CLOEXEC)
#define PATH_ALWAYS  (O_PATH | BELOW_ALWAYS)
#define DATA_MAY     (O_ACCMODE | O_SYNC | O_NOATIME | O_NONBLOCK | O_NOCTTY | O_LARGEFILE)

static const struct filter_rule fsd_rules[] = {
	CALL(epoll_wait, "the loop"),
	CALL(epoll_ctl, "the loop: queues come and go"),
	CALL(recvmsg, "queues from the vmm, trees from the monitor"),
	CALL(write, "interrupts (eventfd), answers to both, log lines"),
	CALL_IF(openat, FLAGS(2, PATH_ALWAYS, 0), "one component below a directory, to look at it"),
	CALL_IF(openat, FLAGS(2, O_CREAT | O_EXCL | BELOW_ALWAYS, DATA_MAY),
		"a new file; one that is there is not opened so"),
	CALL_IF(openat, FLAGS(2, O_TMPFILE | BELOW_ALWAYS, DATA_MAY | O_EXCL),
		"one without a name"),
	CALL_IF2(openat, IS_HERE(0), FLAGS(2, O_CLOEXEC, DATA_MAY | O_TRUNC | O_DIRECTORY | O_PATH),
		 "what it holds already, by its number in /proc/self/fd"),
	CALL(close, "files of the guest"),
	CALL(statx, "attributes"),
	CALL(fstatfs, "statfs; whether what is mounted in a tree is a procfs"),
	CALL(readlinkat, "readlink"),
	CALL(getdents64, "readdir"),
	CALL(lseek, "positions in directories, holes in files"),
	CALL(preadv2, "read, into the guest's buffers; what the host did"),
	CALL(pwritev2, "write, from the guest's buffers"),
	CALL(copy_file_range, "copy_file_range"),
	CALL(truncate, "a new size"),
	CALL(fallocate, "fallocate"),
	CALL(fsync, "fsync, fdatasync"),
	CALL(syncfs, "syncfs"),
	CALL(mkdirat, "mkdir"),
	CALL(mknodat, "regular files, sockets and FIFOs"),
	CALL(symlinkat, "symlink"),
	CALL(linkat, "link"),
	CALL(unlinkat, "unlink, rmdir"),
	CALL(renameat2, "rename"),
	CALL(fchmodat, "chmod"),
	CALL(fchownat, "chown"),
	CALL(utimensat, "times"),
	CALL(setxattr, "extended attributes"),
	CALL(getxattr, "extended attributes"),
	CALL(listxattr, "extended attributes"),
	CALL(removexattr, "extended attributes"),
	CALL(setfsuid, "as whom to create"),
	CALL(setfsgid, "as whom to create"),
	CALL(capset, "set-id bits, and what a change of setfsuid took away"),
	CALL(umask, "the umask of the guest's process"),
	CALL(inotify_add_watch, "what the host does to shared directories"),
	CALL(inotify_rm_watch, "the same, no more of interest"),
	CALL(brk, "the allocator"),
	CALL(futex, "between its threads, one for each queue of a guest of several processors"),
	CALL(exit_group, "the process ends"),
	END,
};

static const struct filter_rule diskd_rules[] = {
	CALL(epoll_wait, "the loop"),
	CALL(epoll_ctl, "the loops: a queue comes and goes"),
	CALL(recvmsg, "queues, from the vmm"),
	CALL(write, "interrupts (eventfd), answers to the vmm, log lines"),
	CALL(preadv, "read, into the guest's buffers"),
	CALL(pwritev, "write, from the guest's buffers"),
	CALL(fdatasync, "flush"),
	CALL_IF(fallocate, WITH(1, FALLOC_FL_KEEP_SIZE),
		"discard and write zeroes; the image does not grow"),
	CALL_IF(ioctl, IS(1, BLKDISCARD), "discard, of a block device"),
	CALL(futex, "locks of the C library, between the queues' threads"),
	CALL(close, "eventfds of a queue that goes"),
	CALL_IF(mmap, WITHOUT(2, PROT_EXEC), "memory of the allocator; never executable"),
	CALL(munmap, "the same, given back"),
	CALL(brk, "the allocator"),
	CALL(exit_group, "the process ends"),
	END,
};

static const struct filter_rule *const rules[ROLES] = {
	[ROLE_MONITOR] = monitor_rules, [ROLE_VMM] = vmm_rules,
	[ROLE_FSD] = fsd_rules,		[ROLE_DISKD] = diskd_rules,
	[ROLE_STANDIN] = standin_rules, [ROLE_VICTIM] = victim_rules,
};

/*
 * The allocator asks for these where its heap cannot grow, and then says that there is no memory.
 */
const int filter_absent[FILTER_ABSENT] = { SYS_mmap, SYS_munmap, SYS_mremap };

const struct filter_rule *filter_rules(enum role role)
{
	return rules[role];
}

const struct filter_line *filter_line(enum role role, size_t index)
{
	const struct filter_rule *rule = &rules[role][index];

	return rule->line.why ? &rule->line : NULL;
}
