# SPDX-License-Identifier: GPL-2.0-or-later
"""Names: made, looked up, renamed, linked, listed."""
import ctypes
import errno
import os

from .core import call, check

RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4
AT_FDCWD = -100


def renameat2(old, new, flags):
    call("renameat2", AT_FDCWD, old.encode(), AT_FDCWD, new.encode(), flags)


@check
def create(t):
    for flags, what in ((os.O_CREAT, "plain"), (os.O_CREAT | os.O_EXCL, "exclusive")):
        fd = t.do(f"{what}, missing", os.open, t.at(what), flags | os.O_RDWR, 0o640)
        os.close(fd)
        t.see(f"{what}, stat", t.stat, what)
        t.do(f"{what}, there", os.open, t.at(what), flags | os.O_RDWR, 0o640)
    t.do("missing parent", os.open, t.at("no/x"), os.O_CREAT | os.O_RDWR)
    t.do("below a file", os.open, t.at("plain/x"), os.O_CREAT | os.O_RDWR)
    t.do("no O_CREAT", os.open, t.at("nothing"), os.O_RDWR)
    t.do("directory for writing", os.open, t.path, os.O_WRONLY)
    t.do("directory with O_CREAT", os.open, t.path, os.O_CREAT | os.O_RDONLY)
    t.do("file as directory", os.open, t.at("plain"), os.O_DIRECTORY)
    t.do("trailing slash", os.open, t.at("new/"), os.O_CREAT | os.O_RDWR)
    t.see("listing", t.names)


@check
def create_modes(t):
    for mask in (0, 0o022, 0o027, 0o077, 0o777):
        os.umask(mask)
        for mode in (0o777, 0o666, 0o4755, 0o2755, 0o1777, 0):
            name = f"f-{mask:o}-{mode:o}"
            os.close(os.open(t.at(name), os.O_CREAT | os.O_WRONLY, mode))
            t.see(name, t.stat, name)
            os.mkdir(t.at("d" + name), mode)
            t.see("d" + name, t.stat, "d" + name)
            os.mkfifo(t.at("p" + name), mode)
            t.see("p" + name, t.stat, "p" + name)


@check
def lengths(t):
    for n in (1, 254, 255, 256, 1023, 1024, 4000):
        t.do(f"create, {n} bytes", t.write, "n" * n)
        t.do(f"mkdir, {n} bytes", os.mkdir, t.at("d" * n))
        t.do(f"symlink, {n} bytes", os.symlink, "x", t.at("s" * n))
        t.do(f"link, {n} bytes", os.link, t.at("n"), t.at("l" * n))
        t.do(f"stat, {n} bytes", os.stat, t.at("n" * n))
        t.do(f"unlink, {n} bytes", os.unlink, t.at("l" * n))
        t.do(f"rename, {n} bytes", os.rename, t.at("n" * n), t.at("r" * n))
        t.write("n")
    t.see("listing", t.names)


@check
def bytes_in_names(t):
    for c in list(range(1, 0x20)) + [0x20, ord("\\"), 0x7f, 0x80, 0xff]:
        name = os.path.join(os.fsencode(t.path), b"a" + bytes([c]) + b"b")
        t.do(f"byte {c:#x}", lambda n=name: os.close(os.open(n, os.O_CREAT | os.O_WRONLY)))
    t.see("listing", lambda: sorted(os.listdir(os.fsencode(t.path))))
    for name in ("...", "..a", ".hidden", " ", "-rf", "*"):
        t.do(f"name {name!r}", t.write, name)
    t.see("all", t.names)


