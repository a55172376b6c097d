# SPDX-License-Identifier: GPL-2.0-or-later
"""Owners, modes, permissions, set-id bits, times."""
import os
import stat
import time

from .core import check

ALICE = (1000, 1000, [1000])
BOB = (1001, 1001, [1001])
CAROL = (1002, 1002, [1002, 1000, 5000])  # also in Alice's group


@check
def owners(t):
    os.chmod(t.path, 0o777)

    def make_all():
        t.write("f")
        os.mkdir(t.at("d"))
        os.symlink("x", t.at("l"))
        os.mkfifo(t.at("p"))
    t.do("as Alice", t.as_user, *ALICE, make_all)
    for name in "fdlp":
        t.see(name, t.stat, name)
    t.do("Bob removes", t.as_user, *BOB, os.unlink, t.at("f"))
    t.do("Bob chmods", t.as_user, *BOB, os.chmod, t.at("d"), 0o700)
    t.do("Alice chowns", t.as_user, *ALICE, os.chown, t.at("d"), 1001, -1)
    t.do("Carol takes a group of hers", t.as_user, *CAROL, t.write, "c")
    t.do("chgrp to a group of hers", t.as_user, *CAROL, os.chown, t.at("c"), -1, 5000)
    t.see("c", t.stat, "c")
    t.do("chgrp to a foreign one", t.as_user, *CAROL, os.chown, t.at("c"), -1, 1001)
    for uid, gid in ((5, 6), (0, 0), (65534, 65534), (4294967294, 4294967294), (-1, 9), (9, -1)):
        t.do(f"chown {uid} {gid}", os.chown, t.at("c"), uid, gid)
        t.see(f"chown {uid} {gid}, then", t.stat, "c")


@check
def permissions(t):
    t.write("f", b"text")
    os.chown(t.at("f"), 1000, 1000)
    os.mkdir(t.at("d"), 0o755)
    t.write("d/g", b"inner", 0o644)
    os.chown(t.at("d"), 1000, 1000)
    people = {"alice": ALICE, "bob": BOB, "carol": CAROL}
    for mode in (0o600, 0o640, 0o604, 0o060, 0o444, 0o222, 0):
        os.chmod(t.at("f"), mode)
        for who, ids in people.items():
            for flags, what in ((os.O_RDONLY, "r"), (os.O_WRONLY, "w"), (os.O_RDWR, "rw")):
                t.do(f"{who} {what} {mode:o}", t.as_user, *ids,
                     lambda f=flags: os.close(os.open(t.at("f"), f)))
            t.do(f"{who} access {mode:o}", t.as_user, *ids,
                 lambda: [os.access(t.at("f"), k) for k in (os.R_OK, os.W_OK, os.X_OK)])
    for mode in (0o700, 0o711, 0o744, 0o750):
        os.chmod(t.at("d"), mode)
        for who, ids in people.items():
            t.see(f"{who} lists {mode:o}", lambda i=ids: t.as_user(*i, os.listdir, t.at("d")))
            t.see(f"{who} reads in {mode:o}", lambda i=ids: t.as_user(*i, t.read, "d/g"))
            t.do(f"{who} makes in {mode:o}", t.as_user, *ids, t.write, f"d/{who}")


@check
def sticky(t):
    os.mkdir(t.at("tmp"))
    os.chmod(t.at("tmp"), 0o1777)
    t.as_user(*ALICE, t.write, "tmp/a")
    t.see("mode", t.stat, "tmp")
    t.do("Bob unlinks", t.as_user, *BOB, os.unlink, t.at("tmp/a"))
    t.do("Bob renames", t.as_user, *BOB, os.rename, t.at("tmp/a"), t.at("tmp/b"))
    t.do("Alice unlinks", t.as_user, *ALICE, os.unlink, t.at("tmp/a"))


@check
def set_id_inheritance(t):
    os.mkdir(t.at("g"))
    os.chown(t.at("g"), 0, 5000)
    os.chmod(t.at("g"), 0o2777)
    for who, ids in (("alice", ALICE), ("carol", CAROL), ("root", (0, 0, []))):
        def make(w=who):
            os.umask(0)
            os.close(os.open(t.at(f"g/{w}"), os.O_CREAT | os.O_WRONLY, 0o666))
            os.mkdir(t.at(f"g/{w}-d"), 0o777)
            os.symlink("x", t.at(f"g/{w}-l"))
            os.close(os.open(t.at(f"g/{w}-s"), os.O_CREAT | os.O_WRONLY, 0o2775))
        t.do(f"{who} makes", t.as_user, *ids, make)
        for suffix in ("", "-d", "-l"):
            t.see(f"{who}{suffix}", t.stat, f"g/{who}{suffix}")
    # A member's set-group-id file is named as an exception where results are compared.
    t.see("alice-s", t.stat, "g/alice-s")
    t.see("root-s", t.stat, "g/root-s")
    t.see("carol-s", t.stat, "g/carol-s")


