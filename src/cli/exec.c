/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat exec: run a further process in a container. */
#include "cli/creation.h"

#include "base/file.h"
#include "base/proc.h"
#include "base/str.h"
#include "cli/foreground.h"
#include "oci/config.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define PROCESS_MAX (1u << 20) /* bytes of a process file */

static const char *process_path, *cwd, *user, *pid_file, *console_path, *cgroup, *process_label,
	*apparmor, *pidfd_path;
static struct cli_list envs, gids, caps;
static bool tty, detach, no_new_privs, ignore_paused;
static int preserve_fds;

static const struct cli_option options[] = {
	{ "process", 'p', OPTION_STRING, &process_path, "FILE",
	  "take the process from a JSON file, as config.json's process" },
	{ "tty", 't', OPTION_FLAG, &tty, NULL, "give it a terminal" },
	{ "detach", 'd', OPTION_FLAG, &detach, NULL, "leave it running and return" },
	{ "pid-file", 0, OPTION_STRING, &pid_file, "FILE", "write its pid to FILE" },
	{ "console-socket", 0, OPTION_STRING, &console_path, "PATH",
	  "Unix socket that receives the terminal" },
	{ "pidfd-socket", 0, OPTION_STRING, &pidfd_path, "PATH",
	  "Unix socket that receives a pidfd of it" },
	{ "cwd", 0, OPTION_STRING, &cwd, "DIRECTORY", "its working directory, inside" },
	{ "env", 'e', OPTION_LIST, &envs, "NAME=VALUE", "set an environment variable" },
	{ "user", 'u', OPTION_STRING, &user, "USER[:GROUP]",
	  "names or numbers, as the container knows them" },
	{ "additional-gids", 'g', OPTION_LIST, &gids, "GID", "add a supplementary group" },
	{ "cap", 'c', OPTION_LIST, &caps, "CAPABILITY", "add a capability" },
	{ "no-new-privs", 0, OPTION_FLAG, &no_new_privs, NULL, "set no_new_privs" },
	{ "process-label", 0, OPTION_STRING, &process_label, "LABEL", "its SELinux label" },
	{ "apparmor", 0, OPTION_STRING, &apparmor, "PROFILE", "its AppArmor profile" },
	{ "cgroup", 0, OPTION_STRING, &cgroup, "[CONTROLLER:]CGROUP",
	  "a cgroup below the container's" },
	{ "preserve-fds", 0, OPTION_NUMBER, &preserve_fds, "N",
	  "pass N more descriptors, from 3 on" },
	{ "ignore-paused", 0, OPTION_FLAG, &ignore_paused, NULL,
	  "do not refuse a container that is paused" },
	{ 0 },
};

static void replace_string(char **slot, const char *value)
{
	if (!value)
		return;
	free(*slot);
	*slot = xstrdup(value);
}

static void append_string(char ***strings, size_t *count, const char *value)
{
	*strings = xrealloc(*strings, *count + 2, sizeof(char *));
	(*strings)[(*count)++] = xstrdup(value);
	(*strings)[*count] = NULL;
}

/* The container's own process with another command line: what `exec ID COMMAND` runs. */
static struct oci_process *derive_process(struct instance *instance, int argc, char **argv,
					  struct err *err)
{
	_cleanup_free_ char *text = NULL;
	struct oci_process *process;
	size_t size;

	if (instance_config(instance, err) < 0)
		return NULL;
	text = oci_process_write(instance->config->process, &size);
	process = oci_process_parse(text, size, "config.json", err);
	if (!process)
		return NULL;
	for (size_t i = 0; i < process->n_args; i++)
		free(process->args[i]);
	process->n_args = 0;
	for (int i = 0; i < argc; i++)
		append_string(&process->args, &process->n_args, argv[i]);
	process->terminal = tty;
	return process;
}

static void add_capability(struct oci_process *process, const char *name)
{
	struct oci_capabilities *sets = process->capabilities;

	if (!sets)
		sets = process->capabilities = xcalloc(1, sizeof(*sets));
	append_string(&sets->bounding, &sets->n_bounding, name);
	append_string(&sets->effective, &sets->n_effective, name);
	append_string(&sets->permitted, &sets->n_permitted, name);
}

static int add_group(struct oci_user *into, const char *text, struct err *err)
{
	uint64_t gid;

	if (str_to_u64(text, UINT32_MAX - 1, &gid) < 0)
		return err_set(err, 0,
			       "--additional-gids: expected a group's number, found '%.64s'", text);
	into->additional_gids = xrealloc(into->additional_gids, into->n_additional_gids + 1,
					 sizeof(*into->additional_gids));
	into->additional_gids[into->n_additional_gids++] = (uint32_t)gid;
	return 0;
}

static int apply_options(struct oci_process *process, struct err *err)
{
	if (cwd && cwd[0] != '/')
		return err_set(err, 0, "--cwd: expected an absolute path, found '%.64s'", cwd);
	replace_string(&process->cwd, cwd);
	replace_string(&process->apparmor_profile, apparmor);
	replace_string(&process->selinux_label, process_label);
	process->no_new_privileges |= no_new_privs;
	for (size_t i = 0; i < envs.count; i++) {
		if (!strchr(envs.values[i], '='))
			return err_set(err, 0, "--env: expected NAME=VALUE, found '%.64s'",
				       envs.values[i]);
		append_string(&process->env, &process->n_env, envs.values[i]);
	}
	for (size_t i = 0; i < caps.count; i++)
		add_capability(process, caps.values[i]);
	for (size_t i = 0; i < gids.count; i++)
		if (add_group(process->user, gids.values[i], err) < 0)
			return -1;
	return 0;
}

