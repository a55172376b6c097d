/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a microVM needs: a KVM that is real, a kernel, the agent's initramfs, memory; and state. */
#include "cli/doctor.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "oci/settings.h"
#include "runtime/runtime.h"
#include "vm/template.h"
#include "vmm/initramfs.h"
#include "vmm/kvm_probe.h"

#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* Linux, Documentation/arch/x86/boot.rst: "HdrS" in a bzImage. */
#define BZIMAGE_MAGIC_OFFSET 0x202

static void check_kvm(struct diagnosis *diagnosis)
{
	struct err err = { 0 };
	_cleanup_fd_ int fd = kvm_open(&err);

	if (fd < 0 || kvm_probe(fd, &err) < 0)
		found(diagnosis, VERDICT_FAIL, NEEDED_BY_VM, "kvm", NULL, "%s", err.text);
	else
		found(diagnosis, VERDICT_OK, 0, "kvm", NULL,
		      "opens, and runs a guest's kernel code on the hardware");
}

/* The segments of a vmlinux lie in the file as a whole. */
static bool elf_is_whole(const Elf64_Ehdr *elf, size_t size, uint64_t file_size)
{
	const char *head = (const char *)elf;

	for (size_t i = 0; i < elf->e_phnum; i++) {
		size_t at = elf->e_phoff + i * sizeof(Elf64_Phdr);
		Elf64_Phdr segment;

		if (elf->e_phoff > size || at + sizeof(segment) > size)
			return false;
		memcpy(&segment, head + at, sizeof(segment));
		if (segment.p_offset > file_size || segment.p_filesz > file_size - segment.p_offset)
			return false;
	}
	return true;
}

static bool is_kernel(const unsigned char *head, size_t size, uint64_t file_size)
{
	const Elf64_Ehdr *elf = (const Elf64_Ehdr *)head;

	if (size >= sizeof(*elf) && memcmp(elf->e_ident, ELFMAG, SELFMAG) == 0)
		return elf->e_ident[EI_CLASS] == ELFCLASS64 && elf->e_machine == EM_X86_64 &&
		       elf->e_type == ET_EXEC && elf_is_whole(elf, size, file_size);
	return size >= BZIMAGE_MAGIC_OFFSET + 4 &&
	       memcmp(head + BZIMAGE_MAGIC_OFFSET, "HdrS", 4) == 0;
}

static bool is_initramfs(const unsigned char *head, size_t size, uint64_t file_size)
{
	return initramfs_is(head, size);
}

/* A file that every VM boots from: there, what it should be, and nobody else's to change. */
static void check_image(struct diagnosis *diagnosis, const char *topic, const char *path,
			bool (*is_right)(const unsigned char *, size_t, uint64_t), const char *what,
			const char *advice)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	_Alignas(Elf64_Ehdr) unsigned char head[1024];
	struct stat st;
	ssize_t size;

	if (fd < 0 || fstat(fd, &st) < 0) {
		found(diagnosis, VERDICT_FAIL, NEEDED_BY_VM, topic, advice, "open %s: %m", path);
		return;
	}
	size = S_ISREG(st.st_mode) ? fd_read_full(fd, head, sizeof(head)) : -1;
	if (size < 0 || !is_right(head, (size_t)size, (uint64_t)st.st_size))
		found(diagnosis, VERDICT_FAIL, NEEDED_BY_VM, topic, advice,
		      "%s is not %s, or not whole", path, what);
	else if (st.st_uid != 0 && st.st_uid != geteuid())
		found(diagnosis, VERDICT_WARN, 0, topic, "chown root it", "%s belongs to uid %u",
		      path, st.st_uid);
	else if (st.st_mode & (S_IWGRP | S_IWOTH))
		found(diagnosis, VERDICT_WARN, 0, topic, "chmod go-w it",
		      "%s can be written by others", path);
	else
		found(diagnosis, VERDICT_OK, 0, topic, NULL, "%s, %.1f MiB", path,
		      (double)st.st_size / (1 << 20));
}

static void check_memory(struct diagnosis *diagnosis, const struct moat_settings *settings)
{
	struct sysinfo info;
	uint64_t total, wanted = settings->memory + settings->overhead;

	if (sysinfo(&info) < 0)
		return;
	total = (uint64_t)info.totalram * info.mem_unit;
	if (wanted > total)
		found(diagnosis, VERDICT_WARN, 0, "memory",
		      "lower \"memory\" in the operator's file",
		      "a microVM may use %ju MiB (%ju for the guest, the rest beside it) where "
		      "config.json has no limit, and this machine has %ju MiB in all",
		      (uintmax_t)wanted >> 20, (uintmax_t)settings->memory >> 20,
		      (uintmax_t)total >> 20);
	else
		found(diagnosis, VERDICT_OK, 0, "memory", NULL,
		      "a microVM may use %ju MiB (%ju for the guest, the rest beside it) where "
		      "config.json has no limit; this machine has %ju MiB in all",
		      (uintmax_t)wanted >> 20, (uintmax_t)settings->memory >> 20,
		      (uintmax_t)total >> 20);
}

static void check_huge_pages(struct diagnosis *diagnosis, const struct moat_settings *settings)
{
	static const char path[] = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";
	_cleanup_free_ char *text = file_read(AT_FDCWD, path, 64, NULL, NULL);
	uint64_t mib = text ? strtoull(text, NULL, 10) * 2 : 0;

	if (!settings->hugepages)
		return;
	if (mib << 20 < settings->memory)
		found(diagnosis, VERDICT_FAIL, NEEDED_BY_VM, "huge pages",
		      "set more aside in /proc/sys/vm/nr_hugepages, or remove \"hugepages\" from "
		      "the operator's file",
		      "%ju MiB of them are free, less than the %ju of one microVM", (uintmax_t)mib,
		      (uintmax_t)settings->memory >> 20);
	else
		found(diagnosis, VERDICT_OK, 0, "huge pages", NULL, "%ju MiB of them are free",
		      (uintmax_t)mib);
}

