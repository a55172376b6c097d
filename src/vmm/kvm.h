/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The calls to /dev/kvm that make a virtual machine (Linux, Documentation/virt/kvm/api.rst). */
#pragma once

#include "base/err.h"
#include "virtio/memory.h"

#include <linux/kvm.h>

struct kvm {
	int kvm_fd; /* /dev/kvm; the caller's */
	int vm_fd;
	size_t run_size; /* bytes of struct kvm_run and what follows it */
};

/*
 * kvm_create() - a VM with its interrupt controllers and its memory. No vCPU yet.
 * Returns 0, or -1 with err set. kvm_close() also after a failure.
 */
int kvm_create(struct kvm *kvm, int kvm_fd, const struct guest_memory *memory, struct err *err);
void kvm_close(struct kvm *kvm);

/*
 * kvm_add_read_only() - memory at gpa that the guest can read; what it stores there comes out as
 * what it would where no memory is.
 * @slot: a number that no other memory has.
 * @host: page-aligned, there for as long as the VM is. Size in bytes, whole pages.
 * Where KVM cannot do it the guest's reads come out too. Returns 0, or -1 with err set.
 */
int kvm_add_read_only(const struct kvm *kvm, uint32_t slot, uint64_t gpa, void *host, uint64_t size,
		      struct err *err);

/*
 * kvm_prefault() - map guest memory before the guest touches it: an exit saved for each small page.
 * What a kernel before 6.11 or without nested paging does not know is left to the guest's faults.
 */
void kvm_prefault(int vcpu_fd, uint64_t gpa, uint64_t size);

/* kvm_irqfd() - a write to the eventfd raises the interrupt line. */
int kvm_irqfd(const struct kvm *kvm, uint32_t gsi, int fd, struct err *err);

/* kvm_ioeventfd() - a 32-bit store of value at gpa signals the eventfd instead of an exit. */
int kvm_ioeventfd(const struct kvm *kvm, uint64_t gpa, uint32_t value, int fd, struct err *err);

/*
 * kvm_vcpu_create() - vCPU number id; its APIC id is the same.
 * @run: where its shared page is mapped.
 * Returns its descriptor, or -1 with err set.
 */
int kvm_vcpu_create(const struct kvm *kvm, unsigned int id, struct kvm_run **run, struct err *err);
