/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The serial console: a 16550 at COM1 that only sends. What the guest writes waits in a ring until
 * the loop can pass it on; what does not fit is dropped, so that neither a flood nor a reader that
 * stands still costs memory or stops a vCPU. Nor does a flood fill the log: from SERIAL_PASSED
 * bytes on only the last ones are kept, for serial_flush().
 */
#pragma once

#include "base/loop.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define SERIAL_PORT  0x3f8u
#define SERIAL_PORTS 8u
#define SERIAL_GSI   4u
#define SERIAL_RING  65536u /* bytes; a power of two */

#define SERIAL_PASSED (1u << 20) /* bytes */

/* All that the guest can see of it. */
#define SERIAL_STATE_VERSION 1u
struct serial_state {
	uint32_t version;
	uint8_t interrupt_enable, line_control, modem_control, scratch;
	uint8_t divisor_low, divisor_high;
	uint8_t transmit_empty; /* the "transmitter is empty" interrupt waits to be read */
};

struct serial {
	struct serial_state state;
	struct loop *loop;
	struct source wake; /* an eventfd: the ring is no longer empty */
	struct source out;
	int irq_fd;	      /* an eventfd for SERIAL_GSI */
	pthread_mutex_t lock; /* of all below, and of state */
	bool pollable;	      /* out.fd can be watched, and written without waiting */
	bool flushing;	      /* the rest is passed on, whatever it is */
	uint32_t passed;      /* bytes, SERIAL_PASSED at most */
	uint64_t left_out;    /* bytes that were dropped */
	uint32_t head, tail;  /* bytes ever put in and taken out */
	uint8_t ring[SERIAL_RING];
};

/* serial_init() - fd stays the caller's. Returns 0, or -1 with err set. */
int serial_init(struct serial *serial, struct loop *loop, int fd, struct err *err);
void serial_free(struct serial *serial);

/* serial_read(), serial_write() - what a vCPU does at a port, an offset from SERIAL_PORT. */
uint8_t serial_read(struct serial *serial, unsigned int port);
void serial_write(struct serial *serial, unsigned int port, uint8_t value);

/*
 * serial_flush() - when the loop has ended: say what was left out and pass on what is left, waiting
 * a second at most.
 */
void serial_flush(struct serial *serial);
