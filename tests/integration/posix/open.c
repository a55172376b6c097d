/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files opened: flags of open(2), O_TMPFILE, O_PATH, files that are open and have no name. */
#include "check.h"

#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <linux/openat2.h>

static long open2(const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = { .flags = flags, .resolve = resolve };

	return syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
}

void group_opening(void)
{
	char text[64];
	int fd, again;

	make("f", "content", 0644);
	make_dir("d", 0755);
	tell_call("excl_exists", open("f", O_CREAT | O_EXCL | O_WRONLY, 0644));
	tell_call("excl_new", open("new", O_CREAT | O_EXCL | O_WRONLY, 0644));
	tell_call("create_exists", open("f", O_CREAT | O_WRONLY, 0644));
	tell_call("create_dir", open("d", O_CREAT | O_WRONLY, 0644));
	tell_call("directory_of_file", open("f", O_RDONLY | O_DIRECTORY));
	tell_call("directory_for_writing", open("d", O_WRONLY));
	tell_call("missing", open("missing", O_RDONLY));
	tell_call("truncate", open("f", O_WRONLY | O_TRUNC));
	tell_size("truncated", "f");
	make("f", "content", 0644);
	tell_call("truncate_reading", open("f", O_RDONLY | O_TRUNC));
	tell_size("truncated_reading", "f");
	make("f", "content", 0644);
	fd = open("f", O_RDONLY);
	tell_call("write_to_readonly", write(fd, "x", 1));
	tell_call("ftruncate_readonly", ftruncate(fd, 0));
	fd = open("f", O_WRONLY);
	tell_call("read_of_writeonly", read(fd, text, 1));
	fd = open("readonly", O_CREAT | O_RDWR, 0400);
	tell_call("created_0400_write", write(fd, "yes", 3));
	tell_file("created_0400", "readonly");
	fd = open("f", O_PATH);
	tell_call("path_read", read(fd, text, 1));
	tell_call("path_fchmod", fchmod(fd, 0600));
	tell_call("path_fstat", fstat(fd, &(struct stat){ 0 }));
	snprintf(text, sizeof(text), "/proc/self/fd/%d", fd);
	tell_call("path_reopen", again = open(text, O_RDWR));
	tell_text("path_reopened", text, read(again, text, sizeof(text)));
	fd = open("d", O_RDONLY | O_DIRECTORY);
	tell_call("dir_read", read(fd, text, 1));
	tell_call("dir_fsync", fsync(fd));
	tell_call("sync_flag", open("f", O_RDWR | O_SYNC));
	tell_call("dsync_flag", open("f", O_RDWR | O_DSYNC));
	tell_call("noatime", open("f", O_RDONLY | O_NOATIME));
	tell_number("cloexec", fcntl(open("f", O_RDONLY | O_CLOEXEC), F_GETFD));
	fd = open("f", O_RDWR | O_APPEND | O_NONBLOCK);
	tell("getfl", "%#x", fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK));
	tell_call("setfl", fcntl(fd, F_SETFL, O_NONBLOCK));
	tell("getfl_then", "%#x", fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK));
	symlink("d", "ld");
	make("d/in", "inside", 0644);
	tell_call("openat2_plain", open2("d/in", O_RDONLY, 0));
	tell_call("openat2_beneath", open2("../opening/f", O_RDONLY, RESOLVE_BENEATH));
	tell_call("openat2_no_symlinks", open2("ld/in", O_RDONLY, RESOLVE_NO_SYMLINKS));
	tell_call("openat2_in_root", open2("/f", O_RDONLY, RESOLVE_IN_ROOT));
	fd = open(".", O_TMPFILE | O_RDWR, 0640);
	tell_call("tmpfile", fd);
	tell_call("tmpfile_write", write(fd, "unnamed", 7));
	snprintf(text, sizeof(text), "/proc/self/fd/%d", fd);
	tell_call("tmpfile_link", linkat(AT_FDCWD, text, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
	tell_file("tmpfile_named", "named");
	tell_mode("tmpfile_mode", "named");
	tell_call("tmpfile_write_after", write(fd, " more", 5));
	tell_file("tmpfile_grown", "named");
	fd = open(".", O_TMPFILE | O_RDWR | O_EXCL, 0600);
	tell_call("tmpfile_excl", fd);
	snprintf(text, sizeof(text), "/proc/self/fd/%d", fd);
	tell_call("tmpfile_excl_link", linkat(AT_FDCWD, text, AT_FDCWD, "n2", AT_SYMLINK_FOLLOW));
	tell_call("tmpfile_readonly", open(".", O_TMPFILE | O_RDONLY, 0600));
	tell_call("tmpfile_missing", open("none", O_TMPFILE | O_RDWR, 0600));
	tell_call("tmpfile_in_file", open("f", O_TMPFILE | O_RDWR, 0600));
}

void group_unlinked(void)
{
	char text[64];
	struct stat st;
	int fd = open_new("f"), dir;
	void *map;

	tell_call("write", write(fd, "before", 6));
	tell_call("unlink", unlink("f"));
	tell_call("write_after", write(fd, " after", 6));
	tell_text("read", text, pread(fd, text, sizeof(text), 0));
	tell_call("fstat", fstat(fd, &st));
	tell("nlink", "%ju", (uintmax_t)st.st_nlink);
	tell("size", "%jd", (intmax_t)st.st_size);
	tell_call("fchmod", fchmod(fd, 0600));
	tell_call("fchown", fchown(fd, 7, 8));
	fstat(fd, &st);
	tell("changed", "%o %u:%u", st.st_mode, st.st_uid, st.st_gid);
	tell_call("ftruncate", ftruncate(fd, 3));
	tell_text("truncated", text, pread(fd, text, sizeof(text), 0));
	tell_call("fallocate", fallocate(fd, 0, 0, 10000));
	tell_call("futimens", futimens(fd, NULL));
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	tell_call("mmap", map == MAP_FAILED ? -1 : 0);
	memcpy(map, "mapped", 6);
	tell_call("msync", msync(map, 4096, MS_SYNC));
	tell_text("mapped", text, pread(fd, text, 8, 0));
	snprintf(text, sizeof(text), "/proc/self/fd/%d", fd);
	tell_call("reopen", open(text, O_RDONLY));
	tell_call("relink", linkat(AT_FDCWD, text, AT_FDCWD, "back", AT_SYMLINK_FOLLOW));
	make("f", "another", 0644);
	tell_file("new_of_that_name", "f");
	tell_text("old_one", text, pread(fd, text, 6, 0));
	tell_call("fsync", fsync(fd));
	make("r1", "replaced", 0644);
	make("r2", "replacing", 0644);
	fd = open("r1", O_RDONLY);
	tell_call("rename_over", rename("r2", "r1"));
	tell_text("replaced", text, read(fd, text, sizeof(text)));
	tell_file("replacing", "r1");
	make_dir("d", 0755);
	dir = open("d", O_RDONLY | O_DIRECTORY);
	tell_call("rmdir_open", rmdir("d"));
	tell_call("openat_removed", openat(dir, "x", O_CREAT | O_WRONLY, 0644));
	tell_call("statat_removed", fstatat(dir, ".", &st, 0));
	tell("nlink_removed", "%ju", (uintmax_t)st.st_nlink);
	tell_call("fchdir_removed", fchdir(dir));
	tell_call("getcwd_removed", getcwd(text, sizeof(text)) ? 0 : -1);
	tell_call("mkdir_in_removed", mkdir("sub", 0755));
}

void group_limits(void)
{
	struct statfs st;

	tell_call("statfs", statfs(".", &st));
	tell("namelen", "%ld", (long)st.f_namelen);
	tell("has_room", "%d", st.f_blocks > 0 && st.f_bsize > 0 && st.f_bfree <= st.f_blocks);
	tell_call("fstatfs", fstatfs(open(".", O_PATH), &st));
	tell_call("statfs_missing", statfs("none", &st));
	tell_number("link_max", pathconf(".", _PC_NAME_MAX));
	tell_number("path_max", pathconf(".", _PC_PATH_MAX));
	tell_call("sync", syncfs(open(".", O_RDONLY)));
}
