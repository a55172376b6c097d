/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A machine without a monitor: boots a kernel with the console on stdout, or with none, and says
 * how it ended and how long it took. For looking at the VMM alone; not a test by itself.
 *
 *	boot_vmm [-q] [-c CPUS] [-m MIB] [-a CMDLINE] [-f DIR] KERNEL [INITRD]
 *
 * -f: with a file server, DIR as its tree 0: `-a "rootfstype=virtiofs root=moat rw init=/0/init"`
 */
#include "base/fd.h"
#include "fs/fsd.h"
#include "virtio/memory.h"
#include "vmm/vmm.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int fail(const struct err *err)
{
	fprintf(stderr, "boot_vmm: %s\n", err->text);
	return 1;
}

static int run(struct vmm_config *config, double start)
{
	struct err err;
	struct vmm *vmm = vmm_setup(config, &err);

	if (!vmm)
		return fail(&err);
	fprintf(stderr, "boot_vmm: setup took %.2f ms\n", (now() - start) * 1e3);
	return vmm_start(vmm, &err) < 0 || vmm_run(vmm, &err) < 0 ? fail(&err) : 0;
}

static int watch(int control, double start)
{
	struct vmm_event event;
	int end = 1;

	while (fd_receive(control, &event, sizeof(event), NULL, 0) == (ssize_t)sizeof(event)) {
		if (event.type == VMM_EVENT_ENDED)
			end = event.end == VMM_END_RESET ? 0 : 2;
		fprintf(stderr, "boot_vmm: %8.2f ms: event %u port %u end %u %s\n",
			(now() - start) * 1e3, event.type, event.port, event.end, event.text);
	}
	return end;
}

/* Starts a file server with one tree; returns the vmm's end, and the monitor's in *monitor. */
static int serve(const struct vmm_config *vmm, const char *path, int *monitor)
{
	struct fs_tree_add add = { .index = 0 };
	int tree = open(path, O_PATH | O_CLOEXEC), queues[2], trees[2];
	struct err err = { 0 };

	if (tree < 0 || fd_socketpair(SOCK_SEQPACKET, queues) < 0 ||
	    fd_socketpair(SOCK_SEQPACKET, trees) < 0)
		return -1;
	if (fork() == 0) {
		struct fsd_config config = { .vmm_fd = queues[1],
					     .monitor_fd = trees[1],
					     .memory_fd = vmm->memory_fd,
					     .memory_size = vmm->memory_size,
					     .request_queues = fsd_request_queues(vmm->vcpus) };
		struct fsd *fsd;

		close(queues[0]);
		close(trees[0]);
		fsd = fsd_setup(&config, &err);
		if (!fsd || fsd_run(fsd, &err) < 0)
			fail(&err);
		_exit(0);
	}
	close(queues[1]);
	close(trees[1]);
	if (fd_send(trees[0], &add, sizeof(add), &tree, 1) < 0 ||
	    read(trees[0], &add, sizeof(add)) != (ssize_t)sizeof(add) || add.index)
		return -1;
	*monitor = trees[0];
	return queues[0];
}

int main(int argc, char **argv)
{
	struct vmm_config config = { .memory_size = 256ull << 20,
				     .vcpus = 1,
				     .initrd_fd = -1,
				     .fs_fd = -1,
				     .template_fd = -1,
				     .serial_fd = STDOUT_FILENO };
	double start = now();
	int option, pair[2], end, monitor = -1;
	const char *tree = NULL;
	struct err err;

	while ((option = getopt(argc, argv, "qc:m:a:f:")) >= 0) {
		if (option == 'q')
			config.serial_fd = -1;
		else if (option == 'c')
			config.vcpus = (unsigned int)atoi(optarg);
		else if (option == 'm')
			config.memory_size = strtoull(optarg, NULL, 10) << 20;
		else if (option == 'a')
			config.cmdline = optarg;
		else if (option == 'f')
			tree = optarg;
		else
			return 64;
	}
	if (optind >= argc)
		return 64;
	config.kernel_name = argv[optind];
	config.kernel_fd = open(argv[optind], O_RDONLY | O_CLOEXEC);
	if (optind + 1 < argc) {
		config.initrd_name = argv[optind + 1];
		config.initrd_fd = open(argv[optind + 1], O_RDONLY | O_CLOEXEC);
	}
	config.kvm_fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	config.memory_fd = guest_memory_create(config.memory_size, &err);
	if (config.memory_fd < 0)
		return fail(&err);
	if (tree && (config.fs_fd = serve(&config, tree, &monitor)) < 0) {
		perror("boot_vmm: serve files");
		return 1;
	}
	if (config.kvm_fd < 0 || config.kernel_fd < 0 || fd_socketpair(SOCK_SEQPACKET, pair) < 0) {
		perror("boot_vmm");
		return 1;
	}
	if (fork() == 0) {
		close(pair[0]);
		fd_replace(&monitor, -1);
		config.control_fd = pair[1];
		_exit(run(&config, start));
	}
	close(pair[1]);
	fd_replace(&config.fs_fd, -1);
	end = watch(pair[0], start);
	fd_replace(&monitor, -1);
	while (wait(NULL) > 0)
		;
	return end;
}
