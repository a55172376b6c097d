/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What checkpoint and restore have in common: the options that say how images are used. */
#pragma once

#include "cli/cli.h"

struct images {
	struct image_options options;
	const char *cgroups_mode, *page_server;
	struct cli_list empty_namespaces;
};

extern struct images images;

/* Rows of a table of options. */
#define IMAGE_OPTIONS                                                                              \
	{ "image-path",		0,     OPTION_STRING,                                              \
	  &images.options.path, "DIR", "directory of the checkpoint's images (checkpoint)" },      \
		{ "work-path",	 0,                                                                \
		  OPTION_STRING, &images.options.work_path,                                        \
		  "DIR",	 "directory of CRIU's log (that of the images)" },                 \
		{ "tcp-established",                                                               \
		  0,                                                                               \
		  OPTION_FLAG,                                                                     \
		  &images.options.tcp_established,                                                 \
		  NULL,                                                                            \
		  "also with established TCP connections" },                                       \
		{ "ext-unix-sk", 0,                                                                \
		  OPTION_FLAG,	 &images.options.ext_unix_sk,                                      \
		  NULL,		 "also with Unix sockets whose other end is outside" },            \
		{ "shell-job", 0,                                                                  \
		  OPTION_FLAG, &images.options.shell_job,                                          \
		  NULL,	       "also on a terminal of the host" },                                 \
		{ "file-locks", 0,                                                                 \
		  OPTION_FLAG,	&images.options.file_locks,                                        \
		  NULL,		"also with locks on files" },                                      \
		{ "lazy-pages", 0,                                                                 \
		  OPTION_FLAG,	&images.options.lazy_pages,                                        \
		  NULL,		"let memory be fetched when it is used (criu lazy-pages)" },       \
		{ "auto-dedup", 0,                                                                 \
		  OPTION_FLAG,	&images.options.auto_dedup,                                        \
		  NULL,		"free memory in images that is there twice, or used" },            \
		{ "manage-cgroups-mode",                                                           \
		  0,                                                                               \
		  OPTION_STRING,                                                                   \
		  &images.cgroups_mode,                                                            \
		  "soft|full|strict|ignore",                                                       \
		  "what becomes of cgroups below the container's (soft)" },                        \
	{                                                                                          \
		"empty-ns", 0, OPTION_LIST, &images.empty_namespaces, "network",                   \
			"leave out what is in the network namespace"                               \
	}

/* images_prepare() - fill in images.options out of the other members. 0, or -1 with err set. */
int images_prepare(struct err *err);
