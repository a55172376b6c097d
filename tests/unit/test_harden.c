/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Level sandbox: what becomes of a config, its filter, and what an overlay is made of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "oci/config.h"
#include "oci/settings.h"
#include "sandbox/bpf.h"
#include "sandbox/harden.h"
#include "sandbox/idmap_layers.h"
#include "sandbox/seccomp.h"

#include <linux/audit.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define NAMESPACES                                                                                 \
	"\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"network\"},{\"type\":\"ipc\"},"            \
	"{\"type\":\"uts\"},{\"type\":\"mount\"}]"
#define CONFIG(process, linux_)                                                                    \
	"{\"ociVersion\":\"1.2.0\",\"root\":{\"path\":\"r\"},\"process\":{\"args\":[\"x\"],"       \
	"\"cwd\":\"/\"" process "},\"linux\":{" NAMESPACES linux_ "}}"

static struct oci_config *parse(const char *text)
{
	struct err err = { 0 };
	struct oci_config *config = oci_config_parse(text, strlen(text), "test", &err);

	if (!config)
		fail_msg("%s", err.text);
	return config;
}

static struct moat_settings *settings_of(const char *text)
{
	struct err err = { 0 };
	struct moat_settings *settings = moat_settings_parse(text, strlen(text), "test", &err);

	if (!settings)
		fail_msg("%s", err.text);
	return settings;
}

static bool has(char *const *strings, size_t count, const char *wanted)
{
	for (size_t i = 0; i < count; i++)
		if (str_eq(strings[i], wanted))
			return true;
	return false;
}

static void config_is_made_stricter(void **state)
{
	struct moat_settings *settings = settings_of("{\"sandbox\":{\"memory\":\"1M\"}}");
	struct oci_config *config = parse(CONFIG("", ""));
	struct err err = { 0 };

	assert_int_equal(harden_config(config, settings, &err), 0);
	assert_true(config->process->no_new_privileges);
	assert_int_equal(config->linux_->resources->pids->limit, 1024);
	assert_int_equal(config->linux_->resources->memory->limit, 1 << 20);
	assert_null(config->linux_->resources->cpu);
	assert_true(has(config->linux_->masked_paths, config->linux_->n_masked_paths,
			"/proc/kallsyms"));
	assert_true(
		has(config->linux_->readonly_paths, config->linux_->n_readonly_paths, "/proc/sys"));
	assert_true(harden_needs_ids(config));
	harden_map_ids(config, 1u << 20);
	assert_false(harden_needs_ids(config));
	assert_int_equal(config->linux_->n_namespaces, 7); /* cgroup and user came along */
	assert_int_equal(config->linux_->uid_mappings[0].host_id, 1u << 20);
	assert_int_equal(config->linux_->gid_mappings[0].size, HARDEN_IDS);
	/* The first rule forbids every device. */
	assert_false(config->linux_->resources->devices[0].allow);
	oci_config_free(config);
	moat_settings_free(settings);
}

