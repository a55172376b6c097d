/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fs_outside.h"

#include "base/file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SECRET "not the guest's"

const char *outside_path(const struct fuse_client *client, const char *name)
{
	static char path[512];

	snprintf(path, sizeof(path), "%s/outside/%s", client->directory, name);
	return path;
}

void outside_make(const struct fuse_client *client)
{
	assert_int_equal(mkdir(outside_path(client, ""), 0755), 0);
	assert_int_equal(file_replace(AT_FDCWD, outside_path(client, "secret"), SECRET,
				      strlen(SECRET), 0644, NULL),
			 0);
}

void outside_check(const struct fuse_client *client)
{
	char *text = file_read(AT_FDCWD, outside_path(client, "secret"), 4096, NULL, NULL);
	struct stat st;

	assert_non_null(text);
	assert_string_equal(text, SECRET);
	free(text);
	assert_int_equal(stat(outside_path(client, "secret"), &st), 0);
	assert_int_equal(st.st_nlink, 1);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	assert_int_equal(stat(outside_path(client, ""), &st), 0);
	assert_int_equal(unlink(outside_path(client, "secret")), 0);
	assert_int_equal(rmdir(outside_path(client, "")), 0); /* nothing else was put there */
}
