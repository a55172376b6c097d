/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What cannot be done with a container as it is, in the words that the user is told. */
#include "runtime/private.h"

int instance_wrong_state(const struct instance *instance, const char *action, const char *hint,
			 struct err *err)
{
	return err_set(err, ERR_NOT_RUNNING, "cannot %s container %s: it is %s%s", action,
		       instance->container.id, status_name(instance_status(instance)), hint);
}

int instance_has(const struct instance *instance, bool has, const char *action, struct err *err)
{
	if (has)
		return 0;
	return err_set(err, 0, "cannot %s container %s: level %s does not offer that", action,
		       instance->container.id, instance->engine->name);
}
