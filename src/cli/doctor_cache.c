/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The directory for what is made once and used again: whether files can come to be there. */
#include "cli/doctor.h"

#include "base/fd.h"
#include "base/mem.h"
#include "oci/settings.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* The nearest directory that is there: what is missing below it moat makes when it needs it. */
static char *nearest(const char *path)
{
	char *directory = xstrdup(path), *slash;

	while (access(directory, F_OK) < 0 && (slash = strrchr(directory, '/')) && slash[1])
		slash[slash == directory] = '\0';
	return directory;
}

/* Entries are written as files without a name (open(2), O_TMPFILE), and linked when whole. */
void doctor_cache(struct diagnosis *diagnosis, const struct moat_settings *settings)
{
	_cleanup_free_ char *directory = nearest(settings->cache);
	_cleanup_fd_ int fd = open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	if (fd >= 0)
		found(diagnosis, VERDICT_OK, 0, "cache", NULL,
		      "%s keeps filters and templates for later containers", settings->cache);
	else if (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)
		found(diagnosis, VERDICT_WARN, 0, "cache",
		      "name a directory on ext4, xfs, btrfs or tmpfs as \"cache\" in the "
		      "operator's "
		      "file",
		      "the file system of %s has no unnamed files (O_TMPFILE): each container "
		      "compiles its filters, and each microVM boots its kernel",
		      directory);
	else if (geteuid() == 0) /* others have another one, or none */
		found(diagnosis, VERDICT_WARN, 0, "cache",
		      "name another directory as \"cache\" in the operator's file",
		      "make a file in %s: %m; each container compiles its filters, and each "
		      "microVM "
		      "boots its kernel",
		      directory);
}
