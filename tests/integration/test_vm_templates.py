# SPDX-License-Identifier: GPL-2.0-or-later
"""Templates: which machines start from one, what such machines share and what not, and files that are no templates."""
import os
import shutil
import signal
import subprocess
import threading
import time

from harness import Case, find_kernel, host
from test_vm_stress import with_name

REPORT = "date +%s; cut -d' ' -f1 /proc/uptime; head -c16 /dev/urandom | od -An -tx1 | tr -d ' \\n'; echo; " \
         "cat /proc/sys/kernel/random/uuid /proc/sys/kernel/random/boot_id; hostname"
HEAD_BYTE = 5000  # of the state of a vCPU
DAMAGE_FROM = 1 << 20  # of the guest's memory


class Templates(Case):
    level = "vm"

    def setUp(self):
        super().setUp()
        self.cache = self.settings["cache"] = os.path.join(self.work, "cache")  # not the one that tests share
        self.directory = os.path.join(self.cache, "templates")
        self.write_settings()

    def kept(self):
        """{name: (inode, when it was used last)} of the templates."""
        found = {}
        for entry in os.scandir(self.directory) if os.path.isdir(self.directory) else ():
            st = entry.stat(follow_symlinks=False)
            found[entry.name] = (st.st_ino, st.st_mtime_ns)
        return found

    def run_ok(self, *flags):
        done = self.run_container(*flags)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout.decode()

    def the_one(self):
        """Path of the only template there is."""
        (name, _), = self.kept().items()
        return os.path.join(self.directory, name)

    def assert_makes(self):
        """The next machine finds no template, and makes one."""
        before = self.kept()
        self.run_ok()
        after = self.kept()
        self.assertEqual(len(after), 1)
        self.assertNotEqual(after, before)
        self.assertEqual(os.stat(self.the_one()).st_mode & 0o7777, 0o600)

    def assert_uses(self):
        """The next machine starts from the template that there is, which therefore becomes younger."""
        path, before = self.the_one(), os.stat(self.the_one())
        self.run_ok()
        self.assertEqual(os.stat(path).st_ino, before.st_ino)
        self.assertGreater(os.stat(path).st_mtime_ns, before.st_mtime_ns)

    def test_machines_of_one_template_differ(self):
        self.bundle("sh", "-c", REPORT, change=lambda c: c.update(hostname="first"))
        outputs = []
        for name in ("first", "second", "third"):
            self.config["hostname"] = name
            self.write_config()
            before = self.kept()
            start = time.time()
            clock, up, *others, told = self.run_ok().split("\n")[:-1]
            self.assertGreaterEqual(int(clock), int(start) - 1)
            self.assertLessEqual(int(clock), time.time() + 1)
            self.assertGreater(float(up), 0)
            self.assertEqual(told, name)
            outputs.append(others)
            if before:  # from the template, which became younger
                self.assertEqual([v[0] for v in self.kept().values()], [v[0] for v in before.values()])
                self.assertGreater(list(self.kept().values()), list(before.values()))
            self.assertEqual(len(self.kept()), 1)
        for first, second, third in zip(*outputs):
            self.assertEqual(len({first, second, third}), 3, outputs)
        self.assertEqual(os.stat(self.directory).st_mode & 0o7777, 0o700)

    def test_two_vcpus(self):
        self.bundle("sh", "-c", "[ $(nproc) = 2 ] && (sleep 0.1 & sleep 0.1 & wait)",
                    change=lambda c: c.update(vm={"hwConfig": {"vcpus": 2}}))
        self.assert_makes()
        self.assert_uses()

    def test_free_memory_takes_no_place(self):
        """What boot left behind in free memory is cleared before: some 4 MiB of 27."""
        self.settings["memory"] = 128 << 20
        self.write_settings()
        self.bundle("true")
        self.assert_makes()
        self.assertLess(os.stat(self.the_one()).st_size, 25 << 20)

    def test_files_that_are_no_templates(self):
        self.bundle("true")
        self.assert_makes()
        with open(self.the_one(), "r+b") as f:
            f.seek(HEAD_BYTE)
            byte = f.read(1)[0]
            f.seek(HEAD_BYTE)
            f.write(bytes([byte ^ 1]))
        self.run_ok()  # it is found out, and goes
        self.assertEqual(self.kept(), {})
        self.assert_makes()
        path = self.the_one()
        os.truncate(path, os.stat(path).st_size - 4096)
        self.run_ok()
        self.assertEqual(self.kept(), {})
        os.symlink("/etc/passwd", path)
        self.assert_makes()
        self.assertFalse(os.path.islink(path))
        os.chmod(path, 0o644)  # who knows who wrote to it
        self.assert_makes()
        self.assert_uses()

    def test_files_that_are_damaged(self):
        """What no checksum covers shows only in a guest that dies: it takes the template with it."""
        self.bundle("true")
        self.assert_makes()
        path = self.the_one()
        with open(path, "r+b") as f:  # all but the head
            f.seek(DAMAGE_FROM)
            f.write(bytes(os.stat(path).st_size - DAMAGE_FROM))
        done = self.run_container(timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"the template that such machines start from is removed", done.stderr)
        self.assertEqual(self.kept(), {})
        self.assert_makes()
        self.assert_uses()

    def test_what_others_put_there(self):
        """It neither counts nor goes, nor keeps templates from going; only what has a template's place makes room, where it can."""
        self.settings["templates"] = 1
        self.write_settings()
        self.bundle("true")
        self.assert_makes()
        path = self.the_one()
        os.unlink(path)
        planted = [os.path.join(self.directory, name) for name in ("directory", "0" * 16, "1" * 16, "notes")]
        for directory in planted[:2]:
            os.makedirs(os.path.join(directory, "inner"))
            os.utime(directory, (0, 0))
        os.symlink("/etc/passwd", planted[2])
        os.mkfifo(planted[3])
        os.utime(planted[3], (0, 0))
        os.mkdir(path)
        self.run_ok()
        self.assertTrue(os.path.isfile(path))
        os.unlink(path)
        os.mkfifo(path)
        self.run_ok()
        self.assertTrue(os.path.isfile(path))
        os.chown(path, 4711, 4711)
        inode = os.stat(path).st_ino
        self.run_ok()
        self.assertNotEqual(os.stat(path).st_ino, inode)
        self.assertEqual(os.stat(path).st_uid, 0)
        self.settings["memory"] = self.memory + (2 << 20)
        self.write_settings()
        self.run_ok()
        self.assertFalse(os.path.exists(path), "the limit is one")
        self.assertEqual(len(self.kept()), len(planted) + 1)
        for other in planted:
            self.assertTrue(os.path.lexists(other))
        made, = set(self.kept()) - {os.path.basename(other) for other in planted}
        os.unlink(os.path.join(self.directory, made))
        os.makedirs(os.path.join(self.directory, made, "inner"))  # what is not empty stays: no template, and no harm
        self.run_ok()
        self.assertTrue(os.path.isdir(os.path.join(self.directory, made, "inner")))

    def test_cache_of_others(self):
        """A link, a FIFO, somebody else's directory: machines start without it, and nothing is written there."""
        self.bundle("true")
        elsewhere = os.path.join(self.work, "elsewhere")
        os.makedirs(os.path.join(elsewhere, "templates"), 0o700)
        os.symlink(elsewhere, self.cache)
        self.run_ok()
        os.unlink(self.cache)
        os.mkfifo(self.cache)
        self.run_ok()
        os.unlink(self.cache)
        os.mkdir(self.cache, 0o700)
        os.symlink(os.path.join(elsewhere, "templates"), self.directory)
        self.run_ok()
        os.unlink(self.directory)
        os.chown(self.cache, 4711, 4711)
        self.run_ok()
        self.assertEqual(os.listdir(os.path.join(elsewhere, "templates")), [])
        self.assertFalse(os.path.exists(self.directory))

    def test_full_disk(self):
        os.mkdir(self.cache, 0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", self.cache], check=True)
        self.addCleanup(self._unmount, self.cache)
        os.chmod(self.cache, 0o700)
        self.bundle("true")
        for _ in range(2):
            self.run_ok()
            self.assertEqual(self.kept(), {})
            status = os.statvfs(self.cache)
            self.assertGreater(status.f_bavail, status.f_blocks // 2, "nothing of it is kept")

    def test_kernel_written_to_in_place(self):
        """A machine that runs has its own; a template of the old one is not used with the new one, nor one made meanwhile."""
        self.settings["kernel"] = os.path.join(self.work, "kernel")
        shutil.copy(find_kernel(), self.settings["kernel"])
        self.write_settings()
        self.bundle("sleep", "1000")
        name = self.new_id()
        process = self.start_moat("run", "--bundle", self.bundle_path, name, stderr=subprocess.PIPE)
        self.wait_until(lambda: b'"running"' in self.moat("state", name).stdout, "it runs", 30)
        old = set(self.kept())
        self.assertEqual(len(old), 1)
        over = threading.Event()

        def touch():
            while not over.wait(0.01):
                os.utime(self.settings["kernel"])
        toucher = threading.Thread(target=touch)
        toucher.start()
        self.config["process"]["args"] = ["true"]
        self.write_config()
        self.run_ok()
        over.set()
        toucher.join()
        self.assertEqual(set(self.kept()), old)
        with open(self.settings["kernel"], "ab") as f:
            f.write(b"new")
        self.run_ok()
        new = set(self.kept())
        self.assertEqual(len(new), 2)
        self.run_ok()
        self.assertEqual(set(self.kept()), new)
        self.ok("exec", name, "true")
        os.truncate(self.settings["kernel"], 8192)
        _, said = process.communicate(timeout=30 * host.TIME_SCALE)
        self.assertEqual(process.returncode, 137)
        self.assertIn(b"its kernel's file was cut off while it ran", said)

    def test_killed_while_it_is_made(self):
        """Whoever it is: there is a whole template or none, and the next machine starts."""
        self.bundle("true")
        began = time.monotonic()
        self.assert_makes()
        span = time.monotonic() - began
        for i, role in enumerate(("moat", "moat-monitor", "moat-vmm", "moat-fsd")):
            with self.subTest(role):
                shutil.rmtree(self.directory)
                name = self.new_id()
                process = self.start_moat("run", "--bundle", self.bundle_path, name, stderr=subprocess.DEVNULL)
                self.wait_until(lambda: with_name("moat-vmm"), "there is a vmm")
                time.sleep(span * i / 8)
                for pid in with_name(role) if role != "moat" else [process.pid]:
                    os.kill(pid, signal.SIGKILL)
                process.wait(timeout=30 * host.TIME_SCALE)
                self.ok("delete", "--force", name)
                self.wait_until(lambda: not with_name("moat-vmm"), "its processes have ended")
                if not self.kept():
                    self.assert_makes()
                self.assert_uses()

    def test_directory_of_others(self):
        self.bundle("true")
        os.makedirs(self.directory)
        os.chmod(self.directory, 0o755)
        self.run_ok()
        self.assertEqual(self.kept(), {})

    def test_none(self):
        self.bundle("true")
        self.ok("--debug", "--log", os.path.join(self.work, "log"), "run", "--bundle", self.bundle_path, self.new_id())
        self.assertEqual(self.kept(), {})
        self.settings["templates"] = 0
        self.write_settings()
        self.run_ok()
        self.assertFalse(os.path.exists(self.directory))

    def test_limit(self):
        self.settings["templates"] = 1
        self.write_settings()
        self.bundle("true")
        self.assert_makes()
        first = self.kept()
        self.settings["memory"] = self.memory + (2 << 20)
        self.write_settings()
        self.assert_makes()
        self.assertFalse(set(first) & set(self.kept()))

    def test_several_at_once(self):
        """None is there yet: one makes it, and the others do not wait for that."""
        self.bundle("echo", "x")
        started = [self.start_moat("run", "--bundle", self.bundle_path, self.new_id(), stdout=-1, stderr=-1) for _ in range(4)]
        for process in started:
            self.assertEqual(process.communicate(timeout=120 * host.TIME_SCALE), (b"x\n", b""))
        self.assertEqual(len(self.kept()), 1)
        self.assert_uses()
