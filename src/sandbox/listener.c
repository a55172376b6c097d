/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Takes a seccomp listener out of a process that may not make a system call, to its agent. */
#include "sandbox/listener.h"

#include "base/fd.h"
#include "base/proc.h"
#include "oci/config.h"
#include "oci/state.h"

#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#define WAIT_MS	  10000
#define STATE_MAX 65536 /* bytes of one message */

/* What the slot holds beside a descriptor's number and a negative errno. */
#define SLOT_EMPTY   INT_MAX
#define SLOT_FETCHED (INT_MAX - 1)

int listener_prepare(struct listener *listener, const struct oci_seccomp *seccomp, bool describes,
		     struct err *err)
{
	void *page;

	if (!describes)
		return err_set(err, 0, "linux.seccomp: SCMP_ACT_NOTIFY is not supported here");
	if (!seccomp->listener_path || !*seccomp->listener_path)
		return err_set(err, 0, "linux.seccomp: SCMP_ACT_NOTIFY needs a listenerPath");
	page = mmap(NULL, sizeof(atomic_int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		    -1, 0);

	if (page == MAP_FAILED)
		return err_set(err, errno, "map memory for the seccomp listener");
	listener->slot = page;
	atomic_init(listener->slot, SLOT_EMPTY);
	return 0;
}

void listener_release(struct listener *listener)
{
	if (listener->slot)
		munmap(listener->slot, sizeof(atomic_int));
	listener->slot = NULL;
}

void listener_offer(const struct listener *listener, int fd)
{
	struct timespec begin, now;

	atomic_store(listener->slot, fd);
	clock_gettime(CLOCK_MONOTONIC, &begin); /* no system call: the kernel's page does it */
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while (atomic_load(listener->slot) == fd && now.tv_sec - begin.tv_sec < WAIT_MS / 1000);
}

/* Returns the number of the descriptor in the process, or -1 with err set. */
static int wait_for_it(const struct listener *listener, int pidfd, struct err *err)
{
	struct pollfd ended = { .fd = pidfd, .events = POLLIN };

	for (int ms = 0; ms < WAIT_MS; ms++) {
		int fd = atomic_load(listener->slot);

		if (fd < 0)
			return err_set(err, -fd, "load the seccomp filter");
		if (fd != SLOT_EMPTY)
			return fd;
		if (poll(&ended, 1, 1) > 0)
			return err_set(err, 0, "load the seccomp filter: the process has ended");
	}
	return err_set(err, 0, "load the seccomp filter: no listener after %d seconds",
		       WAIT_MS / 1000);
}

static char *describe(pid_t pid, const struct oci_seccomp *seccomp, const char *state,
		      struct err *err)
{
	char *fds[] = { (char *)"seccompFd", NULL };
	struct oci_state *container = oci_state_parse(state, strlen(state), "state", err);
	struct oci_container_process_state message = {
		.fds = fds,
		.n_fds = 1,
		.pid = pid,
		.metadata = seccomp->listener_metadata,
		.state = container,
	};
	char *text = NULL;

	if (!container)
		return NULL;
	message.oci_version = container->oci_version;
	text = oci_container_process_state_write(&message, NULL);
	oci_state_free(container);
	return text;
}

int listener_forward(const struct listener *listener, pid_t pid, const struct oci_seccomp *seccomp,
		     const char *state, struct err *err)
{
	_cleanup_fd_ int pidfd = proc_pidfd(pid), fd = -1, agent = -1;
	_cleanup_free_ char *text = NULL;
	int number;

	if (pidfd < 0)
		return err_set(err, errno, "watch the process with the seccomp listener");
	number = wait_for_it(listener, pidfd, err);
	if (number < 0)
		return -1;
	fd = (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
	if (fd < 0)
		err_set(err, errno, "fetch the seccomp listener");
	atomic_store(listener->slot, SLOT_FETCHED);
	if (fd < 0)
		return -1;
	text = describe(pid, seccomp, state, err);
	if (!text)
		return -1;
	if (strlen(text) > STATE_MAX)
		return err_set(err, EMSGSIZE, "send the seccomp listener");
	agent = fd_connect("seccomp agent", seccomp->listener_path, err);
	if (agent < 0)
		return -1;
	if (fd_send(agent, text, strlen(text), &fd, 1) < 0)
		return err_set(err, errno, "send the seccomp listener to %s",
			       seccomp->listener_path);
	return 0;
}
