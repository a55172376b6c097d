/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The lifecycle over engines of the test's own: who owns an id, what a command that was killed
 * leaves for the next one, which level a bundle gets.
 */
#include "base/file.h"
#include "base/path.h"
#include "base/proc.h"
#include "cgroup/cgroup.h"
#include "oci/record.h"
#include "runtime/runtime.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

static struct {
	int creates, destroys;
	bool fail_create;
	bool ending; /* the workload has ended, what stands for it does so soon */
	enum isolation level;
} engine;

static int fake_create(struct container *container, const struct create_options *options,
		       struct err *err)
{
	engine.creates++;
	engine.level = container->isolation;
	if (engine.fail_create)
		return err_set(err, 0, "the engine failed");
	container->pid = fork();
	if (container->pid == 0) {
		pause();
		_exit(0);
	}
	return 0;
}

static int fake_start(struct container *container, struct err *err)
{
	return 0;
}

static int fake_kill(struct container *container, int signal, bool all, struct err *err)
{
	if (engine.ending) {
		if (fork() == 0) {
			usleep(50000);
			kill(container->pid, SIGKILL);
			_exit(0);
		}
		return err_set(err, ERR_NOT_RUNNING, "container not running");
	}
	kill(container->pid, signal);
	waitpid(container->pid, NULL, 0);
	return 0;
}

static int fake_destroy(struct container *container, struct err *err)
{
	engine.destroys++;
	if (proc_is_alive(container->pid, container->start_time))
		fake_kill(container, SIGKILL, false, err);
	return 0;
}

#define FAKE(called)                                                                               \
	{                                                                                          \
		.name = called, .create = fake_create, .start = fake_start, .kill = fake_kill,     \
		.destroy = fake_destroy                                                            \
	}
const struct engine_ops plain_engine = FAKE("plain");
const struct engine_ops vm_engine = FAKE("vm");

struct fixture {
	char directory[64], *root, *bundle;
	struct runtime runtime;
	struct create_options options;
	struct err err;
	const char *settings; /* the operator's file; NULL: none */
};

static void write_config(struct fixture *f, const char *annotations)
{
	_cleanup_free_ char *path = xasprintf("%s/config.json", f->bundle);
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	fprintf(file,
		"{\"ociVersion\":\"1.0.0\",\"process\":{\"args\":[\"x\"],\"cwd\":\"/\","
		"\"user\":{\"uid\":0,\"gid\":0}},\"root\":{\"path\":\"rootfs\"}%s}",
		annotations);
	fclose(file);
}

static int open_runtime(struct fixture *f, const char *program, const char *isolation)
{
	struct runtime_options options = { .root = f->root,
					   .program = program,
					   .isolation = isolation,
					   .settings_path = f->settings,
					   .cgroup_manager = "disabled" };

	runtime_close(&f->runtime);
	memset(&f->runtime, 0, sizeof(f->runtime));
	return runtime_open(&f->runtime, &options, &f->err);
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	_cleanup_free_ char *rootfs = NULL;

	memset(&engine, 0, sizeof(engine));
	snprintf(f->directory, sizeof(f->directory), "/tmp/moat-test-XXXXXX");
	if (!mkdtemp(f->directory))
		return -1;
	f->root = xasprintf("%s/state/below", f->directory);
	f->bundle = xasprintf("%s/bundle", f->directory);
	rootfs = xasprintf("%s/rootfs", f->bundle);
	if (mkdir(f->bundle, 0700) < 0 || mkdir(rootfs, 0700) < 0)
		return -1;
	write_config(f, "");
	f->options.console_socket = -1;
	*state = f;
	return open_runtime(f, "moat-plain", NULL);
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	struct err err;
	int r = path_remove_tree(AT_FDCWD, f->directory, &err);

	runtime_close(&f->runtime);
	free(f->root);
	free(f->bundle);
	free(f);
	return r;
}

static struct instance *create(struct fixture *f, const char *id)
{
	return instance_create(&f->runtime, id, f->bundle, NULL, &f->options, &f->err);
}

static bool exists(struct fixture *f, const char *name)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", f->root, name);

	return access(path, F_OK) == 0;
}

