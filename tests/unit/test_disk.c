/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Disks: what a request does to the image and answers, and what it is refused; and the server with
 * a ring in guest memory, as the vmm hands it over.
 */
#include "base/fd.h"
#include "disk/request.h"
#include "fs/fsd.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <linux/virtio_blk.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ring.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SECTORS 64u
#define MEMORY	(2u << 20)

static struct disk disk;
static uint8_t data[8 * DISK_SECTOR], status;

static int setup(void **state)
{
	disk = (struct disk){ .number = 3,
			      .fd = memfd_create("image", MFD_CLOEXEC),
			      .sectors = SECTORS };
	for (unsigned int i = 0; i < SECTORS; i++) {
		memset(data, (int)i + 1, DISK_SECTOR);
		assert_int_equal(pwrite(disk.fd, data, DISK_SECTOR, i * DISK_SECTOR), DISK_SECTOR);
	}
	memset(data, 0, sizeof(data));
	return 0;
}

static int teardown(void **state)
{
	struct stat st;

	/* Whatever was asked for, the image has the size that it had. */
	assert_int_equal(fstat(disk.fd, &st), 0);
	assert_int_equal(st.st_size, SECTORS * DISK_SECTOR);
	close(disk.fd);
	return 0;
}

/* A request whose data are `size` bytes of data[]; written says which side they are on. */
static uint8_t request(uint32_t type, uint64_t sector, uint32_t size, bool written)
{
	struct virtio_blk_outhdr header = { .type = type, .sector = sector };
	struct chain chain = {
		.readable_count = written ? 2 : 1,
		.writable_count = written ? 1 : 2,
		.readable_size = (uint32_t)sizeof(header) + (written ? size : 0),
		.writable_size = 1 + (written ? 0 : size),
		.iov = { { &header, sizeof(header) }, { data, size }, { &status, 1 } }
	};
	uint32_t done;

	status = 0xff;
	done = disk_serve(&disk, &chain);
	assert_int_equal(done, status == VIRTIO_BLK_S_OK ? chain.writable_size : 1);
	return status;
}

static uint8_t byte_at(uint64_t sector)
{
	uint8_t byte = 0xee;

	assert_int_equal(pread(disk.fd, &byte, 1, (off_t)(sector * DISK_SECTOR)), 1);
	return byte;
}

static void reads_and_writes(void **state)
{
	assert_int_equal(request(VIRTIO_BLK_T_IN, 5, sizeof(data), false), VIRTIO_BLK_S_OK);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(data[i * DISK_SECTOR + 511], 6 + i);
	memset(data, 0xaa, sizeof(data));
	assert_int_equal(request(VIRTIO_BLK_T_OUT, 62, 2 * DISK_SECTOR, true), VIRTIO_BLK_S_OK);
	assert_int_equal(byte_at(61), 62);
	assert_int_equal(byte_at(62), 0xaa);
	assert_int_equal(byte_at(63), 0xaa);
	assert_int_equal(request(VIRTIO_BLK_T_FLUSH, 0, 0, true), VIRTIO_BLK_S_OK);
	assert_int_equal(request(VIRTIO_BLK_T_IN, 0, 0, false), VIRTIO_BLK_S_OK);
	assert_int_equal(request(VIRTIO_BLK_T_GET_ID, 0, 20, false), VIRTIO_BLK_S_OK);
	assert_string_equal((char *)data, "moat-3");
}

static void refuses_what_is_not_there(void **state)
{
	static const uint64_t sectors[] = {
		57, 63, 64, 65, 1ull << 55, UINT64_MAX - 7, UINT64_MAX
	};

	for (size_t i = 0; i < sizeof(sectors) / sizeof(*sectors); i++) {
		assert_int_equal(request(VIRTIO_BLK_T_IN, sectors[i], sizeof(data), false),
				 VIRTIO_BLK_S_IOERR);
		assert_int_equal(request(VIRTIO_BLK_T_OUT, sectors[i], sizeof(data), true),
				 VIRTIO_BLK_S_IOERR);
	}
	assert_int_equal(request(VIRTIO_BLK_T_IN, 0, 511, false), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_OUT, 0, 513, true), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(77, 0, 512, false), VIRTIO_BLK_S_UNSUPP);
	assert_int_equal(request(VIRTIO_BLK_T_SECURE_ERASE, 0, 16, true), VIRTIO_BLK_S_UNSUPP);
	/* An image that was cut short meanwhile. */
	assert_int_equal(ftruncate(disk.fd, 10 * DISK_SECTOR), 0);
	assert_int_equal(request(VIRTIO_BLK_T_IN, 8, sizeof(data), false), VIRTIO_BLK_S_IOERR);
	assert_int_equal(ftruncate(disk.fd, SECTORS * DISK_SECTOR), 0);
}

