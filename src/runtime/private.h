/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of the lifecycle share. */
#pragma once

#include "runtime/runtime.h"

/* instance_new() - an instance with nothing but an id. */
struct instance *instance_new(const struct runtime *runtime, const char *id);

/* instance_connect() - point the engine's view at what the record and the state directory say. */
void instance_connect(struct instance *instance);

/* runtime_root_failed() - the state's directory cannot be used: adds what names it. Returns -1. */
int runtime_root_failed(const struct runtime *runtime, struct err *err);

/*
 * instance_wrong_state() - say that an action is not possible in the state that it is in.
 * @hint: put after it; may be "". Returns -1.
 */
int instance_wrong_state(const struct instance *instance, const char *action, const char *hint,
			 struct err *err);

/* over_mark() - keep in its directory that it was sent KILL, or is about to be deleted. */
void over_mark(const struct instance *instance);

/* over_wait() - whether it has ended, or does so within a moment, as over_mark() says that it will.
 */
bool over_wait(const struct instance *instance);

/*
 * over_explain() - of an action that failed: where another command has ended or deleted the
 * container meanwhile, that is the reason to be told, else what err says. Returns -1.
 */
int over_explain(const struct instance *instance, const char *action, struct err *err);

/* instance_has() - an isolation level may lack an operation. 0, or -1 with err set. */
int instance_has(const struct instance *instance, bool has, const char *action, struct err *err);

/*
 * image_open() - open the directories of an image, or make them first. 0, or -1 with err set; to be
 * closed with image_close() in either case.
 */
int image_open(struct image_options *image, bool make, struct err *err);
void image_close(struct image_options *image);

/* image_offered() - whether the container's level has images. 0, or -1 with err set. */
int image_offered(const struct instance *instance, const char *action, struct err *err);

/*
 * beside_machine_hooks() - hooks that run while a container is made. The engine of namespaces runs
 * them at their places; beside a machine, which is there as a whole, they run here. startContainer
 * runs in the guest. Nothing is done at other levels. 0, or -1 with err set.
 */
int beside_machine_hooks(const struct instance *instance, struct err *err);

/*
 * beside_machine_check() - refuse now what the guest would refuse after its boot, and warn of what
 * it will leave out.
 */
int beside_machine_check(const struct instance *instance, struct err *err);

/* beside_machine_warn() - of what the guest will leave out of a process. */
void beside_machine_warn(const struct instance *instance, const struct oci_process *process);

/* id_check() - 0, or -1 with err set. */
int id_check(const char *id, struct err *err);

/*
 * state_create() - make the state directory of a new container, with its lock taken.
 * Of several callers with one id one wins; the others get err->code EEXIST.
 */
int state_create(const struct runtime *runtime, struct instance *instance, const char *id,
		 struct err *err);

/* state_open() - open the directory of an existing container; see instance_load(). */
int state_open(const struct runtime *runtime, struct instance *instance, const char *id, bool lock,
	       struct err *err);

/*
 * state_settle() - without the lock: wait, for a bounded time, for another command that has not
 * written state.json yet, or has removed it. 0, or -1 with err set where the container is gone.
 */
int state_settle(const struct instance *instance, struct err *err);

/* state_is_current() - whether the directory that is open is still the one that the id leads to. */
bool state_is_current(const struct instance *instance);

/* state_none() - say that there is no such container. Returns -1. */
int state_none(const char *id, struct err *err);

/* state_write() - replace state.json by the instance's record. */
int state_write(const struct instance *instance, struct err *err);

/* state_read() - fill in the instance's record; a missing or broken file gives an empty one. */
int state_read(struct instance *instance, struct err *err);

/* state_remove() - remove the directory with all that is in it. */
int state_remove(const struct runtime *runtime, struct instance *instance, struct err *err);

/*
 * activation_pass() - let the process have the descriptors of socket activation (LISTEN_FDS) that
 * the caller was given, and be told of them. 0, or -1 with err set.
 */
int activation_pass(struct oci_process *process, struct create_options *options, struct err *err);

/* isolation_parse() - "vm", "sandbox", "plain". 0, or -1 with err set, naming `where`. */
int isolation_parse(const char *where, const char *name, enum isolation *isolation,
		    struct err *err);
const char *isolation_name(enum isolation isolation);

/*
 * annotations_check() - whether the operator's file lists only annotations that there are.
 * @path: the file's, for messages. 0, or -1 with err set.
 */
int annotations_check(const struct moat_settings *settings, const char *path, struct err *err);

/* block_devices_check() - whether the operator's file lists only paths. 0, or -1 with err set. */
int block_devices_check(const struct moat_settings *settings, const char *path, struct err *err);

/* sandbox_capabilities_check() - whether it names only capabilities that there are. Likewise. */
int sandbox_capabilities_check(const struct moat_settings *settings, const char *path,
			       struct err *err);

/*
 * unit_annotations_check() - whether the config's annotations org.systemd.property.NAME may be
 * used, where the systemd driver would. 0, or -1 with err set.
 */
int unit_annotations_check(const struct runtime *runtime, const struct oci_config *config,
			   struct err *err);

/*
 * isolation_choose() - the level of one container: the runtime's, or a higher one that the
 * annotation run.moat.isolation asks for. A lower one is an error, unless the operator's file lists
 * that annotation.
 */
int isolation_choose(const struct runtime *runtime, const struct oci_config *config,
		     enum isolation *isolation, struct err *err);
