/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a microVM of an ordinary user does on the host: a user namespace of its own, the jail in it,
 * and the way of a later command into it. Skipped where ordinary users get no user namespaces.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "net/network.h"
#include "oci/config.h"
#include "vm/rootless.h"
#include "vm/spawn.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define USER  5 /* games, of every Debian */
#define GROUP 60

static void become_ordinary(void)
{
	if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(GROUP, GROUP, GROUP) < 0 ||
			       setresuid(USER, USER, USER) < 0))
		_exit(90);
	prctl(PR_SET_DUMPABLE, 1);
}

/* A config whose user namespace has the one id. */
static struct oci_linux config_of(struct oci_id_mapping maps[2], uint32_t uid, uint32_t gid)
{
	maps[0] = (struct oci_id_mapping){ .host_id = uid, .size = 1 };
	maps[1] = (struct oci_id_mapping){ .host_id = gid, .size = 1 };
	return (struct oci_linux){ .uid_mappings = &maps[0],
				   .n_uid_mappings = 1,
				   .gid_mappings = &maps[1],
				   .n_gid_mappings = 1 };
}

static int enter(struct err *err)
{
	struct oci_id_mapping maps[2];
	struct oci_linux config = config_of(maps, geteuid(), getegid());

	return rootless_enter(&config, err);
}

/* Runs in a child as an ordinary user; 0 where all is as it should be. */
static int run(int (*test)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		become_ordinary();
		_exit(test());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int can_enter(void)
{
	struct err err;

	return enter(&err) < 0;
}

static int keeps_ids(void)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	struct err err;

	if (!rootless_caller())
		return 1;
	if (enter(&err) < 0)
		return 2;
	if (rootless_caller())
		return 3;
	/* Who it is has not changed, nor what belongs to it. */
	return geteuid() != uid || getegid() != gid || rootless_jail_uid(12345) != JAIL_UID_OWN;
}

static int refuses_other_ids(void)
{
	struct oci_id_mapping maps[2];
	struct oci_linux config = config_of(maps, geteuid() + 1, getegid());
	struct err err;

	if (rootless_enter(&config, &err) == 0 || !strstr(err.text, "the user's own id alone"))
		return 1;
	config = config_of(maps, geteuid(), getegid());
	maps[0].size = 2;
	if (rootless_enter(&config, &err) == 0)
		return 2;
	return rootless_enter(NULL, &err) == 0;
}

static int jailed(void *data, int ready_fd)
{
	struct jail jail = { .role = ROLE_VMM, .uid = rootless_jail_uid(12345) };
	struct stat st;
	struct err err;

	if (getpid() != 1 || jail_enter(&jail, &err) < 0 || stat("/etc", &st) == 0 ||
	    open("/x", O_CREAT | O_WRONLY | O_CLOEXEC, 0600) >= 0 || !rootless_caller() ||
	    prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return 1;
	spawn_ready(ready_fd, NULL);
	return 0;
}

static int makes_a_jail(void)
{
	struct child child = { .pidfd = -1, .ready_fd = -1 };
	struct err err;
	int status;

	if (enter(&err) < 0 || spawn(&child, ROLE_VMM, 0, NULL, 0, jailed, NULL, &err) < 0 ||
	    spawn_wait_ready(&child, ROLE_VMM, &err) < 0)
		return 1;
	return waitpid(child.pid, &status, 0) != child.pid || status != 0;
}

/* As one that stands for a process of the container, outside of any namespace. */
static int locks_itself_up(void)
{
	struct err err;

	return jail_restrict(ROLE_STANDIN, 0, &err) < 0 ||
	       prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1;
}

/* What `moat start` does: it finds the network that is behind the monitor. */
static int joins(void)
{
	struct network network;
	_cleanup_fd_ int namespace = -1;
	char path[64], byte;
	struct err err;
	int pair[2];
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return 1;
	pid = fork();
	if (pid == 0) {
		if (enter(&err) < 0 || unshare(CLONE_NEWNET) < 0 || write(pair[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(pair[1]);
	if (read(pair[0], &byte, 1) != 1)
		return 2;
	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	namespace = open(path, O_RDONLY | O_CLOEXEC);
	if (namespace < 0 || network_attach(&network, namespace, 1, &err) == 0)
		return 3; /* it may not yet */
	network_release(&network);
	if (rootless_join(pid, namespace, &err) < 0)
		return 4;
	if (network_attach(&network, -1, 1, &err) < 0)
		return 5;
	byte = network.message && network.message->n_interfaces ? 6 : 0;
	network_release(&network);
	kill(pid, SIGKILL);
	return byte;
}

#define TEST(function)                                                                             \
	static void test_##function(void **state)                                                  \
	{                                                                                          \
		assert_int_equal(run(function), 0);                                                \
	}
TEST(keeps_ids)
TEST(refuses_other_ids)
TEST(makes_a_jail)
TEST(locks_itself_up)
TEST(joins)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keeps_ids),    cmocka_unit_test(test_refuses_other_ids),
		cmocka_unit_test(test_makes_a_jail), cmocka_unit_test(test_locks_itself_up),
		cmocka_unit_test(test_joins),
	};

	if (run(can_enter) != 0) {
		dprintf(1, "skipped: no user namespaces for ordinary users\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
