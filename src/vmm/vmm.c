/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The machine's life: setup makes all of it, run serves until something ends it.
 *
 * What vmm_run() asks of the host, and the jail therefore has to allow: KVM_RUN, and on the way out
 * of a crash KVM_GET_REGS, after a pause KVM_KVMCLOCK_CTRL, and KVM_IRQFD and KVM_IOEVENTFD for a
 * network device that appears; signals to the vCPUs' threads; epoll, reads and writes of eventfds;
 * sendmsg and recvmsg with the monitor and fsd, poll for fsd's answer and the console; getrandom;
 * brk; madvise for pages that the guest does not use; and what sockets' streams need (vsock.c).
 * Threads, their stacks and signal handlers are made by vmm_start(), and the end of the process
 * takes all of it away.
 */
#include "vmm/machine.h"

#include "base/fd.h"
#include "base/mem.h"
#include "fs/fsd.h"
#include "vmm/balloon.h"
#include "vmm/rng.h"
#include "vmm/vsock.h"
#include "vmm/x86/x86.h"

#include <linux/virtio_mmio.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

/*
 * The machine's own part of the command line. It is reset through the keyboard controller; a panic
 * does that at once; there is no PIT to test timers with, and the TSC needs no watching.
 */
#define LARGE_PAGE	   (2ull << 20)
#define CMDLINE_MACHINE	   "reboot=k panic=-1 no_timer_check tsc=reliable"
#define CMDLINE_CONSOLE	   "console=ttyS0 8250.nr_uarts=1"
#define CMDLINE_NO_CONSOLE "8250.nr_uarts=0"

void machine_end(struct vmm *vmm, enum vmm_end end, const char *fmt, ...)
{
	va_list ap;

	if (!vmm->end) {
		vmm->end = end;
		va_start(ap, fmt);
		vsnprintf(vmm->end_text, sizeof(vmm->end_text), fmt, ap);
		va_end(ap);
	}
	loop_quit(&vmm->loop);
}

static void port_closed(void *data, uint32_t port)
{
	control_event(data, VMM_EVENT_PORT_CLOSED, port);
}

static void port_missing(void *data)
{
	control_catch_up(data);
}

/* Only while a template is made: the guest is where it is to be. */
static void guest_knocks(void *data)
{
	struct vmm *vmm = data;

	if (vmm->run == RUN_GO)
		vcpus_command(vmm, RUN_PAUSE);
}

/*
 * The driver acknowledges each interrupt, which means nothing where it says "used buffers" and no
 * more: KVM takes the store and nobody looks at the eventfd. Without this each of the guest's
 * requests for a file costs another exit to this process.
 */
static int connect_acknowledgement(struct vmm *vmm, unsigned int index, struct err *err)
{
	uint64_t at = MMIO_BASE + index * MMIO_SIZE + VIRTIO_MMIO_INTERRUPT_ACK;

	if (vmm->acknowledged < 0)
		vmm->acknowledged = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (vmm->acknowledged < 0)
		return err_set(err, errno, "create an eventfd");
	return kvm_ioeventfd(&vmm->kvm, at, VIRTIO_MMIO_INT_VRING, vmm->acknowledged, err);
}

int machine_connect(struct vmm *vmm, unsigned int index, struct err *err)
{
	const struct device *device = vmm->mmio[index].device;
	uint64_t notify = MMIO_BASE + index * MMIO_SIZE + VIRTIO_MMIO_QUEUE_NOTIFY;

	if (kvm_irqfd(&vmm->kvm, MMIO_GSI_FIRST + index, device->call_fd, err) < 0)
		return -1;
	for (uint32_t i = 0; i < device->queue_count; i++)
		if (kvm_ioeventfd(&vmm->kvm, notify, i, device->kick_fds[i], err) < 0)
			return -1;
	return connect_acknowledgement(vmm, index, err);
}

/*
 * Puts a device on the bus: its page of registers, its doorbells, its interrupt. One that is absent
 * is connected when it appears: KVM waits for a grace period at each doorbell.
 */
static int attach(struct vmm *vmm, struct device *device, struct err *err)
{
	unsigned int index = vmm->devices++;
	uint32_t *page = vmm->registers + index * (MMIO_SIZE / sizeof(*page));

	if (mmio_init(&vmm->mmio[index], device, page, &vmm->memory, &vmm->loop, &vmm->calls, err) <
	    0)
		return -1;
	return device->absent ? 0 : machine_connect(vmm, index, err);
}