@check
def directories(t):
    t.do("mkdir", os.mkdir, t.at("d"), 0o750)
    t.see("stat", t.stat, "d")
    t.do("again", os.mkdir, t.at("d"))
    t.do("missing parent", os.mkdir, t.at("no/d"))
    t.write("f")
    t.do("over a file", os.mkdir, t.at("f"))
    t.do("below a file", os.mkdir, t.at("f/d"))
    t.do("dot", os.mkdir, t.at("d/."))
    t.see("links before", lambda: os.stat(t.at("d")).st_nlink in (1, 2))
    os.mkdir(t.at("d/e"))
    t.see("parent of e", lambda: os.path.samefile(t.at("d/e/.."), t.at("d")))
    t.do("rmdir, not empty", os.rmdir, t.at("d"))
    t.do("rmdir of a file", os.rmdir, t.at("f"))
    t.do("unlink of a directory", os.unlink, t.at("d"))
    t.do("rmdir of dot", os.rmdir, t.at("d/e/."))
    t.do("rmdir of dotdot", os.rmdir, t.at("d/e/.."))
    t.do("rmdir", os.rmdir, t.at("d/e"))
    t.do("rmdir, gone", os.rmdir, t.at("d/e"))
    t.see("listing", t.names)


@check
def symlinks(t):
    t.write("file", b"text")
    os.mkdir(t.at("dir"))
    t.write("dir/inner", b"inner")
    for name, target in (("to-file", "file"), ("to-dir", "dir"), ("dangling", "nothing"),
                         ("loop", "loop"), ("absolute", "/nonexistent/x"), ("up", "../../../.."),
                         ("long", "x" * 4095), ("slash", "dir/")):
        t.do(f"{name}, made", os.symlink, target, t.at(name))
        t.see(f"{name}, readlink", os.readlink, t.at(name))
        t.see(f"{name}, lstat", t.stat, name)
        t.see(f"{name}, read", lambda n=name: t.read(n))
    t.do("too long", os.symlink, "x" * 4096, t.at("too-long"))
    t.do("empty target", os.symlink, "", t.at("empty"))
    t.do("over another", os.symlink, "x", t.at("loop"))
    t.see("through a directory", t.read, "to-dir/inner")
    t.do("create through dangling", t.write, "dangling", b"made")
    t.see("made there", t.read, "nothing")
    t.do("O_NOFOLLOW", os.open, t.at("to-file"), os.O_RDONLY | os.O_NOFOLLOW)
    t.do("O_EXCL over a link", os.open, t.at("to-file"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    t.do("lchown", os.lchown, t.at("loop"), 5, 6)
    t.see("lchown, stat", t.stat, "loop")
    os.utime(t.at("loop"), ns=(1_000_000_007, 2_000_000_009), follow_symlinks=False)
    t.see("times", lambda: os.lstat(t.at("loop")).st_mtime_ns)
    t.do("hard link to it", os.link, t.at("loop"), t.at("loop2"), follow_symlinks=False)
    t.see("same text", os.readlink, t.at("loop2"))
    t.do("readlink of a file", os.readlink, t.at("file"))
    chain = "file"
    for i in range(45):
        os.symlink(chain, t.at(f"chain{i}"))
        chain = f"chain{i}"
    t.see("chain of 40", t.read, "chain39")
    t.see("chain of 41", t.read, "chain40")
    t.see("replaced", lambda: (os.symlink("file", t.at("new")), os.rename(t.at("new"), t.at("up")),
                               os.readlink(t.at("up")))[2])


@check
def hard_links(t):
    t.write("a", b"one")
    t.do("link", os.link, t.at("a"), t.at("b"))
    t.see("count", t.stat, "a")
    t.see("same", lambda: os.path.samefile(t.at("a"), t.at("b")))
    t.write("b", b"two!")
    t.see("written by b, read by a", t.read, "a")
    t.do("over another", os.link, t.at("a"), t.at("b"))
    os.mkdir(t.at("d"))
    t.do("of a directory", os.link, t.at("d"), t.at("d2"))
    t.do("of nothing", os.link, t.at("x"), t.at("y"))
    t.do("into another directory", os.link, t.at("a"), t.at("d/a"))
    os.unlink(t.at("a"))
    t.see("after unlink", t.stat, "b")
    os.rename(t.at("b"), t.at("d/b"))
    t.see("after rename", t.stat, "d/a")
    t.do("rename onto its own other name", os.rename, t.at("d/a"), t.at("d/b"))
    t.see("both are there", t.names, "d")
    os.mkfifo(t.at("p"))
    t.do("of a FIFO", os.link, t.at("p"), t.at("p2"))
    for i in range(100):
        os.link(t.at("d/a"), t.at(f"h{i}"))
    t.see("102 names", t.stat, "d/b")
    os.unlink(t.at("d/a"))
    t.see("read by the last", t.read, "h99")


@check
def rename(t):
    t.write("a", b"a")
    t.write("b", b"bb")
    t.do("to a new name", os.rename, t.at("a"), t.at("c"))
    t.do("of nothing", os.rename, t.at("a"), t.at("c"))
    t.do("over a file", os.rename, t.at("c"), t.at("b"))
    t.see("content", t.read, "b")
    t.do("onto itself", os.rename, t.at("b"), t.at("b"))
    os.makedirs(t.at("d/e/f"))
    os.mkdir(t.at("empty"))
    t.do("file over directory", os.rename, t.at("b"), t.at("d"))
    t.do("directory over file", os.rename, t.at("d"), t.at("b"))
    t.do("into itself", os.rename, t.at("d"), t.at("d/e/g"))
    t.do("over its parent", os.rename, t.at("d/e/f"), t.at("d"))
    t.do("over a full directory", os.rename, t.at("empty"), t.at("d"))
    t.do("over an empty directory", os.rename, t.at("d"), t.at("empty"))
    t.see("tree", lambda: sorted(os.listdir(t.at("empty/e"))))
    t.do("dot", os.rename, t.at("empty/."), t.at("x"))
    t.do("file into a directory", os.rename, t.at("b"), t.at("empty/e/f/b"))
    t.do("directory up", os.rename, t.at("empty/e/f"), t.at("f"))
    t.see("reached by the new path", t.read, "f/b")
    t.do("old path", os.stat, t.at("empty/e/f/b"))
    os.symlink("f", t.at("l"))
    t.do("a symlink, not its target", os.rename, t.at("l"), t.at("m"))
    t.see("still a link", os.readlink, t.at("m"))
    t.do("trailing slash on a file", os.rename, t.at("f/b/"), t.at("z"))
    t.see("listing", t.names)


@check
def rename_flags(t):
    t.write("a", b"a")
    t.write("b", b"bb")
    os.mkdir(t.at("d"))
    t.write("d/in", b"in")
    t.do("noreplace, there", renameat2, t.at("a"), t.at("b"), RENAME_NOREPLACE)
    t.do("noreplace, missing", renameat2, t.at("a"), t.at("c"), RENAME_NOREPLACE)
    t.do("exchange, missing", renameat2, t.at("c"), t.at("x"), RENAME_EXCHANGE)
    t.do("exchange of files", renameat2, t.at("c"), t.at("b"), RENAME_EXCHANGE)
    t.see("b", t.read, "b")
    t.see("c", t.read, "c")
    t.do("exchange of file and directory", renameat2, t.at("b"), t.at("d"), RENAME_EXCHANGE)
    t.see("directory by its new name", t.read, "b/in")
    t.see("file by its new name", t.read, "d")
    t.do("exchange with one inside", renameat2, t.at("b/in"), t.at("b"), RENAME_EXCHANGE)
    t.do("both flags", renameat2, t.at("b"), t.at("d"), RENAME_NOREPLACE | RENAME_EXCHANGE)
    t.do("unknown flag", renameat2, t.at("b"), t.at("d"), 64)
    fd = os.open(t.at("c"), os.O_RDWR)
    renameat2(t.at("c"), t.at("d"), RENAME_EXCHANGE)
    os.write(fd, b"XYZ")
    os.close(fd)
    t.see("an open file went along", t.read, "d")


@check
def rename_while_open(t):
    os.makedirs(t.at("a/b"))
    t.write("a/b/f", b"text")
    fd = os.open(t.at("a/b/f"), os.O_RDWR)
    dfd = os.open(t.at("a/b"), os.O_RDONLY)
    os.rename(t.at("a"), t.at("z"))
    t.see("fstat", lambda: os.fstat(fd).st_size)
    t.do("create in an open directory", lambda: os.close(
        os.open("new", os.O_CREAT | os.O_WRONLY, dir_fd=dfd)))
    t.see("seen there", t.names, "z/b")
    os.rename(t.at("z/b"), t.at("y"))
    t.see("listing by descriptor", lambda: sorted(os.listdir(dfd)))
    os.write(fd, b"TEXT")
    t.see("written", t.read, "y/f")
    os.unlink(t.at("y/f"))
    t.see("unlinked", lambda: os.fstat(fd).st_nlink)
    os.close(fd)
    os.close(dfd)


@check
def listing(t):
    t.see("empty", lambda: list(os.scandir(t.path)))
    for i in range(3000):
        os.close(os.open(t.at(f"file-with-a-longish-name-{i}"), os.O_CREAT | os.O_WRONLY))
    t.see("all", lambda: len(t.names()))
    t.see("none twice", lambda: len(set(t.names())))
    t.see("types", lambda: all(e.is_file(follow_symlinks=False) for e in os.scandir(t.path)))
    t.see("sizes", lambda: sum(e.stat().st_size for e in os.scandir(t.path)))
    seen = []
    with os.scandir(t.path) as entries:
        for i, entry in enumerate(entries):
            seen.append(entry.name)
            if i % 3 == 0:
                os.unlink(entry.path)
    t.note("none lost while others are removed", len(set(seen)))
    t.see("left", lambda: len(t.names()))
    os.mkdir(t.at("d"))
    os.symlink("x", t.at("l"))
    os.mkfifo(t.at("p"))
    t.see("kinds", lambda: sorted((e.name, e.is_dir(follow_symlinks=False), e.is_symlink())
                                  for e in os.scandir(t.path) if len(e.name) == 1))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.opendir.restype = libc.readdir.restype = ctypes.c_void_p
    libc.telldir.restype = ctypes.c_long
    d = ctypes.c_void_p(libc.opendir(os.fsencode(t.path)))

    def name():
        entry = libc.readdir(d)
        return ctypes.string_at(entry + 19) if entry else None

    for _ in range(700):
        name()
    place = libc.telldir(d)
    after = [name() for _ in range(50)]
    libc.seekdir(d, ctypes.c_long(place))
    t.note("seekdir", [name() for _ in range(50)] == after)
    libc.rewinddir(d)
    count = 0
    while name():
        count += 1
    t.note("rewinddir", count)
    libc.closedir(d)


@check
def listing_sees_changes(t):
    for i in range(20):
        t.write(f"f{i}")
        t.note(f"after {i + 1}", len(t.names()))
    for i in range(20):
        os.unlink(t.at(f"f{i}"))
    t.see("none", t.names)
    t.do("stat of one removed", os.stat, t.at("f3"))
    t.write("f3", b"again")
    t.see("made again", t.read, "f3")


@check
def deep(t):
    path = t.path
    for i in range(60):
        path = os.path.join(path, "d" * 30)
        os.mkdir(path)
    with open(os.path.join(path, "f"), "w") as f:
        f.write("deep")
    t.see("read", lambda: open(os.path.join(path, "f")).read())
    os.rename(t.at("d" * 30), t.at("e"))
    moved = path.replace("d" * 30, "e", 1)
    t.see("read after a rename at the top", lambda: open(os.path.join(moved, "f")).read())
    here = os.open(t.path, os.O_RDONLY)
    for i in range(300):  # beyond PATH_MAX
        os.mkdir("x" * 20, dir_fd=here)
        below = os.open("x" * 20, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    t.see("below PATH_MAX", lambda: os.listdir(here))
    t.see("its parent", lambda: os.listdir(os.open("..", os.O_RDONLY, dir_fd=here)))
    os.close(here)


@check
def wrong_errno_is_no_accident(t):
    """The checks themselves: an error is noted as one."""
    t.do("a call that must fail", os.stat, t.at("missing"))
    t.note("by name", t.notes["a call that must fail"] == errno.errorcode[errno.ENOENT])
