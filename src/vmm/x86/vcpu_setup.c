/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state that a vCPU starts in (Linux, Documentation/arch/x86/boot.rst, "64-bit boot protocol").
 * What KVM's reset state has right already (FPU, SYSENTER and SYSCALL registers zero, LINT0 as
 * ExtINT) is left as it is.
 */
#include "vmm/x86/x86.h"

#include <asm/processor-flags.h>
#include <sys/ioctl.h>

/* Names and values of Intel's SDM, volume 4; the kernel does not export them. */
#define MSR_MISC_ENABLE		0x1a0
#define MISC_ENABLE_FAST_STRING 1
#define MSR_MTRR_DEF_TYPE	0x2ff
#define MTRR_ENABLE		(1 << 11)
#define MTRR_WRITE_BACK		6
#define EFER_LONG_MODE_ENABLE	(1 << 8)
#define EFER_LONG_MODE_ACTIVE	(1 << 10)
#define SEGMENT_CODE		0xb /* execute, read, accessed */
#define SEGMENT_DATA		0x3 /* read, write, accessed */

static int set_msrs(int vcpu_fd, struct err *err)
{
	struct {
		struct kvm_msrs header;
		struct kvm_msr_entry entries[2];
	} msrs = {
		.header.nmsrs = 2,
		.entries = {
			{ .index = MSR_MISC_ENABLE, .data = MISC_ENABLE_FAST_STRING },
			{ .index = MSR_MTRR_DEF_TYPE, .data = MTRR_ENABLE | MTRR_WRITE_BACK },
		},
	};
	int done = ioctl(vcpu_fd, KVM_SET_MSRS, &msrs);

	if (done < 0)
		return err_set(err, errno, "set a vCPU's MSRs");
	if (done != 2)
		return err_set(err, 0, "set a vCPU's MSRs: KVM refused number %#x",
			       msrs.entries[done].index);
	return 0;
}

static struct kvm_segment segment(unsigned int gdt_entry, bool code)
{
	return (struct kvm_segment){
		.limit = UINT32_MAX,
		.selector = (uint16_t)(gdt_entry * 8),
		.type = code ? SEGMENT_CODE : SEGMENT_DATA,
		.present = 1,
		.db = !code,
		.s = 1,
		.l = code,
		.g = 1,
	};
}

static int set_registers(int vcpu_fd, uint64_t entry, struct err *err)
{
	struct kvm_regs regs = {
		.rip = entry,
		.rsi = X86_ZERO_PAGE,
		.rsp = X86_BOOT_STACK,
		.rflags = X86_EFLAGS_FIXED,
	};
	struct kvm_segment data = segment(X86_GDT_DATA, false);
	struct kvm_sregs sregs;

	if (ioctl(vcpu_fd, KVM_GET_SREGS, &sregs) < 0)
		return err_set(err, errno, "read the first vCPU's registers");
	sregs.cs = segment(X86_GDT_CODE, true);
	sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = data;
	sregs.gdt.base = X86_GDT;
	sregs.gdt.limit = 4 * 8 - 1;
	sregs.cr0 = X86_CR0_PE | X86_CR0_ET | X86_CR0_NE | X86_CR0_PG;
	sregs.cr3 = X86_PAGE_TABLES;
	sregs.cr4 = X86_CR4_PAE;
	sregs.efer = EFER_LONG_MODE_ENABLE | EFER_LONG_MODE_ACTIVE;
	if (ioctl(vcpu_fd, KVM_SET_SREGS, &sregs) < 0 || ioctl(vcpu_fd, KVM_SET_REGS, &regs) < 0)
		return err_set(err, errno, "set the first vCPU's registers");
	return 0;
}

int x86_vcpu_setup(int vcpu_fd, const struct kvm_cpuid2 *cpuid, bool boot, uint64_t entry,
		   struct err *err)
{
	if (ioctl(vcpu_fd, KVM_SET_CPUID2, cpuid) < 0)
		return err_set(err, errno, "set a vCPU's CPUID");
	/* After CPUID: from Linux 6.13 it decides which MSRs there are. */
	if (set_msrs(vcpu_fd, err) < 0)
		return -1;
	return boot ? set_registers(vcpu_fd, entry, err) : 0;
}