static int make_devices(struct vmm *vmm, const struct vmm_config *config, struct err *err)
{
	if (config->fs_fd >= 0 && (fs_init(&vmm->fs, &vmm->loop, config->fs_fd,
					   fsd_request_queues(config->vcpus), err) < 0 ||
				   attach(vmm, &vmm->fs.device, err) < 0))
		return -1;
	vmm->vsock = vsock_new(
		&vmm->loop, &(struct vsock_owner){ port_closed, port_missing, guest_knocks, vmm },
		err);
	if (!vmm->vsock || attach(vmm, vmm->vsock, err) < 0)
		return -1;
	rng_init(&vmm->rng);
	if (attach(vmm, &vmm->rng, err) < 0)
		return -1;
	balloon_init(&vmm->balloon);
	if (!config->keep_memory && attach(vmm, &vmm->balloon, err) < 0)
		return -1;
	for (; vmm->disk_count < config->disks; vmm->disk_count++) {
		struct external_device *disk = &vmm->disks[vmm->disk_count];

		if (disk_init(disk, &vmm->loop, &config->disk[vmm->disk_count], err) < 0 ||
		    attach(vmm, &disk->device, err) < 0)
			return -1;
	}
	vmm->first_net = vmm->devices;
	for (; vmm->nets < config->nets; vmm->nets++) {
		net_init(&vmm->net[vmm->nets], &vmm->loop, config->net_pairs);
		if (attach(vmm, &vmm->net[vmm->nets].device, err) < 0)
			return -1;
	}
	if (config->serial_fd < 0)
		return 0;
	vmm->serial = xcalloc(1, sizeof(*vmm->serial));
	if (serial_init(vmm->serial, &vmm->loop, config->serial_fd, err) < 0)
		return -1;
	return kvm_irqfd(&vmm->kvm, SERIAL_GSI, vmm->serial->irq_fd, err);
}

