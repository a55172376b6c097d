/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whole machines on this host's /dev/kvm, with guests of some instructions (guests.S): how they
 * run, pause and end. They need no hardware virtualization that could boot a kernel.
 */
#include "base/fd.h"
#include "virtio/memory.h"
#include "vmm/vmm.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>

#define MEMORY	(32ull << 20)
#define LOAD_AT 0x1000000ull

#define GUEST(name) extern const char guest_##name[], guest_##name##_end[]
GUEST(reset);
GUEST(hello);
GUEST(flood);
GUEST(triple_fault);
GUEST(spin);
GUEST(halt);
GUEST(scribble);
GUEST(entropy);
GUEST(speak);

struct machine {
	pid_t pid;
	int control, console; /* console: the read end of a pipe, or -1 */
};

#define PAGE 4096u

/* The code as the one segment of an ELF file, a page, with the symbols that say where it is. */
static int image_fd(const char *code, size_t size)
{
	static const char names[] = "\0_text\0_etext";
	struct {
		Elf64_Ehdr header;
		Elf64_Phdr segment;
		Elf64_Shdr sections[3];
		Elf64_Sym symbols[2];
		char names[sizeof(names)];
		char code[PAGE];
	} elf = {
		.header = {
			.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB },
			.e_type = ET_EXEC,
			.e_machine = EM_X86_64,
			.e_entry = LOAD_AT,
			.e_phoff = sizeof(Elf64_Ehdr),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 1,
			.e_shoff = offsetof(__typeof__(elf), sections),
			.e_shentsize = sizeof(Elf64_Shdr),
			.e_shnum = 3,
		},
		.segment = {
			.p_type = PT_LOAD,
			.p_offset = offsetof(__typeof__(elf), code),
			.p_vaddr = LOAD_AT,
			.p_paddr = LOAD_AT,
			.p_filesz = PAGE,
			.p_memsz = PAGE,
		},
		.sections = {
			[1] = {
				.sh_type = SHT_SYMTAB,
				.sh_offset = offsetof(__typeof__(elf), symbols),
				.sh_size = sizeof(elf.symbols),
				.sh_link = 2,
			},
			[2] = {
				.sh_type = SHT_STRTAB,
				.sh_offset = offsetof(__typeof__(elf), names),
				.sh_size = sizeof(elf.names),
			},
		},
		.symbols = {
			{ .st_name = 1, .st_value = LOAD_AT },
			{ .st_name = 7, .st_value = LOAD_AT + PAGE },
		},
	};
	int fd = memfd_create("kernel", MFD_CLOEXEC);

	assert_in_range(size, 1, PAGE);
	memcpy(elf.names, names, sizeof(names));
	memcpy(elf.code, code, size);
	assert_int_equal(write(fd, &elf, sizeof(elf)), sizeof(elf));
	return fd;
}

static int template_fd = -1; /* for the next machine: one to start from, or to make */
static bool make, ends_early;

static void child(struct vmm_config *config)
{
	struct err err;
	struct vmm *vmm = vmm_setup(config, &err);

	if (!vmm || vmm_start(vmm, &err) < 0 ||
	    (make && vmm_make_template(vmm, config, template_fd, &err) < 0 && !ends_early) ||
	    vmm_run(vmm, &err) < 0) {
		print_error("%s\n", err.text);
		_exit(1);
	}
	_exit(0);
}

static struct machine start(const char *code, const char *end, unsigned int vcpus, bool console)
{
	struct machine machine = { .console = -1 };
	int pair[2], pipe_fds[2] = { -1, -1 };
	struct err err;
	struct vmm_config config = {
		.kvm_fd = open("/dev/kvm", O_RDWR | O_CLOEXEC),
		.memory_fd = guest_memory_create(MEMORY, &err),
		.memory_size = MEMORY,
		.vcpus = vcpus,
		.kernel_fd = image_fd(code, (size_t)(end - code)),
		.initrd_fd = -1,
		.fs_fd = -1,
		.cmdline = "quiet",
		.template_key = "of these tests",
		.template_key_size = 14,
		.template_fd = make ? -1 : template_fd,
	};

	if (config.kvm_fd < 0)
		skip();
	assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
	if (console)
		assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	config.control_fd = pair[1];
	config.serial_fd = pipe_fds[1];
	machine.control = pair[0];
	machine.console = pipe_fds[0];
	machine.pid = fork();
	if (machine.pid == 0) {
		close(pair[0]);
		child(&config);
	}
	close(pair[1]);
	fd_replace(&pipe_fds[1], -1);
	close(config.kvm_fd);
	close(config.memory_fd);
	close(config.kernel_fd);
	return machine;
}

#define START(name, vcpus, console) start(guest_##name, guest_##name##_end, vcpus, console)

static struct vmm_event next_event(struct machine *machine)
{
	struct pollfd ready = { .fd = machine->control, .events = POLLIN };
	struct vmm_event event = { 0 };

	if (poll(&ready, 1, 60000) != 1) {
		kill(machine->pid, SIGKILL);
		fail_msg("the machine says nothing");
	}
	assert_int_equal(fd_receive(machine->control, &event, sizeof(event), NULL, 0),
			 sizeof(event));
	return event;
}