static void test_lifecycle(void **state)
{
	struct fixture *f = *state;
	_cleanup_free_ char *text = NULL;
	struct instance *instance = create(f, "one");
	pid_t pid;

	assert_non_null(instance);
	pid = instance->container.pid;
	assert_int_equal(instance_status(instance), STATUS_CREATED);
	assert_int_equal(instance_start(instance, &f->err), 0);
	assert_int_equal(instance_start(instance, &f->err), -1);
	assert_int_equal(instance_delete(instance, false, &f->err), -1);
	assert_int_equal(f->err.code, ERR_NOT_RUNNING);
	instance_free(instance);

	instance = instance_load(&f->runtime, "one", false, &f->err);
	assert_non_null(instance);
	assert_int_equal(instance_status(instance), STATUS_RUNNING);
	assert_int_equal(instance->container.pid, pid);
	text = instance_state(instance);
	assert_non_null(strstr(text, "\"status\":\"running\""));
	assert_int_equal(instance_kill(instance, SIGTERM, false, &f->err), 0);
	assert_int_equal(instance_status(instance), STATUS_STOPPED);
	assert_int_equal(instance_kill(instance, SIGTERM, false, &f->err), -1);
	assert_int_equal(f->err.code, ERR_NOT_RUNNING);
	assert_int_equal(instance_delete(instance, false, &f->err), 0);
	instance_free(instance);
	assert_false(exists(f, "one"));
	assert_null(instance_load(&f->runtime, "one", false, &f->err));
	assert_int_equal(f->err.code, ERR_NO_CONTAINER);
}

/* kill says that it has ended: then delete does not say that it runs. */
static void test_about_to_end(void **state)
{
	struct fixture *f = *state;
	struct instance *instance = create(f, "one");

	assert_non_null(instance);
	assert_int_equal(instance_start(instance, &f->err), 0);
	assert_int_equal(instance_delete(instance, false, &f->err), -1);
	engine.ending = true;
	assert_int_equal(instance_kill(instance, SIGTERM, false, &f->err), -1);
	engine.ending = false;
	assert_int_equal(instance_delete(instance, false, &f->err), 0);
	instance_free(instance);
	while (wait(NULL) > 0)
		;
}

static void test_bad_ids(void **state)
{
	struct fixture *f = *state;
	char longer[RUNTIME_ID_MAX + 2];
	const char *const bad[] = { "", ".", "..", "a/b", "../x", "a b", "\xc3\xa4", longer };

	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_null(create(f, bad[i]));
	assert_int_equal(engine.creates, 0);
	assert_false(exists(f, ""));
}

static void test_id_in_use(void **state)
{
	struct fixture *f = *state;
	struct instance *instance = create(f, "one");

	assert_non_null(instance);
	assert_null(create(f, "one"));
	assert_int_equal(f->err.code, EEXIST);
	assert_int_equal(instance_status(instance), STATUS_CREATED);
	assert_int_equal(instance_delete(instance, true, &f->err), 0);
	instance_free(instance);
}

static void test_failed_create_leaves_nothing(void **state)
{
	struct fixture *f = *state;

	engine.fail_create = true;
	assert_null(create(f, "one"));
	assert_string_equal(f->err.text, "the engine failed");
	assert_int_equal(engine.destroys, 1);
	assert_false(exists(f, "one"));
}

/* A create that was killed between two steps: the directory alone, and half a state file. */
static void test_cut_short(void **state)
{
	struct fixture *f = *state;
	const char *const contents[] = { NULL, "", "{\"id\":\"o", "{\"id\":\"one\"}" };

	for (size_t i = 0; i < ARRAY_LEN(contents); i++) {
		_cleanup_free_ char *path = xasprintf("%s/one", f->root);
		_cleanup_(instance_free_pointer) struct instance *instance = NULL;
		_cleanup_fd_ int fd = -1;

		instance = create(f, "warm-up"); /* makes the root */
		assert_int_equal(instance_delete(instance, true, &f->err), 0);
		assert_int_equal(mkdir(path, 0700), 0);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (contents[i])
			assert_int_equal(file_replace(fd, "state.json", contents[i],
						      strlen(contents[i]), 0600, &f->err),
					 0);
		instance_free(instance);
		instance = instance_load(&f->runtime, "one", true, &f->err);
		assert_non_null(instance);
		assert_int_equal(instance_status(instance), STATUS_STOPPED);
		assert_int_equal(instance_delete(instance, false, &f->err), 0);
		assert_false(exists(f, "one"));
	}
}

