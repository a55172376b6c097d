/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Extended attributes and ACLs, the latter in the kernel's own form. */
#include "check.h"

#include <linux/posix_acl_xattr.h>
#include <linux/posix_acl.h>
#include <sys/xattr.h>

static void list(const char *name, const char *path)
{
	char names[1024], text[1024] = "";
	ssize_t n = llistxattr(path, names, sizeof(names));
	size_t used = 0;
	int count = 0;

	/* Sorted: the order is the file system's own. */
	for (const char *best = "";;) {
		const char *next = NULL;

		for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1)
			if (strcmp(names + at, best) > 0 && (!next || strcmp(names + at, next) < 0))
				next = names + at;
		if (!next)
			break;
		if (used + strlen(next) + 2 < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, " %s", next);
		best = next;
		count++;
	}
	if (n < 0)
		tell_call(name, n);
	else
		tell(name, "%d%s", count, text);
}

static void attributes_of_user(void)
{
	char text[16];

	tell_call("user_sets_foreign", setxattr("f", "user.x", "1", 1, 0));
	tell_number("user_gets_foreign", getxattr("f", "user.a", text, sizeof(text)));
	tell_number("user_gets_unreadable", getxattr("secret", "user.a", text, sizeof(text)));
	tell_call("user_sets_security", setxattr("own", "security.capability", "x", 1, 0));
	tell_call("user_sets_own", setxattr("own", "user.x", "1", 1, 0));
}

void group_attributes(void)
{
	/* VFS_CAP_REVISION_2 with CAP_NET_BIND_SERVICE, effective */
	static const unsigned char capability[20] = { 1, 0, 0, 2, 0, 4 };
	char text[64], big[4096];
	int fd;

	make("f", "x", 0644);
	make("secret", "x", 0600);
	make("own", "x", 0644);
	if (chown("own", ALICE, ALICE) < 0)
		exit(1);
	make_dir("d", 0755);
	symlink("f", "l");
	tell_call("set", setxattr("f", "user.a", "value", 5, 0));
	tell_text("get", text, getxattr("f", "user.a", text, sizeof(text)));
	tell_number("size", getxattr("f", "user.a", NULL, 0));
	tell_number("small", getxattr("f", "user.a", text, 2));
	tell_number("missing", getxattr("f", "user.none", text, sizeof(text)));
	tell_call("create_exists", setxattr("f", "user.a", "x", 1, XATTR_CREATE));
	tell_call("replace_missing", setxattr("f", "user.b", "x", 1, XATTR_REPLACE));
	tell_call("replace", setxattr("f", "user.a", "new", 3, XATTR_REPLACE));
	tell_text("replaced", text, getxattr("f", "user.a", text, sizeof(text)));
	tell_call("empty", setxattr("f", "user.empty", "", 0, 0));
	tell_number("empty_size", getxattr("f", "user.empty", text, sizeof(text)));
	tell_call("binary", setxattr("f", "user.bin", "a\0b", 3, 0));
	tell_text("binary_got", text, getxattr("f", "user.bin", text, sizeof(text)));
	list("list", "f");
	tell_number("list_small", listxattr("f", text, 3));
	tell_call("remove", removexattr("f", "user.empty"));
	tell_call("remove_missing", removexattr("f", "user.empty"));
	list("list_then", "f");
	tell_call("no_space", setxattr("f", "a", "x", 1, 0));
	tell_call("odd_space", setxattr("f", "odd.a", "x", 1, 0));
	tell_call("empty_name", setxattr("f", "user.", "x", 1, 0));
	memset(big, 'b', sizeof(big));
	memcpy(big, "user.", 5);
	big[255] = '\0';
	tell_call("name_255", setxattr("f", big, "x", 1, 0));
	big[255] = 'b';
	big[256] = '\0';
	tell_call("name_256", setxattr("f", big, "x", 1, 0));
	tell_call("value_2000", setxattr("f", "user.big", big, 2000, 0));
	tell_number("value_2000_got", getxattr("f", "user.big", big, sizeof(big)));
	tell_call("directory", setxattr("d", "user.a", "x", 1, 0));
	tell_call("symlink", lsetxattr("l", "user.a", "x", 1, 0));
	tell_call("through_symlink", setxattr("l", "user.l", "x", 1, 0));
	mkfifo("p", 0644);
	tell_call("fifo", setxattr("p", "user.a", "x", 1, 0));
	fd = open("f", O_RDONLY);
	tell_call("by_fd", fsetxattr(fd, "user.fd", "x", 1, 0));
	tell_number("by_fd_got", fgetxattr(fd, "user.fd", text, sizeof(text)));
	tell_call("by_path_fd", fsetxattr(open("f", O_PATH), "user.p", "x", 1, 0));
	tell_call("capability", setxattr("f", "security.capability", capability, 20, 0));
	tell_number("capability_got", getxattr("f", "security.capability", text, sizeof(text)));
	tell_call("capability_bad", setxattr("f", "security.capability", "x", 1, 0));
	tell_call("write", write(open("f", O_WRONLY), "y", 1));
	tell_number("capability_after_write", getxattr("f", "security.capability", text, 64));
	setxattr("f", "security.capability", capability, 20, 0);
	tell_call("chown", chown("f", 5, 5));
	tell_number("capability_after_chown", getxattr("f", "security.capability", text, 64));
	as(ALICE, ALICE, false, attributes_of_user);
	rename("f", "g");
	tell_text("after_rename", text, getxattr("g", "user.a", text, sizeof(text)));
	link("g", "h");
	tell_text("by_other_link", text, getxattr("h", "user.a", text, sizeof(text)));
}

