# SPDX-License-Identifier: GPL-2.0-or-later
"""
systemd as a container's first process, from a bundle: it divides the container's cgroup (v2) among its units, exec goes where
it has gone itself, and ends on its own signal.
"""
import os
import pty
import subprocess
import threading
import unittest

from harness import Case, at_levels
import bundles
import harness
from host import IN_LAB

UNIT = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'echo hello from $(grep ^0:: /proc/self/cgroup)'\n"
TMPFS = (("/run", "755"), ("/run/lock", "1777"), ("/tmp", "1777"), ("/var/log/journal", "755"))

# By level. logind looks for the machine's seats on the kernel's netlink socket for devices, which level sandbox has not.
FAILED = {"sandbox": ["systemd-logind.service"]}


class Init(Case):
    memory = 192 << 20
    packages = bundles.SYSTEMD_PACKAGES

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            raise unittest.SkipTest("systemd in a container wants cgroup v2 alone (use tests/lab/run)")

    def systemd(self, terminal=False):
        """Makes the bundle."""
        def change(config):
            config["process"]["env"].append("container=moat")
            config["process"]["noNewPrivileges"] = False
            config["process"]["terminal"] = terminal
            config["linux"]["namespaces"].append({"type": "cgroup"})
            config["mounts"].append({"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup",
                                     "options": ["nosuid", "noexec", "nodev", "rw"]})
            for path, mode in TMPFS:
                config["mounts"].append({"destination": path, "type": "tmpfs", "source": "tmpfs",
                                         "options": ["nosuid", "nodev", "mode=" + mode]})
        if self.level == "sandbox" and IN_LAB:
            self.bundle("/sbin/init", change=change)
            self.copy_tree()
        else:
            self.bundle("/sbin/init", base="debian", packages=self.packages, change=change)

    def copy_tree(self):
        """For the lab, whose files are shown over virtio-fs and cannot have other owners: what of them systemd needs."""
        subprocess.run("rm -r %s/*; tar -C %s %s -cf - . | tar -C %s -xf -" % (
            self.rootfs, bundles.debian_rootfs(self.packages), " ".join("'--exclude=./%s'" % path for path in bundles.BESIDE_SYSTEMD), self.rootfs),
            shell=True, check=True)

    def set_sandbox(self, *allow):
        if self.level == "sandbox":
            self.settings["sandbox"] = {"allow": allow, "pids": 0}  # no limit: also where there is no controller for it
            self.write_settings()

    def inside(self, name, *command):
        return self.moat("exec", name, *command, timeout=60).stdout.decode()


class Console:
    """A terminal for moat run, and all that was written to it."""

    def __init__(self, test):
        self.own, self.its = pty.openpty()
        self.text = b""
        self.reader = threading.Thread(target=self._collect)
        self.reader.start()
        test.addCleanup(self.close)

    def streams(self):
        return {"stdin": self.its, "stdout": self.its, "stderr": self.its}

    def _collect(self):
        try:
            while data := os.read(self.own, 65536):
                self.text += data
        except OSError:  # EIO: nobody has the other end any more
            pass

    def close(self):
        if self.its >= 0:
            os.close(self.its)
            self.its = -1
            self.reader.join()
            os.close(self.own)

    def read(self):
        """When who wrote to it has ended."""
        self.close()
        return self.text


@at_levels("plain", "sandbox", "vm")
class Boot(Init):
    def test_boot(self):
        console = Console(self) if self.level == "plain" else None
        self.systemd(terminal=bool(console))
        self.set_sandbox("cgroups")
        name = self.new_id()
        with open(os.path.join(self.work, "output"), "w+b") as output:
            streams = console.streams() if console else {"stdout": output, "stderr": output}
            running = self.start_moat("run", "--bundle", self.bundle_path, name, **streams)
            self.wait_until(lambda: self.booted(name, running), "it is up", 60)
            self.wait_until(lambda: self.failed_units(name) == FAILED.get(self.level, []), "what fails is what is to fail", 20)
            self.assertEqual(self.inside(name, "systemctl", "is-system-running").strip(),
                             "degraded" if self.level in FAILED else "running")
            self.unit(name)
            self.ok("pause", name)
            self.ok("resume", name)
            self.ok("kill", name, "SIGRTMIN+3")
            self.assertIn(running.wait(60 * harness.TIME_SCALE), (0, 130))  # 130: where it may call reboot(2)
            output.seek(0)
            self.assertEqual(output.read(), b"")
        if console:
            self.assertIn(b"Welcome to", console.read())

    def booted(self, name, running):
        if running.poll() is not None:
            self.fail("it ended with status %d" % running.returncode)
        return self.inside(name, "systemctl", "is-system-running").strip() in ("running", "degraded")

    def failed_units(self, name):
        return [line.split()[0] for line in self.inside(name, "systemctl", "--failed", "--plain", "--no-legend").splitlines()]

    def unit(self, name):
        """One is started; what it says is in the journal, and that it has a cgroup of its own."""
        self.ok("exec", name, "sh", "-c", "cat > /run/systemd/system/hello.service", input=UNIT.encode())
        self.ok("exec", name, "systemctl", "start", "hello", timeout=60)
        self.wait_until(lambda: self.inside(name, "journalctl", "-q", "-o", "cat", "-t", "sh", "-u", "hello") ==
                        "hello from 0::/system.slice/hello.service\n", "the journal has the unit's output", 20)
        self.assertEqual(self.inside(name, "grep", "^0::", "/proc/self/cgroup"), "0::/init.scope\n")
        self.assertEqual(self.inside(name, "cat", "/sys/fs/cgroup/cgroup.max.descendants"),
                         "1024\n" if self.level == "sandbox" else "max\n")


@at_levels("sandbox")
class Refused(Init):
    def test_without_leave(self):
        """Level sandbox shows cgroups read-only: systemd says so and ends."""
        self.systemd(terminal=True)
        self.set_sandbox()
        console = Console(self)
        running = self.start_moat("run", "--bundle", self.bundle_path, self.new_id(), **console.streams())
        self.assertEqual(running.wait(60 * harness.TIME_SCALE), 255)
        self.assertIn(b"Read-only file system", console.read())
