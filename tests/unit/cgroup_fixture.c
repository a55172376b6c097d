/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cgroup_fixture.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "cgroup/layout.h"
#include "cgroup/tree.h"
#include "oci/config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The directory that the cgroup is in. */
static char parent[40];

char fixture_path[64];

struct oci_linux_resources *resources_parse(const char *json)
{
	struct err err = { 0 };
	struct oci_linux_resources *r =
		oci_linux_resources_parse(json, strlen(json), "resources", &err);

	if (!r)
		fail_msg("%s", err.text);
	return r;
}

void fixture_create(const char *json)
{
	struct oci_linux_resources *r = json ? resources_parse(json) : NULL;
	struct err err = { 0 };

	if (cgroup_create(fixture_path, r, &err) < 0)
		fail_msg("%s", err.text);
	oci_linux_resources_free(r);
}

/* Where the file of a controller is: its hierarchy's, or the v2 one. */
static char *directory(const char *controller)
{
	const struct hierarchy *h = layout_find(layout_get(), controller);

	return tree_directory(h ? h->mount : layout_get()->unified, fixture_path);
}

void fixture_expect(const char *controller, const char *file, const char *expected)
{
	char *dir = directory(controller), *name = xasprintf("%s/%s", dir, file);
	struct err err = { 0 };
	char *text = file_read(AT_FDCWD, name, 4096, NULL, &err);

	if (!text)
		fail_msg("%s", err.text);
	text[strcspn(text, "\n")] = '\0';
	assert_string_equal(text, expected);
	free(text);
	free(name);
	free(dir);
}

bool fixture_exists(void)
{
	const struct layout *layout = layout_get();
	bool found = false;

	for (size_t i = 0; i <= layout->n_v1; i++) {
		const char *mount = i < layout->n_v1 ? layout->v1[i].mount : layout->unified;
		char *dir = mount ? tree_directory(mount, fixture_path) : NULL;

		found = found || (dir && access(dir, F_OK) == 0);
		free(dir);
	}
	return found;
}

void fixture_remove(void)
{
	struct err err = { 0 };

	if (cgroup_remove(fixture_path, &err) < 0)
		fail_msg("%s", err.text);
	assert_false(fixture_exists());
}

pid_t fixture_child(enum kind kind)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		struct err err = { 0 };

		if (cgroup_enter(fixture_path, 0, &err) < 0)
			_exit(1);
		if (kind == FORKS && fork() > 0)
			fork();
		(void)!write(ready[1], "x", 1);
		for (;;)
			if (kind != SPINS)
				pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

int fixture_setup(void **state)
{
	struct err err = { 0 };

	snprintf(parent, sizeof(parent), "moat-unit-test-%d", (int)getpid());
	snprintf(fixture_path, sizeof(fixture_path), "/%s/one", parent);
	if (cgroup_create(fixture_path, NULL, &err) < 0) {
		print_message("no cgroup can be made here: %s\n", err.text);
		fixture_path[0] = '\0';
		return 0;
	}
	return cgroup_remove(fixture_path, NULL);
}

int fixture_teardown(void **state)
{
	const struct layout *layout = layout_get();

	if (*fixture_path) /* where a test failed, it is still there */
		cgroup_remove(fixture_path, NULL);
	for (size_t i = 0; i <= layout->n_v1; i++) {
		const char *mount = i < layout->n_v1 ? layout->v1[i].mount : layout->unified;
		char *dir = mount ? tree_directory(mount, parent) : NULL;

		if (dir)
			rmdir(dir);
		free(dir);
	}
	return 0;
}

void fixture_need(const char *controller)
{
	const struct layout *layout = layout_get();
	char *file, *list;

	if (!*fixture_path)
		skip();
	if (!controller || layout_find(layout, controller))
		return;
	if (layout->kind != CGROUP_V2)
		skip();
	file = xasprintf("%s/cgroup.controllers", layout->unified);
	list = file_read(AT_FDCWD, file, 4096, NULL, NULL);
	free(file);
	if (!list || !list_has(list, controller)) {
		free(list);
		skip();
	}
	free(list);
}
