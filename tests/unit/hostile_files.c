/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Attacks on the file server: names, handles and links. */
#include "hostile_guest.h"

#include <linux/fuse.h>
#include <stddef.h>

/* A request to the file server; returns its error, 1 where it does not answer. */
static int32_t fuse(unsigned int fs, uint32_t opcode, uint64_t node, const void *arg, uint32_t size)
{
	uint64_t at = BUFFERS(fs, 1);
	struct fuse_in_header header = { .len = (uint32_t)sizeof(header) + size,
					 .opcode = opcode,
					 .unique = 1,
					 .nodeid = node };
	uint16_t used = USED(fs, 1)->idx;

	memcpy((void *)at, &header, sizeof(header));
	memcpy((void *)(at + sizeof(header)), arg, size);
	guest_describe(
		fs, 1, 0,
		(struct vring_desc){
			.addr = at, .len = header.len, .flags = VRING_DESC_F_NEXT, .next = 1 });
	guest_describe(fs, 1, 1,
		       (struct vring_desc){
			       .addr = at + 0x2000, .len = 0x1000, .flags = VRING_DESC_F_WRITE });
	guest_offer(fs, 1, 0);
	put(fs, VIRTIO_MMIO_QUEUE_NOTIFY, 1);
	if (guest_wait(fs, 1, (uint16_t)(used + 1)) != SERVED)
		return 1;
	return *(volatile int32_t *)(at + 0x2000 + 4);
}

/* A request whose fixed part, perhaps none, is followed by names, each with its NUL. */
static int32_t fuse_named(unsigned int fs, uint32_t opcode, uint64_t node, const void *arg,
			  uint32_t size, const char *name, const char *other)
{
	uint8_t text[256];

	memcpy(text, arg, size);
	for (const char *names[] = { name, other }, **at = names; at < names + 2 && *at; at++)
		for (const char *from = *at; (text[size++] = (uint8_t)*from); from++)
			;
	return fuse(fs, opcode, node, text, size);
}

static uint64_t fuse_node(unsigned int fs)
{
	return *(volatile uint64_t *)(BUFFERS(fs, 1) + 0x2000 + sizeof(struct fuse_out_header));
}

/* What is not there is an answer without a node. */
static int32_t look_up(unsigned int fs, uint64_t node, const char *name)
{
	int32_t r = fuse_named(fs, FUSE_LOOKUP, node, NULL, 0, name, NULL);

	return r == 0 && !fuse_node(fs) ? -1 : r;
}

/* 9: names and handles. The tree 0 has a file and links (test_hostile.c). */
void attack_files(void)
{
	static const char *const names[] = { "..", ".", "/", "a/b", "../outside", "" };
	struct {
		struct fuse_mknod_in mknod;
		char name[8];
	} device = { .mknod = { .mode = 0020666, .rdev = 0x103 }, .name = "device" };
	struct fuse_init_in init = { .major = FUSE_KERNEL_VERSION, .minor = 36 };
	struct fuse_read_in read = { .fh = 4711, .size = 64 };
	struct fuse_open_in open = { .flags = 0 };
	unsigned int fs = guest_find(VIRTIO_ID_FS);
	uint64_t tree;
	bool good;

	guest_start(fs, 0);
	good = fuse(fs, FUSE_INIT, 0, &init, sizeof(init)) == 0;
	good = fuse(fs, FUSE_LOOKUP, FUSE_ROOT_ID, "0", 2) == 0 && good;
	tree = fuse_node(fs);
	for (unsigned int i = 0; i < COUNT(names); i++) {
		uint32_t size = 1;

		while (names[i][size - 1])
			size++;
		good = fuse(fs, FUSE_LOOKUP, tree, names[i], size) < 0 && good;
	}
	good = fuse(fs, FUSE_MKNOD, tree, &device, sizeof(device)) < 0 && good;
	good = fuse(fs, FUSE_READ, tree, &read, sizeof(read)) < 0 && good;
	good = fuse(fs, FUSE_LOOKUP, 4711, "x", 2) < 0 && good;
	good = fuse(fs, FUSE_LOOKUP, tree, "link", 5) == 0 && good;
	good = fuse(fs, FUSE_OPEN, fuse_node(fs), &open, sizeof(open)) < 0 && good;
	good = fuse(fs, FUSE_LOOKUP, tree, "fifo", 5) == 0 && good;
	good = fuse(fs, FUSE_OPEN, fuse_node(fs), &open, sizeof(open)) < 0 && good;
	good = fuse(fs, FUSE_LOOKUP, tree, "file", 5) == 0 && good;
	good = fuse(fs, FUSE_OPEN, fuse_node(fs), &open, sizeof(open)) == 0 && good;
	guest_finish("files", good);
}