@check
def set_id_is_lost(t):
    """By writes, truncation and chown of those without CAP_FSETID; root's writes keep it."""
    def append():
        fd = os.open(t.at("f"), os.O_WRONLY | os.O_APPEND)
        os.write(fd, b"more")
        os.close(fd)
    actions = {"write": append, "truncate": lambda: os.truncate(t.at("f"), 2),
               "O_TRUNC": lambda: os.close(os.open(t.at("f"), os.O_WRONLY | os.O_TRUNC)),
               "chown": lambda: os.chown(t.at("f"), -1, os.getgid() or 3)}
    for mode in (0o4777, 0o2777, 0o6777, 0o2767, 0o4666, 0o6666):
        for who, ids in (("alice", ALICE), ("root", (0, 0, []))):
            for what, action in actions.items():
                t.write("f", b"text")
                os.chown(t.at("f"), 1000, 0)
                os.chmod(t.at("f"), mode)
                t.do(f"{who} {what} {mode:o}", t.as_user, *ids, action)
                t.see(f"{who} {what} {mode:o}, then", t.stat, "f")


@check
def chmods(t):
    t.write("f")
    os.mkdir(t.at("d"))
    for mode in (0, 0o777, 0o1777, 0o2755, 0o4755, 0o7777):
        for name in ("f", "d"):
            t.do(f"{name} {mode:o}", os.chmod, t.at(name), mode)
            t.see(f"{name} {mode:o}, then", t.stat, name)
    os.chown(t.at("f"), 1000, 5000)
    os.chmod(t.at("f"), 0o755)
    t.do("set-group-id of a foreign group", t.as_user, *ALICE, os.chmod, t.at("f"), 0o2755)
    t.see("is not set", t.stat, "f")
    fd = os.open(t.at("f"), os.O_RDONLY)
    t.do("fchmod", os.fchmod, fd, 0o711)
    t.see("fchmod, then", t.stat, "f")
    os.close(fd)


@check
def times(t):
    t.write("f", b"x")
    for at in ((1, 2), (10**18, 2 * 10**18), (1_234_567_890_123_456_789, 987_654_321_098_765_432),
               (-10**9, -1), (2**31 * 10**9, 2**32 * 10**9)):
        t.do(f"utime {at}", os.utime, t.at("f"), ns=at)
        t.see(f"utime {at}, then", lambda: (os.stat(t.at("f")).st_atime_ns,
                                            os.stat(t.at("f")).st_mtime_ns))
    os.utime(t.at("f"), ns=(10**9, 10**9))

    def moved(what, action):
        """Which times an action moves, of the file and of its directory."""
        os.utime(t.path, ns=(10**9, 10**9))
        if os.path.exists(t.at("f")):
            os.utime(t.at("f"), ns=(10**9, 10**9))
            before = os.stat(t.at("f")).st_ctime_ns
            time.sleep(0.02)
        action()
        if os.path.exists(t.at("f")):
            after = os.stat(t.at("f"))
            t.note(what, (after.st_mtime_ns != 10**9, after.st_ctime_ns != before))
        t.note(what + ", directory", os.stat(t.path).st_mtime_ns != 10**9)

    def write():
        with open(t.at("f"), "ab") as f:
            f.write(b"y")
    moved("write", write)
    moved("chmod", lambda: os.chmod(t.at("f"), 0o600))
    moved("chown", lambda: os.chown(t.at("f"), 3, 3))
    moved("truncate", lambda: os.truncate(t.at("f"), 0))
    moved("truncate to the same", lambda: os.truncate(t.at("f"), 0))
    moved("read", lambda: t.read("f"))
    moved("link", lambda: os.link(t.at("f"), t.at("g")))
    moved("rename", lambda: os.rename(t.at("g"), t.at("h")))
    moved("setxattr", lambda: os.setxattr(t.at("f"), "user.a", b"b"))
    moved("unlink", lambda: os.unlink(t.at("h")))
    moved("mkdir", lambda: os.mkdir(t.at("d")))
    moved("O_TRUNC", lambda: os.close(os.open(t.at("f"), os.O_WRONLY | os.O_TRUNC)))
    t.do("utime by another", t.as_user, *ALICE, os.utime, t.at("f"), (1, 1))
    os.chmod(t.at("f"), 0o666)
    t.do("utime now by one who may write", t.as_user, *ALICE, os.utime, t.at("f"))
    t.see("now is recent", lambda: abs(os.stat(t.at("f")).st_mtime - time.time()) < 100)


@check
def statvfs(t):
    t.see("names", lambda: os.statvfs(t.path).f_namemax)
    t.see("block", lambda: os.statvfs(t.path).f_bsize)
    t.see("something free", lambda: 0 < os.statvfs(t.path).f_bavail <= os.statvfs(t.path).f_blocks)
    t.write("f", b"x" * 5000)
    t.see("blocks of a file", lambda: (os.fsync(os.open(t.at("f"), os.O_RDWR)),
                                       os.stat(t.at("f")).st_blocks)[1])
    t.see("block size of a file", lambda: os.stat(t.at("f")).st_blksize)
    t.see("one device", lambda: os.stat(t.at("f")).st_dev == os.stat(t.path).st_dev)
    t.see("is a directory", lambda: stat.S_ISDIR(os.stat(t.path).st_mode))
