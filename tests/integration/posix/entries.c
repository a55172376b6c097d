/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Directories read; what is neither file nor directory; watching. */
#include "check.h"

#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#define MANY 60

static int read_all(DIR *dir, int *dots)
{
	int n = 0;

	*dots = 0;
	for (struct dirent *entry; (entry = readdir(dir)); n++)
		if (entry->d_name[0] == '.')
			++*dots;
	return n;
}

static void fill(void)
{
	char name[32];

	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "many/file-%d", i);
		close(open_new(name));
	}
}

/* Removes what it reads while it reads it; all must go in one pass, as rm -r expects. */
static int remove_while_reading(void)
{
	DIR *dir = opendir("many");
	int removed = 0;

	for (struct dirent *entry; (entry = readdir(dir));)
		if (entry->d_name[0] != '.' && unlinkat(dirfd(dir), entry->d_name, 0) == 0)
			removed++;
	closedir(dir);
	return removed;
}

void group_directories(void)
{
	char name[64] = "", type = 0;
	struct stat st;
	long half = 0;
	int dots, n = 0, rest = 0;
	DIR *dir;

	make_dir("many", 0755);
	dir = opendir("many");
	tell("empty", "%d", read_all(dir, &dots));
	fill();
	rewinddir(dir);
	tell("after_rewind", "%d", read_all(dir, &dots));
	tell("dots", "%d", dots);
	rewinddir(dir);
	for (struct dirent *entry; n < MANY / 2 && (entry = readdir(dir)); n++)
		half = telldir(dir);
	while (readdir(dir))
		rest++;
	tell("rest", "%d", rest);
	seekdir(dir, half);
	tell("after_seek", "%d", read_all(dir, &dots));
	rewinddir(dir);
	(void)readdir(dir);
	make("many/late", "", 0644);
	rewinddir(dir);
	tell("with_late", "%d", read_all(dir, &dots));
	closedir(dir);
	unlink("many/late");
	tell("removed", "%d", remove_while_reading());
	tell_names("left", "many");
	fill();
	dir = opendir("many");
	(void)readdir(dir);
	for (int i = 0; i < MANY; i += 2) {
		snprintf(name, sizeof(name), "many/file-%d", i);
		unlink(name);
	}
	rewinddir(dir);
	tell("half_removed", "%d", read_all(dir, &dots));
	closedir(dir);
	make_dir("types", 0755);
	make("types/f", "", 0644);
	make_dir("types/d", 0755);
	symlink("f", "types/l");
	mkfifo("types/p", 0644);
	dir = opendir("types");
	n = 0;
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] == '.')
			continue;
		if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    entry->d_ino == st.st_ino && entry->d_type == IFTODT(st.st_mode))
			n++;
		type = (char)(type ^ entry->d_type);
	}
	tell("types_and_inodes_match", "%d %d", n, type);
	closedir(dir);
	tell_call("opendir_missing", opendir("none") ? 0 : -1);
	tell_call("opendir_file", opendir("types/f") ? 0 : -1);
	tell_names("names", "types");
	tell_call("mkdirat", mkdirat(open("types", O_PATH), "sub", 0755));
	tell_call("unlinkat_dir", unlinkat(open("types", O_PATH), "sub", AT_REMOVEDIR));
	tell_call("unlinkat_file_as_dir", unlinkat(open("types", O_PATH), "f", AT_REMOVEDIR));
}

static void special_fifo(void)
{
	char text[16];
	int reader, writer;

	tell_call("fifo", mkfifo("p", 0644));
	tell_mode("fifo_mode", "p");
	tell_call("fifo_no_reader", open("p", O_WRONLY | O_NONBLOCK));
	tell_call("fifo_reader", reader = open("p", O_RDONLY | O_NONBLOCK));
	tell_call("fifo_writer", writer = open("p", O_WRONLY));
	tell_number("fifo_write", write(writer, "through", 7));
	tell_text("fifo_read", text, read(reader, text, sizeof(text)));
	tell_number("fifo_again", read(reader, text, sizeof(text)));
	close(writer);
	tell_number("fifo_end", read(reader, text, sizeof(text)));
	tell_call("fifo_seek", lseek(reader, 0, SEEK_SET));
}

