/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Making a VM. The interrupt controllers are KVM's: an in-kernel local APIC is what makes timers
 * and IPIs cheap, and virtio-mmio's interrupt lines need an I/O APIC, which is then better there
 * too. There is no PIT: the guest's clock is kvm-clock, its timer the APIC's TSC deadline.
 */
#include "vmm/kvm.h"

#include "base/fd.h"
#include "base/mem.h"

#include <sys/ioctl.h>
#include <sys/mman.h>

/* Three pages that Intel's real mode needs, and one more, in the hole below 4 GiB. */
#define TSS_ADDRESS	     0xfffbd000ull
#define IDENTITY_MAP_ADDRESS 0xfffbc000ull

static const struct {
	int capability;
	const char *name;
} needed[] = {
	{ KVM_CAP_USER_MEMORY, "KVM_CAP_USER_MEMORY" },
	{ KVM_CAP_IRQCHIP, "KVM_CAP_IRQCHIP" },
	{ KVM_CAP_IRQFD, "KVM_CAP_IRQFD" },
	{ KVM_CAP_IOEVENTFD, "KVM_CAP_IOEVENTFD" },
	{ KVM_CAP_EXT_CPUID, "KVM_CAP_EXT_CPUID" },
	{ KVM_CAP_SET_TSS_ADDR, "KVM_CAP_SET_TSS_ADDR" },
	{ KVM_CAP_SET_IDENTITY_MAP_ADDR, "KVM_CAP_SET_IDENTITY_MAP_ADDR" },
	{ KVM_CAP_TSC_DEADLINE_TIMER, "KVM_CAP_TSC_DEADLINE_TIMER" },
	{ KVM_CAP_IMMEDIATE_EXIT, "KVM_CAP_IMMEDIATE_EXIT" },
};

