/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The probe agrees with what the processor and the modules say, and takes no other file for KVM. */
#include "base/fd.h"
#include "base/file.h"
#include "base/mem.h"
#include "vmm/kvm_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* after the headers it needs: */
#include <cmocka.h>

static bool has_hardware(void)
{
	_cleanup_free_ char *text = file_read(AT_FDCWD, "/proc/cpuinfo", 16 << 20, NULL, NULL);

	return text && (strstr(text, " vmx ") || strstr(text, " svm "));
}

static void test_probe(void **state)
{
	struct err err = { 0 };
	_cleanup_fd_ int fd = kvm_open(&err);

	if (fd < 0) {
		assert_non_null(strstr(err.text, "open /dev/kvm: "));
		skip(); /* there is no KVM here, or it is not ours to use */
	}
	if (has_hardware()) {
		assert_int_equal(kvm_probe(fd, &err), 0);
	} else {
		assert_int_equal(kvm_probe(fd, &err), -1);
		assert_int_equal(err.code, ENOTSUP);
		assert_non_null(strstr(err.text, "VT-x or AMD-V"));
	}
}

static void test_probe_of_another_file(void **state)
{
	_cleanup_fd_ int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct err err = { 0 };

	assert_int_equal(kvm_probe(fd, &err), -1);
	assert_int_equal(err.code, ENOTTY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_probe),
		cmocka_unit_test(test_probe_of_another_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
