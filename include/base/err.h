/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Errors: one object that says what was being done, on what, and why it failed.
 * It holds no memory, so nothing has to be freed and it can be sent through a pipe as it is.
 */
#pragma once

#include <errno.h>

#define ERR_TEXT_MAX 1024

/* Failures that a caller tells apart by more than an errno; never mixed up with one. */
enum err_special {
	ERR_PROGRAM_NOT_FOUND = 0x10000, /* the user's program: a shell would say 127 */
	ERR_PROGRAM_DENIED,		 /* it is there and cannot be executed: 126 */
	ERR_NO_CONTAINER,		 /* no container of that id */
	ERR_NOT_RUNNING,		 /* the container's state does not allow it */
	ERR_INTERRUPTED,		 /* a signal came that ends the command */
	ERR_GUEST_LOST,			 /* a guest died or hung before it had its container */
};

struct err {
	int code; /* an errno value, an enum err_special, 0 where neither fits */
	char text[ERR_TEXT_MAX];
};

/*
 * err_set() - say that something failed, where it failed.
 * @err: filled in; what it held before is lost. NULL: the message is dropped.
 * @code: errno of the failure; its description is put after the text. 0, or an enum err_special:
 *        no description, the text says it all.
 * @fmt: what was being done, on what, in the imperative: "open %s".
 *
 * Always returns -1, so that callers can `return err_set(...)`.
 */
int err_set(struct err *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/*
 * err_wrap() - put what the caller was doing in front: "mount the root file system: open x: ...".
 * Always returns -1.
 */
int err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * err_hint() - append what the user can do about it: "...; load the kvm module".
 * Always returns -1.
 */
int err_hint(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
