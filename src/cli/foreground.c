/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A command that stays while a process of a container runs. */
#include "cli/foreground.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/proc.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

/* These would loop, come from the kernel for our own faults, or mean only us. */
static const int kept_signals[] = { SIGILL,  SIGBUS,  SIGFPE, SIGSEGV,
				    SIGTTIN, SIGTTOU, SIGURG, SIGPIPE };

static void reap(struct foreground *foreground)
{
	pid_t pid;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (pid == foreground->pid) {
			foreground->status = proc_status_code(status);
			foreground->killed = WIFSIGNALED(status);
		}
	if (foreground->status >= 0)
		loop_quit(&foreground->loop);
}

static int signal_came(struct source *source, uint32_t events, struct err *err)
{
	struct foreground *foreground = source->data;
	struct signalfd_siginfo info;
	struct err ignored = { 0 };

	if (read(source->fd, &info, sizeof(info)) != sizeof(info))
		return 0;
	if (info.ssi_signo == SIGCHLD)
		reap(foreground);
	else if (info.ssi_signo == SIGWINCH && foreground->terminal)
		console_resize(&foreground->console);
	else if (foreground->kill(foreground, (int)info.ssi_signo, &ignored) < 0)
		log_debug("pass on signal %u: %s", info.ssi_signo, ignored.text);
	return 0;
}

int foreground_prepare(struct foreground *foreground, struct err *err)
{
	sigset_t all;

	sigfillset(&all);
	for (size_t i = 0; i < ARRAY_LEN(kept_signals); i++)
		sigdelset(&all, kept_signals[i]);
	foreground->status = -1;
	if (loop_init(&foreground->loop, err) < 0)
		return -1;
	if (sigprocmask(SIG_BLOCK, &all, NULL) < 0)
		return err_set(err, errno, "block signals");
	foreground->signals = (struct source){ .fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK),
					       .ready = signal_came,
					       .data = foreground };
	if (foreground->signals.fd < 0)
		return err_set(err, errno, "open a signal descriptor");
	return loop_watch(&foreground->loop, &foreground->signals, EPOLLIN, err);
}

int foreground_attach(struct foreground *foreground, struct err *err)
{
	if (!foreground->terminal)
		return 0;
	return console_attach(&foreground->console, &foreground->loop, err);
}

int foreground_wait(struct foreground *foreground, struct err *err)
{
	reap(foreground); /* it may have ended before its pid was known here */
	if (loop_run(&foreground->loop, err) < 0)
		return -1;
	return foreground->status;
}

void foreground_close(struct foreground *foreground)
{
	console_close(&foreground->console);
}
