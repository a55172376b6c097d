/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Telling of a lack of memory. Under v2 a limit below what cannot be reclaimed calls the OOM killer
 * (admin-guide/cgroup-v2, memory.max); under v1 such a limit is refused (cgroup-v1/memory, 4), and
 * the OOM killer comes when more is asked for.
 */
#include "cgroup/oom_tell.h"

#include "base/fd.h"
#include "base/proc.h"
#include "base/str.h"
#include "cgroup/layout.h"
#include "cgroup/tree.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

/*
 * The victim has more than a step of the limit: when it has gone, what is left fits, with room for
 * whoever made it. The first limit is above all that these two have.
 */
#define VICTIM_SIZE (8ul << 20)
#define LIMIT_FIRST (64ul << 20)
#define LIMIT_STEP  (2ul << 20)

/* The kernel tells of a cgroup's events every 10 ms at most; then the engine has to act on it. */
#define HEARD_MS 100

static int open_one(const char *directory, const char *name, int flags, struct err *err)
{
	_cleanup_free_ char *file = xasprintf("%s/%s", directory, name);
	int fd = open(file, flags | O_CLOEXEC);

	return fd < 0 ? err_set(err, errno, "open %s", file) : fd;
}

static int open_limit(struct oom_teller *teller, const char *directory, struct err *err)
{
	teller->limit = open_one(directory, teller->v2 ? "memory.max" : "memory.limit_in_bytes",
				 O_RDWR, err);
	return teller->limit < 0 ? -1 : 0;
}

static int open_v2(struct oom_teller *teller, const char *directory, struct err *err)
{
	_cleanup_free_ char *group = xasprintf("%s/memory.oom.group", directory);

	teller->group = open(group, O_WRONLY | O_CLOEXEC); /* since Linux 4.19 */
	if (teller->group < 0 && errno != ENOENT)
		return err_set(err, errno, "open %s", group);
	teller->below = open_one(directory, "cgroup.stat", O_RDONLY, err);
	return teller->below < 0 ? -1 : 0;
}

/* No file of v1 says what lies below; a microVM has nothing to make a cgroup with. */
static int open_v1(struct oom_teller *teller, const char *directory, struct err *err)
{
	struct stat status;

	if (stat(directory, &status) == 0 && status.st_nlink > 2)
		return err_set(err, EBUSY, "have %s for oneself: there are others below",
			       directory);
	teller->control = open_one(directory, "memory.oom_control", O_RDONLY, err);
	if (teller->control < 0)
		return -1;
	teller->swapping = open_one(directory, "memory.swappiness", O_WRONLY, err);
	return teller->swapping < 0 ? -1 : 0;
}

static int open_all(struct oom_teller *teller, const char *directory, struct err *err)
{
	if (open_limit(teller, directory, err) < 0 ||
	    (teller->v2 ? open_v2(teller, directory, err) : open_v1(teller, directory, err)) < 0)
		return -1;
	teller->processes = open_one(directory, "cgroup.procs", O_RDONLY, err);
	return teller->processes < 0 ? -1 : 0;
}

/*
 * Under v2 one of the limits is the end. It does not go on to another process then: who sets the
 * limit has a signal. Without the swapping of v1 the last limit that was taken leaves no room.
 */
static void be_killed(const struct oom_teller *teller, char *memory)
{
	char text[32];

	/* Whatever score engines gave us and our maker: we are to be taken, and first. */
	if (write(teller->score, "1000", 4) != 4)
		return;
	memset(memory, 1, VICTIM_SIZE);
	for (unsigned long limit = LIMIT_FIRST;; limit -= LIMIT_STEP) {
		int n = snprintf(text, sizeof(text), "%lu", limit);

		if (write(teller->limit, text, (size_t)n) < 0 || limit == 0)
			break;
	}
	if (!teller->v2)
		memset(memory + VICTIM_SIZE, 1, VICTIM_SIZE);
}

