/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The monitor's place on the host. */
#include "vm/host.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "cgroup/memory_policy.h"
#include "oci/config.h"
#include "vm/rootless.h"

#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define CLAIM "moat-machine"
#define HINT_SHARING                                                                               \
	"run containers that share namespaces, as those of a pod, with --isolation=sandbox"

static bool is_own(int namespace)
{
	struct stat own, given;

	return stat("/proc/self/ns/net", &own) == 0 && fstat(namespace, &given) == 0 &&
	       own.st_dev == given.st_dev && own.st_ino == given.st_ino;
}

/*
 * Two guests cannot have one address, so a network namespace is one machine's from its creation on,
 * whether there is anything in it or not. The claim is an abstract socket's name, which is known in
 * that namespace only, and is given up when the monitor ends, however that happens.
 */
static int claim_network(const char *path, int *claim, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = "\0" CLAIM };
	const socklen_t size = offsetof(struct sockaddr_un, sun_path) + sizeof(CLAIM);
	_cleanup_fd_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return err_set(err, errno, "make a socket");
	if (bind(fd, (struct sockaddr *)&address, size) == 0) {
		*claim = fd_steal(&fd);
		return 0;
	}
	if (errno != EADDRINUSE)
		return err_set(err, errno, "claim the network namespace %s", path);
	err_set(err, 0,
		"linux.namespaces: another microVM has the network namespace %s, and two kernels "
		"cannot share its addresses",
		path);
	return err_hint(err, HINT_SHARING);
}

static int join_network(const char *path, struct err *err)
{
	_cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return err_set(err, errno, "open the network namespace %s", path);
	if (ioctl(fd, NS_GET_NSTYPE) < 0)
		return err_set(err, 0, "%s is not a namespace", path);
	if (ioctl(fd, NS_GET_NSTYPE) != CLONE_NEWNET)
		return err_set(err, 0, "%s is not a namespace of the kind 'network'", path);
	if (is_own(fd)) {
		err_set(err, 0,
			"linux.namespaces: a microVM cannot use the host's own network (%s)", path);
		return err_hint(err, "give it a network namespace of its own, or use "
				     "--isolation=sandbox");
	}
	if (setns(fd, CLONE_NEWNET) < 0) {
		err_set(err, errno, "enter the network namespace %s", path);
		return err->code == EPERM
			       ? err_hint(err, "run moat in the user namespace that it was "
					       "made in, as podman does")
			       : -1;
	}
	return 0;
}

static const struct oci_namespace *find_network(const struct oci_config *config)
{
	for (size_t i = 0; config->linux_ && i < config->linux_->n_namespaces; i++)
		if (str_eq(config->linux_->namespaces[i].type, "network"))
			return &config->linux_->namespaces[i];
	return NULL;
}

static int join_given_network(const struct oci_config *config, int *claim, struct err *err)
{
	const struct oci_namespace *network = find_network(config);

	if (!network || !network->path || !*network->path)
		return 0;
	return join_network(network->path, err) < 0 ? -1 : claim_network(network->path, claim, err);
}

int host_make_network(const struct oci_config *config, int *claim, struct err *err)
{
	const struct oci_namespace *network = find_network(config);

	if (!network || *claim >= 0)
		return 0;
	if (unshare(CLONE_NEWNET) < 0)
		return err_set(err, errno, "make a network namespace");
	return claim_network("of its own", claim, err);
}

int host_check(const struct oci_config *config, struct err *err)
{
	for (size_t i = 0; config->linux_ && i < config->linux_->n_namespaces; i++) {
		const struct oci_namespace *namespace = &config->linux_->namespaces[i];

		if (!namespace->path || str_eq(namespace->type, "network"))
			continue;
		err_set(err, 0,
			"linux.namespaces[%zu]: a microVM has a kernel of its own and cannot join "
			"the %s namespace %s",
			i, namespace->type, namespace->path);
		return err_hint(err, HINT_SHARING);
	}
	return 0;
}

int host_enter(const struct machine *machine, int ready_fd, int *claim, struct err *err)
{
	const struct container *container = machine->container;
	const struct oci_config *config = container->config;
	int keep[7 + 2 * VMM_DISKS_MAX] = { ready_fd,
					    log_fd(),
					    container->state_fd,
					    machine->options->console_socket,
					    machine->kvm_fd,
					    machine->kernel_fd,
					    machine->initrd_fd };
	size_t count = 7 + disks_list(&machine->disks, keep + 7);

	prctl(PR_SET_NAME, "moat-monitor");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return err_set(err, errno, "tie the monitor to its parent");
	if (fd_close_except(3, keep, count) < 0)
		return err_set(err, errno, "close the caller's descriptors");
	if (setsid() < 0)
		return err_set(err, errno, "start a session");
	if (container->cgroup_path && cgroup_enter(container->cgroup_path, 0, err) < 0)
		return -1;
	if (config->linux_ && memory_policy_apply(config->linux_->memory_policy, err) < 0)
		return -1;
	if (rootless_enter(config->linux_, err) < 0)
		return -1;
	return join_given_network(config, claim, err);
}

int host_leave_stdio(struct err *err)
{
	_cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return err_set(err, errno, "open /dev/null");
	/* Without a log file, error lines go where the caller's went. */
	if (dup2(null, 0) < 0 || dup2(null, 1) < 0 || (log_fd() >= 0 && dup2(null, 2) < 0))
		return err_set(err, errno, "let go of the standard streams");
	return chdir("/") < 0 ? err_set(err, errno, "enter /") : 0;
}
