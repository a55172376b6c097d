/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Seccomp filters: from the profile to the kernel, by way of the cache. */
#include "sandbox/seccomp.h"

#include "base/fd.h"
#include "base/str.h"
#include "oci/config.h"
#include "sandbox/seccomp_private.h"

#include <linux/seccomp.h>
#include <sys/syscall.h>

static const struct {
	const char *name;
	unsigned int flag;
} flags[] = {
	{ "SECCOMP_FILTER_FLAG_TSYNC", SECCOMP_FILTER_FLAG_TSYNC },
	{ "SECCOMP_FILTER_FLAG_LOG", SECCOMP_FILTER_FLAG_LOG },
	{ "SECCOMP_FILTER_FLAG_SPEC_ALLOW", SECCOMP_FILTER_FLAG_SPEC_ALLOW },
	{ "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV", SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV },
};

static bool flag_of(const char *name, unsigned int *flag)
{
	for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
		if (str_eq(flags[i].name, name)) {
			*flag = flags[i].flag;
			return true;
		}
	}
	return false;
}

static int load_raw(unsigned int flag_bits, const struct sock_fprog *program)
{
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flag_bits, program);
}

bool seccomp_flag_supported(const char *name)
{
	unsigned int flag;

	if (!flag_of(name, &flag))
		return false;
	if (flag == SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) /* means nothing without a listener */
		flag |= SECCOMP_FILTER_FLAG_NEW_LISTENER;
	/* The flags are looked at before the program, of which there is none. */
	return load_raw(flag, NULL) < 0 && errno == EFAULT;
}

static bool uses_notify(const struct oci_seccomp *seccomp)
{
	bool notify = str_eq(seccomp->default_action, "SCMP_ACT_NOTIFY");

	for (size_t i = 0; i < seccomp->n_syscalls; i++)
		notify = notify || str_eq(seccomp->syscalls[i].action, "SCMP_ACT_NOTIFY");
	return notify;
}

static int read_flags(const struct oci_seccomp *seccomp, struct seccomp_filter *filter,
		      struct err *err)
{
	filter->notify = uses_notify(seccomp);
	for (size_t i = 0; i < seccomp->n_flags; i++) {
		unsigned int flag;

		if (!flag_of(seccomp->flags[i], &flag))
			return err_set(err, 0, "use linux.seccomp.flags: '%.64s' is not known",
				       seccomp->flags[i]);
		filter->flags |= flag;
	}
	if (!filter->notify)
		return 0;
	filter->flags |= SECCOMP_FILTER_FLAG_NEW_LISTENER;
	/* With both, a thread that cannot follow has to be told otherwise than by its number. */
	if (filter->flags & SECCOMP_FILTER_FLAG_TSYNC)
		filter->flags |= SECCOMP_FILTER_FLAG_TSYNC_ESRCH;
	return 0;
}

int seccomp_filter_compile(const struct oci_seccomp *seccomp, const char *cache,
			   struct seccomp_filter *filter, struct err *err)
{
	_cleanup_(seccomp_key_free) struct seccomp_key key = { 0 };
	_cleanup_fd_ int dirfd = -1;

	*filter = (struct seccomp_filter){ 0 };
	if (read_flags(seccomp, filter, err) < 0)
		return -1;
	if (cache)
		dirfd = seccomp_cache_open(cache);
	if (dirfd >= 0) {
		seccomp_key_make(seccomp, &key);
		if (seccomp_cache_load(dirfd, &key, filter))
			return 0;
	}
	if (seccomp_program(seccomp, filter, err) < 0)
		return err_wrap(err, "compile linux.seccomp");
	if (dirfd >= 0)
		seccomp_cache_store(dirfd, &key, filter);
	return 0;
}

void seccomp_filter_free(struct seccomp_filter *filter)
{
	free(filter->insns);
	*filter = (struct seccomp_filter){ 0 };
}

int seccomp_filter_load(const struct seccomp_filter *filter, int *listener, struct err *err)
{
	const struct sock_fprog program = { filter->count, filter->insns };
	int r = load_raw(filter->flags, &program);

	*listener = -1;
	if (r < 0) {
		err_set(err, errno, "load the seccomp filter");
		if (errno == EINVAL && filter->flags)
			err_hint(err, "the kernel may not know one of linux.seccomp.flags");
		else if (errno == EACCES)
			err_hint(err, "it takes noNewPrivileges or CAP_SYS_ADMIN");
		else if (errno == EBUSY)
			err_hint(err, "another filter has a listener already");
		return -1;
	}
	if (r > 0 && !filter->notify)
		return err_set(err, 0, "load the seccomp filter: thread %d cannot take it", r);
	if (filter->notify)
		*listener = r; /* the kernel made it close-on-exec */
	return 0;
}
