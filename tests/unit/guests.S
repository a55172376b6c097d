/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Small guests for test_vmm.c, entered as a kernel is: 64-bit mode, the first GiB mapped one to
 * one, rsi at the zero page. Each is a piece of code that works wherever it is put.
 */
	.section .rodata, "a"
	.code64

/* guest NAME: what follows, up to the next `end NAME`. */
.macro guest name
	.globl guest_\name, guest_\name\()_end
guest_\name:
.endm
.macro end name
guest_\name\()_end:
.endm

.macro reset
	movb	$0xfe, %al
	outb	%al, $0x64
1:	hlt
	jmp	1b
.endm

/* Maps the 2 MiB at 0xd0000000, where the devices are: PDPT entry 3, its PD behind the first. */
.macro map_devices
	movq	$(0xc000 + 3), 0xa018
	movl	$(0xd0000000 + 0x83), 0xc400
	movq	%cr3, %rax
	movq	%rax, %cr3
.endm

guest reset
	reset
end reset

guest hello
	leaq	2f(%rip), %rsi
	movl	$(3f - 2f), %ecx
	movl	$0x3f8, %edx
	rep outsb
	reset
2:	.ascii	"hello from the guest\n"
3:
end hello

/* 192 KiB to the console. */
guest flood
	movl	$0x100000, %esi
	movl	$0x30000, %ecx
	movl	$0x3f8, %edx
	rep outsb
	reset
end flood

guest triple_fault
	pushq	$0
	pushq	$0
	lidt	(%rsp)
	ud2
end triple_fault

guest spin
1:	pause
	jmp	1b
end spin

guest halt
	cli
1:	hlt
	jmp	1b
end halt

/* Reads and writes every register of ten pages of devices, three times with other values. */
guest scribble
	map_devices
	movl	$3, %ecx
1:	movl	$0xd0000000, %edi
2:	movl	(%rdi), %eax
	movl	%ecx, (%rdi)
	movl	%edi, (%rdi)
	movb	%al, 1(%rdi)
	movq	%rdi, (%rdi)
	movl	$-1, (%rdi)
	addl	$4, %edi
	movl	%edi, %eax
	andl	$0xfff, %eax
	cmpl	$0x140, %eax
	jb	2b
	andl	$0xfffff000, %edi
	addl	$0x1000, %edi
	cmpl	$0xd000a000, %edi
	jb	2b
	loop	1b
	reset
end scribble

/*
 * Drives the entropy device, which is the last of those there (the second here), up to DRIVER_OK,
 * asks it for 8 bytes, waits for them, and writes an R to the console.
 */
guest entropy
	map_devices
	movl	$0xd0001000, %edi
	movl	$1, 0x70(%rdi)
	movl	$3, 0x70(%rdi)
	movl	$1, 0x24(%rdi)
	movl	$1, 0x20(%rdi)		/* VERSION_1 */
	movl	$11, 0x70(%rdi)
	movl	$0, 0x30(%rdi)
	movl	$8, 0x38(%rdi)
	movl	$0x200000, 0x80(%rdi)
	movl	$0x201000, 0x90(%rdi)
	movl	$0x202000, 0xa0(%rdi)
	movl	$1, 0x44(%rdi)
	movl	$15, 0x70(%rdi)
	movq	$0x203000, 0x200000	/* descriptor 0: address, */
	movl	$8, 0x200008		/* length, */
	movl	$2, 0x20000c		/* for the device to write to */
	movw	$0, 0x201004		/* ring[0] */
	movw	$1, 0x201002		/* idx */
	movl	$0, 0x50(%rdi)		/* kick: an ioeventfd */
1:	pause
	cmpw	$1, 0x202002
	jne	1b
	cmpl	$8, 0x202008
	jne	2f
	cmpq	$0, 0x203000
	je	2f
	cmpl	$1, 0x60(%rdi)		/* used buffers */
	jne	2f
	movb	$'R', %al
	movl	$0x3f8, %edx
	outb	%al, %dx
2:	reset
end entropy

/*
 * Drives the socket device, the first there, sends it a packet of zeroes and waits until that is
 * taken; a machine saved in between goes on from there. Registers are to be what they were.
 */
guest speak
	map_devices
	movl	$0xd0000000, %edi
	movl	$1, 0x70(%rdi)
	movl	$3, 0x70(%rdi)
	movl	$1, 0x24(%rdi)
	movl	$1, 0x20(%rdi)		/* VERSION_1 */
	movl	$11, 0x70(%rdi)
	movl	$1, 0x30(%rdi)		/* the queue that sends */
	movl	$8, 0x38(%rdi)
	movl	$0x200000, 0x80(%rdi)
	movl	$0x201000, 0x90(%rdi)
	movl	$0x202000, 0xa0(%rdi)
	movl	$1, 0x44(%rdi)
	movl	$15, 0x70(%rdi)
	movq	$0x203000, 0x200000	/* descriptor 0: address, */
	movl	$44, 0x200008		/* length */
	movw	$0, 0x201004		/* ring[0] */
	movw	$1, 0x201002		/* idx */
	movq	$0x123456789abcdef, %r12
	movl	$1, 0x50(%rdi)		/* kick */
1:	pause
	cmpw	$1, 0x202002
	jne	1b
	movq	$0x123456789abcdef, %rax
	cmpq	%rax, %r12
2:	jne	2b
	cmpl	$15, 0x70(%rdi)		/* the device's state, too */
3:	jne	3b
	reset
end speak

	.section .note.GNU-stack, "", @progbits
