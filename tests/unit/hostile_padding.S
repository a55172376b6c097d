/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The end of a hostile guest's code, as a kernel's is: padding, which the VMM maps from the file (attack 10). It is
 * the last file that is linked, and constants follow it in the same segment.
 */
	.text
	.balign 4096
	.globl guest_padding
guest_padding:
	.fill 256 << 10, 1, 0xcc
	.globl guest_padding_end
guest_padding_end:
	.section .note.GNU-stack, "", @progbits
