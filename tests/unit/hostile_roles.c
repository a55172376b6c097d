/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The processes of a hostile guest's machine, in their jails. */
#include "hostile_host.h"

#include "base/fd.h"
#include "base/mem.h"
#include "vmm/x86/x86.h"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/kvm.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __real_ioctl(int fd, unsigned long request, void *argument);

/* The network's other ends are sockets, which keep packets apart as a tap does. */
int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
	if (request == TUNSETOFFLOAD || request == TUNSETQUEUE)
		return 0;
	return __real_ioctl(fd, request, argument);
}

int __wrap_x86_vcpu_setup(int vcpu_fd, const struct kvm_cpuid2 *cpuid, bool boot, uint64_t entry,
			  struct err *err);
int __real_x86_vcpu_setup(int vcpu_fd, const struct kvm_cpuid2 *cpuid, bool boot, uint64_t entry,
			  struct err *err);

/*
 * Further vCPUs begin where the first does: what a guest would need to wake them up from real mode
 * is many instructions which a KVM without hardware emulates, and no part of what is tried here.
 */
int __wrap_x86_vcpu_setup(int vcpu_fd, const struct kvm_cpuid2 *cpuid, bool boot, uint64_t entry,
			  struct err *err)
{
	struct kvm_mp_state runs = { .mp_state = KVM_MP_STATE_RUNNABLE };

	if (__real_x86_vcpu_setup(vcpu_fd, cpuid, true, entry, err) < 0)
		return -1;
	if (ioctl(vcpu_fd, KVM_SET_MP_STATE, &runs) < 0)
		return err_set(err, errno, "let a vCPU run");
	return 0;
}

static bool jailed(void)
{
	return geteuid() == 0 && !SANITIZED;
}

static int enter(enum role role, uint64_t capabilities, struct err *err)
{
	struct jail jail = { role, JAIL_UID_BASE + 9, capabilities, 0 };

	return jailed() ? jail_enter(&jail, err) : 0;
}

static int fail_child(const struct err *err)
{
	dprintf(2, "%s\n", err->text);
	return 3;
}

/* A crash is to end the process, not to go on with the tests in it; what it says is counted. */
static void leave_tests(const struct machine *machine)
{
	static const int crashes[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGSYS, SIGABRT };

	for (size_t i = 0; i < ARRAY_LEN(crashes) && !SANITIZED; i++)
		signal(crashes[i], SIG_DFL);
	dup2(machine->log, STDERR_FILENO);
	close(machine->log);
}

static int vmm_body(void *data, int ready_fd)
{
	struct machine *machine = data;
	struct err err;
	struct vmm *vmm = vmm_setup(&machine->config, &err);

	leave_tests(machine);
	if (!vmm || enter(ROLE_VMM, 0, &err) < 0 || vmm_start(vmm, &err) < 0 ||
	    (jailed() && filter_load(ROLE_VMM, &err) < 0))
		return fail_child(&err);
	spawn_ready(ready_fd, NULL);
	return vmm_run(vmm, &err) < 0 ? fail_child(&err) : 0;
}

static int fsd_body(void *data, int ready_fd)
{
	struct machine *machine = data;
	struct err err;
	struct fsd *fsd = fsd_setup(&machine->fs, &err);

	leave_tests(machine);
	if (!fsd || enter(ROLE_FSD, role_reach[ROLE_FSD].capabilities, &err) < 0 ||
	    (jailed() && (fsd_enter(fsd, &err) < 0 || filter_load(ROLE_FSD, &err) < 0)))
		return fail_child(&err);
	spawn_ready(ready_fd, NULL);
	return fsd_run(fsd, &err) < 0 ? fail_child(&err) : 0;
}

static int diskd_body(void *data, int ready_fd)
{
	struct machine *machine = data;
	struct err err;
	struct diskd *diskd = diskd_setup(&machine->disk, &err);

	leave_tests(machine);
	if (!diskd || enter(ROLE_DISKD, 0, &err) < 0 || diskd_start(diskd, &err) < 0 ||
	    (jailed() && filter_load(ROLE_DISKD, &err) < 0))
		return fail_child(&err);
	spawn_ready(ready_fd, NULL);
	return diskd_run(diskd, &err) < 0 ? fail_child(&err) : 0;
}

void machine_show_log(const struct machine *machine)
{
	char text[4096];
	ssize_t n;

	lseek(machine->log, 0, SEEK_SET);
	while ((n = read(machine->log, text, sizeof(text))) > 0)
		(void)!write(STDERR_FILENO, text, (size_t)n);
}

typedef int child_body(void *data, int ready_fd);

void machine_start_child(struct machine *machine, enum role role, const int *given, size_t count)
{
	child_body *body = role == ROLE_VMM ? vmm_body : role == ROLE_FSD ? fsd_body : diskd_body;
	struct child *child = role == ROLE_VMM	 ? &machine->vmm
			      : role == ROLE_FSD ? &machine->fsd
						 : &machine->diskd;
	struct err err = { 0 };
	int pair[2], keep[MACHINE_GIVEN + 1] = { machine->log };

	memcpy(keep + 1, given, count++ * sizeof(int));
	*child = (struct child){ .pidfd = -1, .ready_fd = -1 };
	if (jailed()) {
		if (spawn(child, role, 0, keep, count, body, machine, &err) < 0)
			fail_msg("%s", err.text);
	} else {
		assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
		child->pid = fork();
		if (child->pid == 0) {
			int all[MACHINE_GIVEN + 2] = { pair[1] };

			memcpy(all + 1, keep, count * sizeof(int));
			fd_close_except(3, all, count + 1);
			_exit(body(machine, pair[1]));
		}
		close(pair[1]);
		child->ready_fd = pair[0];
	}
	if (spawn_wait_ready(child, role, &err) < 0) {
		machine_show_log(machine);
		fail_msg("%s", err.text);
	}
}
