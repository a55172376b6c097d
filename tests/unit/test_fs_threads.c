/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One session served by several threads at the same time, as a guest with several request queues
 * has it. The guest is a hostile one, too: it gives back what another thread of it still uses.
 */
#include "fuse_client.h"

#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#define THREADS	 4
#define ROUNDS	 1000
#define NAMES	 6u
#define MARK	 'S'
#define MARKED	 (64u << 10) /* bytes of the file that all read */
#define USER(of) (1000 + (uint32_t)(of)->number)

struct guest {
	struct fuse_client client;
	const struct fuse_client *first;
	int number;
	uint32_t random;
	uint64_t directory; /* a second directory, for renames */
};

static struct fuse_client c;
static uint64_t marked, shared_handle; /* the file that all read, and one handle of it for all */

/* Threads other than the test's own cannot use cmocka's. */
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

ssize_t __wrap_preadv64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags);
ssize_t __real_preadv64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags);

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER; /* a disk that stands still, for a test */

/* A host whose disk is slow: what others do meanwhile must not take the descriptor away. */
ssize_t __wrap_preadv64v2(int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	usleep(100);
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	CHECK(fcntl(fd, F_GETFD) >= 0);
	return __real_preadv64v2(fd, iov, count, offset, flags);
}

static uint32_t dice(struct guest *guest, uint32_t sides)
{
	guest->random ^= guest->random << 13;
	guest->random ^= guest->random >> 17;
	guest->random ^= guest->random << 5;
	return guest->random % sides;
}

/* What may come of a request about a name or a file that others change meanwhile. */
static bool may_be(int r)
{
	return r == 0 || r == -ENOENT || r == -ESTALE || r == -EEXIST;
}

static const char *some_name(struct guest *guest)
{
	static const char *const names[NAMES] = { "a", "b", "c", "d", "e", "f" };

	return names[dice(guest, NAMES)];
}

static uint64_t some_directory(struct guest *guest)
{
	return dice(guest, 3) ? guest->client.tree : guest->directory;
}

static void release(struct guest *guest, uint64_t node, uint64_t handle)
{
	struct fuse_release_in in = { .fh = handle };

	CHECK(client_call(&guest->client, FUSE_RELEASE, node, &in, sizeof(in), NULL, 0) == 0);
}

/* A handle of one's own always reads what was written by it, whatever becomes of the name. */
static void use_handle(struct guest *guest, uint64_t node, uint64_t handle)
{
	struct fuse_client *client = &guest->client;
	char text[16];

	snprintf(text, sizeof(text), "%08x", dice(guest, UINT32_MAX));
	CHECK(client_write(client, node, handle, (uint64_t)guest->number * 8, text, 0, 0) == 0);
	CHECK(client_read(client, node, handle, (uint64_t)guest->number * 8, 8) == 0);
	/* Another may have cut it off, but not written here. */
	if (client->answered == 8 && memcmp(client_payload(client), "\0\0\0\0\0\0\0", 8) != 0)
		CHECK(memcmp(client_payload(client), text, 8) == 0);
}

static void create_and_use(struct guest *guest)
{
	uint64_t handle, node = client_create(&guest->client, some_directory(guest),
					      some_name(guest), 0666, &handle);

	if (!node)
		return;
	use_handle(guest, node, handle);
	release(guest, node, handle);
	client_forget(&guest->client, node, 1);
}

static void find_and_use(struct guest *guest)
{
	struct fuse_client *client = &guest->client;
	uint64_t handle, node = client_lookup(client, some_directory(guest), some_name(guest));
	int r;

	if (!node)
		return;
	r = client_open_node(client, node, dice(guest, 4) ? O_RDWR : O_RDWR | O_TRUNC, &handle);
	CHECK(may_be(r));
	if (r == 0) {
		use_handle(guest, node, handle);
		release(guest, node, handle);
	}
	CHECK(may_be(client_getattr(client, node, NULL)));
	client_forget(client, node, 1);
}

static void rename_one(struct guest *guest)
{
	struct fuse_rename2_in in = { .newdir = some_directory(guest),
				      .flags = dice(guest, 4) ? 0 : 2 /* RENAME_EXCHANGE */ };

	CHECK(may_be(client_name(&guest->client, FUSE_RENAME2, some_directory(guest), &in,
				 sizeof(in), some_name(guest), some_name(guest))));
}

static void unlink_one(struct guest *guest)
{
	CHECK(may_be(client_name(&guest->client, FUSE_UNLINK, some_directory(guest), NULL, 0,
				 some_name(guest), NULL)));
}

