/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Container ids: they become file names, cgroup names and host names, so they are kept plain. */
#include "runtime/private.h"

#include <ctype.h>
#include <string.h>

int id_check(const char *id, struct err *err)
{
	size_t length = strlen(id);

	if (length == 0)
		return err_set(err, 0, "container id is empty: give a name for the container");
	if (length > RUNTIME_ID_MAX)
		return err_set(err, 0, "container id of %zu characters is too long: at most %d",
			       length, RUNTIME_ID_MAX);
	if (id[0] == '.' && (id[1] == '\0' || (id[1] == '.' && id[2] == '\0')))
		return err_set(err, 0,
			       "container id '%s' is not a name: use letters, digits and _ + - . "
			       "only, and more than one or two dots",
			       id);
	for (const char *p = id; *p; p++)
		if (!isascii(*p) || (!isalnum((unsigned char)*p) && !strchr("_+-.", *p)))
			return err_set(err, 0,
				       "container id has the character '%s%c': use letters, digits "
				       "and _ + - . only",
				       isprint((unsigned char)*p) ? "" : "\\",
				       isprint((unsigned char)*p) ? *p : '?');
	return 0;
}
