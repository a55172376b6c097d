/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A call of CRIU: the request, the stages that it tells of while it works, the answer. Whatever
 * becomes of us, CRIU sees the end of the socket at the next stage, and undoes what it did.
 */
#include "criu/criu.h"
#include "criu/reason.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/proc.h"
#include "base/str.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define PROGRAM	     "criu"
#define RESPONSE_MAX 65536
#define PROGRAM_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct session {
	const struct criu_call *call;
	pid_t pid;
	int socket, spoken;
};

static int execute(int socket, struct err *err)
{
	char number[16];
	char *const argv[] = { (char *)PROGRAM, (char *)"swrk", number, NULL };

	snprintf(number, sizeof(number), "%d", socket);
	if (fd_set_cloexec(socket, false) < 0)
		return err_set(err, errno, "pass a socket to " PROGRAM);
	setenv("PATH", PROGRAM_PATH, 0);
	execvp(PROGRAM, argv);
	err_set(err, errno, "run the program " PROGRAM);
	return errno == ENOENT ? err_hint(err, "install CRIU (Debian: apt-get install criu)") : -1;
}

/* Standard input may be the terminal that a job is restored to; what CRIU says is kept. */
static _Noreturn void child_main(const struct session *session, int socket, int failure)
{
	const struct criu_call *call = session->call;
	sigset_t none;
	struct err err = { 0 };

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGXFSZ, SIG_DFL);
	if (call->prepare && call->prepare(call->context, &err) < 0) {
	} else if (dup2(session->spoken, STDOUT_FILENO) < 0 ||
		   dup2(session->spoken, STDERR_FILENO) < 0) {
		err_set(&err, errno, "redirect the output of " PROGRAM);
	} else {
		execute(socket, &err);
	}
	_exit(fd_write_full(failure, &err, sizeof(err)) < 0 ? 2 : 1);
}

/* Starts the program. An error of what comes before its first instruction is one here. */
static int start(struct session *session, struct err *err)
{
	int sockets[2], failure[2];
	struct err theirs;
	ssize_t n;

	session->spoken = memfd_create(PROGRAM, MFD_CLOEXEC);
	if (session->spoken < 0 || fd_socketpair(SOCK_SEQPACKET, sockets) < 0)
		return err_set(err, errno, "prepare to run " PROGRAM);
	session->socket = sockets[0];
	if (pipe2(failure, O_CLOEXEC) < 0) {
		close(sockets[1]);
		return err_set(err, errno, "prepare to run " PROGRAM);
	}
	session->pid = fork();
	if (session->pid == 0)
		child_main(session, sockets[1], failure[1]);
	close(sockets[1]);
	close(failure[1]);
	n = session->pid < 0 ? 0 : fd_read_full(failure[0], &theirs, sizeof(theirs));
	close(failure[0]);
	if (session->pid < 0)
		return err_set(err, errno, "make a process for " PROGRAM);
	if (n != sizeof(theirs))
		return 0;
	theirs.text[sizeof(theirs.text) - 1] = '\0';
	*err = theirs;
	return -1;
}

static int send_request(const struct session *session, const Criu__Request *request,
			struct err *err)
{
	size_t size = criu__request__get_packed_size(request);
	_cleanup_free_ uint8_t *bytes = xcalloc(1, size);

	criu__request__pack(request, bytes);
	if (send(session->socket, bytes, size, MSG_NOSIGNAL) != (ssize_t)size)
		return err_set(err, errno, "send a request to " PROGRAM);
	return 0;
}

/* Returns an answer to be freed with criu__response__free_unpacked(); NULL at the end. */
static Criu__Response *receive(const struct session *session, int *fd)
{
	_cleanup_free_ uint8_t *bytes = xcalloc(1, RESPONSE_MAX);
	ssize_t n;

	do
		n = fd_receive(session->socket, bytes, RESPONSE_MAX, fd, 1);
	while (n < 0 && errno == EINTR);
	return n > 0 ? criu__response__unpack(NULL, (size_t)n, bytes) : NULL;
}

static int tell_stage(const struct session *session, const Criu__Notification *stage, int fd,
		      struct err *err)
{
	const char *name = stage && stage->script ? stage->script : "";
	pid_t pid = stage && stage->has_pid ? stage->pid : 0;

	log_debug(PROGRAM ": %s", name);
	if (session->call->stage)
		return session->call->stage(session->call->context, name, pid, fd, err);
	fd_close_pointer(&fd);
	return 0;
}

/* CRIU's words, or what can be said without any. Returns -1. */
static int explain(const struct session *session, const Criu__Response *response, struct err *err)
{
	const Criu__Options *options = session->call->request->options;
	_cleanup_free_ char *reason =
		criu_reason(options->work_dir_fd, options->log_file, session->spoken);
	char safe[400];

	if (!reason && response && response->error_message)
		reason = xstrdup(str_escape(response->error_message,
					    strlen(response->error_message), safe, sizeof(safe)));
	if (!reason && response && response->has_error_number && response->error_number > 0)
		reason = xstrdup(strerror(response->error_number));
	err_set(err, 0, "CRIU: %s", reason ? reason : "it ended without saying why");
	return err_hint(err, "more in %s/%s", session->call->work_path, options->log_file);
}

/* Answers stages until the call is done. @mine: set to the error of a stage that failed. */
static int converse(struct session *session, pid_t *restored, struct err *mine, struct err *err)
{
	bool failed = false;

	for (;;) {
		Criu__Request answer = CRIU__REQUEST__INIT;
		Criu__Response *response;
		int fd = -1, r;

		response = receive(session, &fd);
		if (response && response->type == CRIU__REQUEST_TYPE__NOTIFY) {
			if (tell_stage(session, response->notification, fd, failed ? NULL : mine) <
			    0)
				failed = true;
			criu__response__free_unpacked(response, NULL);
			answer.type = CRIU__REQUEST_TYPE__NOTIFY;
			answer.has_notify_success = true;
			answer.notify_success = !failed;
			/* What became of CRIU is heard at the next turn. */
			(void)send_request(session, &answer, NULL);
			continue;
		}
		fd_close_pointer(&fd);
		r = response && response->success && !failed ? 0 : -1;
		if (r == 0 && restored && response->restored)
			*restored = response->restored->pid;
		if (r < 0 && !failed)
			explain(session, response, err);
		if (failed)
			*err = *mine;
		if (response)
			criu__response__free_unpacked(response, NULL);
		return r;
	}
}

int criu_run(const struct criu_call *call, pid_t *restored, struct err *err)
{
	struct session session = { .call = call, .pid = -1, .socket = -1, .spoken = -1 };
	struct err unheard, mine = { 0 };
	int r = start(&session, err ? err : (err = &unheard));

	if (r == 0 && call->running)
		r = call->running(call->context, session.pid, err);
	if (r == 0 && (r = send_request(&session, call->request, err)) < 0)
		explain(&session, NULL, err);
	if (r == 0)
		r = converse(&session, restored, &mine, err);
	fd_replace(&session.socket, -1);
	if (session.pid > 0)
		proc_wait(session.pid);
	fd_replace(&session.spoken, -1);
	return r;
}
