/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who may do what: permissions, owners, set-id bits, the sticky bit. */
#include "check.h"

#include <sys/syscall.h>

static void try_access(const char *who, const char *path)
{
	static const struct {
		const char *name;
		int mode;
	} modes[] = { { "r", R_OK }, { "w", W_OK }, { "x", X_OK } };
	char name[64];

	for (size_t i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "%s_%s_%s", who, path, modes[i].name);
		tell_call(name, access(path, modes[i].mode));
	}
}

static const char *const access_files[] = {
	"f000", "f100", "f200", "f400", "f640", "f644", "f755"
};

static void access_of_owner(void)
{
	for (size_t i = 0; i < sizeof(access_files) / sizeof(*access_files); i++)
		try_access("owner", access_files[i]);
	tell_call("owner_reads_200", open("f200", O_RDONLY));
	tell_call("owner_writes_400", open("f400", O_WRONLY));
	tell_call("owner_truncates_400", truncate("f400", 0));
	tell_call("owner_enters_600", chdir("d600"));
	tell_names("owner_lists_300", "d300");
	tell_call("owner_creates_in_500", open("d500/x", O_CREAT | O_WRONLY, 0600));
	tell_call("owner_stats_in_400", access("d400/f", F_OK));
	tell_names("owner_lists_400", "d400");
	tell_call("faccessat2_empty",
		  syscall(SYS_faccessat2, open("f400", O_PATH), "", W_OK, 0x1000));
	tell_call("execute_644", execl("f644", "f644", NULL));
}

static void access_of_group(void)
{
	for (size_t i = 4; i < sizeof(access_files) / sizeof(*access_files); i++)
		try_access("group", access_files[i]);
	tell_call("group_reads_640", open("f640", O_RDONLY));
	tell_call("group_writes_640", open("f640", O_WRONLY));
}

static void access_of_others(void)
{
	for (size_t i = 4; i < sizeof(access_files) / sizeof(*access_files); i++)
		try_access("other", access_files[i]);
	tell_call("other_reads_640", open("f640", O_RDONLY));
	tell_call("other_chmods", chmod("f644", 0777));
	tell_call("other_chowns", chown("f644", BOB, BOB));
	tell_call("other_touches", utimensat(AT_FDCWD, "f644", NULL, 0));
	tell_call("other_unlinks", unlink("f644"));
	tell_call("other_renames", rename("f644", "g"));
	tell_call("other_noatime", open("f644", O_RDONLY | O_NOATIME));
	tell_call("other_in_700", access("d700/f", F_OK));
	tell_call("other_makes_dir", mkdir("new", 0755));
}

void group_access(void)
{
	for (size_t i = 0; i < sizeof(access_files) / sizeof(*access_files); i++) {
		make(access_files[i], "x", (mode_t)strtoul(access_files[i] + 1, NULL, 8));
		if (chown(access_files[i], ALICE, CREW) < 0)
			exit(1);
	}
	for (int mode = 3; mode <= 7; mode++) {
		char name[8], file[16];

		snprintf(name, sizeof(name), "d%d00", mode);
		snprintf(file, sizeof(file), "%s/f", name);
		make_dir(name, 0755);
		make(file, "x", 0644);
		if (chmod(name, (mode_t)mode << 6) < 0 || chown(name, ALICE, ALICE) < 0)
			exit(1);
	}
	for (size_t i = 0; i < sizeof(access_files) / sizeof(*access_files); i++)
		try_access("root", access_files[i]);
	as(ALICE, ALICE, false, access_of_owner);
	as(BOB, BOB, true, access_of_group);
	as(BOB, BOB, false, access_of_others);
	tell_call("root_reads_000", open("f000", O_RDONLY));
	tell_names("root_lists_300", "d300");
}

static void owners_of_alice(void)
{
	umask(0);
	tell_call("create_umask_0", open("mine", O_CREAT | O_WRONLY, 0666));
	tell_mode("created_umask_0", "mine");
	umask(027);
	tell_call("create_umask_027", open("mine2", O_CREAT | O_WRONLY, 0666));
	tell_mode("created_umask_027", "mine2");
	tell_call("mkdir_umask_027", mkdir("mydir", 0777));
	tell_mode("made_dir_umask_027", "mydir");
	tell_call("mkfifo", mkfifo("myfifo", 0666));
	tell_mode("made_fifo", "myfifo");
	tell_call("symlink", symlink("mine", "mylink"));
	tell_mode("made_symlink", "mylink");
	tell_call("chown_to_bob", chown("mine", BOB, -1));
	tell_call("chgrp_to_crew", chown("mine", -1, CREW));
	tell_call("chgrp_to_foreign", chown("mine", -1, BOB));
	tell_mode("after_chgrp", "mine");
	tell_call("chown_to_self", chown("mine", ALICE, CREW));
	tell_call("in_setgid_dir", open("sg/f", O_CREAT | O_WRONLY, 0666));
	tell_mode("made_in_setgid_dir", "sg/f");
	tell_call("dir_in_setgid_dir", mkdir("sg/d", 0777));
	tell_mode("made_dir_in_setgid_dir", "sg/d");
	tell_call("link_in_setgid_dir", symlink("x", "sg/l"));
	tell_mode("made_link_in_setgid_dir", "sg/l");
	tell_call("setgid_exec_in_setgid_dir", open("sg/x", O_CREAT | O_WRONLY, 02770));
	tell_mode("made_setgid_exec", "sg/x");
	tell_call("chmod_setgid_foreign", chmod("sg/f", 02770));
	tell_mode("after_chmod_setgid", "sg/f");
	tell_call("sticky_own", open("sticky/a", O_CREAT | O_WRONLY, 0666));
	tell_call("sticky_unlink_others", unlink("sticky/bobs"));
	tell_call("sticky_rename_others", rename("sticky/bobs", "sticky/c"));
	tell_call("sticky_replace_others", rename("sticky/a", "sticky/bobs"));
	tell_call("sticky_rmdir_others", rmdir("sticky/bobsdir"));
	tell_call("sticky_unlink_own", unlink("sticky/a"));
	tell_call("chmod_others", chmod("theirs", 0666));
	tell_call("fchmod_readonly_fd", fchmod(open("mine", O_RDONLY), 0600));
	tell_mode("after_fchmod", "mine");
}

