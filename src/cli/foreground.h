/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A command that stays while a process of a container runs: signals passed on, a terminal joined,
 * the exit status taken over.
 */
#pragma once

#include "cli/console.h"

#include <sys/types.h>

struct foreground {
	struct loop loop;
	struct console console;
	struct source signals;
	bool terminal; /* the console's end here is used */
	pid_t pid;     /* a child */
	int status;    /* its exit status, -1 while it runs */
	bool killed;   /* it ended by a signal, and could say nothing */
	void *data;
	/* Passes a signal to the process. */
	int (*kill)(struct foreground *foreground, int signal, struct err *err);
};

/* Before anything else: how signals are passed on, and no terminal yet. */
#define FOREGROUND_NEW(kill_function)                                                              \
	{                                                                                          \
		.kill = kill_function, .console = {.socket = -1, .master = -1 }                    \
	}

/*
 * foreground_prepare() - hold signals back from now on, so that none is lost while the process is
 * made. Returns 0, or -1 with err set.
 */
int foreground_prepare(struct foreground *foreground, struct err *err);

/* foreground_attach() - with a terminal: take it, and copy from and to it from now on. 0, or -1. */
int foreground_attach(struct foreground *foreground, struct err *err);

/* foreground_wait() - until the process has ended. Returns its exit status, or -1 with err set. */
int foreground_wait(struct foreground *foreground, struct err *err);

/* foreground_close() - give the caller's terminal back. */
void foreground_close(struct foreground *foreground);
