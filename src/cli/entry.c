/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the kernel starts the static program, before the C library. A command that enters a
 * container has to run from a file that cannot be written (sandbox/self.h), so it executes itself
 * anew: here that costs a tenth of what it costs once the C library has looked at the processor,
 * which in a virtual machine traps each time. What fails here, main() does again and tells of.
 *
 * Nothing of the C library works yet, nor does a pointer in data: addresses are relocated later.
 */
#include <asm/unistd.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdbool.h>
#include <sys/vfs.h>

#define ST_RDONLY 1
#define OPEN_TREE (OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)
#define SELF_EXE  "/proc/self/exe"

void entry_protect(long *stack);

static long call(long number, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return result;
}

static bool equal(const char *a, const char *b)
{
	for (; *a == *b; a++, b++)
		if (!*a)
			return true;
	return false;
}

/*
 * The commands that enter containers. One too many, such as a container of that name, costs time.
 */
static bool enters(char **argv)
{
	for (argv++; *argv; argv++)
		if (equal(*argv, "run") || equal(*argv, "create") || equal(*argv, "exec") ||
		    equal(*argv, "restore"))
			return true;
	return false;
}

/* @stack: as the kernel leaves it: argc, argv and a NULL, the environment. */
__attribute__((used)) void entry_protect(long *stack)
{
	char **argv = (char **)(stack + 1), **environment = argv + stack[0] + 1;
	struct mount_attr attr;
	struct statfs fs;
	long tree;

	if (stack[0] < 2 || !enters(argv))
		return;
	/* A sealed memfd is on no mount that could be cloned: main() knows it by its seals. */
	if (call(__NR_statfs, (long)SELF_EXE, (long)&fs, 0, 0, 0) < 0 || (fs.f_flags & ST_RDONLY))
		return;
	tree = call(__NR_open_tree, AT_FDCWD, (long)SELF_EXE, OPEN_TREE, 0, 0);
	if (tree < 0)
		return;
	attr.attr_set = MOUNT_ATTR_RDONLY;
	attr.attr_clr = attr.propagation = attr.userns_fd = 0;
	if (call(__NR_mount_setattr, tree, (long)"", AT_EMPTY_PATH, (long)&attr, sizeof(attr)) == 0)
		call(__NR_execveat, tree, (long)"", (long)argv, (long)environment, AT_EMPTY_PATH);
	call(__NR_close, tree, 0, 0, 0, 0);
}

__asm__(".text\n"
	".globl entry_start\n"
	".type entry_start, @function\n"
	"entry_start:\n"
	"	endbr64\n"
	"	xor %ebp, %ebp\n"
	"	mov %rsp, %rbx\n"
	"	mov %rdx, %r12\n" /* for the C library */
	"	mov %rsp, %rdi\n"
	"	and $-16, %rsp\n"
	"	call entry_protect\n"
	"	mov %rbx, %rsp\n"
	"	mov %r12, %rdx\n"
	"	jmp _start\n"
	".size entry_start, . - entry_start\n");
