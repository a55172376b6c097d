# SPDX-License-Identifier: GPL-2.0-or-later
"""What is neither file nor directory: FIFOs, sockets, devices; and watching."""
import ctypes
import os
import socket
import stat
import struct

from .core import call, check, libc


@check
def fifo(t):
    t.do("mkfifo", os.mkfifo, t.at("p"), 0o644)
    t.see("stat", t.stat, "p")
    t.do("again", os.mkfifo, t.at("p"))
    t.do("nobody reads", os.open, t.at("p"), os.O_WRONLY | os.O_NONBLOCK)
    r = t.do("reader", os.open, t.at("p"), os.O_RDONLY | os.O_NONBLOCK)
    w = t.do("writer", os.open, t.at("p"), os.O_WRONLY)
    t.see("write", os.write, w, b"through")
    t.see("read", os.read, r, 100)
    os.close(w)
    t.see("end", os.read, r, 1)
    os.close(r)
    t.do("chmod", os.chmod, t.at("p"), 0o600)
    t.do("rename", os.rename, t.at("p"), t.at("q"))
    t.do("truncate", os.truncate, t.at("q"), 0)
    t.see("then", t.stat, "q")


@check
def unix_socket(t):
    s = socket.socket(socket.AF_UNIX)
    os.chdir(t.path)
    t.do("bind", s.bind, "sock")
    s.listen(1)
    t.see("stat", t.stat, "sock")
    c = socket.socket(socket.AF_UNIX)
    t.do("connect", c.connect, "sock")
    p, _ = s.accept()
    c.send(b"hello")
    t.see("received", p.recv, 10)
    t.do("bind again", socket.socket(socket.AF_UNIX).bind, "sock")
    t.do("open", os.open, "sock", os.O_RDONLY)
    os.unlink("sock")
    t.do("gone", socket.socket(socket.AF_UNIX).connect, "sock")
    os.chdir("/")


@check
def nodes(t):
    t.do("regular file by mknod", os.mknod, t.at("f"), stat.S_IFREG | 0o640)
    t.see("f", t.stat, "f")
    t.do("FIFO by mknod", os.mknod, t.at("p"), stat.S_IFIFO | 0o640)
    t.do("socket by mknod", os.mknod, t.at("s"), stat.S_IFSOCK | 0o640)
    t.see("s", t.stat, "s")
    t.do("whiteout", os.mknod, t.at("w"), stat.S_IFCHR, os.makedev(0, 0))
    t.see("w", t.stat, "w")
    t.do("directory by mknod", os.mknod, t.at("d"), stat.S_IFDIR | 0o755)
    t.do("device of an ordinary user", t.as_user, 1000, 1000, [], os.mknod, t.at("x"),
         stat.S_IFCHR | 0o666, os.makedev(1, 3))


@check
def devices(t):
    """Refused by the server: an exception where results are compared."""
    t.do("character device", os.mknod, t.at("c"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
    t.do("block device", os.mknod, t.at("b"), stat.S_IFBLK | 0o666, os.makedev(7, 0))


@check
def watching(t):
    fd = libc.inotify_init1(os.O_NONBLOCK)
    call("inotify_add_watch", fd, os.fsencode(t.path), 0x3c2)  # modify, moved, create, delete
    t.write("a", b"x")
    os.rename(t.at("a"), t.at("b"))
    os.unlink(t.at("b"))
    data = os.read(fd, 4096)
    events = []
    while data:
        _, mask, _, size = struct.unpack("iIII", data[:16])
        events.append((hex(mask), data[16:16 + size].rstrip(b"\0")))
        data = data[16 + size:]
    t.note("events", events)
    os.close(fd)


@check
def ioctls(t):
    """File flags are not passed on: an exception where results are compared."""
    t.write("f")
    fd = os.open(t.at("f"), os.O_RDONLY)
    value = ctypes.c_long(0)
    t.do("FS_IOC_GETFLAGS", call, "ioctl", fd, 0x80086601, ctypes.byref(value))
    os.close(fd)
