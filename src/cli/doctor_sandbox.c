/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What level sandbox needs beside what plain needs: ids to give away, mapped files, limits. */
#include "cli/doctor.h"

#include "base/fd.h"
#include "base/file.h"
#include "cgroup/cgroup.h"
#include "oci/config.h"
#include "oci/settings.h"
#include "sandbox/harden.h"
#include "sandbox/idmap.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

/* A tmpfs is the one file system that can be made anywhere to try; those on disks came earlier. */
static int try_mapping(const struct moat_sandbox *settings, struct err *err)
{
	struct oci_id_mapping maps = { 0, settings->id_base, HARDEN_IDS };
	const struct oci_linux config = {
		.uid_mappings = &maps,
		.n_uid_mappings = 1,
		.gid_mappings = &maps,
		.n_gid_mappings = 1,
	};
	_cleanup_fd_ int proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	_cleanup_fd_ int fs = fsopen("tmpfs", FSOPEN_CLOEXEC), tree = -1;
	struct idmap map;
	int r;

	if (fs < 0 || fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0 ||
	    (tree = fsmount(fs, FSMOUNT_CLOEXEC, 0)) < 0)
		return err_set(err, errno, "make a tmpfs");
	if (idmap_open(&map, &config, proc, err) < 0)
		return -1;
	r = idmap_tree(&map, &tree, "a tmpfs", false, err);
	close(map.userns);
	return r;
}

static void check_ids(struct diagnosis *diagnosis, const struct moat_sandbox *settings)
{
	struct err err = { 0 };

	if (geteuid() != 0)
		found(diagnosis, VERDICT_FAIL, NEEDED_BY_SANDBOX, "ids of containers",
		      "run moat as root", "an ordinary user has none to give away");
	else if (try_mapping(settings, &err) == 0)
		found(diagnosis, VERDICT_OK, 0, "ids of containers", NULL,
		      "%u ranges of %u from %u up, files mapped", settings->id_ranges, HARDEN_IDS,
		      settings->id_base);
	else if (err.code == EINVAL)
		found(diagnosis, VERDICT_WARN, 0, "ids of containers",
		      "keep root file systems on ext4, xfs or btrfs",
		      "files on a tmpfs cannot be mapped: that takes Linux 6.3");
	else
		found(diagnosis, VERDICT_FAIL, NEEDED_BY_SANDBOX, "ids of containers", NULL, "%s",
		      err.text);
}

static void check_cores(struct diagnosis *diagnosis)
{
	_cleanup_free_ char *text =
		file_read(AT_FDCWD, "/sys/devices/system/cpu/smt/active", 16, NULL, NULL);
	unsigned long long cookie;

	if (!text || *text != '1')
		return; /* no two threads share a core */
	if (prctl(PR_SCHED_CORE, PR_SCHED_CORE_GET, 0, PR_SCHED_CORE_SCOPE_THREAD, &cookie) == 0)
		found(diagnosis, VERDICT_OK, 0, "core scheduling", NULL,
		      "a core's threads run one container at a time");
	else
		found(diagnosis, VERDICT_WARN, 0, "core scheduling",
		      "use a kernel with CONFIG_SCHED_CORE, or boot with nosmt",
		      "containers share cores with others, and what cores leak: %m");
}

void doctor_sandbox(struct diagnosis *diagnosis, const struct moat_settings *settings)
{
	check_ids(diagnosis, settings->sandbox);
	check_cores(diagnosis);
	if (cgroup_layout() == CGROUP_NONE)
		found(diagnosis, VERDICT_FAIL, NEEDED_BY_SANDBOX, "limits",
		      "mount a cgroup file system on /sys/fs/cgroup",
		      "there are no control groups, so that none can be kept");
}
