/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A template is a file in CACHE/templates, a directory that is its owner's alone, and holds the
 * memory of a guest that knows nothing yet. It has its name, a hash of its key, only when it is
 * whole; the key itself is in it. Whoever could write there could be root in every later guest, and
 * so the directory and the file are looked at before each use.
 */
#include "vm/template.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "oci/config.h"
#include "oci/settings.h"
#include "vm/machine.h"
#include "vmm/vmm.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define DIRECTORY	  "templates"
#define BOOT_ID		  "/proc/sys/kernel/random/boot_id"
#define DIRECTORY_FLAGS	  (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define PRIVATE_DIRECTORY (S_IFDIR | 0700)
#define PRIVATE_FILE	  (S_IFREG | 0600)
#define NAME_DIGITS	  16u

static bool is_own(const struct stat *st, mode_t mode)
{
	return st->st_uid == geteuid() && st->st_mode == mode;
}

/* CACHE itself may be read by others. */
static int open_cache(const char *path, bool make, struct err *err)
{
	_cleanup_fd_ int fd = open(path, DIRECTORY_FLAGS);
	struct stat st;

	if (fd < 0 && make && errno == ENOENT && (mkdir(path, 0700) == 0 || errno == EEXIST))
		fd = open(path, DIRECTORY_FLAGS);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, errno, "open %s", path);
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return err_set(err, 0, "%s is not this user's alone to write", path);
	return fd_steal(&fd);
}

static int open_directory(const char *cache, bool make, struct err *err)
{
	_cleanup_fd_ int parent = open_cache(cache, make, err), fd = -1;
	struct stat st;

	if (parent < 0)
		return -1;
	if (make && mkdirat(parent, DIRECTORY, 0700) < 0 && errno != EEXIST)
		return err_set(err, errno, "make %s/" DIRECTORY, cache);
	fd = openat(parent, DIRECTORY, DIRECTORY_FLAGS);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(err, errno, "open %s/" DIRECTORY, cache);
	if (!is_own(&st, PRIVATE_DIRECTORY))
		return err_set(err, 0,
			       "%s/" DIRECTORY " is not this user's alone (its mode is to be 0700)",
			       cache);
	return fd_steal(&fd);
}

