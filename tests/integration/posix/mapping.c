/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory maps, their coherence with read and write; times; locks. */
#include "check.h"

#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>

static volatile char *map(int fd, size_t size, int protection, int flags)
{
	void *at = mmap(NULL, size, protection, flags, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* How a child ends that touches the map's byte. */
static int touch(volatile char *at)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		(void)*at;
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status;
}

void group_mapping(void)
{
	volatile char *shared, *private, *second;
	char text[16];
	int fd = open_new("f"), reader, status;
	pid_t pid;

	write(fd, "0123456789", 10);
	shared = map(fd, 4096, PROT_READ | PROT_WRITE, MAP_SHARED);
	private = map(fd, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	tell("made", "%d %d", shared != NULL, private != NULL);
	if (!shared || !private)
		return;
	tell("shared_reads", "%c", shared[3]);
	tell("private_reads", "%c", private[3]);
	shared[0] = 'S';
	tell_text("read_sees_map", text, pread(fd, text, 2, 0));
	pwrite(fd, "W", 1, 1);
	tell("map_sees_write", "%c", shared[1]);
	tell("private_sees_write", "%c", private[1]);
	private[2] = 'P';
	tell_text("private_stays_private", text, pread(fd, text, 3, 0));
	pwrite(fd, "X", 1, 2);
	tell("private_keeps_own", "%c", private[2]);
	tell("beyond_is_zero", "%d", shared[100]);
	tell_call("msync", msync((void *)shared, 4096, MS_SYNC));
	tell_call("msync_async", msync((void *)shared, 4096, MS_ASYNC));
	tell_file("after_msync", "f");
	shared[50] = '!';
	tell_call("munmap", munmap((void *)shared, 4096));
	tell_size("not_grown_by_map", "f");
	second = map(fd, 8192, PROT_READ, MAP_SHARED);
	status = touch(second + 4096);
	tell("beyond_last_page", "signal %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	ftruncate(fd, 8192);
	status = touch(second + 4096);
	tell("grown", "signal %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	ftruncate(fd, 5);
	tell("truncated_tail_is_zero", "%d", second[6]);
	status = touch(second + 4096);
	tell("truncated", "signal %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	pid = fork();
	if (pid == 0) {
		volatile char *mine = map(fd, 4096, PROT_READ | PROT_WRITE, MAP_SHARED);

		mine[0] = 'C';
		_exit(0);
	}
	waitpid(pid, &status, 0);
	tell("child_wrote", "%c", second[0]);
	reader = open("f", O_RDONLY);
	tell_call("shared_write_of_readonly",
		  map(reader, 4096, PROT_WRITE | PROT_READ, MAP_SHARED) ? 0 : -1);
	tell_call("private_write_of_readonly",
		  map(reader, 4096, PROT_WRITE | PROT_READ, MAP_PRIVATE) ? 0 : -1);
	tell_call("of_writeonly", map(open("f", O_WRONLY), 4096, PROT_READ, MAP_SHARED) ? 0 : -1);
	tell_call("of_directory", map(open(".", O_RDONLY), 4096, PROT_READ, MAP_SHARED) ? 0 : -1);
	tell_call("exec", map(reader, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE) ? 0 : -1);
	close(fd);
	close(reader);
	tell("after_close", "%c", second[0]);
	tell_call("unlink", unlink("f"));
	tell("after_unlink", "%c", second[0]);
}

static const struct timespec past[2] = { { 1000000000, 123456789 }, { 1100000000, 987654321 } };

static void tell_times(const char *name, const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		tell_call(name, -1);
	else
		tell(name, "%ld.%09ld %ld.%09ld", st.st_atim.tv_sec, st.st_atim.tv_nsec,
		     st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

/* Which of the times an action moves. */
static void tell_moved(const char *name, const char *path, const struct stat *before)
{
	struct stat st;

	if (lstat(path, &st) < 0) {
		tell_call(name, -1);
		return;
	}
	tell(name, "%s%s%s",
	     memcmp(&st.st_atim, &before->st_atim, sizeof(st.st_atim)) ? "access " : "",
	     memcmp(&st.st_mtim, &before->st_mtim, sizeof(st.st_mtim)) ? "modify " : "",
	     memcmp(&st.st_ctim, &before->st_ctim, sizeof(st.st_ctim)) ? "change" : "");
}

static struct stat set_back(const char *path)
{
	struct stat st;

	utimensat(AT_FDCWD, path, past, AT_SYMLINK_NOFOLLOW);
	lstat(path, &st);
	usleep(20000); /* the clock of file times moves in ticks */
	return st;
}

static void times_of_stranger(void)
{
	tell_call("stranger_now", utimensat(AT_FDCWD, "f", NULL, 0));
	tell_call("stranger_past", utimensat(AT_FDCWD, "f", past, 0));
	tell_call("writer_now", utimensat(AT_FDCWD, "w", NULL, 0));
	tell_call("writer_past", utimensat(AT_FDCWD, "w", past, 0));
}

void group_times(void)
{
	const struct timespec omit[2] = { { 5, UTIME_OMIT }, { 1200000000, 5 } };
	const struct timespec far[2] = { { -1000, 500 }, { 4294967296, 7 } };
	struct stat before;
	int fd;

	make("f", "x", 0644);
	make("w", "x", 0666);
	make_dir("d", 0755);
	symlink("f", "l");
	tell_call("set", utimensat(AT_FDCWD, "f", past, 0));
	tell_times("set_to", "f");
	tell_call("omit", utimensat(AT_FDCWD, "f", omit, 0));
	tell_times("omitted", "f");
	tell_call("symlink", utimensat(AT_FDCWD, "l", past, AT_SYMLINK_NOFOLLOW));
	tell_times("symlink_set", "l");
	tell_call("dir", utimensat(AT_FDCWD, "d", past, 0));
	tell_times("dir_set", "d");
	tell_call("far", utimensat(AT_FDCWD, "f", far, 0));
	tell_times("far_set", "f");
	tell_call("bad",
		  utimensat(AT_FDCWD, "f", (struct timespec[2]){ { 1, 1000000000 }, { 1, 1 } }, 0));
	as(BOB, BOB, false, times_of_stranger);
	before = set_back("f");
	fd = open("f", O_RDWR);
	write(fd, "y", 1);
	tell_moved("write", "f", &before);
	before = set_back("f");
	ftruncate(fd, 0);
	tell_moved("truncate", "f", &before);
	before = set_back("f");
	ftruncate(fd, 0);
	tell_moved("truncate_same", "f", &before);
	before = set_back("f");
	chmod("f", 0600);
	tell_moved("chmod", "f", &before);
	before = set_back("f");
	chown("f", 1, 1);
	tell_moved("chown", "f", &before);
	before = set_back("f");
	link("f", "f2");
	tell_moved("link", "f", &before);
	before = set_back("f");
	unlink("f2");
	tell_moved("unlink", "f", &before);
	before = set_back("f");
	rename("f", "g");
	tell_moved("rename", "g", &before);
	before = set_back("d");
	make("d/new", "", 0644);
	tell_moved("dir_create", "d", &before);
	before = set_back("d");
	chmod("d/new", 0600);
	tell_moved("dir_chmod_in", "d", &before);
	before = set_back("d");
	unlink("d/new");
	tell_moved("dir_unlink", "d", &before);
	before = set_back("g");
	fallocate(fd, 0, 0, 5000);
	tell_moved("fallocate", "g", &before);
	before = set_back("g");
	write(fd, "", 0);
	tell_moved("write_nothing", "g", &before);
}

/* 0: it can be locked by another process now. */
static int other_locks(const char *path, int kind, bool whole)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		struct flock lock = { .l_type = (short)kind, .l_start = 10, .l_len = 10 };
		int fd = open(path, O_RDWR), r;

		if (whole)
			r = flock(fd, (kind == F_WRLCK ? LOCK_EX : LOCK_SH) | LOCK_NB);
		else
			r = fcntl(fd, F_SETLK, &lock);
		_exit(r < 0 ? errno : 0);
	}
	waitpid(pid, &status, 0);
	errno = WEXITSTATUS(status);
	return errno ? -1 : 0;
}

void group_locks(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_start = 10, .l_len = 10 };
	int fd, second;

	make("f", "", 0644);
	fd = open("f", O_RDWR);
	tell_call("posix", fcntl(fd, F_SETLK, &lock));
	tell_call("posix_other", other_locks("f", F_RDLCK, false));
	lock.l_type = F_UNLCK;
	lock.l_start = 10;
	lock.l_len = 5;
	tell_call("posix_unlock_part", fcntl(fd, F_SETLK, &lock));
	tell_call("posix_other_rest", other_locks("f", F_WRLCK, false));
	lock.l_start = 0, lock.l_len = 0;
	tell_call("posix_unlock", fcntl(fd, F_SETLK, &lock));
	tell_call("posix_other_free", other_locks("f", F_WRLCK, false));
	lock.l_type = F_RDLCK;
	lock.l_start = 10, lock.l_len = 10;
	tell_call("posix_shared", fcntl(fd, F_SETLK, &lock));
	tell_call("posix_shared_other", other_locks("f", F_RDLCK, false));
	tell_call("posix_shared_exclusive", other_locks("f", F_WRLCK, false));
	close(open("f", O_RDONLY));
	tell_call("posix_lost_by_close", other_locks("f", F_WRLCK, false));
	tell_call("posix_readonly_fd",
		  fcntl(open("f", O_RDONLY), F_SETLK, &(struct flock){ .l_type = F_WRLCK }));
	lock = (struct flock){ .l_type = F_WRLCK, .l_start = 10, .l_len = 10 };
	tell_call("ofd", fcntl(fd, F_OFD_SETLK, &lock));
	tell_call("ofd_other", other_locks("f", F_RDLCK, false));
	second = open("f", O_RDWR);
	tell_call("ofd_second", fcntl(second, F_OFD_SETLK, &lock));
	close(open("f", O_RDONLY));
	tell_call("ofd_kept", other_locks("f", F_RDLCK, false));
	tell_call("ofd_get", fcntl(second, F_OFD_GETLK, &lock));
	tell("ofd_found", "%d %jd", lock.l_type == F_WRLCK, (intmax_t)lock.l_start);
	close(fd);
	tell_call("ofd_gone", other_locks("f", F_RDLCK, false));
	fd = open("f", O_RDWR);
	tell_call("flock", flock(fd, LOCK_EX));
	tell_call("flock_other", other_locks("f", F_RDLCK, true));
	tell_call("flock_second", flock(second, LOCK_EX | LOCK_NB));
	tell_call("flock_beside_posix", other_locks("f", F_WRLCK, false));
	tell_call("flock_to_shared", flock(fd, LOCK_SH));
	tell_call("flock_shared_other", other_locks("f", F_RDLCK, true));
	tell_call("flock_unlock", flock(fd, LOCK_UN));
	tell_call("flock_free", other_locks("f", F_WRLCK, true));
	tell_call("flock_directory", flock(open(".", O_RDONLY), LOCK_EX | LOCK_NB));
	tell_call("lockf", lockf(fd, F_TLOCK, 100));
	tell_call("lease", fcntl(open("f", O_RDONLY), F_SETLEASE, F_RDLCK));
}
