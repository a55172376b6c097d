/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The jail from inside: children enter it and look around (test_jail_attacks.c attacks). Needs
 * root; says so and is skipped where it is not.
 */
#include "base/fd.h"
#include "base/proc.h"
#include "vm/spawn.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#define UID (JAIL_UID_BASE + 7)

/*
 * run() returns 0 where what it looked for is so. How the child ended: an exit status, or 256 and
 * the signal.
 */
static int run_in_jail(enum role role, int (*run)(void))
{
	struct jail jail = { .role = role,
			     .uid = UID,
			     .capabilities = role == ROLE_FSD ? 1u << CAP_DAC_OVERRIDE : 0 };
	struct err err;
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (jail_enter(&jail, &err) < 0) {
			dprintf(2, "%s\n", err.text);
			_exit(99);
		}
		_exit(run());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int see_nothing(void)
{
	static const char *const paths[] = { "/proc", "/etc",	"/dev/null",
					     "/bin",  "../etc", "/../etc" };
	struct stat st;

	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (stat(paths[i], &st) == 0)
			return 1;
	/* Nothing can be made either, not even by root. */
	if (open("/x", O_CREAT | O_WRONLY, 0600) >= 0 || mkdir("/x", 0700) == 0)
		return 2;
	return 0;
}

static int have_nothing(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];

	if (syscall(SYS_capget, &header, caps) < 0)
		return 1;
	for (int i = 0; i < 2; i++)
		if (caps[i].effective || caps[i].permitted || caps[i].inheritable)
			return 2;
	if (prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN) != 0 ||
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return 3;
	if (prctl(PR_GET_DUMPABLE) != 0)
		return 4;
	if (getuid() != UID || getgid() != UID || getgroups(0, NULL) != 0)
		return 5;
	if (setuid(0) == 0 || unshare(CLONE_NEWNET) == 0)
		return 6;
	return 0;
}

static int keep_one(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];

	if (syscall(SYS_capget, &header, caps) < 0)
		return 1;
	return caps[0].effective != 1u << CAP_DAC_OVERRIDE ||
	       caps[0].permitted != 1u << CAP_DAC_OVERRIDE || caps[1].permitted ||
	       prctl(PR_CAPBSET_READ, CAP_CHOWN) != 0;
}

static int see_no_network(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_name = "lo" };

	/* A network namespace of its own: not even its loopback is up. */
	return fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0 || (request.ifr_flags & IFF_UP);
}

static void test_empty_root(void **state)
{
	assert_int_equal(run_in_jail(ROLE_VMM, see_nothing), 0);
	assert_int_equal(run_in_jail(ROLE_FSD, see_nothing), 0);
}

static void test_no_privileges(void **state)
{
	assert_int_equal(run_in_jail(ROLE_VMM, have_nothing), 0);
}

static void test_fsd_keeps_what_it_needs(void **state)
{
	assert_int_equal(run_in_jail(ROLE_FSD, keep_one), 0);
}

static void test_own_network(void **state)
{
	assert_int_equal(run_in_jail(ROLE_VMM, see_no_network), 0);
}

static int count_calls(enum role role)
{
	const struct filter_line *line;
	int count = 0;

	for (size_t i = 0; (line = filter_line(role, i)); i++) {
		bool seen = false;

		assert_true(strlen(line->why) > 3);
		for (size_t j = 0; j < i; j++)
			seen = seen || filter_line(role, j)->call == line->call;
		count += !seen;
	}
	return count;
}

static void test_ceilings(void **state)
{
	assert_in_range(count_calls(ROLE_VMM), 1, 25);
	assert_in_range(count_calls(ROLE_MONITOR), 1, 60);
	assert_in_range(count_calls(ROLE_FSD), 1, 40);
	assert_in_range(count_calls(ROLE_DISKD), 1, 15);
	assert_in_range(count_calls(ROLE_STANDIN), 1, 15);
	assert_in_range(count_calls(ROLE_VICTIM), 1, 4);
}

static int report_and_wait(void *data, int ready_fd)
{
	const char *text = data;
	struct err err = { 0 };

	if (*text)
		snprintf(err.text, sizeof(err.text), "%s", text);
	spawn_ready(ready_fd, *text ? &err : NULL);
	if (*text)
		return 3;
	for (;;)
		pause();
}

static int look_around(void *data, int ready_fd)
{
	/* its own pid namespace; no descriptor but the three, the pipe and the one given */
	bool good = getpid() == 1 && fcntl(*(int *)data, F_GETFD) >= 0;
	int open_fds = 0;

	for (int fd = 0; fd < 200; fd++)
		open_fds += fcntl(fd, F_GETFD) >= 0;
	spawn_ready(ready_fd, NULL);
	return good && open_fds == 5 ? 0 : 10 + open_fds;
}

static int say_nothing(void *data, int ready_fd)
{
	while (data)
		pause();
	return 7;
}