static void link_one(struct guest *guest)
{
	struct fuse_client *client = &guest->client;
	const struct fuse_entry_out *entry = client_payload(client);
	uint64_t node = client_lookup(client, some_directory(guest), some_name(guest));
	struct fuse_link_in in = { .oldnodeid = node };
	int r;

	if (!node)
		return;
	r = client_name(client, FUSE_LINK, some_directory(guest), &in, sizeof(in), some_name(guest),
			NULL);
	CHECK(may_be(r));
	if (r == 0)
		client_forget(client, entry->nodeid, 1);
	client_forget(client, node, 1);
}

/* Lists a directory with attributes, and forgets what it was told of. */
static void list(struct guest *guest)
{
	struct fuse_client *client = &guest->client;
	struct fuse_read_in in = { .size = 4096 };
	uint64_t nodes[64], directory = some_directory(guest);
	size_t count = 0;

	CHECK(client_open_node(client, directory, O_DIRECTORY, &in.fh) == 0);
	CHECK(client_call(client, FUSE_READDIRPLUS, directory, &in, sizeof(in), NULL, 0) == 0);
	for (size_t at = 0; at < client->answered;) {
		const struct fuse_direntplus *entry =
			(const void *)((const uint8_t *)client_payload(client) + at);

		if (entry->entry_out.nodeid)
			nodes[count++] = entry->entry_out.nodeid;
		at += FUSE_DIRENTPLUS_SIZE(entry);
	}
	while (count > 0)
		client_forget(client, nodes[--count], 1);
	{
		struct fuse_release_in out = { .fh = in.fh };

		CHECK(client_call(client, FUSE_RELEASEDIR, directory, &out, sizeof(out), NULL, 0) ==
		      0);
	}
}

/* Each thread creates as a user and with a umask of its own, whatever its neighbours do. */
static void create_as_oneself(struct guest *guest)
{
	struct fuse_client *client = &guest->client;
	const struct fuse_entry_out *entry = client_payload(client);
	struct fuse_mkdir_in in = { .mode = 0777, .umask = guest->number % 2 ? 077 : 022 };
	mode_t mode = S_IFDIR | (0777 & ~in.umask);
	struct stat st;
	char name[16];

	snprintf(name, sizeof(name), "own-%d", guest->number);
	client->uid = client->gid = USER(guest);
	CHECK(client_name(client, FUSE_MKDIR, client->tree, &in, sizeof(in), name, NULL) == 0);
	client->uid = client->gid = 0;
	CHECK(entry->attr.uid == USER(guest) && entry->attr.mode == mode);
	client_forget(client, entry->nodeid, 1);
	CHECK(stat(client_path(client, name), &st) == 0);
	CHECK(st.st_uid == USER(guest) && st.st_gid == USER(guest) && st.st_mode == mode);
	CHECK(client_name(client, FUSE_RMDIR, client->tree, NULL, 0, name, NULL) == 0);
}

/* One handle for all: read, given back and opened anew by any of them. */
static void share_a_handle(struct guest *guest)
{
	struct fuse_client *client = &guest->client;
	uint64_t handle = __atomic_load_n(&shared_handle, __ATOMIC_SEQ_CST);
	struct fuse_release_in in = { .fh = handle };
	int r;

	if (dice(guest, 3)) {
		r = client_read(client, marked, handle, 0, MARKED);
		CHECK(r == 0 || r == -EBADF);
		/* Never another file that got the same descriptor. */
		for (size_t i = 0; r == 0 && i < client->answered; i++)
			CHECK(((const char *)client_payload(client))[i] == MARK);
		CHECK(r < 0 || client->answered == MARKED);
		return;
	}
	r = client_call(client, FUSE_RELEASE, marked, &in, sizeof(in), NULL, 0);
	CHECK(r == 0 || r == -EBADF);
	if (r < 0)
		return;
	CHECK(client_open_node(client, marked, O_RDONLY, &handle) == 0);
	__atomic_store_n(&shared_handle, handle, __ATOMIC_SEQ_CST);
}

static void *play(void *data)
{
	static void (*const moves[])(struct guest *) = {
		create_and_use, find_and_use, rename_one,	 unlink_one,
		link_one,	list,	      create_as_oneself, share_a_handle,
	};
	struct guest *guest = data;

	client_join(&guest->client, guest->first);
	for (int i = 0; i < ROUNDS; i++)
		moves[dice(guest, ARRAY_LEN(moves))](guest);
	client_leave(&guest->client);
	return NULL;
}

