/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What tests of the file server expect of its answers, and of the tree as the host sees it. */
#pragma once

#include "fuse_client.h"

/* host_write() - a file of the tree, made by the host, with this text. */
void host_write(const struct fuse_client *client, const char *name, const char *text);

/* assert_host_text() - that a file of the tree has this text. */
void assert_host_text(const struct fuse_client *client, const char *name, const char *text);

/* assert_payload() - that the last answer has this text, and nothing else. */
void assert_payload(const struct fuse_client *client, const char *text);
