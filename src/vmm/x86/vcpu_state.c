/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state of vCPUs and of KVM's own devices, written down and put back. The order is KVM's
 * (Linux, Documentation/virt/kvm/api.rst): MP_STATE is read first, since that lets pending INITs
 * take place; the local APIC comes after the register with its base and before the MSRs, of which
 * the timer's deadline needs both the TSC and the APIC's mode; events come last.
 */
#include "vmm/x86/vcpu_state.h"

#include "base/hash.h"
#include "base/mem.h"

#include <string.h>
#include <sys/ioctl.h>

#define MSR_TSC		 0x10
#define MSR_TSC_DEADLINE 0x6e0

struct msrs {
	struct kvm_msrs header;
	struct kvm_msr_entry entries[X86_MSRS_MAX];
};

struct step {
	unsigned long get, set;
	size_t offset;
	const char *what;
};

#define STEP(name, member, text)                                                                   \
	{                                                                                          \
		KVM_GET_##name, KVM_SET_##name, offsetof(struct x86_vcpu_state, member), text      \
	}

static const struct step steps[] = {
	STEP(MP_STATE, mp_state, "run state"),
	STEP(REGS, regs, "registers"),
	STEP(SREGS, sregs, "system registers"),
	STEP(XSAVE, xsave, "floating-point registers"),
	STEP(XCRS, xcrs, "extended control registers"),
	STEP(DEBUGREGS, debugregs, "debug registers"),
	STEP(LAPIC, lapic, "local APIC"),
};

static bool is_first(uint32_t index)
{
	return index == MSR_TSC;
}

static bool is_last(uint32_t index)
{
	return index == MSR_TSC_DEADLINE;
}

/* The MSRs that KVM has: the TSC in front, its deadline behind all others. */
static int list_msrs(int kvm_fd, struct x86_vcpu_state *state, struct err *err)
{
	_cleanup_free_ struct kvm_msr_list *list =
		xcalloc(1, sizeof(*list) + X86_MSRS_MAX * sizeof(list->indices[0]));
	uint32_t count = 0;

	list->nmsrs = X86_MSRS_MAX;
	if (ioctl(kvm_fd, KVM_GET_MSR_INDEX_LIST, list) < 0)
		return err_set(err, errno, "ask KVM which MSRs it has");
	for (int pass = 0; pass < 3; pass++)
		for (uint32_t i = 0; i < list->nmsrs; i++) {
			uint32_t index = list->indices[i];

			if (pass == (is_first(index) ? 0 : is_last(index) ? 2 : 1))
				state->msrs[count++] = (struct kvm_msr_entry){ .index = index };
		}
	state->msr_count = count;
	return 0;
}

/* KVM lists some that this vCPU has not: those are left out. */
static int save_msrs(int vcpu_fd, struct x86_vcpu_state *state, struct err *err)
{
	_cleanup_free_ struct msrs *msrs = xcalloc(1, sizeof(*msrs));

	for (;;) {
		int done;

		msrs->header.nmsrs = state->msr_count;
		memcpy(msrs->entries, state->msrs, state->msr_count * sizeof(state->msrs[0]));
		done = ioctl(vcpu_fd, KVM_GET_MSRS, msrs);
		if (done < 0)
			return err_set(err, errno, "read a vCPU's MSRs");
		if ((uint32_t)done >= state->msr_count)
			break;
		state->msr_count--;
		memmove(&state->msrs[done], &state->msrs[done + 1],
			(state->msr_count - (uint32_t)done) * sizeof(state->msrs[0]));
	}
	memcpy(state->msrs, msrs->entries, state->msr_count * sizeof(state->msrs[0]));
	return 0;
}