static void check_templates(struct diagnosis *diagnosis, const struct moat_settings *settings)
{
	struct err err = { 0 };
	unsigned long long bytes;
	size_t count;

	if (!settings->templates)
		found(diagnosis, VERDICT_OK, 0, "templates", NULL,
		      "off: each microVM boots its kernel");
	else if (template_count(settings, &count, &bytes, &err) == 0)
		found(diagnosis, VERDICT_OK, 0, "templates", NULL,
		      "%zu of %u at most, booted guests to start from, %.1f MiB in %s/templates",
		      count, settings->templates, (double)bytes / (1 << 20), settings->cache);
	else if (err.code == ENOENT)
		found(diagnosis, VERDICT_OK, 0, "templates", NULL,
		      "none yet: the first microVM makes one, in %s/templates", settings->cache);
	else if (geteuid() == 0) /* others have no microVMs */
		found(diagnosis, VERDICT_WARN, 0, "templates",
		      "chown root it, and chmod 700 it, or set \"templates\" to 0 in the "
		      "operator's "
		      "file",
		      "%s: each microVM boots its kernel", err.text);
}

/* Devices of the host that a pattern of the operator's means now. */
static size_t count_block_devices(const char *pattern)
{
	glob_t paths = { 0 };
	size_t count = 0;
	struct stat st;

	if (glob(pattern, GLOB_NOSORT, NULL, &paths) == 0)
		for (size_t i = 0; i < paths.gl_pathc; i++)
			count += stat(paths.gl_pathv[i], &st) == 0 && S_ISBLK(st.st_mode);
	globfree(&paths);
	return count;
}

static void check_block_devices(struct diagnosis *diagnosis, const struct moat_settings *settings)
{
	for (size_t i = 0; i < settings->n_block_devices; i++) {
		const char *pattern = settings->block_devices[i];
		size_t count = count_block_devices(pattern);

		if (count)
			found(diagnosis, VERDICT_OK, 0, "block devices", NULL,
			      "%s: %zu of the host's, which a bundle may give to a microVM",
			      pattern, count);
		else
			found(diagnosis, VERDICT_WARN, 0, "block devices",
			      "see to it that the device is there, or correct \"blockDevices\" in "
			      "the operator's file",
			      "%s: there is no block device of that name now", pattern);
	}
}

static void check_disk_images(struct diagnosis *diagnosis, const struct moat_settings *settings)
{
	if (settings->bundle_image)
		found(diagnosis, VERDICT_OK, 0, "disk images", NULL,
		      "a bundle may choose one (bundleImage), which is read and written %s",
		      settings->direct_io ? "past the host's page cache (directIO)"
					  : "through the host's page cache");
	else if (settings->direct_io)
		found(diagnosis, VERDICT_WARN, 0, "disk images",
		      "allow them with \"bundleImage\", or remove \"directIO\" from the operator's "
		      "file",
		      "\"directIO\" is for those that bundles choose, and they may not");
}

/* Where the guest's frames come from and go to; the forwarding itself the kernel loads by need. */
static void check_tap(struct diagnosis *diagnosis)
{
	_cleanup_fd_ int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

	const char *advice = errno == EACCES || errno == EPERM
				     ? "run moat as root; in a container, pass the device in"
				     : "load the kernel module tun";

	if (fd < 0)
		found(diagnosis, VERDICT_WARN, 0, "guest network", advice,
		      "open /dev/net/tun: %m; no microVM can have network interfaces");
	else
		found(diagnosis, VERDICT_OK, 0, "guest network", NULL, "/dev/net/tun opens");
}

void doctor_vm(struct diagnosis *diagnosis, const struct moat_settings *settings)
{
	check_kvm(diagnosis);
	check_image(
		diagnosis, "guest kernel", settings->kernel, is_kernel,
		"a vmlinux or bzImage for x86-64",
		"build it with contrib/kernel/build, or name one as \"kernel\" in the operator's "
		"file");
	check_image(
		diagnosis, "guest init", settings->init, is_initramfs, "an initramfs",
		"install moat (ninja -C build install), or name one as \"init\" in the operator's "
		"file");
	check_templates(diagnosis, settings);
	check_memory(diagnosis, settings);
	check_huge_pages(diagnosis, settings);
	check_block_devices(diagnosis, settings);
	check_disk_images(diagnosis, settings);
	check_tap(diagnosis);
}

void doctor_state(struct diagnosis *diagnosis, const struct runtime *runtime)
{
	_cleanup_free_ char *path = runtime->root ? xstrdup(runtime->root) : NULL;
	char *slash;

	if (!path) {
		found(diagnosis, VERDICT_FAIL, NEEDED_BY_ALL, "state",
		      "log in so that it is set (a login of its own, no su), or give --root DIR",
		      "nowhere to keep the containers' state: XDG_RUNTIME_DIR is not set");
		return;
	}
	while (access(path, F_OK) < 0 && errno == ENOENT && (slash = strrchr(path, '/')) &&
	       slash != path)
		*slash = '\0';
	if (access(path, W_OK | X_OK) < 0)
		found(diagnosis, VERDICT_FAIL, NEEDED_BY_ALL, "state",
		      "give --root DIR, or \"stateRoot\" in the operator's file",
		      "%s cannot be used: %s: %m", runtime->root, path);
	else
		found(diagnosis, VERDICT_OK, 0, "state", NULL, "%s", runtime->root);
}
