/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hostile guests (hostile_guest.c) in machines with all devices, a file server, a disk and peers
 * for their network and streams. The guest may end its machine; the vmm, fsd and diskd may not
 * crash, leave their jail (where they are in it: as root, without sanitizers), grow, fill the log,
 * or stop listening to the monitor.
 *
 * Attacks on VMMs that others met, by the number that the guest has for each, and what does them:
 *
 *  1 descriptors beyond memory            attack_descriptors    test_virtqueue.c, fuzz_virtqueue
 *    (CVE-2019-18960)
 *  2 a console that nobody reads          test_vmm.c: survives_a_flood; test_vsock.c: a flood of
 *    (CVE-2020-27174)                     what must be answered
 *  3 no buffers to receive into           attack_starved        test_net_receive.c, test_vsock.c
 *    (CVE-2020-16843)
 *  4 registers after DRIVER_OK            attack_registers      test_mmio_attacks.c
 *    (CVE-2026-5747)
 *  5 planted links (CVE-2026-1386)        attack_links          test_jail.c: the jail has no
 *                                                               directory, its root is a new tmpfs
 *  6 resets with requests under way       attack_resets         test_mmio_attacks.c,
 *    (CVE-2026-45782)                                           test_fsd.c, test_fsd_queues.c
 *  7 a disk's rewritten header            attack_disk_header    test_vm_storage.py: only raw images
 *    (GHSA-jmr4-g2hv-mjj6)
 *  8 configuration and numbers out of     attack_ranges         test_mmio_attacks.c
 *    range (CVE-2021-45464)
 *  9 names, devices, links and handles    attack_files          test_fs_attacks.c, fuzz_fuse,
 *    (CVE-2020-35517, CVE-2020-10717,                           test_fs_requests.c; the
 *    CVE-2021-20263, CVE-2022-0358)                             attributes that a write clears:
 *                                                               test_fs_attacks.c, test_fs.py
 * 10 writes to a shared, read-only part   attack_constants
 *    (CVE-2026-24834)
 * 11 rings that jump, loop or overlap     attack_rings          test_virtqueue.c
 * 12 sectors that are not there           attack_sectors        test_disk.c
 * 13 to 15 the same by vCPUs at once      race_rings, race_resets, race_registers
 *  0 anything                             random_guest, random_guests (two vCPUs)
 *
 * Those on OCI runtimes are in tests/integration/test_attacks.py.
 */
#include "hostile_host.h"

#include "base/file.h"
#include "base/mem.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void run_plan(const struct plan *plan, const char *says)
{
	struct machine machine;
	char text[200] = "";
	uint64_t end = now_ms() + 4 * QUIET_MS;
	size_t used = 0;

	machine_open(&machine, plan);
	while (!machine.ended) {
		struct pollfd ready = { .fd = machine.control, .events = POLLIN };

		if (poll(&ready, 1, 10) > 0)
			machine_take_event(&machine);
		machine_send(&machine);
		assert_true(now_ms() < end);
	}
	for (ssize_t n; used < sizeof(text) - 1 &&
			(n = read(machine.console, text + used, sizeof(text) - 1 - used)) > 0;)
		used += (size_t)n;
	machine_close(&machine);
	assert_string_equal(text, says);
}

static void run_attack(const char *number, unsigned int vcpus, const char *says)
{
	struct plan plan = { .vcpus = vcpus, .image = -1 };
	char cmdline[40];

	snprintf(cmdline, sizeof(cmdline), "attack=%s vcpus=%u", number, vcpus);
	plan.cmdline = cmdline;
	run_plan(&plan, says);
}

#define ATTACK(name, number, says)                                                                 \
	static void attack_##name(void **state)                                                    \
	{                                                                                          \
		run_attack(number, 1, says ": ok\n");                                              \
	}
#define RACE(name, number, says)                                                                   \
	static void race_##name(void **state)                                                      \
	{                                                                                          \
		run_attack(number, 3, says ": ok\n");                                              \
	}

ATTACK(descriptors, "1", "descriptors")
ATTACK(starved, "3", "starved")
ATTACK(registers, "4", "registers")
ATTACK(resets, "6", "resets")
ATTACK(ranges, "8", "ranges")
ATTACK(files, "9", "files")
ATTACK(rings, "11", "rings")
ATTACK(sectors, "12", "sectors")
RACE(rings, "13", "racing rings")
RACE(resets, "14", "racing resets")
RACE(registers, "15", "racing registers")

