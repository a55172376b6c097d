/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A disk image for unit tests, whose sector N is full of the byte N + 1, and requests to it as the
 * server of disks gets them.
 */
#pragma once

#include "disk/request.h"

#define IMAGE_SECTORS 64u

extern struct disk image_disk;
extern uint8_t image_data[8 * DISK_SECTOR]; /* of requests */

/* For cmocka. teardown checks that the image has the size that it had, whatever was asked for. */
int image_setup(void **state);
int image_teardown(void **state);

/*
 * image_request() - one whose data are `size` bytes of image_data; written says which side they are
 * on. Returns its status. image_clear() - to discard or zero a segment.
 */
uint8_t image_request(uint32_t type, uint64_t sector, uint32_t size, bool written);
uint8_t image_clear(uint32_t type, uint64_t sector, uint32_t count, uint32_t flags);

/* image_byte() - the first byte of a sector. */
uint8_t image_byte(uint64_t sector);
