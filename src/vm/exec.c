/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A further process in a microVM, from the side of the command: our standard streams go to the
 * monitor, and a child stays that stands for the process.
 */
#include "vm/exec.h"

#include "base/fd.h"
#include "oci/config.h"
#include "oci/settings.h"
#include "vm/control.h"
#include "vm/standin.h"
#include "vm/streams.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

/* The texts of a request, as control.h has them. Returns a file, or -1 with err set. */
static int write_texts(const struct exec_options *options, uint32_t *total, struct err *err)
{
	_cleanup_free_ char *process = oci_process_write(options->process, NULL);
	const char *texts[] = { options->user ? options->user : "",
				options->cgroup ? options->cgroup : "", process };
	size_t size = 0, used = 0;
	_cleanup_free_ char *all = NULL;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		size += strlen(texts[i]) + 1;
	if (size > CONTROL_TEXT_MAX)
		return err_set(err, E2BIG, "describe the process to the container's monitor");
	all = xcalloc(size, 1);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		size_t length = strlen(texts[i]) + 1;

		memcpy(all + used, texts[i], length);
		used += length;
	}
	*total = (uint32_t)size;
	return control_text(all, size, err);
}

static int send_exec(int monitor, const struct exec_options *options, const struct stdio *stdio,
		     struct err *err)
{
	struct control_request request = { .type = CONTROL_EXEC,
					   .terminal = stdio->terminal,
					   .rows = stdio->rows,
					   .columns = stdio->columns };
	_cleanup_fd_ int texts = write_texts(options, &request.size, err);
	int fds[CONTROL_DESCRIPTORS] = { texts };
	size_t count = 1;

	if (texts < 0)
		return -1;
	for (int i = 0; i < 3; i++) {
		const struct stream_port *stream = &stdio->stream[i];

		if (stream->fd < 0)
			continue;
		request.stream[i] = (struct control_stream){ true, stream->flags };
		fds[count++] = stream->fd;
	}
	return control_send(monitor, &request, fds, count, err);
}

/* Asks for the process and waits until it runs. The streams are closed: the vmm has them. */
static int ask(int monitor, const struct exec_options *options, struct stdio *stdio,
	       struct err *err)
{
	const struct timeval for_ever = { 0 };
	int r = send_exec(monitor, options, stdio, err);

	stdio_close(stdio);
	if (options->ignore_paused)
		setsockopt(monitor, SOL_SOCKET, SO_RCVTIMEO, &for_ever, sizeof(for_ever));
	return r < 0 ? -1 : control_reply(monitor, err);
}

static int run(struct container *container, const struct exec_options *options, struct stdio *stdio,
	       pid_t *pid, struct err *err)
{
	uint32_t patience = control_guest_patience(container->settings->guest_timeout);
	_cleanup_fd_ int monitor = control_connect(container->state_fd, patience, err);
	struct standin standin = { .monitor = monitor,
				   .terminal = stdio->terminal ? stdio->stream[0].fd : -1,
				   .rows = stdio->rows,
				   .columns = stdio->columns,
				   .cgroup_path = container->cgroup_path };

	/* It sets itself up while the process is made. */
	if (monitor < 0 || standin_fork(&standin, err) < 0)
		return -1;
	if (ask(monitor, options, stdio, err) == 0 && standin_release(&standin, err) == 0) {
		*pid = standin.pid;
		return 0;
	}
	standin_end(&standin);
	return -1;
}

int vm_exec(struct container *container, const struct exec_options *options, pid_t *pid,
	    struct err *err)
{
	struct stdio stdio;
	int r;

	if (options->preserve_fds > 0)
		return err_set(err, 0,
			       "--preserve-fds: descriptors cannot be passed into a microVM; mount "
			       "what they are of, or use --isolation=sandbox");
	if (options->user && !*options->user)
		return err_set(err, 0, "user '' is not in the container's /etc/passwd");
	r = stdio_open(&stdio, options->process, options->console_socket, 1, err);
	if (r == 0)
		r = run(container, options, &stdio, pid, err);
	stdio_close(&stdio);
	return r;
}
