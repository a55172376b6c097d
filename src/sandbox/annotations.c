/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * crun's annotations. They come from whoever describes a container, who is not trusted, and most
 * of them reach something of the host: a file, a socket, a group. Those the operator lists, or the
 * container is refused: one that goes without what it asks for would be a surprise.
 */
#include "sandbox/annotations.h"

#include "base/mem.h"
#include "base/str.h"
#include "oci/config.h"
#include "sandbox/hooks.h"
#include "sandbox/seccomp.h"

#define KEEP_GROUPS  "run.oci.keep_original_groups"
#define HOOKS_STDOUT "run.oci.hooks.stdout"
#define HOOKS_STDERR "run.oci.hooks.stderr"
#define PIDFD	     "run.oci.pidfd_receiver"
#define RECEIVER     "run.oci.seccomp.receiver"
#define FAIL_UNKNOWN "run.oci.seccomp_fail_unknown_syscall"
#define DELEGATE     "run.oci.delegate-cgroup"
#define SUBGROUP     "run.oci.systemd.subgroup"

static const struct {
	const char *name;
	bool plain_only, is_path;
} known[] = {
	{ .name = KEEP_GROUPS, .plain_only = true }, { .name = HOOKS_STDOUT, .is_path = true },
	{ .name = HOOKS_STDERR, .is_path = true },   { .name = PIDFD, .is_path = true },
	{ .name = RECEIVER, .is_path = true },
};

/* The value of an annotation, or NULL. */
static const char *annotation_get(const struct oci_config *config, const char *name)
{
	for (size_t i = 0; i < config->n_annotations; i++)
		if (str_eq(config->annotations[i].key, name))
			return config->annotations[i].value;
	return NULL;
}

/* crun takes any value for yes but these. */
static bool is_on(const struct oci_config *config, const char *name)
{
	const char *value = annotation_get(config, name);

	return value && !str_eq(value, "0") && !str_eq(value, "false");
}

const char *crun_annotation_pidfd(const struct oci_config *config)
{
	return annotation_get(config, PIDFD);
}

bool crun_annotation_keeps_groups(const struct oci_config *config)
{
	return is_on(config, KEEP_GROUPS);
}

bool crun_annotation_is_known(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_eq(known[i].name, name))
			return true;
	return false;
}

static bool is_listed(const char *name, char *const *listed, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (str_eq(listed[i], name))
			return true;
	return false;
}

/* What makes cgroups below the container's own, which here the container itself can do. */
static int check_cgroups(const struct oci_config *config, struct err *err)
{
	const char *subgroup = annotation_get(config, SUBGROUP);

	if (annotation_get(config, DELEGATE))
		return err_set(err, 0, "annotation " DELEGATE ": moat does not offer that");
	if (subgroup && *subgroup)
		return err_set(err, 0,
			       "annotation " SUBGROUP ": moat makes no cgroup below the scope; "
			       "leave it empty");
	return 0;
}

int crun_annotations_check(const struct oci_config *config, char *const *listed, size_t count,
			   bool plain, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(known); i++) {
		const char *name = known[i].name, *value = annotation_get(config, name);

		if (!value || (!known[i].is_path && !is_on(config, name)))
			continue;
		if (!is_listed(name, listed, count))
			return err_set(err, 0,
				       "annotation %s: it reaches beyond the container, so the "
				       "operator's file has to list it in annotations",
				       name);
		if (known[i].plain_only && !plain)
			return err_set(err, 0, "annotation %s: only level plain offers that", name);
		if (known[i].is_path && value[0] != '/')
			return err_set(err, 0, "annotation %s: expected an absolute path", name);
	}
	if (check_cgroups(config, err) < 0)
		return -1;
	if (is_on(config, FAIL_UNKNOWN) && config->linux_ && config->linux_->seccomp &&
	    seccomp_check_names(config->linux_->seccomp, err) < 0)
		return err_wrap(err, "annotation " FAIL_UNKNOWN);
	return 0;
}

void crun_annotations_apply(struct oci_config *config)
{
	const char *receiver = annotation_get(config, RECEIVER);
	struct oci_seccomp *seccomp = config->linux_ ? config->linux_->seccomp : NULL;

	if (receiver && seccomp) {
		free(seccomp->listener_path);
		seccomp->listener_path = xstrdup(receiver);
	}
	hooks_output(annotation_get(config, HOOKS_STDOUT), annotation_get(config, HOOKS_STDERR));
}