void group_owners(void)
{
	make_dir("sg", 02777);
	if (chown("sg", 0, BOB) < 0)
		exit(1);
	chmod("sg", 02777);
	make_dir("sticky", 01777);
	make("sticky/bobs", "", 0666);
	make_dir("sticky/bobsdir", 0777);
	make("theirs", "", 0644);
	if (chown("sticky/bobs", BOB, BOB) < 0 || chown("sticky/bobsdir", BOB, BOB) < 0 ||
	    chown("theirs", BOB, BOB) < 0 || chmod(".", 0777) < 0)
		exit(1);
	as(ALICE, ALICE, true, owners_of_alice);
	tell_call("root_chowns", chown("mine", 12345, 54321));
	tell_mode("after_root_chown", "mine");
	tell_call("lchown", lchown("mylink", BOB, BOB));
	tell_mode("after_lchown", "mylink");
	tell_call("chown_nothing", chown("mine", -1, -1));
	tell_mode("after_chown_nothing", "mine");
	tell_call("chown_large", chown("mine", 4000000000u, 4000000001u));
	tell_mode("after_chown_large", "mine");
	tell_call("fchownat_empty", fchownat(open("mine", O_PATH), "", 5, 6, AT_EMPTY_PATH));
	tell_mode("after_fchownat_empty", "mine");
	tell_call("chmod_symlink", fchmodat(AT_FDCWD, "mylink", 0600, AT_SYMLINK_NOFOLLOW));
	tell_call("chmod_07777", chmod("mine", 07777));
	tell_mode("after_chmod_07777", "mine");
	tell_call("mkdir_sticky", mkdir("st", 01777));
	tell_mode("made_sticky", "st");
	tell_call("root_in_setgid_dir", mkdir("sg/rootdir", 0755));
	tell_mode("made_root_in_setgid_dir", "sg/rootdir");
}

static void set_id_write(void)
{
	int fd = open("w", O_WRONLY);

	tell_call("write", write(fd, "y", 1));
	tell_mode("after_write", "w");
	fd = open("p", O_WRONLY);
	tell_call("pwrite_zero", pwrite(fd, "", 0, 0));
	tell_mode("after_pwrite_zero", "p");
	tell_call("truncate", truncate("t", 1));
	tell_mode("after_truncate", "t");
	tell_call("truncate_same", truncate("t2", 1));
	tell_mode("after_truncate_same", "t2");
	tell_call("open_truncate", open("o", O_WRONLY | O_TRUNC));
	tell_mode("after_open_truncate", "o");
	tell_call("fallocate", fallocate(open("fa", O_WRONLY), 0, 0, 100));
	tell_mode("after_fallocate", "fa");
	tell_call("write_sgid_no_exec", write(open("g", O_WRONLY), "y", 1));
	tell_mode("after_write_sgid_no_exec", "g");
	tell_call("append", write(open("ap", O_WRONLY | O_APPEND), "y", 1));
	tell_mode("after_append", "ap");
	tell_call("chmod_by_stranger", chmod("w", 06777));
}

static void set_id_chown(void)
{
	tell_call("chown", chown("c", ALICE, CREW));
	tell_mode("after_chown", "c");
	tell_call("chown_sgid_no_exec", chown("c2", ALICE, CREW));
	tell_mode("after_chown_sgid_no_exec", "c2");
	tell_call("chmod_setuid", chmod("c", 04755));
	tell_mode("after_chmod_setuid", "c");
	tell_call("dir_chown", chown("cd", ALICE, CREW));
	tell_mode("after_dir_chown", "cd");
}

void group_set_id(void)
{
	static const char *const files[] = { "w", "p", "t", "t2", "o", "fa", "ap" };

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		make(files[i], i == 2 ? "long" : "x", 06777);
	make("g", "x", 02767);
	make("c", "x", 06755);
	make("c2", "x", 02745);
	make_dir("cd", 02775);
	if (chown("c", ALICE, ALICE) < 0 || chown("c2", ALICE, ALICE) < 0 ||
	    chown("cd", ALICE, ALICE) < 0)
		exit(1);
	tell_mode("root_chown_clears", "c");
	chmod("c", 06755);
	chmod("c2", 02745);
	chmod("cd", 02775);
	as(BOB, BOB, false, set_id_write);
	as(ALICE, ALICE, true, set_id_chown);
	make("r", "x", 06755);
	tell_call("root_write", write(open("r", O_WRONLY), "y", 1));
	tell_mode("after_root_write", "r");
	tell_call("root_truncate", truncate("r", 0));
	tell_mode("after_root_truncate", "r");
	tell_call("root_chown", chown("r", 1, 1));
	tell_mode("after_root_chown", "r");
	tell_call("create_setuid", open("cs", O_CREAT | O_WRONLY, 06755));
	tell_mode("created_setuid", "cs");
}
