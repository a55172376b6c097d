# SPDX-License-Identifier: GPL-2.0-or-later
"""containerd with ctr and the runc shim, which calls moat."""
import json

import engines
import machine
from base import EngineCase, on
from images import BUSYBOX


@on("containerd")
class Containerd(EngineCase):
    def setUp(self):
        super().setUp()
        self.binary = engines.binary(self.level)

    def run_(self, *args, flags=(), **options):
        return self.cli("run", "--rm", "--runc-binary", self.binary, *flags, BUSYBOX, self.name(), *args, **options)

    def start(self, *args, flags=()):
        name = self.name()
        self.cli("run", "--detach", "--runc-binary", self.binary, *flags, BUSYBOX, name, *args)
        return name

    def kill(self, name, number="9"):
        self.cli("task", "kill", "-s", number, name)

    def exec(self, name, *args, **options):
        return self.cli("task", "exec", "--exec-id", self.name("e"), name, *args, **options)

    def status(self, name):
        for line in self.cli("task", "ls").splitlines():
            if line.split()[0] == name:
                return line.split()[2]
        return None

    def test_run(self):
        """run --rm: output and exit status"""
        self.assertEqual(self.run_("sh", "-c", "echo out"), "out\n")
        self.assertEqual(self.run_("sh", "-c", "exit 7", status=7), "")

    def test_run_stdin(self):
        """run -i"""
        data = "".join("line %d\n" % i for i in range(2000))
        # ctr does not always tell of its input's end.
        self.assertEqual(self.run_("head", "-n", "2000", input=data), data)

    def test_run_terminal(self):
        """run -it"""
        shell = self.terminal("run", "--rm", "-t", "--runc-binary", self.binary, BUSYBOX, self.name(), "sh")
        shell.send("tty; echo $((6 * 7))\n")
        shell.expect(r"/dev/(pts/0|console)\s")
        shell.expect(r"\s42\s")
        shell.send("exit 3\n")
        self.assertEqual(shell.end(), 3)

    def test_detached(self):
        """run -d, ps, wait, logs"""
        name = self.start("sleep", "1000")
        self.assertEqual(self.status(name), "RUNNING")
        self.kill(name)
        self.wait_until(lambda: self.status(name) == "STOPPED", "it is stopped")
        self.cli("task", "delete", name)
        self.cli("container", "delete", name)

    def test_exec(self):
        """exec: output, status, user, environment, directory"""
        name = self.start("sleep", "1000")
        # ctr misses what a program says that ends before it listens.
        self.assertEqual(self.exec(name, "sh", "-c", "sleep 0.3; echo in"), "in\n")
        self.exec(name, "sh", "-c", "exit 5", status=5)
        self.assertEqual(self.cli("task", "exec", "--exec-id", "u", "--user", "1000", "--cwd", "/tmp", name, "sh", "-c",
                                  "sleep 0.3; id -u; pwd"), "1000\n/tmp\n")

    def test_exec_terminal(self):
        """exec -it"""
        name = self.start("sleep", "1000")
        shell = self.terminal("task", "exec", "-t", "--exec-id", "t", name, "sh")
        shell.send("tty; ps; echo done\n")
        shell.expect(r"/dev/pts/\d")
        shell.expect("sleep 1000")
        shell.expect("done\r")
        shell.send("exit 12\n")
        self.assertEqual(shell.end(), 12)

    def test_kill(self):
        """kill, with a signal"""
        name = self.start("sh", "-c", "trap 'exit 5' USR1; echo ready > /ready; while :; do sleep 0.1; done")
        self.wait_until(lambda: self.engine.call("task", "exec", "--exec-id", self.name("e"), name, "cat", "/ready").returncode == 0,
                        "it is ready")
        self.kill(name, "USR1")
        self.wait_until(lambda: self.status(name) == "STOPPED", "it is stopped")
        self.assertIn("code 5", self.engine.call("task", "delete", name).stderr)

    def test_kill_again(self):
        """kill of what has just ended"""
        name = self.start("sleep", "1000")
        self.kill(name)
        while True:  # until containerd has heard of its end
            stopped = self.status(name) == "STOPPED"
            done = self.engine.call("task", "kill", "-s", "9", name)
            if done.returncode != 0:
                self.assertIn("process already finished", done.stderr)
            if stopped:
                break
        self.cli("task", "delete", "--force", name)
        self.cli("container", "delete", name)

    def test_pause(self):
        """pause, unpause"""
        name = self.start("sh", "-c", "while :; do echo tick >> /log; sleep 0.1; done")
        self.cli("task", "pause", name)
        self.assertEqual(self.status(name), "PAUSED")
        self.cli("task", "resume", name)
        self.assertEqual(self.status(name), "RUNNING")

    def test_top(self):
        """top"""
        name = self.start("sh", "-c", "sleep 999 & exec sleep 1000")
        if self.level == "vm":
            self.assertGreaterEqual(len(self.cli("task", "ps", name).splitlines()), 4)  # monitor, vmm, fsd
            self.skipTest("ctr task ps shows the machine's processes on the host; ctr task exec ps shows the workload's")
        self.wait_until(lambda: len(self.cli("task", "ps", name).splitlines()) == 3, "both are listed")

    def test_stats(self):
        """stats: memory, processor and processes of the workload"""
        name = self.start("sh", "-c", "sleep 999 & exec sleep 1000")
        metrics = json.loads(self.cli("task", "metrics", "--format", "json", name))
        usage = metrics["memory"]["usage"]
        self.assertGreater(int(usage["usage"] if isinstance(usage, dict) else usage), 10000)  # of cgroup v1, or v2
        self.assertGreaterEqual(int(metrics["pids"]["current"]), 2)

    def test_memory(self):
        """--memory: what takes more is killed"""
        path = self.path("events", "")
        with open(path, "w") as told:
            self.popen("events", stdout=told)
        self.wait_until(self.is_told_of(path), "the events are told of")
        self.run_("sh", "-c", "tail -c 200m /dev/zero", flags=["--memory-limit", str(32 << 20)], status=137)
        self.wait_until(lambda: "/tasks/oom" in machine.read(path), "an event tells of the lack of memory")

    def is_told_of(self, path):
        """A condition: that something done now gets into the file."""
        def condition():
            self.cli("namespaces", "label", "default", "told=yes")
            return machine.read(path)
        return condition

    def test_bind(self):
        """bind mounts: both ways, :ro"""
        directory = self.path("shared")
        out = self.run_("sh", "-c", "echo back > /shared/out; cat /shared/out",
                        flags=["--mount", "type=bind,src=%s,dst=/shared,options=rbind:rw" % directory])
        self.assertEqual(out, "back\n")
        self.assertEqual(machine.read(directory + "/out"), "back\n")

    def test_read_only(self):
        """run --read-only"""
        self.assertEqual(self.run_("sh", "-c", "touch /made 2>/dev/null || echo refused", flags=["--read-only"]), "refused\n")

    def test_restart_of_the_daemon(self):
        """a container outlives a restart of containerd"""
        name = self.start("sleep", "1000")
        self.engine.restart()
        self.assertEqual(self.status(name), "RUNNING")
        self.assertEqual(self.exec(name, "sh", "-c", "sleep 0.3; echo still"), "still\n")

    def test_message(self):
        """an error is one line that says what is wrong"""
        text = self.run_("/bin/nothere", status=1)
        self.assertEqual(len(text.strip().splitlines()), 1)
        self.assertIn("/bin/nothere", text)
        self.assertIn("no such file or directory", text.lower())
