/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat restore: a container whose processes are those of a checkpoint. */
#include "cli/creation.h"
#include "cli/images.h"
#include "cli/stay.h"

static const struct cli_option options[] = {
	CREATION_OPTIONS,
	STAY_OPTIONS,
	IMAGE_OPTIONS,
	{ "lsm-profile", 0, OPTION_STRING, &images.options.lsm_profile, "TYPE:NAME",
	  "security profile to restore the processes with" },
	{ "lsm-mount-context", 0, OPTION_STRING, &images.options.lsm_mount_context, "CONTEXT",
	  "SELinux context to restore mounts with" },
	{ 0 },
};

static struct instance *make(const struct runtime *runtime, const char *id, struct err *err)
{
	return creation_announce(instance_restore(runtime, id, creation.bundle, creation.pid_file,
						  &creation.options, &images.options, err),
				 err);
}

static int restore(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	if (images_prepare(err) < 0)
		return -1;
	return stay_run(runtime, argv[0], make, NULL, err);
}

const struct cli_command restore_command = {
	.name = "restore",
	.arguments = "ID",
	.summary = "make a container whose processes are those of a checkpoint",
	.details = "The bundle is the one that the checkpoint's container was made from. The exit "
		   "status\n"
		   "is the restored program's. It takes CRIU, whose log is restore.log.",
	.options = options,
	.arguments_min = 1,
	.arguments_max = 1,
	.enters = true,
	.run = restore,
};
