/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Device rules: reading them, and saying them in the language of v1. */
#include "cgroup/devices.h"

#include "base/str.h"
#include "cgroup/settings.h"
#include "oci/config.h"

#include <inttypes.h>
#include <stdio.h>

#define ACCESS_ALL (BPF_DEVCG_ACC_MKNOD | BPF_DEVCG_ACC_READ | BPF_DEVCG_ACC_WRITE)

/* What config-linux.md "Default Devices" gives to every container; making a node does no harm. */
static const struct device_rule defaults[] = {
	{ true, BPF_DEVCG_DEV_CHAR, BPF_DEVCG_ACC_MKNOD, DEVICE_ANY, DEVICE_ANY },
	{ true, BPF_DEVCG_DEV_BLOCK, BPF_DEVCG_ACC_MKNOD, DEVICE_ANY, DEVICE_ANY },
	{ true, BPF_DEVCG_DEV_CHAR, ACCESS_ALL, 1, 3 },		   /* null */
	{ true, BPF_DEVCG_DEV_CHAR, ACCESS_ALL, 1, 5 },		   /* zero */
	{ true, BPF_DEVCG_DEV_CHAR, ACCESS_ALL, 1, 7 },		   /* full */
	{ true, BPF_DEVCG_DEV_CHAR, ACCESS_ALL, 1, 8 },		   /* random */
	{ true, BPF_DEVCG_DEV_CHAR, ACCESS_ALL, 1, 9 },		   /* urandom */
	{ true, BPF_DEVCG_DEV_CHAR, ACCESS_ALL, 5, 0 },		   /* tty */
	{ true, BPF_DEVCG_DEV_CHAR, ACCESS_ALL, 5, 2 },		   /* ptmx */
	{ true, BPF_DEVCG_DEV_CHAR, ACCESS_ALL, 136, DEVICE_ANY }, /* pts */
};

static int read_access(const char *text, uint32_t *access, struct err *err)
{
	*access = text && *text ? 0 : ACCESS_ALL;
	for (const char *p = text; p && *p; p++) {
		if (*p == 'r')
			*access |= BPF_DEVCG_ACC_READ;
		else if (*p == 'w')
			*access |= BPF_DEVCG_ACC_WRITE;
		else if (*p == 'm')
			*access |= BPF_DEVCG_ACC_MKNOD;
		else
			return err_set(err, 0,
				       "read linux.resources.devices: access '%.16s' must be made "
				       "of the letters r, w and m",
				       text);
	}
	return 0;
}

static int read_number(bool has, int64_t number, int64_t *out, struct err *err)
{
	*out = has && number >= 0 ? number : DEVICE_ANY;
	if (*out > UINT32_MAX)
		return err_set(err, 0,
			       "read linux.resources.devices: no device has the number %" PRId64,
			       number);
	return 0;
}

static int read_rule(const struct oci_device_rule *in, struct device_rule *out, struct err *err)
{
	*out = (struct device_rule){ .allow = in->allow };
	if (in->type && in->type[0] == 'c')
		out->type = BPF_DEVCG_DEV_CHAR;
	else if (in->type && in->type[0] == 'b')
		out->type = BPF_DEVCG_DEV_BLOCK;
	if (read_number(in->has_major, in->major, &out->major, err) < 0 ||
	    read_number(in->has_minor, in->minor, &out->minor, err) < 0)
		return -1;
	return read_access(in->access, &out->access, err);
}

int device_rules_read(const struct oci_linux_resources *resources, struct device_rules *rules,
		      struct err *err)
{
	size_t given = resources ? resources->n_devices : 0;

	*rules = (struct device_rules){ 0 };
	if (!given)
		return 0;
	rules->items = xcalloc(given + ARRAY_LEN(defaults), sizeof(*rules->items));
	for (size_t i = 0; i < given; i++) {
		if (read_rule(&resources->devices[i], &rules->items[i], err) < 0) {
			free(steal(rules->items));
			return -1;
		}
	}
	memcpy(rules->items + given, defaults, sizeof(defaults));
	rules->count = given + ARRAY_LEN(defaults);
	return 0;
}