/* A pid that another process has by now is not the container. */
static void test_reused_pid(void **state)
{
	struct fixture *f = *state;
	struct instance *instance = create(f, "one");

	assert_int_equal(fake_kill(&instance->container, SIGKILL, false, NULL), 0);
	instance->record->pid = getpid();
	assert_int_equal(instance_status(instance), STATUS_STOPPED);
	assert_int_equal(instance_delete(instance, false, &f->err), 0);
	instance_free(instance);
}

/* Two commands that change one container: the second waits, and finds it gone. */
static void test_lock(void **state)
{
	struct fixture *f = *state;
	struct instance *instance = create(f, "one");
	pid_t other = fork();

	if (other == 0) {
		struct err err;
		struct instance *mine = instance_load(&f->runtime, "one", true, &err);

		_exit(!mine && err.code == ERR_NO_CONTAINER ? 0 : 1);
	}
	usleep(200000);
	assert_int_equal(instance_delete(instance, true, &f->err), 0);
	instance_free(instance);
	assert_int_equal(proc_wait(other), 0);
}

static void test_isolation(void **state)
{
	static const char raise[] = ",\"annotations\":{\"run.moat.isolation\":\"vm\"}";
	static const char lower[] = ",\"annotations\":{\"run.moat.isolation\":\"plain\"}";
	struct fixture *f = *state;
	struct instance *instance;

	write_config(f, raise);
	instance = create(f, "one");
	assert_non_null(instance);
	assert_int_equal(engine.level, ISOLATION_VM);
	assert_int_equal(instance_delete(instance, true, &f->err), 0);
	instance_free(instance);

	write_config(f, lower);
	assert_int_equal(open_runtime(f, "/usr/bin/moat", NULL), 0);
	assert_int_equal(f->runtime.isolation, ISOLATION_VM);
	assert_null(create(f, "two"));
	assert_non_null(strstr(f->err.text, "weaker than vm"));

	assert_int_equal(open_runtime(f, "moat-plain", "sandbox"), 0);
	assert_int_equal(f->runtime.isolation, ISOLATION_SANDBOX);
	assert_int_equal(open_runtime(f, "moat-typo", NULL), -1);
	assert_int_equal(open_runtime(f, "moat", "strong"), -1);
	assert_int_equal(open_runtime(f, "moat", "plain"), 0);
}

/* A pattern that could match nothing, whatever there is, is told of. */
static void test_block_device_patterns(void **state)
{
	static const struct {
		const char *pattern, *says;
	} cases[] = {
		{ "/dev/vg0/*", NULL },
		{ "/dev/sd[b-d]", NULL },
		{ "/dev/x[]!]y[!]a]z", NULL },
		{ "/dev/x\\\\[y", NULL }, /* JSON's own backslash beside it */
		{ "/dev/x]", NULL },
		{ "/dev/[[:digit:]]", NULL },
		{ "/dev/[\\\\]]", NULL },
		{ "/dev/[[:digit:]", "the [ at character 6 of" },
		{ "/dev/[\\\\]", "the [ at character 6 of" },
		{ "loop0", "expected an absolute path" },
		{ "/dev/sd[b-d", "the [ at character 8 of \"/dev/sd[b-d\" has no ]" },
		{ "/dev/[ab]/[", "the [ at character 11 of" },
		{ "/dev/[]", "the [ at character 6 of" },
		{ "/dev/[!]", "the [ at character 6 of" },
		{ "/dev/a[b/c]d", "the [ at character 7 of" },
		{ "/dev/x\\\\", "ends in a backslash" },
	};
	struct fixture *f = *state;
	_cleanup_free_ char *path = xasprintf("%s/moat.json", f->directory);

	f->settings = path;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_free_ char *text =
			xasprintf("{\"blockDevices\":[\"/dev/a\",\"%s\"]}", cases[i].pattern);
		int expected = cases[i].says ? -1 : 0;

		assert_int_equal(file_replace(AT_FDCWD, path, text, strlen(text), 0600, &f->err),
				 0);
		assert_int_equal(open_runtime(f, "moat", NULL), expected);
		if (!cases[i].says)
			continue;
		assert_non_null(strstr(f->err.text, "blockDevices[1]"));
		assert_non_null(strstr(f->err.text, cases[i].says));
	}
}

