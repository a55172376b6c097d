/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fs_expect.h"

#include "base/file.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void host_write(const struct fuse_client *client, const char *name, const char *text)
{
	assert_int_equal(
		file_replace(AT_FDCWD, client_path(client, name), text, strlen(text), 0644, NULL),
		0);
}

void assert_host_text(const struct fuse_client *client, const char *name, const char *text)
{
	char *got = file_read(AT_FDCWD, client_path(client, name), 4096, NULL, NULL);

	assert_non_null(got);
	assert_string_equal(got, text);
	free(got);
}

void assert_payload(const struct fuse_client *client, const char *text)
{
	assert_int_equal(client->answered, strlen(text));
	assert_memory_equal(client_payload(client), text, strlen(text));
}
