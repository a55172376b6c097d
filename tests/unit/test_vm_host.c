/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the vm engine takes from the host: trees, streams, the record and the control socket. */
#include "base/fd.h"
#include "base/path.h"
#include "base/proc.h"
#include "engine/engine.h"
#include "oci/config.h"
#include "vm/control.h"
#include "vm/record.h"
#include "vm/streams.h"
#include "vm/trees.h"
#include "vm/view.h"
#include "vmm/vmm.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <termios.h>

#include <cmocka.h>

static char directory[64];
static int directory_fd;

static int setup(void **state)
{
	snprintf(directory, sizeof(directory), "/tmp/moat-test-XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	directory_fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return mkdirat(directory_fd, "rootfs", 0755);
}

static int teardown(void **state)
{
	struct err err;

	close(directory_fd);
	return path_remove_tree(AT_FDCWD, directory, &err);
}

static void write_file(const char *name, const char *text)
{
	_cleanup_fd_ int fd = openat(directory_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_int_equal(fd_write_full(fd, text, strlen(text)), 0);
}

static void test_trees(void **state)
{
	char *bind[] = { "rbind", "ro", NULL }, *by_option[] = { "rw", "bind", NULL };
	struct oci_root root = { .path = "rootfs", .readonly = true };
	struct oci_mount mounts[] = {
		{ .destination = "/proc", .type = "proc", .source = "proc" },
		{ .destination = "/a",
		  .type = "bind",
		  .source = "hosts",
		  .options = bind,
		  .n_options = 2 },
		{ .destination = "/b",
		  .type = "none",
		  .source = directory,
		  .options = by_option,
		  .n_options = 2 },
	};
	struct oci_config config = { .root = &root, .mounts = mounts, .n_mounts = 3 };
	struct statvfs vfs;
	struct trees trees;
	struct err err;
	char text[16] = "";
	int fd;

	write_file("hosts", "localhost");
	assert_int_equal(trees_open(&trees, &config, directory, &err), 0);
	assert_int_equal(trees.count, 3);
	assert_false(trees.tree[0].file);
	assert_true(trees.tree[0].read_only);
	assert_true(trees.tree[1].file);
	assert_true(trees.tree[1].read_only);
	assert_int_equal(trees.tree[1].mount, 1);
	assert_false(trees.tree[2].read_only);
	assert_int_equal(trees.tree[2].mount, 2);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(fstatvfs(trees.tree[i].fd, &vfs), 0);
		assert_true((vfs.f_flag & (ST_NODEV | ST_NOSUID | ST_NOEXEC)) ==
			    (ST_NODEV | ST_NOSUID | ST_NOEXEC));
		assert_int_equal(!!(vfs.f_flag & ST_RDONLY), i < 2);
	}
	/* The guest could not make the mount points in a read-only root. */
	assert_int_equal(faccessat(trees.tree[0].fd, "proc", F_OK, 0), 0);
	assert_int_equal(faccessat(trees.tree[0].fd, "a", F_OK, 0), 0);
	fd = openat(trees.tree[2].fd, "hosts", O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, text, sizeof(text)), 9);
	close(fd);
	trees_close(&trees);
}

static void test_trees_refuse(void **state)
{
	char *bind[] = { "bind", NULL };
	struct oci_root root = { .path = "rootfs" };
	struct oci_mount mount = {
		.destination = "/x", .type = "bind", .options = bind, .n_options = 1
	};
	struct oci_config config = { .root = &root, .mounts = &mount, .n_mounts = 1 };
	struct trees trees;
	struct err err;

	assert_int_equal(trees_open(&trees, &config, directory, &err), -1);
	assert_non_null(strstr(err.text, "needs a source"));
	trees_close(&trees);
	mount.source = "missing";
	assert_int_equal(trees_open(&trees, &config, directory, &err), -1);
	assert_int_equal(err.code, ENOENT);
	assert_non_null(strstr(err.text, "mount /x"));
	trees_close(&trees);
	mount.source = "/dev/null";
	assert_int_equal(trees_open(&trees, &config, directory, &err), -1);
	assert_non_null(strstr(err.text, "only directories and regular files"));
	assert_non_null(strstr(err.text, "linux.devices"));
	trees_close(&trees);
	mount.source = "/proc/self/mem";
	assert_int_equal(trees_open(&trees, &config, directory, &err), -1);
	assert_int_equal(err.code, EPERM);
	assert_non_null(strstr(err.text, "the host's processes"));
	trees_close(&trees);
	root.path = "/etc/passwd";
	assert_int_equal(trees_open(&trees, &config, directory, &err), -1);
	assert_int_equal(err.code, ENOTDIR);
	trees_close(&trees);
}

