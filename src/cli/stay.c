/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Seeing a container through: start, wait and delete, with signals passed on. */
#include "cli/stay.h"

#include "base/log.h"
#include "cli/creation.h"
#include "cli/foreground.h"
#include "oci/config.h"

#include <sys/prctl.h>
#include <unistd.h>

struct stay stay;

static int pass_on(struct foreground *foreground, int signal, struct err *err)
{
	return instance_kill(foreground->data, signal, false, err);
}

typedef int start_fn(struct instance *instance, struct err *err);

/*
 * A machine that ended before its workload was started has said why, on our standard error: its
 * status is all there is to add. Unless it was killed, and could say nothing.
 */
static int wait_for_machine(struct foreground *foreground)
{
	struct err unheard;
	int status = foreground_wait(foreground, &unheard);

	return foreground->killed ? -1 : status;
}

static int start_and_wait(struct foreground *foreground, struct instance *instance, start_fn *start,
			  struct err *err)
{
	if (foreground_attach(foreground, err) < 0)
		return -1;
	if (start && start(instance, err) < 0)
		return instance->container.isolation == ISOLATION_VM && err->code == ERR_NOT_RUNNING
			       ? wait_for_machine(foreground)
			       : -1;
	instance_unlock(instance); /* it lives now: others may pause, change or delete it */
	return foreground_wait(foreground, err);
}

/* While it ran, another command may have deleted it, and even made another one of that id. */
static void delete_ours(struct runtime *runtime, const struct instance *ours)
{
	const struct container *container = &ours->container;
	struct err err = { 0 };
	_cleanup_(instance_free_pointer) struct instance *found =
		instance_load(runtime, container->id, true, &err);

	if (!found && err.code == ERR_NO_CONTAINER)
		return;
	if (found && (found->container.pid != container->pid ||
		      found->container.start_time != container->start_time))
		return;
	if (!found || instance_delete(found, true, &err) < 0)
		log_warning("%s", err.text);
}

static int run_foreground(struct runtime *runtime, struct foreground *foreground,
			  struct instance *instance, start_fn *start, struct err *err)
{
	int status;

	if (foreground->terminal && !isatty(STDIN_FILENO))
		status = err_set(err, 0,
				 "config.json: process.terminal is true, but standard input is no "
				 "terminal: set it to false, or give --console-socket");
	else
		status = start_and_wait(foreground, instance, start, err);
	foreground_close(foreground);
	instance_unlock(instance);
	if (!stay.keep || status < 0)
		delete_ours(runtime, instance);
	return status;
}

static int run_detached(struct instance *instance, start_fn *start, struct err *err)
{
	struct err cleanup = { 0 };

	if (!start || start(instance, err) == 0)
		return 0;
	if (instance_delete(instance, true, &cleanup) < 0)
		log_warning("%s", cleanup.text);
	return -1;
}

static int prepare(struct foreground *foreground, struct err *err)
{
	creation.options.foreground = !stay.detach;
	if (creation_prepare(err) < 0)
		return -1;
	if (stay.detach || creation.console_path)
		return 0;
	return console_pair(&foreground->console, &creation.options.console_socket, err);
}

int stay_run(struct runtime *runtime, const char *id,
	     struct instance *(*make)(const struct runtime *runtime, const char *id,
				      struct err *err),
	     start_fn *start, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance = NULL;
	struct foreground foreground = FOREGROUND_NEW(pass_on);

	if (!stay.detach && !stay.no_subreaper)
		prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	if ((!stay.detach && foreground_prepare(&foreground, err) < 0) ||
	    prepare(&foreground, err) < 0)
		return -1;
	instance = make(runtime, id, err);
	if (!instance)
		return -1;
	if (stay.detach)
		return run_detached(instance, start, err);
	foreground.data = instance;
	foreground.pid = instance->container.pid;
	foreground.terminal = instance->config->process->terminal && !creation.console_path;
	return run_foreground(runtime, &foreground, instance, start, err);
}
