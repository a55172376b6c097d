/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat doctor: findings, and the parts that make them. */
#pragma once

#include "base/err.h"
#include "oci/diagnosis.h"

struct moat_settings;
struct runtime;

enum verdict { VERDICT_OK, VERDICT_WARN, VERDICT_FAIL };

/* Isolation levels that a finding of VERDICT_FAIL makes impossible. */
#define NEEDED_BY_PLAIN	  1u
#define NEEDED_BY_VM	  2u
#define NEEDED_BY_SANDBOX 4u
#define NEEDED_BY_ALL	  (NEEDED_BY_PLAIN | NEEDED_BY_VM | NEEDED_BY_SANDBOX)

struct diagnosis {
	struct moat_diagnosis *result;
	const char *lacking_plain[32], *lacking_vm[32],
		*lacking_sandbox[32]; /* topics; NULL at the end */
};

/*
 * found() - add a finding.
 * @needed_by: what fails with it; only looked at for VERDICT_FAIL.
 * @advice: what to do about it; NULL: nothing.
 * @fmt: what was found.
 */
void found(struct diagnosis *diagnosis, enum verdict verdict, unsigned needed_by, const char *topic,
	   const char *advice, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/*
 * doctor_surface() - what a running container can reach of the kernel, to standard output.
 * Returns 0, or -1 with err set.
 */
int doctor_surface(const struct runtime *runtime, const char *id, bool as_json, struct err *err);

/* doctor_jail() - what each process of a microVM may still do, to standard output. */
void doctor_jail(bool as_json);

/*
 * doctor_engine_lines() - the lines by which an engine's configuration knows moat, to standard
 * output.
 * @name: podman, docker or containerd. Returns 0, or -1 with err set.
 */
int doctor_engine_lines(const char *name, struct err *err);

/* The parts: each looks at one side of this machine and changes nothing. */
void doctor_kernel(struct diagnosis *diagnosis);     /* version, system calls, seccomp, LSMs */
void doctor_privileges(struct diagnosis *diagnosis); /* capabilities, namespaces */
void doctor_cgroups(struct diagnosis *diagnosis);    /* layout, controllers */
void doctor_sandbox(struct diagnosis *diagnosis, const struct moat_settings *settings);
void doctor_cache(struct diagnosis *diagnosis, const struct moat_settings *settings);
void doctor_vm(struct diagnosis *diagnosis, const struct moat_settings *settings);
void doctor_state(struct diagnosis *diagnosis, const struct runtime *runtime);
void doctor_checkpoint(struct diagnosis *diagnosis);
void doctor_engines(struct diagnosis *diagnosis); /* only those that are installed */