static uint8_t clear(uint32_t type, uint64_t sector, uint32_t count, uint32_t flags)
{
	struct virtio_blk_discard_write_zeroes segment = { .sector = sector,
							   .num_sectors = count,
							   .flags = flags };

	memcpy(data, &segment, sizeof(segment));
	return request(type, 0, sizeof(segment), true);
}

static void discards_and_zeroes(void **state)
{
	assert_int_equal(clear(VIRTIO_BLK_T_DISCARD, 8, 8, 0), VIRTIO_BLK_S_OK);
	assert_int_equal(byte_at(7), 8);
	assert_int_equal(byte_at(8), 0);
	assert_int_equal(byte_at(15), 0);
	assert_int_equal(byte_at(16), 17);
	assert_int_equal(clear(VIRTIO_BLK_T_WRITE_ZEROES, 20, 1, 1), VIRTIO_BLK_S_OK);
	assert_int_equal(byte_at(20), 0);
	assert_int_equal(byte_at(21), 22);
	assert_int_equal(clear(VIRTIO_BLK_T_DISCARD, 0, 0, 0), VIRTIO_BLK_S_OK);
	assert_int_equal(clear(VIRTIO_BLK_T_DISCARD, 0, 1, 1), VIRTIO_BLK_S_UNSUPP);
	assert_int_equal(clear(VIRTIO_BLK_T_WRITE_ZEROES, 0, 1, 2), VIRTIO_BLK_S_UNSUPP);
	assert_int_equal(clear(VIRTIO_BLK_T_DISCARD, 60, 5, 0), VIRTIO_BLK_S_IOERR);
	assert_int_equal(clear(VIRTIO_BLK_T_DISCARD, UINT64_MAX, 1, 0), VIRTIO_BLK_S_IOERR);
	assert_int_equal(clear(VIRTIO_BLK_T_DISCARD, 0, UINT32_MAX, 0), VIRTIO_BLK_S_IOERR);
	assert_int_equal(request(VIRTIO_BLK_T_DISCARD, 0, 32, true), VIRTIO_BLK_S_UNSUPP);
	assert_int_equal(byte_at(0), 1);
}

static void read_only(void **state)
{
	disk.read_only = true;
	assert_int_equal(request(VIRTIO_BLK_T_IN, 5, DISK_SECTOR, false), VIRTIO_BLK_S_OK);
	assert_int_equal(request(VIRTIO_BLK_T_OUT, 5, DISK_SECTOR, true), VIRTIO_BLK_S_IOERR);
	assert_int_equal(clear(VIRTIO_BLK_T_DISCARD, 5, 1, 0), VIRTIO_BLK_S_IOERR);
	assert_int_equal(clear(VIRTIO_BLK_T_WRITE_ZEROES, 5, 1, 0), VIRTIO_BLK_S_IOERR);
	assert_int_equal(byte_at(5), 6);
}

/* Direct I/O, on an image in a file system, as memfds have none. */
struct direct {
	char path[32];
	int buffered; /* the tests' */
	uint8_t *memory;
	struct disk disk;
};

static bool direct_open(struct direct *d)
{
	snprintf(d->path, sizeof(d->path), "/tmp/moat-disk-XXXXXX");
	d->buffered = mkstemp(d->path);
	assert_true(d->buffered >= 0);
	assert_int_equal(ftruncate(d->buffered, 1 << 20), 0);
	d->disk = (struct disk){ .fd = d->buffered,
				 .sectors = (1 << 20) / DISK_SECTOR,
				 .direct = true,
				 .direct_fd = open(d->path, O_RDWR | O_DIRECT | O_CLOEXEC),
				 .block_size = 4096,
				 .bounce = aligned_alloc(4096, DISK_BOUNCE_SIZE) };
	d->memory = aligned_alloc(4096, 2 << 20);
	unlink(d->path);
	return d->disk.direct_fd >= 0;
}

