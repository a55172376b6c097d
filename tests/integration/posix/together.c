/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Those who only write a file, and what others see of it meanwhile who read it or map it. */
#include "check.h"

#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#define PAGE  4096
#define PARTS 700 /* of one write: more than a request has pages */

static volatile const char *map(int fd, int flags)
{
	void *at = mmap(NULL, 4L * PAGE, PROT_READ, flags, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* A writer that was alone before the others came: they see each of its writes at once. */
static void seen_by_others(int writer)
{
	int reader = open("f", O_RDONLY), both = open("f", O_RDWR);
	volatile const char *shared = map(reader, MAP_SHARED), *private = map(reader, MAP_PRIVATE);
	int sent = open_new("sent");
	char text[16];

	tell("mapped", "%d %d", shared != NULL, private != NULL);
	if (!shared || !private)
		return;
	tell("maps", "%c %c", shared[1], private[1]);
	tell_text("read", text, pread(reader, text, 4, 0));
	tell_number("write", pwrite(writer, "AB", 2, 1));
	tell("maps_then", "%c %c", shared[1], private[1]);
	tell_text("read_then", text, pread(reader, text, 4, 0));
	tell_number("write_by_other", pwrite(both, "C", 1, 3));
	tell_text("read_other", text, pread(reader, text, 4, 0));
	tell("map_of_other", "%c", shared[3]);
	tell_number("sendfile", sendfile(sent, reader, &(off_t){ 0 }, 4));
	tell_file("sent", "sent");
	/* Right behind the end, and a page further. */
	tell_number("grow", pwrite(writer, "end", 3, lseek(reader, 0, SEEK_END)));
	tell_text("grown", text, pread(reader, text, 16, 8));
	tell_number("grow_far", pwrite(writer, "far", 3, 2L * PAGE));
	tell("grown_far", "%c %d", shared[2 * PAGE], shared[PAGE]);
	tell_call("truncate", ftruncate(writer, PAGE));
	tell_call("extend", ftruncate(writer, 3L * PAGE));
	tell("truncated", "%d", shared[2 * PAGE]);
	tell_number("copy", copy_file_range(reader, &(off_t){ 0 }, writer, &(off_t){ PAGE }, 4, 0));
	tell("copied", "%c", shared[PAGE + 3]);
}

/* What is written to the file is mapped from the file. */
static void from_itself(int writer)
{
	volatile const char *at = map(open("f", O_RDONLY), MAP_SHARED);
	char text[8];

	if (!at)
		return;
	tell_number("own_bytes", pwrite(writer, (const char *)at, PAGE, PAGE));
	tell_text("own_copied", text, pread(open("f", O_RDONLY), text, 4, PAGE));
}

static void odd_buffers(void)
{
	static char bytes[PARTS * 8];
	static struct iovec parts[PARTS];
	int writer = open("odd", O_CREAT | O_WRONLY, 0644);
	char *end =
		mmap(NULL, 2L * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char text[8];

	mprotect(end + PAGE, PAGE, PROT_NONE);
	tell_number("half_there", write(writer, end, 2L * PAGE));
	tell_number("not_there", write(writer, end + PAGE, PAGE));
	tell_size("half_size", "odd");
	for (int i = 0; i < PARTS; i++) {
		bytes[8 * i] = (char)('a' + i % 26);
		bytes[8 * i + 1] = '-';
		parts[i] = (struct iovec){ bytes + 8 * i, 2 };
	}
	tell_number("many_parts", pwritev(writer, parts, PARTS, 1));
	tell_text("last_part", text, pread(open("odd", O_RDONLY), text, 3, 1 + 2 * (PARTS - 1)));
	tell_number("sync", pwritev2(writer, parts, 2, 0, RWF_SYNC));
	tell_number("dsync", pwritev2(writer, parts, 2, 1, RWF_DSYNC));
	tell_number("append", pwritev2(writer, parts, 2, 0, RWF_APPEND));
	tell_file("odd", "odd");
	tell_size("odd_size", "odd");
}

void group_together(void)
{
	int writer = open("f", O_CREAT | O_WRONLY, 0644), appender;

	tell_number("first", write(writer, "0123456789", 10));
	seen_by_others(writer);
	from_itself(writer);
	odd_buffers();
	writer = open("log", O_CREAT | O_WRONLY | O_APPEND, 0644);
	appender = open("log", O_WRONLY | O_APPEND);
	tell_number("log_1", write(writer, "one", 3));
	tell_number("log_2", write(appender, "two", 3));
	tell_number("log_3", write(writer, "three", 5));
	tell_file("log", "log");
	tell_call("log_truncate", truncate("log", 0));
	tell_number("log_4", write(appender, "four", 4));
	tell_file("log_then", "log");
}
