# SPDX-License-Identifier: GPL-2.0-or-later
"""Data: read, written, cut, mapped, copied; holes; what others see of it."""
import ctypes
import fcntl
import mmap
import os
import random
import resource
import signal
import time

from .core import call, check

FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_COLLAPSE, FALLOC_ZERO, FALLOC_INSERT = 1, 2, 8, 16, 32


def fallocate(fd, mode, offset, length):
    call("fallocate", fd, mode, offset, length)


def blocks(fd):
    return os.fstat(fd).st_blocks


@check
def read_and_write(t):
    fd = os.open(t.at("f"), os.O_CREAT | os.O_RDWR, 0o644)
    t.see("read of an empty file", os.read, fd, 10)
    t.see("write", os.write, fd, b"0123456789")
    t.see("pread", os.pread, fd, 4, 3)
    t.see("pread over the end", os.pread, fd, 100, 8)
    t.see("pread behind the end", os.pread, fd, 100, 50)
    t.see("pwrite behind the end", os.pwrite, fd, b"x", 20)
    t.see("with a hole", os.pread, fd, 100, 0)
    t.see("size", lambda: os.fstat(fd).st_size)
    t.see("write of nothing", os.write, fd, b"")
    t.see("seek from the end", os.lseek, fd, -3, os.SEEK_END)
    t.see("seek before the start", os.lseek, fd, -1, os.SEEK_SET)
    t.see("preadv", lambda: (os.preadv(fd, buffers := [bytearray(3), bytearray(5)], 0), buffers))
    t.see("pwritev", os.pwritev, fd, [b"ab", b"", b"cde"], 2)
    t.see("after it", t.read, "f")
    t.see("a far offset", os.pwrite, fd, b"end", 1 << 40)
    t.see("far size", lambda: os.fstat(fd).st_size)
    t.see("far read", os.pread, fd, 10, (1 << 40) - 2)
    t.see("beyond what there is", os.pwrite, fd, b"x", (1 << 63) - 2)
    os.close(fd)
    r = os.open(t.at("f"), os.O_RDONLY)
    t.see("write to a read-only one", os.write, r, b"x")
    os.close(r)
    w = os.open(t.at("f"), os.O_WRONLY)
    t.see("read of a write-only one", os.read, w, 1)
    os.close(w)
    d = os.open(t.path, os.O_RDONLY)
    t.see("read of a directory", os.read, d, 1)
    os.close(d)


@check
def sizes(t):
    """Lengths around pages and the largest request."""
    rng = random.Random(1)
    for n in (1, 4095, 4096, 4097, 131072, 1048575, 1048576, 1048577, 3000001):
        data = rng.randbytes(n)
        t.write("f", data)
        t.note(f"{n} bytes", t.read("f") == data)
        fd = os.open(t.at("f"), os.O_RDWR)
        off = rng.randrange(n)
        piece = rng.randbytes(5000)
        os.pwrite(fd, piece, off)
        data = data[:off] + piece + data[off + 5000:]
        t.note(f"{n} bytes, changed inside", os.pread(fd, len(data) + 1, 0) == data)
        os.close(fd)


@check
def random_changes(t):
    """Many small writes, truncations and reads against a copy in memory."""
    rng = random.Random(7)
    copy = bytearray()
    good = True
    fd = os.open(t.at("f"), os.O_CREAT | os.O_RDWR)
    for step in range(600):
        kind = rng.randrange(5)
        if kind < 2:
            off, data = rng.randrange(200000), rng.randbytes(rng.randrange(1, 20000))
            os.pwrite(fd, data, off)
            if off > len(copy):
                copy.extend(bytes(off - len(copy)))
            copy[off:off + len(data)] = data
        elif kind == 2:
            size = rng.randrange(250000)
            os.ftruncate(fd, size)
            copy = copy[:size] + bytes(max(0, size - len(copy)))
        elif kind == 3:
            off, n = rng.randrange(250000), rng.randrange(30000)
            good &= os.pread(fd, n, off) == bytes(copy[off:off + n])
        elif step % 20 == 0:
            os.close(fd)
            fd = os.open(t.at("f"), os.O_RDWR)
    t.note("reads", good)
    t.note("end", os.pread(fd, 1 << 20, 0) == bytes(copy))
    os.close(fd)