static void expect(struct machine *machine, uint32_t type)
{
	struct vmm_event event = next_event(machine);

	if (event.type != type)
		fail_msg("event %u (%s) instead of %u", event.type, event.text, type);
}

static void request(struct machine *machine, uint32_t type)
{
	struct vmm_request message = { .type = type };

	assert_int_equal(fd_send(machine->control, &message, sizeof(message), NULL, 0), 0);
}

static void expect_end(struct machine *machine, uint32_t end, const char *text)
{
	struct vmm_event event = next_event(machine);

	assert_int_equal(event.type, VMM_EVENT_ENDED);
	if (event.end != end || !strstr(event.text, text))
		fail_msg("it ended with %u: %s", event.end, event.text);
	assert_int_equal(waitpid(machine->pid, NULL, 0), machine->pid);
	close(machine->control);
	fd_replace(&machine->console, -1);
}

static void resets(void **state)
{
	struct machine machine = START(reset, 1, false);

	expect_end(&machine, VMM_END_RESET, "reset");
}

static void has_a_console(void **state)
{
	struct machine machine = START(hello, 1, true);
	_cleanup_free_ char *text = NULL;

	text = fd_read_text(machine.console, 1000, NULL);
	assert_string_equal(text, "hello from the guest\n");
	expect_end(&machine, VMM_END_RESET, "reset");
}

static void has_no_console(void **state)
{
	struct machine machine = START(hello, 1, false);

	expect_end(&machine, VMM_END_RESET, "reset");
}

/* Attack 2: a flood on the console that nobody reads. */
static void survives_a_flood(void **state)
{
	struct machine machine = START(flood, 1, true);
	_cleanup_free_ char *text = NULL;
	size_t size;

	expect_end(&(struct machine){ machine.pid, machine.control, -1 }, VMM_END_RESET, "reset");
	text = fd_read_text(machine.console, 1 << 20, &size);
	assert_in_range(size, 1, 128 << 10); /* the pipe and the ring; the rest is lost */
	close(machine.console);
}

static void survives_a_console_closed(void **state)
{
	struct machine machine = START(flood, 1, true);

	fd_replace(&machine.console, -1);
	expect_end(&machine, VMM_END_RESET, "reset");
}

static void tells_a_crash(void **state)
{
	struct machine machine = START(triple_fault, 1, false);
	struct vmm_event event;

	event = next_event(&machine);
	assert_int_equal(event.type, VMM_EVENT_ENDED);
	/* A KVM without hardware virtualization meets an internal error there. */
	if (event.end != VMM_END_PANIC)
		assert_int_equal(event.end, VMM_END_KVM);
	assert_int_equal(waitpid(machine.pid, NULL, 0), machine.pid);
	close(machine.control);
}

static void stops(void **state)
{
	struct machine machine = START(spin, 3, false);

	request(&machine, VMM_REQUEST_STOP);
	expect_end(&machine, VMM_END_STOPPED, "stopped");
}

static void stops_a_guest_that_sleeps(void **state)
{
	struct machine machine = START(halt, 1, false);

	request(&machine, VMM_REQUEST_STOP);
	expect_end(&machine, VMM_END_STOPPED, "stopped");
}

static void ends_with_the_monitor(void **state)
{
	struct machine machine = START(spin, 1, false);
	int status;

	close(machine.control);
	assert_int_equal(waitpid(machine.pid, &status, 0), machine.pid);
	assert_int_equal(status, 0);
}

static void pauses(void **state)
{
	struct machine machine = START(spin, 2, false);

	for (int i = 0; i < 20; i++) {
		request(&machine, VMM_REQUEST_PAUSE);
		expect(&machine, VMM_EVENT_PAUSED);
		request(&machine, VMM_REQUEST_PAUSE);
		expect(&machine, VMM_EVENT_PAUSED);
		request(&machine, VMM_REQUEST_RESUME);
		expect(&machine, VMM_EVENT_RESUMED);
	}
	/* Nobody waits for these: the machine comes to the last one's state. */
	for (int i = 0; i < 20; i++) {
		request(&machine, VMM_REQUEST_PAUSE);
		request(&machine, VMM_REQUEST_RESUME);
	}
	request(&machine, VMM_REQUEST_PAUSE);
	request(&machine, VMM_REQUEST_STOP);
	for (;;) {
		struct vmm_event event = next_event(&machine);

		if (event.type == VMM_EVENT_ENDED) {
			assert_int_equal(event.end, VMM_END_STOPPED);
			break;
		}
	}
	assert_int_equal(waitpid(machine.pid, NULL, 0), machine.pid);
	close(machine.control);
}

static void refuses_a_request_it_does_not_know(void **state)
{
	struct machine machine = START(spin, 1, false);

	request(&machine, 99);
	expect_end(&machine, VMM_END_ERROR, "request 99");
}

static void survives_scribbling(void **state)
{
	struct machine machine = START(scribble, 1, false);

	expect_end(&machine, VMM_END_RESET, "reset");
}

