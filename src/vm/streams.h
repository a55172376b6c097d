/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The workload's standard streams: which descriptors the guest's ports are joined to. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct oci_config;

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
 * @first_port: ports are numbered from here.
 *
 * A pipe or terminal is opened anew, so that O_NONBLOCK does not reach whoever else holds it; a
 * regular file is not, which would lose O_APPEND and the offset shared with others.
 * Returns 0, or -1 with err set; release with stdio_close() in both cases.
 */
int stdio_open(struct stdio *stdio, const struct oci_config *config, int console_socket,
	       uint32_t first_port, struct err *err);
void stdio_close(struct stdio *stdio);
