/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The base library: numbers, signals, escapes, paths in a hostile root, passing of descriptors. */
#include "base/err.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/userns.h"
#include "base/utf8.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static void test_err(void **state)
{
	char longer[2 * ERR_TEXT_MAX];
	struct err err;

	assert_int_equal(err_set(&err, ENOENT, "open %s", "/x"), -1);
	err_wrap(&err, "mount %s", "it");
	err_hint(&err, "make it");
	assert_string_equal(err.text, "mount it: open /x: No such file or directory; make it");
	assert_int_equal(err.code, ENOENT);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	err_set(&err, ENOENT, "%s", longer);
	err_wrap(&err, "%s", longer);
	err_hint(&err, "%s", longer);
	assert_true(strlen(err.text) < ERR_TEXT_MAX);
	err_set(&err, ERR_NO_CONTAINER, "no such");
	assert_string_equal(err.text, "no such");
}

static bool ends_with_reason(const struct err *err)
{
	return str_ends_with(err->text, "end: No such file or directory; make it");
}

/* What was done, and why it failed, are there whatever the name between them is. */
static void test_err_with_a_long_name(void **state)
{
	static const char *const fillers[] = { "x", "\xc3\xa9", "\xf0\x9f\x90\x8b", "a b ",
					       "\x80" };
	struct err err;

	for (size_t i = 0; i < ARRAY_LEN(fillers); i++)
		for (size_t size = 900; size < 20000; size += size < 1100 ? 1 : 997) {
			size_t step = strlen(fillers[i]), count = size / step;
			_cleanup_free_ char *name = xcalloc(count * step + 1, 1);

			for (size_t j = 0; j < count; j++)
				memcpy(name + j * step, fillers[i], step);
			err_set(&err, ENOENT, "open begin%send", name);
			err_wrap(&err, "mount the file system of %s", "it");
			err_hint(&err, "make it");
			assert_true(strlen(err.text) < ERR_TEXT_MAX);
			assert_true(str_starts_with(err.text,
						    "mount the file system of it: open begin"));
			assert_true(ends_with_reason(&err));
			assert_true(i == 4 || utf8_is_valid(err.text, strlen(err.text)));
			assert_true((size >= 930 && size <= 960) ||
				    (strstr(err.text, "[...]") == NULL) == (size < 930));
			err_wrap(&err, "do %s with it", name);
			assert_true(str_starts_with(err.text, "do "));
			assert_true(ends_with_reason(&err));
			if (size > 1000)
				size += step;
		}
}

static void test_numbers(void **state)
{
	uint64_t u;
	int64_t i;

	assert_int_equal(str_to_u64("18446744073709551615", UINT64_MAX, &u), 0);
	assert_true(u == UINT64_MAX);
	assert_int_equal(str_to_u64("18446744073709551616", UINT64_MAX, &u), -1);
	assert_int_equal(str_to_u64("256", 255, &u), -1);
	assert_int_equal(str_to_u64("", 1, &u), -1);
	assert_int_equal(str_to_u64("+1", 9, &u), -1);
	assert_int_equal(str_to_u64(" 1", 9, &u), -1);
	assert_int_equal(str_to_u64("1x", 9, &u), -1);
	assert_int_equal(str_to_u64("0x1", 9, &u), -1);
	assert_int_equal(str_to_i64("-9223372036854775808", &i), 0);
	assert_true(i == INT64_MIN);
	assert_int_equal(str_to_i64("9223372036854775808", &i), -1);
	assert_int_equal(str_to_i64("--1", &i), -1);
}

static void test_sets(void **state)
{
	static const char *const bad[] = {
		"",	",",	 "0,", ",0", "1-",  "-1",    "2-1",
		"1--2", "0-1-2", "x",  "0 ", "0\n", "0,0x1", "00000000000000000000000001"
	};
	unsigned long bits[2];

	(void)state;
	assert_int_equal(str_to_set("0-3,7,2", bits, 128), 5);
	assert_int_equal(bits[0], 0x8f);
	assert_int_equal(bits[1], 0);
	assert_int_equal(str_to_set("63-64,127", bits, 128), 3);
	assert_int_equal(bits[0], 1ul << 63);
	assert_int_equal(bits[1], 1ul << 63 | 1);
	assert_int_equal(str_to_set("128", bits, 128), -1);
	assert_int_equal(errno, ERANGE);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(str_to_set(bad[i], bits, 128), -1);
		assert_int_equal(errno, EINVAL);
	}
}

static void test_signals(void **state)
{
	struct err err;

	assert_int_equal(signal_parse("9", &err), SIGKILL);
	assert_int_equal(signal_parse("term", &err), SIGTERM);
	assert_int_equal(signal_parse("SIGUSR1", &err), SIGUSR1);
	assert_int_equal(signal_parse("RTMIN+3", &err), SIGRTMIN + 3);
	assert_int_equal(signal_parse("SIGRTMAX-1", &err), SIGRTMAX - 1);
	assert_int_equal(signal_parse("0", &err), -1);
	assert_int_equal(signal_parse("65", &err), -1);
	assert_int_equal(signal_parse("RTMIN-1", &err), -1);
	assert_int_equal(signal_parse("RTMAX+1", &err), -1);
	assert_int_equal(signal_parse("NOSUCH", &err), -1);
	assert_int_equal(signal_parse("", &err), -1);
}

