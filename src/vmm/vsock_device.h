/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The socket device's insides, shared by vsock.c (the device and its table), vsock_send.c and
 * vsock_receive.c (packets to and from the guest).
 */
#pragma once

#include "vmm/device.h"
#include "vmm/vsock.h"
#include "vmm/vsock_stream.h"

enum { QUEUE_RX, QUEUE_TX, QUEUE_EVENT, QUEUES };

#define VSOCK_RESETS_MAX 64u
#define VSOCK_BATCH_MAX	 128u /* packets before other work of the loop has its turn */

struct vsock_reset {
	uint32_t port, guest_port;
};

struct vsock {
	struct device device;
	struct loop *loop;
	struct vsock_owner owner;
	struct stream *streams[VSOCK_PORTS_MAX];
	uint32_t count;
	uint32_t turn; /* the stream that may send first */
	/* Resets that are due for connections that are in no table. */
	struct vsock_reset resets[VSOCK_RESETS_MAX];
	uint32_t resets_count;
	bool hold;
	struct source again; /* an eventfd: a batch was cut short */
};

/* vsock_find() - the table's entry for a port, or NULL. */
struct stream *vsock_find(struct vsock *vsock, uint32_t port);

/* vsock_watch() - let a stream's events come to the device, from stream_open() on. */
void vsock_watch(struct vsock *vsock, struct stream *stream);

/* vsock_again() - have the queues served anew when the loop's other work had its turn. */
void vsock_again(struct vsock *vsock);

/* vsock_send() - send what is due and what can be read, each stream in its turn. 0, or -1. */
int vsock_send(struct vsock *vsock, struct err *err);

/* vsock_receive() - take the guest's packets while their answers find room. 0, or -1. */
int vsock_receive(struct vsock *vsock, struct err *err);
