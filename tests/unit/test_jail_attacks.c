/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Attacks from inside each process of a microVM. A child becomes the role by the steps that the
 * role takes itself, then runs one attack: without a jail it succeeds, or the test means nothing;
 * in the jail it fails or ends the process. Needs root; says so and is skipped where it is not.
 */
#include "jail_attacks.h"

#include "base/fd.h"
#include "base/mem.h"
#include "vm/spawn.h"

#include <fcntl.h>
#include <linux/kvm.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

static struct scene scene;

enum walls { NO_JAIL, WALLS, FILTER };

enum outcome { SUCCEEDED, FAILED, KILLED, BROKEN };

struct run {
	const struct attack *attack;
	enum role role;
	enum walls walls;
};

static bool in_jail(enum role role)
{
	return role == ROLE_VMM || role == ROLE_FSD || role == ROLE_DISKD;
}

/* As machine.c, monitor.c and standin.c do. */
static int enter(const struct run *run, struct err *err)
{
	struct jail jail = { .role = run->role,
			     .uid = JAIL_UID_BASE + 7,
			     .capabilities = role_reach[run->role].capabilities };

	if (run->walls == NO_JAIL)
		return 0;
	if (in_jail(run->role)) {
		if (jail_enter(&jail, err) < 0)
			return -1;
	} else if (jail_restrict(run->role, jail.capabilities, err) < 0) {
		return -1;
	}
	return run->walls == FILTER ? filter_load(run->role, err) : 0;
}

/* The ready pipe has one byte where the role was entered, before the attack. */
static int body(void *data, int ready_fd)
{
	const struct run *run = data;
	struct err err;
	int r;

	if (run->attack->machine && scene.kvm_fd >= 0) {
		scene.vm_fd = ioctl(scene.kvm_fd, KVM_CREATE_VM, 0);
		scene.vcpu_fd = ioctl(scene.vm_fd, KVM_CREATE_VCPU, 0);
	}
	if (enter(run, &err) < 0) {
		dprintf(2, "%s\n", err.text);
		return 2;
	}
	if (write(ready_fd, "", 1) != 1)
		return 2;
	r = run->attack->run(&scene) ? 1 : 0;
	syscall(SYS_exit_group, r);
	return r;
}

static pid_t start(struct run *run, int *ready_fd)
{
	struct child child = { .pidfd = -1, .ready_fd = -1 };
	int kept[] = { scene.kvm_fd, 2 };
	struct err err;
	int pair[2];
	pid_t pid;

	/* Those in the jail are made by spawn(); the others have their parent's namespaces. */
	if (run->walls != NO_JAIL && in_jail(run->role)) {
		if (spawn(&child, run->role, 0, kept, ARRAY_LEN(kept), body, run, &err) < 0)
			fail_msg("%s", err.text);
		close(child.pidfd);
		*ready_fd = child.ready_fd;
		return child.pid;
	}
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		_exit(body(run, pair[1]));
	close(pair[1]);
	*ready_fd = pair[0];
	return pid;
}

static enum outcome try(struct run run)
{
	_cleanup_fd_ int ready_fd = -1;
	pid_t pid = start(&run, &ready_fd);
	int status;
	char byte;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (read(ready_fd, &byte, 1) != 1)
		return BROKEN;
	if (WIFEXITED(status))
		return WEXITSTATUS(status) == 0	  ? SUCCEEDED
		       : WEXITSTATUS(status) == 1 ? FAILED
						  : BROKEN;
	return WTERMSIG(status) == SIGSYS ? KILLED : BROKEN;
}

static int listener(int family, void *address, socklen_t size)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, address, size), 0);
	assert_int_equal(getsockname(fd, address, &size), 0);
	assert_int_equal(listen(fd, 100), 0);
	return fd;
}