struct acl {
	struct posix_acl_xattr_header header;
	struct posix_acl_xattr_entry entry[8];
};

static size_t acl_make(struct acl *acl, const uint32_t (*entries)[3], size_t count)
{
	acl->header.a_version = POSIX_ACL_XATTR_VERSION;
	for (size_t i = 0; i < count; i++)
		acl->entry[i] = (struct posix_acl_xattr_entry){ .e_tag = (uint16_t)entries[i][0],
								.e_perm = (uint16_t)entries[i][1],
								.e_id = entries[i][2] };
	return sizeof(acl->header) + count * sizeof(acl->entry[0]);
}

static void tell_acl(const char *name, const char *path, const char *attribute)
{
	struct acl acl;
	char text[256] = "";
	ssize_t n = getxattr(path, attribute, &acl, sizeof(acl));

	if (n < 0) {
		tell_call(name, n);
		return;
	}
	for (size_t i = 0; i < ((size_t)n - sizeof(acl.header)) / sizeof(acl.entry[0]); i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), " %x:%o:%d",
			 acl.entry[i].e_tag, acl.entry[i].e_perm, (int)acl.entry[i].e_id);
	tell(name, "%s", text + 1);
}

#define ANY	    ((uint32_t)-1)
#define ACL_ACCESS  "system.posix_acl_access"
#define ACL_DEFAULT "system.posix_acl_default"

static void acls_of_alice(void)
{
	tell_call("named_user_reads", open("f", O_RDONLY));
	tell_call("named_user_writes", open("f", O_WRONLY));
	tell_call("masked_user_writes", open("m", O_WRONLY));
	tell_call("foreign_sets", setxattr("f", ACL_ACCESS, "", 0, 0));
}

static void acls_of_bob(void)
{
	tell_call("other_reads", open("f", O_RDONLY));
	tell_call("in_default_dir", open("d/bobs", O_CREAT | O_WRONLY, 0666));
	tell_mode("made_in_default_dir", "d/bobs");
}

void group_acls(void)
{
	const uint32_t access[][3] = { { ACL_USER_OBJ, 6, ANY },
				       { ACL_USER, 6, ALICE },
				       { ACL_GROUP_OBJ, 4, ANY },
				       { ACL_MASK, 6, ANY },
				       { ACL_OTHER, 0, ANY } };
	const uint32_t masked[][3] = { { ACL_USER_OBJ, 6, ANY },
				       { ACL_USER, 6, ALICE },
				       { ACL_GROUP_OBJ, 4, ANY },
				       { ACL_MASK, 4, ANY },
				       { ACL_OTHER, 0, ANY } };
	const uint32_t minimal[][3] = { { ACL_USER_OBJ, 7, ANY },
					{ ACL_GROUP_OBJ, 5, ANY },
					{ ACL_OTHER, 1, ANY } };
	struct acl acl;
	size_t size = acl_make(&acl, access, 5);

	make("f", "x", 0640);
	make("m", "x", 0640);
	make("min", "x", 0640);
	make_dir("d", 0777);
	tell_acl("none", "f", ACL_ACCESS);
	tell_call("set", setxattr("f", ACL_ACCESS, &acl, size, 0));
	tell_acl("got", "f", ACL_ACCESS);
	tell_mode("mode_shows_mask", "f");
	tell_call("default_of_file", setxattr("f", ACL_DEFAULT, &acl, size, 0));
	tell_call("default_of_dir", setxattr("d", ACL_DEFAULT, &acl, size, 0));
	tell_acl("default_got", "d", ACL_DEFAULT);
	umask(077);
	make_dir("d/sub", 0770);
	tell_acl("inherited_default", "d/sub", ACL_DEFAULT);
	close(open("d/new", O_CREAT | O_WRONLY, 0666));
	tell_acl("inherited", "d/new", ACL_ACCESS);
	tell_mode("inherited_mode", "d/new");
	mkdir("d/sub2", 0777);
	tell_mode("inherited_dir_mode", "d/sub2");
	umask(022);
	size = acl_make(&acl, masked, 5);
	tell_call("set_masked", setxattr("m", ACL_ACCESS, &acl, size, 0));
	as(ALICE, ALICE, false, acls_of_alice);
	as(BOB, BOB, false, acls_of_bob);
	tell_call("chmod", chmod("f", 0600));
	tell_acl("chmod_moves_mask", "f", ACL_ACCESS);
	size = acl_make(&acl, minimal, 3);
	tell_call("set_minimal", setxattr("min", ACL_ACCESS, &acl, size, 0));
	tell_mode("minimal_is_mode", "min");
	tell_acl("minimal_is_none", "min", ACL_ACCESS);
	acl.entry[0].e_tag = 0x77;
	tell_call("invalid", setxattr("min", ACL_ACCESS, &acl, size, 0));
	tell_call("remove", removexattr("f", ACL_ACCESS));
	tell_acl("removed", "f", ACL_ACCESS);
	tell_mode("mode_after_removal", "f");
	tell_call("remove_default", removexattr("d", ACL_DEFAULT));
	list("list", "d");
}
