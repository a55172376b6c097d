# SPDX-License-Identifier: GPL-2.0-or-later
"""
The virtio-fs server against a real kernel: its dispatcher is joined to /dev/fuse (tests/unit/fs_mount.c), and what programs
see through that mount is compared with what they see in a plain directory beside it.
"""
import errno
import json
import mmap
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

from harness import BUILD, host
import inotify
import test_posix

HERE = os.path.dirname(os.path.abspath(__file__))
FS_MOUNT = os.path.join(BUILD, "tests/unit/fs_mount")
REPEAT = os.path.join(BUILD, "tests/unit/repeat")

# What differs from a plain directory, and why it may.
EXCEPTIONS = (
    (r"special\.devices: ", "device nodes are refused: no file of the host's may be one that the guest chose"),
    (r"special\.ioctls: ", "no ioctl is passed to the host"),
    (r"access\.set_id_inheritance: carol-s", "a set-group-id file made by one who is in the group only by the "
     "supplementary list loses the bit: older guest kernels do not tell, and CVE-2022-0358 came of believing"),
    (r"access\.set_id_is_lost: alice .* (2767|6666), then", "set-group-id without group execution, which gives no "
     "privilege, is left alone: so says the protocol (FUSE_HANDLE_KILLPRIV_V2)"),
)


def without_exceptions(differences):
    return [d for d in differences if not any(re.match(pattern, d) for pattern, _ in EXCEPTIONS)]


