/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the host tells a guest that has just come up: the time, its name, and a handful of entropy.
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

/*
 * kvm-clock is right to the microsecond, but in a machine that was saved it stood still since, and
 * the host's may have been set. What the host says may be as old as this machine: it says it before
 * the guest can listen. So a clock that is behind is wrong, and one that is ahead of it by more
 * than that.
 */
#define CLOCK_OFF_NS	(NS_PER_S / 2)
#define CLOCK_BEHIND_NS (NS_PER_S / 1000)

#define ENTROPY_MAX 512u

static int64_t in_ns(const struct timespec *time)
{
	return (int64_t)time->tv_sec * NS_PER_S + time->tv_nsec;
}

static int set_clock(int64_t realtime_ns, struct err *err)
{
	struct timespec now, up,
		host = {
			.tv_sec = realtime_ns / NS_PER_S,
			.tv_nsec = realtime_ns % NS_PER_S,
		};
	int64_t off;

	if (realtime_ns <= 0)
		return 0;
	clock_gettime(CLOCK_BOOTTIME, &up);
	clock_gettime(CLOCK_REALTIME, &now);
	off = realtime_ns - in_ns(&now);
	if (off < CLOCK_BEHIND_NS && off > -CLOCK_OFF_NS - in_ns(&up))
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
	/* Other machines may have started with the same generator: nothing of it may be used. */
	if (ioctl(fd, RNDRESEEDCRNG) < 0)
		return err_set(err, errno, "reseed the random number generator");
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
