/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The workload's standard streams: which descriptors the guest's ports are joined to. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct oci_process;

struct stream_port {
	int fd;		/* -1: nothing there, /dev/null in the guest */
	uint32_t flags; /* enum vmm_port_flags */
	uint32_t port;	/* 0: none */
};

struct stdio {
	/* Input, output, errors; with a terminal the first one alone, both ways. */
	struct stream_port stream[3];
	bool terminal;
	uint16_t rows, columns;
};

/*
 * stdio_open() - our own descriptors 0, 1 and 2, made ready for the vmm; with process.terminal a
 * new terminal instead, whose master goes to console_socket.
 * @process: NULL: without a terminal.
 * @first_port: ports are numbered from here.
 *
 * A pipe or terminal is opened anew, so that O_NONBLOCK does not reach whoever else holds it; a
 * regular file is not, which would lose O_APPEND and the offset shared with others.
 * Returns 0, or -1 with err set; release with stdio_close() in both cases.
 */
int stdio_open(struct stdio *stdio, const struct oci_process *process, int console_socket,
	       uint32_t first_port, struct err *err);
void stdio_close(struct stdio *stdio);

/*
 * stdio_watch_size() - become the one who gets SIGWINCH when the terminal's master is given another
 * size, and SIGHUP when it is closed. The caller leads its session, which has no terminal.
 * Returns 0, or -1 with err set.
 */
int stdio_watch_size(int terminal, struct err *err);

/* stdio_take_size() - Returns whether the terminal's size is another than *rows and *columns, which
 * are set to it. */
bool stdio_take_size(int terminal, uint16_t *rows, uint16_t *columns);