static void config_is_refused(void **state)
{
	static const struct {
		const char *config, *settings, *says;
	} cases[] = {
		{ CONFIG(",\"capabilities\":{\"effective\":[\"CAP_SYS_ADMIN\"]}", ""),
		  "{\"sandbox\":{\"capabilities\":[\"CAP_SYS_ADMIN\"]}}", "CAP_SYS_ADMIN" },
		{ CONFIG("", ",\"devices\":[{\"type\":\"c\",\"path\":\"/dev/x\",\"major\":10,"
			     "\"minor\":229}]"),
		  "{\"sandbox\":{\"allow\":[\"devices\"]}}", "/dev/x" },
		{ CONFIG("", ",\"resources\":{\"devices\":[{\"allow\":true}]}"),
		  "{\"sandbox\":{\"allow\":[\"devices\"]}}", "every device" },
		{ CONFIG(",\"user\":{\"uid\":65536,\"gid\":0}", ""), NULL, "65536" },
		{ CONFIG("", ",\"uidMappings\":[{\"containerID\":5,\"hostID\":0,\"size\":1}]"),
		  NULL, "host's root" },
		{ "{\"ociVersion\":\"1.2.0\",\"root\":{\"path\":\"r\"},\"process\":{\"args\":"
		  "[\"x\"],\"cwd\":\"/\"}}",
		  "{\"sandbox\":{\"allow\":[\"hostNetwork\",\"hostPID\",\"hostIPC\",\"hostUTS\"]}}",
		  "hostNetwork" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct moat_settings *usual = settings_of("{}");
		struct oci_config *config = parse(cases[i].config);
		struct err err = { 0 };

		assert_int_equal(harden_config(config, usual, &err), -1);
		assert_non_null(strstr(err.text, cases[i].says));
		if (cases[i].settings) {
			struct moat_settings *lenient = settings_of(cases[i].settings);

			assert_int_equal(harden_config(config, lenient, &err), 0);
			moat_settings_free(lenient);
		}
		oci_config_free(config);
		moat_settings_free(usual);
	}
}

struct wall {
	struct moat_settings *settings;
	struct oci_config *config;
	struct hardening hardening;
	struct seccomp_filter filter;
};

static int wall_make(void **state)
{
	static struct wall wall;
	struct err err = { 0 };

	wall.settings = settings_of("{}");
	wall.config = parse(CONFIG("", ""));
	hardening_init(&wall.hardening, wall.config, wall.settings, 0);
	*state = &wall;
	return seccomp_filter_compile(wall.hardening.ceiling, NULL, &wall.filter, &err);
}

static int wall_free(void **state)
{
	struct wall *wall = *state;

	hardening_free(&wall->hardening);
	seccomp_filter_free(&wall->filter);
	oci_config_free(wall->config);
	moat_settings_free(wall->settings);
	return 0;
}

static unsigned int answers(const struct wall *wall, const char *name)
{
	struct seccomp_data data = {
		.nr = seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86_64, name),
		.arch = AUDIT_ARCH_X86_64,
	};

	return bpf_answers(wall->filter.insns, wall->filter.count, &data, false);
}

static bool lets(const struct wall *wall, const char *name, uint64_t a, uint64_t b, uint64_t c)
{
	struct seccomp_data data = {
		.nr = seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86_64, name),
		.arch = AUDIT_ARCH_X86_64,
		.args = { a, b, c },
	};

	return bpf_answers(wall->filter.insns, wall->filter.count, &data, true) == BPF_CAN_ALLOW;
}

static void few_calls(void **state)
{
	const struct wall *wall = *state;
	size_t count = 0;

	for (int nr = 0; nr < 1024; nr++) {
		struct seccomp_data data = { .nr = nr, .arch = AUDIT_ARCH_X86_64 };

		count += bpf_answers(wall->filter.insns, wall->filter.count, &data, false) !=
			 BPF_CAN_REFUSE;
		data.arch = AUDIT_ARCH_I386;
		assert_int_equal(bpf_answers(wall->filter.insns, wall->filter.count, &data, false),
				 BPF_CAN_REFUSE);
		data.arch = AUDIT_ARCH_X86_64;
		data.nr = nr | 0x40000000;
		assert_int_equal(bpf_answers(wall->filter.insns, wall->filter.count, &data, false),
				 BPF_CAN_REFUSE);
	}
	assert_in_range(count, 150, 250);
}

static void calls_that_are_never_let_through(void **state)
{
	static const char *const names[] = {
		"bpf",
		"perf_event_open",
		"userfaultfd",
		"io_uring_setup",
		"kexec_load",
		"init_module",
		"finit_module",
		"keyctl",
		"add_key",
		"request_key",
		"ptrace",
		"mount",
		"umount2",
		"move_mount",
		"fsopen",
		"open_tree",
		"mount_setattr",
		"pivot_root",
		"unshare",
		"setns",
		"clone3",
		"reboot",
		"swapon",
		"acct",
		"quotactl",
		"iopl",
		"syslog",
		"clock_settime",
		"open_by_handle_at",
	};

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		assert_int_equal(answers(*state, names[i]), BPF_CAN_REFUSE);
	assert_int_equal(answers(*state, "read"), BPF_CAN_ALLOW);
	assert_int_equal(answers(*state, "clone"), BPF_CAN_ALLOW | BPF_CAN_REFUSE);
}

