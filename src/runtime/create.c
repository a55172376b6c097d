/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Making a container: from a bundle to a state directory and a process that waits for start. */
#include "runtime/private.h"

#include "base/file.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/utc.h"
#include "cgroup/cgroup.h"
#include "cgroup/systemd.h"
#include "oci/config.h"
#include "oci/record.h"
#include "sandbox/annotations.h"
#include "oci/settings.h"
#include "runtime/ids.h"
#include "sandbox/harden.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#define SPARE_FDS 6

/* Reads the bundle's config and keeps a copy: later changes to the file change nothing. */
static int read_bundle(struct instance *instance, const char *bundle, const char *name, char **text,
		       size_t *size, struct err *err)
{
	_cleanup_free_ char *path =
		name && name[0] == '/' ? xstrdup(name)
				       : xasprintf("%s/%s", bundle, name ? name : "config.json");

	*text = file_read_regular(AT_FDCWD, path, RUNTIME_CONFIG_MAX, size, err);
	if (!*text && err->code == ENOTDIR)
		return err_hint(err, "--bundle names the directory with config.json");
	if (!*text && err->code == ENOENT)
		return err_hint(err, "give the bundle's directory with --bundle, or make a "
				     "config.json with moat spec");
	if (!*text)
		return -1;
	instance->config = oci_config_parse(*text, *size, path, err);
	return instance->config ? 0 : -1;
}

static int check_bundle(struct instance *instance, const char *bundle,
			const struct create_options *options, struct err *err)
{
	const struct oci_config *config = instance->config;
	struct stat st;

	if (!config->process)
		return err_set(err, 0,
			       "config.json: process: it is missing, so there is nothing to "
			       "run");
	if (config->process->terminal && options->console_socket < 0)
		return err_set(err, 0,
			       "config.json: process.terminal: the terminal has to go "
			       "somewhere: give --console-socket");
	instance->record->rootfs = config->root->path[0] == '/'
					   ? xstrdup(config->root->path)
					   : xasprintf("%s/%s", bundle, config->root->path);
	if (stat(instance->record->rootfs, &st) < 0) {
		err_set(err, errno, "find the root file system %s", instance->record->rootfs);
		return err_hint(err, "root.path of config.json names it");
	}
	if (!S_ISDIR(st.st_mode)) {
		err_set(err, ENOTDIR, "find the root file system %s", instance->record->rootfs);
		return err_hint(err, "root.path of config.json names it");
	}
	return 0;
}

/* The section is for microVMs; but who names an image means to have that for a root. */
static void tell_of_image(const struct instance *instance)
{
	const struct oci_vm *vm = instance->config->vm;

	if (instance->container.isolation != ISOLATION_VM && vm && vm->image)
		log_warning("config.json: vm.image is for level vm: at level %s the root of "
			    "container %s is root.path, %s",
			    isolation_name(instance->container.isolation), instance->container.id,
			    instance->record->rootfs);
}

static struct oci_pair *copy_pairs(const struct oci_pair *pairs, size_t count)
{
	struct oci_pair *copy = count ? xcalloc(count, sizeof(*copy)) : NULL;

	for (size_t i = 0; i < count; i++) {
		copy[i].key = xstrdup(pairs[i].key);
		copy[i].value = xstrdup(pairs[i].value);
	}
	return copy;
}

static void fill_record(struct instance *instance, const char *bundle)
{
	struct moat_record *record = instance->record;
	struct timespec now;
	char stamp[UTC_SIZE];

	clock_gettime(CLOCK_REALTIME, &now);
	utc_format(&now, 9, stamp);
	record->id = xstrdup(instance->container.id);
	record->isolation = xstrdup(isolation_name(instance->container.isolation));
	record->bundle = xstrdup(bundle);
	record->creating = true;
	record->created = xstrdup(stamp);
	record->owner = geteuid();
	record->annotations =
		copy_pairs(instance->config->annotations, instance->config->n_annotations);
	record->n_annotations = instance->config->n_annotations;
}

/* An ordinary user has cgroups only where somebody has delegated them. */
static int go_without_cgroup(const struct oci_linux_resources *resources, const char *path,
			     struct err *err)
{
	const struct oci_linux_resources none = { 0 }, *r = resources ? resources : &none;
	bool pids = r->pids && r->pids->has_limit && r->pids->limit > 0; /* else unlimited */

