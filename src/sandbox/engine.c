/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The level "plain": containers of the namespace engine on this host, for the lifecycle in
 * runtime/. In the state directory: start.sock, on which init waits for `moat start`; cgroup,
 * empty, once the container's cgroup is its own; init.pid where there is no cgroup to find a
 * half-made container by.
 */
#include "engine/engine.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "cgroup/owned.h"
#include "cgroup/resctrl.h"
#include "oci/config.h"
#include "oci/settings.h"
#include "oci/state.h"
#include "sandbox/control.h"
#include "sandbox/harden.h"
#include "sandbox/image.h"
#include "sandbox/sandbox.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define START_SOCKET "start.sock"
#define PID_FILE     "init.pid"

#define KILL_WAIT_MS 10000
#define KILL_LOOK_MS 20

/* What create() keeps for a start() by the same process; one container a process. */
static int kept_socket = -1;

/* A path of any length fits into a socket's address through the directory's descriptor. */
static void start_address(const struct container *container, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(address->sun_path, sizeof(address->sun_path), "/proc/self/fd/%d/" START_SOCKET,
		 container->state_fd);
}

static int listen_start(const struct container *container, struct err *err)
{
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;

	start_address(container, &address);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(fd, 4) < 0)
		return err_set(err, errno, "make %s/" START_SOCKET, container->state_path);
	return fd_steal(&fd);
}

static int connect_start(const struct container *container, struct err *err)
{
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;

	start_address(container, &address);
	if (fd < 0)
		return err_set(err, errno, "make a socket");
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd_steal(&fd);
	if (errno == ENOENT || errno == ECONNREFUSED)
		return err_set(err, ERR_NOT_RUNNING,
			       "start container %s: its init waits no longer: it was started "
			       "before, or has ended",
			       container->id);
	return err_set(err, errno, "connect to %s/" START_SOCKET, container->state_path);
}

char *plain_describe(const void *context, pid_t pid, const char *status)
{
	const struct container *container = context;
	struct oci_state state = {
		.oci_version = container->config->oci_version,
		.id = (char *)container->id,
		.status = (char *)status,
		.pid = pid,
		.has_pid = true,
		.bundle = (char *)container->bundle,
		.annotations = container->config->annotations,
		.n_annotations = container->config->n_annotations,
	};

	return oci_state_write(&state, NULL);
}

static int make_start_channel(const struct container *container, bool foreground,
			      struct sandbox_params *params, struct err *err)
{
	int pair[2];

	if (!foreground) {
		params->start_listens = true;
		params->start_socket = listen_start(container, err);
		return params->start_socket < 0 ? -1 : 0;
	}
	if (fd_socketpair(SOCK_STREAM, pair) < 0)
		return err_set(err, errno, "make a socket pair");
	params->start_socket = pair[1];
	params->start_peer = kept_socket = pair[0];
	return 0;
}

static int create_init(struct container *container, const struct create_options *options,
		       struct err *err)
{
	_cleanup_free_ char *cache = xasprintf("%s/seccomp", container->settings->cache);
	_cleanup_(hardening_free) struct hardening hardening = { 0 };
	_cleanup_fd_ int start_socket = -1, pid_fd = -1;
	struct sandbox_params params = {
		.id = container->id,
		.config = container->config,
		.bundle = container->bundle,
		.cgroup_path = container->cgroup_path,
		.stdio = { 0, 1, 2 },
		.preserve_fds = options->preserve_fds,
		.console_socket = options->console_socket,
		.seccomp_cache = cache,
		.no_pivot = options->no_pivot,
		.describe = plain_describe,
		.describe_context = container,
		.no_new_keyring = options->no_new_keyring,
	};

	if (container->isolation == ISOLATION_SANDBOX) {
		hardening_init(&hardening, container->config, container->settings,
			       container->id_base);
		params.hardening = &hardening;
	}
	if (params.hardening || (container->config->linux_ && container->config->linux_->seccomp))
		mkdir(container->settings->cache,
		      0755); /* a cache that is missing costs time only */
	if (make_start_channel(container, options->foreground, &params, err) < 0)
		return -1;
	start_socket = params.start_socket;
	if (!container->cgroup_path) {
		pid_fd = openat(container->state_fd, PID_FILE,
				O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (pid_fd < 0)
			return err_set(err, errno, "make %s/" PID_FILE, container->state_path);
	}
	params.pid_fd = pid_fd > 0 ? pid_fd : 0;
	return sandbox_create(&params, &container->pid, err);
}

static void forget_files(const struct container *container)
{
	fd_replace(&kept_socket, -1);
	unlinkat(container->state_fd, START_SOCKET, 0);
	unlinkat(container->state_fd, PID_FILE, 0);
}

/* Ends an init that was made and cannot stay. */
static void abandon_init(struct container *container)
{
	if (container->pid > 0 && kill(container->pid, SIGKILL) == 0)
		proc_wait(container->pid);
	container->pid = 0;
}

/* The groups are made before the process that shall be in them, which then has only to join. */
static int create_in_groups(struct container *container, const struct create_options *options,
			    struct err *err)
{
	const struct oci_linux *config = container->config->linux_;
	const struct oci_intel_rdt *rdt = config ? config->intel_rdt : NULL;
	_cleanup_free_ char *root = rdt ? resctrl_find(container->settings->resctrl, err) : NULL;

