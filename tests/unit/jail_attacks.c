/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The attacks, each by the system call itself: no library stands between it and the jail. */
#include "jail_attacks.h"

#include <asm/ldt.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/io_uring.h>
#include <linux/kvm.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

char jail_memory[32];

#define ATTACK(name) static int name(const struct scene *s)
#define CALL(...)    (syscall(__VA_ARGS__) < 0)

ATTACK(open_file)
{
	return CALL(SYS_open, s->secret, O_RDONLY);
}

ATTACK(open_file_at)
{
	return CALL(SYS_openat, AT_FDCWD, s->secret, O_RDONLY, 0);
}

ATTACK(open_file_above)
{
	char path[200];

	snprintf(path, sizeof(path), "../../../../..%s", s->secret);
	return CALL(SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
}

ATTACK(open_root_of_another)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/root", s->victim);
	return CALL(SYS_openat, AT_FDCWD, path, O_PATH, 0);
}

ATTACK(open_device)
{
	return CALL(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0);
}

ATTACK(make_file)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/made", s->directory);
	return CALL(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY, 0600);
}

ATTACK(write_state)
{
	return CALL(SYS_openat, s->state_fd, "state.json", O_CREAT | O_WRONLY, 0600);
}

ATTACK(remove_state)
{
	return CALL(SYS_unlinkat, s->state_fd, "remove", 0);
}

ATTACK(make_device)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/device", s->directory);
	return CALL(SYS_mknod, path, S_IFCHR | 0600, 0x103);
}

static int reach(int family, const void *address, socklen_t size)
{
	long fd = syscall(SYS_socket, family, SOCK_STREAM, 0);

	return fd < 0 || CALL(SYS_connect, fd, address, size);
}

ATTACK(connect_path)
{
	return reach(AF_UNIX, &s->path, sizeof(s->path));
}

ATTACK(connect_hidden)
{
	return reach(AF_UNIX, &s->hidden, sizeof(s->hidden));
}

ATTACK(connect_address)
{
	return reach(AF_INET, &s->address, sizeof(s->address));
}

ATTACK(raw_socket)
{
	return CALL(SYS_socket, AF_INET, SOCK_RAW, IPPROTO_ICMP);
}

ATTACK(trace)
{
	return CALL(SYS_ptrace, PTRACE_SEIZE, s->victim, 0, 0);
}

ATTACK(make_process)
{
	long pid = syscall(SYS_fork);

	if (pid == 0)
		syscall(SYS_exit_group, 0);
	return pid < 0;
}

ATTACK(make_process_clone)
{
	long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		syscall(SYS_exit_group, 0);
	return pid < 0;
}

ATTACK(make_process_clone3)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid == 0)
		syscall(SYS_exit_group, 0);
	return pid < 0;
}

static void *thread(void *data)
{
	return data;
}

ATTACK(make_thread)
{
	pthread_t id;

	return pthread_create(&id, NULL, thread, NULL) != 0 || pthread_join(id, NULL) != 0;
}

ATTACK(execute)
{
	char *const args[] = { "true", NULL };

	execve("/bin/true", args, NULL);
	return 1;
}

ATTACK(execute_descriptor)
{
	char *const args[] = { "true", NULL };
	long fd = syscall(SYS_openat, AT_FDCWD, "/bin/true", O_RDONLY, 0);

	syscall(SYS_execveat, fd, "", args, NULL, AT_EMPTY_PATH);
	return 1;
}

ATTACK(send_signal)
{
	return CALL(SYS_kill, s->victim, SIGCONT);
}

ATTACK(send_signal_thread)
{
	return CALL(SYS_tgkill, s->victim, s->victim, SIGUSR1);
}

ATTACK(send_signal_all)
{
	return CALL(SYS_kill, -1, 0); /* hurts nobody */
}

ATTACK(send_signal_queued)
{
	siginfo_t info = { .si_signo = SIGCONT, .si_code = SI_QUEUE };

	return CALL(SYS_rt_sigqueueinfo, s->victim, SIGCONT, &info);
}

ATTACK(open_pidfd)
{
	return CALL(SYS_pidfd_open, s->victim, 0);
}

ATTACK(take_descriptor)
{
	return CALL(SYS_pidfd_getfd, syscall(SYS_pidfd_open, s->victim, 0), s->victim_fd, 0);
}

ATTACK(limit_another)
{
	struct rlimit limit;

	return CALL(SYS_prlimit64, s->victim, RLIMIT_NOFILE, NULL, &limit);
}

