/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Containers: config, cgroup, streams and the namespace engine put together. */
#include "guest/container.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/path.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "guest/disk.h"
#include "oci/state.h"
#include "sandbox/sandbox.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define ID_MAX 128

static int check_id(const struct agent *agent, const char *id, struct err *err)
{
	bool valid = *id && *id != '.' && strlen(id) <= ID_MAX;

	for (const char *p = id; *p && valid; p++)
		valid = isalnum((unsigned char)*p) || strchr("_+-.", *p);
	if (!valid)
		return err_set(err, EINVAL, "the request gives no usable id");
	if (container_find(agent, id, NULL))
		return err_set(err, EEXIST, "create container %s", id);
	return 0;
}

/* "net/ipv4/conf/eth0/...", of an interface that is not there before the start. */
static bool is_of_interface(const char *path)
{
	char name[16];

	return sscanf(path, "net/%*[^/]/%*[^/]/%15[^/]/", name) == 1 && !str_eq(name, "all") &&
	       !str_eq(name, "default") && !str_eq(name, "lo") &&
	       (strstr(path, "/conf/") || strstr(path, "/neigh/"));
}

/*
 * The guest's network is the container's, so these are set for all of it.
 * @of_interfaces: those of interfaces, or those that are not.
 */
static int set_network_sysctl(const struct guest_config *config, bool of_interfaces,
			      struct err *err)
{
	_cleanup_fd_ int dir = -1;

	if (!config->n_network_sysctl)
		return 0;
	dir = open("/proc/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < config->n_network_sysctl; i++) {
		const struct oci_pair *sysctl = config->network_sysctl[i];
		_cleanup_free_ char *path = xstrdup(sysctl->key);

		/* "net.ipv4.conf.eth0/1.forwarding", or the same with both separators exchanged */
		if (path[3] == '.')
			for (char *p = path; *p; p++)
				*p = *p == '.' ? '/' : *p == '/' ? '.' : *p;
		if (!path_is_clean(path))
			return err_set(err, EINVAL, "linux.sysctl: '%s' is not a name of one",
				       sysctl->key);
		if (is_of_interface(path) != of_interfaces)
			continue;
		if (file_write(dir, path, sysctl->value, err) < 0)
			return err_wrap(err, "set sysctl %s", sysctl->key);
	}
	return 0;
}

/* The state that hooks find on their standard input. */
static char *describe(const void *context, pid_t pid, const char *status)
{
	const struct container *container = context;
	const struct oci_config *config = &container->config.config;
	struct oci_state state = {
		.oci_version = config->oci_version,
		.id = container->id,
		.status = (char *)status,
		.pid = pid,
		.has_pid = true,
		.bundle = container->bundle,
		.annotations = config->annotations,
		.n_annotations = config->n_annotations,
	};

	return oci_state_write(&state, NULL);
}

/* Run the namespace engine. The streams are prepared. */
static int make(struct container *container, struct err *err)
{
	struct process *init = container->init;
	struct sandbox_params params = {
		.id = container->id,
		.config = &container->config.config,
		.bundle = "/",
		.cgroup_path = container->cgroup,
		.console_socket = init->streams.console[1],
		.describe = describe,
		.describe_context = container,
	};
	_cleanup_fd_ int socket = -1;
	int pair[2];

	for (int i = 0; i < 3; i++)
		params.stdio[i] = init->streams.workload[i];
	if (fd_socketpair(SOCK_STREAM, pair) < 0)
		return err_set(err, errno, "make a socket pair");
	container->start_socket = pair[0];
	socket = pair[1];
	params.start_socket = socket;
	params.start_peer = container->start_socket;
	return sandbox_create(&params, &init->pid, err);
}

static int make_cgroup(struct container *container, struct err *err)
{
	const struct oci_linux_resources *resources = container->config.linux_.resources;
	const char **first = &container->agent->first_cgroup;
	_cleanup_free_ char *path = NULL;

	if (*first) {
		container->cgroup = xstrdup(*first);
		*first = NULL;
		return cgroup_adopt(container->cgroup, resources, err);
	}
	path = xasprintf("/%s", container->id);
	if (cgroup_create(path, resources, err) < 0)
		return -1;
	container->cgroup = steal(path);
	return 0;
}

static int build(struct container *container, const Moat__Agent__Stdio *stdio, struct err *err)
{
	const struct guest_config *config = &container->config;
	struct streams *streams = &container->init->streams;
	struct agent *agent = container->agent;

	if (!config->config.process)
		return err_set(err, EINVAL, "config.json: process is missing");
	if (set_network_sysctl(config, false, err) < 0)
		return -1;
	/* First, so that the host answers while the rest is being done. */
	if (streams_prepare(streams, agent, stdio, err) < 0)
		return -1;
	if (agent->use_cgroups && make_cgroup(container, err) < 0)
		return -1;
	if (make(container, err) < 0)
		return -1;
	return streams_attach(streams, agent, process_output_ended, err);
}

