/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Can this KVM run a kernel? The answer comes from running a few instructions in 32-bit protected
 * mode at ring 0. One of them is POPCNT, with which Linux counts bits: hardware executes it, and
 * the instruction emulator, all that a KVM without hardware (module kvm_pvm) has for a guest's
 * kernel, does not know it.
 */
#include "vmm/kvm_probe.h"

#include "base/fd.h"
#include "base/mem.h"

#include <cpuid.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define CODE_ADDRESS 0x1000u
#define MEMORY_SIZE  0x4000u
#define RESULT_PORT  0x10u
#define RESULT	     13u /* bits set in the value below */

#define REAL_KVM_NEEDED                                                                            \
	"use a machine with VT-x or AMD-V (in a cloud, one that offers nested virtualization), "   \
	"or --isolation=sandbox"

static const unsigned char program[] = {
	0xb8, 0x78,	   0x56, 0x34, 0x12, /* mov eax, 0x12345678 */
	0xf3, 0x0f,	   0xb8, 0xc0,	     /* popcnt eax, eax */
	0xe7, RESULT_PORT,		     /* out RESULT_PORT, eax */
	0xf4,				     /* hlt */
};

struct probe {
	int vm, vcpu;
	void *memory;
	struct kvm_run *run;
	size_t run_size;
};

int kvm_open(struct err *err)
{
	_cleanup_fd_ int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int version;

	if (fd < 0) {
		int code = errno;

		err_set(err, code, "open /dev/kvm");
		if (code == ENOENT || code == ENODEV || code == ENXIO)
			return err_hint(err,
					"load the module kvm_intel or kvm_amd, enable "
					"virtualization in the firmware, or %s",
					REAL_KVM_NEEDED);
		if (code == EACCES || code == EPERM)
			return err_hint(err, "run moat as root, or be in the device's group (kvm); "
					     "in a container, "
					     "pass the device in; or take another level: "
					     "--isolation=sandbox, or for an ordinary user "
					     "--isolation=plain");
		return -1;
	}
	version = ioctl(fd, KVM_GET_API_VERSION, 0);
	if (version < 0 && errno == ENOTTY) {
		err_set(err, 0, "/dev/kvm is not the KVM device: it knows none of its calls");
		return err_hint(err, "put the real one there (a character device, 10:232; in a "
				     "container, pass the host's in)");
	}
	if (version < 0)
		return err_set(err, errno, "ask /dev/kvm for its version");
	if (version != KVM_API_VERSION)
		return err_set(err, ENOTSUP, "use /dev/kvm: its API version is %d, not %d", version,
			       KVM_API_VERSION);
	return fd_steal(&fd);
}

bool kvm_is_emulated(void)
{
	return access("/sys/module/kvm_pvm", F_OK) == 0;
}

static int create(struct probe *probe, int kvm_fd, struct err *err)
{
	struct kvm_userspace_memory_region region = { .memory_size = MEMORY_SIZE };
	int size = ioctl(kvm_fd, KVM_GET_VCPU_MMAP_SIZE, 0);

	if (size < (int)sizeof(struct kvm_run))
		return err_set(err, errno, "ask KVM for the size of a vCPU's shared page");
	do
		probe->vm = ioctl(kvm_fd, KVM_CREATE_VM, 0);
	while (probe->vm < 0 && errno == EINTR);
	if (probe->vm < 0)
		return err_set(err, errno, "create a virtual machine");
	probe->memory =
		mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (probe->memory == MAP_FAILED)
		return err_set(err, errno, "allocate memory for a virtual machine");
	region.userspace_addr = (uintptr_t)probe->memory;
	if (ioctl(probe->vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return err_set(err, errno, "give a virtual machine its memory");
	probe->vcpu = ioctl(probe->vm, KVM_CREATE_VCPU, 0);
	if (probe->vcpu < 0)
		return err_set(err, errno, "create a virtual processor");
	probe->run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, probe->vcpu, 0);
	if (probe->run == MAP_FAILED)
		return err_set(err, errno, "map a virtual processor's shared page");
	probe->run_size = (size_t)size;
	return 0;
}

static void destroy(struct probe *probe)
{
	if (probe->run != MAP_FAILED)
		munmap(probe->run, probe->run_size);
	if (probe->memory != MAP_FAILED)
		munmap(probe->memory, MEMORY_SIZE);
	fd_replace(&probe->vcpu, -1);
	fd_replace(&probe->vm, -1);
}

/* 32-bit protected mode, flat segments, no paging: as PVH enters a kernel. */
static int set_registers(const struct probe *probe, struct err *err)
{
	struct kvm_segment flat = { .limit = 0xffffffff,
				    .type = 3,
				    .present = 1,
				    .db = 1,
				    .s = 1,
				    .g = 1,
				    .selector = 16 };
	struct kvm_regs regs = { .rip = CODE_ADDRESS, .rflags = 2 };
	struct kvm_sregs sregs;

	if (ioctl(probe->vcpu, KVM_GET_SREGS, &sregs) < 0)
		return err_set(err, errno, "read a virtual processor's registers");
	sregs.cs = sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = flat;
	sregs.cs.type = 11;
	sregs.cs.selector = 8;
	sregs.cr0 |= 1; /* PE */
	if (ioctl(probe->vcpu, KVM_SET_SREGS, &sregs) < 0 ||
	    ioctl(probe->vcpu, KVM_SET_REGS, &regs) < 0)
		return err_set(err, errno, "set a virtual processor's registers");
	return 0;
}

static int run(const struct probe *probe, struct err *err)
{
	const struct kvm_run *state = probe->run;
	uint32_t value = 0;
	int r;

	do
		r = ioctl(probe->vcpu, KVM_RUN, 0);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return err_set(err, errno, "run a virtual processor");
	if (state->exit_reason == KVM_EXIT_IO && state->io.port == RESULT_PORT) {
		memcpy(&value, (const char *)state + state->io.data_offset, sizeof(value));
		if (value == RESULT)
			return 0;
	}
	err_set(err, 0,
		"KVM cannot run a kernel here: it fails at an instruction that kernels use "
		"(KVM exit %u)%s",
		state->exit_reason,
		kvm_is_emulated() ? ", as it works without hardware virtualization (no svm or vmx "
				    "flag in /proc/cpuinfo)"
				  : "");
	err_hint(err, "%s", REAL_KVM_NEEDED);
	if (err)
		err->code = ENOTSUP;
	return -1;
}

/*
 * Not __builtin_cpu_supports(): it brings a constructor that asks the processor a dozen times at
 * the start of every command, each a trap of microseconds in a virtual machine.
 */
static bool has_popcnt(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_POPCNT);
}

int kvm_probe(int kvm_fd, struct err *err)
{
	_cleanup_(destroy) struct probe probe = { -1, -1, MAP_FAILED, MAP_FAILED, 0 };

	/* Processors before 2008 lack POPCNT; for kernels on them nothing can be said. */
	if (!has_popcnt())
		return 0;
	if (create(&probe, kvm_fd, err) < 0 || set_registers(&probe, err) < 0)
		return -1;
	memcpy((char *)probe.memory + CODE_ADDRESS, program, sizeof(program));
	return run(&probe, err);
}
