# SPDX-License-Identifier: GPL-2.0-or-later
"""What a file system does, seen by a program: run on two directories, the answers can be compared."""
