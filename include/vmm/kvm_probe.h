/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether this machine's KVM can boot a kernel. A /dev/kvm that opens is not enough: some hosts
 * serve it without hardware virtualization, where the kernel's part of a guest is emulated and
 * dies at the first instruction that the emulator lacks.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>

/*
 * kvm_open() - open /dev/kvm and check that it speaks the API of linux/kvm.h.
 * Returns a close-on-exec descriptor, or -1 with err set and what to do about it in the message
 * (code: errno of open(2); ENODEV where there is no such device).
 */
int kvm_open(struct err *err);

/*
 * kvm_probe() - run a guest of a handful of instructions that kernels use, at ring 0.
 * @kvm_fd: from kvm_open(); not kept.
 *
 * Takes some milliseconds. Returns 0; -1 with err set: ENOTSUP where a kernel cannot run, with
 * the reason and what to do; another code where the test itself could not be made.
 */
int kvm_probe(int kvm_fd, struct err *err);

/* kvm_is_emulated() - the module that serves KVM here is one that needs no hardware (kvm_pvm). */
bool kvm_is_emulated(void);
