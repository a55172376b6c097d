/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What files hold: reads, writes, sizes, holes, allocation, copies. */
#include "check.h"

#include <linux/falloc.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#define MIB (1L << 20)

void group_content(void)
{
	void *volatile nowhere = (void *)8;
	char text[64];
	int fd = open_new("f");

	tell_number("write", write(fd, "0123456789", 10));
	tell_number("read_at_end", read(fd, text, 10));
	tell_number("seek_set", lseek(fd, 3, SEEK_SET));
	tell_text("read", text, read(fd, text, 3));
	tell_number("seek_cur", lseek(fd, -1, SEEK_CUR));
	tell_number("seek_end", lseek(fd, 0, SEEK_END));
	tell_number("seek_before", lseek(fd, -1, SEEK_SET));
	tell_number("seek_beyond", lseek(fd, 100, SEEK_SET));
	tell_number("read_beyond", read(fd, text, 10));
	tell_size("not_grown", "f");
	tell_number("pread", pread(fd, text, 20, 5));
	tell_number("pwrite", pwrite(fd, "AB", 2, 2));
	tell_number("pwrite_beyond", pwrite(fd, "Z", 1, 20));
	tell_file("then", "f");
	tell_number("pread_negative", pread(fd, text, 1, -1));
	tell_number("write_nothing", write(fd, "", 0));
	tell_call("shrink", ftruncate(fd, 4));
	tell_file("shrunk", "f");
	tell_call("grow", ftruncate(fd, 8));
	tell_file("grown", "f");
	tell_call("truncate_negative", truncate("f", -1));
	tell_call("truncate_dir", truncate(".", 0));
	tell_call("truncate_missing", truncate("none", 0));
	tell_number("read_bad_address", pread(fd, nowhere, 4, 0));
	tell_number("write_bad_address", pwrite(fd, nowhere, 4, 0));
	tell_file("after_bad_address", "f");
	tell_call("fsync", fsync(fd));
	tell_call("fdatasync", fdatasync(fd));
	tell_call("sync_range", sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
	tell_call("advise", posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	tell_call("readahead", readahead(fd, 0, 4096));
}

void group_appending(void)
{
	char text[64];
	int fd = open("f", O_CREAT | O_RDWR | O_APPEND, 0644), other = open("f", O_RDWR | O_APPEND);

	tell_number("first", write(fd, "one", 3));
	tell_number("second", write(other, "two", 3));
	tell_number("third", write(fd, "three", 5));
	tell_file("all", "f");
	tell_number("position", lseek(fd, 0, SEEK_CUR));
	tell_number("pwrite_at_0", pwrite(fd, "P", 1, 0));
	tell_file("after_pwrite", "f");
	tell_call("truncate", ftruncate(fd, 2));
	tell_number("after_truncate", write(other, "x", 1));
	tell_file("then", "f");
	lseek(fd, 0, SEEK_SET);
	tell_text("read_from_0", text, read(fd, text, sizeof(text)));
	fcntl(other, F_SETFL, 0);
	tell_number("no_append_now", pwrite(other, "Q", 1, 0));
	tell_file("overwritten", "f");
}

void group_sparse(void)
{
	char text[16];
	int fd = open_new("f");

	tell_number("write_at_4m", pwrite(fd, "end", 3, 4 * MIB));
	tell_size("size", "f");
	tell_number("hole_from_0", lseek(fd, 0, SEEK_HOLE));
	tell_number("data_from_0", lseek(fd, 0, SEEK_DATA));
	tell_number("hole_from_data", lseek(fd, 4 * MIB, SEEK_HOLE));
	tell_number("data_beyond", lseek(fd, 5 * MIB, SEEK_DATA));
	tell_number("hole_beyond", lseek(fd, 5 * MIB, SEEK_HOLE));
	tell_text("read_hole", text, pread(fd, text, 4, MIB));
	tell_number("write_at_1m", pwrite(fd, "middle", 6, MIB));
	tell_number("data_first", lseek(fd, 0, SEEK_DATA));
	tell_number("hole_then", lseek(fd, MIB, SEEK_HOLE));
	tell_number("data_second", lseek(fd, 2 * MIB, SEEK_DATA));
	tell_call("truncate_into", ftruncate(fd, 2 * MIB));
	tell_number("data_left", lseek(fd, MIB + 8192, SEEK_DATA));
	tell_call("large", ftruncate(fd, 1L << 40));
	tell_size("large_size", "f");
	tell_number("large_pread", pread(fd, text, 1, (1L << 40) - 1));
	tell_number("large_pwrite", pwrite(fd, "x", 1, (1L << 32) + 5));
	tell_text("large_read", text, pread(fd, text, 3, (1L << 32) + 4));
	tell_call("back", ftruncate(fd, 0));
	tell_size("empty", "f");
}

static void allocate(const char *name, int fd, int mode, off_t offset, off_t size)
{
	char what[64];

	snprintf(what, sizeof(what), "%s_size", name);
	tell_call(name, fallocate(fd, mode, offset, size));
	tell_size(what, "f");
}

void group_allocation(void)
{
	char text[16], block[4096];
	int fd = open_new("f");

	memset(block, 'b', sizeof(block));
	allocate("extend", fd, 0, 0, 65536);
	allocate("keep_size", fd, FALLOC_FL_KEEP_SIZE, 65536, 65536);
	for (off_t at = 0; at < 65536; at += 4096)
		pwrite(fd, block, sizeof(block), at);
	allocate("punch", fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 8192);
	tell_text("punched", text, pread(fd, text, 2, 8191));
	tell_number("punched_hole", lseek(fd, 0, SEEK_HOLE));
	tell_number("punched_data", lseek(fd, 8192, SEEK_DATA));
	allocate("punch_without_keep", fd, FALLOC_FL_PUNCH_HOLE, 0, 4096);
	allocate("punch_part", fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100, 10);
	tell_text("punched_part", text, pread(fd, text, 12, 99));
	allocate("no_length", fd, 0, 0, 0);
	allocate("negative", fd, 0, -1, 10);
	allocate("unknown_mode", fd, 0x4000, 0, 10);
	tell_call("readonly_fd", fallocate(open("f", O_RDONLY), 0, 0, 10));
	tell_call("directory", fallocate(open(".", O_RDONLY), 0, 0, 10));
	tell_call("posix", posix_fallocate(fd, 100000, 10000));
	tell_size("posix_size", "f");
}

void group_copies(void)
{
	char text[64];
	off_t from = 0, to = 0;
	int in, out = open_new("out"), pipes[2];

	make("in", "abcdefghijklmnopqrstuvwxyz", 0644);
	in = open("in", O_RDONLY);
	tell_number("range", copy_file_range(in, &from, out, &to, 10, 0));
	tell("range_moved", "%jd %jd", (intmax_t)from, (intmax_t)to);
	tell_file("range_copied", "out");
	tell_number("range_to_end", copy_file_range(in, &from, out, &to, 1000, 0));
	tell_file("range_all", "out");
	tell_number("range_at_end", copy_file_range(in, &from, out, &to, 10, 0));
	from = 0, to = 100;
	tell_number("range_beyond", copy_file_range(in, &from, out, &to, 5, 0));
	tell_size("range_beyond_size", "out");
	from = 0, to = 2;
	tell_number("range_overlap", copy_file_range(out, &from, out, &to, 10, 0));
	from = 0, to = 200;
	tell_number("range_same_file", copy_file_range(out, &from, out, &to, 10, 0));
	tell_number("range_flags", copy_file_range(in, NULL, out, NULL, 10, 1));
	tell_number("range_to_readonly", copy_file_range(out, NULL, in, NULL, 10, 0));
	tell_number("range_to_append",
		    copy_file_range(in, NULL, open("ap", O_CREAT | O_WRONLY | O_APPEND, 0600), NULL,
				    5, 0));
	tell_number("range_of_dir", copy_file_range(open(".", O_RDONLY), NULL, out, NULL, 5, 0));
	ftruncate(out, 0);
	lseek(out, 0, SEEK_SET);
	from = 3;
	tell_number("sendfile", sendfile(out, in, &from, 5));
	tell_file("sent", "out");
	if (pipe(pipes) < 0)
		exit(1);
	from = 20;
	tell_number("splice_in", splice(in, &from, pipes[1], NULL, 6, 0));
	tell_number("splice_out", splice(pipes[0], NULL, out, NULL, 6, 0));
	tell_file("spliced", "out");
	write(pipes[1], "vm", 2);
	tell_number("splice_at", splice(pipes[0], NULL, out, &(off_t){ 0 }, 2, 0));
	tell_text("spliced_at", text, pread(out, text, sizeof(text), 0));
}

void group_vectors(void)
{
	char a[4] = { 0 }, b[8] = { 0 };
	struct iovec iov[2] = { { "one", 3 }, { "two", 3 } };
	struct iovec in[2] = { { a, 2 }, { b, 8 } };
	static const struct iovec many[1025];
	int fd = open_new("f");

	tell_number("writev", writev(fd, iov, 2));
	tell_number("pwritev", pwritev(fd, iov, 2, 10));
	tell_number("preadv", preadv(fd, in, 2, 0));
	tell_text("read_a", a, 2);
	tell_text("read_b", b, 8);
	tell_number("pwritev2_append", pwritev2(fd, iov, 1, 0, RWF_APPEND));
	tell_size("appended", "f");
	tell_number("pwritev2_dsync", pwritev2(fd, iov, 1, 0, RWF_DSYNC));
	tell_number("pwritev2_sync", pwritev2(fd, iov, 1, 0, RWF_SYNC));
	tell_number("pwritev2_current", pwritev2(fd, iov, 1, -1, 0));
	tell_number("pwritev2_unknown", pwritev2(fd, iov, 1, 0, 1 << 20));
	tell_number("preadv2_hipri", preadv2(fd, in, 1, 0, RWF_HIPRI));
	tell_number("writev_none", writev(fd, iov, 0));
	tell_number("writev_too_many", writev(fd, many, 1025));
	tell_file("then", "f");
}

void group_direct(void)
{
	char *block = aligned_alloc(4096, 8192), text[16];
	int fd = open("f", O_CREAT | O_RDWR | O_DIRECT, 0644), cached;

	memset(block, 'd', 8192);
	tell_call("open", fd);
	if (fd < 0)
		return;
	cached = open("f", O_RDWR);
	tell_number("write", pwrite(fd, block, 8192, 0));
	tell_text("seen_by_cached", text, pread(cached, text, 2, 4095));
	tell_number("cached_write", pwrite(cached, "CC", 2, 0));
	tell_number("read", pread(fd, block, 4096, 0));
	tell_text("direct_sees_it", block, 4);
	memset(block, 'e', 8192);
	tell_number("write_again", pwrite(fd, block, 4096, 0));
	tell_text("cached_sees_it", text, pread(cached, text, 2, 0));
	tell_number("read_at_end", pread(fd, block, 4096, 8192));
	tell_number("extend", pwrite(fd, block, 4096, 16384));
	tell_size("extended", "f");
	tell_call("setfl_off", fcntl(fd, F_SETFL, 0));
	tell_number("buffered_now", pwrite(fd, "odd", 3, 1));
	tell_text("buffered_seen", text, pread(cached, text, 5, 0));
}