static struct oci_process *read_process(struct err *err)
{
	size_t size;
	_cleanup_free_ char *text = file_read(AT_FDCWD, process_path, PROCESS_MAX, &size, err);

	return text ? oci_process_parse(text, size, process_path, err) : NULL;
}

static struct oci_process *make_process(struct instance *instance, int argc, char **argv,
					struct err *err)
{
	struct oci_process *process;

	if (!process_path && argc == 0)
		return err_set(err, 0, "nothing to run: give a command after the id, or --process"),
		       NULL;
	if (process_path && argc > 0)
		return err_set(err, 0, "give a command or --process, not both"), NULL;
	process = process_path ? read_process(err) : derive_process(instance, argc, argv, err);
	if (process && tty)
		process->terminal = true;
	if (process && apply_options(process, err) < 0) {
		oci_process_free(process);
		return NULL;
	}
	return process;
}

static int pass_on(struct foreground *foreground, int signal, struct err *err)
{
	if (kill(foreground->pid, signal) < 0)
		return err_set(err, errno, "signal process %d", (int)foreground->pid);
	return 0;
}

/* The terminal's size from the start, where nobody has asked for another. */
static void take_size(struct oci_process *process)
{
	struct winsize size;

	if (process->console_size || ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_row ||
	    !size.ws_col)
		return;
	process->console_size = xcalloc(1, sizeof(*process->console_size));
	process->console_size->height = size.ws_row;
	process->console_size->width = size.ws_col;
}

static int open_console(struct foreground *foreground, struct oci_process *process,
			struct exec_options *exec, struct err *err)
{
	exec->console_socket = -1;
	if (!process->terminal && console_path)
		return err_set(err, 0,
			       "--console-socket is given, but the process has no terminal: "
			       "give --tty too");
	if (!process->terminal)
		return 0;
	if (console_path) {
		exec->console_socket = fd_connect("console socket", console_path, err);
		return exec->console_socket < 0 ? -1 : 0;
	}
	if (detach)
		return err_set(err, 0,
			       "a terminal of a process in the background has to go "
			       "somewhere: give --console-socket");
	if (!isatty(STDIN_FILENO))
		return err_set(err, 0,
			       "a terminal is asked for, but standard input is none: leave out "
			       "--tty, or give --console-socket");
	foreground->terminal = true;
	take_size(process);
	return console_pair(&foreground->console, &exec->console_socket, err);
}

static int write_pid(pid_t pid, struct err *err)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", (int)pid);

	if (pid_file && file_replace(AT_FDCWD, pid_file, text, (size_t)n, 0644, err) < 0)
		return err_wrap(err, "write the pid file");
	return 0;
}

/* What is left to do when the process runs. */
static int announce(struct foreground *foreground, int pidfd_socket, struct err *err)
{
	if (pidfd_send(pidfd_socket, foreground->pid, err) < 0 ||
	    write_pid(foreground->pid, err) < 0)
		return -1;
	return detach ? 0 : foreground_attach(foreground, err);
}

/* Nobody would know of it. One that is paused may end only when it is resumed. */
static void take_back(const struct foreground *foreground)
{
	kill(foreground->pid, SIGKILL);
	if (!ignore_paused)
		proc_wait(foreground->pid);
}

static int exec_process(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance =
		instance_load(runtime, argv[0], false, err);
	_cleanup_(oci_process_free_pointer) struct oci_process *process = NULL;
	_cleanup_fd_ int pidfd_socket = -1;
	struct foreground foreground = FOREGROUND_NEW(pass_on);
	struct exec_options exec = { .user = user,
				     .cgroup = cgroup,
				     .preserve_fds = preserve_fds,
				     .ignore_paused = ignore_paused };
	int status;
	bool early;

	if (!instance)
		return -1;
	process = make_process(instance, argc - 1, argv + 1, err);
	if (!process || open_console(&foreground, process, &exec, err) < 0 ||
	    pidfd_connect(pidfd_path, &pidfd_socket, err) < 0)
		return -1;
	exec.process = process;
	/* A machine's monitor does not tell signals of ours from those that end a wait for it. */
	early = !detach && instance->container.isolation != ISOLATION_VM;
	if (early && foreground_prepare(&foreground, err) < 0)
		return -1;
	exec.signals_fd = early ? foreground.signals.fd : 0;
	if (instance_exec(instance, &exec, &foreground.pid, err) < 0)
		return -1;
	if ((!detach && !early && foreground_prepare(&foreground, err) < 0) ||
	    announce(&foreground, pidfd_socket, err) < 0) {
		take_back(&foreground);
		return -1;
	}
	if (detach)
		return 0;
	status = foreground_wait(&foreground, err);
	foreground_close(&foreground);
	return status;
}

const struct cli_command exec_command = {
	.name = "exec",
	.arguments = "ID [COMMAND [ARGUMENT...]]",
	.summary = "run a further process in a running container",
	.details =
		"Options end at ID: what follows is the command. What is not given is as in the\n"
		"container's own process. The exit status is the command's.",
	.options = options,
	.arguments_min = 1,
	.arguments_max = 65536,
	.enters = true,
	.options_first = true,
	.error_status = 255, /* told from the command's own */
	.run = exec_process,
};
