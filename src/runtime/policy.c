/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which isolation level a container gets: the operator's choice, which a bundle may only raise. */
#include "runtime/private.h"

#include "base/str.h"
#include "oci/config.h"

static const char *const names[] = {
	[ISOLATION_PLAIN] = "plain",
	[ISOLATION_SANDBOX] = "sandbox",
	[ISOLATION_VM] = "vm",
};

const char *isolation_name(enum isolation isolation)
{
	return names[isolation];
}

int isolation_parse(const char *where, const char *name, enum isolation *isolation, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eq(names[i], name)) {
			*isolation = (enum isolation)i;
			return 0;
		}
	return err_set(err, 0, "%s: expected vm, sandbox or plain, found '%.64s'", where, name);
}

int isolation_choose(const struct runtime *runtime, const struct oci_config *config,
		     enum isolation *isolation, struct err *err)
{
	static const char key[] = "run.moat.isolation";
	enum isolation asked;

	*isolation = runtime->isolation;
	for (size_t i = 0; i < config->n_annotations; i++) {
		if (!str_eq(config->annotations[i].key, key))
			continue;
		if (isolation_parse("annotation run.moat.isolation", config->annotations[i].value,
				    &asked, err) < 0)
			return -1;
		if (asked < *isolation)
			return err_set(err, 0,
				       "annotation %s asks for %s, which is weaker than %s: an "
				       "annotation can only raise the level",
				       key, isolation_name(asked), isolation_name(*isolation));
		*isolation = asked;
	}
	return 0;
}
