/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the commands that make a container have in common: their options, and what these lead to. */
#pragma once

#include "cli/cli.h"

struct creation {
	const char *bundle, *config, *pid_file, *console_path, *pidfd_path;
	bool no_pivot, no_new_keyring;
	struct create_options options;
	int pidfd_socket; /* connected; -1: none */
};

extern struct creation creation;

/* Rows of a table of options. */
#define CREATION_OPTIONS                                                                            \
	{ "bundle",	    'b',   OPTION_STRING,                                                   \
	  &creation.bundle, "DIR", "the directory with config.json (the current one)" },            \
		{ "config",	    'f',    OPTION_STRING,                                          \
		  &creation.config, "FILE", "another name for config.json, from the bundle on" },   \
		{ "console-socket",	  0,	  OPTION_STRING,                                    \
		  &creation.console_path, "PATH", "Unix socket that receives the terminal" },       \
		{ "pidfd-socket", 0,                                                                \
		  OPTION_STRING,  &creation.pidfd_path,                                             \
		  "PATH",	  "Unix socket that receives a pidfd of the container's process" }, \
		{ "pid-file",	      0,      OPTION_STRING,                                        \
		  &creation.pid_file, "FILE", "write the container's pid to FILE" },                \
		{ "no-pivot",  0,                                                                   \
		  OPTION_FLAG, &creation.no_pivot,                                                  \
		  NULL,	       "enter the root file system without pivot_root (on a ramdisk)" },    \
		{ "no-new-keyring",	    0,	  OPTION_FLAG,                                      \
		  &creation.no_new_keyring, NULL, "leave the session keyring as it is" },           \
	{                                                                                           \
		"preserve-fds", 0, OPTION_NUMBER, &creation.options.preserve_fds, "N",              \
			"pass N more descriptors, from 3 on"                                        \
	}

/*
 * creation_prepare() - fill in creation.options out of the other members, and connect the sockets:
 * a wrong path is found before there is a container. Returns 0, or -1 with err set.
 */
int creation_prepare(struct err *err);

/*
 * creation_create() - make the container, and send its pidfd where one is asked for.
 * Returns it as instance_create() does; NULL with err set and nothing left behind.
 */
struct instance *creation_create(const struct runtime *runtime, const char *id, struct err *err);

/* creation_announce() - the same for one that was made otherwise; NULL passes through. */
struct instance *creation_announce(struct instance *made, struct err *err);

/*
 * pidfd_connect() - connect to the socket that a later pidfd_send() uses; a path of NULL: to none.
 * pidfd_send() - send a pidfd of a process that the caller has not reaped. Both: 0, or -1.
 */
int pidfd_connect(const char *path, int *fd, struct err *err);
int pidfd_send(int socket, pid_t pid, struct err *err);
