# SPDX-License-Identifier: GPL-2.0-or-later
"""inotify(7), by ctypes."""
import ctypes
import os
import select
import struct

NAMES = {0x2: "modify", 0x4: "attrib", 0x8: "close_write", 0x20: "open", 0x40: "moved_from", 0x80: "moved_to", 0x100: "create",
         0x200: "delete", 0x400: "delete_self", 0x800: "move_self", 0x4000: "overflow", 0x8000: "ignored", 0x40000000: "isdir"}
ALL = 0xfce  # what changes something, and open

libc = ctypes.CDLL(None, use_errno=True)


class Inotify:
    def __init__(self, *paths):
        self.fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        self.watches = {}
        for path in paths:
            watch = libc.inotify_add_watch(self.fd, os.fsencode(path), ALL)
            if watch < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
            self.watches[watch] = path

    def close(self):
        os.close(self.fd)

    def read(self, timeout=0):
        """Events there are, or come within the time, as (path that is watched, name, event)."""
        if not select.select([self.fd], [], [], timeout)[0]:
            return []
        data, events = os.read(self.fd, 65536), []
        while data:
            watch, mask, _, size = struct.unpack_from("iIII", data)
            name = os.fsdecode(data[16:16 + size].rstrip(b"\0"))
            path = self.watches.get(watch, "?")
            events += [(path, name, text) for bit, text in NAMES.items() if mask & bit and text != "isdir"]
            data = data[16 + size:]
        return events
