/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CPUID: what KVM says the host can virtualize, less what an untrusted guest has no use for, and
 * with the topology of one package of single-threaded cores.
 */
#include "vmm/x86/x86.h"

#include "base/mem.h"

#include <string.h>
#include <sys/ioctl.h>

#define ENTRIES_MAX 256u

#define BIT(n) (1u << (n))

struct kvm_cpuid2 *x86_cpuid_new(int kvm_fd, struct err *err)
{
	_cleanup_free_ struct kvm_cpuid2 *cpuid =
		xcalloc(1, sizeof(*cpuid) + ENTRIES_MAX * sizeof(cpuid->entries[0]));

	cpuid->nent = ENTRIES_MAX;
	if (ioctl(kvm_fd, KVM_GET_SUPPORTED_CPUID, cpuid) < 0) {
		err_set(err, errno, "ask KVM for the CPU features it supports");
		return NULL;
	}
	return steal(cpuid);
}

static bool is_vendor(const struct kvm_cpuid2 *cpuid, const char *name)
{
	for (uint32_t i = 0; i < cpuid->nent; i++) {
		const struct kvm_cpuid_entry2 *e = &cpuid->entries[i];

		if (e->function == 0)
			return memcmp(&e->ebx, name, 4) == 0 && memcmp(&e->edx, name + 4, 4) == 0 &&
			       memcmp(&e->ecx, name + 8, 4) == 0;
	}
	return false;
}

/* Takes away every entry of a leaf. */
static void leaf_remove(struct kvm_cpuid2 *cpuid, uint32_t function)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < cpuid->nent; i++)
		if (cpuid->entries[i].function != function)
			cpuid->entries[kept++] = cpuid->entries[i];
	cpuid->nent = kept;
}

static void leaf_add(struct kvm_cpuid2 *cpuid, struct kvm_cpuid_entry2 entry)
{
	if (cpuid->nent < ENTRIES_MAX)
		cpuid->entries[cpuid->nent++] = entry;
}

/* How many bits number so many CPUs. */
static uint32_t id_bits(unsigned int vcpus)
{
	return vcpus > 1 ? 32u - (uint32_t)__builtin_clz(vcpus - 1) : 0;
}

/* Leaf 0xb, as 0x1f would be: a thread a core, all cores in one package. */
static void topology_add(struct kvm_cpuid2 *cpuid, unsigned int vcpu, unsigned int vcpus)
{
	const uint32_t thread = 1 << 8, core = 2 << 8;
	struct kvm_cpuid_entry2 entry = { .function = 0xb,
					  .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
					  .edx = vcpu };

	entry.ebx = 1;
	entry.ecx = thread;
	leaf_add(cpuid, entry);
	entry.index = 1;
	entry.eax = id_bits(vcpus);
	entry.ebx = vcpus;
	entry.ecx = core | 1;
	leaf_add(cpuid, entry);
	entry.index = 2;
	entry.eax = entry.ebx = 0;
	entry.ecx = 2;
	leaf_add(cpuid, entry);
}

/* Cache leaves: caches of level 1 and 2 are a core's own, others the package's. */
static void cache_edit(struct kvm_cpuid_entry2 *e, unsigned int vcpus, bool intel)
{
	uint32_t level = (e->eax >> 5) & 7;
	uint32_t sharing = level >= 3 ? BIT(id_bits(vcpus)) - 1 : 0;

	if (!(e->eax & 0x1f))
		return; /* no more caches */
	e->eax = (e->eax & 0x3fff) | sharing << 14;
	if (intel)
		e->eax |= (BIT(id_bits(vcpus)) - 1) << 26; /* core ids in the package, less one */
}

static void leaf_1_edit(struct kvm_cpuid_entry2 *e, unsigned int vcpu, unsigned int vcpus)
{
	const uint32_t vmx = BIT(5), pdcm = BIT(15), tsc_deadline = BIT(24), hypervisor = BIT(31);
	const uint32_t htt = BIT(28);

	e->ebx = (e->ebx & 0xffff) | vcpu << 24 | BIT(id_bits(vcpus)) << 16;
	e->ecx = (e->ecx & ~(vmx | pdcm)) | tsc_deadline | hypervisor;
	e->edx = vcpus > 1 ? e->edx | htt : e->edx & ~htt;
}

static void leaf_7_edit(struct kvm_cpuid_entry2 *e, bool amd)
{
	const uint32_t sgx = BIT(2), waitpkg = BIT(5), sgx_lc = BIT(30),
		       arch_capabilities = BIT(29);

	if (e->index != 0)
		return;
	e->ebx &= ~sgx;
	e->ecx &= ~(waitpkg | sgx_lc);
	if (amd)
		e->edx &= ~arch_capabilities; /* KVM emulates it; no AMD has it */
}

static void entry_edit(struct kvm_cpuid_entry2 *e, unsigned int vcpu, unsigned int vcpus, bool amd)
{
	const uint32_t svm = BIT(2), perfctr_core = BIT(23);

	switch (e->function) {
	case 1:
		leaf_1_edit(e, vcpu, vcpus);
		break;
	case 4:
		cache_edit(e, vcpus, true);
		break;
	case 7:
		leaf_7_edit(e, amd);
		break;
	case 0x80000001:
		e->ecx &= ~(svm | perfctr_core);
		break;
	case 0x80000008:
		/*
		 * Bits of the APIC id that number cores, cores less one; other bits are reserved.
		 */
		e->ecx = amd ? id_bits(vcpus) << 12 | (vcpus - 1) : 0;
		break;
	case 0x8000001d:
		cache_edit(e, vcpus, false);
		break;
	case 0x8000001e:
		e->eax = vcpu;
		e->ebx = vcpu; /* core id, one thread a core */
		e->ecx = 0;    /* node 0 of one */
		break;
	default:
		break;
	}
}

void x86_cpuid_edit(struct kvm_cpuid2 *cpuid, unsigned int vcpu, unsigned int vcpus)
{
	/*
	 * Performance counters, SGX, SVM's own leaf, AMX's details and counters of AMD's; topology
	 * in the newer leaf, which would have to agree with 0xb.
	 */
	static const uint32_t removed[] = { 0xa, 0xb, 0x12, 0x1f, 0x8000000a, 0x80000022 };
	bool amd = is_vendor(cpuid, "AuthenticAMD") || is_vendor(cpuid, "HygonGenuine");

	for (size_t i = 0; i < ARRAY_LEN(removed); i++)
		leaf_remove(cpuid, removed[i]);
	for (uint32_t i = 0; i < cpuid->nent; i++)
		entry_edit(&cpuid->entries[i], vcpu, vcpus, amd);
	topology_add(cpuid, vcpu, vcpus);
}
