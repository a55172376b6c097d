/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a seccomp filter answers, found out without running it in the kernel. */
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>

#define BPF_CAN_ALLOW  1u
#define BPF_CAN_REFUSE 2u

/*
 * bpf_answers() - which answers a filter can give to a call: bits of the above.
 * @known: data->args are those of one call; else the answers for any arguments.
 *
 * What is not understood counts as both. To trace and to notify are both as well: others decide.
 */
unsigned int bpf_answers(const struct sock_filter *insns, size_t count,
			 const struct seccomp_data *data, bool known);
