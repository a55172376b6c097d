/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Properties of a unit, as texts and numbers: what is said to systemd can be tested without one. */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct oci_linux_resources;

struct unit_property {
	char *name;
	/* Of D-Bus: b, i, u, x, t, d, s, or arrays ay, au, as. */
	char signature[3];
	uint64_t number; /* b, i, u, x, t; negative ones in two's complement */
	double real;	 /* d */
	char *bytes;	 /* s: a string; arrays: the elements, strings one after the other */
	size_t size;	 /* arrays: bytes, with the strings' final NULs */
};

struct unit_properties {
	struct unit_property *items;
	size_t count;
};

void unit_properties_free(struct unit_properties *properties);

void unit_add_number(struct unit_properties *properties, const char *name, char type,
		     uint64_t number);
void unit_add_string(struct unit_properties *properties, const char *name, const char *text);

/* unit_add_limits() - what linux.resources come to, as far as systemd knows it. 0, or -1. */
int unit_add_limits(struct unit_properties *properties, const struct oci_linux_resources *resources,
		    struct err *err);

/*
 * unit_add_text() - a property from an annotation, whose value is GVariant's text format
 * ("uint64 90", "'text'", "['a', 'b']"). NAMESec with seconds becomes NAMEUSec.
 */
int unit_add_text(struct unit_properties *properties, const char *name, const char *text,
		  struct err *err);