static void special_socket(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "sock" };
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
	char text[16];

	tell_call("bind", bind(listener, (void *)&address, sizeof(address)));
	tell_mode("socket_mode", "sock");
	tell_call("bind_again", bind(client, (void *)&address, sizeof(address)));
	tell_call("connect_before_listen", connect(client, (void *)&address, sizeof(address)));
	tell_call("listen", listen(listener, 1));
	tell_call("connect", connect(client, (void *)&address, sizeof(address)));
	write(client, "hello", 5);
	tell_text("received", text, read(accept(listener, NULL, NULL), text, sizeof(text)));
	tell_call("open_socket", open("sock", O_RDONLY));
	tell_call("chmod_socket", chmod("sock", 0600));
	tell_mode("socket_then", "sock");
	tell_call("unlink_socket", unlink("sock"));
	tell_call("connect_unlinked",
		  connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&address, sizeof(address)));
}

static void special_of_user(void)
{
	tell_call("device_of_user", mknod("un", S_IFCHR | 0666, makedev(1, 3)));
	tell_call("fifo_of_user", mkfifo("up", 0644));
	tell_mode("fifo_of_user_mode", "up");
}

void group_special(void)
{
	signal(SIGPIPE, SIG_IGN);
	special_fifo();
	special_socket();
	tell_call("mknod_file", mknod("f", S_IFREG | 0640, 0));
	tell_mode("mknod_file_mode", "f");
	tell_call("mknod_socket", mknod("s", S_IFSOCK | 0640, 0));
	tell_mode("mknod_socket_mode", "s");
	tell_call("mknod_dir", mknod("d", S_IFDIR | 0755, 0));
	tell_call("character_device", mknod("c", S_IFCHR | 0666, makedev(1, 3)));
	tell_mode("character_device_mode", "c");
	tell_call("block_device", mknod("b", S_IFBLK | 0666, makedev(7, 0)));
	chmod(".", 0777);
	as(BOB, BOB, false, special_of_user);
	tell_call("ioctl_flags", ioctl(open(".", O_RDONLY), 0x80086601, &(long){ 0 }));
	tell_number("ioctl_fionread", ioctl(open("f", O_RDONLY), FIONREAD, &(int){ 0 }));
	tell_call("ioctl_unknown", ioctl(open("f", O_RDONLY), 0x5432, 0));
	tell_number("poll_file", poll(&(struct pollfd){ open("f", O_RDONLY), POLLIN, 0 }, 1, 0));
}

static void tell_events(const char *name, int fd)
{
	char buffer[4096] __attribute__((aligned(8))), text[512] = "";
	ssize_t n = read(fd, buffer, sizeof(buffer));

	for (ssize_t at = 0; at < n;) {
		const struct inotify_event *event = (void *)(buffer + at);

		snprintf(text + strlen(text), sizeof(text) - strlen(text), " %x:%s", event->mask,
			 event->len ? event->name : "");
		at += (ssize_t)(sizeof(*event) + event->len);
	}
	tell(name, "%s", n < 0 ? strerrorname_np(errno) : text + 1);
}

void group_watching(void)
{
	int fd = inotify_init1(IN_NONBLOCK), file;

	make_dir("d", 0755);
	tell_call("add", inotify_add_watch(fd, "d", IN_ALL_EVENTS & ~IN_ACCESS));
	file = open_new("d/f");
	tell_events("create", fd);
	write(file, "x", 1);
	tell_events("write", fd);
	close(file);
	tell_events("close", fd);
	chmod("d/f", 0600);
	tell_events("chmod", fd);
	link("d/f", "d/l");
	tell_events("link", fd);
	rename("d/f", "d/g");
	tell_events("rename", fd);
	truncate("d/g", 0);
	tell_events("truncate", fd);
	mkdir("d/sub", 0755);
	tell_events("mkdir", fd);
	rename("d/g", "out");
	tell_events("moved_out", fd);
	unlink("d/l");
	tell_events("unlink", fd);
	rmdir("d/sub");
	tell_events("rmdir", fd);
	rmdir("d");
	tell_events("removed", fd);
	tell_call("add_missing", inotify_add_watch(fd, "none", IN_MODIFY));
}
