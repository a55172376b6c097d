/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat doctor: what this machine can do, a line each, with what to do about what is missing. */
#include "cli/doctor.h"

#include "base/str.h"
#include "cli/cli.h"
#include "oci/settings.h"
#include "runtime/runtime.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static bool as_json, jail;
static const char *surface, *engine;

static const struct cli_option options[] = {
	{ "json", 0, OPTION_FLAG, &as_json, NULL, "one JSON object instead of lines" },
	{ "surface", 0, OPTION_STRING, &surface, "ID",
	  "say what a running container can reach of the kernel" },
	{ "jail", 0, OPTION_FLAG, &jail, NULL,
	  "say what the processes of a microVM may still do on the host" },
	{ "engine", 0, OPTION_STRING, &engine, "podman|docker|containerd",
	  "print the lines that the engine's configuration needs" },
	{ 0 },
};

static void add_lacking(const char **topics, size_t room, const char *topic)
{
	size_t n = 0;

	while (topics[n] && !str_eq(topics[n], topic))
		n++;
	if (n + 1 < room)
		topics[n] = topic;
}

void found(struct diagnosis *diagnosis, enum verdict verdict, unsigned needed_by, const char *topic,
	   const char *advice, const char *fmt, ...)
{
	struct moat_diagnosis *result = diagnosis->result;
	struct moat_finding *finding;
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	result->findings =
		xrealloc(result->findings, result->n_findings + 1, sizeof(*result->findings));
	finding = &result->findings[result->n_findings++];
	*finding = (struct moat_finding){
		.verdict = xstrdup(moat_verdicts[verdict]),
		.topic = xstrdup(topic),
		.finding = xstrdup(text),
		.advice = advice ? xstrdup(advice) : NULL,
	};
	if (verdict == VERDICT_FAIL && (needed_by & NEEDED_BY_PLAIN))
		add_lacking(diagnosis->lacking_plain, ARRAY_LEN(diagnosis->lacking_plain), topic);
	if (verdict == VERDICT_FAIL && (needed_by & NEEDED_BY_SANDBOX))
		add_lacking(diagnosis->lacking_sandbox, ARRAY_LEN(diagnosis->lacking_sandbox),
			    topic);
	if (verdict == VERDICT_FAIL && (needed_by & NEEDED_BY_VM))
		add_lacking(diagnosis->lacking_vm, ARRAY_LEN(diagnosis->lacking_vm), topic);
}

static void conclude(struct moat_diagnosis *result, const char *level, const char *const *lacking)
{
	struct moat_level_works *entry;

	result->levels = xrealloc(result->levels, result->n_levels + 1, sizeof(*result->levels));
	entry = &result->levels[result->n_levels++];
	*entry = (struct moat_level_works){ .level = xstrdup(level), .works = !lacking[0] };
	for (; *lacking; lacking++) {
		entry->lacking = xrealloc(entry->lacking, entry->n_lacking + 2, sizeof(char *));
		entry->lacking[entry->n_lacking++] = xstrdup(*lacking);
		entry->lacking[entry->n_lacking] = NULL;
	}
}

static void print_line(const char *verdict, const char *topic, const char *text, const char *advice)
{
	const char *colour = str_eq(verdict, "ok")     ? "\033[32m"
			     : str_eq(verdict, "warn") ? "\033[33m"
						       : "\033[31m";
	bool terminal = isatty(STDOUT_FILENO);

	printf("%s%-4s%s  %s: %s%s%s\n", terminal ? colour : "", verdict, terminal ? "\033[0m" : "",
	       topic, text, advice ? "; " : "", advice ? advice : "");
}

static void print_lines(const struct moat_diagnosis *result)
{
	for (size_t i = 0; i < result->n_findings; i++) {
		const struct moat_finding *finding = &result->findings[i];

		print_line(finding->verdict, finding->topic, finding->finding, finding->advice);
	}
	for (size_t i = 0; i < result->n_levels; i++) {
		const struct moat_level_works *level = &result->levels[i];
		_cleanup_free_ char *topic = xasprintf("level %s", level->level);
		char text[512] = "works";
		size_t used = 0;

		for (size_t j = 0; j < level->n_lacking && used < sizeof(text); j++)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 j ? ", " : "does not work: see ",
						 level->lacking[j]);
		print_line(level->works ? "ok" : "fail", topic, text, NULL);
	}
}

static int doctor(struct runtime *runtime, int argc, char **argv, struct err *err)
{
	_cleanup_(moat_diagnosis_free_pointer) struct moat_diagnosis *result = moat_diagnosis_new();
	struct diagnosis diagnosis = { .result = result };
	_cleanup_free_ char *text = NULL;

	if (!!surface + jail + !!engine > 1)
		return err_set(err, 0,
			       "doctor: --surface, --jail and --engine each ask for one thing: "
			       "give one of them");
	if (engine && as_json)
		return err_set(err, 0,
			       "doctor: --engine prints lines for a file of the engine's: "
			       "leave out --json");
	if (surface)
		return runtime_need_root(runtime, err) < 0
			       ? -1
			       : doctor_surface(runtime, surface, as_json, err);
	if (jail) {
		doctor_jail(as_json);
		return 0;
	}
	if (engine)
		return doctor_engine_lines(engine, err);
	doctor_kernel(&diagnosis);
	doctor_privileges(&diagnosis);
	doctor_cgroups(&diagnosis);
	doctor_sandbox(&diagnosis, runtime->settings);
	doctor_cache(&diagnosis, runtime->settings);
	doctor_vm(&diagnosis, runtime->settings);
	doctor_state(&diagnosis, runtime);
	doctor_checkpoint(&diagnosis);
	doctor_engines(&diagnosis);
	conclude(result, "vm", diagnosis.lacking_vm);
	conclude(result, "sandbox", diagnosis.lacking_sandbox);
	conclude(result, "plain", diagnosis.lacking_plain);
	if (as_json) {
		text = moat_diagnosis_write(result, NULL);
		puts(text);
	} else {
		print_lines(result);
	}
	return diagnosis.lacking_plain[0] ? 1 : 0;
}

const struct cli_command doctor_command = {
	.name = "doctor",
	.arguments = "",
	.summary = "say what this machine can do, and what to do about what is missing",
	.details =
		"A line for each finding: ok, warn or fail, what it is about, what was found, and "
		"what to do. Changes nothing. The exit status is 0 where level plain works, else "
		"1.",
	.options = options,
	.stateless = true,
	.run = doctor,
};
