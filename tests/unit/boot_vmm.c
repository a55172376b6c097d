/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A machine without a monitor: boots a kernel with the console on stdout, or with none, and says
 * how it ended and how long it took. For looking at the VMM alone; not a test by itself.
 *
 *	boot_vmm [-q] [-c CPUS] [-m MIB] [-a CMDLINE] KERNEL [INITRD]
 */
#include "base/fd.h"
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
	return vmm_run(vmm, &err) < 0 ? fail(&err) : 0;
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

int main(int argc, char **argv)
{
	struct vmm_config config = { .memory_size = 256ull << 20,
				     .vcpus = 1,
				     .initrd_fd = -1,
				     .fs_fd = -1,
				     .serial_fd = STDOUT_FILENO };
	double start = now();
	int option, pair[2], end;
	struct err err;

	while ((option = getopt(argc, argv, "qc:m:a:")) >= 0) {
		if (option == 'q')
			config.serial_fd = -1;
		else if (option == 'c')
			config.vcpus = (unsigned int)atoi(optarg);
		else if (option == 'm')
			config.memory_size = strtoull(optarg, NULL, 10) << 20;
		else if (option == 'a')
			config.cmdline = optarg;
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
	if (config.kvm_fd < 0 || config.kernel_fd < 0 || fd_socketpair(SOCK_SEQPACKET, pair) < 0) {
		perror("boot_vmm");
		return 1;
	}
	if (fork() == 0) {
		close(pair[0]);
		config.control_fd = pair[1];
		_exit(run(&config, start));
	}
	close(pair[1]);
	end = watch(pair[0], start);
	wait(NULL);
	return end;
}