ATTACK(slow_another)
{
	return CALL(SYS_setpriority, PRIO_PROCESS, s->victim, 1);
}

static int got_it(const char *buffer)
{
	return strcmp(buffer, "secret of another") != 0;
}

ATTACK(read_memory)
{
	char buffer[sizeof(jail_memory)] = "";
	struct iovec to = { buffer, sizeof(buffer) }, from = { jail_memory, sizeof(jail_memory) };

	return CALL(SYS_process_vm_readv, s->victim, &to, 1, &from, 1, 0) || got_it(buffer);
}

ATTACK(read_memory_file)
{
	char buffer[sizeof(jail_memory)] = "", path[64];
	long fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", s->victim);
	fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY, 0);
	return fd < 0 || CALL(SYS_pread64, fd, buffer, sizeof(buffer), (uintptr_t)jail_memory) ||
	       got_it(buffer);
}

ATTACK(write_memory)
{
	char buffer[] = "secret of another";
	struct iovec from = { buffer, sizeof(buffer) }, to = { jail_memory, sizeof(buffer) };

	return CALL(SYS_process_vm_writev, s->victim, &from, 1, &to, 1, 0);
}

ATTACK(mount_tmpfs)
{
	return CALL(SYS_mount, "tmpfs", s->directory, "tmpfs", 0, NULL) ||
	       CALL(SYS_umount2, s->directory, MNT_DETACH);
}

ATTACK(mount_new)
{
	return CALL(SYS_fsopen, "tmpfs", 0);
}

ATTACK(copy_mount)
{
	return CALL(SYS_open_tree, AT_FDCWD, "/", 1 /* OPEN_TREE_CLONE */);
}

ATTACK(change_root)
{
	return CALL(SYS_chroot, "/");
}

ATTACK(unshare_user)
{
	return CALL(SYS_unshare, CLONE_NEWUSER);
}

ATTACK(unshare_mounts)
{
	return CALL(SYS_unshare, CLONE_NEWNS);
}

ATTACK(join_namespace)
{
	return CALL(SYS_setns, syscall(SYS_pidfd_open, s->victim, 0), CLONE_NEWNET);
}

ATTACK(become_another)
{
	return CALL(SYS_setresuid, 12345, 12345, 12345);
}

ATTACK(join_group)
{
	gid_t group = 12345;

	return CALL(SYS_setgroups, 1, &group);
}

ATTACK(raise_capabilities)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2] = { { 1u << CAP_SYS_ADMIN, 1u << CAP_SYS_ADMIN, 0 } };

	return CALL(SYS_capset, &header, caps);
}

