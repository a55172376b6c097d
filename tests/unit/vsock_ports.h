/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Ports of the socket device as tests open them, with a driver for each test. */
#pragma once

#include "vsock_driver.h"

#define PORT  20u
#define GUEST 1025u

extern struct driver driver;
extern struct packet packet;	  /* the last one that came */
extern uint8_t bytes[300u << 10]; /* to send: no two stretches are alike */

/* For each test. */
int setup(void **state);
int teardown(void **state);

void add_port(uint32_t port, int fd, uint32_t flags);

/* expect() - a packet comes, with that operation. */
void expect(uint16_t op);
void expect_nothing(void);

/* open_port() - add it, and the guest connects. */
void open_port(uint32_t port, int fd, uint32_t flags);

/* open_pipe() - the same of a pipe; returns the test's end. */
int open_pipe(uint32_t port, bool guest_writes);

/* is_closed() - whether its end was reported. */
bool is_closed(uint32_t port);
