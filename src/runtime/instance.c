/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A container between its creation and its deletion. */
#include "runtime/private.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "oci/config.h"
#include "oci/record.h"
#include "oci/settings.h"
#include "oci/state.h"
#include "runtime/ids.h"
#include "sandbox/annotations.h"
#include "sandbox/hooks.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

static const char *const status_names[] = {
	[STATUS_CREATING] = "creating", [STATUS_CREATED] = "created", [STATUS_RUNNING] = "running",
	[STATUS_PAUSED] = "paused",	[STATUS_STOPPED] = "stopped",
};

const char *status_name(enum status status)
{
	return status_names[status];
}

struct instance *instance_new(const struct runtime *runtime, const char *id)
{
	struct instance *instance = xcalloc(1, sizeof(*instance));

	instance->runtime = runtime;
	instance->state_fd = instance->lock_fd = -1;
	instance->container.id = xstrdup(id);
	instance->container.settings = runtime->settings;
	return instance;
}

void instance_free(struct instance *instance)
{
	if (!instance)
		return;
	fd_replace(&instance->lock_fd, -1);
	fd_replace(&instance->state_fd, -1);
	moat_record_free(instance->record);
	oci_config_free(instance->config);
	free(instance->state_path);
	free((char *)instance->container.id);
	free(instance);
}

void instance_connect(struct instance *instance)
{
	struct container *container = &instance->container;
	const struct moat_record *record = instance->record;

	container->bundle = record->bundle;
	container->cgroup_path = record->cgroup_path;
	container->cgroup_unit = record->cgroup_unit;
	container->pid = record->pid;
	container->start_time = record->start_time;
	container->id_base = record->id_base;
	container->state_path = instance->state_path;
	container->state_fd = instance->state_fd;
	container->config = instance->config;
	instance->engine = container->isolation == ISOLATION_VM ? &vm_engine : &plain_engine;
}

struct instance *instance_load(const struct runtime *runtime, const char *id, bool lock,
			       struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance = NULL;

	if (id_check(id, err) < 0)
		return NULL;
	instance = instance_new(runtime, id);
	if (state_open(runtime, instance, id, lock, err) < 0 ||
	    (!lock && state_settle(instance, err) < 0) || state_read(instance, err) < 0)
		return NULL;
	if (isolation_parse("state.json: isolation", instance->record->isolation,
			    &instance->container.isolation, err) < 0)
		return NULL;
	instance_connect(instance);
	return steal(instance);
}

void instance_unlock(struct instance *instance)
{
	fd_replace(&instance->lock_fd, -1);
}

int instance_config(struct instance *instance, struct err *err)
{
	_cleanup_free_ char *text = NULL;
	size_t size;

	if (instance->config)
		return 0;
	text = file_read_regular(instance->state_fd, "config.json", RUNTIME_CONFIG_MAX, &size, err);
	if (!text && !state_is_current(instance))
		return state_none(instance->container.id, err);
	if (!text)
		return err_wrap(err, "container %s", instance->container.id);
	instance->config = oci_config_parse(text, size, "config.json", err);
	instance->container.config = instance->config;
	if (!instance->config)
		return -1;
	crun_annotations_apply(instance->config);
	return 0;
}

/*
 * The init of a pid namespace becomes a zombie only when every process that joined the namespace
 * from outside, as those of exec do, has been reaped by a parent that may take its time. When all
 * have ended, so has the container.
 */
static bool has_ended(const struct instance *instance)
{
	const struct moat_record *record = instance->record;
	enum proc_life life = proc_look(record->pid, record->start_time);

	if (life == PROC_ENDING && record->cgroup_path)
		return cgroup_is_empty(record->cgroup_path);
	return life == PROC_GONE;
}

enum status instance_status(const struct instance *instance)
{
	const struct moat_record *record = instance->record;

	if (!record->pid)
		return record->creating ? STATUS_CREATING : STATUS_STOPPED;
	if (has_ended(instance))
		return STATUS_STOPPED;
	if (record->creating)
		return STATUS_CREATING;
	if (record->paused) /* before or after its start: nobody is awake in it */
		return STATUS_PAUSED;
	return record->started ? STATUS_RUNNING : STATUS_CREATED;
}

/* Those that are not the engines' business: beside a container that is there, or was. */
static int run_hooks(struct instance *instance, const char *kind, struct err *err)
{
	const struct oci_hooks *hooks = instance->config ? instance->config->hooks : NULL;
	_cleanup_free_ char *state = NULL;

	if (!hooks)
		return 0;
	state = instance_state(instance);
	if (str_eq(kind, "poststart"))
		return hooks_run(hooks->poststart, hooks->n_poststart, kind, state, err);
	return hooks_run(hooks->poststop, hooks->n_poststop, kind, state, err);
}

/* The record is written first: where there is no room for it, nothing has happened yet. */
static int keep_mark(struct instance *instance, bool *mark, struct err *err)
{
	*mark = true;
	return state_write(instance, err);
}

/* What was marked did not happen. */
static void drop_mark(struct instance *instance, bool *mark)
{
	*mark = false;
	state_write(instance, NULL);
}

int instance_start(struct instance *instance, struct err *err)
{
	enum status status = instance_status(instance);

	if (status == STATUS_PAUSED && !instance->record->started)
		return instance_wrong_state(instance, "start", ": resume it first", err);
	if (status != STATUS_CREATED)
		return instance_wrong_state(instance, "start",
					    status == STATUS_STOPPED
						    ? ": delete it and create it anew"
					    : status == STATUS_RUNNING ? " already"
								       : "",
					    err);
	if (instance_config(instance, err) < 0 ||
	    keep_mark(instance, &instance->record->started, err) < 0)
		return -1;
	if (instance->engine->start(&instance->container, err) < 0) {
		drop_mark(instance, &instance->record->started);
		return -1;
	}
	if (run_hooks(instance, "poststart", err) == 0)
		return 0;
	instance->engine->kill(&instance->container, SIGKILL, false, NULL);
	return -1;
}

