/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sizes of machines and of their host cgroups. */
#include "vm/sizing.h"

#include "vmm/vmm.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/sysinfo.h>

#include <cmocka.h>

#define MIB (1ull << 20)

struct fixture {
	struct oci_config config;
	struct oci_linux linux_;
	struct oci_linux_resources resources;
	struct oci_memory memory;
	struct oci_cpu cpu;
	struct oci_pids pids;
	struct oci_vm vm;
	struct oci_vm_hw_config hardware;
	struct moat_settings settings;
	struct machine_size size;
	struct err err;
};

static struct fixture f;

static int setup(void **state)
{
	memset(&f, 0, sizeof(f));
	f.settings.vcpus = 1;
	f.settings.memory = 512 * MIB;
	f.settings.overhead = 32 * MIB;
	f.config.linux_ = &f.linux_;
	f.linux_.resources = &f.resources;
	return 0;
}

static unsigned int host_cpus(void)
{
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	return (unsigned int)CPU_COUNT(&set);
}

/* RAM without swap, in whole huge pages. */
static uint64_t host_ram(void)
{
	struct sysinfo info;

	assert_int_equal(sysinfo(&info), 0);
	return (uint64_t)info.totalram * info.mem_unit / (2 * MIB) * (2 * MIB);
}

static void choose(void)
{
	assert_int_equal(sizing_choose(&f.config, &f.settings, &f.size, &f.err), 0);
	assert_int_equal(f.size.memory % (2 * MIB), 0);
}

static void test_defaults(void **state)
{
	f.config.linux_ = NULL;
	choose();
	assert_int_equal(f.size.memory, 512 * MIB);
	assert_int_equal(f.size.vcpus, 1);
}

static void test_limit_is_the_workloads(void **state)
{
	f.resources.memory = &f.memory;
	f.memory.has_limit = true;
	f.memory.limit = (int64_t)(256 * MIB);
	choose();
	assert_true(f.size.memory >= 256 * MIB + 32 * MIB);
	assert_true(f.size.memory <= 256 * MIB + 64 * MIB);
	f.memory.limit = 4 * (int64_t)MIB; /* the guest's own cgroup keeps it */
	choose();
	assert_int_equal(f.size.memory, 64 * MIB);
	f.memory.limit = -1;
	choose();
	assert_int_equal(f.size.memory, 512 * MIB);
}

/* A limit is an upper bound, and may be one that nobody can reach. */
static void test_limit_above_the_host(void **state)
{
	static const int64_t limits[] = { (int64_t)1 << 50, INT64_MAX };
	struct host_resources host;

	f.resources.memory = &f.memory;
	f.memory.has_limit = f.memory.has_swap = true;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		f.memory.limit = f.memory.swap = limits[i];
		assert_int_equal(sizing_check_memory(&f.config, &f.settings, 1000 * MIB, &f.err),
				 0);
		choose();
		assert_int_equal(f.size.memory, host_ram());
		sizing_host(&f.resources, &f.settings, &f.size, &host);
		assert_true(host.resources.memory->limit >= limits[i]);
		assert_true(host.resources.memory->swap >= host.resources.memory->limit);
	}
	/* One below has no room for the guest's kernel beside it, either. */
	f.memory.limit = (int64_t)host_ram() - 1;
	choose();
	assert_int_equal(f.size.memory, host_ram());
}

/* Where swap can grow by less than the limit, it grows to what it can be at most. */
static void test_limits_do_not_overflow(void **state)
{
	struct host_resources host;

	f.resources.memory = &f.memory;
	f.memory.has_limit = f.memory.has_swap = true;
	f.memory.limit = INT64_MAX - (int64_t)(32 * MIB) - 1;
	f.memory.swap = f.memory.limit + 1;
	choose();
	sizing_host(&f.resources, &f.settings, &f.size, &host);
	assert_true(host.resources.memory->limit > f.memory.limit);
	assert_int_equal(host.resources.memory->swap, INT64_MAX);
}

static void test_limits_of_a_running_machine(void **state)
{
	choose();
	assert_true(sizing_suits(&f.config, &f.size, 512 * MIB));
	assert_false(sizing_suits(&f.config, &f.size, 512 * MIB + 1));
	f.resources.memory = &f.memory;
	f.memory.has_limit = true;
	f.memory.limit = (int64_t)1 << 50; /* it has all that there is */
	choose();
	assert_true(sizing_suits(&f.config, &f.size, 1ull << 51));
	f.config.vm = &f.vm;
	f.vm.hw_config = &f.hardware;
	f.hardware.has_memory = true;
	f.hardware.memory = 128 * MIB; /* whatever the limit */
	choose();
	assert_int_equal(f.size.memory, 128 * MIB);
	assert_true(sizing_suits(&f.config, &f.size, 1ull << 50));
}

