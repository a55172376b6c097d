/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A 16550 that only sends (register names as in linux/serial_reg.h). */
#include "vmm/serial.h"

#include "base/fd.h"

#include <linux/serial_reg.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#define WRITE_MAX 4096u /* a pipe that is writable takes this much without waiting (PIPE_BUF) */

static const char limit_text[] =
	"\nmoat: the guest's console said much: the last of it is shown at the machine's end\n";

/* With the lock: how many bytes may be passed on now. */
static uint32_t waiting(const struct serial *serial)
{
	uint32_t count = serial->head - serial->tail;

	if (!serial->flushing && count > SERIAL_PASSED - serial->passed)
		count = SERIAL_PASSED - serial->passed;
	return count;
}

/* Writes one piece of the ring. Returns 1 where more is left, 0 where not, -1 on an error. */
static int drain_once(struct serial *serial)
{
	uint8_t piece[WRITE_MAX];
	uint32_t count, size;
	ssize_t n;

	pthread_mutex_lock(&serial->lock);
	count = waiting(serial);
	if (count > WRITE_MAX - sizeof(limit_text))
		count = WRITE_MAX - sizeof(limit_text);
	for (uint32_t i = 0; i < count; i++)
		piece[i] = serial->ring[(serial->tail + i) % SERIAL_RING];
	pthread_mutex_unlock(&serial->lock);
	size = count;
	if (count && !serial->flushing && serial->passed + count == SERIAL_PASSED) {
		memcpy(piece + count, limit_text, sizeof(limit_text) - 1);
		size += (uint32_t)sizeof(limit_text) - 1;
	}
	n = size ? write(serial->out.fd, piece, size) : 0;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 1 : -1;
	if (n > (ssize_t)count)
		n = (ssize_t)count;
	pthread_mutex_lock(&serial->lock);
	serial->tail += (uint32_t)n;
	if (!serial->flushing)
		serial->passed += (uint32_t)n;
	count = waiting(serial);
	pthread_mutex_unlock(&serial->lock);
	return count != 0;
}

/* The reader went away: the console goes on into nothing. */
static void stop_output(struct serial *serial)
{
	loop_forget(serial->loop, &serial->out);
	loop_forget(serial->loop, &serial->wake);
}

static int out_ready(struct source *source, uint32_t events, struct err *err)
{
	struct serial *serial = source->data;
	int more = drain_once(serial);

	if (more < 0)
		stop_output(serial);
	else if (!more)
		loop_forget(serial->loop, &serial->out);
	return 0;
}

static int wake_ready(struct source *source, uint32_t events, struct err *err)
{
	struct serial *serial = source->data;
	eventfd_t count;
	int more;

	eventfd_read(source->fd, &count);
	if (serial->pollable)
		return loop_watch(serial->loop, &serial->out, EPOLLOUT, err);
	while ((more = drain_once(serial)) > 0)
		;
	if (more < 0)
		stop_output(serial);
	return 0;
}

int serial_init(struct serial *serial, struct loop *loop, int fd, struct err *err)
{
	struct err why;

	memset(serial, 0, sizeof(*serial));
	serial->state.version = SERIAL_STATE_VERSION;
	serial->loop = loop;
	serial->out = (struct source){ .fd = fd, .ready = out_ready, .data = serial };
	serial->wake = (struct source){ .ready = wake_ready, .data = serial };
	pthread_mutex_init(&serial->lock, NULL);
	serial->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	serial->irq_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (serial->wake.fd < 0 || serial->irq_fd < 0)
		return err_set(err, errno, "create an eventfd");
	/* A regular file cannot be watched, and need not be. */
	serial->pollable = loop_watch(loop, &serial->out, EPOLLOUT, &why) == 0;
	loop_forget(loop, &serial->out);
	return loop_watch(loop, &serial->wake, EPOLLIN, err);
}

void serial_free(struct serial *serial)
{
	fd_replace(&serial->wake.fd, -1);
	fd_replace(&serial->irq_fd, -1);
	pthread_mutex_destroy(&serial->lock);
}