class Mounted(unittest.TestCase):
    """A directory of the host, and the same by way of the server."""
    options = ()
    where = None  # None: the temporary directory

    def setUp(self):
        if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
            self.skipTest("needs root and /dev/fuse")
        self.work = tempfile.mkdtemp(prefix="moat-fs-", dir=self.where)
        self.addCleanup(shutil.rmtree, self.work)
        os.chmod(self.work, 0o755)
        for name in ("host", "plain", "mount"):
            os.mkdir(os.path.join(self.work, name))
        self.host = os.path.join(self.work, "host")
        self.plain = os.path.join(self.work, "plain")
        self.mount = os.path.join(self.work, "mount")
        self.guest = os.path.join(self.mount, "0")
        self.server = None
        self.start(*self.options)

    def start(self, *options):
        self.server = subprocess.Popen([FS_MOUNT, *options, self.host, self.mount], stdout=subprocess.PIPE)
        self.addCleanup(self.stop)
        self.assertEqual(self.server.stdout.readline(), b"ready\n")

    def stop(self):
        if not self.server:
            return
        subprocess.run(["umount", self.mount], check=True)
        self.assertEqual(self.server.wait(timeout=30 * host.TIME_SCALE), 0)
        self.server.stdout.close()
        self.server = None

    def see(self, path, only=""):
        done = subprocess.run([sys.executable, "-m", "fscheck", path, only], cwd=HERE, stdout=subprocess.PIPE, check=True,
                              timeout=600)
        return json.loads(done.stdout)

    def compare(self, only=""):
        plain, guest = self.see(self.plain, only), self.see(self.guest, only)
        self.assertGreater(len(plain), 50)
        self.assertEqual([k for k in plain if k.endswith("!stopped")], [])
        differences = [f"{k}: {plain.get(k)!r} on the host, {guest.get(k)!r} through the server"
                       for k in sorted(set(plain) | set(guest)) if plain.get(k) != guest.get(k)]
        self.assertEqual(without_exceptions(differences), [])
        self.assertEqual(os.listdir(self.host), [])
        return len(plain)

    def path(self, name):
        return os.path.join(self.guest, name)

    def put(self, name, data):
        with open(os.path.join(self.host, name), "wb") as f:
            f.write(data)

    def get(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()


class SameAsHost(Mounted):
    def test_everything(self):
        self.assertGreater(self.compare(), 1000)


class SameAsDisk(SameAsHost):
    where = BUILD  # the file system of the source, where /tmp is a tmpfs


class SameWithFewDescriptors(SameAsHost):
    """Three descriptors for all nodes: nearly each access finds its way anew."""
    options = ("--cached", "3")


class PosixChecks(Mounted):
    """The checks that test_posix runs in a guest, here with this machine's kernel."""
    options = ("--shared",)

    @unittest.skipUnless(os.access(test_posix.PROGRAM, os.X_OK), "no posix in this build")
    def test_same_as_the_host(self):
        seen = [subprocess.run([test_posix.PROGRAM, path], stdout=subprocess.PIPE, check=True, text=True, timeout=300).stdout
                for path in (self.plain, self.guest)]
        host, guest = map(test_posix.outcomes, seen)
        self.assertGreater(len(host), 700)
        self.assertEqual(test_posix.unexpected(host, guest), [])


class LargeDirectory(Mounted):
    options = ("--open", "200")
    count = 100_000

    def test_files(self):
        for i in range(self.count):
            os.close(os.open(os.path.join(self.host, f"file-{i}"), os.O_CREAT | os.O_WRONLY, 0o600))
        with os.scandir(self.guest) as entries:
            seen = {e.name: e.stat(follow_symlinks=False).st_mode for e in entries}
        self.assertEqual(len(seen), self.count)
        self.assertEqual(set(seen.values()), {0o100600})
        for i in range(0, self.count, 997):
            with open(self.path(f"file-{i}"), "w") as f:
                f.write(str(i))
        for i in range(0, self.count, 997):
            with open(os.path.join(self.host, f"file-{i}")) as f:
                self.assertEqual(f.read(), str(i))
        shutil.rmtree(self.guest, ignore_errors=True)  # all but the root of the tree
        self.assertEqual(os.listdir(self.host), [])


class ReadOnly(Mounted):
    options = ("--read-only",)

    def test_nothing_changes(self):
        self.put("f", b"text")
        path = self.path("f")
        self.assertEqual(self.get("f"), b"text")
        for action in (lambda: open(path, "r+b"), lambda: open(path, "ab"), lambda: os.chmod(path, 0o777),
                       lambda: os.chown(path, 1, 1), lambda: os.unlink(path), lambda: os.rename(path, path + "2"),
                       lambda: os.link(path, path + "2"), lambda: os.symlink("f", path + "2"), lambda: os.mkdir(path + "2"),
                       lambda: open(path + "2", "w"), lambda: os.truncate(path, 0), lambda: os.utime(path),
                       lambda: os.setxattr(path, "user.a", b"b"), lambda: os.mkfifo(path + "2"),
                       lambda: os.open(self.guest, os.O_TMPFILE | os.O_RDWR)):
            with self.assertRaises(OSError) as caught:
                action()
            self.assertEqual(caught.exception.errno, errno.EROFS)
        self.assertEqual(os.listdir(self.host), ["f"])


class HostChanges(Mounted):
    """What the host does meanwhile is seen soon, and breaks nothing."""

    def soon(self, what):
        end = time.monotonic() + 5
        while not what() and time.monotonic() < end:
            time.sleep(0.05)
        self.assertTrue(what())

    def test_content(self):
        self.put("f", b"one")
        self.assertEqual(self.get("f"), b"one")
        self.put("f", b"two")  # same size, a moment later
        self.soon(lambda: self.get("f") == b"two")
        self.put("f", b"longer")
        self.soon(lambda: self.get("f") == b"longer")
        with open(self.path("f"), "rb") as f:
            self.assertEqual(f.read(), b"longer")
            self.put("f", b"now while it is open")
            self.soon(lambda: os.pread(f.fileno(), 100, 0) == b"now while it is open")

    def test_names(self):
        self.assertFalse(os.path.exists(self.path("new")))
        self.put("new", b"here")
        self.soon(lambda: os.path.exists(self.path("new")))
        os.rename(os.path.join(self.host, "new"), os.path.join(self.host, "moved"))
        self.soon(lambda: os.listdir(self.guest) == ["moved"])
        self.soon(lambda: not os.path.exists(self.path("new")))
        self.assertEqual(self.get("moved"), b"here")
        os.unlink(os.path.join(self.host, "moved"))
        self.soon(lambda: not os.path.exists(self.path("moved")))

    def test_replaced_symlinks(self):
        for i in range(6):  # inode numbers come again
            os.symlink(f"target-{i}", os.path.join(self.host, "tmp"))
            os.rename(os.path.join(self.host, "tmp"), os.path.join(self.host, "link"))
            self.soon(lambda: os.readlink(self.path("link")) == f"target-{i}")  # noqa: B023

    def test_directory_moved(self):
        os.makedirs(os.path.join(self.host, "a/b"))
        self.put("a/b/f", b"text")
        self.assertEqual(self.get("a/b/f"), b"text")
        os.rename(os.path.join(self.host, "a/b"), os.path.join(self.host, "z"))
        self.soon(lambda: not os.path.exists(self.path("a/b/f")))
        self.assertEqual(self.get("z/f"), b"text")

    def test_written_at_once(self):
        with open(self.path("f"), "wb", buffering=0) as f:
            f.write(b"seen before it is closed")
            with open(os.path.join(self.host, "f"), "rb") as seen:
                self.assertEqual(seen.read(), b"seen before it is closed")


class HostChangesAtOnce(Mounted):
    """In a tree that is shared: the next use of a name sees what the host did, with no time in between."""
    options = ("--shared",)
    rounds = 100

    def test_content_of_the_same_size(self):
        for i in range(self.rounds):
            self.put("f", b"%04d" % i)
            self.assertEqual(self.get("f"), b"%04d" % i)

    def test_size_and_mode(self):
        for i in range(self.rounds):
            self.put("f", b"x" * i)
            os.chmod(os.path.join(self.host, "f"), 0o600 + i % 64)
            seen = os.stat(self.path("f"))
            self.assertEqual((seen.st_size, seen.st_mode & 0o777), (i, 0o600 + i % 64))

    def test_replaced_files(self):
        for i in range(self.rounds):
            self.put("new", b"%d" % i)
            os.rename(os.path.join(self.host, "new"), os.path.join(self.host, "f"))
            self.assertEqual(self.get("f"), b"%d" % i)

    def test_new_and_removed_files(self):
        for _ in range(self.rounds):
            self.assertFalse(os.path.exists(self.path("f")))
            self.put("f", b"")
            self.assertTrue(os.path.exists(self.path("f")))
            os.unlink(os.path.join(self.host, "f"))

    def test_new_directories_are_listed(self):
        os.mkdir(os.path.join(self.host, "d"))
        for i in range(self.rounds):
            self.put("d/%d" % i, b"")
            self.assertEqual(len(os.listdir(self.path("d"))), i + 1)


class HostChangesAreTold(Mounted):
    """Those who watch a shared tree with inotify hear of what the host does, by way of the agent's own program."""
    options = ("--shared",)

    def setUp(self):
        if not os.access(REPEAT, os.X_OK):
            self.skipTest("no agent in this build")
        super().setUp()
        self.repeater = subprocess.Popen([REPEAT, self.mount])
        self.addCleanup(self.stop)

    def stop(self):
        if self.repeater:
            os.utime(os.path.join(self.mount, "changes"))  # as the agent does at its end
            self.assertEqual(self.repeater.wait(timeout=30 * host.TIME_SCALE), 0)
            self.repeater = None
        super().stop()

    def watch(self, *names):
        watcher = inotify.Inotify(*(self.path(name) for name in names))
        self.addCleanup(watcher.close)
        self.prefix = len(self.path(""))
        return watcher

    def told(self, watcher, *wanted):
        """Waits for all of these, 'watched name event' each, and compares with all there were."""
        seen, end = [], time.monotonic() + 10 * host.TIME_SCALE
        while set(wanted) - set(seen):
            if time.monotonic() > end:
                break
            seen += ["%s %s %s" % (path[self.prefix:], name, event) for path, name, event in watcher.read(0.1)]
        # The host may be looked at between two of its system calls: then an event comes twice.
        self.assertEqual(sorted(set(seen)), sorted(wanted))

    def settle(self, watcher):
        """Until the program has begun to read."""
        self.put("ready", b"")
        for _ in range(100):
            if watcher.read(0.1):
                break
            self.put("ready", b"")
        os.unlink(os.path.join(self.host, "ready"))
        end = time.monotonic() + 10 * host.TIME_SCALE
        while time.monotonic() < end and (".", "delete") not in [(path[-1], event) for path, _, event in watcher.read(0.1)]:
            pass

    def test_files(self):
        os.makedirs(os.path.join(self.host, "a/b"))
        self.put("a/b/f", b"text")
        watcher = self.watch("a/b", "a/b/f", ".")
        self.settle(watcher)
        with open(os.path.join(self.host, "a/b/f"), "ab") as f:
            f.write(b" and more")
            f.flush()
            self.told(watcher, "a/b f modify", "a/b/f  modify")
        self.told(watcher, "a/b f close_write", "a/b/f  close_write")
        self.assertEqual(self.get("a/b/f"), b"text and more")
        os.chmod(os.path.join(self.host, "a/b/f"), 0o600)
        self.told(watcher, "a/b f attrib", "a/b/f  attrib")
        self.assertEqual(os.stat(self.path("a/b/f")).st_mode & 0o777, 0o600)

    def test_replaced(self):
        self.put("f", b"text")
        self.put("new", b"other text")
        watcher = self.watch(".", "f")
        self.settle(watcher)
        self.assertEqual(self.get("f"), b"text")
        os.rename(os.path.join(self.host, "new"), os.path.join(self.host, "f"))
        self.told(watcher, ". new delete", "f  modify", "f  attrib", "f  delete_self", "f  ignored", ". f delete", ". f create",
                  ". f modify", ". f close_write")
        self.assertEqual(self.get("f"), b"other text")
        # What is there now is told of by its new watch.
        watcher = self.watch("f")
        self.put("f", b"more")
        self.told(watcher, "f  modify", "f  close_write")

    def test_names(self):
        watcher = self.watch(".")
        self.settle(watcher)
        os.mkdir(os.path.join(self.host, "d"))
        self.told(watcher, ". d create")
        os.symlink("x", os.path.join(self.host, "l"))
        self.told(watcher, ". l create")
        os.rename(os.path.join(self.host, "d"), os.path.join(self.host, "e"))
        self.told(watcher, ". d delete", ". e create")
        # What the guest's kernel was told in between is true.
        self.assertEqual(sorted(os.listdir(self.guest)), ["e", "l"])
        self.put("e/f", b"in it")
        self.assertEqual(self.get("e/f"), b"in it")
        os.unlink(os.path.join(self.host, "e/f"))
        os.rmdir(os.path.join(self.host, "e"))
        self.told(watcher, ". e delete")
        self.assertEqual(os.listdir(self.guest), ["l"])
        self.assertEqual(os.readlink(self.path("l")), "x")

    def test_names_that_were_never_used(self):
        os.makedirs(os.path.join(self.host, "d/e"))
        for name in ("f", "d/f"):
            self.put(name, b"text")
        watcher = self.watch(".", "d")
        self.settle(watcher)
        os.unlink(os.path.join(self.host, "f"))
        self.told(watcher, ". f delete")
        shutil.rmtree(os.path.join(self.host, "d"))
        self.told(watcher, "d f delete", "d e delete", ". d delete", "d  delete_self", "d  ignored")
        self.assertEqual(os.listdir(self.guest), [])
        self.put("f", b"another")
        self.told(watcher, ". f create", ". f modify", ". f close_write")
        self.assertEqual(self.get("f"), b"another")

    def test_open_file_is_kept(self):
        """One who has the replaced file open goes on with the old one, and one who maps it sees what is written in place."""
        self.put("f", b"old text")
        with open(self.path("f"), "r+b") as f, mmap.mmap(f.fileno(), 0) as mapped:
            watcher = self.watch(".", "f")
            self.settle(watcher)
            with open(os.path.join(self.host, "f"), "r+b") as host:
                host.write(b"new")
            self.told(watcher, ". f modify", "f  modify", ". f close_write", "f  close_write")
            self.assertEqual(os.pread(f.fileno(), 100, 0), b"new text")
            self.assertEqual(mapped[:], b"new text")
            self.put("g", b"another")
            self.told(watcher, ". g create", ". g modify", ". g close_write")
            os.rename(os.path.join(self.host, "g"), os.path.join(self.host, "f"))
            self.told(watcher, ". g delete", "f  modify", "f  attrib", ". f delete", ". f create", ". f modify",
                      ". f close_write")
            self.assertEqual(os.pread(f.fileno(), 100, 0), b"new text")
            os.pwrite(f.fileno(), b"OLD", 0)
            self.assertEqual(os.pread(f.fileno(), 100, 0), b"OLD text")
        self.assertEqual(self.get("f"), b"another")
        with open(os.path.join(self.host, "f"), "rb") as f:
            self.assertEqual(f.read(), b"another")

    def test_no_echo(self):
        self.put("f", b"text")
        watcher = self.watch(".", "f")
        self.settle(watcher)
        with open(self.path("f"), "wb") as f:
            f.write(b"by the guest")
        os.chmod(self.path("f"), 0o600)
        expected = [". f modify", "f  modify", ". f modify", "f  modify", ". f close_write", "f  close_write", ". f attrib",
                    "f  attrib"]
        seen, end = [], time.monotonic() + 10 * host.TIME_SCALE
        while len(seen) < len(expected) and time.monotonic() < end:
            seen += watcher.read(0.1)
        time.sleep(0.3)  # for an echo
        seen += watcher.read()
        self.assertEqual(["%s %s %s" % (path[self.prefix:], name, event) for path, name, event in seen], expected)
        # Both write the same file, in turns: the guest hears of the host's part alone, and each once.
        for i in range(20):
            self.put("f", b"%d" % i)
            self.told(watcher, ". f modify", "f  modify", ". f close_write", "f  close_write")
            self.assertEqual(self.get("f"), b"%d" % i)
            with open(self.path("g"), "w") as f:
                f.write("%d" % i)
            time.sleep(0.06)
            seen = {event for _, name, event in watcher.read() if name == "f"}
            self.assertEqual(seen, set())

    def test_storm(self):
        """More than can be told: it goes on afterwards, and no time is wrong."""
        watcher = self.watch(".")
        self.settle(watcher)
        for i in range(5000):
            self.put("f%d" % i, b"x")
        for i in range(5000):
            os.unlink(os.path.join(self.host, "f%d" % i))
        end, seen = time.monotonic() + 60, []
        self.put("last", b"x")
        while time.monotonic() < end and "last" not in [name for _, name, _ in seen]:
            seen = watcher.read(0.5)
            self.put("last", b"x")
        self.assertIn("last", [name for _, name, _ in seen])
        self.assertEqual(os.listdir(self.guest), ["last"])
        self.assertGreater(os.stat(os.path.join(self.host, "last")).st_mtime, time.time() - 600)


class Programs(Mounted):
    """Programs that lean on a file system in their own ways."""

    def run_in(self, *command):
        done = subprocess.run(command, cwd=self.guest, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout.decode(errors="replace")[-2000:])
        return done.stdout

    def test_tree_of_files(self):
        self.run_in("cp", "-a", "/usr/include", "include")
        self.run_in("diff", "-r", "--no-dereference", "/usr/include", "include")
        self.run_in("tar", "-cf", "a.tar", "include")
        os.mkdir(self.path("out"))
        self.run_in("tar", "-C", "out", "-xf", "a.tar")
        self.run_in("diff", "-r", "--no-dereference", "include", "out/include")
        self.run_in("rm", "-rf", "include", "out")
        self.assertEqual(os.listdir(self.host), ["a.tar"])

    @unittest.skipUnless(shutil.which("git"), "no git")
    def test_git(self):
        self.run_in("git", "init", "-q", "a")
        for i in range(50):
            with open(self.path(f"a/file{i}"), "w") as f:
                f.write(f"line {i}\n" * i)
        git = ("git", "-C", "a", "-c", "user.name=t", "-c", "user.email=t@example.org")
        self.run_in(*git, "add", ".")
        self.run_in(*git, "commit", "-qm", "one")
        self.run_in("git", "clone", "-q", "a", "b")
        self.run_in("git", "-C", "b", "fsck", "--strict")
        self.run_in("git", "-C", "b", "gc", "-q")
        self.assertEqual(self.run_in("git", "-C", "b", "status", "--porcelain"), b"")

    def test_sqlite(self):
        for mode in ("delete", "wal"):
            db = sqlite3.connect(self.path(f"{mode}.db"))
            db.execute(f"pragma journal_mode={mode}")
            db.execute("create table t (n integer primary key, text)")
            for i in range(20):
                with db:
                    db.executemany("insert into t values (?, ?)", ((i * 100 + j, "x" * j) for j in range(100)))
            self.assertEqual(db.execute("pragma integrity_check").fetchone(), ("ok",))
            db.close()
            db = sqlite3.connect(os.path.join(self.host, f"{mode}.db"))
            self.assertEqual(db.execute("select count(*) from t").fetchone(), (2000,))
            db.close()


del Mounted  # a base only
