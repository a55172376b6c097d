/* SPDX-License-Identifier: GPL-2.0-or-later */
/* moat doctor --surface ID: the wall between a running container and the kernel, counted. */
#include "cli/doctor.h"

#include "base/file.h"
#include "base/str.h"
#include "runtime/runtime.h"
#include "sandbox/harden.h"
#include "sandbox/surface.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <seccomp.h>
#include <stdio.h>
#include <sys/capability.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define CALLS_MAX 512 /* x86-64 has some 470 */
#define X32_BIT	  0x40000000u

static const struct {
	const char *name;
	int domain, type, protocol;
	bool raw; /* the kernel asks for CAP_NET_RAW */
} sockets[] = {
	{ "unix stream", AF_UNIX, SOCK_STREAM, 0, false },
	{ "unix dgram", AF_UNIX, SOCK_DGRAM, 0, false },
	{ "unix seqpacket", AF_UNIX, SOCK_SEQPACKET, 0, false },
	{ "inet stream", AF_INET, SOCK_STREAM, 0, false },
	{ "inet dgram", AF_INET, SOCK_DGRAM, 0, false },
	{ "inet raw", AF_INET, SOCK_RAW, 1, true },
	{ "inet6 stream", AF_INET6, SOCK_STREAM, 0, false },
	{ "inet6 dgram", AF_INET6, SOCK_DGRAM, 0, false },
	{ "inet6 raw", AF_INET6, SOCK_RAW, 1, true },
	{ "netlink route", AF_NETLINK, SOCK_RAW, NETLINK_ROUTE, false },
	{ "netlink sock_diag", AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG, false },
	{ "netlink xfrm", AF_NETLINK, SOCK_RAW, NETLINK_XFRM, false },
	{ "netlink audit", AF_NETLINK, SOCK_RAW, NETLINK_AUDIT, false },
	{ "netlink netfilter", AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER, false },
	{ "netlink uevent", AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT, false },
	{ "netlink generic", AF_NETLINK, SOCK_RAW, NETLINK_GENERIC, false },
	{ "netlink crypto", AF_NETLINK, SOCK_RAW, NETLINK_CRYPTO, false },
	{ "packet", AF_PACKET, SOCK_RAW, 0, true },
	{ "vsock", AF_VSOCK, SOCK_STREAM, 0, false },
	{ "alg", AF_ALG, SOCK_SEQPACKET, 0, false },
	{ "key", AF_KEY, SOCK_RAW, 2, false },
	{ "xdp", AF_XDP, SOCK_RAW, 0, true },
	{ "can", AF_CAN, SOCK_RAW, 1, false },
	{ "tipc", AF_TIPC, SOCK_STREAM, 0, false },
	{ "rds", AF_RDS, SOCK_SEQPACKET, 0, false },
	{ "bluetooth", AF_BLUETOOTH, SOCK_SEQPACKET, 0, false },
	{ "smc", AF_SMC, SOCK_STREAM, 0, false },
	{ "kcm", AF_KCM, SOCK_DGRAM, 0, false },
};

static void add(char ***strings, size_t *count, const char *text)
{
	*strings = xrealloc(*strings, *count + 2, sizeof(char *));
	(*strings)[(*count)++] = xstrdup(text);
	(*strings)[*count] = NULL;
}

static void find_calls(struct moat_surface *surface, const struct surface_filters *filters)
{
	for (int nr = 0; nr < CALLS_MAX; nr++) {
		char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_X86_64, nr);
		enum surface_verdict verdict =
			surface_call(filters, AUDIT_ARCH_X86_64, (uint32_t)nr, NULL);
		char number[16];

		/* A number without a name may be newer than the library: here if not refused. */
		snprintf(number, sizeof(number), "#%d", nr);
		if (verdict == SURFACE_ALLOWED && (name || filters->count))
			add(&surface->calls, &surface->n_calls, name ? name : number);
		else if (verdict == SURFACE_CHECKED)
			add(&surface->checked_calls, &surface->n_checked_calls,
			    name ? name : number);
		free(name);
	}
}