/* A file by all that changes when it does. */
static int add_file(char **key, const char *what, int fd, const char *path, struct err *err)
{
	struct stat st;
	char *longer;

	if ((path ? stat(path, &st) : fstat(fd, &st)) < 0)
		return err_set(err, errno, "look at the %s", what);
	longer = xasprintf("%s%s %llu:%llu %lld %lld.%09ld %lld.%09ld\n", *key, what,
			   (unsigned long long)st.st_dev, (unsigned long long)st.st_ino,
			   (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec,
			   (long long)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
	free(*key);
	*key = longer;
	return 0;
}

/* The vmm adds what the host's KVM makes of the processor. */
static char *make_key(const struct machine *machine, struct err *err)
{
	_cleanup_free_ char *boot = file_read(AT_FDCWD, BOOT_ID, 100, NULL, err), *key = NULL;

	if (!boot)
		return NULL;
	key = xasprintf("boot %smachine %llu %u %u\n%s\n", boot,
			(unsigned long long)machine->size.memory, machine->size.vcpus,
			machine->nets, machine->cmdline);
	if (add_file(&key, "kernel", machine->kernel_fd, NULL, err) < 0 ||
	    add_file(&key, "init", machine->initrd_fd, NULL, err) < 0 ||
	    add_file(&key, "moat", -1, "/proc/self/exe", err) < 0)
		return NULL;
	return steal(key);
}

static void set_name(struct template *template)
{
	snprintf(template->name, sizeof(template->name), "%016llx",
		 (unsigned long long)hash_bytes(template->key, template->key_size));
}

/* One that is not as we leave them is none, and gives its place up. */
static int open_one(struct template *template, struct err *err)
{
	struct stat st;
	_cleanup_fd_ int fd = openat(template->dir_fd, template->name,
				     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd >= 0 && fstat(fd, &st) == 0 && is_own(&st, PRIVATE_FILE))
		template->use_fd = fd_steal(&fd);
	else if (unlinkat(template->dir_fd, template->name, 0) < 0 && errno != ENOENT &&
		 unlinkat(template->dir_fd, template->name, AT_REMOVEDIR) < 0)
		return err_set(err, errno, "remove %s, which is no template", template->name);
	return 0;
}

static int find(struct template *template, const struct machine *machine, struct err *err)
{
	const struct moat_settings *settings = machine->container->settings;

	template->dir_fd = open_directory(settings->cache, true, err);
	if (template->dir_fd < 0)
		return -1;
	template->key = make_key(machine, err);
	if (!template->key)
		return -1;
	template->key_size = strlen(template->key);
	set_name(template);
	if (open_one(template, err) < 0)
		return -1;
	if (template->use_fd >= 0)
		return 0;
	/*
	 * One makes one. Others that come meanwhile boot, and the disk is not filled with copies.
	 */
	if (flock(template->dir_fd, LOCK_EX | LOCK_NB) < 0)
		return err_set(err, errno, "another machine makes a template");
	template->make_fd = openat(template->dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return template->make_fd < 0 ? err_set(err, errno, "make an unnamed file") : 0;
}

/*
 * A bundle's own kernel says what it likes, and a console would say it again; huge pages that were
 * set aside are the operator's word for memory that is there, whole, from the beginning; a disk has
 * been looked at by the guest when it says its first word, and is another one each time.
 */
static bool is_possible(const struct machine *machine)
{
	const struct oci_vm *vm = machine->container->config->vm;
	const struct moat_settings *settings = machine->container->settings;

	return settings->templates && !settings->hugepages && !(vm && vm->kernel) &&
	       !machine->disks.count && !machine->options->debug;
}

void template_open(struct template *template, const struct machine *machine)
{
	struct err err;

	*template = TEMPLATE_NONE;
	if (!is_possible(machine) || find(template, machine, &err) == 0)
		return;
	log_debug("no template: %s", err.text);
	template_close(template);
}

void template_close(struct template *template)
{
	int *fds[] = { &template->dir_fd, &template->use_fd, &template->make_fd };

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fd_replace(fds[i], -1);
	free(template->key);
	template->key = NULL;
}

void template_discard(struct template *template)
{
	unlinkat(template->dir_fd, template->name, 0);
	fd_replace(&template->use_fd, -1);
}

bool template_distrust(const struct machine *machine)
{
	struct template template;
	bool there;

	template_open(&template, machine);
	there = template.use_fd >= 0;
	if (there)
		template_discard(&template);
	template_close(&template);
	return there;
}

static bool is_name(const char *name)
{
	return strlen(name) == NAME_DIGITS && strspn(name, "0123456789abcdef") == NAME_DIGITS;
}

/*
 * Calls function for each template. One that goes meanwhile is not there; what others have put
 * there is neither counted nor removed.
 */
static int for_each(int dir_fd, void (*function)(void *data, const char *name, struct stat *st),
		    void *data, struct err *err)
{
	int fd = openat(dir_fd, ".", DIRECTORY_FLAGS);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	struct stat st;

	if (!dir) {
		fd_replace(&fd, -1);
		return err_set(err, errno, "list the templates");
	}
	while ((entry = readdir(dir)))
		if (is_name(entry->d_name) &&
		    fstatat(dir_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode))
			function(data, entry->d_name, &st);
	closedir(dir);
	return 0;
}

struct survey {
	size_t count;
	unsigned long long bytes;
	struct timespec oldest;
	char name[sizeof(((struct dirent *)0)->d_name)];
};

static void survey(void *data, const char *name, struct stat *st)
{
	struct survey *found = data;

	if (!found->count || st->st_mtim.tv_sec < found->oldest.tv_sec ||
	    (st->st_mtim.tv_sec == found->oldest.tv_sec &&
	     st->st_mtim.tv_nsec < found->oldest.tv_nsec)) {
		found->oldest = st->st_mtim;
		snprintf(found->name, sizeof(found->name), "%s", name);
	}
	found->count++;
	found->bytes += (unsigned long long)st->st_size;
}

static void prune(int dir_fd, size_t limit)
{
	for (;;) {
		struct survey found = { 0 };

		if (for_each(dir_fd, survey, &found, NULL) < 0 || found.count <= limit ||
		    unlinkat(dir_fd, found.name, 0) < 0)
			return;
	}
}

/* A kernel or an init that somebody writes to meanwhile may be in the guest by half. */
static int give_name(const struct template *template, const struct machine *machine,
		     struct err *err)
{
	_cleanup_free_ char *key = make_key(machine, err);
	char path[40];

	if (!key)
		return -1;
	if (strcmp(key, template->key) != 0)
		return err_set(err, 0, "no template: its kernel, its init or moat was changed");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", template->make_fd);
	if (linkat(AT_FDCWD, path, template->dir_fd, template->name, AT_SYMLINK_FOLLOW) < 0 &&
	    errno != EEXIST)
		return err_set(err, errno, "give a template its name");
	return 0;
}

void template_settle(struct template *template, const struct machine *machine)
{
	const struct moat_settings *settings = machine->container->settings;
	struct stat st;
	struct err err;

	if (template->use_fd >= 0) {
		futimens(template->use_fd, NULL);
		log_debug("started from template %s", template->name);
	} else if (template->make_fd >= 0 && vmm_is_template(template->make_fd) &&
		   fstat(template->make_fd, &st) == 0 && is_own(&st, PRIVATE_FILE)) {
		if (give_name(template, machine, &err) < 0)
			log_debug("%s", err.text);
		prune(template->dir_fd, settings->templates);
	}
	template_close(template);
}

int template_count(const struct moat_settings *settings, size_t *count, unsigned long long *bytes,
		   struct err *err)
{
	_cleanup_fd_ int fd = open_directory(settings->cache, false, err);
	struct survey found = { 0 };

	if (fd < 0 || for_each(fd, survey, &found, err) < 0)
		return -1;
	*count = found.count;
	*bytes = found.bytes;
	return 0;
}
