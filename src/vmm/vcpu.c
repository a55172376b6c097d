/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vCPU threads, made before the jail closes. Each runs its vCPU until an exit needs it, and
 * whatever concerns more than itself it hands to the loop. To stop one, immediate_exit is set and a
 * signal sent: whether it is inside KVM_RUN or just before it, it comes out with EINTR, its last
 * I/O completed, and looks at what it is to do.
 */
#include "vmm/machine.h"

#include "base/fd.h"
#include "base/mem.h"
#include "vmm/x86/x86.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define KICK_SIGNAL SIGUSR1
#define STACK_SIZE  (128ul << 10)
#define GUARD_SIZE  4096ul /* in front of each stack, of memory that faults */

struct ending {
	struct vmm *vmm;
	enum vmm_end end;
	char text[200];
};

static void end_on_loop(void *data)
{
	struct ending *ending = data;

	machine_end(ending->vmm, ending->end, "%s", ending->text);
}

/* Always false: the vCPU's thread ends. */
static bool __attribute__((format(printf, 3, 4)))
vcpu_end(struct vcpu *vcpu, enum vmm_end end, const char *fmt, ...)
{
	struct ending ending = { .vmm = vcpu->vmm, .end = end };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ending.text, sizeof(ending.text), fmt, ap);
	va_end(ap);
	calls_run(&vcpu->vmm->calls, end_on_loop, &ending);
	return false;
}

struct parking {
	struct vmm *vmm;
	uint64_t pause;
};

static void parked_on_loop(void *data)
{
	struct parking *parking = data;
	struct vmm *vmm = parking->vmm;

	if (parking->pause != vmm->pause || ++vmm->parked < vmm->vcpu_count)
		return;
	if (vmm->making)
		loop_quit(&vmm->loop);
	else
		control_event(vmm, VMM_EVENT_PAUSED, 0);
}

/* Stands still for as long as it is told to. Returns whether to go on. */
static bool vcpu_obey(struct vcpu *vcpu)
{
	struct vmm *vmm = vcpu->vmm;
	bool go;

	pthread_mutex_lock(&vmm->run_lock);
	while (vmm->run == RUN_PAUSE) {
		struct parking parking = { .vmm = vmm, .pause = vmm->pause };

		pthread_mutex_unlock(&vmm->run_lock);
		calls_run(&vmm->calls, parked_on_loop, &parking);
		pthread_mutex_lock(&vmm->run_lock);
		while (vmm->run == RUN_PAUSE && vmm->pause == parking.pause)
			pthread_cond_wait(&vmm->run_changed, &vmm->run_lock);
		/*
		 * The guest's watchdogs are told that time was lost; one without kvm-clock is not.
		 */
		ioctl(vcpu->fd, KVM_KVMCLOCK_CTRL, 0);
	}
	go = vmm->run == RUN_GO;
	pthread_mutex_unlock(&vmm->run_lock);
	return go;
}

static bool vcpu_internal_error(struct vcpu *vcpu)
{
	struct kvm_regs regs = { 0 };

	ioctl(vcpu->fd, KVM_GET_REGS, &regs);
	if (vcpu->run->internal.suberror == KVM_INTERNAL_ERROR_EMULATION)
		return vcpu_end(vcpu, VMM_END_KVM,
				"KVM could not emulate the guest's instruction at %#llx; a host "
				"without hardware virtualization cannot run a stock kernel",
				(unsigned long long)regs.rip);
	return vcpu_end(vcpu, VMM_END_KVM, "KVM met an internal error (%u) with the guest at %#llx",
			vcpu->run->internal.suberror, (unsigned long long)regs.rip);
}

static bool vcpu_system_event(struct vcpu *vcpu)
{
	if (vcpu->run->system_event.type == KVM_SYSTEM_EVENT_CRASH)
		return vcpu_end(vcpu, VMM_END_PANIC, "the guest kernel crashed");
	return vcpu_end(vcpu, VMM_END_RESET, "the guest ended");
}