static void test_quota_is_rounded_up(void **state)
{
	f.resources.cpu = &f.cpu;
	f.cpu.has_quota = true;
	f.cpu.quota = 10000;
	choose();
	assert_int_equal(f.size.vcpus, 1);
	f.cpu.quota = 150000; /* with the default period: one and a half */
	choose();
	assert_int_equal(f.size.vcpus, host_cpus() < 2 ? 1 : 2);
	f.cpu.quota = 100000000;
	choose();
	assert_int_equal(f.size.vcpus, host_cpus() < VMM_VCPUS_MAX ? host_cpus() : VMM_VCPUS_MAX);
	f.cpu.quota = -1;
	choose();
	assert_int_equal(f.size.vcpus, 1);
	f.cpu.quota = 100000;
	f.cpu.has_period = true;
	f.cpu.period = 0; /* as good as absent */
	choose();
	assert_int_equal(f.size.vcpus, 1);
}

static void test_hardware_comes_first(void **state)
{
	f.resources.memory = &f.memory;
	f.memory.has_limit = true;
	f.memory.limit = (int64_t)(256 * MIB);
	f.config.vm = &f.vm;
	f.vm.hw_config = &f.hardware;
	f.hardware.has_vcpus = f.hardware.has_memory = true;
	f.hardware.vcpus = 3;
	f.hardware.memory = 128 * MIB + 1;
	choose();
	assert_int_equal(f.size.vcpus, 3);
	assert_int_equal(f.size.memory, 130 * MIB);
	f.hardware.vcpus = VMM_VCPUS_MAX + 1;
	assert_int_equal(sizing_choose(&f.config, &f.settings, &f.size, &f.err), -1);
	f.hardware.vcpus = 1;
	f.hardware.memory = 16 * MIB;
	assert_int_equal(sizing_choose(&f.config, &f.settings, &f.size, &f.err), -1);
	assert_non_null(strstr(f.err.text, "vm.hwConfig.memory"));
}

static void test_more_than_the_host_has(void **state)
{
	f.settings.memory = 1000 * MIB;
	assert_int_equal(sizing_check_memory(&f.config, &f.settings, 1000 * MIB, &f.err), 0);
	f.settings.memory++;
	assert_int_equal(sizing_check_memory(&f.config, &f.settings, 1000 * MIB, &f.err), -1);
	assert_string_equal(f.err.text,
			    "the operator's file: memory is 1000 MiB, more than a virtual machine "
			    "can have here (this host has 1000 MiB of memory and swap): lower it");
	f.config.vm = &f.vm;
	f.vm.hw_config = &f.hardware;
	f.hardware.has_memory = true;
	f.hardware.memory = 1ull << 50;
	assert_int_equal(sizing_check_memory(&f.config, &f.settings, sizing_host_memory(), &f.err),
			 -1);
	f.hardware.memory = 2000 * MIB;
	assert_int_equal(sizing_check_memory(&f.config, &f.settings, 1000 * MIB, &f.err), -1);
	assert_non_null(strstr(f.err.text, "vm.hwConfig.memory is 2000 MiB"));
	f.hardware.memory = 128 * MIB;
	assert_int_equal(sizing_check_memory(&f.config, &f.settings, sizing_host_memory(), &f.err),
			 0);
}

static void test_host_cgroup_has_room(void **state)
{
	struct oci_device_rule rule = { 0 };
	struct host_resources host;

	f.resources.devices = &rule;
	f.resources.n_devices = 1;
	f.resources.memory = &f.memory;
	f.resources.pids = &f.pids;
	f.memory.has_limit = f.memory.has_swap = f.pids.has_limit = true;
	f.memory.limit = (int64_t)(256 * MIB);
	f.memory.swap = -1;
	f.pids.limit = 2; /* of the workload: the machine's threads are more */
	choose();
	sizing_host(&f.resources, &f.settings, &f.size, &host);
	assert_int_equal(host.resources.memory->limit, f.size.memory + 32 * MIB);
	assert_int_equal(host.resources.memory->swap, -1);
	assert_true(host.resources.pids->limit > 4);
	assert_int_equal(host.resources.n_devices, 0);
	/* The config itself is as it was. */
	assert_int_equal(f.memory.limit, 256 * MIB);
	assert_int_equal(f.pids.limit, 2);
	sizing_host(NULL, &f.settings, &f.size, &host);
	assert_null(host.resources.memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup(name, setup)
		TEST(test_defaults),
		TEST(test_limit_is_the_workloads),
		TEST(test_limit_above_the_host),
		TEST(test_limits_do_not_overflow),
		TEST(test_limits_of_a_running_machine),
		TEST(test_quota_is_rounded_up),
		TEST(test_hardware_comes_first),
		TEST(test_more_than_the_host_has),
		TEST(test_host_cgroup_has_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
