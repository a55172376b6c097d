/* SPDX-License-Identifier: GPL-2.0-or-later */
/* crun's annotations that people rely on (crun(1), "EXTENSIONS TO OCI"). */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct oci_config;

/* crun_annotation_pidfd() - the socket that wants a pidfd of the container, or NULL. */
const char *crun_annotation_pidfd(const struct oci_config *config);

/* crun_annotation_keeps_groups() - whether the container keeps the groups of who makes it. */
bool crun_annotation_keeps_groups(const struct oci_config *config);

/* crun_annotation_is_known() - whether it is one of those that an operator can allow. */
bool crun_annotation_is_known(const char *name);

/*
 * crun_annotations_check() - for a container that is to be made: what does more than tighten has
 * to be listed by the operator.
 * @listed: the operator's names.
 * @plain: whether the container's level is that. 0, or -1 with err set.
 */
int crun_annotations_check(const struct oci_config *config, char *const *listed, size_t count,
			   bool plain, struct err *err);

/* crun_annotations_apply() - put into the config, and where hooks look, what they ask for. */
void crun_annotations_apply(struct oci_config *config);
