/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads of the file server, one a request queue where the guest has several processors. They are
 * made before the filter, which lets none be made. Credentials are a thread's own anyway; with its
 * own umask and working directory it creates for one user while its neighbour does for another.
 */
#include "fs/queue.h"

#include "base/fd.h"

#include <sched.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#define STACK_SIZE ((size_t)256 << 10)
#define GUARD_SIZE ((size_t)4096)

/* Between a thread that begins and who starts it. */
struct beginning {
	struct fs_thread *thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done;
	int result;
	struct err err;
};

static int enter(struct fs_thread *thread, struct err *err)
{
	if (unshare(CLONE_FS) < 0)
		return err_set(err, errno, "give a thread a umask of its own");
	return session_enter(thread->session, &thread->worker, err);
}

static void *run(void *data)
{
	struct beginning *beginning = data;
	struct fs_thread *thread = beginning->thread;
	struct err err;
	int r = enter(thread, &beginning->err);

	pthread_mutex_lock(&beginning->lock);
	beginning->result = r;
	beginning->done = true;
	pthread_cond_broadcast(&beginning->changed);
	pthread_mutex_unlock(&beginning->lock); /* and beginning is the other's alone */
	if (r == 0)
		loop_run(&thread->loop, &err);
	return NULL;
}

static int on_wake(struct source *source, uint32_t events, struct err *err)
{
	struct fs_thread *thread = source->data;

	loop_quit(&thread->loop);
	return 0;
}

/* Its own stack, so that the C library neither makes nor gives any back under the filter. */
static int make_stack(struct fs_thread *thread, struct err *err)
{
	thread->stack = mmap(NULL, GUARD_SIZE + STACK_SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
	if (thread->stack == MAP_FAILED)
		return err_set(err, errno, "allocate the stack of a thread");
	if (mprotect(thread->stack, GUARD_SIZE, PROT_NONE) < 0)
		return err_set(err, errno, "guard the stack of a thread");
	return 0;
}

static int create(struct beginning *beginning)
{
	struct fs_thread *thread = beginning->thread;
	pthread_attr_t attributes;
	int r;

	pthread_attr_init(&attributes);
	r = pthread_attr_setstack(&attributes, (uint8_t *)thread->stack + GUARD_SIZE, STACK_SIZE);
	if (r == 0)
		r = pthread_create(&thread->id, &attributes, run, beginning);
	pthread_attr_destroy(&attributes);
	return r;
}

/* Returns when it has begun, or failed to. */
static int begin(struct fs_thread *thread, struct err *err)
{
	struct beginning beginning = { .thread = thread,
				       .lock = PTHREAD_MUTEX_INITIALIZER,
				       .changed = PTHREAD_COND_INITIALIZER };
	int r = create(&beginning);

	if (r)
		return err_set(err, r, "start a thread of the file server");
	pthread_mutex_lock(&beginning.lock);
	while (!beginning.done)
		pthread_cond_wait(&beginning.changed, &beginning.lock);
	pthread_mutex_unlock(&beginning.lock);
	if (beginning.result < 0)
		*err = beginning.err;
	return beginning.result;
}

int fs_thread_start(struct fs_thread *thread, struct session *session, struct err *err)
{
	thread->session = session;
	thread->wake = (struct source){ .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
					.ready = on_wake,
					.data = thread };
	if (thread->wake.fd < 0)
		return err_set(err, errno, "create an eventfd");
	if (loop_init(&thread->loop, err) < 0 ||
	    loop_watch(&thread->loop, &thread->wake, EPOLLIN, err) < 0 ||
	    make_stack(thread, err) < 0)
		return -1;
	return begin(thread, err);
}

void fs_thread_stop(struct fs_thread *thread)
{
	eventfd_write(thread->wake.fd, 1);
	pthread_join(thread->id, NULL);
	munmap(thread->stack, GUARD_SIZE + STACK_SIZE);
	worker_free(&thread->worker);
	loop_close(&thread->loop);
	fd_replace(&thread->wake.fd, -1);
}
