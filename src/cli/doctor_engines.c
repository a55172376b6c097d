/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The engines on this machine: whether their configuration knows moat, and the lines that it needs.
 * Configurations are not parsed but searched for quoted paths of programs named moat: that is the
 * same in TOML and JSON, and in every version of them.
 */
#include "cli/doctor.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CONFIG_MAX (1u << 20)

/* The names that moat is installed under; the level is in them. */
static const char *const names[] = { "moat", "moat-sandbox", "moat-plain" };

static void print_podman(const char *name, const char *path, long version)
{
	printf("%s = [\"%s\"]\n", name, path);
}

static void print_docker(const char *name, const char *path, long version)
{
	printf("    \"%s\": { \"path\": \"%s\" }", name, path);
}

static void print_containerd(const char *name, const char *path, long version)
{
	const char *plugin =
		version >= 3 ? "plugins.\"io.containerd.cri.v1.runtime\".containerd.runtimes"
			     : "plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes";

	printf("[%s.%s]\n  runtime_type = \"io.containerd.runc.v2\"\n", plugin, name);
	printf("  [%s.%s.options]\n    BinaryName = \"%s\"\n", plugin, name, path);
}

struct engine {
	const char *name, *program, *file;
	const char *head, *between, *tail; /* of the lines, around those of each runtime */
	void (*print)(const char *name, const char *path, long version);
	bool json;
	const char *otherwise; /* what works without the lines */
};

static const struct engine engines[] = {
	{ "podman", "podman", "/etc/containers/containers.conf", "[engine.runtimes]\n", "", "",
	  print_podman, false, "podman --runtime PATH works without" },
	{ "docker", "dockerd", "/etc/docker/daemon.json", "{\n  \"runtimes\": {\n", ",\n",
	  "\n  }\n}\n", print_docker, true, "then restart or reload dockerd" },
	{ "containerd", "containerd", "/etc/containerd/config.toml", "version = 2\n", "", "",
	  print_containerd, false, "ctr run --runc-binary PATH works without" },
};

static bool is_installed(const char *program)
{
	const char *path = getenv("PATH");
	_cleanup_free_ char *directories =
		xasprintf("%s:/usr/local/sbin:/usr/sbin:/sbin", path ? path : "/usr/bin");
	char *save;

	for (char *d = strtok_r(directories, ":", &save); d; d = strtok_r(NULL, ":", &save)) {
		_cleanup_free_ char *file = xasprintf("%s/%s", d, program);

		if (access(file, X_OK) == 0)
			return true;
	}
	return false;
}

/* The directory of this program: what its installation put beside it is called by full paths. */
static int own_directory(char directory[PATH_MAX], struct err *err)
{
	ssize_t n = readlink("/proc/self/exe", directory, PATH_MAX - 1);

	if (n < 0)
		return err_set(err, errno, "find the path of this program");
	directory[n] = '\0';
	*strrchr(directory, '/') = '\0';
	return 0;
}

/*
 * The version that a file has, or 0. A second line of it, below what a file has, would be an error
 * or belong to a table; and the names of plugins depend on it.
 */
static long file_version(const char *file)
{
	struct err err;
	size_t size = 0;
	_cleanup_free_ char *text = file_read(AT_FDCWD, file, CONFIG_MAX, &size, &err);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += strspn(line, "\n\r\t ");
		if (!str_starts_with(line, "version"))
			continue;
		line += strcspn(line, "=\n");
		return *line == '=' ? strtol(line + 1, NULL, 10) : 0;
	}
	return 0;
}

int doctor_engine_lines(const char *name, struct err *err)
{
	const struct engine *engine = NULL;
	char directory[PATH_MAX];
	bool first = true;
	long version;

	for (size_t i = 0; i < ARRAY_LEN(engines); i++)
		if (str_eq(engines[i].name, name))
			engine = &engines[i];
	if (!engine)
		return err_set(err, 0,
			       "--engine: expected podman, docker or containerd, found "
			       "'%.64s'",
			       name);
	if (own_directory(directory, err) < 0)
		return -1;
	version = file_version(engine->file);
	if (!str_starts_with(engine->head, "version") || !version)
		fputs(engine->head, stdout);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", directory, names[i]);

		if (access(path, X_OK) < 0)
			continue;
		fputs(first ? "" : engine->between, stdout);
		engine->print(names[i], path, version);
		first = false;
	}
	fputs(engine->tail, stdout);
	return 0;
}

/* The next quoted absolute path of a program named moat or moat-LEVEL, or NULL. */
static char *next_path(const char **text)
{
	const char *start, *end, *base;

	while ((start = strstr(*text, "\"/"))) {
		start++;
		end = start + strcspn(start, "\"\n");
		*text = *end ? end + 1 : end;
		base = end;
		while (base[-1] != '/')
			base--;
		if (*end == '"' && str_starts_with(base, "moat") &&
		    (base + 4 == end || base[4] == '-'))
			return xasprintf("%.*s", (int)(end - start), start);
	}
	return NULL;
}

static void check_paths(struct diagnosis *diagnosis, const struct engine *engine, const char *text)
{
	_cleanup_free_ char *advice = xasprintf("add what moat doctor --engine %s prints; %s",
						engine->name, engine->otherwise);
	size_t count = 0;

	for (char *path; (path = next_path(&text)); free(path)) {
		count++;
		if (access(path, X_OK) < 0)
			found(diagnosis, VERDICT_WARN, 0, engine->name,
			      "give the path of an installed moat",
			      "%s names %.200s, which cannot be run: %m", engine->file, path);
		else
			found(diagnosis, VERDICT_OK, 0, engine->name, NULL, "%s names %.200s",
			      engine->file, path);
	}
	if (!count)
		found(diagnosis, VERDICT_WARN, 0, engine->name, advice,
		      "%s does not name moat as a runtime", engine->file);
}

static void check_engine(struct diagnosis *diagnosis, const struct engine *engine)
{
	struct err err = { 0 };
	size_t size = 0;
	_cleanup_free_ char *text = file_read(AT_FDCWD, engine->file, CONFIG_MAX, &size, &err);

	if (!text && err.code != ENOENT) {
		found(diagnosis, VERDICT_WARN, 0, engine->name, NULL, "%s", err.text);
		return;
	}
	if (text && engine->json) {
		struct json_document *document = json_parse(text, size, engine->file, 0, &err);

		json_free(document);
		if (!document) {
			found(diagnosis, VERDICT_WARN, 0, engine->name,
			      "mend it: the engine does not start with it", "%s", err.text);
			return;
		}
	}
	check_paths(diagnosis, engine, text ? text : "");
}

void doctor_engines(struct diagnosis *diagnosis)
{
	for (size_t i = 0; i < ARRAY_LEN(engines); i++)
		if (is_installed(engines[i].program))
			check_engine(diagnosis, &engines[i]);
}
