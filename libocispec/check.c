/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rules of config.json that concern several properties at once, so that no description of one
 * property can hold them. oci_config_parse() ends with them. Nothing here looks at the host.
 */
#include "check.h"

#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>

#define SYSCALL_ARGS_MAX 6

static int refuse(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int refuse(struct err *err, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	err_set(err, 0, "%s", text);
	if (err)
		err->code = EINVAL;
	return -1;
}

/* config-linux.md, "Devices": only a FIFO has no numbers. */
static int check_devices(const struct oci_linux *linux_, const char *name, struct err *err)
{
	for (size_t i = 0; i < linux_->n_devices; i++) {
		const struct oci_device *device = &linux_->devices[i];

		if (str_eq(device->type, "p"))
			continue;
		if (!device->has_major || !device->has_minor)
			return refuse(err, "%s: linux.devices[%zu].%s: is missing", name, i,
				      device->has_major ? "minor" : "major");
	}
	return 0;
}

/* config.md, "Mounts": the two mappings of a mount come together. */
static int check_mounts(const struct oci_config *config, const char *name, struct err *err)
{
	for (size_t i = 0; i < config->n_mounts; i++) {
		const struct oci_mount *mount = &config->mounts[i];

		if (!mount->n_uid_mappings != !mount->n_gid_mappings)
			return refuse(err, "%s: mounts[%zu].%s: is missing, while %s is there",
				      name, i,
				      mount->n_uid_mappings ? "gidMappings" : "uidMappings",
				      mount->n_uid_mappings ? "uidMappings" : "gidMappings");
	}
	return 0;
}

static bool takes_errno(const char *action)
{
	return str_eq(action, "SCMP_ACT_ERRNO") || str_eq(action, "SCMP_ACT_TRACE");
}

static int check_syscall(const struct oci_syscall *syscall, size_t i, const char *name,
			 struct err *err)
{
	if (syscall->has_errno_ret && !takes_errno(syscall->action))
		return refuse(err, "%s: linux.seccomp.syscalls[%zu].errnoRet: %s returns no errno",
			      name, i, syscall->action);
	if (syscall->n_args > SYSCALL_ARGS_MAX)
		return refuse(err,
			      "%s: linux.seccomp.syscalls[%zu].args: a system call has at most %d",
			      name, i, SYSCALL_ARGS_MAX);
	return 0;
}

/* config-linux.md, "Seccomp". */
static int check_seccomp(const struct oci_seccomp *seccomp, const char *name, struct err *err)
{
	bool notifies = str_eq(seccomp->default_action, "SCMP_ACT_NOTIFY");

	if (seccomp->has_default_errno_ret && !takes_errno(seccomp->default_action))
		return refuse(err, "%s: linux.seccomp.defaultErrnoRet: %s returns no errno", name,
			      seccomp->default_action);
	for (size_t i = 0; i < seccomp->n_syscalls; i++) {
		notifies |= str_eq(seccomp->syscalls[i].action, "SCMP_ACT_NOTIFY");
		if (check_syscall(&seccomp->syscalls[i], i, name, err) < 0)
			return -1;
	}
	if (notifies && !seccomp->listener_path)
		return refuse(err,
			      "%s: linux.seccomp.listenerPath: is missing, while "
			      "SCMP_ACT_NOTIFY is used",
			      name);
	if (seccomp->listener_metadata && !seccomp->listener_path)
		return refuse(err,
			      "%s: linux.seccomp.listenerPath: is missing, while "
			      "listenerMetadata is there",
			      name);
	return 0;
}

int oci_config_check(const struct oci_config *config, const char *name, struct err *err)
{
	if (check_mounts(config, name, err) < 0)
		return -1;
	if (!config->linux_)
		return 0;
	if (check_devices(config->linux_, name, err) < 0)
		return -1;
	return config->linux_->seccomp ? check_seccomp(config->linux_->seccomp, name, err) : 0;
}
