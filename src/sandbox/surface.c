/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The seccomp filters of a process, read back from the kernel, and what they say together. */
#include "sandbox/surface.h"

#include "sandbox/bpf.h"

#include "base/mem.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#define STOP_WAIT_MS 5000
#define FILTERS_MAX  64

static int stop(pid_t pid, struct err *err)
{
	const struct timespec interval = { .tv_nsec = 1000000 };

	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0)
		return err_set(err, errno, "look at process %d", (int)pid);
	if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0)
		return err_set(err, errno, "stop process %d", (int)pid);
	for (int waited = 0; waited < STOP_WAIT_MS; waited++) {
		int status;
		pid_t r = waitpid(pid, &status, __WALL | WNOHANG);

		if (r == pid && WIFSTOPPED(status))
			return 0;
		if (r == pid || (r < 0 && errno != EINTR))
			return err_set(err, 0, "process %d has ended", (int)pid);
		nanosleep(&interval, NULL);
	}
	return err_set(err, 0,
		       "process %d does not stop to be looked at: a paused container has to be "
		       "resumed first",
		       (int)pid);
}

static int read_filters(pid_t pid, struct surface_filters *filters, struct err *err)
{
	for (size_t i = 0; i < FILTERS_MAX; i++) {
		long count = ptrace(PTRACE_SECCOMP_GET_FILTER, pid, (void *)i, NULL);
		struct surface_filter *filter;

		if (count < 0 && (errno == ENOENT || (errno == EINVAL && i == 0)))
			return 0; /* no more; EINVAL: the process has no filter at all */
		if (count < 0)
			return err_set(err, errno, "read a seccomp filter of process %d", (int)pid);
		filters->items = xrealloc(filters->items, i + 1, sizeof(*filters->items));
		filter = &filters->items[i];
		*filter = (struct surface_filter){ .count = (size_t)count };
		filter->insns = xcalloc((size_t)count, sizeof(*filter->insns));
		filters->count = i + 1;
		if (ptrace(PTRACE_SECCOMP_GET_FILTER, pid, (void *)i, filter->insns) != count)
			return err_set(err, errno, "read a seccomp filter of process %d", (int)pid);
	}
	return err_set(err, 0, "process %d has more than %d seccomp filters", (int)pid,
		       FILTERS_MAX);
}

int surface_filters(pid_t pid, struct surface_filters *filters, struct err *err)
{
	int r;

	*filters = (struct surface_filters){ 0 };
	r = stop(pid, err);
	if (r == 0)
		r = read_filters(pid, filters, err);
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
	if (r < 0)
		surface_filters_free(filters);
	return r;
}

void surface_filters_free(struct surface_filters *filters)
{
	for (size_t i = 0; i < filters->count; i++)
		free(filters->items[i].insns);
	free(filters->items);
	*filters = (struct surface_filters){ 0 };
}

enum surface_verdict surface_call(const struct surface_filters *filters, uint32_t arch,
				  uint32_t number, const uint64_t *args)
{
	struct seccomp_data data = { .nr = (int)number, .arch = arch };
	enum surface_verdict verdict = SURFACE_ALLOWED;

	for (size_t i = 0; args && i < ARRAY_LEN(data.args); i++)
		data.args[i] = args[i];
	for (size_t i = 0; i < filters->count; i++) {
		unsigned int answers = bpf_answers(filters->items[i].insns, filters->items[i].count,
						   &data, args != NULL);

		if (!(answers & BPF_CAN_ALLOW))
			return SURFACE_REFUSED;
		if (answers & BPF_CAN_REFUSE)
			verdict = SURFACE_CHECKED;
	}
	return verdict;
}