/* Returns whether the vCPU is to run on. */
static bool vcpu_exit(struct vcpu *vcpu)
{
	struct kvm_run *run = vcpu->run;

	switch (run->exit_reason) {
	case KVM_EXIT_IO:
		if (machine_io(vcpu->vmm, run->io.port, (uint8_t *)run + run->io.data_offset,
			       run->io.size, run->io.count, run->io.direction == KVM_EXIT_IO_OUT))
			return true;
		return vcpu_end(vcpu, VMM_END_RESET, "the guest reset the machine");
	case KVM_EXIT_MMIO:
		machine_mmio(vcpu->vmm, run->mmio.phys_addr, run->mmio.data, run->mmio.len,
			     run->mmio.is_write);
		return true;
	case KVM_EXIT_SHUTDOWN:
		return vcpu_end(vcpu, VMM_END_PANIC, "the guest kernel crashed (triple fault)");
	case KVM_EXIT_SYSTEM_EVENT:
		return vcpu_system_event(vcpu);
	case KVM_EXIT_FAIL_ENTRY:
		return vcpu_end(vcpu, VMM_END_KVM, "KVM could not enter the guest (reason %#llx)",
				(unsigned long long)run->fail_entry.hardware_entry_failure_reason);
	case KVM_EXIT_INTERNAL_ERROR:
		return vcpu_internal_error(vcpu);
	default:
		return vcpu_end(vcpu, VMM_END_KVM,
				"KVM stopped the guest for an unknown reason (%u)",
				run->exit_reason);
	}
}

/* Returns whether there is to be a guest at all. */
static bool vcpu_wait(struct vcpu *vcpu)
{
	struct vmm *vmm = vcpu->vmm;
	bool go;

	pthread_mutex_lock(&vmm->run_lock);
	vcpu->tid = gettid();
	vmm->waiting++;
	pthread_cond_broadcast(&vmm->run_changed);
	while (vmm->run == RUN_WAIT)
		pthread_cond_wait(&vmm->run_changed, &vmm->run_lock);
	go = vmm->run != RUN_STOP;
	pthread_mutex_unlock(&vmm->run_lock);
	return go;
}

static void __attribute__((noreturn)) vcpu_sleep(struct vmm *vmm)
{
	pthread_mutex_lock(&vmm->run_lock);
	vmm->stopped++;
	pthread_cond_broadcast(&vmm->run_changed);
	for (;;)
		pthread_cond_wait(&vmm->run_changed, &vmm->run_lock);
}

static void *vcpu_thread(void *data)
{
	struct vcpu *vcpu = data;
	bool go = vcpu_wait(vcpu);

	while (go) {
		if (ioctl(vcpu->fd, KVM_RUN, 0) == 0) {
			go = vcpu_exit(vcpu);
		} else if (errno == EINTR) {
			/* Cleared before the command is read: one that comes now sets it again. */
			__atomic_store_n(&vcpu->run->immediate_exit, 0, __ATOMIC_SEQ_CST);
			go = vcpu_obey(vcpu);
		} else if (errno == EFAULT) {
			go = vcpu_end(vcpu, VMM_END_KVM,
				      "memory of the guest is not there any more: its kernel's "
				      "file was cut off while it ran");
		} else if (errno != EAGAIN) {
			go = vcpu_end(vcpu, VMM_END_KVM, "run a vCPU: %s", strerror(errno));
		}
	}
	vcpu_sleep(vcpu->vmm);
}

int vcpus_create(struct vmm *vmm, unsigned int count, uint64_t entry, struct err *err)
{
	_cleanup_free_ struct kvm_cpuid2 *cpuid = x86_cpuid_new(vmm->kvm.kvm_fd, err);

	if (!cpuid)
		return -1;
	for (unsigned int i = 0; i < count; i++) {
		struct vcpu *vcpu = &vmm->vcpus[i];

		vcpu->vmm = vmm;
		vcpu->fd = kvm_vcpu_create(&vmm->kvm, i, &vcpu->run, err);
		if (vcpu->fd < 0)
			return -1;
		vmm->vcpu_count++;
		x86_cpuid_edit(cpuid, i, count);
		if (i == 0)
			vmm->identity = x86_vcpu_identity(vcpu->fd, cpuid);
		if (x86_vcpu_setup(vcpu->fd, cpuid, entry && i == 0, entry, err) < 0)
			return -1;
	}
	return 0;
}