static void make_victim(void)
{
	int pair[2];
	char byte;

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	scene.victim_fd = pair[1];
	scene.victim = fork();
	if (scene.victim == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		signal(SIGUSR1, SIG_IGN);
		snprintf(jail_memory, sizeof(jail_memory), "secret of another");
		(void)!write(pair[1], "", 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(pair[0], &byte, 1), 1);
	close(pair[0]);
	close(pair[1]);
}

static void make_files(void)
{
	static const char *const names[] = { "secret", "remove" };

	snprintf(scene.directory, sizeof(scene.directory), "/tmp/moat-jail.XXXXXX");
	assert_non_null(mkdtemp(scene.directory));
	assert_int_equal(chmod(scene.directory, 01777), 0);
	scene.state_fd = open(scene.directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	snprintf(scene.secret, sizeof(scene.secret), "%s/secret", scene.directory);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		close(openat(scene.state_fd, names[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
}

static int setup(void **state)
{
	make_files();
	scene.path.sun_family = scene.hidden.sun_family = AF_UNIX;
	snprintf(scene.path.sun_path, sizeof(scene.path.sun_path), "%s/socket", scene.directory);
	listener(AF_UNIX, &scene.path, sizeof(scene.path));
	chmod(scene.path.sun_path, 0777);
	snprintf(scene.hidden.sun_path + 1, sizeof(scene.hidden.sun_path) - 1, "moat-jail-%d",
		 getpid());
	listener(AF_UNIX, &scene.hidden, sizeof(scene.hidden));
	scene.address = (struct sockaddr_in){ .sin_family = AF_INET,
					      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	listener(AF_INET, &scene.address, sizeof(scene.address));
	scene.kvm_fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	scene.vm_fd = scene.vcpu_fd = -1;
	make_victim();
	return 0;
}

static int teardown(void **state)
{
	static const char *const names[] = { "secret",	   "remove", "made",
					     "state.json", "device", "socket" };

	kill(scene.victim, SIGKILL);
	waitpid(scene.victim, NULL, 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		unlinkat(scene.state_fd, names[i], 0);
	return rmdir(scene.directory);
}

static const struct attack *const tables[] = { attacks_on_files, attacks_on_processes,
					       attacks_on_the_kernel };

static void control(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
		for (const struct attack *attack = tables[i]; attack->name; attack++) {
			enum outcome outcome = try((struct run){ .attack = attack });

			if (outcome == SUCCEEDED)
				continue;
			if (!attack->optional)
				fail_msg("%s fails (%d) without a jail", attack->name, outcome);
			print_message("%s: nobody can do that here\n", attack->name);
		}
	}
}

/* Returns how many of them go wrong. */
static int check_table(const struct attack *attack, enum role role, enum walls walls)
{
	int wrong = 0;

	for (; attack->name; attack++) {
		enum outcome outcome;

		if (walls == WALLS && !attack->walls)
			continue;
		/* For the control, which is another attack's, too. */
		close(openat(scene.state_fd, "remove", O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
		outcome = try((struct run){ attack, role, walls });
		if (outcome == FAILED || outcome == KILLED)
			continue;
		print_error("%s %s in the jail of the %s\n", attack->name,
			    outcome == SUCCEEDED ? "succeeds" : "does not run", role_names[role]);
		wrong++;
	}
	return wrong;
}

static void check(enum role role, enum walls walls)
{
	int wrong = 0;

	for (size_t i = 0; i < ARRAY_LEN(tables); i++)
		wrong += check_table(tables[i], role, walls);
	assert_int_equal(wrong, 0);
}

static void vmm_walls(void **state)
{
	check(ROLE_VMM, WALLS);
}

static void fsd_walls(void **state)
{
	check(ROLE_FSD, WALLS);
}

static void diskd_walls(void **state)
{
	check(ROLE_DISKD, WALLS);
}

static void filtered(enum role role)
{
#ifdef __SANITIZE_ADDRESS__
	skip(); /* the sanitizer's own calls are not in the filters, which are left out there */
#endif
	check(role, FILTER);
}

static void vmm(void **state)
{
	filtered(ROLE_VMM);
}

static void fsd(void **state)
{
	filtered(ROLE_FSD);
}

static void diskd(void **state)
{
	filtered(ROLE_DISKD);
}

static void monitor(void **state)
{
	filtered(ROLE_MONITOR);
}

static void standin(void **state)
{
	filtered(ROLE_STANDIN);
}

static void victim(void **state)
{
	filtered(ROLE_VICTIM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(control),   cmocka_unit_test(vmm_walls),
		cmocka_unit_test(fsd_walls), cmocka_unit_test(diskd_walls),
		cmocka_unit_test(diskd),     cmocka_unit_test(vmm),
		cmocka_unit_test(fsd),	     cmocka_unit_test(monitor),
		cmocka_unit_test(standin),   cmocka_unit_test(victim),
	};

	if (geteuid() != 0) {
		dprintf(1, "skipped: only root can enter the jail\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, setup, teardown);
}
