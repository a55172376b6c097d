/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * moat kernel: guest kernels that were made from a distribution's. The import is a script, since it
 * unpacks packages and modules with the distribution's own tools.
 */
#include "cli/cli.h"

#include "base/str.h"
#include "oci/settings.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define KERNELS "/var/lib/moat/kernels"
#define IMPORT	MOAT_LIBDIR "/kernel-import"

static const char *directory = KERNELS;
static const char *modules, *init;

static const struct cli_option options[] = {
	{ "to", 0, OPTION_STRING, &directory, "DIR", "where imported kernels are (" KERNELS ")" },
	{ "modules", 0, OPTION_STRING, &modules, "DIR",
	  "import: the modules' directory (/lib/modules/RELEASE, or the package's own)" },
	{ "init", 0, OPTION_STRING, &init, "FILE", "import: moat's initramfs (the one installed)" },
	{ 0 },
};

static int import(const char *file, struct err *err)
{
	const char *args[10] = { IMPORT, "--to", directory };
	size_t n = 3;

	if (modules) {
		args[n++] = "--modules";
		args[n++] = modules;
	}
	if (init) {
		args[n++] = "--init";
		args[n++] = init;
	}
	args[n++] = "--";
	args[n++] = file;
	execv(IMPORT, (char **)args);
	err_set(err, errno, "run %s", IMPORT);
	return err_hint(err, "it takes python3; in moat's source it is contrib/kernel/import");
}

static bool in_use(const struct runtime *runtime, const char *path)
{
	struct stat its, used;

	return stat(path, &its) == 0 && stat(runtime->settings->kernel, &used) == 0 &&
	       its.st_dev == used.st_dev && its.st_ino == used.st_ino;
}

static int list(const struct runtime *runtime, struct err *err)
{
	struct dirent **entries;
	int count = scandir(directory, &entries, NULL, alphasort);
	bool seen = false;

	if (count < 0 && (errno != ENOENT || !str_eq(directory, KERNELS))) {
		err_set(err, errno, "read %s", directory);
		return str_eq(directory, KERNELS) ? -1 : err_hint(err, "--to names it");
	}
	printf("%-32s  %-6s  %s\n", "RELEASE", "IN USE", "KERNEL");
	for (int i = 0; i < count; i++) {
		_cleanup_free_ char *path =
			xasprintf("%s/%s/vmlinuz", directory, entries[i]->d_name);
		bool used = in_use(runtime, path);

		if (entries[i]->d_name[0] != '.' && access(path, F_OK) == 0) {
			printf("%-32s  %-6s  %s\n", entries[i]->d_name, used ? "yes" : "no", path);
			seen = seen || used;
		}
		free(entries[i]);
	}
	if (count >= 0)
		free(entries);
	/* The one of contrib/kernel/build, say: what it is does not show in its name. */
	if (!seen && access(runtime->settings->kernel, F_OK) == 0)
		printf("%-32s  %-6s  %s\n", "-", "yes", runtime->settings->kernel);
	return 0;
}

static int kernel(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	if (str_eq(argv[0], "list") && argc == 1)
		return list(runtime, err);
	if (str_eq(argv[0], "import") && argc == 2)
		return import(argv[1], err);
	return err_set(err, 0, "kernel: expected list | import FILE; see moat kernel --help");
}

const struct cli_command kernel_command = {
	.name = "kernel",
	.arguments = "list | import FILE",
	.summary = "make a distribution's kernel usable for microVMs, or list those made so",
	.details = "FILE is a vmlinuz or a Debian package of a kernel. import prints what to write "
		   "into the operator's file.",
	.options = options,
	.arguments_min = 1,
	.arguments_max = 2,
	.stateless = true,
	.run = kernel,
};