static bool is_total(const struct device_rule *rule)
{
	return !rule->type && rule->access == ACCESS_ALL && rule->major == DEVICE_ANY &&
	       rule->minor == DEVICE_ANY;
}

bool device_rules_open(const struct device_rules *rules)
{
	bool open = !rules->count;

	for (size_t i = 0; i < rules->count; i++) {
		if (is_total(&rules->items[i]))
			open = rules->items[i].allow;
		else if (!rules->items[i].allow)
			open = false;
	}
	return open;
}

/* The exceptions to what v1 does by default; they are all of the kind opposite to it. */
struct exceptions {
	struct device_rule *items;
	size_t count;
	bool allowed; /* the default */
};

static bool covers(int64_t a, int64_t b)
{
	return a == DEVICE_ANY || a == b;
}

static bool meets(int64_t a, int64_t b)
{
	return covers(a, b) || b == DEVICE_ANY;
}

/* A rule that goes with the default takes back the exceptions that it covers. */
static int take_back(struct exceptions *e, const struct device_rule *rule, struct err *err)
{
	for (size_t i = 0; i < e->count; i++) {
		struct device_rule *x = &e->items[i];

		if (x->type != rule->type || !(x->access & rule->access) ||
		    !meets(rule->major, x->major) || !meets(rule->minor, x->minor))
			continue;
		if (!covers(rule->major, x->major) || !covers(rule->minor, x->minor))
			return err_set(err, ENOTSUP,
				       "set linux.resources.devices: cgroup v1 cannot %s only a "
				       "part of the devices that an earlier rule names",
				       rule->allow ? "allow" : "deny");
		x->access &= ~rule->access;
	}
	return 0;
}

static int apply_rule(struct exceptions *e, struct device_rule rule, struct err *err)
{
	static const uint32_t types[] = { BPF_DEVCG_DEV_BLOCK, BPF_DEVCG_DEV_CHAR };

	if (is_total(&rule)) {
		e->allowed = rule.allow;
		e->count = 0;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		struct device_rule one = rule;

		if (rule.type && rule.type != types[i])
			continue;
		one.type = types[i];
		if (rule.allow != e->allowed)
			e->items[e->count++] = one;
		else if (take_back(e, &one, err) < 0)
			return -1;
	}
	return 0;
}

static void add_exception(const struct device_rule *rule, struct settings *settings)
{
	char major[24] = "*", minor[24] = "*";

	if (!rule->access)
		return;
	if (rule->major != DEVICE_ANY)
		snprintf(major, sizeof(major), "%" PRId64, rule->major);
	if (rule->minor != DEVICE_ANY)
		snprintf(minor, sizeof(minor), "%" PRId64, rule->minor);
	settings_add(settings, "devices", rule->allow ? "devices.allow" : "devices.deny",
		     "%c %s:%s %s%s%s", rule->type == BPF_DEVCG_DEV_CHAR ? 'c' : 'b', major, minor,
		     rule->access & BPF_DEVCG_ACC_READ ? "r" : "",
		     rule->access & BPF_DEVCG_ACC_WRITE ? "w" : "",
		     rule->access & BPF_DEVCG_ACC_MKNOD ? "m" : "");
}

int device_rules_v1(const struct device_rules *rules, struct settings *settings, struct err *err)
{
	_cleanup_free_ struct device_rule *items = xcalloc(2 * rules->count, sizeof(*items));
	struct exceptions e = { .items = items };

	if (!rules->count)
		return 0;
	for (size_t i = 0; i < rules->count; i++)
		if (apply_rule(&e, rules->items[i], err) < 0)
			return -1;
	settings_add(settings, "devices", e.allowed ? "devices.allow" : "devices.deny", "a");
	for (size_t i = 0; i < e.count; i++)
		add_exception(&e.items[i], settings);
	return 0;
}