static int check_capabilities(struct kvm *kvm, struct err *err)
{
	int version = ioctl(kvm->kvm_fd, KVM_GET_API_VERSION, 0);
	int size;

	if (version < 0)
		return err_set(err, errno, "ask /dev/kvm for its version");
	if (version != KVM_API_VERSION)
		return err_set(err, 0, "use KVM: its API version is %d, not %d", version,
			       KVM_API_VERSION);
	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		if (ioctl(kvm->kvm_fd, KVM_CHECK_EXTENSION, needed[i].capability) <= 0)
			return err_set(err, 0, "use KVM: it lacks %s; a newer kernel has it",
				       needed[i].name);
	size = ioctl(kvm->kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (size < (int)sizeof(struct kvm_run))
		return err_set(err, errno, "ask /dev/kvm for the size of a vCPU's shared page");
	kvm->run_size = (size_t)size;
	return 0;
}

/* The guest gets no performance counters: less of KVM to reach, and no side channel through it. */
static void disable_pmu(const struct kvm *kvm)
{
	struct kvm_enable_cap cap = { .cap = KVM_CAP_PMU_CAPABILITY,
				      .args = { KVM_PMU_CAP_DISABLE } };

	/* Kernels before 5.18 cannot; CPUID hides the counters there. */
	ioctl(kvm->vm_fd, KVM_ENABLE_CAP, &cap);
}

static int add_memory(const struct kvm *kvm, const struct guest_memory *memory, struct err *err)
{
	for (uint32_t i = 0; i < memory->count; i++) {
		const struct guest_slot *slot = &memory->slots[i];
		struct kvm_userspace_memory_region region = {
			.slot = i,
			.guest_phys_addr = slot->gpa,
			.memory_size = slot->size,
			.userspace_addr = (uintptr_t)slot->host,
		};

		if (ioctl(kvm->vm_fd, KVM_SET_USER_MEMORY_REGION, &region) < 0)
			return err_set(err, errno, "give KVM %llu MiB of guest memory",
				       (unsigned long long)slot->size >> 20);
	}
	return 0;
}

int kvm_add_read_only(const struct kvm *kvm, uint32_t slot, uint64_t gpa, void *host, uint64_t size,
		      struct err *err)
{
	struct kvm_userspace_memory_region region = {
		.slot = slot,
		.flags = KVM_MEM_READONLY,
		.guest_phys_addr = gpa,
		.memory_size = size,
		.userspace_addr = (uintptr_t)host,
	};

	if (ioctl(kvm->kvm_fd, KVM_CHECK_EXTENSION, KVM_CAP_READONLY_MEM) <= 0)
		return 0;
	if (ioctl(kvm->vm_fd, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return err_set(err, errno, "give KVM %llu bytes of read-only memory",
			       (unsigned long long)size);
	return 0;
}

int kvm_create(struct kvm *kvm, int kvm_fd, const struct guest_memory *memory, struct err *err)
{
	uint64_t identity = IDENTITY_MAP_ADDRESS;

	*kvm = (struct kvm){ .kvm_fd = kvm_fd, .vm_fd = -1 };
	if (check_capabilities(kvm, err) < 0)
		return -1;
	do
		kvm->vm_fd = ioctl(kvm_fd, KVM_CREATE_VM, 0);
	while (kvm->vm_fd < 0 && errno == EINTR);
	if (kvm->vm_fd < 0)
		return err_set(err, errno, "create a virtual machine");
	if (ioctl(kvm->vm_fd, KVM_SET_TSS_ADDR, TSS_ADDRESS) < 0 ||
	    ioctl(kvm->vm_fd, KVM_SET_IDENTITY_MAP_ADDR, &identity) < 0)
		return err_set(err, errno, "place KVM's own pages in the guest");
	if (ioctl(kvm->vm_fd, KVM_CREATE_IRQCHIP, 0) < 0)
		return err_set(err, errno, "create the interrupt controllers");
	disable_pmu(kvm);
	return add_memory(kvm, memory, err);
}

void kvm_close(struct kvm *kvm)
{
	fd_replace(&kvm->vm_fd, -1);
}

#ifndef KVM_PRE_FAULT_MEMORY /* headers of Linux before 6.11 */
struct kvm_pre_fault_memory {
	__u64 gpa, size, flags, padding[5];
};
#define KVM_PRE_FAULT_MEMORY _IOWR(KVMIO, 0xd5, struct kvm_pre_fault_memory)
#endif

void kvm_prefault(int vcpu_fd, uint64_t gpa, uint64_t size)
{
	struct kvm_pre_fault_memory range = { .gpa = gpa, .size = size };

	/* It moves gpa and size on, and stops early when a signal comes. */
	while (range.size && ioctl(vcpu_fd, KVM_PRE_FAULT_MEMORY, &range) == 0)
		;
}

int kvm_irqfd(const struct kvm *kvm, uint32_t gsi, int fd, struct err *err)
{
	struct kvm_irqfd irqfd = { .fd = (uint32_t)fd, .gsi = gsi };

	if (ioctl(kvm->vm_fd, KVM_IRQFD, &irqfd) < 0)
		return err_set(err, errno, "connect interrupt %u", gsi);
	return 0;
}

int kvm_ioeventfd(const struct kvm *kvm, uint64_t gpa, uint32_t value, int fd, struct err *err)
{
	struct kvm_ioeventfd ioeventfd = {
		.datamatch = value,
		.addr = gpa,
		.len = sizeof(value),
		.fd = fd,
		.flags = KVM_IOEVENTFD_FLAG_DATAMATCH,
	};

	if (ioctl(kvm->vm_fd, KVM_IOEVENTFD, &ioeventfd) < 0)
		return err_set(err, errno, "connect a doorbell at %#llx", (unsigned long long)gpa);
	return 0;
}

int kvm_vcpu_create(const struct kvm *kvm, unsigned int id, struct kvm_run **run, struct err *err)
{
	_cleanup_fd_ int fd = ioctl(kvm->vm_fd, KVM_CREATE_VCPU, (unsigned long)id);
	void *page;

	if (fd < 0)
		return err_set(err, errno, "create vCPU %u", id);
	page = mmap(NULL, kvm->run_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return err_set(err, errno, "map the shared page of vCPU %u", id);
	*run = page;
	return fd_steal(&fd);
}
