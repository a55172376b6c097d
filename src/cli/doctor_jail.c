/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * moat doctor --jail: what the processes of a microVM may still do, from the tables that hold them.
 */
#include "cli/doctor.h"

#include "base/mem.h"
#include "base/str.h"
#include "vm/jail.h"

#include <seccomp.h>
#include <stdio.h>
#include <sys/capability.h>

static bool listed_before(enum role role, size_t index)
{
	int call = filter_line(role, index)->call;

	for (size_t i = 0; i < index; i++)
		if (filter_line(role, i)->call == call)
			return true;
	return false;
}

static void fill_calls(struct moat_jail_role *out, enum role role)
{
	const struct filter_line *line;

	for (size_t i = 0; (line = filter_line(role, i)); i++) {
		char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_X86_64, line->call);

		out->calls = xrealloc(out->calls, i + 1, sizeof(*out->calls));
		out->calls[out->n_calls++] = (struct moat_jail_call){
			.name = name ? xstrdup(name) : xasprintf("#%d", line->call),
			.reason = xstrdup(line->why),
			.checked = line->arguments > 0,
		};
		out->system_calls += !listed_before(role, i);
		free(name);
	}
}

static void fill_capabilities(struct moat_jail_role *out, uint64_t capabilities)
{
	out->capabilities = xcalloc(65, sizeof(char *));
	for (int i = 0; i < 64; i++) {
		char *name = capabilities & 1ull << i ? cap_to_name(i) : NULL;

		if (name)
			out->capabilities[out->n_capabilities++] = xstrdup(name);
		cap_free(name);
	}
}

static void print_role(const struct moat_jail_role *role)
{
	printf("%s: %u system calls\n  reaches %s\n  capabilities:", role->role, role->system_calls,
	       role->reach);
	for (size_t i = 0; i < role->n_capabilities; i++)
		printf(" %s", role->capabilities[i]);
	puts(role->n_capabilities ? "" : " none");
	for (size_t i = 0; i < role->n_calls; i++)
		printf("  %-16s %s%s\n", role->calls[i].name, role->calls[i].reason,
		       role->calls[i].checked ? " (by its arguments)" : "");
}

void doctor_jail(bool as_json)
{
	_cleanup_(moat_jail_free_pointer) struct moat_jail *jail = moat_jail_new();
	_cleanup_free_ char *text = NULL;

	jail->roles = xcalloc(ROLES, sizeof(*jail->roles));
	for (int i = 0; i < ROLES; i++) {
		struct moat_jail_role *role = &jail->roles[jail->n_roles++];

		role->role = xstrdup(role_names[i]);
		role->reach = xstrdup(role_reach[i].reach);
		fill_capabilities(role, role_reach[i].capabilities);
		fill_calls(role, (enum role)i);
	}
	if (as_json) {
		text = moat_jail_write(jail, NULL);
		puts(text);
		return;
	}
	for (size_t i = 0; i < jail->n_roles; i++)
		print_role(&jail->roles[i]);
}