static void test_escape(void **state)
{
	char out[16];

	assert_string_equal(str_escape("a\n\x1b[0m\\", 7, out, sizeof(out)), "a\\x0a\\x1b[0m");
	assert_string_equal(str_escape("\n\n\n\n\n", 5, out, sizeof(out)), "\\x0a\\x0a\\x0a");
	assert_string_equal(str_escape("abc", 3, out, 1), "");
}

static void test_clean_paths(void **state)
{
	assert_true(path_is_clean("a/b.c/..d"));
	assert_false(path_is_clean("a//b"));
	assert_false(path_is_clean("a/../b"));
	assert_false(path_is_clean("./a"));
	assert_false(path_is_clean("/a"));
	assert_false(path_is_clean("a/"));
}

static void test_in_root(void **state)
{
	char directory[] = "/tmp/moat-test-XXXXXX";
	struct stat st, outside;
	struct err err;
	int root, fd;

	assert_non_null(mkdtemp(directory));
	root = open(directory, O_PATH | O_CLOEXEC);
	assert_int_equal(symlinkat("/", root, "up"), 0);
	assert_int_equal(symlinkat("../../../../..", root, "dots"), 0);
	assert_int_equal(symlinkat("/nowhere/x", root, "dangling"), 0);

	/* links stay inside: what they lead to is made below the root */
	fd = path_make_in_root(root, "up/etc/made", true, 0700, &err);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(fstatat(root, "etc/made", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	fd = path_make_in_root(root, "/dots/etc/file", false, 0600, &err);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(fstatat(root, "etc/file", &st, 0), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(stat("/etc/file", &outside), -1);

	assert_int_equal(path_make_in_root(root, "dangling/x", true, 0700, &err), -1);
	assert_int_equal(path_make_in_root(root, "etc", false, 0600, &err), -1);
	assert_int_equal(path_make_in_root(root, "etc/file/x", true, 0700, &err), -1);
	fd = path_open_in_root(root, "/../../etc/file", O_PATH, 0, 0, &err);
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &outside), 0);
	assert_int_equal(outside.st_ino, st.st_ino);
	close(fd);
	close(root);

	assert_int_equal(path_remove_tree(AT_FDCWD, directory, &err), 0);
	assert_int_equal(access(directory, F_OK), -1);
	assert_int_equal(path_remove_tree(AT_FDCWD, directory, &err), 0);
}

/* Removing never leaves through a link. */
static void test_remove_tree_link(void **state)
{
	char directory[] = "/tmp/moat-test-XXXXXX", other[] = "/tmp/moat-test-XXXXXX";
	struct err err;
	int fd;

	assert_non_null(mkdtemp(directory));
	assert_non_null(mkdtemp(other));
	fd = open(directory, O_PATH | O_CLOEXEC);
	assert_int_equal(symlinkat(other, fd, "link"), 0);
	close(fd);
	assert_int_equal(path_remove_tree(AT_FDCWD, directory, &err), 0);
	assert_int_equal(rmdir(other), 0);
}

static void test_pass_descriptors(void **state)
{
	int pair[2], fds[2], got[3], one;
	char data[8];

	assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
	fds[0] = pair[0];
	fds[1] = pair[1];
	assert_int_equal(fd_send(pair[0], "abc", 3, fds, 2), 0);
	assert_int_equal(fd_receive(pair[1], data, sizeof(data), got, 3), 3);
	assert_true(got[0] >= 0 && got[1] >= 0 && got[2] == -1);
	assert_int_equal(fcntl(got[0], F_GETFD), FD_CLOEXEC);
	close(got[0]);
	close(got[1]);

	/* more than there is room for: refused, and none is left open */
	one = dup(0);
	close(one);
	assert_int_equal(fd_send(pair[0], "abc", 3, fds, 2), 0);
	assert_int_equal(fd_receive(pair[1], data, sizeof(data), got, 1), -1);
	assert_int_equal(errno, EPROTO);
	assert_int_equal(got[0], -1);
	assert_int_equal(dup(0), one);
	close(one);
	assert_int_equal(fd_send(pair[0], "0123456789", 10, NULL, 0), 0);
	assert_int_equal(fd_receive(pair[1], data, sizeof(data), got, 1), -1);
	close(pair[0]);
	assert_int_equal(fd_receive(pair[1], data, sizeof(data), got, 1), 0);
	close(pair[1]);
}

static void test_close_except(void **state)
{
	int base = dup(0), keep[3], others[4];

	for (int i = 0; i < 4; i++)
		others[i] = dup(0);
	keep[0] = others[2];
	keep[1] = -1;
	keep[2] = others[0];
	assert_int_equal(fd_close_except(base, keep, 3), 0);
	assert_true(fcntl(others[0], F_GETFD) >= 0);
	assert_true(fcntl(others[2], F_GETFD) >= 0);
	assert_int_equal(fcntl(base, F_GETFD), -1);
	assert_int_equal(fcntl(others[1], F_GETFD), -1);
	assert_int_equal(fcntl(others[3], F_GETFD), -1);
	close(others[0]);
	close(others[2]);
}

static void test_read_text(void **state)
{
	int fd = memfd_create("text", MFD_CLOEXEC);
	char big[10000];
	size_t length;
	char *text;

	memset(big, 'x', sizeof(big));
	assert_int_equal(fd_write_full(fd, big, sizeof(big)), 0);
	lseek(fd, 0, SEEK_SET);
	assert_null(fd_read_text(fd, sizeof(big) - 1, NULL));
	assert_int_equal(errno, EFBIG);
	lseek(fd, 0, SEEK_SET);
	text = fd_read_text(fd, sizeof(big), &length);
	assert_non_null(text);
	assert_int_equal(length, sizeof(big));
	assert_int_equal(strlen(text), sizeof(big));
	free(text);
	close(fd);
}

static void test_proc(void **state)
{
	uint64_t ticks;
	siginfo_t ended;
	bool zombie;
	pid_t pid;

	assert_int_equal(proc_start_time(getpid(), &ticks, &zombie), 0);
	assert_false(zombie);
	assert_true(proc_is_alive(getpid(), ticks));
	assert_false(proc_is_alive(getpid(), ticks + 1));
	pid = fork();
	if (pid == 0)
		_exit(3);
	/* until it has ended; it stays to be reaped */
	assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
	assert_int_equal(proc_start_time(pid, &ticks, &zombie), 0);
	assert_true(zombie);
	assert_false(proc_is_alive(pid, ticks));
	assert_int_equal(proc_wait(pid), 3);
	pid = fork();
	if (pid == 0) {
		raise(SIGKILL);
		_exit(0);
	}
	assert_int_equal(proc_wait(pid), 128 + SIGKILL);
}

/* Ended before it executed a program, and after. */
static void test_proc_ended_early(void **state)
{
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		siginfo_t ended;
		uint64_t ticks;
		int signal = -1;

		if (pid == 0) {
			if (i == 0)
				execl("/bin/sh", "sh", "-c", "kill -KILL $$", NULL);
			raise(i == 1 ? SIGKILL : SIGSTOP);
			_exit(3);
		}
		assert_int_equal(proc_start_time(pid, &ticks, NULL), 0);
		if (i == 2) {
			assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WSTOPPED), 0);
			assert_false(proc_ended_early(pid, ticks, &signal)); /* not yet */
			assert_int_equal(kill(pid, SIGCONT), 0);
		}
		assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOWAIT), 0);
		assert_int_equal(proc_ended_early(pid, ticks, &signal), i > 0);
		if (i > 0)
			assert_int_equal(signal, i == 1 ? SIGKILL : 0);
		assert_false(proc_ended_early(pid, ticks + 1, &signal));
		proc_wait(pid);
		assert_false(proc_ended_early(pid, ticks, &signal));
	}
}