/* What one guest has planted is there when the next machine starts in the same tree. */
static void attack_links(void **state)
{
	struct machine first = { .plan = &(struct plan){ .image = -1 } };
	struct plan plan = { .vcpus = 1, .image = -1 };

	machine_make_files(&first);
	plan.directory = first.directory;
	plan.cmdline = "attack=5";
	run_plan(&plan, "links: ok\n");
	plan.cmdline = "attack=5 again=1";
	run_plan(&plan, "links: ok\n");
	machine_check_files(&first);
}

/* The next machine with the image takes it for what the first took it for. */
static void attack_disk_header(void **state)
{
	struct plan plan = { .cmdline = "attack=7", .vcpus = 1 };
	struct stat st;

	plan.image = memfd_create("image", MFD_CLOEXEC);
	run_plan(&plan, "disk header: ok\n");
	run_plan(&plan, "disk header: ok\n");
	assert_int_equal(fstat(plan.image, &st), 0);
	assert_int_equal(st.st_size, SECTORS * DISK_SECTOR);
	close(plan.image);
}

static void attack_constants(void **state)
{
	size_t before_size, after_size;
	char *before = file_read(AT_FDCWD, HOSTILE_GUEST, 1 << 22, &before_size, NULL), *after;

	run_attack("10", 1, "constants: ok\n");
	after = file_read(AT_FDCWD, HOSTILE_GUEST, 1 << 22, &after_size, NULL);
	assert_int_equal(before_size, after_size);
	assert_memory_equal(before, after, before_size);
	free(before);
	free(after);
}

/* Runs one guest until it ends or the time is over; then the vmm still hears the monitor. */
static void run_random(unsigned int seed, unsigned int vcpus, uint64_t end)
{
	struct machine machine;
	char cmdline[64];
	struct plan plan = { .cmdline = cmdline, .vcpus = vcpus, .image = -1 };
	uint64_t stop_sent = 0;

	snprintf(cmdline, sizeof(cmdline), "attack=0 seed=%u", seed);
	machine_open(&machine, &plan);
	while (!machine.ended) {
		struct pollfd ready = { .fd = machine.control, .events = POLLIN };
		uint64_t now = now_ms();

		if (poll(&ready, 1, 2) > 0 && !machine_take_event(&machine))
			break;
		machine_exchange(&machine);
		machine_check_growth(&machine);
		if (!stop_sent && now > end) {
			machine_request(&machine, (struct vmm_request){ .type = VMM_REQUEST_STOP },
					-1);
			stop_sent = now;
		}
		if (stop_sent && now > stop_sent + QUIET_MS)
			fail_msg("the vmm does not hear the monitor (seed %u)", seed);
	}
	print_message("seed %u: %u packets, %u streams\n", seed, machine.packets, machine.streams);
	machine_close(&machine);
}

static void run_randoms(unsigned int vcpus)
{
	const char *given = getenv("MOAT_SEED");
	unsigned int seed = given ? (unsigned int)atoi(given) : 1;
	uint64_t end = now_ms() + (getenv("MOAT_TEST_ALL") ? 60000 : 5000);

	while (now_ms() < end)
		run_random(seed++, vcpus, end);
}

static void random_guest(void **state)
{
	run_randoms(1);
}

static void random_guests(void **state)
{
	run_randoms(2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(attack_descriptors), cmocka_unit_test(attack_starved),
		cmocka_unit_test(attack_registers),   cmocka_unit_test(attack_links),
		cmocka_unit_test(attack_resets),      cmocka_unit_test(attack_disk_header),
		cmocka_unit_test(attack_ranges),      cmocka_unit_test(attack_files),
		cmocka_unit_test(attack_constants),   cmocka_unit_test(attack_rings),
		cmocka_unit_test(attack_sectors),     cmocka_unit_test(race_rings),
		cmocka_unit_test(race_resets),	      cmocka_unit_test(race_registers),
		cmocka_unit_test(random_guest),	      cmocka_unit_test(random_guests),
	};

	if (access("/dev/kvm", R_OK | W_OK) < 0) {
		dprintf(1, "skipped: there is no /dev/kvm\n");
		return 77;
	}
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
