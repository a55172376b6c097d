/* SPDX-License-Identifier: GPL-2.0-or-later */
/* memory.events: one "name count" a line, and inotify(7) when it changes. */
#include "guest/memory_events.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "cgroup/stats.h"
#include "rpc/agent.pb-c.h"

#include <fcntl.h>
#include <sys/epoll.h>

#define FILE_MAX 4096

uint64_t memory_events_oom_kills(const char *cgroup)
{
	static const char name[] = "oom_kill ";
	_cleanup_free_ char *path = xasprintf("/sys/fs/cgroup%s/memory.events", cgroup);
	_cleanup_free_ char *text = file_read(AT_FDCWD, path, FILE_MAX, NULL, NULL);
	uint64_t count = 0;
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n")))
		if (str_starts_with(line, name))
			str_to_u64(line + strlen(name), UINT64_MAX, &count);
	return count;
}

void memory_events_tell(struct memory_events *events)
{
	Moat__Agent__WatchMemoryResponse response = MOAT__AGENT__WATCH_MEMORY_RESPONSE__INIT;

	if (!events->count)
		return;
	response.oom_kills = memory_events_oom_kills(events->cgroup);
	for (size_t i = 0; i < events->count;) {
		if (events->watchers[i].seen == response.oom_kills) {
			i++;
			continue;
		}
		ttrpc_reply(events->watchers[i].call, &response.base);
		events->watchers[i] = events->watchers[--events->count];
	}
}

static int events_ready(struct source *source, uint32_t ready, struct err *err)
{
	char drained[4096];

	(void)!read(source->fd, drained, sizeof(drained));
	memory_events_tell(source->data);
	return 0;
}

static int start(struct memory_events *events, struct loop *loop, const char *cgroup,
		 struct err *err)
{
	if (events->loop)
		return 0;
	events->cgroup = cgroup;
	events->source = (struct source){ .fd = cgroup_oom_watch(cgroup, err),
					  .ready = events_ready,
					  .data = events };
	if (events->source.fd < 0)
		return -1;
	if (loop_watch(loop, &events->source, EPOLLIN, err) < 0) {
		fd_replace(&events->source.fd, -1);
		return -1;
	}
	events->loop = loop;
	return 0;
}

int memory_events_watch(struct memory_events *events, struct loop *loop, const char *cgroup,
			struct ttrpc_call call, uint64_t seen, struct err *err)
{
	if (events->count == MEMORY_WATCHERS_MAX)
		return err_set(err, EBUSY, "watch the memory of the container: %d do already",
			       MEMORY_WATCHERS_MAX);
	if (start(events, loop, cgroup, err) < 0)
		return -1;
	events->watchers[events->count].call = call;
	events->watchers[events->count++].seen = seen;
	memory_events_tell(events);
	return 0;
}

void memory_events_close(struct memory_events *events)
{
	while (events->count > 0)
		ttrpc_reply_error(events->watchers[--events->count].call, TTRPC_NOT_FOUND,
				  "the container was deleted meanwhile");
	if (!events->loop)
		return;
	loop_forget(events->loop, &events->source);
	fd_replace(&events->source.fd, -1);
	events->loop = NULL;
}
