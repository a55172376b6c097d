/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a process of a microVM that was taken over would try; for test_jail_attacks.c. Each attack
 * is the system call itself: no library stands between it and the jail.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

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

/* In three files, by what they are about; behind the last of each comes one without a name. */
extern const struct attack attacks_on_files[], attacks_on_processes[], attacks_on_the_kernel[];

/* For these files. */
#define ATTACK(name) static int name(const struct scene *s)
#define CALL(...)    (syscall(__VA_ARGS__) < 0)

#define ATTACK_OF(function, ...)                                                                   \
	{                                                                                          \
		.name = #function, .run = function, __VA_ARGS__                                    \
	}
#define WALLED(function)	 ATTACK_OF(function, .walls = true)
#define WALLED_MAYBE(function)	 ATTACK_OF(function, .walls = true, .optional = true)
#define FILTERED(function)	 ATTACK_OF(function, .walls = false)
#define FILTERED_MAYBE(function) ATTACK_OF(function, .optional = true)
#define KVM(function)		 ATTACK_OF(function, .optional = true, .machine = true)
