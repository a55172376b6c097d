/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What init says to its parent over a SOCK_SEQPACKET pair: reports, cut after `kind` unless it
 * failed. The parent lets init go on with one byte where init waits for that: at first for its id
 * maps, then where the parent has hooks to run.
 */
#pragma once

#include "base/err.h"

enum report_kind { REPORT_READY, REPORT_FAILED, REPORT_HOOKS };

struct report {
	enum report_kind kind;
	struct err err;
};
