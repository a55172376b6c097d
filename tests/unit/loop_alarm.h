/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A loop with a deadline, for unit tests. */
#pragma once

#include "base/loop.h"

/*
 * loop_run_for() - handle events until a callback quits the loop; false where `ms` pass first. What
 * goes wrong fails the test.
 */
bool loop_run_for(struct loop *loop, unsigned int ms);
