/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "loop_alarm.h"

#include "base/fd.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include <cmocka.h>

struct alarm {
	struct source source;
	struct loop *loop;
	bool rung;
};

static int on_alarm(struct source *source, uint32_t events, struct err *err)
{
	struct alarm *alarm = source->data;

	alarm->rung = true;
	loop_quit(alarm->loop);
	return 0;
}

bool loop_run_for(struct loop *loop, unsigned int ms)
{
	struct itimerspec when = { .it_value = { ms / 1000, ms % 1000 * 1000000L } };
	struct alarm alarm = { .loop = loop };
	struct err err = { 0 };

	loop->quit = false;
	alarm.source = (struct source){ .fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC),
					.ready = on_alarm,
					.data = &alarm };
	assert_int_equal(timerfd_settime(alarm.source.fd, 0, &when, NULL), 0);
	assert_int_equal(loop_watch(loop, &alarm.source, EPOLLIN, &err), 0);
	if (loop_run(loop, &err) < 0)
		fail_msg("%s", err.text);
	loop_forget(loop, &alarm.source);
	fd_replace(&alarm.source.fd, -1);
	return !alarm.rung;
}
