/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The lifecycle of containers (runtime-spec, "Runtime and Lifecycle"), the same at every isolation
 * level. What a container is between two commands lies in its state directory.
 */
#pragma once

#include "base/err.h"
#include "base/fd.h"
#include "engine/engine.h"

#include <stdbool.h>
#include <stddef.h>

#define RUNTIME_OCI_VERSION "1.3.0"
#define RUNTIME_ID_MAX	    128
#define RUNTIME_CONFIG_MAX  (16u << 20) /* bytes of a config.json */

struct moat_processes;
struct moat_record;
struct moat_stats;
struct oci_config;

struct runtime_options {
	const char *root;	    /* NULL: the default */
	const char *program;	    /* argv[0]: its name may choose the level */
	const char *isolation;	    /* NULL: not given */
	const char *settings_path;  /* NULL: the default, which may be missing */
	const char *cgroup_manager; /* NULL, "cgroupfs", "systemd", "disabled" */
	bool stateless;		    /* go on where there is nowhere to keep state */
};

struct runtime {
	char *root;	       /* absolute; may not exist yet; NULL: there is none (stateless) */
	const char *root_from; /* what names it, for messages; NULL: nothing, it is the default */
	struct moat_settings *settings;
	enum isolation isolation; /* the level asked for; an annotation may raise it */
	bool no_cgroup;
	bool systemd; /* cgroups of new containers are scopes of systemd */
};

/*
 * runtime_open() - find out what the options, the name of the program and the operator's file ask
 * for. Creates nothing. Returns 0, or -1 with err set.
 */
int runtime_open(struct runtime *runtime, const struct runtime_options *options, struct err *err);
void runtime_close(struct runtime *runtime);

/* runtime_need_root() - 0, or -1 with err set where there is nowhere to keep state. */
int runtime_need_root(const struct runtime *runtime, struct err *err);

enum status { STATUS_CREATING, STATUS_CREATED, STATUS_RUNNING, STATUS_PAUSED, STATUS_STOPPED };

const char *status_name(enum status status);

/* A container whose state directory is open. */
struct instance {
	struct container container; /* as engines see it */
	struct moat_record *record; /* what state.json holds */
	struct oci_config *config;  /* only where instance_create() or instance_config() read it */
	const struct engine_ops *engine;
	const struct runtime *runtime;
	char *state_path;
	int state_fd, lock_fd;
	bool state_made; /* the state directory is this creation's */
	bool damaged;	 /* state.json could not be understood, or is not there */
};

/*
 * instance_create() - make a container from a bundle, up to the user's program.
 * @bundle: path of the bundle directory.
 * @pid_file: where to write the pid; NULL: nowhere.
 *
 * Returns it, locked, with a child process container.pid of the caller; NULL with err set and
 * nothing left behind.
 */
struct instance *instance_create(const struct runtime *runtime, const char *id, const char *bundle,
				 const char *pid_file, const struct create_options *options,
				 struct err *err);

/*
 * instance_restore() - make a container from a bundle, whose processes are those of an image.
 * @image: path, work_path and what of it concerns a restore.
 *
 * As instance_create(); the container runs.
 */
struct instance *instance_restore(const struct runtime *runtime, const char *id, const char *bundle,
				  const char *pid_file, const struct create_options *options,
				  struct image_options *image, struct err *err);

/*
 * instance_load() - open an existing container.
 * @lock: take its lock, for a command that changes it; waits a bounded time for another command.
 *
 * Returns it, or NULL with err set (ERR_NO_CONTAINER). One whose creation was cut short loads, too:
 * as stopped, so that it can be deleted.
 */
struct instance *instance_load(const struct runtime *runtime, const char *id, bool lock,
			       struct err *err);
void instance_free(struct instance *instance);
DEFINE_CLEANUP(struct instance, instance_free)

/* instance_unlock() - let other commands change the container. */
void instance_unlock(struct instance *instance);

/* instance_config() - config.json as it was at create, read at the first call. 0, or -1. */
int instance_config(struct instance *instance, struct err *err);

enum status instance_status(const struct instance *instance);

/* instance_start() - run the user's program. Needs the lock. 0, or -1 (ERR_NOT_RUNNING, …). */
int instance_start(struct instance *instance, struct err *err);

/*
 * instance_kill() - send a signal, or with 0 only look whether there is something to signal.
 * Returns 0, or -1 (ERR_NOT_RUNNING where the container has ended).
 */
int instance_kill(struct instance *instance, int signal, bool all, struct err *err);

/*
 * instance_exec() - run a further process in a running container.
 * @pid: a child of the caller that ends as the process does.
 */
int instance_exec(struct instance *instance, const struct exec_options *options, pid_t *pid,
		  struct err *err);

/* instance_pause(), instance_resume() - need the lock. 0, or -1. */
int instance_pause(struct instance *instance, struct err *err);
int instance_resume(struct instance *instance, struct err *err);

/* instance_update() - change limits while it runs. Needs the lock. 0, or -1. */
int instance_update(struct instance *instance, const struct oci_linux_resources *resources,
		    struct err *err);

/*
 * instance_checkpoint() - save its processes to an image, whose directory is made if missing. It
 * ends with that, unless the image's options say otherwise. Needs the lock. 0, or -1.
 */
int instance_checkpoint(struct instance *instance, struct image_options *image, struct err *err);

/*
 * instance_update_shares() - change its share of the processors' cache and memory bandwidth.
 * @l3, @bandwidth: as l3CacheSchema and memBwSchema of linux.intelRdt; NULL: as it is.
 */
int instance_update_shares(struct instance *instance, const char *l3, const char *bandwidth,
			   struct err *err);

/* instance_stats() - what it has used so far: for moat_stats_free(), or NULL with err set. */
struct moat_stats *instance_stats(struct instance *instance, struct err *err);

/* instance_oom_watch() - of engine_ops.oom_watch(): the descriptor, or -1 with err set. */
int instance_oom_watch(struct instance *instance, struct err *err);

/*
 * instance_processes() - pids as the host sees them; *pids is to be freed. Of a stopped container:
 * none, or those that it left in its cgroup. 0, or -1.
 */
int instance_processes(struct instance *instance, pid_t **pids, size_t *count, struct err *err);

/*
 * instance_describe() - its processes as they see themselves, for moat_processes_free(), or NULL
 * with err set. Only where instance_describes(): else the host's ps(1) can tell of those pids.
 */
bool instance_describes(const struct instance *instance);
struct moat_processes *instance_describe(struct instance *instance, struct err *err);

/*
 * instance_delete() - release everything and forget the container. Needs the lock.
 * One that is created and not started is ended first, as runc does.
 * @force: also where it runs: it is killed first.
 */
int instance_delete(struct instance *instance, bool force, struct err *err);

/*
 * instance_state() - the state as the specification's "State" has it, for `state` and hooks: JSON
 * in a string that the caller frees.
 */
char *instance_state(const struct instance *instance);

/*
 * runtime_list() - the ids of all containers, sorted.
 * Returns an array of strings ended by NULL, all to be freed with strings_free(); NULL with err
 * set.
 */
char **runtime_list(const struct runtime *runtime, struct err *err);
void strings_free(char **strings);
DEFINE_CLEANUP(char *, strings_free)

/*
 * features_json() - what this moat can do here, with the operator's file as it is (runtime-spec,
 * "Features Structure"). To be freed.
 */
char *features_json(const struct runtime *runtime);

/*
 * spec_json() - an example config.json that runs a shell. To be freed.
 * @rootless: for an ordinary user: a user namespace with the caller's ids.
 */
char *spec_json(bool rootless);
