/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of systemd's manager over D-Bus. Each of them ends after some seconds, whoever hangs. */
#include "cgroup/systemd_bus.h"

#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "cgroup/systemd_library.h"
#include "cgroup/systemd_properties.h"
#include "cgroup/tree.h"

#include <stdio.h>
#include <unistd.h>

#define DESTINATION  "org.freedesktop.systemd1"
#define MANAGER_PATH "/org/freedesktop/systemd1"
#define MANAGER	     "org.freedesktop.systemd1.Manager"
#define JOB_SIGNAL                                                                                 \
	"type='signal',interface='" MANAGER "',member='JobRemoved',path='" MANAGER_PATH "'"
#define CALL_USEC 10000000u
#define JOB_MS	  20000

struct bus {
	const struct systemd_library *lib;
	sd_bus *bus;
	const char *job;   /* that is waited for; NULL: none yet */
	char *jobs[16];	   /* those that ended before it was known which one it is, */
	char *results[16]; /* and how */
	size_t count;
};

struct call {
	struct bus *bus;
	sd_bus_message *message, *reply;
	sd_bus_error error;
	int r; /* of what was done so far: 0, or a negative errno value */
};

/* The manager's own socket needs no message bus, and systemctl uses it, too. */
static int open_private(struct bus *bus)
{
	const char *run = getenv("XDG_RUNTIME_DIR");
	_cleanup_free_ char *address = NULL;

	if (proc_is_machines_root())
		address = xstrdup("unix:path=/run/systemd/private");
	else if (run && *run)
		address = xasprintf("unix:path=%s/systemd/private", run);
	else
		return -ENOENT;
	if (bus->lib->sd_bus_new(&bus->bus) < 0)
		return -ENOMEM;
	if (bus->lib->sd_bus_set_address(bus->bus, address) >= 0 &&
	    bus->lib->sd_bus_start(bus->bus) >= 0)
		return 0;
	bus->bus = bus->lib->sd_bus_flush_close_unref(bus->bus);
	return -ECONNREFUSED;
}

static int job_ended(sd_bus_message *message, void *data, sd_bus_error *error)
{
	const struct systemd_library *lib = systemd_library(NULL);
	struct bus *bus = data;
	const char *job, *unit, *result;
	uint32_t id;

	if (lib->sd_bus_message_read_basic(message, 'u', &id) < 0 ||
	    lib->sd_bus_message_read_basic(message, 'o', &job) < 0 ||
	    lib->sd_bus_message_read_basic(message, 's', &unit) < 0 ||
	    lib->sd_bus_message_read_basic(message, 's', &result) < 0)
		return 0;
	if (bus->count == ARRAY_LEN(bus->jobs) || (bus->job && !str_eq(job, bus->job)))
		return 0;
	bus->jobs[bus->count] = xstrdup(job);
	bus->results[bus->count++] = xstrdup(result);
	return 0;
}

struct bus *bus_open(struct err *err)
{
	const struct systemd_library *lib = systemd_library(err);
	_cleanup_(bus_close_pointer) struct bus *bus = NULL;
	int r;

	if (!lib)
		return NULL;
	bus = xcalloc(1, sizeof(*bus));
	bus->lib = lib;
	r = open_private(bus);
	if (r < 0)
		r = proc_is_machines_root() ? lib->sd_bus_open_system(&bus->bus)
					    : lib->sd_bus_open_user(&bus->bus);
	if (r >= 0)
		r = lib->sd_bus_add_match(bus->bus, NULL, JOB_SIGNAL, job_ended, bus);
	if (r >= 0)
		return steal(bus);
	err_set(err, -r, "connect to systemd, which is asked for the container's cgroup");
	return err_hint(err, "where it does not run, use the cgroupfs driver: leave out "
			     "--systemd-cgroup, or set the engine's cgroup manager"),
	       NULL;
}

void bus_close(struct bus *bus)
{
	if (bus->bus)
		bus->lib->sd_bus_flush_close_unref(bus->bus);
	for (size_t i = 0; i < bus->count; i++) {
		free(bus->jobs[i]);
		free(bus->results[i]);
	}
	free(bus);
}

