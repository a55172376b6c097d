/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All that a guest can see of its vCPUs, and of the interrupt controllers and the clock that KVM
 * keeps for it: plain structs, in KVM's own form.
 */
#pragma once

#include "base/err.h"

#include <linux/kvm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define X86_MSRS_MAX 512u

struct x86_vcpu_state {
	struct kvm_mp_state mp_state;
	struct kvm_regs regs;
	struct kvm_sregs sregs;
	uint32_t xsave[1024]; /* struct kvm_xsave; more takes a feature that guests are not given */
	struct kvm_xcrs xcrs;
	struct kvm_debugregs debugregs;
	struct kvm_lapic_state lapic;
	struct kvm_vcpu_events events;
	uint32_t msr_count;
	struct kvm_msr_entry msrs[X86_MSRS_MAX];
};

struct x86_chips_state {
	struct kvm_irqchip chips[3]; /* two PICs, the I/O APIC */
	struct kvm_clock_data clock;
};

/*
 * x86_vcpu_save() - of a vCPU that no thread runs, whose last I/O is completed.
 * x86_vcpu_restore() - into one that has CPUID and nothing else.
 * Each returns 0, or -1 with err set.
 */
int x86_vcpu_save(int kvm_fd, int vcpu_fd, struct x86_vcpu_state *state, struct err *err);
int x86_vcpu_restore(int vcpu_fd, const struct x86_vcpu_state *state, struct err *err);

/* The same for what is the whole VM's; restored when the vCPUs are: the clock goes on from then. */
int x86_chips_save(int vm_fd, struct x86_chips_state *state, struct err *err);
int x86_chips_restore(int vm_fd, const struct x86_chips_state *state, struct err *err);

/* x86_vcpu_identity() - a number for what a vCPU is: CPUID, and how fast its TSC goes. */
uint64_t x86_vcpu_identity(int vcpu_fd, const struct kvm_cpuid2 *cpuid);
