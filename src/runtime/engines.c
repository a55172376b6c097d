/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stand-ins that the engines' own tables replace when they are linked in. */
#include "engine/engine.h"
static int absent(struct container *c, const struct create_options *o, struct err *err)
{
	return err_set(err, 0, "this moat was built without that isolation level");
}
static int absent1(struct container *c, struct err *err)
{
	return 0;
}
__attribute__((weak))
const struct engine_ops vm_engine = { .name = "vm", .create = absent, .destroy = absent1 };
