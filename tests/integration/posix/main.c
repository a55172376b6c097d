/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Checks of POSIX (and Linux) file system behaviour, a line for each outcome. The same program
 * runs in a directory of the host and in the same directory through a microVM; the test compares
 * the lines (test_posix.py).
 *
 * usage: posix DIRECTORY
 */
#include "check.h"

#include <grp.h>
#include <stdarg.h>
#include <sys/wait.h>

static const char *group_name;

void tell(const char *name, const char *format, ...)
{
	va_list args;

	printf("%s.%s: ", group_name, name);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

long tell_call(const char *name, long result)
{
	tell(name, "%s", result < 0 ? strerrorname_np(errno) : "ok");
	return result;
}

long tell_number(const char *name, long result)
{
	if (result < 0)
		return tell_call(name, result);
	tell(name, "%ld", result);
	return result;
}

void tell_text(const char *name, const char *text, ssize_t n)
{
	char shown[4 * 64 + 1];
	size_t at = 0;

	if (n < 0) {
		tell_call(name, n);
		return;
	}
	for (ssize_t i = 0; i < n && i < 64; i++) {
		unsigned char c = (unsigned char)text[i];
		bool bare = c > ' ' && c < 0x7f && c != '\\';

		at += (size_t)snprintf(shown + at, sizeof(shown) - at, bare ? "%c" : "\\%02x", c);
	}
	shown[at] = '\0';
	tell(name, "%zd bytes '%s'", n, shown);
}

void tell_mode(const char *name, const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		tell_call(name, -1);
	else
		tell(name, "%06o %u:%u", st.st_mode, st.st_uid, st.st_gid);
}

void tell_size(const char *name, const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		tell_call(name, -1);
	else
		tell(name, "%lld bytes%s", (long long)st.st_size,
		     st.st_blocks * 512 < st.st_size ? ", with holes" : "");
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void tell_names(const char *name, const char *path)
{
	char *names[64], text[1024] = "";
	size_t count = 0, used = 0;
	DIR *dir = opendir(path);

	if (!dir) {
		tell_call(name, -1);
		return;
	}
	for (struct dirent *entry; count < 64 && (entry = readdir(dir));)
		names[count++] = strdup(entry->d_name);
	closedir(dir);
	qsort(names, count, sizeof(*names), compare_names);
	for (size_t i = 0; i < count; i++) {
		if (used + strlen(names[i]) + 2 < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, " %s", names[i]);
		free(names[i]);
	}
	tell(name, "%s", text + 1);
}

void tell_file(const char *name, const char *path)
{
	char text[64];
	ssize_t n = -1;
	int fd = open(path, O_RDONLY);

	if (fd >= 0) {
		n = read(fd, text, sizeof(text));
		close(fd);
	}
	tell_text(name, text, n);
}

static void give_up(const char *what)
{
	tell("!stopped", "%s: %s", what, strerror(errno));
	exit(1);
}

void make(const char *path, const char *content, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	size_t size = strlen(content);

	if (fd < 0 || write(fd, content, size) != (ssize_t)size || fchmod(fd, mode) < 0)
		give_up(path);
	close(fd);
}

void make_dir(const char *path, mode_t mode)
{
	if (mkdir(path, 0700) < 0 || chmod(path, mode) < 0)
		give_up(path);
}

int open_new(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);

	if (fd < 0)
		give_up(path);
	return fd;
}

void as(uid_t uid, gid_t gid, bool crew, void (*function)(void))
{
	const gid_t groups[] = { CREW };
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (setgroups(crew ? 1 : 0, groups) < 0 || setresgid(gid, gid, gid) < 0 ||
		    setresuid(uid, uid, uid) < 0)
			give_up("become another user");
		function();
		exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
		give_up("run as another user");
}

static const struct {
	const char *name;
	void (*run)(void);
} groups[] = {
	{ "access", group_access },	    { "owners", group_owners },
	{ "set_id", group_set_id },	    { "links", group_links },
	{ "renames", group_renames },	    { "names", group_names },
	{ "opening", group_opening },	    { "unlinked", group_unlinked },
	{ "content", group_content },	    { "appending", group_appending },
	{ "sparse", group_sparse },	    { "allocation", group_allocation },
	{ "copies", group_copies },	    { "vectors", group_vectors },
	{ "mapping", group_mapping },	    { "directories", group_directories },
	{ "locks", group_locks },	    { "times", group_times },
	{ "attributes", group_attributes }, { "acls", group_acls },
	{ "special", group_special },	    { "watching", group_watching },
	{ "direct", group_direct },	    { "together", group_together },
	{ "limits", group_limits },
};

/* Each group in a child: what one leaves open or changes of itself is not the next one's. */
static int run_group(size_t i, const char *directory)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		group_name = groups[i].name;
		umask(022);
		if (chdir(directory) < 0)
			give_up(directory);
		make_dir(groups[i].name, 0755);
		if (chdir(groups[i].name) < 0)
			give_up(groups[i].name);
		alarm(300);
		groups[i].run();
		exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return -1;
	if (status != 0)
		printf("%s.!ended: %d\n", groups[i].name, status);
	fflush(stdout);
	return status;
}

int main(int argc, char **argv)
{
	int bad = argc != 2;

	for (size_t i = 0; argc == 2 && i < sizeof(groups) / sizeof(*groups); i++)
		if (run_group(i, argv[1]) != 0)
			bad = 1;
	return bad;
}
