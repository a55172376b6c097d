# SPDX-License-Identifier: GPL-2.0-or-later
"""
systemd as a container's first process, from Debian's package: booted, a unit started, its output in the journal, ended by the
signal that an engine sends. Where an engine or a level shows cgroups read-only, what opens them is part of the test.
"""
import json
import os

import bundles
import engines
import images
import machine
import table
from base import EngineCase, long, on

IMAGE = "localhost/systemd:latest"
# What podman does by itself, for docker. Its cgroup file system is read-only but for whoever may mount it anew.
FOR_DOCKER = ["--cap-add", "SYS_ADMIN", "--cgroupns", "private", "--tmpfs", "/run", "--tmpfs", "/run/lock", "--tmpfs", "/tmp",
              "--stop-signal", "SIGRTMIN+3", "--env", "container=docker", "--security-opt", "seccomp=unconfined"]
UNIT = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'echo hello from $(grep ^0:: /proc/self/cgroup)'\n"


class Init(EngineCase):
    imported = set()
    packages = bundles.SYSTEMD_PACKAGES

    def setUp(self):
        super().setUp()
        if not os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            self.skipTest(table.LOCAL + "systemd in a container wants cgroup v2 alone")

    def image(self):
        """Imported once for an engine and level."""
        if id(self.engine) not in self.imported:
            self.engine.must("import", "--change", 'CMD ["/sbin/init"]', images.systemd_tar(machine.HOME), IMAGE, timeout=120)
            self.imported.add(id(self.engine))
        return IMAGE

    def allow_cgroups(self):
        """The operator's leave, which level sandbox asks for."""
        before = machine.read(engines.SETTINGS)
        self.addCleanup(machine.write, engines.SETTINGS, before)
        machine.write(engines.SETTINGS, json.dumps({**json.loads(before), "sandbox": {"allow": ["cgroups"]}}))


@on("podman")
class Prepared(Init):
    def test_prepared(self):
        """run --systemd=always: tmpfs, writable cgroups"""
        if self.level == "sandbox":
            self.allow_cgroups()
        out = self.run_("sh", "-c", "echo $container; grep -c -e ' /run tmpfs' -e ' /run/lock tmpfs' /proc/mounts; "
                        "mkdir /sys/fs/cgroup/inner && echo 1 > /sys/fs/cgroup/inner/cgroup.procs && grep ^0:: /proc/self/cgroup",
                        flags=["--systemd", "always"])
        self.assertEqual(out, "podman\n2\n0::/inner\n")


@on("podman", levels=("sandbox",))
class Closed(Init):
    @long
    def test_closed(self):
        """systemd where sandbox.allow has no cgroups: it ends, and says why"""
        done = self.engine.call("run", "--rm", *self.flags(["-t"]), self.image(), "/sbin/init")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("Read-only file system", done.stdout + done.stderr)


@on("podman", "docker")
class Boot(Init):
    @long
    def test_systemd(self):
        """systemd as the first process (docker: with --cap-add SYS_ADMIN)"""
        if self.family == "docker":
            self.kept_from("--cap-add", "SYS_ADMIN", levels=["sandbox"], says="CAP_SYS_ADMIN")
            flags, command = FOR_DOCKER, ["sh", "-c", "mount -o remount,bind,rw /sys/fs/cgroup && exec /sbin/init"]
        else:
            flags, command = [], ["/sbin/init"]  # by which podman knows it
            if self.level == "sandbox":
                self.allow_cgroups()
        if self.level == "vm":
            flags = [*flags, "--memory", "256m"]
        name = self.start(*command, flags=flags, image=self.image())
        self.wait_until(lambda: self.booted(name), "it is up", 60)
        # logind looks for the machine's seats on the kernel's netlink socket for devices, which level sandbox has not.
        failed = ["systemd-logind.service"] if self.level == "sandbox" else []
        self.wait_until(lambda: self.failed_units(name) == failed, "what fails is what is to fail", 20)
        self.cli("exec", "-i", name, "sh", "-c", "cat > /run/systemd/system/hello.service", input=UNIT)
        self.cli("exec", name, "systemctl", "start", "hello", timeout=120)
        self.wait_until(lambda: self.cli("exec", name, "journalctl", "-q", "-o", "cat", "-t", "sh", "-u", "hello") ==
                        "hello from 0::/system.slice/hello.service\n", "the journal has the unit's output", 20)
        self.cli("exec", name, "systemd-run", "--wait", "--quiet", "sh", "-c", "echo more > /run/more", timeout=120)
        self.assertEqual(self.cli("exec", name, "cat", "/run/more"), "more\n")
        self.cli("stop", "-t", "60", name, timeout=120)  # SIGRTMIN+3
        self.assertIn(self.inspect(name, "{{.State.ExitCode}}"), ("0", "130"))  # 130: where it may call reboot(2)

    def failed_units(self, name):
        return [line.split()[0] for line in self.cli("exec", name, "systemctl", "--failed", "--plain", "--no-legend").splitlines()]

    def booted(self, name):
        self.assertEqual(self.inspect(name, "{{.State.Status}}"), "running", self.logs(name))
        return self.engine.call("exec", name, "systemctl", "is-system-running").stdout.strip() in ("running", "degraded")