static void test_how_one_ended_that_said_nothing(void **state)
{
	struct child child = { .pidfd = -1, .ready_fd = -1 };
	struct err err = { 0 };
	int status;

	assert_int_equal(spawn(&child, ROLE_VMM, 0, NULL, 0, say_nothing, NULL, &err), 0);
	assert_int_equal(spawn_wait_ready(&child, ROLE_VMM, &err), -1);
	assert_string_equal(err.text,
			    "start the vmm: it ended while it was set up; its status was 7");
	status = spawn_end(&child); /* left to be reaped by this */
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);

	assert_int_equal(spawn(&child, ROLE_FSD, 0, NULL, 0, say_nothing, &err, &err), 0);
	spawn_kill(&child);
	assert_int_equal(spawn_wait_ready(&child, ROLE_FSD, &err), -1);
	assert_string_equal(err.text,
			    "start the fsd: it ended while it was set up; signal 9 (Killed) ended "
			    "it; the host may lack memory: see its log");
	spawn_end(&child);
}

static void test_spawn(void **state)
{
	struct child child = { .pidfd = -1, .ready_fd = -1 };
	_cleanup_fd_ int given = dup(2), other = dup(2);
	struct err err = { 0 };
	int status;

	assert_int_equal(spawn(&child, ROLE_FSD, 0, &given, 1, look_around, &given, &err), 0);
	assert_int_equal(spawn_wait_ready(&child, ROLE_FSD, &err), 0);
	assert_int_equal(waitpid(child.pid, &status, 0), child.pid);
	child.pid = 0;
	spawn_end(&child);
	assert_int_equal(status, 0);
	assert_true(other >= 0);

	assert_int_equal(spawn(&child, ROLE_VMM, 0, NULL, 0, report_and_wait, "no luck", &err), 0);
	assert_int_equal(spawn_wait_ready(&child, ROLE_VMM, &err), -1);
	assert_string_equal(err.text, "no luck");
	spawn_end(&child);

	assert_int_equal(spawn(&child, ROLE_VMM, 0, NULL, 0, report_and_wait, "", &err), 0);
	assert_int_equal(spawn_wait_ready(&child, ROLE_VMM, &err), 0);
	status = spawn_end(&child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

	/* Ends by that alone, and is left to be reaped; what has ended is not minded. */
	assert_int_equal(spawn(&child, ROLE_VMM, 0, NULL, 0, report_and_wait, "", &err), 0);
	assert_int_equal(spawn_wait_ready(&child, ROLE_VMM, &err), 0);
	spawn_kill(&child);
	assert_int_equal(poll(&(struct pollfd){ .fd = child.pidfd, .events = POLLIN }, 1, 60000),
			 1);
	status = spawn_end(&child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	spawn_kill(&child);
	/* The next child of ours is in our own pid namespace again. */
	if (fork() == 0)
		_exit(getpid() == 1);
	assert_true(wait(&status) > 0);
	assert_int_equal(status, 0);
}

/* In the jail, until it is killed. */
static int stay(void *data, int ready_fd)
{
	const struct jail jail = { .role = ROLE_VMM, .uid = UID, .namespaces_of = *(int *)data };
	struct err err;
	int r = jail_enter(&jail, &err);

	spawn_ready(ready_fd, r < 0 ? &err : NULL);
	while (r == 0)
		pause();
	return 1;
}

static struct child start(unsigned long namespaces, int namespaces_of)
{
	struct child child = { .pidfd = -1, .ready_fd = -1 };
	bool given = namespaces_of > 0;
	struct err err = { 0 };

	assert_int_equal(spawn(&child, ROLE_VMM, namespaces, &namespaces_of, given, stay,
			       &namespaces_of, &err),
			 0);
	if (spawn_wait_ready(&child, ROLE_VMM, &err) < 0)
		fail_msg("%s", err.text);
	return child;
}

static bool same(const char *kind, pid_t one, pid_t other)
{
	struct stat st[2];
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)one, kind);
	assert_int_equal(stat(path, &st[0]), 0);
	snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)other, kind);
	assert_int_equal(stat(path, &st[1]), 0);
	return st[0].st_ino == st[1].st_ino;
}

/* The second has the first's empty ones, the third its own, as the one it was to share with ended.
 */
static void test_shared_namespaces(void **state)
{
	static const char *const shared[] = { "net", "ipc", "uts", "cgroup" };
	struct child first = start(JAIL_NAMESPACES, JAIL_BORN_IN), second = start(0, first.pidfd);
	struct child third;

	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++) {
		assert_true(same(shared[i], first.pid, second.pid));
		assert_false(same(shared[i], first.pid, getpid()));
	}
	assert_false(same("mnt", first.pid, second.pid));
	assert_false(same("pid", first.pid, second.pid));
	spawn_kill(&first);
	assert_int_equal(poll(&(struct pollfd){ .fd = first.pidfd, .events = POLLIN }, 1, 60000),
			 1);
	third = start(0, first.pidfd);
	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++) {
		assert_false(same(shared[i], second.pid, third.pid));
		assert_false(same(shared[i], third.pid, getpid()));
	}
	spawn_end(&first);
	spawn_end(&second);
	spawn_end(&third);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty_root),
		cmocka_unit_test(test_no_privileges),
		cmocka_unit_test(test_fsd_keeps_what_it_needs),
		cmocka_unit_test(test_own_network),
		cmocka_unit_test(test_ceilings),
		cmocka_unit_test(test_how_one_ended_that_said_nothing),
		cmocka_unit_test(test_spawn),
		cmocka_unit_test(test_shared_namespaces),
	};

	if (geteuid() != 0) {
		dprintf(1, "skipped: only root can enter the jail\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