/* Runs stdio_open() with descriptor 0, 1 or 2 replaced; returns what became of it. */
static struct stream_port open_as(int stream, int fd)
{
	_cleanup_fd_ int saved = fcntl(stream, F_DUPFD_CLOEXEC, 10);
	struct oci_config config = { 0 };
	struct stream_port result;
	struct stdio stdio;
	struct err err;
	int r;

	dup2(fd, stream);
	r = stdio_open(&stdio, config.process, -1, 16, &err);
	dup2(saved, stream);
	assert_int_equal(r, 0);
	result = stdio.stream[stream];
	stdio.stream[stream].fd = -1;
	stdio_close(&stdio);
	return result;
}

static void test_pipe_is_opened_anew(void **state)
{
	struct stream_port port;
	int pair[2];

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	port = open_as(1, pair[1]);
	assert_int_equal(port.port, 17);
	assert_int_equal(port.flags, VMM_PORT_WRITE);
	assert_true(fcntl(port.fd, F_GETFL) & O_NONBLOCK);
	assert_false(fcntl(pair[1], F_GETFL) & O_NONBLOCK);
	close(port.fd);
	port = open_as(0, pair[0]);
	assert_int_equal(port.flags, VMM_PORT_READ);
	assert_int_equal(port.port, 16);
	close(port.fd);
	/* Used in the wrong direction it is as good as closed. */
	port = open_as(0, pair[1]);
	assert_int_equal(port.port, 0);
	close(pair[0]);
	close(pair[1]);
}

static void test_file_is_not_opened_anew(void **state)
{
	struct stream_port port;
	int fd;

	write_file("log", "first\n");
	fd = openat(directory_fd, "log", O_WRONLY | O_APPEND | O_CLOEXEC);
	port = open_as(2, fd);
	assert_int_equal(port.flags, VMM_PORT_WRITE);
	assert_true(fcntl(port.fd, F_GETFL) & O_APPEND);
	assert_int_equal(write(port.fd, "second", 6), 6);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 12); /* one offset for both */
	close(port.fd);
	close(fd);
}

static void test_other_streams(void **state)
{
	struct stream_port port;
	int pair[2], master, slave;

	fd_socketpair(SOCK_STREAM, pair);
	port = open_as(1, pair[0]);
	assert_int_equal(port.flags, VMM_PORT_WRITE | VMM_PORT_SOCKET);
	assert_false(fcntl(port.fd, F_GETFL) & O_NONBLOCK);
	close(port.fd);
	close(pair[0]);
	close(pair[1]);

	port = open_as(1, open("/dev/null", O_WRONLY | O_CLOEXEC));
	assert_int_equal(port.port, 0);
	assert_int_equal(port.fd, -1);

	/* Opening a terminal's master anew would make another terminal. */
	master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	unlockpt(master);
	port = open_as(1, master);
	assert_int_equal(port.flags, VMM_PORT_WRITE | VMM_PORT_BLOCKING);
	close(port.fd);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	port = open_as(1, slave);
	assert_int_equal(port.flags, VMM_PORT_WRITE);
	assert_false(fcntl(slave, F_GETFL) & O_NONBLOCK);
	close(port.fd);
	close(slave);
	close(master);
}