static void arguments(void **state)
{
	const struct wall *wall = *state;

	assert_true(lets(wall, "clone", CLONE_VM | CLONE_THREAD | CLONE_SIGHAND, 0, 0));
	assert_false(lets(wall, "clone", CLONE_NEWUSER, 0, 0));
	assert_false(lets(wall, "clone", CLONE_NEWNET | CLONE_VM, 0, 0));
	assert_true(lets(wall, "socket", AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
	assert_false(lets(wall, "socket", AF_INET, SOCK_RAW, 1));
	assert_true(lets(wall, "socket", AF_NETLINK, SOCK_RAW, 0));
	assert_false(lets(wall, "socket", AF_NETLINK, SOCK_RAW, 12));
	assert_false(lets(wall, "socket", AF_VSOCK, SOCK_STREAM, 0));
	assert_false(lets(wall, "socket", AF_ALG | 1ull << 32, SOCK_SEQPACKET, 0));
	assert_true(lets(wall, "ioctl", 0, TIOCGWINSZ, 0));
	assert_false(lets(wall, "ioctl", 0, TIOCSTI, 0));
	assert_false(lets(wall, "ioctl", 0, TIOCSTI | 1ull << 32, 0));
	assert_true(lets(wall, "mknod", 0, 0010644, 0));
	assert_false(lets(wall, "mknod", 0, 0020644, 0x501));
	assert_false(lets(wall, "personality", 0x40000, 0, 0));
}

static void reader_follows_both_ways(void **state)
{
	const struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x20, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
	};
	struct seccomp_data data = { .args = { 0x2f } };

	assert_int_equal(bpf_answers(program, ARRAY_LEN(program), &data, false),
			 BPF_CAN_ALLOW | BPF_CAN_REFUSE);
	assert_int_equal(bpf_answers(program, ARRAY_LEN(program), &data, true), BPF_CAN_ALLOW);
	data.args[0] = 0x1f;
	assert_int_equal(bpf_answers(program, ARRAY_LEN(program), &data, true), BPF_CAN_REFUSE);
	/* A program that runs off its end is not one that refuses. */
	assert_int_equal(bpf_answers(program, 2, &data, true), BPF_CAN_ALLOW | BPF_CAN_REFUSE);
}

static void overlay_options(void **state)
{
	struct layers layers = { 0 };
	struct err err = { 0 };

	assert_int_equal(layers_read(&layers,
				     xstrdup("rw,relatime,lowerdir=/a\\:b:/c\\,d:/e,upperdir=/u/x,"
					     "workdir=/u/y,metacopy=on,uuid=on,userxattr"),
				     &err),
			 0);
	assert_int_equal(layers.n_lower, 3);
	assert_string_equal(layers.lower[0], "/a:b");
	assert_string_equal(layers.lower[1], "/c,d");
	assert_string_equal(layers.lower[2], "/e");
	assert_string_equal(layers.upper, "/u/x");
	assert_string_equal(layers.work, "/u/y");
	assert_string_equal(layers.extra, "rw,metacopy=on,userxattr");
	layers_free(&layers);

	layers = (struct layers){ 0 };
	assert_int_equal(
		layers_read(&layers, xstrdup("ro,lowerdir+=/a,lowerdir+=/b,xino=off"), &err), 0);
	assert_int_equal(layers.n_lower, 2);
	assert_null(layers.upper);
	layers_free(&layers);

	layers = (struct layers){ 0 };
	assert_int_equal(layers_read(&layers, xstrdup("ro,lowerdir=/a::/data"), &err), -1);
	layers_free(&layers);
	layers = (struct layers){ 0 };
	assert_int_equal(layers_read(&layers, xstrdup("rw,lowerdir=/a,upperdir=/u"), &err), -1);
	layers_free(&layers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(config_is_made_stricter),
		cmocka_unit_test(config_is_refused),
		cmocka_unit_test_setup_teardown(few_calls, wall_make, wall_free),
		cmocka_unit_test_setup_teardown(calls_that_are_never_let_through, wall_make,
						wall_free),
		cmocka_unit_test_setup_teardown(arguments, wall_make, wall_free),
		cmocka_unit_test(reader_follows_both_ways),
		cmocka_unit_test(overlay_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
