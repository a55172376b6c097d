/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The workload of tests/bench/file-work: what people do with files, each step timed by itself, with
 * the guest's caches empty before a step that is cold. Steps that move much data are done twice,
 * and the second time counts: memory that a guest, or its file server, uses for the first time
 * costs faults, and that is another question than the way of the data.
 *
 * usage: files DIRECTORY MIB >RESULTS
 *
 * DIRECTORY has source.tar, a work tree of git. A line a step: "NAME SECONDS".
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096
#define CHUNK (1 << 20)
#define READS 300

static char *buffer;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void run(char *const argv[])
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(null, 1);
		execvp(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
		fail(argv[0]);
}

static void untar(void)
{
	run((char *[]){ "busybox", "tar", "-xf", "source.tar", NULL });
}

static void find(void)
{
	run((char *[]){ "busybox", "find", "source", "-type", "f", "-size", "+1000", NULL });
}

static void git_status(void)
{
	run((char *[]){ "git", "-C", "source", "status", "--porcelain", NULL });
}

static void read_random(int flags)
{
	int fd = open("data", O_RDONLY | flags);
	off_t size = lseek(fd, 0, SEEK_END);
	uint32_t x = 12345;

	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	for (int i = 0; i < READS; i++) {
		x = x * 1664525 + 1013904223;
		if (pread(fd, buffer, BLOCK, (off_t)(x >> 4) % (size / BLOCK) * BLOCK) != BLOCK)
			fail("read");
	}
	close(fd);
}

static void random_reads(void)
{
	read_random(0);
}

static void random_direct(void)
{
	read_random(O_DIRECT);
}

static void read_whole(void)
{
	int fd = open("data", O_RDONLY);
	ssize_t n;

	while ((n = read(fd, buffer, CHUNK)) > 0)
		;
	if (fd < 0 || n < 0)
		fail("read");
	close(fd);
}

static int mib;

static void write_whole(void)
{
	int fd = open("data", O_WRONLY | O_CREAT | O_TRUNC, 0644);

	for (int i = 0; i < mib; i++)
		if (write(fd, buffer, CHUNK) != CHUNK)
			fail("write");
	close(fd);
}

static void remove_tree(void)
{
	run((char *[]){ "busybox", "rm", "-rf", "source", NULL });
}

enum {
	COLD = 1 << 0,
	TWICE = 1 << 1,
};

static const struct {
	const char *name;
	void (*run)(void);
	int how;
} steps[] = {
	{ "untar", untar, COLD },
	{ "find,_cold", find, COLD },
	{ "find,_again", find, 0 },
	{ "git_status,_cold", git_status, COLD },
	{ "git_status,_again", git_status, 0 },
	{ "write,_1_MiB_blocks", write_whole, COLD | TWICE },
	{ "read,_1_MiB_blocks,_cold", read_whole, COLD | TWICE },
	{ "random_4_KiB_reads,_cold", random_reads, COLD },
	{ "random_4_KiB_reads,_direct", random_direct, COLD },
	{ "rm_-r", remove_tree, COLD },
};

static void drop_caches(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY);

	sync();
	if (fd < 0 || write(fd, "3", 1) != 1)
		fail("/proc/sys/vm/drop_caches");
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc != 3 || chdir(argv[1]) < 0) {
		fprintf(stderr, "usage: files DIRECTORY MIB >RESULTS\n");
		return 2;
	}
	mib = atoi(argv[2]);
	buffer = aligned_alloc(BLOCK, CHUNK);
	memset(buffer, 'x', CHUNK);
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		double start;

		if (steps[i].how & TWICE)
			steps[i].run();
		if (steps[i].how & COLD) {
			drop_caches();
			/* The program itself is warm. */
			run(steps[i].run == git_status ? (char *[]){ "git", "version", NULL }
						       : (char *[]){ "busybox", "true", NULL });
		}
		start = now();
		steps[i].run();
		printf("%s %.6f\n", steps[i].name, now() - start);
	}
	return 0;
}