static void test_terminal(void **state)
{
	struct oci_console_size size = { .height = 30, .width = 100 };
	struct oci_process process = { .terminal = true, .console_size = &size };
	struct oci_config config = { .process = &process };
	struct termios settings;
	struct stdio stdio;
	struct err err;
	char name[64];
	int pair[2], master;

	assert_int_equal(stdio_open(&stdio, config.process, -1, 16, &err), -1);
	assert_non_null(strstr(err.text, "--console-socket"));
	stdio_close(&stdio);
	fd_socketpair(SOCK_STREAM, pair);
	assert_int_equal(stdio_open(&stdio, config.process, pair[0], 16, &err), 0);
	assert_true(fd_receive(pair[1], name, sizeof(name), &master, 1) > 0);
	assert_true(stdio.terminal);
	assert_int_equal(stdio.rows, 30);
	assert_int_equal(stdio.stream[0].flags, VMM_PORT_READ | VMM_PORT_WRITE);
	/* raw: what the guest's terminal sends comes out as it is, and is not echoed */
	assert_int_equal(tcgetattr(stdio.stream[0].fd, &settings), 0);
	assert_false(settings.c_lflag & (ECHO | ICANON | ISIG));
	assert_false(settings.c_oflag & OPOST);
	assert_int_equal(write(stdio.stream[0].fd, "a\n", 2), 2);
	assert_int_equal(read(master, name, sizeof(name)), 2);
	close(master);
	close(pair[0]);
	close(pair[1]);
	stdio_close(&stdio);
}

static void test_record_kills_only_its_own(void **state)
{
	struct record record = { 0 };
	struct err err = { 0 };
	pid_t victim, bystander;
	int status;

	assert_int_equal(record_kill(directory_fd, &err), 0); /* no file yet */
	victim = fork();
	if (victim == 0)
		for (;;)
			pause();
	bystander = fork();
	if (bystander == 0)
		for (;;)
			pause();
	assert_int_equal(record_add(&record, victim, &err), 0);
	assert_int_equal(record_add(&record, bystander, &err), 0);
	record.process[1].start_time++; /* as if the pid had been used again */
	assert_int_equal(record_write(&record, directory_fd, &err), 0);
	assert_int_equal(record_kill(directory_fd, &err), 0);
	assert_int_equal(waitpid(victim, &status, 0), victim);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(waitpid(bystander, &status, WNOHANG), 0);
	assert_int_equal(record_kill(directory_fd, &err), 0); /* and again */
	kill(bystander, SIGKILL);
	waitpid(bystander, &status, 0);
	write_file("machine", "");
	record_remove(directory_fd);
	assert_int_equal(faccessat(directory_fd, "machine", F_OK, 0), -1);
}

static void test_control(void **state)
{
	struct control_request request = { .type = CONTROL_KILL, .signal = 15 }, got;
	struct err err = { 0 }, answer = { 0 };
	int listener, fd, status;
	pid_t pid;

	assert_int_equal(control_call(directory_fd, &request, &err), -1);
	assert_int_equal(err.code, ERR_NOT_RUNNING);
	listener = control_listen(directory_fd, &err);
	assert_true(listener >= 0);
	assert_int_equal(control_accept(listener), -1);
	pid = fork();
	if (pid == 0) {
		struct err first = { 0 }, second = { 0 };

		if (control_call(directory_fd, &request, &first) != 0)
			_exit(1);
		if (control_call(directory_fd, &request, &second) != -1 ||
		    strcmp(second.text, "no such luck") != 0 || second.code != 42)
			_exit(2);
		/* the other end closes without a word */
		_exit(control_call(directory_fd, &request, &first) == -1 &&
				      first.code == ERR_NOT_RUNNING
			      ? 0
			      : 3);
	}
	for (int i = 0; i < 3; i++) {
		while ((fd = control_accept(listener)) < 0)
			usleep(1000);
		while (recv(fd, &got, sizeof(got), 0) < 0)
			usleep(1000);
		assert_int_equal(got.signal, 15);
		if (i == 1) {
			answer.code = 42;
			snprintf(answer.text, sizeof(answer.text), "no such luck");
		}
		if (i < 2)
			assert_int_equal(send(fd, &answer, sizeof(answer), 0), sizeof(answer));
		close(fd);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	close(listener);
	/* The file of a monitor that died is as good as none. */
	assert_int_equal(control_call(directory_fd, &request, &err), -1);
	assert_int_equal(err.code, ERR_NOT_RUNNING);
	control_remove(directory_fd);
}

/* Only the monitor's user and root are heard, whatever the modes of files say. */
static void test_control_is_not_for_others(void **state)
{
	struct control_request request = { .type = CONTROL_KILL, .signal = SIGKILL };
	struct err err;
	int listener = control_listen(directory_fd, &err), fd, status;
	struct pollfd p = { .fd = listener, .events = POLLIN };
	pid_t pid;

	assert_true(listener >= 0);
	assert_int_equal(fchmodat(directory_fd, "control.sock", 0777, 0), 0);
	assert_int_equal(chmod(directory, 0755), 0);
	for (uid_t uid = 4711; uid == 4711 || uid == 0; uid -= 4711) {
		pid = fork();
		if (pid == 0) {
			if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
				_exit(9);
			_exit(control_call(directory_fd, &request, &err) == 0	 ? 0
			      : err.code == ERR_NOT_RUNNING /* it saw the end */ ? 1
										 : 8);
		}
		assert_int_equal(poll(&p, 1, 20000), 1);
		fd = control_accept(listener);
		assert_int_equal(fd >= 0, uid == 0);
		err = (struct err){ 0 };
		if (fd >= 0)
			assert_int_equal(send(fd, &err, sizeof(err), 0), sizeof(err));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, uid ? 1 << 8 : 0);
		fd_replace(&fd, -1);
	}
	close(listener);
	control_remove(directory_fd);
}

