/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names: hard links, symlinks, renames, limits of names and paths. */
#include "check.h"

#include <limits.h>
#include <linux/fs.h>
#include <sys/syscall.h>

static long nlink_of(const char *path)
{
	struct stat st;

	return lstat(path, &st) < 0 ? -1 : (long)st.st_nlink;
}

static bool same_inode(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_ino == y.st_ino && x.st_dev == y.st_dev;
}

void group_links(void)
{
	char text[256];
	int fd;

	make("f", "text", 0644);
	tell_call("link", link("f", "g"));
	tell_number("count", nlink_of("f"));
	tell("same_inode", "%d", same_inode("f", "g"));
	tell_call("link_exists", link("f", "g"));
	tell_call("link_missing", link("none", "h"));
	make_dir("d", 0755);
	tell_call("link_directory", link("d", "e"));
	tell_call("write_through", write(open("g", O_WRONLY), "TE", 2));
	tell_file("read_through", "f");
	tell_call("unlink_first", unlink("f"));
	tell_number("count_then", nlink_of("g"));
	tell_call("symlink", symlink("g", "s"));
	tell_mode("symlink_mode", "s");
	tell_text("readlink", text, readlink("s", text, sizeof(text)));
	tell_text("readlink_truncated", text, readlink("s", text, 0 + 1));
	tell_number("readlink_zero", readlink("s", text, 0));
	tell_number("readlink_file", readlink("g", text, sizeof(text)));
	tell_size("symlink_size", "s");
	tell_call("symlink_exists", symlink("g", "s"));
	tell_call("symlink_empty", symlink("", "s0"));
	tell_call("dangling", symlink("nowhere", "dangling"));
	tell_call("dangling_open", open("dangling", O_RDONLY));
	tell_call("dangling_create", open("dangling", O_CREAT | O_WRONLY, 0644));
	tell_mode("dangling_created", "nowhere");
	tell_call("dangling_excl", open("dangling", O_CREAT | O_EXCL | O_WRONLY, 0644));
	tell_call("loop_a", symlink("loop_b", "loop_a"));
	tell_call("loop_b", symlink("loop_a", "loop_b"));
	tell_call("loop_open", open("loop_a", O_RDONLY));
	tell_call("loop_stat", access("loop_a/x", F_OK));
	tell_call("nofollow", open("s", O_RDONLY | O_NOFOLLOW));
	tell_call("nofollow_path", fd = open("s", O_PATH | O_NOFOLLOW));
	tell_text("readlinkat_empty", text, readlinkat(fd, "", text, sizeof(text)));
	tell_call("link_to_symlink", link("s", "s2"));
	tell_mode("linked_symlink", "s2");
	tell_number("symlink_count", nlink_of("s"));
	tell_call("linkat_follow", linkat(AT_FDCWD, "s", AT_FDCWD, "followed", AT_SYMLINK_FOLLOW));
	tell_mode("linked_followed", "followed");
	tell_call("trailing_slash_file", access("g/", F_OK));
	tell_call("through_file", access("g/x", F_OK));
	memset(text, 'a', sizeof(text));
	text[255] = '\0';
	tell_call("symlink_long", symlink(text, "long"));
	tell_number("symlink_long_length", readlink("long", text, sizeof(text)));
	tell_number("dir_count", nlink_of("d"));
	mkdir("d/sub", 0755);
	tell_number("dir_count_with_one", nlink_of("d"));
}

static long exchange(const char *a, const char *b, unsigned int flags)
{
	return syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, flags);
}

