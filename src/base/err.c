/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The error object: text in a fixed buffer. What would not fit is taken out of the middle of the
 * longest word, which is a name that somebody else chose; what was done and why it failed stay.
 */
#include "base/err.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GAP	 "[...]"
#define GAP_SIZE (sizeof(GAP) - 1)
#define KEEP	 32 /* bytes of a word that are left beside the gap, at least */

static bool inside_character(char c)
{
	return (c & 0xc0) == 0x80;
}

/* Puts a gap into the middle of text[start, start + size), which becomes `excess` shorter. */
static void cut_middle(char *text, size_t start, size_t size, size_t excess)
{
	size_t from = start + (size - excess - GAP_SIZE) / 2, to = from + excess + GAP_SIZE;

	/* At the edges of a character, which has four bytes at most. */
	for (size_t i = 0; i < 3 && from > start && inside_character(text[from]); i++)
		from--;
	for (size_t i = 0; i < 3 && inside_character(text[to]); i++)
		to++;
	memcpy(text + from, GAP, GAP_SIZE);
	memmove(text + from + GAP_SIZE, text + to, strlen(text + to) + 1);
}

/* Makes text no longer than max bytes. */
static void shorten(char *text, size_t max)
{
	size_t length;

	while ((length = strlen(text)) > max) {
		size_t excess = length - max, start = 0, size = 0;

		for (size_t at = 0, n; at < length; at += n + 1) {
			n = strcspn(text + at, " ");
			if (n > size) {
				start = at;
				size = n;
			}
		}
		if (size < excess + GAP_SIZE + KEEP) /* many words: then wherever the middle is */
			cut_middle(text, 0, length, excess);
		else
			cut_middle(text, start, size, excess);
	}
}

/* Sets the message to the two texts and what joins them. */
static void put(struct err *err, const char *first, const char *joint, const char *second)
{
	char buffer[4 * ERR_TEXT_MAX], *text = buffer;
	size_t size = strlen(first) + strlen(joint) + strlen(second) + 1;

	if (size > sizeof(buffer))
		text = malloc(size);
	if (!text) {
		text = buffer;
		size = sizeof(buffer);
	}
	snprintf(text, size, "%s%s%s", first, joint, second);
	shorten(text, sizeof(err->text) - 1);
	memcpy(err->text, text, strlen(text) + 1);
	if (text != buffer)
		free(text);
}

/* @buffer: used where the text is no longer. Else it is to be freed. */
static char *format(char buffer[ERR_TEXT_MAX], const char *fmt, va_list ap)
{
	va_list again;
	char *text = NULL;
	int n;

	va_copy(again, ap);
	n = vsnprintf(buffer, ERR_TEXT_MAX, fmt, ap);
	if (n >= ERR_TEXT_MAX && vasprintf(&text, fmt, again) < 0)
		text = NULL;
	va_end(again);
	return text ? text : buffer;
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
	bool described = code > 0 && code < ERR_PROGRAM_NOT_FOUND;
	char buffer[ERR_TEXT_MAX] = "", *text;
	va_list ap;

	if (!err)
		return -1;
	err->code = code;
	va_start(ap, fmt);
	text = format(buffer, fmt, ap);
	va_end(ap);
	put(err, text, described ? ": " : "", described ? strerror(code) : "");
	if (text != buffer)
		free(text);
	return -1;
}

/* Puts more before the message that there is, or behind it. */
static void add(struct err *err, bool before, const char *joint, const char *fmt, va_list ap)
{
	char buffer[ERR_TEXT_MAX] = "", inner[ERR_TEXT_MAX], *text;

	if (!err)
		return;
	memcpy(inner, err->text, sizeof(inner));
	text = format(buffer, fmt, ap);
	put(err, before ? text : inner, joint, before ? inner : text);
	if (text != buffer)
		free(text);
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(err, true, ": ", fmt, ap);
	va_end(ap);
	return -1;
}

int err_hint(struct err *err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	add(err, false, "; ", fmt, ap);
	va_end(ap);
	return -1;
}