/* What the operator's file lets the annotation do. */
static void test_isolation_lowered(void **state)
{
	static const char lower[] = ",\"annotations\":{\"run.moat.isolation\":\"plain\"}";
	static const char listed[] = "{\"annotations\":[\"run.moat.isolation\"]}";
	static const char misspelt[] = "{\"annotations\":[\"run.moat.isolaton\"]}";
	struct fixture *f = *state;
	_cleanup_free_ char *path = xasprintf("%s/moat.json", f->directory);
	struct instance *instance;

	write_config(f, lower);
	f->settings = path;
	assert_int_equal(file_replace(AT_FDCWD, path, listed, strlen(listed), 0600, &f->err), 0);
	assert_int_equal(open_runtime(f, "moat", NULL), 0);
	assert_int_equal(f->runtime.isolation, ISOLATION_VM);
	instance = create(f, "one");
	assert_non_null(instance);
	assert_int_equal(engine.level, ISOLATION_PLAIN);
	assert_int_equal(instance_delete(instance, true, &f->err), 0);
	instance_free(instance);

	assert_int_equal(file_replace(AT_FDCWD, path, misspelt, strlen(misspelt), 0600, &f->err),
			 0);
	assert_int_equal(open_runtime(f, "moat", NULL), -1);
	assert_non_null(strstr(f->err.text, "isolaton"));
}

static void test_list(void **state)
{
	struct fixture *f = *state;
	char **ids = runtime_list(&f->runtime, &f->err);
	struct instance *b, *a;

	assert_non_null(ids);
	assert_null(ids[0]);
	strings_free(ids);
	b = create(f, "b");
	a = create(f, "a");
	ids = runtime_list(&f->runtime, &f->err);
	assert_string_equal(ids[0], "a");
	assert_string_equal(ids[1], "b");
	assert_null(ids[2]);
	strings_free(ids);
	assert_int_equal(instance_delete(a, true, &f->err), 0);
	assert_int_equal(instance_delete(b, true, &f->err), 0);
	instance_free(a);
	instance_free(b);
}

static void test_bad_bundles(void **state)
{
	struct fixture *f = *state;
	_cleanup_free_ char *config = xasprintf("%s/config.json", f->bundle);
	_cleanup_free_ char *rootfs = xasprintf("%s/rootfs", f->bundle);

	assert_null(
		instance_create(&f->runtime, "one", "/nonexistent", NULL, &f->options, &f->err));
	assert_int_equal(rmdir(rootfs), 0);
	assert_null(create(f, "one"));
	assert_non_null(strstr(f->err.text, "root file system"));
	assert_int_equal(unlink(config), 0);
	assert_null(create(f, "one"));
	assert_non_null(strstr(f->err.text, "moat spec"));
	assert_int_equal(engine.creates, 0);
	assert_false(exists(f, "one"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_lifecycle, setup, teardown),
		cmocka_unit_test_setup_teardown(test_about_to_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_ids, setup, teardown),
		cmocka_unit_test_setup_teardown(test_id_in_use, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failed_create_leaves_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut_short, setup, teardown),
		cmocka_unit_test_setup_teardown(test_reused_pid, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_isolation, setup, teardown),
		cmocka_unit_test_setup_teardown(test_block_device_patterns, setup, teardown),
		cmocka_unit_test_setup_teardown(test_isolation_lowered, setup, teardown),
		cmocka_unit_test_setup_teardown(test_list, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_bundles, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
