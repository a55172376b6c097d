/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Terminals: the engine's console socket, and, for `moat run` in the foreground, a socket of our
 * own with the copying between the container's terminal and the caller's.
 */
#pragma once

#include "base/err.h"
#include "base/loop.h"

#include <stdbool.h>
#include <termios.h>

struct console {
	int socket; /* our end of the pair */
	int master; /* of the container's terminal */
	struct loop *loop;
	struct source input, output;
	struct termios saved;
	bool raw;
};

/* console_pair() - a pair whose other end goes to create_options.console_socket. 0, or -1. */
int console_pair(struct console *console, int *other, struct err *err);

/*
 * console_attach() - take the terminal that came, put ours into raw mode, and copy until the
 * container's side closes. Returns 0, or -1 with err set.
 */
int console_attach(struct console *console, struct loop *loop, struct err *err);

/* console_resize() - give the container's terminal the size of ours. */
void console_resize(const struct console *console);

/* console_close() - copy what is left, restore our terminal. */
void console_close(struct console *console);
