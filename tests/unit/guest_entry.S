/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The way of hostile_guest.c, on each of its vCPUs, from a kernel's entry (64-bit mode, rsi at the zero page) to user
 * mode, with all ports and the machine's memory and devices: instructions of user mode run at full
 * speed also where KVM has no hardware virtualization and emulates the others.
 */
	.code64
	.text
	.globl	_start
_start:
	cli
	/* Each vCPU that comes here has a number and a stack, with the number at its lower end. */
	movl	$1, %ecx
	lock xaddl %ecx, count(%rip)
	movl	%ecx, %ebp
	shll	$14, %ebp
	leaq	stacks(%rip), %rsp
	addq	%rbp, %rsp
	movq	%rcx, (%rsp)
	addq	$16384, %rsp
	movq	%rsp, %rbp
	pushq	%rsi
	/* The first GiB and the 2 MiB of the devices, one to one, for user mode. */
	leaq	pml4(%rip), %rax
	leaq	pdpt(%rip), %rbx
	leaq	low(%rip), %rcx
	leaq	high(%rip), %rdx
	leaq	7(%rbx), %r8
	movq	%r8, (%rax)
	leaq	7(%rcx), %r8
	movq	%r8, (%rbx)
	leaq	7(%rdx), %r8
	movq	%r8, 24(%rbx)		/* 0xc0000000 */
	movq	$0xd0000087, %r8
	movq	%r8, 0x400(%rdx)
	movl	$0x87, %r8d
	movl	$512, %r9d
1:	movq	%r8, (%rcx)
	addq	$0x200000, %r8
	addq	$8, %rcx
	decl	%r9d
	jnz	1b
	movq	%rax, %cr3
	lgdt	gdt_pointer(%rip)
	popq	%rdi
	pushq	$0x23			/* ss */
	pushq	%rbp
	pushq	$0x3002			/* I/O privilege level 3, no interrupts */
	pushq	$0x2b			/* cs */
	leaq	user(%rip), %rax
	pushq	%rax
	iretq
user:
	call	guest_main
1:	pause
	jmp	1b

	.section .rodata, "a"
	.balign	8
gdt:	.quad	0, 0
	.quad	0x00af9b000000ffff	/* as the boot protocol has them */
	.quad	0x00cf93000000ffff
	.quad	0x00cff3000000ffff	/* 0x20: data of user mode */
	.quad	0x00affb000000ffff	/* 0x28: its code */
gdt_end:
gdt_pointer:
	.word	gdt_end - gdt - 1
	.quad	gdt

	.bss
	.balign	4096
pml4:	.skip	4096
pdpt:	.skip	4096
low:	.skip	4096
high:	.skip	4096
	.balign	16384
stacks:	.skip	4 * 16384		/* vCPUs that test_hostile.c has, at most */
count:	.long	0

	.section .note.GNU-stack, "", @progbits
