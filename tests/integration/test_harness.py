# SPDX-License-Identifier: GPL-2.0-or-later
"""The check for leftovers must itself see what a test leaves."""
import os
import subprocess
import tempfile
import unittest

import host


class Leftovers(unittest.TestCase):
    def setUp(self):
        self.before = host.Snapshot()

    def left(self, kind, word):
        found = self.before.leftovers()
        self.assertEqual(len([line for line in found if line.startswith(kind) and word in line]), 1, found)

    def tearDown(self):
        self.assertEqual(self.before.settle(), [])

    def test_nothing(self):
        self.assertEqual(self.before.leftovers(), [])

    def test_process(self):
        with subprocess.Popen(["sleep", "4321"]) as process:
            self.left("process %d:" % process.pid, "sleep 4321")
            process.kill()

    def test_orphan(self):
        out = subprocess.run(["sh", "-c", "sleep 4321 >/dev/null 2>&1 & echo $!"], capture_output=True, check=True)
        pid = int(out.stdout)
        self.left("process %d:" % pid, "sleep 4321")
        os.kill(pid, 9)

    def test_file(self):
        for top in ("/tmp", "/run", "/dev/shm"):
            with tempfile.NamedTemporaryFile(dir=top) as f:
                self.left("file", f.name)

    def test_mount(self):
        with tempfile.TemporaryDirectory() as path:
            subprocess.run(["mount", "-t", "tmpfs", "none", path], check=True)
            self.left("mount", path)
            subprocess.run(["umount", path], check=True)

    def test_mount_that_went(self):
        with tempfile.TemporaryDirectory() as path:
            subprocess.run(["mount", "-t", "tmpfs", "none", path], check=True)
            self.before = host.Snapshot()
            subprocess.run(["umount", path], check=True)
            self.left("mount gone", path)
            self.before = host.Snapshot()
        self.before = host.Snapshot()

    def test_cgroup(self):
        for root in host.cgroup_roots():
            path = os.path.join(root, host.RUN_TAG + "-x")
            try:
                os.mkdir(path)
            except OSError:
                continue
            self.left("cgroup", path)
            os.rmdir(path)

    def test_interface(self):
        done = subprocess.run(["ip", "tuntap", "add", "moattap0", "mode", "tap"], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest("no tap device: " + done.stderr.strip())
        self.left("interface", "moattap0")
        subprocess.run(["ip", "link", "del", "moattap0"], check=True)

    def test_nft_table(self):
        done = subprocess.run(["nft", "add", "table", "netdev", "moat_x"], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest("no nftables: " + done.stderr.strip())
        self.left("nft", "moat_x")
        subprocess.run(["nft", "delete", "table", "netdev", "moat_x"], check=True)
