/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Compiled seccomp filters, kept in files. An entry holds the whole profile that it was made from
 * beside the program, and is used only if that equals what is asked for, byte for byte: the name
 * of the file, a weak hash, finds it and proves nothing. Entries appear whole or not at all, in a
 * directory that nobody else can write to.
 */
#include "base/fd.h"
#include "base/hash.h"
#include "base/str.h"
#include "oci/config.h"
#include "sandbox/seccomp_private.h"

#include <dirent.h>
#include <fcntl.h>
#include <seccomp.h>
#include <stdio.h>
#include <sys/stat.h>

#define CACHE_MAGIC	  "moat seccomp 1"
#define CACHE_ENTRIES_MAX 64
/* Raise it when seccomp_program() makes another program of the same profile. */
#define CACHE_GENERATION 2

struct header {
	char magic[16];
	uint32_t key_size, count;
};

static void add(struct seccomp_key *key, const void *bytes, size_t size)
{
	if (key->size + size > key->room) {
		key->room = 2 * (key->size + size);
		key->bytes = xrealloc(key->bytes, key->room, 1);
	}
	memcpy(key->bytes + key->size, bytes, size);
	key->size += size;
}

static void add_number(struct seccomp_key *key, uint64_t number)
{
	add(key, &number, sizeof(number));
}

/* With its NUL: no two lists of strings look alike. */
static void add_string(struct seccomp_key *key, const char *s)
{
	add(key, s, strlen(s) + 1);
}

static void add_syscall(struct seccomp_key *key, const struct oci_syscall *s)
{
	add_string(key, s->action);
	add_number(key, s->has_errno_ret);
	add_number(key, s->errno_ret);
	add_number(key, s->n_names);
	for (size_t i = 0; i < s->n_names; i++)
		add_string(key, s->names[i]);
	add_number(key, s->n_args);
	for (size_t i = 0; i < s->n_args; i++) {
		add_number(key, s->args[i].index);
		add_number(key, s->args[i].value);
		add_number(key, s->args[i].value_two);
		add_string(key, s->args[i].op);
	}
}

void seccomp_key_make(const struct oci_seccomp *seccomp, struct seccomp_key *key)
{
	const struct scmp_version *version = seccomp_version();

	*key = (struct seccomp_key){ .bytes = xrealloc(NULL, 16384, 1), .room = 16384 };
	add_number(key, CACHE_GENERATION);
	add_number(key, version->major);
	add_number(key, version->minor);
	add_number(key, version->micro);
	add_string(key, seccomp->default_action);
	add_number(key, seccomp->has_default_errno_ret);
	add_number(key, seccomp->default_errno_ret);
	add_number(key, seccomp->n_architectures);
	for (size_t i = 0; i < seccomp->n_architectures; i++)
		add_string(key, seccomp->architectures[i]);
	add_number(key, seccomp->n_syscalls);
	for (size_t i = 0; i < seccomp->n_syscalls; i++)
		add_syscall(key, &seccomp->syscalls[i]);
}

int seccomp_cache_open(const char *path)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	_cleanup_fd_ int fd = open(path, flags);
	struct stat st;

	if (fd < 0 && errno == ENOENT && (mkdir(path, 0700) == 0 || errno == EEXIST))
		fd = open(path, flags);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022))
		return -1;
	return fd_steal(&fd);
}

static void entry_name(const struct seccomp_key *key, char name[32])
{
	snprintf(name, 32, "%016llx", (unsigned long long)hash_bytes(key->bytes, key->size));
}

static bool is_entry(const char *bytes, size_t size, const struct seccomp_key *key,
		     struct header *header)
{
	if (size < sizeof(*header))
		return false;
	memcpy(header, bytes, sizeof(*header));
	return strncmp(header->magic, CACHE_MAGIC, sizeof(header->magic)) == 0 &&
	       header->key_size == key->size && header->count > 0 &&
	       header->count <= BPF_MAXINSNS &&
	       size == sizeof(*header) + key->size + header->count * sizeof(struct sock_filter) &&
	       memcmp(bytes + sizeof(*header), key->bytes, key->size) == 0;
}

bool seccomp_cache_load(int dirfd, const struct seccomp_key *key, struct seccomp_filter *filter)
{
	const size_t max =
		sizeof(struct header) + key->size + BPF_MAXINSNS * sizeof(struct sock_filter);
	_cleanup_free_ char *bytes = NULL;
	_cleanup_fd_ int fd = -1;
	struct header header;
	char name[32];
	struct stat st;

	entry_name(key, name);
	fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    (st.st_mode & 022) || st.st_size <= 0 || (size_t)st.st_size > max)
		return false;
	bytes = xrealloc(NULL, (size_t)st.st_size, 1);
	if (fd_read_full(fd, bytes, (size_t)st.st_size) != st.st_size ||
	    !is_entry(bytes, (size_t)st.st_size, key, &header))
		return false;
	filter->count = (unsigned short)header.count;
	filter->insns = xcalloc(header.count, sizeof(*filter->insns));
	memcpy(filter->insns, bytes + sizeof(header) + key->size,
	       header.count * sizeof(*filter->insns));
	return true;
}

/* A cache that has grown out of all proportion is begun anew. */
static void bound(int dirfd)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	size_t n = 0;

	if (!dir) {
		fd_close_pointer(&fd);
		return;
	}
	while (readdir(dir))
		n++;
	rewinddir(dir);
	while (n > CACHE_ENTRIES_MAX && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd, entry->d_name, 0);
	closedir(dir);
}

void seccomp_cache_store(int dirfd, const struct seccomp_key *key,
			 const struct seccomp_filter *filter)
{
	struct header header = { .key_size = (uint32_t)key->size, .count = filter->count };
	_cleanup_fd_ int fd = openat(dirfd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
	char name[32], self[64];

	if (fd < 0)
		return; /* the file system has no nameless files: no cache there */
	memcpy(header.magic, CACHE_MAGIC, sizeof(CACHE_MAGIC));
	if (fd_write_full(fd, &header, sizeof(header)) < 0 ||
	    fd_write_full(fd, key->bytes, key->size) < 0 ||
	    fd_write_full(fd, filter->insns, filter->count * sizeof(*filter->insns)) < 0)
		return;
	bound(dirfd);
	entry_name(key, name);
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	/* The first try fails for a broken entry, or one of another profile with the same hash. */
	for (int try = 0; try < 2; try++) {
		if (linkat(AT_FDCWD, self, dirfd, name, AT_SYMLINK_FOLLOW) == 0 || errno != EEXIST)
			return;
		unlinkat(dirfd, name, 0);
	}
}