static void kicked(int signal)
{
	/* It is there to interrupt KVM_RUN. */
}

/* Their own, so that the C library neither makes nor gives any back while the guest runs. */
static int make_stacks(struct vmm *vmm, struct err *err)
{
	size_t each = GUARD_SIZE + STACK_SIZE;

	vmm->stacks = mmap(NULL, vmm->vcpu_count * each, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
	if (vmm->stacks == MAP_FAILED)
		return err_set(err, errno, "allocate the stacks of %u vCPUs", vmm->vcpu_count);
	for (unsigned int i = 0; i < vmm->vcpu_count; i++)
		if (mprotect(vmm->stacks + i * each, GUARD_SIZE, PROT_NONE) < 0)
			return err_set(err, errno, "guard the stack of a vCPU's thread");
	return 0;
}

static int start_thread(struct vmm *vmm, unsigned int index, struct err *err)
{
	uint8_t *stack = vmm->stacks + index * (GUARD_SIZE + STACK_SIZE) + GUARD_SIZE;
	pthread_attr_t attributes;
	pthread_t thread;
	int r;

	pthread_attr_init(&attributes);
	r = pthread_attr_setstack(&attributes, stack, STACK_SIZE);
	if (r == 0)
		r = pthread_create(&thread, &attributes, vcpu_thread, &vmm->vcpus[index]);
	pthread_attr_destroy(&attributes);
	return r ? err_set(err, r, "start a vCPU's thread") : 0;
}

int vcpus_start(struct vmm *vmm, struct err *err)
{
	struct sigaction action = { .sa_handler = kicked };

	vmm->pid = getpid();
	if (sigaction(KICK_SIGNAL, &action, NULL) < 0)
		return err_set(err, errno, "handle the signal that stops a vCPU");
	if (make_stacks(vmm, err) < 0)
		return -1;
	for (unsigned int i = 0; i < vmm->vcpu_count; i++)
		if (start_thread(vmm, i, err) < 0)
			return -1;
	pthread_mutex_lock(&vmm->run_lock);
	while (vmm->waiting < vmm->vcpu_count)
		pthread_cond_wait(&vmm->run_changed, &vmm->run_lock);
	pthread_mutex_unlock(&vmm->run_lock);
	return 0;
}

void vcpus_command(struct vmm *vmm, enum run_state run)
{
	pthread_mutex_lock(&vmm->run_lock);
	vmm->run = run;
	if (run == RUN_PAUSE) {
		vmm->pause++;
		vmm->parked = 0;
	}
	pthread_cond_broadcast(&vmm->run_changed);
	pthread_mutex_unlock(&vmm->run_lock);
	for (unsigned int i = 0; i < vmm->vcpu_count && run != RUN_GO; i++) {
		if (!vmm->vcpus[i].tid)
			continue;
		__atomic_store_n(&vmm->vcpus[i].run->immediate_exit, 1, __ATOMIC_SEQ_CST);
		/* As pthread_kill(3), which asks for the pid and masks signals each time. */
		syscall(SYS_tgkill, vmm->pid, vmm->vcpus[i].tid, KICK_SIGNAL);
	}
}

void vcpus_wait_stopped(struct vmm *vmm)
{
	pthread_mutex_lock(&vmm->run_lock);
	while (vmm->stopped < vmm->waiting)
		pthread_cond_wait(&vmm->run_changed, &vmm->run_lock);
	pthread_mutex_unlock(&vmm->run_lock);
}

void vcpus_close(struct vmm *vmm)
{
	for (unsigned int i = 0; i < vmm->vcpu_count; i++) {
		munmap(vmm->vcpus[i].run, vmm->kvm.run_size);
		fd_replace(&vmm->vcpus[i].fd, -1);
	}
}
