/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Properties of a unit out of annotations: a part of GVariant's text format (GLib, "GVariant Text
 * Format"): numbers, booleans, strings, and arrays of strings and of 32-bit numbers, with the type
 * in front where it is not the default.
 */
#include "cgroup/systemd_properties.h"

#include "base/mem.h"
#include "base/str.h"
#include "cgroup/systemd.h"

#include <ctype.h>
#include <stdio.h>

/* What a type's name stands for, and its range. */
static const struct {
	const char *name;
	char type;
	int64_t min;
	uint64_t max;
} types[] = {
	{ "int32", 'i', INT32_MIN, INT32_MAX },
	{ "uint32", 'u', 0, UINT32_MAX },
	{ "int64", 'x', INT64_MIN, INT64_MAX },
	{ "uint64", 't', 0, UINT64_MAX },
	{ "boolean", 'b', 0, 0 },
	{ "string", 's', 0, 0 },
	{ "double", 'd', 0, 0 },
	{ "@as", 'A', 0, 0 },
};

struct text {
	const char *p;
	char type; /* that is asked for; 0: by the value */
};

static void skip_blanks(struct text *text)
{
	while (*text->p == ' ' || *text->p == '\t')
		text->p++;
}

static void read_type(struct text *text)
{
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		size_t n = strlen(types[i].name);

		if (strncmp(text->p, types[i].name, n) == 0 && text->p[n] == ' ') {
			text->type = types[i].type;
			text->p += n;
			skip_blanks(text);
			return;
		}
	}
}

/* A string in quotes; returns it, to be freed, or NULL. */
static char *read_string(struct text *text)
{
	char quote = *text->p, *out, *end;

	if (quote != '\'' && quote != '"')
		return NULL;
	out = end = xstrdup(++text->p);
	while (*text->p && *text->p != quote) {
		if (*text->p == '\\' && (text->p[1] == '\\' || text->p[1] == quote))
			text->p++;
		*end++ = *text->p++;
	}
	*end = '\0';
	if (*text->p != quote) {
		free(out);
		return NULL;
	}
	text->p++;
	return out;
}

static bool read_strings(struct text *text, struct unit_property *p)
{
	memcpy(p->signature, "as", 3);
	text->p++;
	for (skip_blanks(text); *text->p != ']'; skip_blanks(text)) {
		_cleanup_free_ char *one = read_string(text);
		size_t n = one ? strlen(one) + 1 : 0;

		if (!one)
			return false;
		p->bytes = xrealloc(p->bytes, p->size + n, 1);
		memcpy(p->bytes + p->size, one, n);
		p->size += n;
		skip_blanks(text);
		if (*text->p == ',')
			text->p++;
		else if (*text->p != ']')
			return false;
	}
	text->p++;
	return true;
}

static bool read_integer(const char *word, char type, struct unit_property *p)
{
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		int64_t number;

		if (types[i].type != type)
			continue;
		if (types[i].min == 0)
			return str_to_u64(word, types[i].max, &p->number) == 0;
		if (str_to_i64(word, &number) < 0 || number < types[i].min ||
		    (number > 0 && (uint64_t)number > types[i].max))
			return false;
		p->number = (uint64_t)number;
		return true;
	}
	return false;
}

static bool read_word(struct text *text, struct unit_property *p)
{
	size_t n = strcspn(text->p, " \t,]");
	_cleanup_free_ char *word = xstrdup(text->p);
	char *end;

	word[n] = '\0';
	text->p += n;
	if ((!text->type || text->type == 'b') && (str_eq(word, "true") || str_eq(word, "false"))) {
		p->signature[0] = 'b';
		p->number = str_eq(word, "true");
		return true;
	}
	if (text->type == 'd' || (!text->type && strchr(word, '.'))) {
		p->signature[0] = 'd';
		p->real = strtod(word, &end);
		return end != word && !*end;
	}
	p->signature[0] = text->type ? text->type : 'i';
	return read_integer(word, p->signature[0], p);
}

static bool read_value(struct text *text, struct unit_property *p)
{
	skip_blanks(text);
	read_type(text);
	if (*text->p == '[' && (!text->type || text->type == 'A'))
		return read_strings(text, p);
	if (*text->p == '\'' || *text->p == '"') {
		p->signature[0] = 's';
		p->bytes = !text->type || text->type == 's' ? read_string(text) : NULL;
		return p->bytes;
	}
	return text->type != 's' && text->type != 'A' && read_word(text, p);
}

/* "TimeoutStopSec" is a property of unit files; on the bus it is in microseconds. */
static bool to_microseconds(struct unit_property *p)
{
	double seconds = (double)p->number;

	switch (p->signature[0]) {
	case 'i':
	case 'x':
		if ((int64_t)p->number < 0)
			return false;
		break;
	case 'd':
		seconds = p->real;
		break;
	case 'u':
	case 't':
		break;
	default:
		return false;
	}
	if (!(seconds >= 0 && seconds < 1e12))
		return false;
	p->signature[0] = 't';
	p->number = (uint64_t)(seconds * 1e6);
	return true;
}

bool systemd_annotation_has_name(const char *annotation)
{
	const char *name = annotation + strlen(SYSTEMD_ANNOTATION);

	return *name && !name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")];
}

int unit_add_text(struct unit_properties *properties, const char *name, const char *text,
		  struct err *err)
{
	size_t n = strlen(name);
	bool seconds = str_ends_with(name, "Sec") && !str_ends_with(name, "USec");
	struct unit_property p = { .name = seconds ? xasprintf("%.*sUSec", (int)(n - 3), name)
						   : xstrdup(name) };
	struct text rest = { .p = text };
	bool good = read_value(&rest, &p);

	skip_blanks(&rest);
	if (!good || *rest.p || (seconds && !to_microseconds(&p))) {
		free(p.name);
		free(p.bytes);
		return err_set(err, 0,
			       "annotation org.systemd.property.%.64s: cannot read '%.64s': "
			       "expected a value as in \"uint64 5\", \"true\", \"'text'\" or "
			       "\"['a', 'b']\"",
			       name, text);
	}
	properties->items =
		xrealloc(properties->items, properties->count + 1, sizeof(*properties->items));
	properties->items[properties->count++] = p;
	return 0;
}