static void serves_entropy(void **state)
{
	struct machine machine = START(entropy, 1, true);
	_cleanup_free_ char *text = NULL;

	text = fd_read_text(machine.console, 1000, NULL);
	assert_string_equal(text, "R");
	expect_end(&machine, VMM_END_RESET, "reset");
}

/* The guest's own code is gone after the first: the others have it from the template. */
static void starts_from_a_template(void **state)
{
	struct machine machine;

	template_fd = memfd_create("template", MFD_CLOEXEC);
	make = true;
	machine = START(speak, 2, false);
	expect_end(&machine, VMM_END_RESET, "reset");
	assert_true(vmm_is_template(template_fd));
	make = false;
	for (int i = 0; i < 3; i++) {
		machine = START(halt, 2, false);
		expect_end(&machine, VMM_END_RESET, "reset");
	}
	fd_replace(&template_fd, -1);
}

/* One that never speaks, and one that ends before. */
/* An unnamed file on a disk with room for so many bytes; -1: not for us. */
static int file_with_room(size_t room)
{
	_cleanup_fd_ int context = fsopen("tmpfs", FSOPEN_CLOEXEC), mount = -1;
	char size[32];

	snprintf(size, sizeof(size), "%zu", room);
	if (context < 0 || fsconfig(context, FSCONFIG_SET_STRING, "size", size, 0) < 0 ||
	    fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	mount = fsmount(context, FSMOUNT_CLOEXEC, 0);
	return mount < 0 ? -1 : openat(mount, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

static void make_template_in(int fd)
{
	struct machine machine;

	template_fd = fd;
	make = true;
	machine = START(speak, 2, false);
	make = false;
	assert_int_equal(waitpid(machine.pid, NULL, 0), machine.pid);
	close(machine.control);
}

/* Where the disk is full at the last moment, what has been written is none. */
static void makes_no_template_on_a_full_disk(void **state)
{
	struct stat st;
	int fd = memfd_create("template", MFD_CLOEXEC);

	make_template_in(fd);
	assert_true(vmm_is_template(fd));
	assert_int_equal(fstat(fd, &st), 0);
	close(fd);
	fd = file_with_room((size_t)st.st_size - PAGE);
	if (fd < 0)
		skip();
	ends_early = true; /* it may fail */
	make_template_in(fd);
	ends_early = false;
	assert_false(vmm_is_template(fd));
	fd_replace(&template_fd, -1);
}

static void makes_no_template_of_a_guest_that_ends(void **state)
{
	struct machine machine;

	template_fd = memfd_create("template", MFD_CLOEXEC);
	make = ends_early = true;
	machine = START(reset, 1, false);
	expect(&machine, VMM_EVENT_ENDED);
	assert_int_equal(waitpid(machine.pid, NULL, 0), machine.pid);
	close(machine.control);
	assert_false(vmm_is_template(template_fd));
	make = ends_early = false;
	fd_replace(&template_fd, -1);
}

static void refuses_bad_configurations(void **state)
{
	struct err err;
	_cleanup_fd_ int kvm_fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	_cleanup_fd_ int memory_fd = guest_memory_create(MEMORY, &err);
	_cleanup_fd_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int pair[2];
	struct vmm_config config = {
		.kvm_fd = kvm_fd,
		.memory_fd = memory_fd,
		.memory_size = MEMORY,
		.vcpus = VMM_VCPUS_MAX + 1,
		.kernel_fd = null,
		.kernel_name = "/boot/thing",
		.initrd_fd = -1,
		.fs_fd = -1,
		.serial_fd = -1,
		.template_fd = -1,
	};

	if (kvm_fd < 0)
		skip();
	assert_int_equal(fd_socketpair(SOCK_SEQPACKET, pair), 0);
	config.control_fd = pair[0];
	assert_null(vmm_setup(&config, &err));
	assert_non_null(strstr(err.text, "33 vCPUs"));
	config.vcpus = 1;
	assert_null(vmm_setup(&config, &err));
	assert_string_equal(err.text, "load /boot/thing: the kernel image is not a regular file");
	config.kvm_fd = null;
	assert_null(vmm_setup(&config, &err));
	assert_non_null(strstr(err.text, "/dev/kvm"));
	close(pair[0]);
	close(pair[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resets),
		cmocka_unit_test(has_a_console),
		cmocka_unit_test(has_no_console),
		cmocka_unit_test(survives_a_flood),
		cmocka_unit_test(survives_a_console_closed),
		cmocka_unit_test(tells_a_crash),
		cmocka_unit_test(stops),
		cmocka_unit_test(stops_a_guest_that_sleeps),
		cmocka_unit_test(ends_with_the_monitor),
		cmocka_unit_test(pauses),
		cmocka_unit_test(refuses_a_request_it_does_not_know),
		cmocka_unit_test(survives_scribbling),
		cmocka_unit_test(serves_entropy),
		cmocka_unit_test(starts_from_a_template),
		cmocka_unit_test(makes_no_template_on_a_full_disk),
		cmocka_unit_test(makes_no_template_of_a_guest_that_ends),
		cmocka_unit_test(refuses_bad_configurations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