static int make_registers(struct vmm *vmm, struct err *err)
{
	void *pages = mmap(NULL, MACHINE_DEVICES_MAX * MMIO_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return err_set(err, errno, "map the devices' registers");
	vmm->registers = pages;
	return 0;
}

static uint32_t device_id(const struct vmm *vmm, unsigned int index)
{
	return index < vmm->first_net ? index : VMM_NET_ID + index - vmm->first_net;
}

static char *make_cmdline(const struct vmm *vmm, const struct vmm_config *config)
{
	char *cmdline = xasprintf("%s %s %s%s", CMDLINE_MACHINE,
				  vmm->serial ? CMDLINE_CONSOLE : CMDLINE_NO_CONSOLE,
				  config->cmdline ? config->cmdline : "",
				  config->template_key ? " " VMM_TIDY "=1" : "");

	for (unsigned int i = 0; i < vmm->devices; i++) {
		char *longer = xasprintf("%s virtio_mmio.device=%lluK@%#llx:%u:%u", cmdline,
					 MMIO_SIZE >> 10, MMIO_BASE + i * MMIO_SIZE,
					 MMIO_GSI_FIRST + i, device_id(vmm, i));

		free(cmdline);
		cmdline = longer;
	}
	return cmdline;
}

/*
 * A bzImage is a distribution's, as a rule, and finds its devices by ACPI alone. A vmlinux is ours
 * and has no ACPI, which would only be one more thing to look for.
 */
static int describe_devices(struct vmm *vmm, unsigned int vcpus, struct err *err)
{
	struct x86_device devices[MACHINE_DEVICES_MAX];

	for (unsigned int i = 0; i < vmm->devices; i++)
		devices[i] = (struct x86_device){ .base = MMIO_BASE + i * MMIO_SIZE,
						  .size = MMIO_SIZE,
						  .gsi = MMIO_GSI_FIRST + i,
						  .id = device_id(vmm, i) };
	return x86_acpi_write(&vmm->memory, vcpus, devices, vmm->devices, err);
}

static uint32_t interrupt_lines(const struct vmm *vmm)
{
	uint32_t lines = ((1u << vmm->devices) - 1) << MMIO_GSI_FIRST;

	return vmm->serial ? lines | 1u << SERIAL_GSI : lines;
}

static int load(struct vmm *vmm, const struct vmm_config *config, struct x86_kernel *kernel,
		struct err *err)
{
	_cleanup_free_ char *cmdline = make_cmdline(vmm, config);

	if (x86_kernel_load(&vmm->memory, config->kernel_fd, kernel, err) < 0)
		return config->kernel_name ? err_wrap(err, "load %s", config->kernel_name) : -1;
	if (x86_boot_setup(&vmm->memory, kernel, config->initrd_fd, cmdline, config->vcpus,
			   interrupt_lines(vmm), err) < 0)
		return config->initrd_name ? err_wrap(err, "boot with %s", config->initrd_name)
					   : -1;
	return kernel->header.header ? describe_devices(vmm, config->vcpus, err) : 0;
}

/*
 * The large page that cannot be one, for its end is mapped from the kernel's file. Of the padding
 * there the guest looks at a few pages.
 */
static void prefault_code(const struct vmm *vmm)
{
	uint64_t start = vmm->padding.gpa & ~(LARGE_PAGE - 1);

	if (vmm->padding.size)
		kvm_prefault(vmm->vcpus[0].fd, start, vmm->padding.gpa - start);
}

static int setup(struct vmm *vmm, const struct vmm_config *config, struct err *err)
{
	struct x86_kernel kernel = { 0 };

	if (config->vcpus < 1 || config->vcpus > VMM_VCPUS_MAX)
		return err_set(err, 0, "make a machine of %u vCPUs; it can have 1 to %u",
			       config->vcpus, VMM_VCPUS_MAX);
	if (config->nets > VMM_NETS_MAX ||
	    (config->nets && (config->net_pairs < 1 || config->net_pairs > VMM_NET_PAIRS_MAX)))
		return err_set(err, 0,
			       "make a machine with room for %u network interfaces of %u pairs of "
			       "queues; it can have %u of %u",
			       config->nets, config->net_pairs, VMM_NETS_MAX, VMM_NET_PAIRS_MAX);
	if (guest_memory_map(&vmm->memory, config->memory_fd, config->memory_size, err) < 0 ||
	    kvm_create(&vmm->kvm, config->kvm_fd, &vmm->memory, err) < 0 ||
	    loop_init(&vmm->loop, err) < 0 || calls_init(&vmm->calls, &vmm->loop, err) < 0 ||
	    control_init(vmm, config->control_fd, err) < 0 || make_registers(vmm, err) < 0 ||
	    make_devices(vmm, config, err) < 0 ||
	    kvm_add_read_only(&vmm->kvm, (uint32_t)vmm->memory.count, MMIO_BASE, vmm->registers,
			      vmm->devices * MMIO_SIZE, err) < 0)
		return -1;
	if (config->template_key && config->template_fd >= 0)
		return machine_restore(vmm, config, err);
	if (load(vmm, config, &kernel, err) < 0 ||
	    vcpus_create(vmm, config->vcpus, kernel.entry, err) < 0)
		return -1;
	vmm->padding = (struct snapshot_run){ kernel.shared, kernel.padding_size };
	vmm->constants = (struct snapshot_run){ kernel.shared + kernel.padding_size,
						kernel.shared_size - kernel.padding_size };
	prefault_code(vmm);
	return 0;
}

/* Of a setup that failed: there are no threads yet. */
static void machine_free(struct vmm *vmm)
{
	vcpus_close(vmm);
	for (unsigned int i = 0; i < vmm->devices; i++)
		mmio_free(&vmm->mmio[i]);
	for (unsigned int i = 0; i < vmm->nets; i++)
		net_free(&vmm->net[i]);
	if (vmm->vsock)
		vsock_free(vmm->vsock);
	if (vmm->serial)
		serial_free(vmm->serial);
	free(vmm->serial);
	fd_replace(&vmm->acknowledged, -1);
	kvm_close(&vmm->kvm);
	if (vmm->registers)
		munmap(vmm->registers, MACHINE_DEVICES_MAX * MMIO_SIZE);
	calls_free(&vmm->calls);
	loop_close(&vmm->loop);
	guest_memory_unmap(&vmm->memory);
	pthread_mutex_destroy(&vmm->run_lock);
	pthread_cond_destroy(&vmm->run_changed);
	free(vmm);
}

struct vmm *vmm_setup(const struct vmm_config *config, struct err *err)
{
	struct vmm *vmm = xcalloc(1, sizeof(*vmm));

	vmm->kvm.vm_fd = vmm->loop.epoll_fd = vmm->calls.source.fd = vmm->acknowledged = -1;
	pthread_mutex_init(&vmm->run_lock, NULL);
	pthread_cond_init(&vmm->run_changed, NULL);
	if (setup(vmm, config, err) == 0)
		return vmm;
	machine_free(vmm);
	return NULL;
}

int vmm_start(struct vmm *vmm, struct err *err)
{
	signal(SIGPIPE, SIG_IGN); /* a reader that goes away is an error of its stream alone */
	/* One heap, grown by brk(2) alone: nothing is mapped or unmapped while the guest runs. */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_MAX, 0);
	return vcpus_start(vmm, err);
}

int vmm_run(struct vmm *vmm, struct err *err)
{
	int r;

	if (!vmm->end) {
		for (unsigned int i = 0; vmm->again && i < vmm->devices; i++)
			mmio_again(&vmm->mmio[i]);
		vcpus_command(vmm, RUN_GO);
	}
	r = loop_run(&vmm->loop, err);
	if (r < 0)
		machine_end(vmm, VMM_END_ERROR, "%s", err->text);
	calls_close(&vmm->calls);
	vcpus_command(vmm, RUN_STOP);
	vcpus_wait_stopped(vmm);
	if (vmm->serial)
		serial_flush(vmm->serial);
	control_event(vmm, VMM_EVENT_ENDED, 0);
	return r;
}
