/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The bytes of one request. They lie in guest memory and may change under the reader: what is
 * looked at more than once has to be copied out with chain_read() first.
 */
#include "virtio/virtqueue.h"

#include <string.h>

/* Copies between a flat buffer and the parts behind *done; returns how much there was room for. */
static size_t copy(const struct iovec *iov, size_t count, uint32_t *done, void *buffer, size_t size,
		   bool to_guest)
{
	size_t skip = *done, copied = 0;

	for (size_t i = 0; i < count && copied < size; i++) {
		uint8_t *part = iov[i].iov_base;
		size_t n = iov[i].iov_len;

		if (skip >= n) {
			skip -= n;
			continue;
		}
		part += skip;
		n -= skip;
		skip = 0;
		if (n > size - copied)
			n = size - copied;
		if (to_guest)
			memcpy(part, (const uint8_t *)buffer + copied, n);
		else
			memcpy((uint8_t *)buffer + copied, part, n);
		copied += n;
	}
	*done += (uint32_t)copied; /* bounded by the 32-bit size of the part */
	return copied;
}

size_t chain_read(struct chain *chain, void *buffer, size_t size)
{
	return copy(chain->iov, chain->readable_count, &chain->read_done, buffer, size, false);
}

size_t chain_write(struct chain *chain, const void *buffer, size_t size)
{
	return copy(chain->iov + chain->readable_count, chain->writable_count, &chain->write_done,
		    (void *)buffer, size, true);
}

/* The rest of iov behind done bytes; returns the number of entries. */
static size_t rest(const struct iovec *iov, size_t count, size_t done, struct iovec *out)
{
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		if (done >= iov[i].iov_len) {
			done -= iov[i].iov_len;
			continue;
		}
		out[used].iov_base = (uint8_t *)iov[i].iov_base + done;
		out[used].iov_len = iov[i].iov_len - done;
		done = 0;
		used++;
	}
	return used;
}

size_t chain_rest_readable(const struct chain *chain, struct iovec *out)
{
	return rest(chain->iov, chain->readable_count, chain->read_done, out);
}

size_t chain_rest_writable(const struct chain *chain, struct iovec *out)
{
	return rest(chain->iov + chain->readable_count, chain->writable_count, chain->write_done,
		    out);
}
