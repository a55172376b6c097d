/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The server of disks, with a ring in guest memory, as the vmm hands it over. */
#include "disk_image.h"

#include "base/fd.h"
#include "fs/fsd.h"

#include <linux/virtio_blk.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define MEMORY (2u << 20)

/* The server in a thread, its peers here. */
struct served {
	struct diskd *diskd;
	int vmm, kick, call;
	uint8_t *memory;
	pthread_t thread;
};

static void *serve(void *arg)
{
	struct served *s = arg;
	struct err err;

	return (void *)(intptr_t)diskd_run(s->diskd, &err);
}

static void served_open(struct served *s)
{
	int pair[2], memory = memfd_create("memory", MFD_CLOEXEC);
	struct diskd_config config = {
		.memory_fd = memory,
		.memory_size = MEMORY,
		.queues = 1,
		.queue = { { .image_fd = image_disk.fd,
			     .direct_fd = -1,
			     .sectors = IMAGE_SECTORS } },
	};
	struct err err;

	assert_int_equal(ftruncate(memory, MEMORY), 0);
	s->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
	s->vmm = pair[0];
	config.queue[0].vmm_fd = pair[1];
	s->diskd = diskd_setup(&config, &err);
	assert_non_null(s->diskd);
	close(memory);
	s->kick = eventfd(0, EFD_CLOEXEC);
	s->call = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void served_start(struct served *s)
{
	struct fs_queue_setup message = { .type = FS_SETUP_START,
					  .queues = 1,
					  .features = 1ull << VIRTIO_F_VERSION_1,
					  .queue = { { 8, 0x1000, 0x2000, 0x3000 } } };
	int fds[] = { s->kick, s->call };

	memset(s->memory + 0x1000, 0, 0x3000);
	assert_int_equal(fd_send(s->vmm, &message, sizeof(message), fds, 2), 0);
}

static void served_reset(struct served *s)
{
	struct fs_queue_setup message = { .type = FS_SETUP_RESET };

	assert_int_equal(fd_send(s->vmm, &message, sizeof(message), NULL, 0), 0);
	assert_int_equal(recv(s->vmm, &message, sizeof(message), 0), sizeof(message));
	assert_int_equal(message.type, FS_SETUP_RESET);
}

/* Asks for sector 9 through the ring; its first descriptor's next is `next`. */
static void served_ask(struct served *s, uint16_t next)
{
	struct virtio_blk_outhdr header = { .type = VIRTIO_BLK_T_IN, .sector = 9 };
	struct vring_desc desc[] = { { 0x8000, sizeof(header), VRING_DESC_F_NEXT, next },
				     { 0x9000, 512, VRING_DESC_F_NEXT | VRING_DESC_F_WRITE, 2 },
				     { 0xa000, 1, VRING_DESC_F_WRITE, 0 } };
	struct vring_avail *avail = (void *)(s->memory + 0x2000);

	memcpy(s->memory + 0x8000, &header, sizeof(header));
	memcpy(s->memory + 0x1000, desc, sizeof(desc));
	avail->ring[avail->idx % 8] = 0;
	__atomic_store_n(&avail->idx, (uint16_t)(avail->idx + 1), __ATOMIC_RELEASE);
	assert_int_equal(eventfd_write(s->kick, 1), 0);
}

static void server(void **state)
{
	struct served s;
	eventfd_t count;
	void *result;

	served_open(&s);
	for (int round = 0; round < 3; round++) {
		s.memory[0x9000] = s.memory[0xa000] = 0xff;
		served_start(&s);
		served_ask(&s, 1);
		assert_int_equal(eventfd_read(s.call, &count), 0);
		assert_int_equal(s.memory[0x9000], 10);
		assert_int_equal(s.memory[0xa000], VIRTIO_BLK_S_OK);
		assert_int_equal(((struct vring_used *)(s.memory + 0x3000))->ring[0].len, 513);
		served_reset(&s);
	}
	/* A ring that is broken is left alone until the reset; one out of memory never begins. */
	served_start(&s);
	served_ask(&s, 1000);
	served_reset(&s);
	served_start(&s);
	served_ask(&s, 1);
	assert_int_equal(eventfd_read(s.call, &count), 0);
	close(s.vmm);
	assert_int_equal(pthread_join(s.thread, &result), 0);
	assert_int_equal((intptr_t)result, 0);
	diskd_free(s.diskd);
	close(s.kick);
	close(s.call);
	munmap(s.memory, MEMORY);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, image_setup, image_teardown)
	const struct CMUnitTest tests[] = {
		TEST(server),
	};

	return cmocka_run_group_tests_name("diskd", tests, NULL, NULL);
}
