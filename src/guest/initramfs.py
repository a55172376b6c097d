#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes the guest's initramfs: a "newc" cpio archive (the kernel's buffer-format document) of the
agent as /init, the nodes it needs before devtmpfs is there, and the directories it mounts on;
compressed with lz4 in the form that kernels read.

The same agent gives the same bytes: no times, no owners but root.
"""
import stat
import subprocess
import sys

DIRECTORIES = ["dev", "proc", "root", "run", "run/moat", "run/moat/disk", "run/moat/fs", "sys"]
NODES = [("dev/console", 0o600, 5, 1), ("dev/kmsg", 0o600, 1, 11), ("dev/null", 0o666, 1, 3)]


def align(data):
    return data + bytes(-len(data) % 4)


def entry(number, name, mode, data=b"", device=(0, 0)):
    path = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    fields = [number, mode, 0, 0, links, 0, len(data), 0, 0, *device, len(path), 0]
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    return align(header + path) + align(data)


def main():
    agent, output = sys.argv[1:]
    with open(agent, "rb") as file:
        program = file.read()
    entries = [(name, stat.S_IFDIR | 0o755, b"", (0, 0)) for name in DIRECTORIES]
    entries += [(name, stat.S_IFCHR | mode, b"", (major, minor)) for name, mode, major, minor in NODES]
    entries.append(("init", stat.S_IFREG | 0o755, program, (0, 0)))
    archive = b"".join(entry(number, *item) for number, item in enumerate(entries, 1))
    archive += entry(0, "TRAILER!!!", 0)
    with open(output, "wb") as file:
        subprocess.run(["lz4", "-l", "-12", "-q", "-c"], input=archive, stdout=file, check=True)


main()
