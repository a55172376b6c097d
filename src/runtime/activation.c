/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Socket activation (sd_listen_fds(3)): descriptors that were handed to moat for the program it
 * runs. They are the first after the standard streams, before those of --preserve-fds.
 */
#include "runtime/private.h"

#include "base/mem.h"
#include "base/str.h"
#include "oci/config.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static void add_variable(struct oci_process *process, char *text)
{
	process->env = xrealloc(process->env, process->n_env + 2, sizeof(char *));
	process->env[process->n_env++] = text;
	process->env[process->n_env] = NULL;
}

int activation_pass(struct oci_process *process, struct create_options *options, struct err *err)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS"),
		   *names = getenv("LISTEN_FDNAMES");
	uint64_t number, count;

	if (!pid || !fds || str_to_u64(pid, INT_MAX, &number) < 0 || (pid_t)number != getpid())
		return 0; /* none, or another process's */
	if (str_to_u64(fds, 1024, &count) < 0)
		return err_set(err, 0,
			       "LISTEN_FDS: expected a number of descriptors, found '%.64s'", fds);
	if (!count)
		return 0;
	options->preserve_fds += (int)count;
	add_variable(process, xasprintf("LISTEN_FDS=%s", fds));
	add_variable(process, xstrdup("LISTEN_PID=1"));
	if (names)
		add_variable(process, xasprintf("LISTEN_FDNAMES=%s", names));
	return 0;
}