	if (r->memory || r->cpu || pids || r->block_io || r->n_hugepage_limits || r->network ||
	    r->n_rdma || r->n_unified) {
		err_set(err, EACCES, "make cgroup %s for the limits of linux.resources", path);
		return err_hint(err, "an ordinary user needs a delegated cgroup: run moat with "
				     "systemd-run --user --scope -p Delegate=yes, or leave the "
				     "limits out");
	}
	log_debug("no cgroup: %s cannot be made by uid %u", path, geteuid());
	return 0;
}

static void drop_device_rules(struct oci_linux_resources *resources)
{
	_cleanup_(oci_linux_resources_free_pointer) struct oci_linux_resources *dropped =
		oci_linux_resources_new();

	dropped->devices = steal(resources->devices);
	dropped->n_devices = resources->n_devices;
	resources->n_devices = 0;
}

static int choose_cgroup(struct instance *instance, struct err *err)
{
	const struct oci_linux *linux_ = instance->config->linux_;
	struct oci_linux_resources *resources = linux_ ? linux_->resources : NULL;
	_cleanup_free_ char *path = NULL, *unit = NULL;

	if (instance->runtime->no_cgroup || cgroup_layout() == CGROUP_NONE)
		return 0;
	path = instance->runtime->systemd
		       ? systemd_resolve(linux_, instance->container.id, &unit, err)
		       : cgroup_resolve(linux_, instance->container.id, err);
	if (!path)
		return -1;
	if (!proc_is_machines_root()) {
		/*
		 * No program of an ordinary user loads device rules, nor are they needed: no device
		 * can be made in a user namespace, and the host's own have the host's permissions.
		 */
		if (resources)
			drop_device_rules(resources);
		if (!unit && !cgroup_may_create(path))
			return go_without_cgroup(resources, path, err);
	}
	instance->record->cgroup_path = steal(path);
	instance->record->cgroup_unit = steal(unit);
	return 0;
}

/* What the level wants of the caller and the config, as far as it can be had beforehand. */
static int harden(struct instance *instance, struct err *err)
{
	const struct moat_settings *settings = instance->runtime->settings;

	if (instance->container.isolation != ISOLATION_SANDBOX)
		return beside_machine_check(instance, err);
	if (!proc_is_machines_root())
		return err_set(err, 0,
			       "level sandbox needs root of the machine: ids of the container's "
			       "own cannot be "
			       "had otherwise");
	if (!instance->record->cgroup_path)
		return err_set(err, 0,
			       "level sandbox needs a cgroup: without one its limits cannot be "
			       "kept");
	return harden_config(instance->config, settings, err);
}

static int give_ids(struct instance *instance, struct err *err)
{
	const struct moat_settings *settings = instance->runtime->settings;

	if (instance->container.isolation != ISOLATION_SANDBOX ||
	    !harden_needs_ids(instance->config))
		return 0;
	if (ids_allocate(settings->sandbox, instance->state_path, &instance->record->id_base, err) <
	    0)
		return -1;
	instance->container.id_base = instance->record->id_base;
	harden_map_ids(instance->config, instance->record->id_base);
	return 0;
}

static int write_pid_file(const char *path, pid_t pid, struct err *err)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", (int)pid);

	if (file_replace(AT_FDCWD, path, text, (size_t)n, 0644, err) < 0)
		return err_wrap(err, "write the pid file");
	return 0;
}