ATTACK(map_executable)
{
	return CALL(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

ATTACK(make_executable)
{
	return CALL(SYS_mprotect, (uintptr_t)jail_memory & ~4095ul, 4096,
		    PROT_READ | PROT_WRITE | PROT_EXEC);
}

ATTACK(make_executable_keyed)
{
	return CALL(SYS_pkey_mprotect, (uintptr_t)jail_memory & ~4095ul, 4096,
		    PROT_READ | PROT_WRITE | PROT_EXEC, -1);
}

ATTACK(make_memory_file)
{
	return CALL(SYS_memfd_create, "x", 0);
}

ATTACK(share_memory)
{
	return CALL(SYS_shmget, IPC_PRIVATE, 4096, 0600 | IPC_CREAT);
}

ATTACK(use_io_uring)
{
	struct io_uring_params params = { 0 };

	return CALL(SYS_io_uring_setup, 1, &params);
}

ATTACK(use_bpf)
{
	union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1
	};

	return CALL(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
}

ATTACK(use_userfaultfd)
{
	return CALL(SYS_userfaultfd, 1 /* UFFD_USER_MODE_ONLY */);
}

ATTACK(use_perf)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .type = PERF_TYPE_SOFTWARE };

	return CALL(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

ATTACK(use_keys)
{
	return CALL(SYS_add_key, "user", "moat-test", "x", 1, -1 /* the thread's keyring */);
}

ATTACK(watch_files)
{
	return CALL(SYS_fanotify_init, 0, 0);
}

ATTACK(change_segments)
{
	struct user_desc segment = { .entry_number = 0, .seg_32bit = 1, .limit = 1 };

	return CALL(SYS_modify_ldt, 1, &segment, sizeof(segment));
}

ATTACK(open_handle)
{
	struct {
		struct file_handle handle;
		char bytes[128];
	} file = { .handle = { .handle_bytes = 128 } };
	int mount;

	return CALL(SYS_name_to_handle_at, AT_FDCWD, s->secret, &file, &mount, 0) ||
	       CALL(SYS_open_by_handle_at, AT_FDCWD, &file, O_RDONLY);
}

ATTACK(be_dumpable)
{
	return CALL(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0);
}

ATTACK(call_as_32_bit)
{
	int result = 20; /* getpid there, writev here */

	__asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
	return result <= 0;
}

ATTACK(call_as_x32)
{
	return CALL(0x40000000 | SYS_getppid);
}

ATTACK(make_machine)
{
	return CALL(SYS_ioctl, s->kvm_fd, KVM_CREATE_VM, 0);
}

ATTACK(change_machine)
{
	static char page[4096] __attribute__((aligned(4096)));
	struct kvm_userspace_memory_region region = { .guest_phys_addr = 1 << 20,
						      .memory_size = sizeof(page),
						      .userspace_addr = (uintptr_t)page };

	return CALL(SYS_ioctl, s->vm_fd, KVM_SET_USER_MEMORY_REGION, &region);
}

ATTACK(change_processor)
{
	struct kvm_sregs sregs;

	return CALL(SYS_ioctl, s->vcpu_fd, KVM_GET_SREGS, &sregs);
}

ATTACK(make_kvm_device)
{
	struct kvm_create_device device = { .type = KVM_DEV_TYPE_VFIO };

	return CALL(SYS_ioctl, s->vm_fd, KVM_CREATE_DEVICE, &device);
}

#define ATTACK_OF(function, ...)                                                                   \
	{                                                                                          \
		.name = #function, .run = function, __VA_ARGS__                                    \
	}
#define WALLED(function)	 ATTACK_OF(function, .walls = true)
#define WALLED_MAYBE(function)	 ATTACK_OF(function, .walls = true, .optional = true)
#define FILTERED(function)	 ATTACK_OF(function, .walls = false)
#define FILTERED_MAYBE(function) ATTACK_OF(function, .optional = true)
#define KVM(function)		 ATTACK_OF(function, .optional = true, .machine = true)

const struct attack attacks[] = {
	WALLED(open_file),
	WALLED(open_file_at),
	WALLED(open_file_above),
	WALLED(open_root_of_another),
	WALLED(open_device),
	WALLED(make_file),
	WALLED(write_state), /* the monitor holds the directory, the others do not */
	WALLED(remove_state),
	WALLED(make_device),
	WALLED(connect_path),
	WALLED(connect_hidden),
	WALLED(connect_address),
	WALLED(raw_socket),
	WALLED(trace),
	FILTERED(make_process),
	FILTERED(make_process_clone),
	FILTERED(make_process_clone3),
	FILTERED(make_thread),
	WALLED(execute),
	WALLED(execute_descriptor),
	WALLED(send_signal),
	WALLED(send_signal_thread),
	WALLED(send_signal_all),
	WALLED(send_signal_queued),
	WALLED(open_pidfd),
	WALLED(take_descriptor),
	WALLED(limit_another),
	WALLED(slow_another),
	WALLED(read_memory),
	WALLED(read_memory_file),
	WALLED(write_memory),
	WALLED(mount_tmpfs),
	WALLED(mount_new),
	WALLED(copy_mount),
	WALLED(change_root),
	FILTERED(unshare_user),
	WALLED(unshare_mounts),
	WALLED(join_namespace),
	FILTERED(become_another), /* fsd has the capability, for setfsuid(2) */
	FILTERED(join_group),
	WALLED(raise_capabilities),
	FILTERED(map_executable),
	FILTERED(make_executable),
	FILTERED(make_executable_keyed),
	FILTERED(make_memory_file),
	FILTERED(share_memory),
	FILTERED_MAYBE(use_io_uring),
	FILTERED_MAYBE(use_bpf),
	FILTERED_MAYBE(use_userfaultfd),
	FILTERED_MAYBE(use_perf),
	FILTERED_MAYBE(use_keys),
	FILTERED_MAYBE(watch_files),
	FILTERED_MAYBE(change_segments),
	WALLED_MAYBE(open_handle),
	FILTERED(be_dumpable),
	FILTERED_MAYBE(call_as_32_bit),
	FILTERED_MAYBE(call_as_x32),
	FILTERED_MAYBE(make_machine),
	KVM(change_machine),
	KVM(change_processor),
	KVM(make_kvm_device),
};

const size_t attacks_count = sizeof(attacks) / sizeof(attacks[0]);
