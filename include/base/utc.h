/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Times as RFC 3339 writes them, always in UTC. */
#pragma once

#include <stddef.h>
#include <time.h>

#define UTC_SIZE 48 /* bytes of any time, its end included */

/*
 * utc_format() - "2026-12-01T04:20:00.123456789Z" for a time since 1970, with that many digits (0
 * to 9) of its fraction, the rest of which is cut off.
 *
 * The C library's gmtime_r(3) and strftime(3) look for the file of the local time zone first: a
 * handful of system calls, which a process in a jail must not make.
 */
void utc_format(const struct timespec *at, unsigned int digits, char text[UTC_SIZE]);
