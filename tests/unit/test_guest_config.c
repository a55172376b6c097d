/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What becomes of config.json inside of the guest. */
#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "guest/config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#define HEAD "{\"ociVersion\":\"1.0.2\",\"root\":{\"path\":\"rootfs\",\"readonly\":true},"
#define PROCESS                                                                                    \
	"\"process\":{\"args\":[\"sh\"],\"cwd\":\"/\",\"apparmorProfile\":\"docker-default\","     \
	"\"selinuxLabel\":\"a:b:c\"}"

static struct guest_config config;
static struct err err;

static char blocks[64] = "/nowhere"; /* in the place of /sys/block */
static Moat__Agent__Disk disks[] = { MOAT__AGENT__DISK__INIT, MOAT__AGENT__DISK__INIT };
static size_t n_disks;

/* @entries: pairs of mount and entry. */
static int read_with(const char *text, const uint32_t (*entries)[2], size_t count)
{
	Moat__Agent__CreateContainerRequest request = MOAT__AGENT__CREATE_CONTAINER_REQUEST__INIT;
	Moat__Agent__Tree root = MOAT__AGENT__TREE__INIT, trees[4], *pointers[4];
	Moat__Agent__Disk *list[] = { &disks[0], &disks[1] };

	for (size_t i = 0; i < count; i++) {
		moat__agent__tree__init(&trees[i]);
		trees[i].mount = entries[i][0];
		trees[i].entry = entries[i][1];
		pointers[i] = &trees[i];
	}
	request.config = (char *)text;
	request.root = &root;
	request.trees = pointers;
	request.n_trees = count;
	request.disks = list;
	request.n_disks = n_disks;
	memset(&err, 0, sizeof(err));
	return guest_config_read(&config, &request, "/trees", blocks, &err);
}

static int teardown(void **state)
{
	guest_config_release(&config);
	return 0;
}

static void test_root_and_mounts(void **state)
{
	static const uint32_t entries[][2] = { { 1, 7 }, { 3, 1 } };

	assert_int_equal(
		read_with(HEAD PROCESS
			  ",\"mounts\":["
			  "{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\"},"
			  "{\"destination\":\"/a\",\"type\":\"bind\",\"source\":\"/srv/a\","
			  "\"options\":[\"rbind\",\"ro\"]},"
			  "{\"destination\":\"/tmp\",\"type\":\"tmpfs\"},"
			  "{\"destination\":\"/etc/hosts\",\"type\":\"none\",\"source\":\"/h\","
			  "\"options\":[\"bind\"]}]}",
			  entries, 2),
		0);
	assert_string_equal(config.config.root->path, "/trees/0");
	assert_true(config.config.root->readonly);
	assert_int_equal(config.config.n_mounts, 4);
	assert_string_equal(config.config.mounts[0].source, "proc");
	assert_string_equal(config.config.mounts[1].source, "/trees/7");
	assert_string_equal(config.config.mounts[1].options[1], "ro");
	assert_string_equal(config.config.mounts[3].source, "/trees/1");
}

static void test_process(void **state)
{
	assert_int_equal(read_with(HEAD PROCESS "}", NULL, 0), 0);
	assert_null(config.config.process->apparmor_profile);
	assert_null(config.config.process->selinux_label);
	assert_true(config.config.process->has_oom_score_adj);
	assert_int_equal(config.config.process->oom_score_adj, 0);
	guest_config_release(&config);
	assert_int_equal(read_with(HEAD "\"process\":{\"args\":[\"a\"],\"cwd\":\"/\","
					"\"oomScoreAdj\":-900}}",
				   NULL, 0),
			 0);
	assert_int_equal(config.config.process->oom_score_adj, -900);
}