/* From here on the id is ours, and destroying the instance undoes everything. */
static int create_owned(struct instance *instance, const char *text, size_t size,
			const char *pid_file, const struct create_options *options,
			const struct image_options *image, struct err *err)
{
	struct container *container = &instance->container;
	struct create_options given = *options;

	if (!image && activation_pass(instance->config->process, &given, err) < 0)
		return -1;
	if (give_ids(instance, err) < 0 || state_write(instance, err) < 0)
		return -1;
	if (file_replace(instance->state_fd, "config.json", text, size, 0600, err) < 0)
		return err_wrap(err, "keep the state of container %s", container->id);
	if (image ? instance->engine->restore(container, &given, image, err) < 0
		  : instance->engine->create(container, &given, err) < 0)
		return -1;
	instance->record->pid = container->pid;
	if (proc_start_time(container->pid, &container->start_time, NULL) < 0)
		return err_set(err, errno, "look at the container's process %d",
			       (int)container->pid);
	instance->record->start_time = container->start_time;
	if (beside_machine_hooks(instance, err) < 0)
		return -1;
	instance->record->creating = false;
	instance->record->started = image != NULL;
	if (state_write(instance, err) < 0)
		return -1;
	return pid_file ? write_pid_file(pid_file, container->pid, err) : 0;
}

/*
 * Descriptors that nobody uses: where it was the lack of them that made a creation fail, these are
 * what taking it back can open.
 */
struct spare {
	int fds[SPARE_FDS];
};

static void spare_close(struct spare *spare)
{
	for (size_t i = 0; i < ARRAY_LEN(spare->fds); i++)
		fd_replace(&spare->fds[i], -1);
}

static int spare_open(struct spare *spare, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(spare->fds); i++) {
		spare->fds[i] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
		if (spare->fds[i] < 0) {
			err_set(err, errno, "get the descriptors that a creation needs");
			return err_hint(err, "raise the limit of open files (ulimit -n)");
		}
	}
	return 0;
}

static void undo(struct instance *instance, struct spare *spare)
{
	struct err err = { 0 };

	spare_close(spare);
	if (instance_delete(instance, true, &err) < 0)
		log_warning("clean up after the failed creation of %s: %s", instance->container.id,
			    err.text);
}

static struct instance *make(const struct runtime *runtime, const char *id, const char *bundle,
			     const char *pid_file, const struct create_options *options,
			     const struct image_options *image, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance = NULL;
	_cleanup_(spare_close) struct spare spare = { { -1, -1, -1, -1, -1, -1 } };
	_cleanup_free_ char *text = NULL, *path = NULL;
	size_t size;

	if (id_check(id, err) < 0)
		return NULL;
	path = realpath(bundle, NULL);
	if (!path) {
		err_set(err, errno, "find the bundle %s", bundle);
		err_hint(err, "--bundle names the directory with config.json");
		return NULL;
	}
	instance = instance_new(runtime, id);
	instance->record = xcalloc(1, sizeof(*instance->record));
	if (read_bundle(instance, path, options->config, &text, &size, err) < 0 ||
	    check_bundle(instance, path, options, err) < 0 ||
	    isolation_choose(runtime, instance->config, &instance->container.isolation, err) < 0 ||
	    unit_annotations_check(runtime, instance->config, err) < 0 ||
	    crun_annotations_check(instance->config, runtime->settings->annotations,
				   runtime->settings->n_annotations,
				   instance->container.isolation == ISOLATION_PLAIN, err) < 0 ||
	    choose_cgroup(instance, err) < 0 || harden(instance, err) < 0)
		return NULL;
	tell_of_image(instance);
	crun_annotations_apply(instance->config);
	fill_record(instance, path);
	if (spare_open(&spare, err) < 0)
		return NULL;
	if (state_create(runtime, instance, id, err) < 0) {
		spare_close(&spare);
		if (instance->state_made)
			state_remove(runtime, instance, NULL);
		return NULL;
	}
	instance_connect(instance);
	if ((image && image_offered(instance, "restore", err) < 0) ||
	    create_owned(instance, text, size, pid_file, options, image, err) < 0) {
		undo(instance, &spare);
		return NULL;
	}
	return steal(instance);
}

struct instance *instance_create(const struct runtime *runtime, const char *id, const char *bundle,
				 const char *pid_file, const struct create_options *options,
				 struct err *err)
{
	return make(runtime, id, bundle, pid_file, options, NULL, err);
}

struct instance *instance_restore(const struct runtime *runtime, const char *id, const char *bundle,
				  const char *pid_file, const struct create_options *options,
				  struct image_options *image, struct err *err)
{
	struct instance *instance = NULL;

	if (image_open(image, false, err) == 0)
		instance = make(runtime, id, bundle, pid_file, options, image, err);
	image_close(image);
	return instance;
}
