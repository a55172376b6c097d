/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * System calls of 32-bit x86 that can also be made through socketcall(2) or ipc(2). A file of its
 * own, as the header with these numbers excludes that of the 64-bit ones.
 */
#include "sandbox/seccomp_rules.h"

#include <asm/unistd_32.h>

/* Those of ipc have numbers of their own since Linux 5.1, those of socketcall since 4.3. */
static const uint16_t sockets[] = {
	[1] = __NR_socket,     [2] = __NR_bind,	       [3] = __NR_connect,
	[4] = __NR_listen,     [6] = __NR_getsockname, [7] = __NR_getpeername,
	[8] = __NR_socketpair, [11] = __NR_sendto,     [12] = __NR_recvfrom,
	[13] = __NR_shutdown,  [14] = __NR_setsockopt, [15] = __NR_getsockopt,
	[16] = __NR_sendmsg,   [17] = __NR_recvmsg,    [18] = __NR_accept4,
	[19] = __NR_recvmmsg,  [20] = __NR_sendmmsg,
};
static const uint16_t ipcs[] = {
	[2] = __NR_semget,  [3] = __NR_semctl,	[11] = __NR_msgsnd, [12] = __NR_msgrcv,
	[13] = __NR_msgget, [14] = __NR_msgctl, [21] = __NR_shmat,  [22] = __NR_shmdt,
	[23] = __NR_shmget, [24] = __NR_shmctl,
};

bool x86_multiplexed(int library_number, uint32_t *through, uint32_t *number, int *direct)
{
	uint32_t n = (uint32_t)-library_number, in_family = n % 100;
	const uint16_t *table = n < 200 ? sockets : ipcs;
	size_t size = n < 200 ? sizeof(sockets) : sizeof(ipcs);

	/* libseccomp numbers them -100 - NUMBER and -200 - NUMBER. */
	if (library_number > -100 || library_number < -224 || !in_family)
		return false;
	*through = n < 200 ? __NR_socketcall : __NR_ipc;
	*number = in_family;
	*direct = in_family < size / sizeof(*table) && table[in_family] ? table[in_family] : -1;
	return true;
}
