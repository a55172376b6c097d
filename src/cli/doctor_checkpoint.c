/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What moat checkpoint and restore need: CRIU, which has to know the running kernel. */
#include "cli/doctor.h"

#include "criu/criu.h"

#include <unistd.h>

void doctor_checkpoint(struct diagnosis *diagnosis)
{
	struct err err = { 0 };

	if (geteuid() != 0)
		return; /* an ordinary user has no checkpoints */
	if (criu_check(&err) == 0)
		found(diagnosis, VERDICT_OK, 0, "checkpoint", NULL,
		      "criu check says that all is well");
	else
		found(diagnosis, VERDICT_WARN, 0, "checkpoint",
		      err.code == ENOENT ? "install CRIU, for moat checkpoint and restore"
					 : "take a CRIU that is as new as the kernel",
		      "%s", err.text);
}