#define LINK(fs, tree, name, target) fuse_named(fs, FUSE_SYMLINK, tree, NULL, 0, name, target)

/* Links out of the tree: new ones, one in a file's place, one in a directory's that is in use. */
static bool plant(unsigned int fs, uint64_t tree)
{
	struct fuse_mkdir_in directory = { .mode = 0755 };
	struct fuse_mknod_in file = { .mode = 0100644 };
	struct fuse_rename_in rename = { .newdir = tree };
	uint64_t used;
	bool good;

	good = LINK(fs, tree, "planted", "../outside") == 0;
	good = LINK(fs, tree, "up", "..") == 0 && good;
	good = LINK(fs, tree, "top", "/") == 0 && good;
	good = fuse_named(fs, FUSE_RENAME, tree, &rename, sizeof(rename), "file", "kept") == 0 &&
	       good;
	good = LINK(fs, tree, "file", "../outside") == 0 && good;
	good = fuse_named(fs, FUSE_MKDIR, tree, &directory, sizeof(directory), "d", NULL) == 0 &&
	       good;
	used = fuse_node(fs);
	good = fuse_named(fs, FUSE_MKNOD, used, &file, sizeof(file), "inside", NULL) == 0 && good;
	good = fuse_named(fs, FUSE_RENAME, tree, &rename, sizeof(rename), "d", "e") == 0 && good;
	good = LINK(fs, tree, "d", "..") == 0 && good;
	good = look_up(fs, used, "inside") == 0 && good;
	good = look_up(fs, used, "outside") < 0 && good;
	return good;
}

static bool use_file_link(unsigned int fs, uint64_t tree, const char *name)
{
	struct fuse_open_in open = { .flags = 2 };			     /* O_RDWR */
	struct fuse_create_in create = { .flags = 2 | 01000, .mode = 0666 }; /* and O_TRUNC */
	struct fuse_setattr_in cut = { .valid = FATTR_SIZE };
	uint64_t node;
	bool good = look_up(fs, tree, name) == 0;

	node = fuse_node(fs);
	good = fuse(fs, FUSE_OPEN, node, &open, sizeof(open)) < 0 && good;
	good = fuse(fs, FUSE_SETATTR, node, &cut, sizeof(cut)) < 0 && good;
	return fuse_named(fs, FUSE_CREATE, tree, &create, sizeof(create), name, NULL) < 0 && good;
}

static bool use_directory_link(unsigned int fs, uint64_t tree, const char *name)
{
	struct fuse_mkdir_in directory = { .mode = 0755 };
	struct fuse_mknod_in file = { .mode = 0100644 };
	struct fuse_open_in open = { .flags = 0200000 }; /* O_DIRECTORY */
	uint64_t node;
	bool good = look_up(fs, tree, name) == 0;

	node = fuse_node(fs);
	good = look_up(fs, node, "outside") < 0 && good;
	good = fuse(fs, FUSE_OPENDIR, node, &open, sizeof(open)) < 0 && good;
	good = fuse_named(fs, FUSE_MKDIR, node, &directory, sizeof(directory), "made", NULL) < 0 &&
	       good;
	good = fuse_named(fs, FUSE_MKNOD, node, &file, sizeof(file), "made", NULL) < 0 && good;
	return LINK(fs, node, "made", "x") < 0 && good;
}

/* 5: links planted for the file server, and for the next machine that starts in this tree. */
void attack_links(bool again)
{
	static const char *const files[] = { "planted", "file" };
	static const char *const directories[] = { "up", "top", "d" };
	struct fuse_init_in init = { .major = FUSE_KERNEL_VERSION, .minor = 36 };
	unsigned int fs = guest_find(VIRTIO_ID_FS);
	uint64_t tree;
	bool good;

	guest_start(fs, 0);
	good = fuse(fs, FUSE_INIT, 0, &init, sizeof(init)) == 0;
	good = look_up(fs, FUSE_ROOT_ID, "0") == 0 && good;
	tree = fuse_node(fs);
	if (!again)
		good = plant(fs, tree) && good;
	for (unsigned int i = 0; i < COUNT(files); i++)
		good = use_file_link(fs, tree, files[i]) && good;
	for (unsigned int i = 0; i < COUNT(directories); i++)
		good = use_directory_link(fs, tree, directories[i]) && good;
	guest_finish("links", good);
}