static void release(struct container *container)
{
	struct err err;

	while (container->others) {
		struct process *process = container->others;

		container->others = process->next;
		process_free(process);
	}
	process_free(container->init);
	memory_events_close(&container->memory_events);
	fd_replace(&container->start_socket, -1);
	if (container->cgroup && cgroup_remove(container->cgroup, &err) < 0)
		log_warning("%s", err.text);
	guest_config_release(&container->config);
	free(container->cgroup);
	free(container->bundle);
	free(container->id);
	free(container);
}

struct container *container_create(struct agent *agent,
				   const Moat__Agent__CreateContainerRequest *request,
				   struct err *err)
{
	struct container *container;

	if (check_id(agent, request->id, err) < 0)
		return NULL;
	container = xcalloc(1, sizeof(*container));
	*container = (struct container){
		.agent = agent,
		.id = xstrdup(request->id),
		.bundle = xstrdup(request->bundle),
		.start_socket = -1,
		.init = process_new(agent, ""),
	};
	if (guest_config_read(&container->config, request, agent->machine->trees, DISK_BLOCKS,
			      err) < 0 ||
	    (request->root_is_disk &&
	     disk_mount_root(container->config.config.root->readonly, err) < 0) ||
	    build(container, request->stdio, err) < 0) {
		release(container);
		return NULL;
	}
	container->next = agent->containers;
	agent->containers = container;
	return container;
}

struct container *container_find(const struct agent *agent, const char *id, struct err *err)
{
	for (struct container *c = agent->containers; c; c = c->next)
		if (str_eq(c->id, id))
			return c;
	err_set(err, ERR_NO_CONTAINER, "no container %s in the guest", id);
	return NULL;
}

struct process *container_process(const struct agent *agent, const char *id, const char *exec_id,
				  struct err *err)
{
	struct container *container = container_find(agent, id, err);

	if (!container)
		return NULL;
	if (!*exec_id)
		return container->init;
	for (struct process *p = container->others; p; p = p->next)
		if (str_eq(p->exec_id, exec_id))
			return p;
	err_set(err, ERR_NO_CONTAINER, "no process %s in container %s", exec_id, id);
	return NULL;
}

int container_start(struct container *container, const Moat__Agent__Network *network,
		    struct err *err)
{
	uint64_t start_time = 0;
	int r;

	if (container->started || container->init->exited)
		return err_set(err, ERR_NOT_RUNNING,
			       "start container %s: it is not in state created", container->id);
	if (network && container->agent->machine->network(network, err) < 0)
		return err_wrap(err, "make the guest's network");
	if (set_network_sysctl(&container->config, true, err) < 0)
		return -1;
	(void)proc_start_time(container->init->pid, &start_time,
			      NULL); /* reaped by us, and not yet */
	r = sandbox_start(container->start_socket, container->init->pid, start_time, err);
	fd_replace(&container->start_socket, -1);
	container->started = r == 0;
	return r;
}

int container_signal(const struct process *process, int signal, struct err *err)
{
	if (process->exited)
		return err_set(err, ERR_NO_CONTAINER, "the process has ended");
	/* It is our child and was not reaped, so the pid is still its own. */
	if (kill(process->pid, signal) < 0)
		return err_set(err, errno, "send signal %d", signal);
	return 0;
}

int container_signal_all(const struct container *container, int signal, struct err *err)
{
	if (!container->cgroup)
		return container_signal(container->init, signal, err);
	return cgroup_signal(container->cgroup, signal, err);
}

int container_delete(struct container *container, struct err *err)
{
	struct container **link = &container->agent->containers;

	if (!container->init->exited)
		return err_set(err, ERR_NOT_RUNNING, "delete container %s: its process runs",
			       container->id);
	while (*link != container)
		link = &(*link)->next;
	*link = container->next;
	release(container);
	return 0;
}

static bool is_ended(struct process *process, struct container *container, pid_t pid,
		     int wait_status)
{
	if (process->pid != pid || process->exited)
		return false;
	if (process->begun) {
		process->exited = true; /* its pid is nobody's, or another's */
		if (!container_exec_begun(process))
			return true;
	}
	memory_events_tell(&container->memory_events); /* before what follows from it */
	process_exited(process, wait_status,
		       container->cgroup && memory_events_oom_kills(container->cgroup) > 0);
	return true;
}

void container_reaped(const struct agent *agent, pid_t pid, int wait_status)
{
	for (struct container *c = agent->containers; c; c = c->next) {
		if (is_ended(c->init, c, pid, wait_status))
			return;
		for (struct process *p = c->others; p; p = p->next)
			if (is_ended(p, c, pid, wait_status))
				return;
	}
}

void container_free_all(struct agent *agent)
{
	while (agent->containers) {
		struct container *container = agent->containers;

		agent->containers = container->next;
		release(container);
	}
}
