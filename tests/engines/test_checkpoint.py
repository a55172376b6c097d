# SPDX-License-Identifier: GPL-2.0-or-later
"""Checkpoint and restore as engines offer them."""
import glob
import os
import shutil
import subprocess
import unittest

import table
from base import EngineCase, on

COUNT = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.2; done"


def why_no_criu():
    try:
        done = subprocess.run(["criu", "check"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError:
        return "no criu"
    return None if done.returncode == 0 else "CRIU does not work here: " + (done.stderr.splitlines() or ["?"])[0]


class Counting(EngineCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        reason = why_no_criu()
        if reason:
            raise unittest.SkipTest(table.LOCAL + reason)

    def counting(self):
        name = self.start("sh", "-c", COUNT)
        self.wait_until(lambda: self.last(name) > 3, "it counts")
        return name

    def last(self, name):
        lines = self.logs(name).split()
        return int(lines[-1]) if lines else 0

    def goes_on(self, name, before):
        self.wait_until(lambda: self.last(name) > before + 1, "it goes on after %d" % before)
        numbers = [int(line) for line in self.logs(name).split()]
        self.assertNotIn(1, numbers[1:], "it began anew")


@on("podman", levels=["plain"])
class Podman(Counting):
    def test_checkpoint_and_restore(self):
        """container checkpoint and restore"""
        name = self.counting()
        self.cli("container", "checkpoint", name)
        self.assertEqual(self.inspect(name, "{{.State.Status}} {{.State.Checkpointed}}"), "exited true")
        before = self.last(name)
        self.cli("container", "restore", name)
        self.assertEqual(self.inspect(name, "{{.State.Status}}"), "running")
        self.goes_on(name, before)
        self.assertEqual(self.cli("exec", name, "echo", "in"), "in\n")
        self.remove(name)

    def test_leave_running(self):
        """container checkpoint --leave-running"""
        name = self.counting()
        self.cli("container", "checkpoint", "--leave-running", name)
        before = self.last(name)
        self.goes_on(name, before)
        self.remove(name)

    def test_export(self):
        """container checkpoint --export, restore --import under another name"""
        name = self.counting()
        archive = os.path.join(self.work, "image.tar.gz")
        self.cli("container", "checkpoint", "--export", archive, name)
        before = self.last(name)
        self.remove(name)
        other = self.name()
        self.cli("container", "restore", "--import", archive, "--name", other)
        self.wait_until(lambda: self.last(other) > before, "it goes on after %d" % before)
        self.remove(other)


@on("podman", levels=["sandbox", "vm"])
class Elsewhere(Counting):
    def test_refused(self):
        """container checkpoint where the level has none: the reason is shown"""
        name = self.counting()
        self.cli("container", "checkpoint", name, status=125, says="level " + self.level)
        self.remove(name)


@on("docker", levels=["plain"])
class Docker(Counting):
    def test_checkpoint_and_start(self):
        """checkpoint create, start --checkpoint"""
        self.addCleanup(self.remove_copies)
        name = self.counting()
        self.cli("checkpoint", "create", name, "first")
        self.assertEqual(self.inspect(name, "{{.State.Status}}"), "exited")
        before = self.last(name)
        self.cli("start", "--checkpoint", "first", name)
        self.goes_on(name, before)
        self.remove(name)

    def remove_copies(self):
        """containerd 1.6 forgets the copy that it makes of an image."""
        for path in glob.glob("/tmp/ctrd-checkpoint*"):
            shutil.rmtree(path)