static bool reaches(const struct surface_filters *filters, uint32_t arch, uint32_t first)
{
	for (uint32_t nr = 0; nr < CALLS_MAX; nr++)
		if (surface_call(filters, arch, first + nr, NULL) != SURFACE_REFUSED)
			return true;
	return false;
}

static void find_architectures(struct moat_surface *surface, const struct surface_filters *filters)
{
	if (reaches(filters, AUDIT_ARCH_X86_64, X32_BIT))
		add(&surface->architectures, &surface->n_architectures, "x32");
	if (reaches(filters, AUDIT_ARCH_I386, 0))
		add(&surface->architectures, &surface->n_architectures, "x86");
}

static void find_sockets(struct moat_surface *surface, const struct surface_filters *filters,
			 uint64_t capabilities)
{
	uint32_t number = (uint32_t)seccomp_syscall_resolve_name_arch(SCMP_ARCH_X86_64, "socket");

	for (size_t i = 0; i < ARRAY_LEN(sockets); i++) {
		const uint64_t args[6] = { (uint64_t)sockets[i].domain, (uint64_t)sockets[i].type,
					   (uint64_t)sockets[i].protocol };

		if (sockets[i].raw && !(capabilities & 1ull << CAP_NET_RAW))
			continue;
		if (surface_call(filters, AUDIT_ARCH_X86_64, number, args) != SURFACE_REFUSED)
			add(&surface->sockets, &surface->n_sockets, sockets[i].name);
	}
}

static void find_capabilities(struct moat_surface *surface, uint64_t capabilities)
{
	for (int i = 0; i < 64; i++) {
		char *name = capabilities & 1ull << i ? cap_to_name(i) : NULL;

		if (name)
			add(&surface->capabilities, &surface->n_capabilities, name);
		cap_free(name);
	}
}

static void find_namespaces(struct moat_surface *surface, pid_t pid)
{
	static const char *const files[] = { "cgroup", "ipc", "mnt", "net", "pid", "user", "uts" };

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		_cleanup_free_ char *its = xasprintf("/proc/%d/ns/%s", (int)pid, files[i]);
		_cleanup_free_ char *ours = xasprintf("/proc/self/ns/%s", files[i]);
		struct stat a, b;

		if (stat(its, &a) == 0 && stat(ours, &b) == 0 && a.st_ino == b.st_ino &&
		    a.st_dev == b.st_dev)
			add(&surface->host_namespaces, &surface->n_host_namespaces, files[i]);
	}
}

/* A process may have what is in its bounding set, or in the permitted one already. */
static int read_status(struct moat_surface *surface, pid_t pid, uint64_t *capabilities,
		       struct err *err)
{
	_cleanup_free_ char *path = xasprintf("/proc/%d/status", (int)pid);
	_cleanup_free_ char *text = file_read(AT_FDCWD, path, 65536, NULL, err);
	unsigned long long bounding, permitted;
	char *bounding_line, *permitted_line, *nnp;

	if (!text)
		return -1;
	bounding_line = strstr(text, "\nCapBnd:");
	permitted_line = strstr(text, "\nCapPrm:");
	nnp = strstr(text, "\nNoNewPrivs:");
	if (!bounding_line || !permitted_line || !nnp ||
	    sscanf(bounding_line, "\nCapBnd: %llx", &bounding) != 1 ||
	    sscanf(permitted_line, "\nCapPrm: %llx", &permitted) != 1)
		return err_set(err, 0, "read %s: it is not as expected", path);
	surface->no_new_privileges = strtol(nnp + strlen("\nNoNewPrivs:"), NULL, 10) == 1;
	*capabilities = permitted;
	if (!surface->no_new_privileges)
		*capabilities |= bounding;
	return 0;
}

static void print_list(const char *what, char **items, size_t count)
{
	int column = 80;

	printf("%s: %zu", what, count);
	for (size_t i = 0; i < count; i++) {
		int width = (int)strlen(items[i]) + 1;

		column = column + width > 78 ? 3 + width : column + width;
		printf("%s %s", column == 3 + width ? "\n   " : "", items[i]);
	}
	puts("");
}