static int victim_main(struct oom_teller *teller, int word, int (*confine)(struct err *err))
{
	struct err err;
	char byte, *memory;

	prctl(PR_SET_NAME, "moat-victim");
	teller->score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	memory = mmap(NULL, 2 * VICTIM_SIZE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	/* Where its maker ends without a word, the pipe does, too. */
	if (fd_close_except(0, (int[]){ word, teller->limit, teller->score }, 3) == 0 &&
	    prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && memory != MAP_FAILED &&
	    (!confine || confine(&err) == 0) && read(word, &byte, 1) == 1)
		be_killed(teller, memory);
	return EXIT_FAILURE;
}

static int start_victim(struct oom_teller *teller, int (*confine)(struct err *err), struct err *err)
{
	int pair[2];
	pid_t pid;

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_set(err, errno, "make a pipe");
	pid = fork();
	if (pid == 0)
		_exit(victim_main(teller, pair[0], confine));
	close(pair[0]);
	teller->word = pair[1];
	if (pid < 0)
		return err_set(err, errno, "fork");
	teller->victim = pid;
	teller->pidfd = proc_pidfd(pid);
	return teller->pidfd < 0 ? err_set(err, errno, "open a pidfd of the victim") : 0;
}

int oom_teller_open(struct oom_teller *teller, const char *path, int (*confine)(struct err *err),
		    struct err *err)
{
	const struct layout *layout = layout_get();
	const struct hierarchy *v1 = layout_find(layout, "memory");
	const char *mount = v1 ? v1->mount : layout->kind == CGROUP_V2 ? layout->unified : NULL;
	_cleanup_free_ char *directory = mount ? tree_directory(mount, path) : NULL;

	*teller = (struct oom_teller)OOM_TELLER_NONE;
	if (!directory)
		return err_set(err, ENOENT, "tell of lacks of memory: no memory controller");
	teller->self = getpid();
	teller->v2 = !v1;
	if (open_all(teller, directory, err) == 0 && start_victim(teller, confine, err) == 0)
		return 0;
	oom_teller_close(teller);
	return -1;
}

void oom_teller_close(struct oom_teller *teller)
{
	if (teller->victim && teller->pidfd >= 0)
		proc_pidfd_signal(teller->pidfd, SIGKILL);
	fd_replace(&teller->pidfd, -1);
	fd_replace(&teller->word, -1);
	fd_replace(&teller->limit, -1);
	fd_replace(&teller->processes, -1);
	fd_replace(&teller->below, -1);
	fd_replace(&teller->group, -1);
	fd_replace(&teller->control, -1);
	fd_replace(&teller->swapping, -1);
	if (teller->victim)
		proc_wait(teller->victim);
	teller->victim = 0;
}

/* A file's text; "" where it cannot be read. */
static const char *text_of(int fd, char *text, size_t size)
{
	ssize_t n = read(fd, text, size - 1);

	text[n < 0 ? 0 : n] = '\0';
	return text;
}

static bool is_alone(const struct oom_teller *teller)
{
	const long one = teller->self, other = teller->victim;
	char text[1024], *end;
	long first, second;

	first = strtol(text_of(teller->processes, text, sizeof(text)), &end, 10);
	second = strtol(end, &end, 10);
	if (!str_eq(end, "\n") || first + second != one + other || (first != one && first != other))
		return false;
	return !teller->v2 ||
	       strstr(text_of(teller->below, text, sizeof(text)), "nr_descendants 0\n");
}

/*
 * Without an OOM killer the kernel would wait for memory, and for ever. That of v2 must not take
 * along all that is in the cgroup, as it may have been told to: its caller would be among them.
 */
static bool can_be_killed(const struct oom_teller *teller)
{
	char text[1024];

	if (teller->v2)
		return teller->group < 0 || write(teller->group, "0", 1) == 1;
	return strstr(text_of(teller->control, text, sizeof(text)), "oom_kill_disable 0\n") &&
	       write(teller->swapping, "0", 1) == 1;
}

void oom_teller_tell(struct oom_teller *teller)
{
	const struct timespec heard = { .tv_nsec = HEARD_MS * 1000000L };
	char restore[32];
	ssize_t n;

	if (!teller->victim || !is_alone(teller) || !can_be_killed(teller))
		return;
	n = read(teller->limit, restore, sizeof(restore));
	if (n <= 0 || write(teller->word, "x", 1) != 1)
		return;
	proc_wait(teller->victim);
	teller->victim = 0;
	(void)!write(teller->limit, restore, (size_t)n);
	nanosleep(&heard, NULL);
}
