/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Test only: the agent's process that repeats changes, on a mount of fs_mount's. */
#include "guest/repeat.h"

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	repeat_run(argv[1]);
	return 0;
}