static void print_surface(const struct moat_surface *surface)
{
	printf("container %s, level %s: seccomp filters: %u, no_new_privs: %s\n", surface->id,
	       surface->isolation, surface->filters, surface->no_new_privileges ? "on" : "off");
	print_list("system calls allowed", surface->calls, surface->n_calls);
	print_list("system calls allowed by their arguments", surface->checked_calls,
		   surface->n_checked_calls);
	print_list("further instruction sets", surface->architectures, surface->n_architectures);
	print_list("capabilities", surface->capabilities, surface->n_capabilities);
	print_list("kernel files it can write to", surface->writable_kernel_files,
		   surface->n_writable_kernel_files);
	print_list("kinds of sockets", surface->sockets, surface->n_sockets);
	print_list("namespaces shared with the host", surface->host_namespaces,
		   surface->n_host_namespaces);
	print_list("kept from by Landlock", surface->landlock, surface->n_landlock);
	printf("processor cores: %s\n",
	       str_eq(surface->core_scheduling, "own") ? "never at one time with another container"
	       : str_eq(surface->core_scheduling, "shared")
		       ? "shared with others at any time"
		       : "not to be told apart, as this kernel or processor has no core "
			 "scheduling");
}

static int look(struct moat_surface *surface, pid_t pid, struct err *err)
{
	struct surface_filters filters;
	uint64_t capabilities;

	if (read_status(surface, pid, &capabilities, err) < 0 ||
	    surface_filters(pid, &filters, err) < 0)
		return -1;
	surface->filters = (uint32_t)filters.count;
	find_calls(surface, &filters);
	find_architectures(surface, &filters);
	find_sockets(surface, &filters, capabilities);
	surface_filters_free(&filters);
	find_capabilities(surface, capabilities);
	find_namespaces(surface, pid);
	return surface_kernel_files(pid, capabilities, &surface->writable_kernel_files,
				    &surface->n_writable_kernel_files, err);
}

static int find_landlock(struct moat_surface *surface, struct instance *instance, struct err *err)
{
	_cleanup_(hardening_free) struct hardening hardening = { 0 };
	const char *names[SURFACE_LANDLOCK_MAX];
	size_t count;

	if (instance->container.isolation != ISOLATION_SANDBOX)
		return 0;
	if (instance_config(instance, err) < 0)
		return -1;
	hardening_init(&hardening, instance->config, instance->container.settings,
		       instance->container.id_base);
	count = surface_landlock(&hardening, names);
	for (size_t i = 0; i < count; i++)
		add(&surface->landlock, &surface->n_landlock, names[i]);
	return 0;
}

int doctor_surface(const struct runtime *runtime, const char *id, bool as_json, struct err *err)
{
	_cleanup_(moat_surface_free_pointer) struct moat_surface *surface = moat_surface_new();
	_cleanup_(instance_free_pointer) struct instance *instance =
		instance_load(runtime, id, false, err);
	_cleanup_free_ char *text = NULL;
	enum status status;

	if (!instance)
		return -1;
	status = instance_status(instance);
	if (instance->container.isolation == ISOLATION_VM)
		return err_set(err, 0,
			       "container %s is in a microVM: its system calls are its own "
			       "kernel's; moat doctor --jail says what a microVM may do on the "
			       "host",
			       id);
	if (status != STATUS_RUNNING)
		return err_set(err, ERR_NOT_RUNNING,
			       "container %s is %s: only what runs has a "
			       "surface",
			       id, status_name(status));
	surface->id = xstrdup(id);
	surface->isolation =
		xstrdup(instance->container.isolation == ISOLATION_SANDBOX ? "sandbox" : "plain");
	surface->core_scheduling = xstrdup(surface_cores(instance->container.pid));
	if (find_landlock(surface, instance, err) < 0 ||
	    look(surface, instance->container.pid, err) < 0)
		return err_wrap(err, "container %s", id);
	if (as_json)
		puts(text = moat_surface_write(surface, NULL));
	else
		print_surface(surface);
	return 0;
}
