/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Numbers of the specification, which are those of v1, as v2 wants them. */
#pragma once

#include <stdint.h>

/* cpu_weight() - cpu.shares (2 to 262144, others are clamped) to cpu.weight (1 to 10000). */
unsigned int cpu_weight(uint64_t shares);

/* io_weight() - blkio.weight (10 to 1000) to io.weight (1 to 10000). */
unsigned int io_weight(unsigned int weight);
