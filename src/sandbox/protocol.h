/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What init says to its parent over a SOCK_SEQPACKET pair: one report, cut after `failed` when all
 * went well. The parent releases init with one byte where init waits for that.
 */
#pragma once

#include "base/err.h"

struct report {
	int failed;
	struct err err;
};
