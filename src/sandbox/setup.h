/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the parent works out before init exists, so that init has only to carry it out, and the
 * steps of init, in the order of init.c. Every descriptor here is close-on-exec.
 */
#pragma once

#include "sandbox/capabilities.h"
#include "sandbox/listener.h"
#include "sandbox/mount_options.h"
#include "sandbox/namespaces.h"
#include "sandbox/net_devices.h"
#include "sandbox/sandbox.h"
#include "sandbox/seccomp.h"

#include "base/fd.h"
#include "oci/config.h"

struct setup {
	const struct sandbox_params *params;
	const struct oci_config *config;
	const struct oci_process *process;
	const struct oci_linux *linux_; /* never NULL */
	struct namespaces namespaces;
	uint64_t foreign; /* CLONE_NEW* of those that the container's new user namespace lacks */
	struct capability_sets capabilities;
	struct seccomp_filter seccomp;
	struct seccomp_filter ceiling; /* of level sandbox */
	struct listener listener;
	struct net_devices net_devices;
	struct mount_options *mounts; /* one for each of config->mounts */
	/*
	 * The caller's procfs, checked to be one. Init writes its own attributes and sysctls
	 * through it and never through the container's /proc, which the container may fake.
	 */
	int proc;
	int rootfs;	   /* the root file system: detached, then attached over "/" by init */
	dev_t root_device; /* identity of the root file system's top */
	ino_t root_inode;
	int sync; /* to the other side: the parent's end in the parent, init's in init */
	/* Init's own. */
	int null;	    /* the host's /dev/null, checked to be it */
	bool cgroup_cloned; /* clone3(2) has put it into the cgroup, in the v2 hierarchy */
	bool cgroup_unshared;
	int empty;    /* the one empty directory that hides masked directories; -1 */
	int terminal; /* becomes 0, 1 and 2; -1 */
	char *home;   /* HOME for an environment without one; NULL: not needed */
};

/* setup_unshare_cgroup() - enter a cgroup namespace of our own, if one is asked for. */
int setup_unshare_cgroup(struct setup *setup, struct err *err);

/* setup_names() - set the host and domain name. */
int setup_names(struct setup *setup, struct err *err);

/* setup_hosts() - foreign.c: the same for namespaces of the host, by the caller. */
int setup_hosts(struct setup *setup, struct err *err);

/* setup_foreign() - foreign.c: do what init cannot do in the namespaces that were joined. */
int setup_foreign(struct setup *setup, struct err *err);

/* setup_waits() - whether init waits until its parent has done what only the parent can. */
bool setup_waits(const struct setup *setup);

/* init_main() - all that runs between clone3(2) and execve(2). Never returns. */
_Noreturn void init_main(struct setup *setup);

/* rootfs.c */
/*
 * setup_path() - a path of the config on the host: relative ones start in the bundle. To be freed.
 */
char *setup_path(const struct setup *setup, const char *path);
int rootfs_open(const struct setup *setup, struct err *err);
int rootfs_attach(struct setup *setup, struct err *err);
int rootfs_hide(struct setup *setup, struct err *err);
int rootfs_enter(struct setup *setup, struct err *err);

/* idmap.c: the root file system and the sources of bind mounts, where hardening asks for it */
int setup_map_files(struct setup *setup, struct err *err);

/* mounts.c */
int mounts_read(struct setup *setup, struct err *err);
/*
 * mounts_open_sources() - what init cannot open by itself. @foreign: all sources of binds are so.
 */
int mounts_open_sources(struct setup *setup, bool foreign, struct err *err);
int mounts_make(struct setup *setup, struct err *err);
int mounts_seal(struct setup *setup, struct err *err);
void mounts_free(struct setup *setup);
/* mount_attach() - put a detached tree onto an O_PATH descriptor; `what` is for the message. */
int mount_attach(int tree, int onto, const char *what, struct err *err);
/* mount_clone() - a detached copy of what fd is: a mount, a directory or a file of one. */
int mount_clone(int fd, bool recursive, const char *what, struct err *err);
/* mount_filesystem() - a new, detached mount of a file system. */
int mount_filesystem(const char *type, const char *source, const char *const *data, size_t n_data,
		     uint64_t attributes, struct err *err);

/*
 * cgroupfs_delegate() - give the container's cgroup to its process's user, where it may write to it
 * (config-linux, "Cgroup ownership"). By the caller, before init goes on.
 */
int cgroupfs_delegate(const struct setup *setup, struct err *err);

/* cgroupfs.c */
int cgroupfs_mount(struct setup *setup, const struct oci_mount *mount,
		   struct mount_options *options, int onto, struct err *err);

/* copy.c: what is below one directory, to another; neither may be changed by others meanwhile. */
int copy_tree(int from, int to, struct err *err);

/* devices.c, sysctl.c, network.c */
int devices_make(struct setup *setup, struct err *err);
int sysctl_check(const struct setup *setup, struct err *err);
/* sysctl_apply() - set those that namespaces of these kinds hold. */
int sysctl_apply(struct setup *setup, uint64_t kinds, struct err *err);
int network_loopback_up(struct err *err);