static void test_linux(void **state)
{
	const struct oci_linux *linux_;

	assert_int_equal(
		read_with(HEAD PROCESS
			  ",\"hooks\":{\"prestart\":[{\"path\":\"/bin/x\"}],"
			  "\"startContainer\":[{\"path\":\"/bin/y\"}]},"
			  "\"linux\":{\"cgroupsPath\":\"/kubepods/x\",\"mountLabel\":\"l\","
			  "\"memoryPolicy\":{\"mode\":\"MPOL_BIND\",\"nodes\":\"3\"},"
			  "\"namespaces\":[{\"type\":\"pid\"},"
			  "{\"type\":\"network\",\"path\":\"/proc/7/ns/net\"},"
			  "{\"type\":\"user\"},{\"type\":\"mount\"}],"
			  "\"uidMappings\":[{\"containerID\":0,\"hostID\":100000,\"size\":65536}],"
			  "\"sysctl\":{\"net.core.somaxconn\":\"9\",\"kernel.shmmax\":\"1\"},"
			  "\"resources\":{\"memory\":{\"limit\":1048576},"
			  "\"cpu\":{\"quota\":5000,\"cpus\":\"4-7\",\"mems\":\"1\"},"
			  "\"blockIO\":{\"weight\":10},\"pids\":{\"limit\":7},"
			  "\"unified\":{\"io.max\":\"8:0 rbps=1\",\"memory.high\":\"100\"}}}}",
			  NULL, 0),
		0);
	linux_ = config.config.linux_;
	assert_int_equal(config.config.hooks->n_prestart, 0);
	assert_int_equal(config.config.hooks->n_start_container, 1);
	assert_null(linux_->cgroups_path);
	assert_null(linux_->mount_label);
	assert_null(linux_->memory_policy);
	assert_int_equal(linux_->n_namespaces, 3);
	assert_string_equal(linux_->namespaces[0].type, "pid");
	assert_string_equal(linux_->namespaces[1].type, "user");
	assert_string_equal(linux_->namespaces[2].type, "mount");
	assert_int_equal(linux_->n_uid_mappings, 1);
	assert_int_equal(linux_->n_sysctl, 1);
	assert_string_equal(linux_->sysctl[0].key, "kernel.shmmax");
	assert_int_equal(config.n_network_sysctl, 1);
	assert_string_equal(config.network_sysctl[0]->key, "net.core.somaxconn");
	assert_int_equal(linux_->resources->memory->limit, 1048576);
	assert_int_equal(linux_->resources->cpu->quota, 5000);
	assert_null(linux_->resources->cpu->cpus);
	assert_null(linux_->resources->cpu->mems);
	assert_null(linux_->resources->block_io);
	assert_int_equal(linux_->resources->pids->limit, 7);
	assert_int_equal(linux_->resources->n_unified, 1);
	assert_string_equal(linux_->resources->unified[0].key, "memory.high");
}

/* A disk as the kernel describes it. */
static void describe(const char *name, const char *serial, const char *numbers)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", blocks, name);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/%s/serial", blocks, name);
	fclose(fopen(path, "w"));
	assert_int_equal(file_write(AT_FDCWD, path, serial, &err), 0);
	snprintf(path, sizeof(path), "%s/%s/dev", blocks, name);
	fclose(fopen(path, "w"));
	assert_int_equal(file_write(AT_FDCWD, path, numbers, &err), 0);
}

static void forget(const char *name)
{
	static const char *const parts[] = { "/serial", "/dev", "" };
	char path[128];

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		snprintf(path, sizeof(path), "%s/%s%s", blocks, name, parts[i]);
		assert_int_equal(remove(path), 0);
	}
}

static void check_rule(size_t index, bool allow, int64_t major, int64_t minor, const char *access)
{
	const struct oci_device_rule *rule = &config.config.linux_->resources->devices[index];

	assert_int_equal(rule->allow, allow);
	assert_string_equal(rule->type, "b");
	assert_int_equal(rule->major, major);
	assert_int_equal(rule->minor, minor);
	assert_string_equal(rule->access, access);
}

/* Numbers of disks are the guest's, whatever order its kernel has found them in. */
static void test_disks(void **state)
{
	static const char text[] = HEAD PROCESS
		",\"linux\":{\"devices\":["
		"{\"path\":\"/dev/fuse\",\"type\":\"c\",\"major\":10,\"minor\":229},"
		"{\"path\":\"/dev/a\",\"type\":\"b\",\"major\":7,\"minor\":0,"
		"\"fileMode\":384,\"uid\":5},"
		"{\"path\":\"/dev/b\",\"type\":\"b\",\"major\":7,\"minor\":1}],"
		"\"resources\":{\"devices\":[{\"allow\":false,\"access\":\"rwm\"},"
		"{\"allow\":true,\"type\":\"b\",\"major\":7,\"minor\":0,\"access\":\"rwm\"},"
		"{\"allow\":true,\"type\":\"b\",\"major\":7,\"minor\":1,\"access\":\"r\"},"
		"{\"allow\":true,\"type\":\"b\",\"major\":254,\"minor\":0,\"access\":\"r\"},"
		"{\"allow\":true,\"major\":10,\"minor\":229,\"access\":\"rw\"}]}}}";
	const struct oci_linux *linux_;

	snprintf(blocks, sizeof(blocks), "/tmp/moat-blocks-XXXXXX");
	assert_non_null(mkdtemp(blocks));
	describe("vda", "moat-1\n", "254:0\n");
	describe("vdb", "moat-0\n", "254:16\n");
	describe("vdc", "moat-10\n", "254:32\n");
	disks[0].device = 1;
	disks[0].number = 0;
	disks[1].device = 2;
	disks[1].number = 1;
	n_disks = 2;
	assert_int_equal(read_with(text, NULL, 0), 0);
	linux_ = config.config.linux_;
	assert_int_equal(linux_->n_devices, 3);
	assert_int_equal(linux_->devices[0].minor, 229);
	assert_string_equal(linux_->devices[1].path, "/dev/a");
	assert_int_equal(linux_->devices[1].major, 254);
	assert_int_equal(linux_->devices[1].minor, 16);
	assert_int_equal(linux_->devices[1].file_mode, 0600);
	assert_int_equal(linux_->devices[1].uid, 5);
	assert_int_equal(linux_->devices[2].minor, 0);
	/* The rule about the host's 254:0 is not one about the guest's. */
	assert_int_equal(linux_->resources->n_devices, 2 + 3);
	assert_string_equal(linux_->resources->devices[1].type, "c");
	check_rule(2, true, 254, 16, "rw");
	check_rule(3, true, 254, 0, "r");
	check_rule(4, false, 254, 0, "w");
	guest_config_release(&config);

	disks[1].number = 2; /* the machine has none of that number */
	assert_int_equal(read_with(text, NULL, 0), -1);
	assert_non_null(strstr(err.text, "disk 2"));
	guest_config_release(&config);
	n_disks = 1;
	assert_int_equal(read_with(text, NULL, 0), -1);
	assert_non_null(strstr(err.text, "linux.devices[2]: /dev/b"));
	n_disks = 0;
	forget("vda");
	forget("vdb");
	forget("vdc");
	assert_int_equal(remove(blocks), 0);
}

