/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat run: create, start, wait and delete, with signals passed on. */
#include "cli/cli.h"

#include "base/log.h"
#include "base/proc.h"
#include "cli/console.h"
#include "oci/config.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

static const char *bundle = ".", *pid_file, *console_path;
static struct create_options create_options = { .console_socket = -1 };
static bool detach, keep, no_pivot, no_new_keyring, no_subreaper;

static const struct cli_option options[] = {
	{ "bundle", 'b', OPTION_STRING, &bundle, "DIR",
	  "the directory with config.json (the current one)" },
	{ "detach", 'd', OPTION_FLAG, &detach, NULL, "leave it running and return" },
	{ "console-socket", 0, OPTION_STRING, &console_path, "PATH",
	  "Unix socket that receives the terminal" },
	{ "pid-file", 0, OPTION_STRING, &pid_file, "FILE", "write the container's pid to FILE" },
	{ "keep", 0, OPTION_FLAG, &keep, NULL, "do not delete the container when it has ended" },
	{ "no-subreaper", 0, OPTION_FLAG, &no_subreaper, NULL,
	  "leave reaping the container's orphans to others" },
	{ "no-pivot", 0, OPTION_FLAG, &no_pivot, NULL,
	  "enter the root file system without pivot_root (on a ramdisk)" },
	{ "no-new-keyring", 0, OPTION_FLAG, &no_new_keyring, NULL,
	  "leave the session keyring as it is" },
	{ "preserve-fds", 0, OPTION_NUMBER, &create_options.preserve_fds, "N",
	  "pass N more descriptors, from 3 on" },
	{ 0 },
};

/* A run in the foreground. */
struct run {
	struct instance *instance;
	struct loop loop;
	struct console console;
	struct source signals;
	bool terminal;
	int status; /* the workload's, -1 while it runs */
};

static void reap(struct run *run)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == run->instance->container.pid)
			run->status = proc_status_code(status);
	if (run->status >= 0)
		loop_quit(&run->loop);
}

static int signal_came(struct source *source, uint32_t events, struct err *err)
{
	struct run *run = source->data;
	struct signalfd_siginfo info;
	struct err ignored = { 0 };

	if (read(source->fd, &info, sizeof(info)) != sizeof(info))
		return 0;
	if (info.ssi_signo == SIGCHLD)
		reap(run);
	else if (info.ssi_signo == SIGWINCH && run->terminal)
		console_resize(&run->console);
	else if (instance_kill(run->instance, (int)info.ssi_signo, false, &ignored) < 0)
		log_debug("pass on signal %u: %s", info.ssi_signo, ignored.text);
	return 0;
}

/* Signals wait in a descriptor from before the container exists, so that none is lost. */
static int watch_signals(struct run *run, struct err *err)
{
	sigset_t all;

	sigfillset(&all);
	for (int fault = SIGILL; fault <= SIGSEGV; fault++)
		if (fault == SIGILL || fault == SIGBUS || fault == SIGFPE || fault == SIGSEGV)
			sigdelset(&all, fault);
	sigdelset(&all, SIGTTIN);
	sigdelset(&all, SIGTTOU);
	sigdelset(&all, SIGURG);
	sigdelset(&all, SIGPIPE);
	if (sigprocmask(SIG_BLOCK, &all, NULL) < 0)
		return err_set(err, errno, "block signals");
	run->signals.fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
	run->signals.ready = signal_came;
	run->signals.data = run;
	if (run->signals.fd < 0)
		return err_set(err, errno, "open a signal descriptor");
	return loop_watch(&run->loop, &run->signals, EPOLLIN, err);
}

static int wait_for_end(struct run *run, struct err *err)
{
	if (run->terminal && console_attach(&run->console, &run->loop, err) < 0)
		return -1;
	if (instance_start(run->instance, err) < 0)
		return -1;
	return loop_run(&run->loop, err);
}

static int run_foreground(struct run *run, struct err *err)
{
	struct err cleanup = { 0 };
	int r = wait_for_end(run, err);

	if (run->terminal)
		console_close(&run->console);
	if ((!keep || r < 0) && instance_delete(run->instance, true, &cleanup) < 0)
		log_warning("%s", cleanup.text);
	return r < 0 ? -1 : run->status;
}

static int run_detached(struct instance *instance, struct err *err)
{
	struct err cleanup = { 0 };

	if (instance_start(instance, err) == 0)
		return 0;
	if (instance_delete(instance, true, &cleanup) < 0)
		log_warning("%s", cleanup.text);
	return -1;
}

static int run(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance = NULL;
	struct run foreground = { .status = -1 };

	create_options.no_pivot = no_pivot;
	create_options.no_new_keyring = no_new_keyring;
	create_options.debug = globals.debug;
	create_options.foreground = !detach;
	if (!detach) {
		if (!no_subreaper)
			prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
		if (loop_init(&foreground.loop, err) < 0 || watch_signals(&foreground, err) < 0)
			return -1;
	}
	if (console_path && console_connect(console_path, &create_options.console_socket, err) < 0)
		return -1;
	if (!console_path && !detach &&
	    console_pair(&foreground.console, &create_options.console_socket, err) < 0)
		return -1;
	instance = instance_create(runtime, argv[0], bundle, pid_file, &create_options, err);
	if (!instance)
		return -1;
	if (detach)
		return run_detached(instance, err);
	foreground.instance = instance;
	foreground.terminal = instance->config->process->terminal && !console_path;
	return run_foreground(&foreground, err);
}

const struct cli_command run_command = {
	.name = "run",
	.arguments = "ID",
	.summary = "create and start a container, wait for its end and delete it",
	.details = "The exit status is the program's; 128 and the signal's number where a signal "
		   "ended "
		   "it;\n127 where the program is not there, 126 where it cannot be executed.",
	.options = options,
	.arguments_min = 1,
	.arguments_max = 1,
	.run = run,
};