static struct call call_new(struct bus *bus, const char *interface, const char *method)
{
	struct call call = { .bus = bus };

	call.r = bus->lib->sd_bus_message_new_method_call(bus->bus, &call.message, DESTINATION,
							  MANAGER_PATH, interface, method);
	return call;
}

static void put(struct call *call, char type, const void *value)
{
	if (call->r >= 0)
		call->r = call->bus->lib->sd_bus_message_append_basic(call->message, type, value);
}

static void open_container(struct call *call, char type, const char *contents)
{
	if (call->r >= 0)
		call->r = call->bus->lib->sd_bus_message_open_container(call->message, type,
									contents);
}

static void close_container(struct call *call)
{
	if (call->r >= 0)
		call->r = call->bus->lib->sd_bus_message_close_container(call->message);
}

static void put_array(struct call *call, const struct unit_property *p)
{
	char element = p->signature[1], contents[] = { element, '\0' };

	if (element != 's') {
		if (call->r >= 0)
			call->r = call->bus->lib->sd_bus_message_append_array(
				call->message, element, p->bytes, p->size);
		return;
	}
	open_container(call, 'a', contents);
	for (size_t at = 0; at < p->size; at += strlen(p->bytes + at) + 1)
		put(call, 's', p->bytes + at);
	close_container(call);
}

static void put_value(struct call *call, const struct unit_property *p)
{
	uint32_t small = (uint32_t)p->number;
	int boolean = p->number != 0;

	switch (p->signature[0]) {
	case 'a':
		put_array(call, p);
		break;
	case 's':
		put(call, 's', p->bytes);
		break;
	case 'b':
		put(call, 'b', &boolean);
		break;
	case 'i':
	case 'u':
		put(call, p->signature[0], &small);
		break;
	case 'd':
		put(call, 'd', &p->real);
		break;
	default:
		put(call, p->signature[0], &p->number);
	}
}

/* An array of (name, value); left open, for further ones. */
static void put_properties(struct call *call, const struct unit_properties *properties)
{
	open_container(call, 'a', "(sv)");
	for (size_t i = 0; i < properties->count; i++) {
		const struct unit_property *p = &properties->items[i];

		open_container(call, 'r', "sv");
		put(call, 's', p->name);
		open_container(call, 'v', p->signature);
		put_value(call, p);
		close_container(call);
		close_container(call);
	}
}

static void put_pids(struct call *call, pid_t pid)
{
	uint32_t number = (uint32_t)pid;

	open_container(call, 'r', "sv");
	put(call, 's', "PIDs");
	open_container(call, 'v', "au");
	if (call->r >= 0)
		call->r = call->bus->lib->sd_bus_message_append_array(call->message, 'u', &number,
								      sizeof(number));
	close_container(call);
	close_container(call);
}

/* Makes the call. Returns 0, or -1 with err set to what systemd says. */
static int send_call(struct call *call, const char *what, const char *unit, struct err *err)
{
	const char *name;
	char safe[300];

	if (call->r >= 0)
		call->r = call->bus->lib->sd_bus_call(call->bus->bus, call->message, CALL_USEC,
						      &call->error, &call->reply);
	if (call->r >= 0)
		return 0;
	if (!call->error.message)
		return err_set(err, -call->r, "%s %s", what, unit);
	str_escape(call->error.message, strlen(call->error.message), safe, sizeof(safe));
	err_set(err, 0, "%s %s: systemd: %s", what, unit, safe);
	name = call->error.name ? call->error.name : "";
	if (str_eq(name, DESTINATION ".UnitExists"))
		err->code = EEXIST;
	else if (str_eq(name, DESTINATION ".NoSuchUnit"))
		err->code = ENOENT;
	return -1;
}

static void call_free(struct call *call)
{
	call->bus->job = NULL; /* it lies in the reply */
	call->bus->lib->sd_bus_error_free(&call->error);
	call->bus->lib->sd_bus_message_unref(call->message);
	call->bus->lib->sd_bus_message_unref(call->reply);
}

