/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat checkpoint: save the processes of a container to images. */
#include "cli/images.h"

static const struct cli_option options[] = {
	IMAGE_OPTIONS,
	{ "leave-running", 0, OPTION_FLAG, &images.options.leave_running, NULL,
	  "let the container go on afterwards" },
	{ "pre-dump", 0, OPTION_FLAG, &images.options.pre_dump, NULL,
	  "save memory only, for a checkpoint that follows; the container goes on" },
	{ "parent-path", 0, OPTION_STRING, &images.options.parent_path, "PATH",
	  "an earlier checkpoint, seen from the images' directory: save what changed since" },
	{ "tcp-skip-in-flight", 0, OPTION_FLAG, &images.options.tcp_skip_in_flight, NULL,
	  "leave out TCP connections that are being made" },
	{ "link-remap", 0, OPTION_FLAG, &images.options.link_remap, NULL,
	  "also with open files that have no name any more, by giving them one" },
	{ "page-server", 0, OPTION_STRING, &images.page_server, "ADDRESS:PORT",
	  "send memory to a criu page-server" },
	{ "status-fd", 0, OPTION_NUMBER, &images.options.status_fd, "N",
	  "write a NUL to descriptor N when memory can be fetched" },
	{ 0 },
};

static int checkpoint(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance = NULL;

	if (images_prepare(err) < 0)
		return -1;
	instance = instance_load(runtime, argv[0], true, err);
	return instance ? instance_checkpoint(instance, &images.options, err) : -1;
}

const struct cli_command checkpoint_command = {
	.name = "checkpoint",
	.arguments = "ID",
	.summary = "save the processes of a running container to images",
	.details =
		"The container ends and is deleted then, unless --leave-running or --pre-dump is\n"
		"given. It takes CRIU, whose log is dump.log.",
	.options = options,
	.arguments_min = 1,
	.arguments_max = 1,
	.run = checkpoint,
};
