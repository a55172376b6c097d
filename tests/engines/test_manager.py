# SPDX-License-Identifier: GPL-2.0-or-later
"""
Engines that leave cgroups to systemd, as they do on most machines: a container's is a scope, whose limits are properties that
systemd knows, and which goes with the container.
"""
import json

import engines
import table
from base import EngineCase, on
from images import BUSYBOX

MIB = 1 << 20


@on("podman", "docker", "containerd", versions=False)
class Manager(EngineCase):
    kinds = engines.MANAGED

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.systemd = cls.engine.systemd

    def setUp(self):
        super().setUp()
        self.limited = "memory" in self.systemd.controllers()
        if not self.limited and not (self.family == "docker" and self.level == "plain"):
            self.skipTest(table.LOCAL + "cgroup v2 has no controllers here, for the limits that there always are")

    def show(self, *names):
        return self.systemd.show(self.unit, *names)

    def file(self, name):
        return self.systemd.inside("cat", "/sys/fs/cgroup%s/%s" % (self.show("ControlGroup"), name)).stdout.decode().strip()

    def begin(self, *args):
        """Starts a container with limits, where there are controllers for them; the name of its unit is in self.unit."""
        if self.family == "containerd":
            name = self.name()
            self.cli("run", "--detach", "--runc-binary", engines.binary(self.level), "--runc-systemd-cgroup", "--cgroup",
                     "system.slice:ctr:" + name, "--memory-limit", str(64 * MIB), "--cpus", "0.5", BUSYBOX, name, *args)
            self.unit = "ctr-%s.scope" % name
            return name
        limits = ["--memory", "64m", "--cpus", "0.5", "--pids-limit", "60"] if self.limited else []
        name = self.start(*args, flags=limits)
        self.unit = "%s-%s.scope" % ({"podman": "libpod"}.get(self.family, self.family), self.inspect(name, "{{.Id}}"))
        return name

    def exec(self, name, *args):
        more = ("task",) if self.family == "containerd" else ()
        return self.cli(*more, "exec", *(("--exec-id", self.name("e")) if more else ()), name, *args)

    def test_life(self):
        """cgroups by systemd: run, exec, stats, pause, stop; limits are the unit's"""
        name = self.begin("sh", "-c", "trap 'exit 5' TERM; while :; do sleep 0.1; done")
        self.assertEqual(self.show("ActiveState", "Delegate"), ["active", "yes"])
        if self.limited:
            self.check_limits(name)
        self.assertEqual(self.exec(name, "sh", "-c", "sleep 0.3; echo in"), "in\n")
        self.check_stats(name)
        self.check_pause(name)
        if self.family == "docker" and self.limited:
            self.check_update(name)
        self.check_end(name)
        self.wait_until(lambda: self.show("LoadState") == "not-found", "the unit is gone")
        self.assertEqual(self.systemd.inside("find", "/sys/fs/cgroup", "-name", self.unit).stdout, b"")

    def check_limits(self, name):
        memory = int(self.show("MemoryMax"))
        self.assertEqual(self.file("memory.max"), str(memory))
        self.assertEqual(self.show("CPUQuotaPerSecUSec"), "500ms")
        if self.level != "vm":
            self.assertEqual(memory, 64 * MIB)
            if self.family != "containerd":
                self.assertEqual((self.show("TasksMax"), self.file("pids.max")), ("60", "60"))
            return
        self.assertGreater(memory, 64 * MIB)  # with the machine's own; the workload's is in it
        if self.family != "containerd":  # ctr's configurations mount no cgroup file system
            self.assertEqual(self.exec(name, "sh", "-c", "sleep 0.3; cat /sys/fs/cgroup/memory.max"), "%d\n" % (64 * MIB))

    def check_update(self, name):
        self.cli("update", "--memory", "48m", "--memory-swap", "96m", "--pids-limit", "50", name)
        if self.level == "vm":
            self.assertEqual(self.exec(name, "cat", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/pids.max"), "%d\n50\n" % (48 * MIB))
            return
        self.assertEqual(self.show("MemoryMax", "TasksMax"), [str(48 * MIB), "50"])
        self.assertEqual(self.file("memory.max"), str(48 * MIB))
        self.systemd.inside("systemctl", "daemon-reload")  # after which systemd writes what it knows
        self.assertEqual(self.file("memory.max"), str(48 * MIB))

    def check_stats(self, name):
        if not self.limited:
            return
        if self.family == "containerd":
            metrics = json.loads(self.cli("task", "metrics", "--format", "json", name))
            self.assertGreater(int(metrics["memory"]["usage"]), 10000)
            return
        text = self.cli("stats", "--no-stream", "--format", "{{.MemUsage}};{{.PIDs}}", name).strip()
        self.assertRegex(text, r"^[1-9][0-9.]* ?[kKM]i?B.*;[1-9]")

    def check_pause(self, name):
        more = ("task",) if self.family == "containerd" else ()
        self.cli(*more, "pause", name)
        if self.level != "vm":  # there the machine's processors stand still, and its processes wait
            self.wait_until(lambda: "frozen 1" in self.file("cgroup.events"), "it is frozen")
        self.cli(*more, "resume" if more else "unpause", name)
        self.assertIn("frozen 0", self.file("cgroup.events"))
        self.assertEqual(self.exec(name, "sh", "-c", "sleep 0.3; echo on"), "on\n")

    def check_end(self, name):
        if self.family != "containerd":
            self.cli("stop", "-t", "30", name)
            self.assertEqual(self.inspect(name, "{{.State.ExitCode}}"), "5")
            self.remove(name)
            return
        self.cli("task", "kill", "-s", "TERM", name)
        self.wait_until(lambda: "STOPPED" in self.cli("task", "ls"), "it is stopped")
        self.assertIn("code 5", self.engine.call("task", "delete", name).stderr)
        self.cli("container", "delete", name)