	if (!rdt)
		return create_init(container, options, err);
	if (!root || resctrl_prepare(root, rdt, container->id, container->state_fd, err) < 0)
		return -1;
	if (create_init(container, options, err) == 0) {
		if (resctrl_join(root, rdt, container->id, container->pid, err) == 0 &&
		    resctrl_settle(root, rdt, container->id, container->state_fd, err) == 0)
			return 0;
		abandon_init(container);
	}
	resctrl_release(container->state_fd, NULL);
	return -1;
}

static int plain_create(struct container *container, const struct create_options *options,
			struct err *err)
{
	const struct oci_linux *config = container->config->linux_;
	int r;

	if (cgroup_create_owned(container, config ? config->resources : NULL, err) < 0)
		return -1;
	r = create_in_groups(container, options, err);
	cgroup_settle_owned();
	if (r == 0)
		return 0;
	container->pid = 0;
	cgroup_remove_owned(container, true, NULL);
	forget_files(container);
	return -1;
}

static int plain_restore(struct container *container, const struct create_options *options,
			 const struct image_options *image, struct err *err)
{
	const struct oci_linux *config = container->config->linux_;
	int r;

	if (cgroup_create_owned(container, config ? config->resources : NULL, err) < 0)
		return -1;
	r = image_restore(container, options, image, err);
	cgroup_settle_owned();
	if (r == 0)
		return 0;
	container->pid = 0;
	cgroup_remove_owned(container, true, NULL);
	return -1;
}

static int plain_start(struct container *container, struct err *err)
{
	_cleanup_fd_ int fd = fd_steal(&kept_socket);

	if (fd < 0)
		fd = connect_start(container, err);
	if (fd < 0 || sandbox_start(fd, container->pid, container->start_time, err) < 0)
		return -1;
	unlinkat(container->state_fd, START_SOCKET, 0);
	return 0;
}

/* Returns a pidfd of init if it is still the process that create() made, else -1. */
static int open_init(pid_t pid, uint64_t start_time)
{
	_cleanup_fd_ int fd = pid > 0 ? proc_pidfd(pid) : -1;

	/* Checked after opening: the descriptor then stands for the process that was checked. */
	if (fd < 0 || !proc_is_alive(pid, start_time))
		return -1;
	return fd_steal(&fd);
}

static int plain_kill(struct container *container, int signal, bool all, struct err *err)
{
	_cleanup_fd_ int init = -1;

	if (all && container->cgroup_path)
		return cgroup_signal(container->cgroup_path, signal, err);
	init = open_init(container->pid, container->start_time);
	if (init < 0)
		return err_set(err, ERR_NOT_RUNNING, "container %s is not running", container->id);
	if (proc_pidfd_signal(init, signal) < 0)
		return err_set(err, errno, "send signal %d to container %s", signal, container->id);
	if (signal == SIGKILL && container->cgroup_path)
		cgroup_let_die(container->cgroup_path);
	return 0;
}

/* Init of a creation that was cut short is only in the file. */
static void read_recorded_init(const struct container *container, pid_t *pid, uint64_t *start_time)
{
	_cleanup_free_ char *text = file_read(container->state_fd, PID_FILE, 64, NULL, NULL);
	char *space = text ? strchr(text, ' ') : NULL;
	uint64_t number;

	if (!space)
		return;
	*space = '\0';
	if (str_to_u64(text, INT32_MAX, &number) == 0 &&
	    str_to_u64(space + 1, UINT64_MAX, start_time) == 0)
		*pid = (pid_t)number;
}

/* It may only wait for others to be reaped, who have ended, too: nobody has to wait for that. */
static bool has_ended(const struct container *container, pid_t pid, uint64_t start_time)
{
	enum proc_life life = proc_look(pid, start_time);

	return life == PROC_GONE || (life == PROC_ENDING && container->cgroup_path &&
				     cgroup_is_empty(container->cgroup_path));
}

static int kill_init(const struct container *container, struct err *err)
{
	_cleanup_fd_ int init = -1;
	pid_t pid = container->pid;
	uint64_t start_time = container->start_time;

	if (!container->cgroup_path && pid <= 0)
		read_recorded_init(container, &pid, &start_time);
	init = open_init(pid, start_time);
	if (init < 0)
		return 0;
	if (proc_pidfd_signal(init, SIGKILL) < 0 && errno != ESRCH)
		return err_set(err, errno, "kill the init of container %s", container->id);
	if (container->cgroup_path)
		cgroup_let_die(container->cgroup_path);
	for (int waited = 0; waited < KILL_WAIT_MS; waited += KILL_LOOK_MS) {
		struct pollfd ended = { .fd = init, .events = POLLIN };

		if (poll(&ended, 1, KILL_LOOK_MS) != 0 || has_ended(container, pid, start_time))
			return 0;
	}
	return err_set(err, 0,
		       "the init of container %s (pid %d) does not end although it was killed: it "
		       "hangs in the kernel",
		       container->id, (int)pid);
}

static int plain_destroy(struct container *container, struct err *err)
{
	if (container->pid <= 0)
		image_helper_wait(container);
	if (kill_init(container, err) < 0 ||
	    cgroup_remove_owned(container, container->pid > 0, err) < 0 ||
	    resctrl_release(container->state_fd, err) < 0)
		return -1;
	forget_files(container);
	return 0;
}

const struct engine_ops plain_engine = {
	.name = "plain",
	.create = plain_create,
	.start = plain_start,
	.kill = plain_kill,
	.exec = plain_exec,
	.pause = plain_pause,
	.resume = plain_resume,
	.update = plain_update,
	.processes = plain_processes,
	.stats = plain_stats,
	.oom_watch = plain_oom_watch,
	.checkpoint = plain_checkpoint,
	.restore = plain_restore,
	.destroy = plain_destroy,
};
