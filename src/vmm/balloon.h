/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory balloon (virtio 1.2, 5.5): the guest's free pages go back to the host. */
#pragma once

#include "vmm/device.h"

/* balloon_init() - a device without state of its own. */
void balloon_init(struct device *device);
