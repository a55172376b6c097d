# SPDX-License-Identifier: GPL-2.0-or-later
"""The first sessions of README.md, as they are written there, but for the level."""
import os
import re
import subprocess
import unittest

import bundles
import engines
import harness
import host
import machine
import table
from base import on

KERNEL = os.uname().release


def session(name):
    """The code under the heading ### name."""
    with open(os.path.join(harness.TOP, "README.md")) as f:
        text = f.read()
    return re.search(r"(?ms)^### %s$.*?^```$(.*?)^```$" % name, text).group(1).strip()


@on("podman", "docker", "containerd", versions=False)
class Readme(unittest.TestCase):
    engine_name = family = level = None

    @classmethod
    def setUpClass(cls):
        reason = engines.KINDS[cls.engine_name].why_not() or harness.why_no_level(cls.level)
        if reason:
            raise unittest.SkipTest(table.LOCAL + reason)

    def setUp(self):
        self.home = os.path.join(machine.HOME, "readme-%s-%s" % (self.engine_name, self.level))
        os.makedirs(os.path.join(self.home, "web"))
        bundles.busybox_rootfs(os.path.join(self.home, "web/rootfs"))
        self.environment = dict(os.environ, PATH=self.home + ":" + engines.BIN + ":" + os.environ["PATH"])
        self.containers_conf()
        self.addCleanup(subprocess.run, ["podman", "system", "reset", "--force"], env=self.environment, capture_output=True)

    def containers_conf(self):
        """podman as it would be set up on this machine anyway, which has neither systemd nor all capabilities."""
        os.makedirs("/etc/containers", exist_ok=True)
        machine.write("/etc/containers/storage.conf", '[storage]\ndriver = "overlay"\ngraphroot = "%s/graph"\nrunroot = "%s/run"\n'
                      % (self.home, self.home))
        machine.write("/etc/containers/containers.conf", '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n'
                      '[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n')

    def daemon(self, *command, asking):
        """A daemon with what is not the README's business on its command line."""
        self.engine = engines.Engine.__new__(engines.Engine)
        self.engine.home, self.engine.environment, self.engine.program = self.home, self.environment, asking[:1]
        self.engine.start_daemon(list(command), *asking[1:])
        self.addCleanup(self.engine.stop)

    def start_daemon(self):
        if self.family == "docker":
            os.makedirs("/etc/docker", exist_ok=True)
            machine.write("/etc/docker/daemon.json", "{}")
            self.daemon("dockerd", "--data-root", self.home + "/data", "--exec-root", self.home + "/exec", "--bridge", "none",
                        "--iptables=false", asking=("docker", "version"))
            path = os.path.join(self.home, "systemctl")
            machine.write(path, "#!/bin/sh\ntest \"$*\" = 'reload docker' && kill -HUP %d && sleep 1\n" % self.engine.daemon.pid)
            os.chmod(path, 0o755)
        elif self.family == "containerd":
            config = os.path.join(self.home, "config.toml")
            machine.write(config, 'version = 2\nroot = "%s/data"\n' % self.home)
            self.daemon("containerd", "--config", config, asking=("ctr", "version"))

    def run_session(self, text):
        text = re.sub(r"--runtime moat\b", "--runtime " + os.path.basename(engines.binary(self.level)), text)
        text = text.replace("command -v moat", "command -v " + os.path.basename(engines.binary(self.level)))
        done = subprocess.run(["bash", "-ec", text], cwd=self.home, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120 * host.TIME_SCALE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_session(self):
        """the README's first session"""
        self.start_daemon()
        if self.family == "containerd":
            self.run_session(next(line for line in session("podman").splitlines() if "podman import" in line))
        out = self.run_session(session(self.engine_name)).splitlines()
        seen = [line for line in out if re.match(r"\d+\.\d+\.\d+", line)]
        self.assertEqual(len(seen), 1, out)
        self.assertEqual(seen[0] == KERNEL, self.level != "vm")
        if self.family != "containerd":
            self.assertIn("started", out)
