/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * moat events, of a container that is a script: that memory ran out is told once for each time,
 * whether the statistics show it first, or whoever watches says so.
 */
#include "cli/cli.h"

#include "base/fd.h"
#include "base/str.h"
#include "oci/events.h"
#include "runtime/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* What who asks for statistics finds, and what happens then. */
struct answer {
	uint64_t oom_kills;
	bool refused;
	uint64_t word; /* of who watches; 0: none comes */
	bool stopped;
};

static struct instance instance;
static const struct answer *answers;
static size_t n_answers, asked;
static uint64_t at_last; /* oom_kills of the cgroup that is left */
static int ours;	 /* our end of what is watched */
static bool stopped;

static struct moat_stats *stats_with(uint64_t oom_kills)
{
	struct moat_stats *stats = moat_stats_new();

	stats->memory->oom_kills = oom_kills;
	return stats;
}

static struct moat_stats *stats_at_last(struct container *container, struct err *err)
{
	return stats_with(at_last);
}

static const struct engine_ops engine = { .stats = stats_at_last };

struct instance *instance_load(const struct runtime *runtime, const char *id, bool lock,
			       struct err *err)
{
	instance = (struct instance){ .container = instance.container, .engine = &engine };
	return &instance;
}

void instance_free(struct instance *one)
{
}

enum status instance_status(const struct instance *one)
{
	return stopped ? STATUS_STOPPED : STATUS_RUNNING;
}

int instance_oom_watch(struct instance *one, struct err *err)
{
	int pair[2];

	assert_int_equal(fd_socketpair(SOCK_SEQPACKET | SOCK_NONBLOCK, pair), 0);
	ours = pair[0];
	return pair[1];
}

struct moat_stats *instance_stats(struct instance *one, struct err *err)
{
	const struct answer *answer = &answers[asked++];

	assert_true(asked <= n_answers);
	if (answer->word)
		assert_int_equal(send(ours, &answer->word, sizeof(answer->word), 0),
				 sizeof(answer->word));
	stopped = answer->stopped;
	if (!answer->refused)
		return stats_with(answer->oom_kills);
	err_set(err, ERR_NOT_RUNNING, "it does not run");
	return NULL;
}

/* The types of the lines that are printed, each with a space behind it. */
static void expect(enum isolation isolation, const struct answer *script, size_t count,
		   const char *types)
{
	char *arguments[] = { (char *)"c", NULL };
	_cleanup_fd_ int file = memfd_create("lines", MFD_CLOEXEC), out = dup(1);
	_cleanup_free_ char *text = NULL, *seen = xstrdup("");
	struct err err = { 0 };

	answers = script;
	n_answers = count;
	asked = 0;
	stopped = false;
	instance.container = (struct container){ .id = "c", .isolation = isolation };
	assert_string_equal(events_command.options[0].name, "interval");
	*(const char **)events_command.options[0].target = "10ms";
	fflush(stdout);
	dup2(file, 1);
	assert_int_equal(events_command.run(NULL, 1, arguments, &err), 0);
	dup2(out, 1);
	close(ours);
	lseek(file, 0, SEEK_SET);
	text = fd_read_text(file, 1 << 20, NULL);
	for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line;) {
		struct moat_event *event = moat_event_parse(line, strlen(line), "a line", &err);
		char *longer;

		assert_non_null(event);
		longer = xasprintf("%s%s ", seen, event->type);
		free(seen);
		seen = longer;
		moat_event_free(event);
	}
	assert_string_equal(seen, types);
	assert_int_equal(asked, n_answers);
}

#define EXPECT(isolation, types, ...)                                                              \
	do {                                                                                       \
		const struct answer script[] = { __VA_ARGS__ };                                    \
                                                                                                   \
		expect(isolation, script, ARRAY_LEN(script), types);                               \
	} while (0)

static void of_a_machine(void **state)
{
	/* The statistics are faster than the word. */
	EXPECT(ISOLATION_VM, "oom stats ", { 0 }, { .oom_kills = 1, .word = 1 },
	       { .refused = true, .stopped = true });
	EXPECT(ISOLATION_VM, "oom stats stats ", { 0 }, { .oom_kills = 1, .word = 1 },
	       { .oom_kills = 1, .stopped = true });
	/* The word is. */
	EXPECT(ISOLATION_VM, "oom stats ", { .word = 1 }, { .oom_kills = 1, .stopped = true });
	/* It is the last that is heard, and new. */
	EXPECT(ISOLATION_VM, "oom stats oom ", { .oom_kills = 3 }, { .oom_kills = 4 },
	       { .refused = true, .word = 5, .stopped = true });
	/* Something that was before is said again. */
	EXPECT(ISOLATION_VM, "stats ", { .oom_kills = 3, .word = 3 },
	       { .oom_kills = 2, .word = 1, .stopped = true });
}

/* The kernel says that there is something, and it may be some time until it is counted. */
static void of_a_cgroup(void **state)
{
	EXPECT(ISOLATION_PLAIN, "oom stats ", { .word = 7 }, { 0 }, { .oom_kills = 1 },
	       { .oom_kills = 1, .stopped = true });
	at_last = 1;
	EXPECT(ISOLATION_PLAIN, "oom ", { .word = 7 }, { .refused = true, .stopped = true });
	EXPECT(ISOLATION_PLAIN, "oom stats ", { 0 }, { .oom_kills = 1, .word = 7 },
	       { .refused = true, .stopped = true });
	at_last = 0;
	EXPECT(ISOLATION_PLAIN, "", { .word = 7 }, { .refused = true, .stopped = true });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_a_machine),
		cmocka_unit_test(of_a_cgroup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
