/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the host tells a guest that has just come up: the time, its name, and a handful of entropy.
 */
#include "guest/boot.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"

#include <fcntl.h>
#include <linux/random.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#define NS_PER_S 1000000000

/* kvm-clock is right to the microsecond; without it, or after a pause, the guest's clock is not. */
#define CLOCK_OFF_NS (NS_PER_S / 2)

#define ENTROPY_MAX 512u

static int set_clock(int64_t realtime_ns, struct err *err)
{
	struct timespec now, host = {
		.tv_sec = realtime_ns / NS_PER_S,
		.tv_nsec = realtime_ns % NS_PER_S,
	};
	int64_t off;

	if (realtime_ns <= 0)
		return 0;
	clock_gettime(CLOCK_REALTIME, &now);
	off = realtime_ns - ((int64_t)now.tv_sec * NS_PER_S + now.tv_nsec);
	if (off < CLOCK_OFF_NS && off > -CLOCK_OFF_NS)
		return 0;
	if (clock_settime(CLOCK_REALTIME, &host) < 0)
		return err_set(err, errno, "set the clock");
	return 0;
}

static int credit_entropy(const void *bytes, size_t size, struct err *err)
{
	_cleanup_free_ struct rand_pool_info *info = xcalloc(1, sizeof(*info) + ENTROPY_MAX);
	_cleanup_fd_ int fd = -1;

	if (size == 0)
		return 0;
	if (size > ENTROPY_MAX)
		size = ENTROPY_MAX;
	info->entropy_count = (int)size * 8;
	info->buf_size = (int)size;
	memcpy(info->buf, bytes, size);
	fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, RNDADDENTROPY, info) < 0)
		return err_set(err, errno, "credit entropy");
	return 0;
}

void greet(int64_t realtime_ns, const void *entropy, size_t size, const char *hostname)
{
	struct err err;

	/* A guest without these still serves; the log says what it lacks. */
	if (set_clock(realtime_ns, &err) < 0)
		log_warning("%s", err.text);
	if (credit_entropy(entropy, size, &err) < 0)
		log_warning("%s", err.text);
	if (*hostname && sethostname(hostname, strlen(hostname)) < 0)
		log_warning("set the host name: %s", strerror(errno));
}
