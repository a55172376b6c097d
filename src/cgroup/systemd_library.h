/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The functions of libsystemd that are used, found when they are first needed. */
#pragma once

#include "base/err.h"

#include <systemd/sd-bus.h>

#define SYSTEMD_FUNCTIONS(f)                                                                       \
	f(sd_bus_new) f(sd_bus_set_address) f(sd_bus_start) f(sd_bus_open_system)                  \
		f(sd_bus_open_user) f(sd_bus_flush_close_unref) f(sd_bus_message_new_method_call)  \
			f(sd_bus_message_append_basic) f(sd_bus_message_append_array)              \
				f(sd_bus_message_open_container) f(sd_bus_message_close_container) \
					f(sd_bus_message_read_basic) f(sd_bus_message_unref)       \
						f(sd_bus_call) f(sd_bus_error_free)                \
							f(sd_bus_message_enter_container)          \
								f(sd_bus_add_match)                \
									f(sd_bus_process)          \
										f(sd_bus_wait)

struct systemd_library {
#define SYSTEMD_MEMBER(name) __typeof__(&name) name;
	SYSTEMD_FUNCTIONS(SYSTEMD_MEMBER)
#undef SYSTEMD_MEMBER
};

/* systemd_library() - the same each time, or NULL with err set. */
const struct systemd_library *systemd_library(struct err *err);
