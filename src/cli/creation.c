/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Making a container: what create, run and restore share. */
#include "cli/creation.h"

#include "base/log.h"
#include "sandbox/annotations.h"

#include <sys/syscall.h>

struct creation creation = { .bundle = ".", .options.console_socket = -1, .pidfd_socket = -1 };

int pidfd_connect(const char *path, int *fd, struct err *err)
{
	*fd = path ? fd_connect("pidfd socket", path, err) : -1;
	return path && *fd < 0 ? -1 : 0;
}

int pidfd_send(int socket, pid_t pid, struct err *err)
{
	static const char name[] = "pidfd";
	_cleanup_fd_ int fd = -1;

	if (socket < 0)
		return 0;
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd < 0)
		return err_set(err, errno, "open a pidfd of process %d", (int)pid);
	if (fd_send(socket, name, sizeof(name) - 1, &fd, 1) < 0)
		return err_set(err, errno, "send the pidfd to the pidfd socket");
	return 0;
}

int creation_prepare(struct err *err)
{
	creation.options.config = creation.config;
	creation.options.no_pivot = creation.no_pivot;
	creation.options.no_new_keyring = creation.no_new_keyring;
	creation.options.debug = globals.debug;
	if (pidfd_connect(creation.pidfd_path, &creation.pidfd_socket, err) < 0)
		return -1;
	if (!creation.console_path)
		return 0;
	creation.options.console_socket = fd_connect("console socket", creation.console_path, err);
	return creation.options.console_socket < 0 ? -1 : 0;
}

struct instance *creation_create(const struct runtime *runtime, const char *id, struct err *err)
{
	return creation_announce(instance_create(runtime, id, creation.bundle, creation.pid_file,
						 &creation.options, err),
				 err);
}

struct instance *creation_announce(struct instance *made, struct err *err)
{
	_cleanup_(instance_free_pointer) struct instance *instance = made;
	struct err cleanup = { 0 };
	const char *receiver = NULL;

	if (!instance)
		return NULL;
	if (creation.pidfd_socket < 0 && instance->config)
		receiver = crun_annotation_pidfd(instance->config);
	if ((!receiver || pidfd_connect(receiver, &creation.pidfd_socket, err) == 0) &&
	    pidfd_send(creation.pidfd_socket, instance->container.pid, err) == 0)
		return steal(instance);
	if (instance_delete(instance, true, &cleanup) < 0)
		log_warning("%s", cleanup.text);
	return NULL;
}