/* containerd and CRI-O look for the words "container not running", or "does not exist". */
static int not_running(const struct instance *instance, struct err *err)
{
	if (!state_is_current(instance))
		return state_none(instance->container.id, err);
	return err_set(err, ERR_NOT_RUNNING, "signal %s: container not running",
		       instance->container.id);
}

int instance_kill(struct instance *instance, int signal, bool all, struct err *err)
{
	enum status status = instance_status(instance);

	if (status == STATUS_STOPPED || status == STATUS_CREATING) {
		if (all && signal != 0) /* whatever the first process left in the cgroup */
			return instance->engine->kill(&instance->container, signal, all, err);
		return not_running(instance, err);
	}
	if (signal == 0) /* kill(2): only look */
		return 0;
	if (instance->engine->kill(&instance->container, signal, all, err) < 0) {
		/* The workload has ended, and a machine is about to: whoever deletes it agrees. */
		if (err && err->code == ERR_NOT_RUNNING)
			over_mark(instance);
		return over_wait(instance) ? not_running(instance, err) : -1;
	}
	if (signal == SIGKILL)
		over_mark(instance);
	return 0;
}

int instance_exec(struct instance *instance, const struct exec_options *options, pid_t *pid,
		  struct err *err)
{
	enum status status = instance_status(instance);

	if (status != STATUS_RUNNING && status != STATUS_CREATED &&
	    !(status == STATUS_PAUSED && options->ignore_paused))
		return instance_wrong_state(
			instance, "run a process in",
			status != STATUS_PAUSED ? "" : ": resume it first, or give --ignore-paused",
			err);
	if (instance_has(instance, instance->engine->exec, "run a process in", err) < 0 ||
	    instance_config(instance, err) < 0)
		return -1;
	beside_machine_warn(instance, options->process);
	if (instance->engine->exec(&instance->container, options, pid, err) == 0)
		return 0;
	return over_explain(instance, "run a process in", err);
}

int instance_pause(struct instance *instance, struct err *err)
{
	enum status status = instance_status(instance);

	if (status != STATUS_RUNNING && status != STATUS_CREATED)
		return instance_wrong_state(instance, "pause",
					    status == STATUS_PAUSED ? " already" : "", err);
	if (instance_has(instance, instance->engine->pause, "pause", err) < 0)
		return -1;
	if (keep_mark(instance, &instance->record->paused, err) < 0)
		return -1;
	if (instance->engine->pause(&instance->container, err) == 0)
		return 0;
	drop_mark(instance, &instance->record->paused);
	return over_explain(instance, "pause", err);
}

/* The record says "paused" before it is so and until it is no more: also after a command's crash.
 */
int instance_resume(struct instance *instance, struct err *err)
{
	enum status status = instance_status(instance);

	if (status != STATUS_PAUSED)
		return instance_wrong_state(instance, "resume",
					    status == STATUS_STOPPED ? "" : ", not paused", err);
	if (instance_has(instance, instance->engine->resume, "resume", err) < 0)
		return -1;
	if (instance->engine->resume(&instance->container, err) < 0)
		return over_explain(instance, "resume", err);
	instance->record->paused = false;
	return state_write(instance, err);
}

int instance_update(struct instance *instance, const struct oci_linux_resources *resources,
		    struct err *err)
{
	enum status status = instance_status(instance);

	if (status == STATUS_STOPPED || status == STATUS_CREATING)
		return instance_wrong_state(instance, "change the limits of", "", err);
	if (instance_has(instance, instance->engine->update, "change the limits of", err) < 0)
		return -1;
	if (instance_config(instance, err) < 0)
		return -1;
	if (instance->engine->update(&instance->container, resources, err) == 0)
		return 0;
	return over_explain(instance, "change the limits of", err);
}

int instance_delete(struct instance *instance, bool force, struct err *err)
{
	struct err unheard;

	if (!force && instance->damaged && instance->record->cgroup_path &&
	    !cgroup_is_empty(instance->record->cgroup_path))
		return err_set(err, 0,
			       "cannot delete container %s: its state.json is damaged or gone, and "
			       "processes are in its cgroup %s: give --force to end them",
			       instance->container.id, instance->record->cgroup_path);
	/* In a created one, no program of the user's runs yet that an error could protect. */
	if (!force && instance_status(instance) != STATUS_CREATED && !over_wait(instance))
		return instance_wrong_state(instance, "delete",
					    ": kill it first, or give --force to do both", err);
	over_mark(instance);
	if (instance->engine->destroy(&instance->container, err) < 0)
		return -1;
	if (instance->record->pid && instance_config(instance, &unheard) == 0 &&
	    run_hooks(instance, "poststop", &unheard) < 0)
		log_warning("%s", unheard.text); /* it is gone nevertheless */
	ids_free(instance->state_path); /* a record that was cut short does not tell of them */
	return state_remove(instance->runtime, instance, err);
}

char *instance_state(const struct instance *instance)
{
	const struct moat_record *record = instance->record;
	enum status status = instance_status(instance);
	struct oci_state state = {
		.oci_version = (char *)RUNTIME_OCI_VERSION,
		.id = (char *)instance->container.id,
		.status = (char *)status_name(status),
		.pid = status == STATUS_STOPPED ? 0 : record->pid,
		.has_pid = true,
		.bundle = record->bundle,
		.annotations = record->annotations,
		.n_annotations = record->n_annotations,
	};

	return oci_state_write(&state, NULL);
}