static void test_sysfs_in_user_namespace(void **state)
{
	static const char text[] =
		HEAD PROCESS ",\"mounts\":[{\"destination\":\"/sys\",\"type\":\"sysfs\","
			     "\"options\":[\"ro\"]}],"
			     "\"linux\":{\"namespaces\":[{\"type\":\"user\"}]}}";
	const struct oci_mount *mount;

	assert_int_equal(read_with(text, NULL, 0), 0);
	mount = &config.config.mounts[0];
	assert_string_equal(mount->type, "bind");
	assert_string_equal(mount->source, "/sys");
	assert_int_equal(mount->n_options, 2);
	assert_string_equal(mount->options[0], "ro");
	assert_string_equal(mount->options[1], "bind");
	assert_null(mount->options[2]);
}

static void expect_refusal(const char *text, const uint32_t (*entries)[2], size_t count,
			   const char *why)
{
	assert_int_equal(read_with(text, entries, count), -1);
	if (!strstr(err.text, why))
		fail_msg("'%s' does not say '%s'", err.text, why);
	guest_config_release(&config);
}

static void test_refusals(void **state)
{
	static const uint32_t far[][2] = { { 9, 1 } }, proc[][2] = { { 0, 1 } },
			      twice[][2] = { { 0, 1 }, { 0, 2 } };
	static const char bind[] = HEAD PROCESS ",\"mounts\":[{\"destination\":\"/a\","
						"\"type\":\"bind\",\"source\":\"/a\"}]}";

	expect_refusal("{", NULL, 0, "config.json");
	expect_refusal(bind, NULL, 0, "no tree for mounts[0]");
	expect_refusal(bind, far, 1, "mounts[9]");
	expect_refusal(bind, twice, 2, "mounts[0], which takes none");
	expect_refusal(HEAD PROCESS ",\"mounts\":[{\"destination\":\"/p\",\"type\":\"proc\"}]}",
		       proc, 1, "mounts[0], which takes none");
	expect_refusal(HEAD PROCESS ",\"mounts\":[{\"destination\":\"/m\",\"type\":\"nfs\"}]}",
		       NULL, 0, "mounts[0]: a file system of type 'nfs'");
	expect_refusal(HEAD PROCESS ",\"linux\":{\"namespaces\":[{\"type\":\"ipc\","
				    "\"path\":\"/proc/1/ns/ipc\"}]}}",
		       NULL, 0, "cannot join the ipc namespace /proc/1/ns/ipc");
	expect_refusal(HEAD PROCESS ",\"linux\":{\"seccomp\":{\"defaultAction\":\"SCMP_ACT_ALLOW\","
				    "\"listenerPath\":\"/s\"}}}",
		       NULL, 0, "seccomp.listenerPath");
	expect_refusal(HEAD PROCESS ",\"linux\":{\"netDevices\":{\"eth0\":{\"name\":\"a\"}}}}",
		       NULL, 0, "linux.netDevices");
	expect_refusal(HEAD PROCESS ",\"linux\":{\"intelRdt\":{\"closID\":\"x\"}}}", NULL, 0,
		       "linux.intelRdt");
}

#define TEST(name) cmocka_unit_test_teardown(test_##name, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = { TEST(root_and_mounts), TEST(process),
					    TEST(linux),	   TEST(sysfs_in_user_namespace),
					    TEST(refusals),	   TEST(disks) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
