/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What an attack on the file server would reach: DIR/outside/secret, beside the tree. */
#pragma once

#include "fuse_client.h"

/* outside_path() - a path there; valid until the next call. */
const char *outside_path(const struct fuse_client *client, const char *name);

/* outside_make() - with the secret in it. outside_check() - it is as it was, and goes. */
void outside_make(const struct fuse_client *client);
void outside_check(const struct fuse_client *client);
