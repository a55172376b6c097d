/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tests of ttrpc share: a loop with a deadline, two ends, and frames made by hand. */
#pragma once

#include "base/loop.h"
#include "rpc/agent.pb-c.h"
#include "rpc/ttrpc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SERVICE "moat.agent.Agent"

/* Everything a test has: a loop with a deadline, and one or two ends. */
struct fixture {
	struct loop loop;
	int pair[2];
	struct ttrpc *client, *server;
	struct ttrpc_call kept[TTRPC_CALLS_MAX];
	size_t n_kept;
	unsigned int closed;
	char closed_text[512];
	bool free_in_callback;
};

struct answer {
	struct fixture *fixture;
	unsigned int count;
	bool quit;
	uint32_t code;
	uint32_t version;
	char text[512];
};

int setup(void **state);
int teardown(void **state);

/* run() - run the loop until a callback quits it; false where `ms` pass first. */
bool run(struct fixture *f, unsigned int ms);

/* Each end takes one of f->pair. */
void make_server(struct fixture *f);
void make_client(struct fixture *f);

void on_answer(void *data, const ProtobufCMessage *response, uint32_t code, const char *text);
void call_hello(struct fixture *f, uint32_t number, struct answer *answer);
void call_wait(struct fixture *f, uint64_t timeout_ms, struct answer *answer);

/* put_frame() - as a peer of our own making sends it. */
void put_frame(int fd, uint32_t size, uint32_t stream, uint8_t type, uint8_t flags,
	       const void *body, size_t body_size);

/* Request{service, method, payload}: a Hello with realtime_ns 5 and hostname "ab". */
static const uint8_t hello_request[] =
	"\x0a\x10moat.agent.Agent\x12\x05Hello\x1a\x06\x08\x05\x1a\x02"
	"ab";
#define HELLO_SIZE (sizeof(hello_request) - 1)

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
