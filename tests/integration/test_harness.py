# SPDX-License-Identifier: GPL-2.0-or-later
"""The check for leftovers must itself see what a test leaves."""
import os
import subprocess
import tempfile
import time
import unittest

import harness
import host


class Leftovers(unittest.TestCase):
    def setUp(self):
        self.before = host.Snapshot()

    def left(self, kind, word):
        deadline = time.monotonic() + 10 * host.TIME_SCALE  # for a moment, a program that was just started has no arguments
        while True:
            found = self.before.leftovers()
            count = len([line for line in found if line.startswith(kind) and word in line])
            if count == 1:
                return
            self.assertLess(time.monotonic(), deadline, found)
            time.sleep(0.01)

    def tearDown(self):
        self.assertEqual(self.before.settle(), [])

    def test_nothing(self):
        self.assertEqual(self.before.leftovers(), [])

    def test_process(self):
        with subprocess.Popen(["sleep", "4321"]) as process:
            try:
                self.left("process %d:" % process.pid, "sleep 4321")
            finally:
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


if harness.SANITIZED:
    class Sanitizers(harness.Case):
        PROGRAM = """
#include <stdlib.h>
int main(int argc, char **argv)
{
	volatile char *p = malloc(3);
	int shift = argc == 2 ? 40 : 0;
	if (argc == 1)
		p[3] = 1;
	if (argc == 2)
		return argc << shift;
	p = NULL;
	return 0;
}
"""

        def test_reports_are_seen(self):
            """Of memory out of bounds, of what C does not define, of memory that was not freed."""
            program = os.path.join(self.work, "program")
            subprocess.run(["cc", "-x", "c", "-fsanitize=address,undefined", "-o", program, "-"], input=self.PROGRAM.encode(), check=True)
            for arguments, word in (([], "heap-buffer-overflow"), (["x"], "shift exponent 40"), (["x", "x"], "LeakSanitizer")):
                done = subprocess.run([program, *arguments], capture_output=True, text=True)
                self.assertNotIn(done.returncode, (0, 2))
                self.assertIn(word, "".join(self._sanitizer_reports()) + done.stderr)
                for name in os.listdir(self.reports):
                    os.unlink(os.path.join(self.reports, name))
