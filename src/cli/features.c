/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat features: what this moat can do, as JSON for engines. */
#include "cli/cli.h"

#include "base/json.h"

#include <stdio.h>

static int features(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_free_ char *text = features_json(runtime), *indented = json_indent(text);

	fputs(indented, stdout);
	return 0;
}

const struct cli_command features_command = {
	.name = "features",
	.arguments = "",
	.summary = "print what this moat supports, as JSON",
	.stateless = true,
	.run = features,
};