/* Those that are right already are not touched: some can be read only. */
static int restore_msrs(int vcpu_fd, const struct x86_vcpu_state *state, struct err *err)
{
	_cleanup_free_ struct msrs *msrs = xcalloc(1, sizeof(*msrs));
	uint32_t count = 0;
	int done;

	msrs->header.nmsrs = state->msr_count;
	memcpy(msrs->entries, state->msrs, state->msr_count * sizeof(state->msrs[0]));
	done = ioctl(vcpu_fd, KVM_GET_MSRS, msrs);
	if (done < 0 || (uint32_t)done < state->msr_count)
		return err_set(err, done < 0 ? errno : 0,
			       "read a vCPU's MSRs: it lacks one that was saved");
	for (uint32_t i = 0; i < state->msr_count; i++)
		if (is_first(state->msrs[i].index) || is_last(state->msrs[i].index) ||
		    msrs->entries[i].data != state->msrs[i].data)
			msrs->entries[count++] = state->msrs[i];
	msrs->header.nmsrs = count;
	done = ioctl(vcpu_fd, KVM_SET_MSRS, msrs);
	if (done < 0)
		return err_set(err, errno, "set a vCPU's MSRs");
	if ((uint32_t)done < count)
		return err_set(err, 0, "set a vCPU's MSRs: KVM refused number %#x",
			       msrs->entries[done].index);
	return 0;
}

int x86_vcpu_save(int kvm_fd, int vcpu_fd, struct x86_vcpu_state *state, struct err *err)
{
	memset(state, 0, sizeof(*state));
	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		if (ioctl(vcpu_fd, steps[i].get, (char *)state + steps[i].offset) < 0)
			return err_set(err, errno, "read a vCPU's %s", steps[i].what);
	if (list_msrs(kvm_fd, state, err) < 0 || save_msrs(vcpu_fd, state, err) < 0)
		return -1;
	if (ioctl(vcpu_fd, KVM_GET_VCPU_EVENTS, &state->events) < 0)
		return err_set(err, errno, "read a vCPU's events");
	return 0;
}

int x86_vcpu_restore(int vcpu_fd, const struct x86_vcpu_state *state, struct err *err)
{
	if (state->msr_count > X86_MSRS_MAX)
		return err_set(err, 0, "set %u MSRs of a vCPU", state->msr_count);
	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		if (ioctl(vcpu_fd, steps[i].set, (const char *)state + steps[i].offset) < 0)
			return err_set(err, errno, "set a vCPU's %s", steps[i].what);
	if (restore_msrs(vcpu_fd, state, err) < 0)
		return -1;
	if (ioctl(vcpu_fd, KVM_SET_VCPU_EVENTS, &state->events) < 0)
		return err_set(err, errno, "set a vCPU's events");
	return 0;
}

int x86_chips_save(int vm_fd, struct x86_chips_state *state, struct err *err)
{
	memset(state, 0, sizeof(*state));
	for (uint32_t i = 0; i < ARRAY_LEN(state->chips); i++) {
		state->chips[i].chip_id = i;
		if (ioctl(vm_fd, KVM_GET_IRQCHIP, &state->chips[i]) < 0)
			return err_set(err, errno, "read interrupt controller %u", i);
	}
	if (ioctl(vm_fd, KVM_GET_CLOCK, &state->clock) < 0)
		return err_set(err, errno, "read the guest's clock");
	return 0;
}

int x86_chips_restore(int vm_fd, const struct x86_chips_state *state, struct err *err)
{
	struct kvm_clock_data clock = { .clock = state->clock.clock };

	for (uint32_t i = 0; i < ARRAY_LEN(state->chips); i++)
		if (state->chips[i].chip_id != i ||
		    ioctl(vm_fd, KVM_SET_IRQCHIP, &state->chips[i]) < 0)
			return err_set(err, errno, "set interrupt controller %u", i);
	if (ioctl(vm_fd, KVM_SET_CLOCK, &clock) < 0)
		return err_set(err, errno, "set the guest's clock");
	return 0;
}

uint64_t x86_vcpu_identity(int vcpu_fd, const struct kvm_cpuid2 *cpuid)
{
	uint64_t hash = hash_bytes(cpuid->entries, cpuid->nent * sizeof(cpuid->entries[0]));

	return hash ^ (uint64_t)ioctl(vcpu_fd, KVM_GET_TSC_KHZ, 0);
}
