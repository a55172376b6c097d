/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the lifecycle (runtime/) asks of an isolation level. Two engines fill this table: the
 * namespaces of sandbox/ and the microVMs of vm/.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct oci_config;
struct oci_linux_resources;
struct oci_process;
struct moat_processes;
struct moat_stats;
struct moat_settings; /* the operator's file; libocispec */

enum isolation { ISOLATION_PLAIN, ISOLATION_SANDBOX, ISOLATION_VM };

/*
 * A container as every command sees it. The runtime owns it and all in it; an engine fills pid in
 * create() and may keep what later commands need in files of its own in the state directory.
 */
struct container {
	const char *id;
	const char *bundle; /* absolute path of the bundle directory */
	enum isolation isolation;
	const struct oci_config *config;      /* as it was at create */
	const struct moat_settings *settings; /* never NULL: defaults where there is no file */
	const char *state_path;		      /* /run/moat/ID, absolute */
	int state_fd;			      /* the same directory, O_PATH or O_RDONLY */
	const char *cgroup_path;	      /* as cgroup_resolve() gave it; NULL: no cgroup */
	const char *cgroup_unit;	      /* the scope of systemd that it is; NULL: none */
	uint32_t id_base;    /* level sandbox: first of the host's ids that are its own; 0: none */
	pid_t pid;	     /* what the engine (podman, containerd) sees; 0: none yet */
	uint64_t start_time; /* of pid: proc_start_time() */
};

/* How a container is made. */
struct create_options {
	const char *config; /* config.json's name, from the bundle on; NULL: config.json */
	int preserve_fds;   /* descriptors 3 .. 2+N also reach the workload */
	int console_socket; /* connected Unix socket for the terminal's master; -1: none */
	int no_pivot;
	int no_new_keyring;
	int debug;
	/*
	 * The caller will wait for the workload itself (`moat run` in the foreground): start() is
	 * called by the same process, so that an engine may use a descriptor it kept.
	 */
	bool foreground;
};

/* How a further process is run in a container. */
struct exec_options {
	const struct oci_process *process; /* whole: nothing is taken from the container's config */
	const char
		*user; /* "name", "uid", "name:group", "uid:gid" as seen inside; NULL: process's */
	const char *cgroup; /* below the container's own; NULL: in it */
	int preserve_fds;   /* as in create_options */
	int console_socket;
	/*
	 * The caller holds signals back, to pass them on as soon as the process runs, and has this
	 * descriptor of them (signalfd(2)): one that comes before then ends the wait. 0: none.
	 */
	int signals_fd;
	bool ignore_paused; /* do it though the container is paused: it runs when that ends */
};

/* What becomes of the cgroups below a container's own, and of their settings. */
enum image_cgroups {
	IMAGE_CGROUPS_SOFT,
	IMAGE_CGROUPS_FULL,
	IMAGE_CGROUPS_STRICT,
	IMAGE_CGROUPS_IGNORE
};

/* How processes are saved to images, and made from them. */
struct image_options {
	const char *path, *work_path; /* directories: of the images, of the log */
	int fd, work_fd;	      /* the same, open */
	/* Processes with such things are saved and restored; otherwise that is an error. */
	bool tcp_established, ext_unix_sk, shell_job, file_locks;
	bool auto_dedup; /* free what is in older images as well */
	bool lazy_pages; /* memory is fetched when it is used */
	enum image_cgroups cgroups;
	uint32_t empty_namespaces; /* CLONE_NEW*: what is in them is left out */
	/* Of a checkpoint only. */
	const char *parent_path; /* an earlier pre-dump, from path on; NULL: none */
	bool pre_dump;		 /* only memory: the container goes on */
	bool leave_running;
	bool tcp_skip_in_flight, link_remap;
	int status_fd;		 /* gets a NUL once memory can be fetched; -1: none */
	const char *page_server; /* address of who takes the memory; NULL: it goes to the images */
	int page_port;
	/* Of a restore only; NULL: as it was. */
	const char *lsm_profile, *lsm_mount_context;
};

struct engine_ops {
	const char *name;
	/*
	 * Make everything up to, not including, the user's program: processes, cgroup, root file
	 * system. Standard streams 0, 1 and 2 of the caller become the workload's, unless the
	 * config asks for a terminal. Fills container->pid with a child of the caller. On failure
	 * nothing is left behind.
	 */
	int (*create)(struct container *container, const struct create_options *options,
		      struct err *err);
	/* Run the user's program. A program that cannot be executed is an error here. */
	int (*start)(struct container *container, struct err *err);
	/* Send a signal to the workload's first process, or to all its processes. */
	int (*kill)(struct container *container, int signal, bool all, struct err *err);
	/*
	 * Run a further process. Its standard streams are the caller's, as with create(). *pid is
	 * a child of the caller that ends as the process does: the process itself, or one that
	 * stands for it and passes signals on. A program that cannot be executed is an error here.
	 */
	int (*exec)(struct container *container, const struct exec_options *options, pid_t *pid,
		    struct err *err);
	/* Stop all processes, and let them go on. Nothing of the container runs in between. */
	int (*pause)(struct container *container, struct err *err);
	int (*resume)(struct container *container, struct err *err);
	/* Change limits: those that resources names, the others stay. */
	int (*update)(struct container *container, const struct oci_linux_resources *resources,
		      struct err *err);
	/* What it has used so far: for moat_stats_free(), or NULL with err set. */
	struct moat_stats *(*stats)(struct container *container, struct err *err);
	/*
	 * A descriptor that becomes readable when memory runs out; see cgroup_oom_watch(). At level
	 * vm what is read from it is moat_memory_stats.oom_kills, a uint64_t.
	 */
	int (*oom_watch)(struct container *container, struct err *err);
	/* The pids of all its processes as the host sees them; *pids is to be freed. */
	int (*processes)(struct container *container, pid_t **pids, size_t *count, struct err *err);
	/*
	 * Its processes as they see themselves, for moat_processes_free(), or NULL with err set.
	 * NULL: the host's ps(1) can tell more of those of processes().
	 */
	struct moat_processes *(*describe)(struct container *container, struct err *err);
	/*
	 * Save the processes to images. They are gone afterwards, unless the options say otherwise;
	 * on failure they go on as before. NULL where a level cannot.
	 */
	int (*checkpoint)(struct container *container, const struct image_options *image,
			  struct err *err);
	/* As create() and start(), but the processes are those of an image. */
	int (*restore)(struct container *container, const struct create_options *options,
		       const struct image_options *image, struct err *err);
	/*
	 * Release what the engine holds: processes that are left (killed), the cgroup, files in
	 * the state directory. Works in every state, after any crash, and more than once.
	 */
	int (*destroy)(struct container *container, struct err *err);
};

extern const struct engine_ops plain_engine; /* sandbox/ */
extern const struct engine_ops vm_engine;    /* vm/ */
