/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fsd, the virtio-fs server (virtio 1.2, 5.11; linux/fuse.h): a process that holds directory
 * descriptors and nothing else. It serves one device whose top directory has the entries "0",
 * "1", ...: each is one tree (or one file) that the monitor gave.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

#define FSD_TAG		       "moat"
#define FSD_REQUEST_QUEUES_MAX 4u
#define FSD_QUEUES_MAX	       (1 + FSD_REQUEST_QUEUES_MAX) /* the first is for what is urgent */
/* Linux cuts requests so that one's buffers fit the queue: 1 MiB is 256 pages and the headers. */
#define FSD_QUEUE_SIZE 512u
#define FSD_TREES_MAX  1024u

/*
 * The group (fsgid) in which the guest's init, its process 1, syncs at the end of the machine: what
 * the guest's kernel holds comes here with it, and that is all that is wanted. A syncfs(2) of the
 * host would wait for whatever any other program has written.
 */
#define FSD_END_GID 0x6d6f6178u
#define FSD_END_PID 1u

/* From the vmm to fsd when the driver sets DRIVER_OK; descriptors: kick[queues], call[queues]. */
enum fs_setup_type { FS_SETUP_START = 1, FS_SETUP_RESET = 2 };

struct fs_queue_setup {
	uint32_t type;
	uint32_t queues;   /* as many kick and then as many call eventfds are attached */
	uint64_t features; /* negotiated: EVENT_IDX, INDIRECT_DESC, VERSION_1 */
	struct {
		uint32_t size;
		uint64_t desc, avail, used; /* guest physical addresses */
	} queue[FSD_QUEUES_MAX];
};
/* fsd answers FS_SETUP_RESET with the same message once it no longer touches guest memory. */

/* From the monitor to fsd; one O_PATH descriptor of a detached mount (or a file) attached. */
enum fs_tree_flags {
	FS_TREE_READ_ONLY = 1 << 0,
	FS_TREE_SHARED = 1 << 1, /* others change it, too: what the guest knows of it ages fast */
};

struct fs_tree_add {
	uint32_t index; /* the entry's name in the top directory */
	uint32_t flags;
};
/* fsd answers with the same message when the tree can be looked up, or with index UINT32_MAX. */

struct fsd_config {
	int vmm_fd;	/* SOCK_SEQPACKET: struct fs_queue_setup; closed at its first nonsense */
	int monitor_fd; /* SOCK_SEQPACKET: struct fs_tree_add; its end ends fsd */
	int memory_fd;	/* guest RAM */
	uint64_t memory_size;	     /* bytes */
	unsigned int request_queues; /* that the guest may have: fsd_request_queues(); 0: one */
	uid_t watches_uid;	     /* whose inotify(7) descriptor it has; -1: its own user's */
};

/* fsd_request_queues() - for a guest of so many vCPUs: Linux gives each queue some of them. */
static inline unsigned int fsd_request_queues(unsigned int vcpus)
{
	return vcpus < FSD_REQUEST_QUEUES_MAX ? vcpus : FSD_REQUEST_QUEUES_MAX;
}

/*
 * The jail of fsd. In this order, all in the process that is to serve: fsd_setup(); an empty root,
 * the capabilities below and no others; fsd_enter(), which makes its threads; the seccomp filter,
 * on all of them; fsd_run(). What it needs from then on:
 *
 * capabilities, permitted and effective (ambient and inheritable: none):
 *   CAP_DAC_OVERRIDE  the guest kernel checks permissions, with its users' groups, not the host
 *   CAP_FOWNER        modes, times and ACLs of files that belong to the guest's users
 *   CAP_CHOWN         chown in the guest
 *   CAP_FSETID        set-id bits kept where the guest's writer may keep them
 *   CAP_SETFCAP       security.capability set by the guest's root (package managers do)
 *   CAP_SETUID, CAP_SETGID  setfsuid and setfsgid, so that what is created has the right owner
 *
 * system calls (40):
 *   epoll_wait epoll_ctl             the loop
 *   recvmsg                          queues from the vmm, trees from the monitor
 *   write                            interrupts (eventfd), answers to both, log lines
 *   openat close                     O_PATH by one component; "N" in its own /proc/self/fd
 *   statx fstatfs readlinkat getdents64 lseek
 *   preadv2 pwritev2 copy_file_range truncate fallocate fsync syncfs
 *   mkdirat mknodat symlinkat linkat unlinkat renameat2
 *   fchmodat fchownat utimensat
 *   setxattr getxattr listxattr removexattr
 *   setfsuid setfsgid capset umask   as whom to create
 *   inotify_add_watch inotify_rm_watch  what the host does to shared directories; a descriptor
 *                                    for it is made before
 *   brk                              the allocator: tables grow (fsd_enter() sees to it)
 *   futex                            between its threads, where there are several
 *   exit_group
 * Nothing it does then opens a socket, starts a process or thread, or resolves an absolute path.
 */
struct fsd;
/* fsd_setup() - while /proc is there. Returns a server, or NULL with err set. */
struct fsd *fsd_setup(const struct fsd_config *config, struct err *err);
/* fsd_enter() - the last preparations in the thread that serves. Returns 0, or -1 with err set. */
int fsd_enter(struct fsd *fsd, struct err *err);
/* fsd_run() - serve until monitor_fd closes. Returns 0, or -1 with err set. */
int fsd_run(struct fsd *fsd, struct err *err);
void fsd_free(struct fsd *fsd);
