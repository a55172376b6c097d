/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The files that a hostile guest shares with the host. */
#include "hostile_host.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/path.h"
#include "base/proc.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/*
 * The tree goes with the test, however that ends: with its process the socket closes that a child
 * waits on.
 */
static void keep_files(struct machine *machine)
{
	int pair[2];
	char byte;

	assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
	machine->keeper = fork();
	if (machine->keeper == 0) {
		setsid(); /* what ends the tests as a group is not for this one */
		fd_close_except(3, &pair[1], 1);
		(void)!read(pair[1], &byte, 1);
		_exit(path_remove_tree(AT_FDCWD, machine->directory, NULL) < 0);
	}
	close(pair[1]);
	machine->keeper_fd = pair[0];
}

void machine_make_files(struct machine *machine)
{
	int directory;

	if (machine->plan->directory) {
		snprintf(machine->directory, sizeof(machine->directory), "%s",
			 machine->plan->directory);
		return;
	}
	snprintf(machine->directory, sizeof(machine->directory), "/tmp/moat-hostile.XXXXXX");
	assert_non_null(mkdtemp(machine->directory));
	keep_files(machine);
	directory = open(machine->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mkdirat(directory, "tree", 0777), 0);
	assert_int_equal(file_replace(directory, "outside", "secret", 6, 0644, NULL), 0);
	assert_int_equal(file_replace(directory, "tree/file", "contents", 8, 0644, NULL), 0);
	assert_int_equal(symlinkat("../outside", directory, "tree/link"), 0);
	assert_int_equal(mkfifoat(directory, "tree/fifo", 0666), 0);
	close(directory);
}

void machine_check_files(struct machine *machine)
{
	char path[100];
	char *text;

	snprintf(path, sizeof(path), "%s/outside", machine->directory);
	text = file_read(AT_FDCWD, path, 100, NULL, NULL);
	assert_non_null(text);
	assert_string_equal(text, "secret");
	free(text);
	snprintf(path, sizeof(path), "%s/made", machine->directory);
	assert_int_equal(access(path, F_OK), -1);
	if (machine->plan->directory)
		return;
	close(machine->keeper_fd);
	assert_int_equal(proc_wait(machine->keeper), 0);
	assert_int_equal(access(machine->directory, F_OK), -1);
}

void machine_give_tree(struct machine *machine)
{
	struct fs_tree_add add = { .index = 0 };
	char path[100];
	int tree;

	snprintf(path, sizeof(path), "%s/tree", machine->directory);
	tree = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fd_send(machine->trees, &add, sizeof(add), &tree, 1), 0);
	assert_int_equal(read(machine->trees, &add, sizeof(add)), sizeof(add));
	assert_int_equal(add.index, 0);
	close(tree);
}