static void transmit(struct serial *serial, uint8_t byte)
{
	uint32_t count = serial->head - serial->tail;

	if (count == SERIAL_RING) {
		serial->left_out++;
		/* While it is being passed on what is in the ring stays; else the last is kept. */
		if (serial->flushing || serial->passed < SERIAL_PASSED)
			return;
		serial->tail++;
	}
	serial->ring[serial->head++ % SERIAL_RING] = byte;
	if (count == 0)
		eventfd_write(serial->wake.fd, 1);
}

/* A byte is sent as soon as it is written, so the transmitter is empty whenever one asks. */
static void raise_transmit_empty(struct serial *serial)
{
	if (!(serial->state.interrupt_enable & UART_IER_THRI))
		return;
	serial->state.transmit_empty = 1;
	eventfd_write(serial->irq_fd, 1);
}

static uint8_t modem_status(const struct serial_state *state)
{
	/* In loopback the outputs come back as inputs: how drivers test for a 16550. */
	if (state->modem_control & UART_MCR_LOOP)
		return (uint8_t)((state->modem_control & UART_MCR_DTR ? UART_MSR_DSR : 0) |
				 (state->modem_control & UART_MCR_RTS ? UART_MSR_CTS : 0) |
				 (state->modem_control & UART_MCR_OUT1 ? UART_MSR_RI : 0) |
				 (state->modem_control & UART_MCR_OUT2 ? UART_MSR_DCD : 0));
	return UART_MSR_DCD | UART_MSR_DSR | UART_MSR_CTS;
}

static uint8_t register_read(struct serial_state *state, unsigned int port)
{
	bool divisor = state->line_control & UART_LCR_DLAB;
	uint8_t pending = state->transmit_empty;

	switch (port) {
	case UART_RX:
		return divisor ? state->divisor_low : 0;
	case UART_IER:
		return divisor ? state->divisor_high : state->interrupt_enable;
	case UART_IIR:
		state->transmit_empty = 0;
		return pending ? UART_IIR_THRI : UART_IIR_NO_INT;
	case UART_LCR:
		return state->line_control;
	case UART_MCR:
		return state->modem_control;
	case UART_LSR:
		return UART_LSR_TEMT | UART_LSR_THRE;
	case UART_MSR:
		return modem_status(state);
	default:
		return state->scratch;
	}
}

static void register_write(struct serial *serial, unsigned int port, uint8_t value)
{
	struct serial_state *state = &serial->state;
	bool divisor = state->line_control & UART_LCR_DLAB;

	switch (port) {
	case UART_TX:
		if (divisor) {
			state->divisor_low = value;
		} else if (!(state->modem_control & UART_MCR_LOOP)) {
			transmit(serial, value);
			raise_transmit_empty(serial);
		}
		break;
	case UART_IER:
		if (divisor) {
			state->divisor_high = value;
		} else {
			state->interrupt_enable = value & 0xf;
			raise_transmit_empty(serial);
		}
		break;
	case UART_LCR:
		state->line_control = value;
		break;
	case UART_MCR:
		state->modem_control = value & 0x1f;
		break;
	case UART_SCR:
		state->scratch = value;
		break;
	default:
		break;
	}
}

uint8_t serial_read(struct serial *serial, unsigned int port)
{
	uint8_t value;

	pthread_mutex_lock(&serial->lock);
	value = register_read(&serial->state, port);
	pthread_mutex_unlock(&serial->lock);
	return value;
}

void serial_write(struct serial *serial, unsigned int port, uint8_t value)
{
	pthread_mutex_lock(&serial->lock);
	register_write(serial, port, value);
	pthread_mutex_unlock(&serial->lock);
}

void serial_flush(struct serial *serial)
{
	struct pollfd out = { .fd = serial->out.fd, .events = POLLOUT };
	uint64_t left_out;
	char text[96];
	int n;

	pthread_mutex_lock(&serial->lock);
	serial->flushing = true;
	left_out = serial->left_out;
	pthread_mutex_unlock(&serial->lock);
	n = snprintf(text, sizeof(text), "\nmoat: %llu bytes of the guest's console are left out\n",
		     (unsigned long long)left_out);
	if (left_out && poll(&out, 1, 1000) > 0 && write(out.fd, text, (size_t)n) < 0)
		return;
	while (poll(&out, 1, 1000) > 0 && drain_once(serial) > 0)
		;
}
