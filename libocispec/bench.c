/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long a config.json takes to be parsed and written; not built unless asked for.
 * Run: ninja -C build libocispec/oci_bench && build/libocispec/oci_bench config.json
 */
#include "oci/config.h"

#include "base/file.h"
#include "base/json.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#define ROUNDS 1000

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	_cleanup_free_ char *text = NULL;
	double parsing = 0, writing = 0, start;
	struct err err;
	size_t size = 0;

	if (argc != 2)
		return fprintf(stderr, "usage: oci_bench config.json\n"), 2;
	text = file_read(AT_FDCWD, argv[1], JSON_SIZE_MAX, &size, &err);
	if (!text)
		return fprintf(stderr, "oci_bench: %s\n", err.text), 1;
	for (int i = 0; i < ROUNDS; i++) {
		_cleanup_(oci_config_free_pointer) struct oci_config *config = NULL;
		_cleanup_free_ char *again = NULL;

		start = seconds();
		config = oci_config_parse(text, size, argv[1], &err);
		parsing += seconds() - start;
		if (!config)
			return fprintf(stderr, "oci_bench: %s\n", err.text), 1;
		start = seconds();
		again = oci_config_write(config, NULL);
		writing += seconds() - start;
	}
	printf("%zu bytes: parse %.0f us, write %.0f us\n", size, parsing / ROUNDS * 1e6,
	       writing / ROUNDS * 1e6);
	return 0;
}
