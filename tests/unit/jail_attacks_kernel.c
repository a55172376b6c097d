/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Attacks that lead to more of the kernel, or of the own memory, than a role needs. */
#include "jail_attacks.h"

#include <asm/ldt.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <linux/kvm.h>
#include <linux/perf_event.h>
#include <sys/ipc.h>
#include <sys/mman.h>

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

const struct attack attacks_on_the_kernel[] = {
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
	FILTERED_MAYBE(call_as_32_bit),
	FILTERED_MAYBE(call_as_x32),
	FILTERED_MAYBE(make_machine),
	KVM(change_machine),
	KVM(change_processor),
	KVM(make_kvm_device),
	{ 0 },
};
