/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a process of a microVM that was taken over would try; for test_jail_attacks.c. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

/* What there is to reach, made before the jail closes. */
struct scene {
	char directory[64];	    /* of the host, writable for everybody */
	char secret[80];	    /* a file in it */
	int state_fd;		    /* the directory, held open */
	struct sockaddr_un path;    /* listening sockets */
	struct sockaddr_un hidden;  /* in the abstract namespace */
	struct sockaddr_in address; /* on the loopback */
	pid_t victim;		    /* another process, with `memory` at the same place */
	int victim_fd;		    /* the number of a descriptor of its */
	int kvm_fd, vm_fd, vcpu_fd; /* -1 where there is no /dev/kvm */
};

/* In the victim this reads "secret of another". */
extern char jail_memory[32];

struct attack {
	const char *name;
	int (*run)(
		const struct scene *scene); /* 0: it succeeded; jumps out of an exec with 0, too */
	bool walls;    /* the vmm's and fsd's namespaces, root and ids stop it without a filter */
	bool optional; /* some hosts let nobody do it */
	bool machine;  /* it needs vm_fd and vcpu_fd, which KVM lets only their maker use */
};

extern const struct attack attacks[];
extern const size_t attacks_count;