void group_renames(void)
{
	int fd;

	make("a", "A", 0644);
	make("b", "B", 0644);
	make_dir("d", 0755);
	make_dir("e", 0755);
	make_dir("full", 0755);
	make("full/x", "", 0644);
	tell_call("rename", rename("a", "c"));
	tell_call("old_is_gone", access("a", F_OK));
	tell_call("replace", rename("c", "b"));
	tell_file("replaced", "b");
	tell_call("to_itself", rename("b", "b"));
	tell_call("missing", rename("none", "z"));
	tell_call("file_over_dir", rename("b", "d"));
	tell_call("dir_over_file", rename("d", "b"));
	tell_call("dir_over_empty", rename("d", "e"));
	tell_call("dir_over_full", rename("e", "full"));
	tell_call("dir_into_itself", rename("full", "full/y"));
	tell_call("dot", rename(".", "q"));
	make("n1", "1", 0644);
	make("n2", "2", 0644);
	tell_call("noreplace", exchange("n1", "n2", RENAME_NOREPLACE));
	tell_call("noreplace_free", exchange("n1", "n3", RENAME_NOREPLACE));
	tell_call("exchange", exchange("n3", "n2", RENAME_EXCHANGE));
	tell_file("exchanged_a", "n2");
	tell_file("exchanged_b", "n3");
	tell_call("exchange_file_dir", exchange("n3", "full", RENAME_EXCHANGE));
	tell_file("exchanged_file", "full");
	tell_names("exchanged_dir", "n3");
	tell_call("exchange_missing", exchange("n2", "none", RENAME_EXCHANGE));
	tell_call("both_flags", exchange("n2", "w", RENAME_EXCHANGE | RENAME_NOREPLACE));
	tell_call("unknown_flag", exchange("n2", "w", 1 << 7));
	make("h1", "h", 0644);
	link("h1", "h2");
	tell_call("hard_links", rename("h1", "h2"));
	tell_call("hard_links_both_stay", access("h1", F_OK));
	fd = open("n2", O_RDWR);
	tell_call("open_rename", rename("n2", "n4"));
	tell_call("open_write", write(fd, "new", 3));
	tell_file("open_written", "n4");
	make_dir("m1", 0755);
	make_dir("m1/sub", 0755);
	make_dir("m2", 0755);
	make("m1/sub/f", "deep", 0644);
	tell_call("dir_moved", rename("m1/sub", "m2/sub"));
	tell_file("dir_moved_file", "m2/sub/f");
	fd = open("m2/sub", O_RDONLY | O_DIRECTORY);
	tell_call("dir_moved_again", rename("m2/sub", "m1/back"));
	tell_call("openat_of_moved", openat(fd, "f", O_RDONLY));
	tell_call("openat_parent", openat(fd, "../back/f", O_RDONLY));
	tell_call("symlink_moved", symlink("target", "l"));
	tell_call("symlink_renamed", rename("l", "l2"));
	tell_mode("symlink_then", "l2");
	tell_call("whiteout", exchange("n4", "n5", RENAME_WHITEOUT));
	tell_mode("whiteout_left", "n4");
	tell_names("all", ".");
}

static void deep(void)
{
	static const char step[] = "0123456789012345678901234567890123456789";
	char path[8192];
	int depth = 0;

	while ((size_t)depth * sizeof(step) < 5000) {
		if (mkdir(step, 0755) < 0 || chdir(step) < 0)
			break;
		depth++;
	}
	tell("depth", "%d", depth);
	tell_call("getcwd_of_deep", getcwd(path, sizeof(path)) ? 0 : -1);
	make("f", "down here", 0644);
	tell_file("read_deep", "f");
	for (; depth > 0; depth--)
		if (chdir("..") < 0)
			break;
	tell("depth_left", "%d", depth);
}

void group_names(void)
{
	char name[4200];

	memset(name, 'n', sizeof(name));
	name[255] = '\0';
	tell_call("255_bytes", open(name, O_CREAT | O_WRONLY, 0644));
	tell_call("255_bytes_seen", access(name, F_OK));
	tell_call("255_bytes_unlink", unlink(name));
	name[255] = 'n';
	name[256] = '\0';
	tell_call("256_bytes", open(name, O_CREAT | O_WRONLY, 0644));
	tell_call("256_bytes_stat", access(name, F_OK));
	tell_call("256_bytes_mkdir", mkdir(name, 0755));
	for (size_t i = 0; i + 1 < sizeof(name); i += 2)
		memcpy(name + i, "./", 2);
	name[4095] = '\0';
	tell_call("path_4095", access(name, F_OK));
	name[4095] = '.';
	name[4096] = '\0';
	tell_call("path_4096", access(name, F_OK));
	tell_call("empty", open("", O_RDONLY));
	for (int c = 1; c < 256; c++) {
		char odd[8];

		snprintf(odd, sizeof(odd), "o%c", c);
		if (c != '/' && mknod(odd, S_IFREG | 0600, 0) < 0)
			tell(odd, "refused");
	}
	tell_call("newline", access("o\n", F_OK));
	tell_call("latin", access("o\xff", F_OK));
	tell_call("utf8", mkdir("\xe2\x98\x83", 0755));
	tell_call("spaces", mkdir("   ", 0755));
	tell_call("dots", mkdir("...", 0755));
	tell_call("case_a", open("CaSe", O_CREAT | O_WRONLY, 0644));
	tell_call("case_b", access("case", F_OK));
	tell_call("mkdir_slash", mkdir("slash/", 0755));
	tell_call("mkdir_exists", mkdir("slash", 0755));
	tell_call("mkdir_missing_parent", mkdir("no/such", 0755));
	tell_call("mkdir_dot", mkdir(".", 0755));
	tell_call("rmdir", rmdir("slash"));
	tell_call("rmdir_missing", rmdir("slash"));
	tell_call("rmdir_dot", rmdir("."));
	make_dir("full", 0755);
	make("full/x", "", 0644);
	tell_call("rmdir_full", rmdir("full"));
	tell_call("rmdir_file", rmdir("full/x"));
	tell_call("unlink_dir", unlink("full"));
	tell_call("unlink_missing", unlink("missing"));
	tell_call("mknod_exists", mknod("full", S_IFREG | 0600, 0));
	deep();
}
