# SPDX-License-Identifier: GPL-2.0-or-later
"""Files without a name: removed while open, or never named."""
import os

from .core import call, check

O_TMPFILE = 0o20200000
AT_FDCWD, AT_SYMLINK_FOLLOW, AT_EMPTY_PATH = -100, 0x400, 0x1000


@check
def unlinked_but_open(t):
    t.write("f", b"text")
    fd = os.open(t.at("f"), os.O_RDWR)
    path_fd = os.open(t.at("f"), os.O_PATH)
    os.unlink(t.at("f"))
    t.do("name", os.stat, t.at("f"))
    t.see("links", lambda: os.fstat(fd).st_nlink)
    t.see("read", os.pread, fd, 10, 0)
    t.see("write", os.pwrite, fd, b"more text", 4)
    t.see("size", lambda: os.fstat(fd).st_size)
    t.do("truncate", os.ftruncate, fd, 3)
    t.do("fchmod", os.fchmod, fd, 0o604)
    t.do("fchown", os.fchown, fd, 7, 8)
    t.do("futimens", os.utime, fd, ns=(5, 6))
    t.see("attributes", lambda: (oct(os.fstat(fd).st_mode), os.fstat(fd).st_uid,
                                 os.fstat(fd).st_mtime_ns))
    t.see("by O_PATH", lambda: os.fstat(path_fd).st_size)
    again = t.do("opened again", os.open, f"/proc/self/fd/{fd}", os.O_RDWR)
    if again is not None:
        t.see("read by that", os.read, again, 10)
        os.close(again)
    t.do("xattr", os.setxattr, fd, "user.x", b"v")
    t.see("xattr, read", os.getxattr, fd, "user.x")
    t.do("fsync", os.fsync, fd)
    t.write("f", b"another")
    t.see("another of that name", t.read, "f")
    t.see("still the old one", os.pread, fd, 10, 0)
    os.close(fd)
    os.close(path_fd)


@check
def many_unlinked(t):
    fds = []
    for i in range(100):
        fds.append(os.open(t.at("same"), os.O_CREAT | os.O_EXCL | os.O_RDWR))
        os.write(fds[-1], b"%d" % i)
        os.unlink(t.at("same"))
    t.note("all good", all(os.pread(fd, 10, 0) == b"%d" % i for i, fd in enumerate(fds)))
    t.see("stat of all", lambda: sum(os.fstat(fd).st_nlink for fd in fds))
    for fd in fds:
        os.fchmod(fd, 0o600)
        os.close(fd)


@check
def replaced_but_open(t):
    t.write("f", b"old")
    t.write("g", b"new")
    fd = os.open(t.at("f"), os.O_RDWR)
    os.rename(t.at("g"), t.at("f"))
    t.see("old", os.pread, fd, 10, 0)
    t.see("new", t.read, "f")
    t.see("links", lambda: os.fstat(fd).st_nlink)
    t.do("fchmod of the old", os.fchmod, fd, 0o600)
    t.see("mode of the new", t.stat, "f")
    os.close(fd)


@check
def removed_directory(t):
    os.mkdir(t.at("d"))
    d = os.open(t.at("d"), os.O_RDONLY)
    os.rmdir(t.at("d"))
    t.see("listing", lambda: os.listdir(d))
    t.see("links", lambda: os.fstat(d).st_nlink)
    t.do("create in it", os.open, "f", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=d)
    t.do("mkdir in it", os.mkdir, "e", dir_fd=d)
    t.do("lookup in it", os.stat, "f", dir_fd=d)
    os.mkdir(t.at("d"))
    t.write("d/x")
    t.see("another of that name", t.names, "d")
    t.do("lookup in the old", os.stat, "x", dir_fd=d)
    os.close(d)
    os.mkdir(t.at("cwd"))

    def in_it():
        os.chdir(t.at("cwd"))
        os.rmdir(t.at("cwd"))
        return os.listdir(".")
    t.see("as the working directory", lambda: t.as_user(0, 0, [], in_it))


@check
def last_link(t):
    t.write("a", b"text")
    os.link(t.at("a"), t.at("b"))
    fd = os.open(t.at("a"), os.O_RDWR)
    os.unlink(t.at("a"))
    t.see("one left", lambda: os.fstat(fd).st_nlink)
    t.see("by the other", t.read, "b")
    os.unlink(t.at("b"))
    t.see("none left", lambda: os.fstat(fd).st_nlink)
    t.see("read", os.pread, fd, 10, 0)
    os.close(fd)


@check
def unnamed(t):
    fd = t.do("O_TMPFILE", os.open, t.path, O_TMPFILE | os.O_RDWR, 0o640)
    t.see("nothing to see", t.names)
    t.see("links", lambda: os.fstat(fd).st_nlink)
    t.see("mode", lambda: oct(os.fstat(fd).st_mode))
    t.see("write", os.write, fd, b"unnamed")
    t.see("read", os.pread, fd, 10, 0)
    t.do("chmod", os.fchmod, fd, 0o600)
    t.do("xattr", os.setxattr, fd, "user.k", b"v")
    t.do("named", lambda: call("linkat", AT_FDCWD, f"/proc/self/fd/{fd}".encode(), AT_FDCWD,
                               os.fsencode(t.at("named")), AT_SYMLINK_FOLLOW))
    t.see("content", t.read, "named")
    t.see("stat", t.stat, "named")
    t.do("named twice", lambda: call("linkat", fd, b"", AT_FDCWD, os.fsencode(t.at("second")),
                                     AT_EMPTY_PATH))
    t.see("links now", t.stat, "named")
    os.close(fd)
    fd = t.do("with O_EXCL", os.open, t.path, O_TMPFILE | os.O_EXCL | os.O_RDWR, 0o640)
    t.do("cannot be named", lambda: call("linkat", AT_FDCWD, f"/proc/self/fd/{fd}".encode(),
                                         AT_FDCWD, os.fsencode(t.at("no")), AT_SYMLINK_FOLLOW))
    os.close(fd)
    t.do("read-only", os.open, t.path, O_TMPFILE | os.O_RDONLY, 0o640)
    t.do("in a file", os.open, t.at("named"), O_TMPFILE | os.O_RDWR, 0o640)
    fds = [os.open(t.path, O_TMPFILE | os.O_RDWR) for _ in range(30)]
    for i, fd in enumerate(fds):
        os.write(fd, b"%d" % i)
    t.note("thirty at once", [os.pread(fd, 5, 0) for fd in fds])
    for fd in fds:
        os.close(fd)

    def as_other():
        fd = os.open(t.path, O_TMPFILE | os.O_RDWR, 0o666)
        return os.fstat(fd).st_uid, os.fstat(fd).st_gid, oct(os.fstat(fd).st_mode)
    os.chmod(t.path, 0o777)
    t.see("another's", lambda: t.as_user(1000, 1001, [], as_other))


@check
def churn(t):
    """Names reused at once: no attribute or content of a former file may show."""
    good = True
    for i in range(300):
        data = b"%d" % i * (i % 7 + 1)
        t.write("f", data)
        good &= t.read("f") == data and os.stat(t.at("f")).st_size == len(data)
        os.unlink(t.at("f"))
        os.mkdir(t.at("f"))
        good &= os.path.isdir(t.at("f"))
        os.rmdir(t.at("f"))
        os.symlink(str(i), t.at("f"))
        good &= os.readlink(t.at("f")) == str(i)
        os.unlink(t.at("f"))
    t.note("good", good)