/* The published values of the function. */
static void test_hash(void **state)
{
	assert_true(hash_bytes("", 0) == 0xcbf29ce484222325u);
	assert_true(hash_bytes("a", 1) == 0xaf63dc4c8601ec8cu);
	assert_true(hash_bytes("foobar", 6) == 0x85944171f73967e8u);
}

static int map_nothing(const void *data, int proc, pid_t pid, struct err *err)
{
	struct stat *own = (struct stat *)data, its;
	char path[64];

	snprintf(path, sizeof(path), "%d/ns/user", (int)pid);
	assert_int_equal(fstatat(proc, path, &its, 0), 0);
	if (!own->st_ino)
		return err_set(err, 0, "map nothing");
	assert_true(its.st_ino != own->st_ino);
	*own = its;
	return 0;
}

static void test_user_namespace(void **state)
{
	_cleanup_fd_ int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
	struct stat seen, st;
	struct err err = { 0 };

	assert_int_equal(fstatat(proc, "self/ns/user", &seen, 0), 0);
	fd = userns_make(proc, map_nothing, &seen, &err);
	if (fd < 0 && (err.code == EPERM || err.code == ENOSPC))
		skip(); /* this machine lets nobody make any */
	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_ino == seen.st_ino);
	seen.st_ino = 0;
	assert_int_equal(userns_make(proc, map_nothing, &seen, &err), -1);
	assert_string_equal(err.text, "map nothing");
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left in either */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_err),
		cmocka_unit_test(test_err_with_a_long_name),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_sets),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_escape),
		cmocka_unit_test(test_clean_paths),
		cmocka_unit_test(test_in_root),
		cmocka_unit_test(test_remove_tree_link),
		cmocka_unit_test(test_pass_descriptors),
		cmocka_unit_test(test_close_except),
		cmocka_unit_test(test_read_text),
		cmocka_unit_test(test_proc),
		cmocka_unit_test(test_proc_ended_early),
		cmocka_unit_test(test_hash),
		cmocka_unit_test(test_user_namespace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
