/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Entropy device (virtio 1.2, 5.4): fills the guest's buffers from getrandom(2). */
#pragma once

#include "vmm/device.h"

/* rng_init() - a device without state of its own. */
void rng_init(struct device *device);
