/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's free page reporting (mm/page_reporting.c) goes by what is freed, not by what will be
 * wanted again: two seconds after the first page of that order came free it begins to report.
 */
#include "guest/reporting.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/timerfd.h>

#define PARAMETER "/sys/module/page_reporting/parameters/page_reporting_order"
#define SECOND	  1000000000ll
/* How often it looks: one that works before the kernel reports, one that idles seldom. */
#define SECONDS_BUSY 1
#define SECONDS_IDLE 4
/* More than a processor's own list of free pages holds: see boot_memory(). */
#define FREED (2ul << 20)

bool reporting_is_idle(int64_t elapsed, int64_t idled, long processors)
{
	return elapsed * processors - idled < elapsed / 10;
}

/* The second number of /proc/uptime, in hundredths: seconds that all processors idled. */
static int64_t idle_time(void)
{
	_cleanup_free_ char *text = file_read(AT_FDCWD, "/proc/uptime", 128, NULL, NULL);
	long long seconds = 0;
	int hundredths = 0;

	if (!text || sscanf(text, "%*s %lld.%d", &seconds, &hundredths) != 2)
		return 0;
	return seconds * SECOND + hundredths * (SECOND / 100);
}

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_BOOTTIME, &time);
	return time.tv_sec * SECOND + time.tv_nsec;
}

/* The kernel looks at what is free when more becomes free. */
static void free_some(void)
{
	void *pages = mmap(NULL, FREED, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (pages != MAP_FAILED)
		munmap(pages, FREED);
}

static int set_timer(const struct reporting *reporting)
{
	time_t seconds = reporting->is_idle ? SECONDS_IDLE : SECONDS_BUSY;
	const struct itimerspec each = { .it_value.tv_sec = seconds,
					 .it_interval.tv_sec = seconds };

	return timerfd_settime(reporting->timer.fd, 0, &each, NULL);
}

static void set_idle(struct reporting *reporting, bool is_idle)
{
	char order[8];

	reporting->is_idle = is_idle;
	snprintf(order, sizeof(order), "%d", is_idle ? REPORTING_ORDER_IDLE : REPORTING_ORDER_BUSY);
	if (file_write(AT_FDCWD, PARAMETER, order, NULL) < 0) { /* a kernel without it */
		loop_forget(reporting->loop, &reporting->timer);
		fd_replace(&reporting->timer.fd, -1);
		return;
	}
	set_timer(reporting);
	if (is_idle)
		free_some();
}

static int look(struct source *source, uint32_t events, struct err *err)
{
	struct reporting *reporting = source->data;
	int64_t idle = idle_time(), at = now();
	bool is_idle = reporting_is_idle(at - reporting->at, idle - reporting->idle,
					 sysconf(_SC_NPROCESSORS_ONLN));
	uint64_t expired;

	(void)!read(source->fd, &expired, sizeof(expired));
	reporting->at = at;
	reporting->idle = idle;
	if (is_idle != reporting->is_idle)
		set_idle(reporting, is_idle);
	return 0;
}

int reporting_start(struct reporting *reporting, struct loop *loop, struct err *err)
{
	*reporting =
		(struct reporting){ .loop = loop, .timer = { .ready = look, .data = reporting } };
	reporting->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (reporting->timer.fd < 0 || set_timer(reporting) < 0)
		return err_set(err, errno, "make a timer");
	return loop_watch(loop, &reporting->timer, EPOLLIN, err);
}