static void direct_close(struct direct *d)
{
	close(d->buffered);
	close(d->disk.direct_fd);
	free(d->disk.bounce);
	free(d->memory);
}

/* Moves size bytes, in two parts, of which the first has `first` bytes. */
static uint8_t direct_request(const struct direct *d, uint32_t type, uint64_t sector,
			      uint8_t *memory, uint32_t size, uint32_t first)
{
	struct virtio_blk_outhdr header = { .type = type, .sector = sector };
	uint16_t out = type == VIRTIO_BLK_T_OUT ? 2 : 0;
	struct chain chain = { .readable_count = 1 + out,
			       .writable_count = 3 - out,
			       .readable_size = (uint32_t)sizeof(header) + (out ? size : 0),
			       .writable_size = 1 + (out ? 0 : size),
			       .iov = { { &header, sizeof(header) },
					{ memory, first },
					{ memory + first, size - first },
					{ &status, 1 } } };

	status = 0xff;
	disk_serve(&d->disk, &chain);
	return status;
}

/* What of the image is in the page cache would not be there after direct I/O alone. */
static void direct(void **state)
{
	static const struct {
		uint32_t sector, offset, size, first;
	} cases[] = {
		{ 8, 0, 65536, 4096 },	    /* as it is to be */
		{ 8, 512, 65536, 4096 },    /* memory that is not aligned */
		{ 8, 0, 65536, 512 },	    /* parts that are not */
		{ 16, 1, 300 * 4096, 777 }, /* more than the buffer, all of it odd */
		{ 9, 0, 4096, 512 },	    /* not whole blocks: by the page cache */
		{ 9, 3, 512, 100 },
	};
	struct direct d;
	uint8_t *content = malloc(2 << 20);

	if (!direct_open(&d)) {
		direct_close(&d);
		free(content);
		skip();
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint32_t size =
			cases[i].size > (1 << 20) - 16 * 512 ? (1 << 20) - 16 * 512 : cases[i].size;
		uint8_t *memory = d.memory + cases[i].offset;

		for (uint32_t j = 0; j < size; j++)
			memory[j] = (uint8_t)(j * 7 + j / 4096 + i);
		assert_int_equal(direct_request(&d, VIRTIO_BLK_T_OUT, cases[i].sector, memory, size,
						cases[i].first),
				 VIRTIO_BLK_S_OK);
		assert_int_equal(pread(d.buffered, content, size, cases[i].sector * 512), size);
		assert_memory_equal(content, memory, size);
		memset(memory, 0, size);
		assert_int_equal(direct_request(&d, VIRTIO_BLK_T_IN, cases[i].sector, memory, size,
						cases[i].first),
				 VIRTIO_BLK_S_OK);
		assert_memory_equal(content, memory, size);
	}
	/* A device alone, as block devices are: what it cannot do is an error of the request. */
	d.disk.fd = d.disk.direct_fd;
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_IN, 8, d.memory + 1, 8192, 1),
			 VIRTIO_BLK_S_OK);
	assert_int_equal(ftruncate(d.buffered, 8192), 0);
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_IN, 8, d.memory + 1, 8192, 1),
			 VIRTIO_BLK_S_IOERR);
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_IN, 16, d.memory, 8192, 4096),
			 VIRTIO_BLK_S_IOERR);
	assert_int_equal(ftruncate(d.buffered, 1 << 20), 0);
	direct_close(&d);
	free(content);
}

/* A loop device of a file of 1 MiB in memory. Returns it, or -1 where there is none to be had. */
static int make_loop(int *backing)
{
	struct loop_config config = { .block_size = 512, .info.lo_flags = LO_FLAGS_AUTOCLEAR };
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), fd = -1;

	*backing = memfd_create("backing", MFD_CLOEXEC);
	config.fd = (uint32_t)*backing;
	assert_int_equal(ftruncate(*backing, 1 << 20), 0);
	for (int i = 0; control >= 0 && fd < 0 && i < 10; i++) { /* others may be quicker */
		char path[32];

		snprintf(path, sizeof(path), "/dev/loop%d", ioctl(control, LOOP_CTL_GET_FREE));
		fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
		if (fd >= 0 && ioctl(fd, LOOP_CONFIGURE, &config) < 0)
			fd_replace(&fd, -1);
	}
	fd_replace(&control, -1);
	return fd;
}