/* CVE-2021-30465, CVE-2024-45310 and their kin: links in the image where mounts have their places.
 */
static void test_links_in_the_image(void **state)
{
	char *bind[] = { "bind", NULL };
	struct oci_root root = { .path = "rootfs", .readonly = true };
	struct oci_mount mounts[] = {
		{ .destination = "/proc", .type = "proc", .source = "proc" },
		{ .destination = "/way/made/here", .type = "tmpfs", .source = "tmpfs" },
		{ .destination = "/up/made", .type = "tmpfs", .source = "tmpfs" },
		{ .destination = "/dangling", .type = "tmpfs", .source = "tmpfs" },
		{ .destination = "/way/file",
		  .type = "bind",
		  .source = "hosts",
		  .options = bind,
		  .n_options = 1 },
	};
	struct oci_config config = { .root = &root, .mounts = mounts, .n_mounts = 5 };
	struct container container = { .config = &config, .bundle = directory };
	char outside[128], up[256];
	struct trees trees;
	struct err err;
	int status;
	pid_t pid;

	write_file("hosts", "localhost");
	assert_int_equal(mkdirat(directory_fd, "outside", 0755), 0);
	snprintf(outside, sizeof(outside), "%s/outside", directory);
	snprintf(up, sizeof(up), "../../../../../../..%s", outside);
	assert_int_equal(symlinkat(outside, directory_fd, "rootfs/way"), 0);
	assert_int_equal(symlinkat(outside, directory_fd, "rootfs/proc"), 0);
	assert_int_equal(symlinkat(up, directory_fd, "rootfs/up"), 0);
	assert_int_equal(symlinkat("/tmp/moat-nowhere", directory_fd, "rootfs/dangling"), 0);
	assert_int_equal(trees_open(&trees, &config, directory, &err), 0);
	trees_close(&trees);
	for (int i = 0; i < 2; i++) {
		root.readonly = i == 0;
		pid = fork();
		if (pid == 0)
			_exit(view_enter(&container, &err) < 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	/* Were it not empty, it could not be removed. */
	assert_int_equal(unlinkat(directory_fd, "outside", AT_REMOVEDIR), 0);
	assert_int_equal(access("/tmp/moat-nowhere", F_OK), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_trees),
		TEST(test_trees_refuse),
		TEST(test_pipe_is_opened_anew),
		TEST(test_file_is_not_opened_anew),
		TEST(test_other_streams),
		TEST(test_terminal),
		TEST(test_record_kills_only_its_own),
		TEST(test_control),
		TEST(test_control_is_not_for_others),
		TEST(test_links_in_the_image),
	};

	if (geteuid() != 0) {
		dprintf(1, "skipped: only root can take detached mounts\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
