/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What of a guest's console reaches the log: all of a little, the beginning and the end of much. */
#include "vmm/serial.h"

#include "base/fd.h"
#include "base/str.h"

#include <fcntl.h>
#include <linux/serial_reg.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define LINE 8u /* bytes of one that the guest says: a number and the end of the line */

static struct loop loop;
static struct serial *serial;

static void begin(int fd)
{
	struct err err;

	serial = xcalloc(1, sizeof(*serial));
	assert_int_equal(loop_init(&loop, &err), 0);
	assert_int_equal(serial_init(serial, &loop, fd, &err), 0);
}

static void end(void)
{
	serial_free(serial);
	free(serial);
	loop_close(&loop);
}

static void say(const char *text)
{
	while (*text)
		serial_write(serial, UART_TX, (uint8_t)*text++);
}

/* Lines [first, last), and the loop has its turn from time to time. */
static void say_lines(unsigned int first, unsigned int last, bool turns)
{
	struct err err;
	char line[32];

	for (unsigned int i = first; i < last; i++) {
		snprintf(line, sizeof(line), "%07u\n", i);
		say(line);
		if (turns && i % 1000 == 0)
			assert_int_equal(serial->wake.ready(&serial->wake, EPOLLIN, &err), 0);
	}
}

static void little_is_all_there(void **state)
{
	_cleanup_fd_ int file = memfd_create("log", MFD_CLOEXEC);
	_cleanup_free_ char *text = NULL;

	begin(file);
	say("begins\n");
	serial_flush(serial);
	end();
	lseek(file, 0, SEEK_SET);
	text = fd_read_text(file, 1 << 20, NULL);
	assert_string_equal(text, "begins\n");
}

static void much_is_bounded(void **state)
{
	const unsigned int lines = 3 * SERIAL_PASSED / LINE;
	const size_t left_out = lines * LINE - SERIAL_PASSED - SERIAL_RING;
	_cleanup_fd_ int file = memfd_create("log", MFD_CLOEXEC);
	_cleanup_free_ char *text = NULL, *said = xasprintf("moat: %zu bytes", left_out);
	const char *last;
	struct stat st;

	begin(file);
	say_lines(0, lines, true);
	assert_int_equal(fstat(file, &st), 0);
	assert_in_range(st.st_size, SERIAL_PASSED, SERIAL_PASSED + 200);
	serial_flush(serial);
	end();
	assert_int_equal(fstat(file, &st), 0);
	assert_in_range(st.st_size, SERIAL_PASSED + SERIAL_RING, SERIAL_PASSED + SERIAL_RING + 400);
	lseek(file, 0, SEEK_SET);
	text = fd_read_text(file, 1 << 24, NULL);
	for (unsigned int i = 0; i < SERIAL_PASSED / LINE; i++)
		assert_int_equal(strtoul(text + i * LINE, NULL, 10), i);
	assert_ptr_equal(strstr(text, "\nmoat: "), text + SERIAL_PASSED);
	assert_non_null(strstr(text, said));
	last = text + st.st_size - SERIAL_RING;
	for (unsigned int i = 0; i < SERIAL_RING / LINE; i++)
		assert_int_equal(strtoul(last + i * LINE, NULL, 10),
				 lines - SERIAL_RING / LINE + i);
}

/* A reader that does not read loses what comes then, and is told at the end. */
static void reader_stands_still(void **state)
{
	const unsigned int room = SERIAL_RING / LINE;
	_cleanup_free_ char *text = xcalloc(1, 2 * SERIAL_RING);
	struct err err;
	int pair[2];
	size_t n = 0;
	ssize_t r;

	assert_int_equal(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
	begin(pair[1]);
	assert_true(serial->pollable);
	say_lines(0, room + 100, false);
	assert_int_equal(serial->left_out, 100 * LINE);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(serial->out.ready(&serial->out, EPOLLOUT, &err), 0);
		while ((r = read(pair[0], text + n, 2 * SERIAL_RING - n - 1)) > 0)
			n += (size_t)r;
	}
	assert_int_equal(n, SERIAL_RING);
	say("the end\n");
	serial_flush(serial);
	r = read(pair[0], text + n, 2 * SERIAL_RING - n - 1);
	assert_string_equal(text + n, "\nmoat: 800 bytes of the guest's console are left out\n"
				      "the end\n");
	end();
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(little_is_all_there),
		cmocka_unit_test(much_is_bounded),
		cmocka_unit_test(reader_stands_still),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
