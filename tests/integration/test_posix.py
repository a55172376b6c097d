# SPDX-License-Identifier: GPL-2.0-or-later
"""
File system behaviour held against the host's own: one program of several hundred checks (posix/) runs in a directory of the
host at level plain, and in the same places through a microVM: in the root file system and in a volume.
"""
import os
import shutil
import unittest

import harness
from harness import Case

PROGRAM = os.path.join(harness.BUILD, "tests/integration/posix")

# What is not as on the host, by the check's name, and why.
EXCEPTIONS = {
    "special.character_device": "device nodes are refused: no file of the host's may be one that the guest chose",
    "special.character_device_mode": "as above: it is not there",
    "special.block_device": "as above",
    "special.ioctl_flags": "no ioctl is passed to the host",
    "set_id.after_write_sgid_no_exec": "set-group-id without group execution, which gives no privilege, is left alone by a "
                                       "write: so says the protocol (FUSE_HANDLE_KILLPRIV_V2)",
}


def outcomes(text):
    """{check: outcome} of the program's output."""
    return dict(line.split(": ", 1) for line in text.splitlines())


def differences(host, seen):
    return ["%s: '%s' on the host, '%s' through the server" % (name, host.get(name), seen.get(name))
            for name in sorted(set(host) | set(seen)) if host.get(name) != seen.get(name)]


def unexpected(host, seen):
    return [line for line in differences(host, seen) if line.split(":")[0] not in EXCEPTIONS]


class Posix(Case):
    level = "vm"

    def setUp(self):
        super().setUp()
        if not os.access(PROGRAM, os.X_OK):
            self.skipTest("no posix in this build: the sanitized one has no static programs")

    def see(self, level, place):
        """What the program sees at that level in a directory of that name: {check: outcome}."""
        def change(config):
            config["mounts"].append({"destination": "/data", "type": "bind", "source": volume, "options": ["bind"]})
            config["process"]["rlimits"] = [{"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 4096}]
        volume = os.path.join(self.work, "volume-" + level)
        os.mkdir(volume)
        self.bundle("/posix", place, change=change)
        shutil.copy(PROGRAM, self.rootfs)
        os.makedirs(self.rootfs + place)
        done = self.moat("--isolation", level, "run", "--bundle", self.bundle_path, self.new_id(), timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, b""), done.stdout[-500:])
        return outcomes(done.stdout.decode())

    def compare(self, place):
        host, seen = self.see("plain", place), self.see("vm", place)
        self.assertGreater(len(host), 700)
        self.assertEqual(unexpected(host, seen), [])
        # An exception that is none any more is to be deleted.
        self.assertEqual({line.split(":")[0] for line in differences(host, seen)}, set(EXCEPTIONS))

    def test_volume_is_as_on_the_host(self):
        self.compare("/data")

    @unittest.skipUnless(os.environ.get("MOAT_TEST_ALL") == "1", "the same server as for a volume: tests/run --all")
    def test_root_file_system_is_as_on_the_host(self):
        self.compare("/here")
