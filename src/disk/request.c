/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Requests to a disk (virtio 1.2, 5.2.6). Every one is checked against the size that the disk had
 * when the machine was made: an image never grows by a guest's doing.
 */
#include "disk/request.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/virtio_blk.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Whether so many bytes from a sector on are whole sectors of this disk. */
static bool is_within(const struct disk *disk, uint64_t sector, uint64_t bytes)
{
	uint64_t count = bytes / DISK_SECTOR;

	return bytes % DISK_SECTOR == 0 && sector <= disk->sectors &&
	       count <= disk->sectors - sector;
}

/* The first bytes of a list of buffers are done with. */
static size_t skip(struct iovec *iov, size_t count, size_t bytes)
{
	size_t gone = 0;

	while (gone < count && bytes >= iov[gone].iov_len)
		bytes -= iov[gone++].iov_len;
	if (gone < count) {
		iov[gone].iov_base = (uint8_t *)iov[gone].iov_base + bytes;
		iov[gone].iov_len -= bytes;
	}
	return gone;
}

/* Moves all of the buffers; a file that has become shorter is an error. */
static uint8_t move(int fd, struct iovec *iov, size_t count, off_t at, bool write)
{
	size_t gone = 0;

	while (gone < count) {
		ssize_t n = write ? pwritev(fd, iov + gone, (int)(count - gone), at)
				  : preadv(fd, iov + gone, (int)(count - gone), at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return VIRTIO_BLK_S_IOERR;
		at += n;
		gone += skip(iov + gone, count - gone, (size_t)n);
	}
	return VIRTIO_BLK_S_OK;
}

/* Between the buffers and as many bytes of ours; they have so many. */
static void copy(const struct iovec *iov, size_t count, uint8_t *ours, size_t size, bool to_ours)
{
	for (size_t i = 0; i < count && size; i++) {
		size_t n = iov[i].iov_len < size ? iov[i].iov_len : size;

		if (to_ours)
			memcpy(ours, iov[i].iov_base, n);
		else
			memcpy(iov[i].iov_base, ours, n);
		ours += n;
		size -= n;
	}
}

/* By way of a buffer that is aligned. */
static uint8_t bounce(const struct disk *disk, struct iovec *iov, size_t count, uint64_t size,
		      off_t at, bool write)
{
	while (size) {
		size_t n = size < DISK_BOUNCE_SIZE ? (size_t)size : DISK_BOUNCE_SIZE;
		struct iovec ours = { disk->bounce, n };
		size_t gone;

		if (write)
			copy(iov, count, disk->bounce, n, true);
		if (move(disk->direct_fd, &ours, 1, at, write) != VIRTIO_BLK_S_OK)
			return VIRTIO_BLK_S_IOERR;
		if (!write)
			copy(iov, count, disk->bounce, n, false);
		gone = skip(iov, count, n);
		iov += gone;
		count -= gone;
		at += (off_t)n;
		size -= n;
	}
	return VIRTIO_BLK_S_OK;
}

static bool is_aligned(const struct iovec *iov, size_t count, uint32_t block)
{
	uintptr_t bits = 0;

	for (size_t i = 0; i < count; i++)
		bits |= (uintptr_t)iov[i].iov_base | iov[i].iov_len;
	return !(bits & (block - 1));
}

/* size: of all the buffers; it is that of whole sectors of this disk. */
static uint8_t transfer(const struct disk *disk, struct iovec *iov, size_t count, uint64_t sector,
			uint64_t size, bool write)
{
	off_t at = (off_t)(sector * DISK_SECTOR);

	if (!disk->direct || (((uint64_t)at | size) & (disk->block_size - 1)))
		return move(disk->fd, iov, count, at, write);
	if (is_aligned(iov, count, disk->block_size))
		return move(disk->direct_fd, iov, count, at, write);
	return bounce(disk, iov, count, size, at, write);
}

/* size: bytes of the writable part before the status. */
static uint8_t read_sectors(const struct disk *disk, struct chain *chain, uint64_t sector,
			    uint32_t size)
{
	struct iovec iov[VIRTQUEUE_SIZE_MAX];
	size_t count = chain_rest_writable(chain, iov);

	if (!is_within(disk, sector, size))
		return VIRTIO_BLK_S_IOERR;
	/* The last buffer ends with the status, or is it. */
	while (count && !iov[count - 1].iov_len)
		count--;
	if (count && !--iov[count - 1].iov_len)
		count--;
	return transfer(disk, iov, count, sector, size, false);
}

static uint8_t write_sectors(const struct disk *disk, struct chain *chain, uint64_t sector)
{
	struct iovec iov[VIRTQUEUE_SIZE_MAX];
	size_t count = chain_rest_readable(chain, iov);
	uint32_t size = chain->readable_size - chain->read_done;

	if (disk->read_only || !is_within(disk, sector, size))
		return VIRTIO_BLK_S_IOERR;
	return transfer(disk, iov, count, sector, size, true);
}

/*
 * Many a device can discard and cannot zero, and fallocate(2) of a device is about the latter
 * alone. A guest takes a discard that is not supported for one that is done.
 */
static int punch(const struct disk *disk, uint64_t at, uint64_t size, bool discard)
{
	uint64_t range[] = { at, size };

	if (disk->is_device && discard)
		return ioctl(disk->fd, BLKDISCARD, range);
	return fallocate(disk->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
			 (off_t)size);
}

/* DISCARD and WRITE_ZEROES: one segment, as the configuration says. */
static uint8_t clear_sectors(const struct disk *disk, struct chain *chain, bool discard)
{
	struct virtio_blk_discard_write_zeroes segment = { 0 };
	uint64_t sectors, at;
	int r;

	if (disk->read_only)
		return VIRTIO_BLK_S_IOERR;
	if (chain->readable_size - chain->read_done != sizeof(segment))
		return VIRTIO_BLK_S_UNSUPP;
	chain_read(chain, &segment, sizeof(segment));
	if (segment.flags & (discard ? ~0u : ~(uint32_t)VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP))
		return VIRTIO_BLK_S_UNSUPP;
	sectors = segment.num_sectors;
	if (sectors > DISK_ZERO_SECTORS_MAX ||
	    !is_within(disk, segment.sector, sectors * DISK_SECTOR))
		return VIRTIO_BLK_S_IOERR;
	if (!sectors)
		return VIRTIO_BLK_S_OK;
	at = segment.sector * DISK_SECTOR;
	if (!discard && !segment.flags)
		r = fallocate(disk->fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, (off_t)at,
			      (off_t)(sectors * DISK_SECTOR));
	else
		r = punch(disk, at, sectors * DISK_SECTOR, discard);
	if (r == 0)
		return VIRTIO_BLK_S_OK;
	return errno == EOPNOTSUPP ? VIRTIO_BLK_S_UNSUPP : VIRTIO_BLK_S_IOERR;
}

static uint8_t tell_name(const struct disk *disk, struct chain *chain, uint32_t size)
{
	char name[VIRTIO_BLK_ID_BYTES] = "";

	snprintf(name, sizeof(name), DISK_NAME, disk->number);
	chain_write(chain, name, size < sizeof(name) ? size : sizeof(name));
	return VIRTIO_BLK_S_OK;
}

static uint8_t serve(const struct disk *disk, struct chain *chain, uint32_t size)
{
	struct virtio_blk_outhdr header;

	if (chain_read(chain, &header, sizeof(header)) != sizeof(header))
		return VIRTIO_BLK_S_IOERR;
	switch (header.type) {
	case VIRTIO_BLK_T_IN:
		return read_sectors(disk, chain, header.sector, size);
	case VIRTIO_BLK_T_OUT:
		return write_sectors(disk, chain, header.sector);
	case VIRTIO_BLK_T_FLUSH:
		return fdatasync(disk->fd) < 0 ? VIRTIO_BLK_S_IOERR : VIRTIO_BLK_S_OK;
	case VIRTIO_BLK_T_DISCARD:
	case VIRTIO_BLK_T_WRITE_ZEROES:
		return clear_sectors(disk, chain, header.type == VIRTIO_BLK_T_DISCARD);
	case VIRTIO_BLK_T_GET_ID:
		return tell_name(disk, chain, size);
	default:
		return VIRTIO_BLK_S_UNSUPP;
	}
}

uint32_t disk_serve(const struct disk *disk, struct chain *chain)
{
	uint8_t status;

	if (!chain->writable_size)
		return 0;
	status = serve(disk, chain, chain->writable_size - 1);
	chain->write_done = chain->writable_size - 1;
	chain_write(chain, &status, sizeof(status));
	return status == VIRTIO_BLK_S_OK ? chain->writable_size : 1;
}