static int setup(void **state)
{
	client_open(&c, 0);
	return 0;
}

static int teardown(void **state)
{
	client_close(&c);
	return 0;
}

static void make_marked(void)
{
	char *text = xcalloc(1, MARKED);

	memset(text, MARK, MARKED);
	assert_int_equal(
		file_replace(AT_FDCWD, client_path(&c, "marked"), text, MARKED, 0644, NULL), 0);
	free(text);
	marked = client_lookup(&c, c.tree, "marked");
	assert_true(marked);
	assert_int_equal(client_open_node(&c, marked, O_RDONLY, &shared_handle), 0);
}

static void everything_at_once(void **state)
{
	uint64_t directory = client_mkdir(&c, c.tree, "directory");
	struct fuse_release_in in = { 0 };
	struct guest guests[THREADS];
	pthread_t threads[THREADS];
	size_t nodes;

	make_marked();
	nodes = c.session->nodes.count;
	for (int i = 0; i < THREADS; i++) {
		guests[i] = (struct guest){ .first = &c,
					    .number = i,
					    .random = 0x9e3779b9u * (uint32_t)(i + 1),
					    .directory = directory };
		assert_int_equal(pthread_create(&threads[i], NULL, play, &guests[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	/* Nothing is left of it but what the host has. */
	assert_int_equal(c.session->nodes.count, nodes);
	assert_int_equal(c.session->handles.count, 1);
	assert_int_equal(c.session->away, 0);
	in.fh = shared_handle;
	assert_int_equal(client_call(&c, FUSE_RELEASE, marked, &in, sizeof(in), NULL, 0), 0);
}

static void *read_for_ever(void *data)
{
	struct guest *guest = data;

	client_join(&guest->client, guest->first);
	while (client_read(&guest->client, marked, shared_handle, 0, MARKED) == 0)
		;
	client_leave(&guest->client);
	return NULL;
}

/* The guest starts anew, or is reset, while others of its requests are away. */
static void begins_anew_meanwhile(void **state)
{
	struct fuse_init_in init = { .major = FUSE_KERNEL_VERSION, .minor = 41, .flags = ~0u };
	struct guest guests[THREADS];
	pthread_t threads[THREADS];

	for (int round = 0; round < 20; round++) {
		make_marked();
		for (int i = 0; i < THREADS; i++) {
			guests[i] = (struct guest){ .first = &c };
			assert_int_equal(
				pthread_create(&threads[i], NULL, read_for_ever, &guests[i]), 0);
		}
		usleep(2000);
		if (round % 2)
			session_reset(c.session);
		assert_int_equal(client_call(&c, FUSE_INIT, 0, &init, sizeof(init), NULL, 0), 0);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(c.session->handles.count, 0);
		assert_int_equal(c.session->nodes.count, 2); /* the top and the tree */
		c.tree = client_lookup(&c, FUSE_ROOT_ID, "0");
		assert_true(c.tree);
	}
}

static void *end_session(void *data)
{
	struct guest *guest = data;

	client_join(&guest->client, guest->first);
	CHECK(client_call(&guest->client, FUSE_DESTROY, 0, NULL, 0, NULL, 0) == 0);
	client_leave(&guest->client);
	return NULL;
}

static bool is_away(void)
{
	return c.session->away;
}

static bool has_ended(void)
{
	return !c.session->started;
}

static void wait_until(bool (*condition)(void))
{
	bool met = false;

	for (int i = 0; i < 30000 && !met; i++) {
		usleep(1000);
		pthread_mutex_lock(&c.session->lock);
		met = condition();
		pthread_mutex_unlock(&c.session->lock);
	}
	CHECK(met);
}

/* Who waits for those that are away waits for no others. */
static void ends_meanwhile(void **state)
{
	struct guest reader = { .first = &c }, ender = { .first = &c };
	pthread_t threads[2];

	make_marked();
	pthread_mutex_lock(&gate);
	assert_int_equal(pthread_create(&threads[0], NULL, read_for_ever, &reader), 0);
	wait_until(is_away);
	assert_int_equal(pthread_create(&threads[1], NULL, end_session, &ender), 0);
	wait_until(has_ended);
	assert_int_equal(client_read(&c, marked, shared_handle, 0, MARKED), -EIO);
	assert_int_equal(c.session->away, 1);
	pthread_mutex_unlock(&gate);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(c.session->handles.count, 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = { TEST(everything_at_once), TEST(begins_anew_meanwhile),
					    TEST(ends_meanwhile) };

	return cmocka_run_group_tests_name("fs_threads", tests, NULL, NULL);
}
