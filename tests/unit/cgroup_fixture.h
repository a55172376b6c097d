/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A cgroup for unit tests that need a real one, on whatever layout this machine has. Each program
 * has a directory of its own, as several run at once. What goes wrong fails the test.
 */
#pragma once

#include "oci/config.h"

#include <stdbool.h>
#include <sys/types.h>

/* The cgroup, "" where none can be made. */
extern char fixture_path[64];

/* For cmocka's groups: teardown removes what a test that failed has left. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* fixture_need() - skip the test where there are no cgroups, or not this controller (or NULL). */
void fixture_need(const char *controller);

/* resources_parse() - limits out of JSON, to be freed. */
struct oci_linux_resources *resources_parse(const char *json);

/* fixture_create() - make the cgroup, with limits or NULL. fixture_remove() - and end it. */
void fixture_create(const char *json);
void fixture_remove(void);
bool fixture_exists(void);

/* fixture_expect() - that a controller's file has this for its first line. */
void fixture_expect(const char *controller, const char *file, const char *expected);

/* fixture_child() - a child that has entered the cgroup. */
enum kind { SLEEPS, FORKS, SPINS };
pid_t fixture_child(enum kind kind);
