/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes files through shared mappings and leaves all else to the kernel: no msync(2), no
 * munmap(2). Says "written", and ends, or with --stay waits to be killed.
 *
 * usage: dirty [--stay] FILE...
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE  4096
#define PAGES 1024

/* Each page has its number at its begin and at its end. */
static int write_pages(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
	uint32_t *page;

	if (fd < 0 || ftruncate(fd, PAGES * PAGE) < 0)
		return -1;
	page = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -1;
	for (uint32_t i = 0; i < PAGES; i++, page += PAGE / sizeof(*page))
		page[0] = page[PAGE / sizeof(*page) - 1] = i + 1;
	return 0;
}

int main(int argc, char **argv)
{
	int stay = argc > 1 && strcmp(argv[1], "--stay") == 0;

	for (int i = 1 + stay; i < argc; i++) {
		if (write_pages(argv[i]) < 0) {
			perror(argv[i]);
			return 1;
		}
	}
	puts("written");
	fflush(stdout);
	while (stay)
		pause();
	return 0;
}
