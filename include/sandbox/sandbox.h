/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The namespace engine: makes a container out of namespaces, mounts and a cgroup, as config.json
 * says. Used by the plain level on the host and by the agent inside a guest, so nothing here knows
 * the runtime's state directory, nor assumes a host.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

struct hardening;
struct oci_config;
struct oci_process;

struct sandbox_params {
	const char *id;
	const struct oci_config *config;
	const char *bundle;	 /* where a relative root.path starts */
	const char *cgroup_path; /* cgroup_create() made it; NULL: stay where we are */
	int stdio[3];		 /* become 0, 1, 2 of the workload; -1: /dev/null */
	int preserve_fds;	 /* descriptors 3 .. 2+N of the caller reach the workload */
	int console_socket;	 /* connected Unix socket for the terminal's master; -1 */
	int pid_fd;		 /* file that gets "PID START_TIME" before init goes on; 0: none */
	const char *seccomp_cache;	   /* seccomp_filter_compile()'s cache; NULL: none */
	const struct hardening *hardening; /* what level sandbox adds; NULL: nothing */
	int no_pivot;
	int no_new_keyring;
	/*
	 * Hooks prestart to startContainer are run where config has them; this makes the state that
	 * they find on standard input (to be freed). It is called in the caller's process and in
	 * init. NULL: a config with hooks is refused.
	 * @pid: init's, as who runs the hook sees it.
	 */
	char *(*describe)(const void *context, pid_t pid, const char *status);
	const void *describe_context;
	/*
	 * A socket that init waits on before it runs the user's program, owned by the caller.
	 * start_listens: a listening one (each `moat start` connects to it), else a connected one.
	 * See sandbox_start() for what is said over it.
	 */
	int start_socket;
	bool start_listens;
	int start_peer; /* the caller's end of a connected one, for init to close; 0: none */
};

/*
 * sandbox_create() - make the container; its init waits for sandbox_start().
 * @pid: init's pid in the caller's pid namespace; a child of the caller, to be reaped by it.
 *
 * All the reasons why init cannot come to be are known when this returns (a program that is
 * missing or not executable included). Returns 0, or -1 with err set and no process left.
 */
int sandbox_create(const struct sandbox_params *params, pid_t *pid, struct err *err);

/*
 * sandbox_start() - let a waiting init run the user's program.
 * @socket: connected to init's start socket.
 * @start_time: init's, as proc_start_time() tells it.
 *
 * Returns 0 once execve(2) has succeeded; -1 with err set to what init met.
 */
int sandbox_start(int socket, pid_t init, uint64_t start_time, struct err *err);

/*
 * sandbox_check_process() - what of a process is used later or not at all, and has to be well
 * written nevertheless: execCPUAffinity. Returns 0, or -1 with err set.
 */
int sandbox_check_process(const struct oci_process *process, struct err *err);

/*
 * sandbox_warn() - log what of a process will be left out, for where the engine itself runs in a
 * guest, whose log nobody reads: names of capabilities that are none.
 */
void sandbox_warn(const struct oci_process *process);

/* A further process in a container. */
struct sandbox_exec_params {
	const char *id;
	pid_t init;			   /* the container's, alive */
	const struct oci_config *config;   /* the container's: seccomp, personality */
	const struct oci_process *process; /* what to run */
	const char *user;		   /* USER[:GROUP] as known inside; NULL: process's */
	const char *cgroup_path;	   /* NULL: stay where we are */
	const char *resctrl;		   /* where that is mounted, if config has intelRdt */
	int stdio[3];			   /* as in sandbox_params, as are those that follow */
	int preserve_fds;
	int console_socket;
	const char *seccomp_cache;
	const struct hardening *hardening;
	int no_new_keyring;
	int signals_fd; /* as in exec_options */
	char *(*describe)(const void *context, pid_t pid, const char *status);
	const void *describe_context;
};

/*
 * sandbox_exec() - run a process in a container, in all the namespaces of its init.
 * @pid: its pid in the caller's pid namespace; a child of the caller, to be reaped by it.
 *
 * Returns 0 once execve(2) has succeeded, or -1 with err set and no process left.
 */
int sandbox_exec(const struct sandbox_exec_params *params, pid_t *pid, struct err *err);

/*
 * The same in two steps. On the way to its program the process is among those of the container, who
 * may be allowed to stop it for as long as they like: a caller with other duties waits elsewhere.
 *
 * sandbox_exec_begin() - make the process, and let it go its way. Of params, only id, config and
 * the functions are needed any longer. Returns what the others take, or NULL with err set and no
 * process left.
 * sandbox_exec_fd() - readable when the process has got to its program, or ended; stays ours.
 * sandbox_exec_end() - how it went, as sandbox_exec() returns it. Waits for it.
 * @reaped: the process has ended, and the caller knows how.
 * sandbox_exec_forget() - in the place of that, end the process.
 */
struct sandbox_exec;
struct sandbox_exec *sandbox_exec_begin(const struct sandbox_exec_params *params, pid_t *pid,
					struct err *err);
int sandbox_exec_fd(const struct sandbox_exec *begun);
int sandbox_exec_end(struct sandbox_exec *begun, bool reaped, struct err *err);
void sandbox_exec_forget(struct sandbox_exec *begun, bool reaped);
