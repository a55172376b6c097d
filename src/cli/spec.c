/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat spec: write an example config.json. */
#include "cli/cli.h"

#include <fcntl.h>
#include <string.h>

static const char *bundle = ".";
static bool rootless;

static const struct cli_option options[] = {
	{ "bundle", 'b', OPTION_STRING, &bundle, "DIR",
	  "where to write it (the current directory)" },
	{ "rootless", 0, OPTION_FLAG, &rootless, NULL,
	  "with a user namespace, for an ordinary user" },
	{ 0 },
};

static int spec(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_free_ char *text = spec_json(rootless);
	_cleanup_free_ char *path = xasprintf("%s/config.json", bundle);
	_cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0 && errno == EEXIST)
		return err_set(err, 0, "%s is there already: remove it first", path);
	if (fd < 0) {
		err_set(err, errno, "create %s", path);
		return err->code == ENOENT ? err_hint(err, "make the directory first") : -1;
	}
	if (fd_write_full(fd, text, strlen(text)) < 0)
		return err_set(err, errno, "write %s", path);
	return 0;
}

const struct cli_command spec_command = {
	.name = "spec",
	.arguments = "",
	.summary = "write an example config.json that runs a shell",
	.details = "A config.json that is there already is left as it is, and an error.",
	.options = options,
	.stateless = true,
	.run = spec,
};
