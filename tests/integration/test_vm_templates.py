# SPDX-License-Identifier: GPL-2.0-or-later
"""Templates: which machines start from one, what such machines share and what not, and files that are no templates."""
import os
import time

from harness import Case, host

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
        """None is there yet: each makes one, and one of these stays."""
        self.bundle("echo", "x")
        started = [self.start_moat("run", "--bundle", self.bundle_path, self.new_id(), stdout=-1, stderr=-1) for _ in range(4)]
        for process in started:
            self.assertEqual(process.communicate(timeout=120 * host.TIME_SCALE), (b"x\n", b""))
        self.assertEqual(len(self.kept()), 1)
        self.assert_uses()
