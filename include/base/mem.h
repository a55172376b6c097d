/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory: allocation that ends the process when there is none, and scoped release.
 * Nothing here may be called with a size that a guest named and nobody bounded.
 */
#pragma once

#include <stddef.h>
#include <stdlib.h>

#define _cleanup_(f)   __attribute__((cleanup(f)))
#define _cleanup_free_ _cleanup_(free_pointer)

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static inline void free_pointer(void *p)
{
	free(*(void **)p);
}

/* steal() - take a pointer out of a variable with a cleanup attribute; the caller owns it now. */
#define steal(p)                                                                                   \
	({                                                                                         \
		__typeof__(p) _stolen = (p);                                                       \
		(p) = NULL;                                                                        \
		_stolen;                                                                           \
	})

/* DEFINE_CLEANUP() - makes `func_pointer`, for _cleanup_(), out of a destructor that takes NULL. */
#define DEFINE_CLEANUP(type, func)                                                                 \
	static inline void func##_pointer(type **p)                                                \
	{                                                                                          \
		func(*p);                                                                          \
	}

void *xcalloc(size_t count, size_t size);
/* xrealloc() - resize an array to count elements of size bytes each; new ones are not zeroed. */
void *xrealloc(void *p, size_t count, size_t size);
char *xstrdup(const char *s);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
