/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One call of CRIU, which saves processes to images and makes processes of them: the program is
 * started as `criu swrk` and spoken to over a socket (criu.org/RPC, proto/criu.proto).
 */
#pragma once

#include "base/err.h"

#include <sys/types.h>

#include "rpc/criu.pb-c.h"

struct criu_call {
	Criu__Request *request;
	const char *work_path; /* of the directory that options.work_dir_fd is, for messages */
	void *context;	       /* for the two that follow */
	/* In CRIU's process, before the program is executed. NULL: nothing to do. */
	int (*prepare)(void *context, struct err *err);
	/*
	 * In the caller, once the program runs, before it gets the request. NULL: nothing to do.
	 * @pid: CRIU's.
	 */
	int (*running)(void *context, pid_t pid, struct err *err);
	/*
	 * CRIU has come to a stage of its work and waits ("post-restore", …).
	 * @pid: of the first process, where there is one.
	 * @fd: what comes with "orphan-pts-master", else -1; the callee's to close.
	 * -1 with err set makes CRIU give up and undo what it did. NULL: nothing to do.
	 */
	int (*stage)(void *context, const char *name, pid_t pid, int fd, struct err *err);
};

/*
 * criu_check() - whether CRIU is there (else err->code is ENOENT) and says that it works here.
 * err must not be NULL. 0, or -1 with err set.
 */
int criu_check(struct err *err);

/*
 * criu_run() - make the call and wait for its end.
 * @restored: the pid of the restored first process, a child of the caller where
 *            options.rst_sibling is set; may be NULL.
 *
 * Returns 0, or -1 with err set to CRIU's own reason.
 */
int criu_run(const struct criu_call *call, pid_t *restored, struct err *err);