static const char *find_result(const struct bus *bus)
{
	for (size_t i = 0; i < bus->count; i++)
		if (str_eq(bus->jobs[i], bus->job))
			return bus->results[i];
	return NULL;
}

/* Waits for the job that the reply names. */
static int wait_job(struct call *call, const char *what, const char *unit, struct err *err)
{
	struct bus *bus = call->bus;
	uint64_t deadline = tree_clock() + JOB_MS, now;
	const char *result;
	int r = bus->lib->sd_bus_message_read_basic(call->reply, 'o', &bus->job);

	if (r < 0)
		return err_set(err, -r, "%s %s: read systemd's answer", what, unit);
	while (!(result = find_result(bus))) {
		r = bus->lib->sd_bus_process(bus->bus, NULL);
		if (r < 0)
			return err_set(err, -r, "%s %s: hear of systemd's job", what, unit);
		if (r > 0)
			continue;
		now = tree_clock();
		if (now >= deadline)
			return err_set(err, ETIMEDOUT, "%s %s: wait for systemd's job", what, unit);
		bus->lib->sd_bus_wait(bus->bus, (deadline - now) * 1000);
	}
	if (str_eq(result, "done"))
		return 0;
	return err_set(err, 0, "%s %s: systemd's job ended as '%.32s'", what, unit, result);
}

/* The string lies in the answer: what the library allocates is not for our free(3) where moat is
 * static. */
char *bus_control_group(struct bus *bus, struct err *err)
{
	_cleanup_(call_free) struct call call =
		call_new(bus, "org.freedesktop.DBus.Properties", "Get");
	const char *path;
	int r;

	put(&call, 's', MANAGER);
	put(&call, 's', "ControlGroup");
	if (send_call(&call, "ask systemd for", "its cgroup", err) < 0)
		return NULL;
	r = bus->lib->sd_bus_message_enter_container(call.reply, 'v', "s");
	if (r >= 0)
		r = bus->lib->sd_bus_message_read_basic(call.reply, 's', &path);
	if (r >= 0)
		return xstrdup(path);
	err_set(err, -r, "read systemd's answer about its cgroup");
	return NULL;
}

int bus_start_scope(struct bus *bus, const char *unit, const struct unit_properties *properties,
		    pid_t pid, struct err *err)
{
	static const char what[] = "make the scope";
	_cleanup_(call_free) struct call call = call_new(bus, MANAGER, "StartTransientUnit");

	put(&call, 's', unit);
	put(&call, 's', "fail");
	put_properties(&call, properties);
	put_pids(&call, pid);
	close_container(&call);
	open_container(&call, 'a', "(sa(sv))"); /* of other units: none */
	close_container(&call);
	return send_call(&call, what, unit, err) < 0 ? -1 : wait_job(&call, what, unit, err);
}

int bus_stop(struct bus *bus, const char *unit, struct err *err)
{
	static const char what[] = "stop the scope";
	_cleanup_(call_free) struct call call = call_new(bus, MANAGER, "StopUnit");

	put(&call, 's', unit);
	put(&call, 's', "replace");
	return send_call(&call, what, unit, err) < 0 ? -1 : wait_job(&call, what, unit, err);
}

void bus_reset(struct bus *bus, const char *unit)
{
	_cleanup_(call_free) struct call call = call_new(bus, MANAGER, "ResetFailedUnit");

	put(&call, 's', unit);
	(void)send_call(&call, "reset", unit, &(struct err){ 0 });
}

int bus_set(struct bus *bus, const char *unit, const struct unit_properties *properties,
	    struct err *err)
{
	_cleanup_(call_free) struct call call = call_new(bus, MANAGER, "SetUnitProperties");
	int runtime = 1;

	put(&call, 's', unit);
	put(&call, 'b', &runtime);
	put_properties(&call, properties);
	close_container(&call);
	return send_call(&call, "change the limits of", unit, err);
}
