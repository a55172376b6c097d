/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A stand-in: it passes on signals and sizes of its terminal, and waits. It holds none of the
 * process's streams, which are the vmm's, but for a terminal, whose size it is told of as the
 * leader of the session (tty_ioctl(4)).
 */
#include "vm/standin.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/proc.h"
#include "cgroup/cgroup.h"
#include "vm/control.h"
#include "vm/jail.h"
#include "vm/monitor.h"
#include "vm/streams.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

struct waiting {
	struct standin *standin;
	struct loop loop;
	struct source signals, monitor;
	int status;
};

static void send_request(const struct waiting *waiting, const struct control_request *request)
{
	struct err err;

	if (control_send(waiting->standin->monitor, request, NULL, 0, &err) < 0)
		log_debug("%s", err.text);
}

/* Returns whether there was a new size. */
static bool pass_size(const struct waiting *waiting)
{
	struct standin *standin = waiting->standin;
	struct control_request request = { .type = CONTROL_RESIZE };

	if (standin->terminal < 0 ||
	    !stdio_take_size(standin->terminal, &standin->rows, &standin->columns))
		return false;
	request.rows = standin->rows;
	request.columns = standin->columns;
	send_request(waiting, &request);
	return true;
}

static int signal_came(struct source *source, uint32_t events, struct err *err)
{
	const struct waiting *waiting = source->data;
	struct control_request request = { .type = CONTROL_KILL };
	struct signalfd_siginfo info;

	if (read(source->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return 0;
	if (info.ssi_signo == SIGWINCH && pass_size(waiting))
		return 0;
	request.signal = info.ssi_signo;
	send_request(waiting, &request);
	return 0;
}

static int end_came(struct source *source, uint32_t events, struct err *err)
{
	struct waiting *waiting = source->data;
	struct control_end end;
	ssize_t n = recv(source->fd, &end, sizeof(end), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	waiting->status =
		n == (ssize_t)sizeof(end) ? (int)(end.status & 0xff) : MONITOR_STATUS_LOST;
	loop_quit(&waiting->loop);
	return 0;
}

/* Lets go of all that was the caller's: also its standard streams. */
static int detach(const struct standin *standin, struct err *err)
{
	int keep[] = { standin->monitor, standin->terminal, standin->channel, log_fd() };
	_cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	prctl(PR_SET_NAME, "moat-standin");
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		return err_set(err, errno, "open /dev/null");
	if (fd_close_except(3, keep, ARRAY_LEN(keep)) < 0)
		return err_set(err, errno, "close the caller's descriptors");
	if (setsid() < 0 || chdir("/") < 0)
		return err_set(err, errno, "start a session");
	return 0;
}

static int watch(struct waiting *waiting, struct err *err)
{
	struct standin *standin = waiting->standin;
	sigset_t set;

	requests_signals(&set);
	signal(SIGPIPE, SIG_IGN);
	if (loop_init(&waiting->loop, err) < 0)
		return -1;
	waiting->signals = (struct source){ .fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK),
					    .ready = signal_came,
					    .data = waiting };
	waiting->monitor =
		(struct source){ .fd = standin->monitor, .ready = end_came, .data = waiting };
	if (waiting->signals.fd < 0 || sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		return err_set(err, errno, "take signals");
	if (standin->terminal >= 0 && stdio_watch_size(standin->terminal, err) < 0)
		return -1;
	if (loop_watch(&waiting->loop, &waiting->signals, EPOLLIN, err) < 0)
		return -1;
	return loop_watch(&waiting->loop, &waiting->monitor, EPOLLIN, err);
}

static int set_up(struct waiting *waiting, struct err *err)
{
	const struct standin *standin = waiting->standin;

	if (detach(standin, err) < 0 || watch(waiting, err) < 0)
		return -1;
	if (standin->cgroup_path && cgroup_enter(standin->cgroup_path, 0, err) < 0)
		return -1;
	if (jail_restrict(ROLE_STANDIN, role_reach[ROLE_STANDIN].capabilities, err) < 0)
		return -1;
	return filter_load(ROLE_STANDIN, err);
}

static int standin_main(struct standin *standin)
{
	struct waiting waiting = { .standin = standin, .status = MONITOR_STATUS_LOST };
	struct err err = { 0 };
	char byte;

	if (set_up(&waiting, &err) < 0) {
		(void)fd_write_full(standin->channel, &err, sizeof(err));
		return EXIT_FAILURE;
	}
	/* A caller that dies meanwhile closes its end, and nothing else ties us to it. */
	if (fd_write_full(standin->channel, &err, sizeof(err)) < 0 ||
	    fd_read_full(standin->channel, &byte, 1) != 1)
		return EXIT_FAILURE;
	close(standin->channel);
	pass_size(&waiting);
	if (loop_run(&waiting.loop, &err) < 0)
		log_error("%s", err.text);
	return waiting.status;
}

int standin_fork(struct standin *standin, struct err *err)
{
	int pair[2];

	if (fd_socketpair(SOCK_STREAM, pair) < 0)
		return err_set(err, errno, "make a socket pair");
	standin->channel = pair[1];
	standin->pid = fork();
	if (standin->pid == 0)
		_exit(standin_main(standin));
	close(pair[1]);
	standin->channel = pair[0];
	if (standin->pid > 0)
		return 0;
	standin->pid = 0;
	err_set(err, errno, "fork");
	fd_replace(&standin->channel, -1);
	return -1;
}

int standin_release(struct standin *standin, struct err *err)
{
	struct err report;
	ssize_t n = fd_read_full(standin->channel, &report, sizeof(report));

	if (n != (ssize_t)sizeof(report))
		return err_set(err, 0, "set up the process that stands for the guest's: it ended");
	if (report.text[0]) {
		*err = report;
		return -1;
	}
	if (fd_write_full(standin->channel, "g", 1) < 0)
		return err_set(err, errno, "release the process that stands for the guest's");
	fd_replace(&standin->channel, -1);
	return 0;
}

void standin_end(struct standin *standin)
{
	fd_replace(&standin->channel, -1);
	if (standin->pid <= 0)
		return;
	kill(standin->pid, SIGKILL);
	proc_wait(standin->pid);
	standin->pid = 0;
}