static long long blocks_of(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (long long)st.st_blocks;
}

static void block_device(void **state)
{
	struct direct d = { .memory = aligned_alloc(4096, 1 << 20) };
	int fd = make_loop(&d.buffered), image = disk.fd;

	if (fd < 0) {
		close(d.buffered);
		free(d.memory);
		skip();
	}
	d.disk = (struct disk){ .fd = fd,
				.sectors = 2048,
				.direct = true,
				.direct_fd = fd,
				.block_size = 512,
				.bounce = aligned_alloc(4096, DISK_BOUNCE_SIZE) };
	memset(d.memory, 0x5a, 1 << 20);
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_OUT, 0, d.memory, 1 << 20, 512), 0);
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_OUT, 3, d.memory + 1, 1024, 7), 0);
	memset(d.memory, 0, 4096);
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_IN, 2047, d.memory + 3, 512, 5), 0);
	assert_int_equal(d.memory[3 + 511], 0x5a);
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_IN, 2048, d.memory, 512, 5),
			 VIRTIO_BLK_S_IOERR);
	assert_int_equal(fdatasync(fd), 0);
	assert_int_equal(blocks_of(d.buffered), 2048);
	/* Discarded: a hole in what is behind the device. */
	disk.fd = fd;
	disk.sectors = 2048;
	assert_int_equal(clear(VIRTIO_BLK_T_DISCARD, 512, 1024, 0), VIRTIO_BLK_S_OK);
	assert_int_equal(blocks_of(d.buffered), 1024);
	assert_int_equal(request(VIRTIO_BLK_T_FLUSH, 0, 0, true), VIRTIO_BLK_S_OK);
	/* The device becomes smaller than it said it was. */
	assert_int_equal(ftruncate(d.buffered, 1 << 19), 0);
	assert_int_equal(ioctl(fd, LOOP_SET_CAPACITY, 0), 0);
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_IN, 1536, d.memory, 4096, 512),
			 VIRTIO_BLK_S_IOERR);
	assert_int_equal(direct_request(&d, VIRTIO_BLK_T_OUT, 1023, d.memory, 4096, 512),
			 VIRTIO_BLK_S_IOERR);
	assert_int_equal(clear(VIRTIO_BLK_T_DISCARD, 1536, 8, 0), VIRTIO_BLK_S_IOERR);
	disk.fd = image;
	direct_close(&d);
}

static void odd_chains(void **state)
{
	struct virtio_blk_outhdr header = { .type = VIRTIO_BLK_T_IN, .sector = 3 };
	uint8_t both[DISK_SECTOR + 1];
	struct chain chain = { .readable_count = 1,
			       .readable_size = 16,
			       .iov = { { &header, 16 } } };

	assert_int_equal(disk_serve(&disk, &chain), 0); /* no room for a status */
	/* The header in two parts; the status in the buffer of the data. */
	chain = (struct chain){
		.readable_count = 2,
		.readable_size = 16,
		.writable_count = 1,
		.writable_size = sizeof(both),
		.iov = { { &header, 3 }, { (uint8_t *)&header + 3, 13 }, { both, sizeof(both) } }
	};
	both[DISK_SECTOR] = 0xff;
	assert_int_equal(disk_serve(&disk, &chain), sizeof(both));
	assert_int_equal(both[DISK_SECTOR - 1], 4);
	assert_int_equal(both[DISK_SECTOR], VIRTIO_BLK_S_OK);
	/* A header that is cut off. */
	chain = (struct chain){ .readable_count = 1,
				.readable_size = 15,
				.writable_count = 1,
				.writable_size = 1,
				.iov = { { &header, 15 }, { &status, 1 } } };
	assert_int_equal(disk_serve(&disk, &chain), 1);
	assert_int_equal(status, VIRTIO_BLK_S_IOERR);
}

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
		.queue = { { .image_fd = disk.fd, .direct_fd = -1, .sectors = SECTORS } },
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
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(reads_and_writes),
		TEST(refuses_what_is_not_there),
		TEST(discards_and_zeroes),
		TEST(read_only),
		TEST(direct),
		TEST(block_device),
		TEST(odd_chains),
		TEST(server),
	};

	return cmocka_run_group_tests_name("disk", tests, NULL, NULL);
}
