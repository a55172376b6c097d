# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands in a running container, as far as level vm does them in a way of its own."""
import os
import signal
import subprocess

from harness import SANITIZED, host
from test_vm_machine import Running, roles, status_of


class Standin(Running):
    """The process of the host that stands for one of exec."""

    def run_standin(self, name, *args):
        path = os.path.join(self.work, "pid")
        self.ok("exec", "--detach", "--pid-file", path, name, *args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(path) as f:
            return int(f.read())

    def test_holds_nothing(self):
        name = self.start("sleep", "1000")
        pid = self.run_standin(name, "sleep", "2000")
        state = status_of(pid)
        self.assertEqual((state["Name"], state["NoNewPrivs"]), ("moat-standin", "1"))
        self.assertEqual(int(state["CapPrm"], 16) | int(state["CapBnd"], 16), 0)
        if not SANITIZED:
            self.assertEqual(state["Seccomp"], "2")
        targets = {os.readlink("/proc/%d/fd/%s" % (pid, fd)).split(":")[0] for fd in os.listdir("/proc/%d/fd" % pid)}
        self.assertEqual(targets, {"/dev/null", "socket", "anon_inode"})
        with open("/proc/%d/cgroup" % pid) as ours, open("/proc/%d/cgroup" % self.pid(name)) as monitors:
            self.assertEqual(ours.read(), monitors.read())
        self.finish(name)
        self.wait_until(lambda: not os.path.exists("/proc/%d" % pid), "it has ended with the machine")

    def test_without_monitor(self):
        """All end, whoever dies."""
        name = self.start("sleep", "1000")
        pids = [self.run_standin(name, "sleep", "2000"), *roles(self.pid(name)).values()]
        os.kill(self.pid(name), signal.SIGKILL)
        self.wait_until(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in pids[:1] + pids[2:]), "all have ended")
        self.ok("delete", name)

    def test_caller_that_dies(self):
        """moat exec is killed: what it stood for goes, too, as it was never told to be in the background."""
        name = self.start("sleep", "1000")
        process = self.start_moat("exec", name, "sh", "-c", "echo ready; exec sleep 2000", stdout=-1)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        standin = host.children_of(process.pid)
        self.assertEqual(len(standin), 1)
        os.kill(standin[0], signal.SIGKILL)
        self.assertEqual(process.wait(20 * host.TIME_SCALE), 137)
        self.wait_until(lambda: b"sleep 2000" not in self.ok("exec", name, "ps").stdout, "it has ended")
        self.finish(name)

    def test_many(self):
        """One after the other, and none is left."""
        name = self.start("sleep", "1000")
        for i in range(20):
            self.assertEqual(self.moat("exec", name, "sh", "-c", "echo %d; exit %d" % (i, i)).returncode, i)
        self.assertEqual(len(host.children_of(self.pid(name))), 2)
        fds = len(os.listdir("/proc/%d/fd" % self.pid(name)))
        self.ok("exec", name, "true")
        self.assertEqual(len(os.listdir("/proc/%d/fd" % self.pid(name))), fds)
        self.finish(name)

    def test_output_that_nobody_reads(self):
        """It keeps neither the status back nor the end of the container."""
        name = self.start("sleep", "1000")
        reader, writer = os.pipe()
        process = self.start_moat("exec", name, "dd", "if=/dev/zero", "bs=1k", "count=150", stdout=writer, stderr=subprocess.DEVNULL)
        os.close(writer)
        self.assertEqual(process.wait(30 * host.TIME_SCALE), 0)
        self.finish(name)
        os.close(reader)
