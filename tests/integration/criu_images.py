# SPDX-License-Identifier: GPL-2.0-or-later
"""Checkpoints in tests: whether CRIU works here, and a container that is saved and comes back."""
import os
import subprocess
import unittest

from harness import Case
import host

COUNT = "i=0; while :; do i=$((i+1)); echo $i >/count; sleep 0.1; done"


def why_no_criu():
    """None where CRIU works, else its own first words."""
    try:
        done = subprocess.run(["criu", "check"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError:
        return "no criu: run contrib/install-packages"
    return None if done.returncode == 0 else "CRIU does not work here: %s" % (done.stdout.splitlines() or ["?"])[0]


def criu_runs():
    """Whether a CRIU that moat has started is still there."""
    return any("criu swrk" in command or "criu: " in command for command in host.processes().values())


class Images(Case):
    """What the tests here share."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        reason = why_no_criu()
        if reason:
            raise unittest.SkipTest(reason)

    def setUp(self):
        super().setUp()
        self.images = os.path.join(self.work, "images")

    def running(self, *args, **options):
        """A started container of args; its streams are /dev/null."""
        self.bundle(*args, **options)
        name = self.create(stderr=subprocess.DEVNULL)
        self.ok("start", name)
        return name

    def checkpoint(self, name, *flags, images=None):
        return self.ok("checkpoint", "--image-path", images or self.images, *flags, name, timeout=60)

    def restore(self, *flags, name=None, images=None, **options):
        name = name or self.new_id()
        options.setdefault("stdout", subprocess.DEVNULL)
        options.setdefault("stderr", subprocess.DEVNULL)
        done = self.moat("restore", "--detach", "--bundle", self.bundle_path, "--image-path", images or self.images,
                         *flags, name, timeout=60, **options)
        if done.returncode != 0:
            with open(os.path.join(images or self.images, "restore.log")) as f:
                self.fail("not restored:\n" + "".join(line for line in f if "Error" in line))
        return name

    def count(self):
        try:
            with open(os.path.join(self.rootfs, "count")) as f:
                return int(f.read() or 0)
        except FileNotFoundError:
            return 0

    def goes_on(self, least=0):
        """Waits until the counter is beyond least and counts."""
        self.wait_until(lambda: self.count() > least, "the counter is beyond %d" % least)
        now = self.count()
        self.wait_until(lambda: self.count() > now, "the counter goes on")

    def read_until(self, fd, text):
        got = b""
        while text not in got:
            got += os.read(fd, 1000)
        return got