@check
def append(t):
    a = os.open(t.at("f"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    b = os.open(t.at("f"), os.O_RDWR)
    os.write(a, b"one")
    os.write(b, b"XYZW")
    os.write(a, b"two")
    t.see("both", t.read, "f")
    t.see("pwrite appends too", os.pwrite, a, b"!", 0)
    t.see("then", t.read, "f")
    os.ftruncate(b, 2)
    os.write(a, b"three")
    t.see("after a truncation", t.read, "f")
    fcntl.fcntl(a, fcntl.F_SETFL, 0)
    os.pwrite(a, b"Q", 0)
    t.see("no longer appending", t.read, "f")
    os.close(a)
    os.close(b)
    fd = os.open(t.at("g"), os.O_CREAT | os.O_RDWR | os.O_APPEND)
    os.write(fd, b"a" * 8192)
    m = mmap.mmap(fd, 8192)
    m[0:4] = b"MMAP"
    m.flush()
    os.write(fd, b"tail")
    m.close()
    os.close(fd)
    t.see("a page written back is not appended", lambda: (t.read("g")[:5], len(t.read("g"))))


@check
def append_by_many(t):
    for n in range(4):
        if os.fork() == 0:
            fd = os.open(t.at("log"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            for i in range(100):
                os.write(fd, b"%d:%03d\n" % (n, i))
            os._exit(0)
    for n in range(4):
        os.wait()
    lines = t.read("log").split(b"\n")[:-1]
    t.note("none lost", len(set(lines)))


@check
def truncation(t):
    t.write("f", b"0123456789")
    for size in (5, 0, 4096, 3, 100000, 1):
        t.do(f"to {size}", os.truncate, t.at("f"), size)
        t.see(f"to {size}, then", lambda: (os.stat(t.at("f")).st_size, t.read("f")[:10]))
    t.do("negative", lambda: call("truncate", os.fsencode(t.at("f")), -1))
    t.do("of a directory", os.truncate, t.path, 0)
    t.do("of nothing", os.truncate, t.at("x"), 0)
    t.do("huge", os.truncate, t.at("f"), 1 << 62)
    t.write("g", b"old text")
    os.close(os.open(t.at("g"), os.O_WRONLY | os.O_TRUNC))
    t.see("O_TRUNC", t.read, "g")
    r = os.open(t.at("f"), os.O_RDONLY)
    t.do("ftruncate, read-only", os.ftruncate, r, 1)
    os.close(r)
    fd = os.open(t.at("h"), os.O_CREAT | os.O_RDWR)
    os.write(fd, b"A" * 10000)
    os.ftruncate(fd, 5000)
    os.ftruncate(fd, 10000)
    t.see("zeros where it was cut", lambda: os.pread(fd, 10000, 0)[4998:5003])
    other = os.open(t.at("h"), os.O_RDONLY)
    os.ftruncate(fd, 7)
    t.see("seen by another descriptor", os.pread, other, 100, 0)
    os.close(fd)
    os.close(other)


@check
def size_limit(t):
    def beyond():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        fd = os.open(t.at("f"), os.O_CREAT | os.O_WRONLY, 0o666)
        first = os.write(fd, b"x" * 2000)
        try:
            return first, os.write(fd, b"y")
        except OSError as e:
            return first, e.errno
    t.see("RLIMIT_FSIZE", lambda: t.as_user(0, 0, [], beyond))
    t.see("size", lambda: os.stat(t.at("f")).st_size)


@check
def holes(t):
    fd = os.open(t.at("f"), os.O_CREAT | os.O_RDWR)
    os.ftruncate(fd, 1 << 24)
    t.see("no blocks", blocks, fd)
    os.pwrite(fd, b"d" * 65536, 1 << 20)
    os.pwrite(fd, b"e" * 65536, 1 << 23)
    os.fsync(fd)
    for whence, what in ((os.SEEK_DATA, "data"), (os.SEEK_HOLE, "hole")):
        for at in (0, 1, 1 << 20, (1 << 20) + 70000, 1 << 23, (1 << 23) + 65536, 1 << 24):
            t.see(f"{what} from {at}", os.lseek, fd, at, whence)
    t.see("few blocks", lambda: blocks(fd) <= 300)
    t.see("reads as zeros", lambda: not any(os.pread(fd, 100000, 5 << 20)))
    os.close(fd)


@check
def allocation(t):
    fd = os.open(t.at("f"), os.O_CREAT | os.O_RDWR)
    t.do("plain", fallocate, fd, 0, 0, 65536)
    t.see("size", lambda: os.fstat(fd).st_size)
    t.do("keep size", fallocate, fd, FALLOC_KEEP_SIZE, 65536, 65536)
    t.see("size kept", lambda: os.fstat(fd).st_size)
    os.pwrite(fd, b"z" * 65536, 0)
    os.fsync(fd)
    full = blocks(fd)
    t.do("punch", fallocate, fd, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, 8192, 16384)
    t.see("less", lambda: full - blocks(fd))
    t.see("zeros", lambda: os.pread(fd, 16386, 8191)[:2] + os.pread(fd, 16386, 8191)[-2:])
    t.do("punch without keep", fallocate, fd, FALLOC_PUNCH_HOLE, 0, 4096)
    t.do("zero", fallocate, fd, FALLOC_ZERO, 4096, 4096)
    t.see("zeroed", os.pread, fd, 3, 4095)
    t.do("zero, longer", fallocate, fd, FALLOC_ZERO, 65000, 10000)
    t.see("its size", lambda: os.fstat(fd).st_size)
    t.do("no length", fallocate, fd, 0, 0, 0)
    t.do("negative", fallocate, fd, 0, -1, 10)
    t.do("posix_fallocate", os.posix_fallocate, fd, 100000, 50000)
    t.see("then", lambda: os.fstat(fd).st_size)
    os.close(fd)
    r = os.open(t.at("f"), os.O_RDONLY)
    t.do("read-only", fallocate, r, 0, 0, 10)
    os.close(r)


@check
def mapping(t):
    t.write("f", bytes(range(256)) * 64)
    fd = os.open(t.at("f"), os.O_RDWR)
    shared = mmap.mmap(fd, 0)
    private = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE)
    other = mmap.mmap(fd, 0)
    t.see("read", lambda: shared[255:258])
    shared[5000:5005] = b"SHARE"
    t.see("seen in another mapping", lambda: other[5000:5005])
    t.see("seen by read", os.pread, fd, 5, 5000)
    private[6000:6005] = b"PRIVA"
    t.see("private stays private", os.pread, fd, 5, 6000)
    os.pwrite(fd, b"WRITE", 9000)
    t.see("write seen in a mapping", lambda: shared[9000:9005])
    t.do("msync", shared.flush)
    t.see("by a new descriptor", lambda: t.read("f")[5000:5005])
    os.unlink(t.at("f"))
    shared[0:4] = b"GONE"
    t.see("after unlink", lambda: other[0:4])
    shared.close()
    private.close()
    other.close()
    os.close(fd)
    t.write("g", b"x" * 100)
    fd = os.open(t.at("g"), os.O_RDWR)
    m = mmap.mmap(fd, 0)
    m[0:3] = b"map"
    os.close(fd)
    m.close()
    t.see("written back by unmapping", lambda: t.read("g")[:5])
    fd = os.open(t.at("g"), os.O_RDONLY)
    t.see("shared writable of a read-only one",
          lambda: mmap.mmap(fd, 0, prot=mmap.PROT_WRITE | mmap.PROT_READ) and "ok")
    os.close(fd)


@check
def mapping_across_processes(t):
    t.write("f", bytes(8192))
    fd = os.open(t.at("f"), os.O_RDWR)
    m = mmap.mmap(fd, 0)
    pid = os.fork()
    if pid == 0:
        mine = os.open(t.at("f"), os.O_RDWR)
        n = mmap.mmap(mine, 0)
        n[4096:4101] = b"child"
        os._exit(0)
    os.waitpid(pid, 0)
    t.see("child's write", lambda: m[4096:4101])
    os.ftruncate(fd, 4096)
    t.see("cut", lambda: os.fstat(fd).st_size)
    m.close()
    os.close(fd)


@check
def copying(t):
    rng = random.Random(3)
    data = rng.randbytes(300000)
    t.write("a", data)
    a = os.open(t.at("a"), os.O_RDONLY)
    b = os.open(t.at("b"), os.O_CREAT | os.O_RDWR)
    t.see("copy_file_range", lambda: os.copy_file_range(a, b, 300000, 0, 0))
    t.note("equal", t.read("b") == data)
    t.see("at offsets", lambda: os.copy_file_range(a, b, 1000, 7, 300000))
    t.note("equal there", t.read("b")[300000:] == data[7:1007])
    t.see("behind the end", lambda: os.copy_file_range(a, b, 10, 1 << 30, 0))
    t.see("onto itself", lambda: os.copy_file_range(b, b, 1000, 0, 400000))
    t.see("overlapping", lambda: os.copy_file_range(b, b, 1000, 0, 10))
    t.see("to a read-only one", lambda: os.copy_file_range(b, a, 10, 0, 0))
    t.see("sendfile", lambda: os.sendfile(b, a, 0, 100))
    os.close(a)
    os.close(b)
    r, w = os.pipe()
    a = os.open(t.at("a"), os.O_RDONLY)
    t.see("splice", lambda: call("splice", a, None, w, None, 4096, 0))
    t.note("spliced", os.read(r, 4096) == data[:4096])
    for fd in (r, w, a):
        os.close(fd)


@check
def syncing(t):
    fd = os.open(t.at("f"), os.O_CREAT | os.O_RDWR)
    os.write(fd, b"text")
    t.do("fsync", os.fsync, fd)
    t.do("fdatasync", os.fdatasync, fd)
    t.do("sync_file_range", lambda: call("sync_file_range", fd, 0, 0, 2))
    t.do("syncfs", lambda: call("syncfs", fd))
    os.close(fd)
    d = os.open(t.path, os.O_RDONLY)
    t.do("fsync of a directory", os.fsync, d)
    t.do("fdatasync of a directory", os.fdatasync, d)
    os.close(d)
    fd = os.open(t.at("s"), os.O_CREAT | os.O_RDWR | os.O_SYNC)
    t.see("O_SYNC", os.write, fd, b"x" * 5000)
    os.close(fd)
    fd = os.open(t.at("s"), os.O_RDWR | os.O_DSYNC)
    t.see("O_DSYNC", os.write, fd, b"y" * 5000)
    os.close(fd)


@check
def direct(t):
    buffer = mmap.mmap(-1, 8192)
    buffer[:] = b"D" * 8192
    fd = os.open(t.at("f"), os.O_CREAT | os.O_RDWR | os.O_DIRECT)
    t.see("write", os.pwritev, fd, [buffer], 0)
    t.see("read", os.preadv, fd, [buffer], 4096)
    os.close(fd)
    t.see("by another way", lambda: len(t.read("f")))
    buffered = os.open(t.at("f"), os.O_RDWR)
    os.pread(buffered, 8192, 0)
    fd = os.open(t.at("f"), os.O_RDWR | os.O_DIRECT)
    buffer[:] = b"E" * 8192
    os.pwritev(fd, [buffer], 0)
    t.see("seen through the cache", lambda: os.pread(buffered, 3, 4000))
    os.close(fd)
    os.close(buffered)


@check
def locks(t):
    t.write("f", b"x" * 100)
    a = os.open(t.at("f"), os.O_RDWR)
    b = os.open(t.at("f"), os.O_RDWR)
    t.do("flock", fcntl.flock, a, fcntl.LOCK_EX | fcntl.LOCK_NB)
    t.do("flock, second", fcntl.flock, b, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(a, fcntl.LOCK_UN)
    t.do("flock, free", fcntl.flock, b, fcntl.LOCK_SH | fcntl.LOCK_NB)
    t.do("lockf", fcntl.lockf, a, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)

    def other(start):
        fd = os.open(t.at("f"), os.O_RDWR)
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, start)
        return "locked"
    t.see("lockf, other process, same range", lambda: t.as_user(0, 0, [], other, 5))
    t.see("lockf, other process, other range", lambda: t.as_user(0, 0, [], other, 50))
    os.close(b)
    t.see("closing another descriptor frees it", lambda: t.as_user(0, 0, [], other, 5))
    os.close(a)


@check
def many_open(t):
    fds = []
    for i in range(150):
        fds.append(os.open(t.at(f"f{i}"), os.O_CREAT | os.O_RDWR))
        os.write(fds[-1], b"%d" % i)
    t.note("all good", all(os.pread(fd, 10, 0) == b"%d" % i for i, fd in enumerate(fds)))
    for fd in fds:
        os.close(fd)


@check
def execution(t):
    t.write("script", b"#!/bin/sh\necho ran\n", 0o755)
    with os.popen(t.at("script")) as f:
        t.see("a script", f.read)
    with open("/bin/true", "rb") as f:
        t.write("program", f.read(), 0o755)
    t.see("a program", lambda: os.spawnv(os.P_WAIT, t.at("program"), ["program"]))
    t.write("plain", b"#!/bin/sh\n", 0o644)
    t.see("no x bit", lambda: os.execv(t.at("plain"), ["x"]))
    fd = os.open(t.at("program"), os.O_RDONLY)
    t.see("by descriptor", lambda: os.spawnv(os.P_WAIT, f"/proc/self/fd/{fd}", ["program"]))
    os.close(fd)
    pid = os.spawnv(os.P_NOWAIT, "/bin/cp", ["cp", "/bin/sleep", t.at("sleep")])
    os.waitpid(pid, 0)
    pid = os.spawnv(os.P_NOWAIT, t.at("sleep"), ["sleep", "5"])
    while not os.readlink(f"/proc/{pid}/exe").endswith("/sleep"):  # until it has been exec'd
        time.sleep(0.01)
    t.see("busy text", lambda: os.close(os.open(t.at("sleep"), os.O_WRONLY)))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    libc = ctypes.CDLL(None)
    t.note("still loaded", libc is not None)
