# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line held against runc, where that is installed."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from harness import Case, at_levels, host

RUNC = shutil.which("runc")


@at_levels("plain")
class LikeRunc(Case):
    """The same commands to moat and to runc: the exit statuses agree, and what is on standard output in kind."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if host.IN_LAB:
            raise unittest.SkipTest("compared outside the lab, which is slow")
        if not RUNC:
            raise unittest.SkipTest("no runc to compare with")

    def setUp(self):
        super().setUp()
        self.twins = {}

    def pair(self):
        """A container's id for moat, which stands for another one with runc: one id is one cgroup."""
        name = self.new_id()
        self.twins[name] = self.new_id()
        return name

    def runc(self, *args, **options):
        command = [RUNC, "--root", os.path.join(self.work, "runc"), *(self.twins.get(arg, arg) for arg in args)]
        with tempfile.TemporaryFile(dir=self.work) as out, tempfile.TemporaryFile(dir=self.work) as err:
            status = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                    timeout=20 * host.TIME_SCALE).returncode
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, status, out.read(), err.read())

    def both(self, *args, **options):
        """Runs it with both; the exit statuses must agree. Returns both outputs, moat's first."""
        ours, theirs = self.moat(*args, **options), self.runc(*args, **options)
        self.assertEqual(ours.returncode, theirs.returncode, "%s: %r, runc: %r" % (args, ours.stderr, theirs.stderr))
        self.assertEqual(bool(ours.stderr), bool(theirs.stderr), (args, ours.stderr, theirs.stderr))
        return ours.stdout, theirs.stdout

    def test_lifecycle(self):
        self.bundle("sleep", "1000")
        name = self.pair()
        self.both("create", "--bundle", self.bundle_path, name)
        self.both("create", "--bundle", self.bundle_path, name)
        self.compare_state(name, "created")
        self.both("kill", name, "0")
        self.both("delete", name)
        self.both("create", "--bundle", self.bundle_path, name)
        self.both("start", name)
        self.both("start", name)
        self.compare_state(name, "running")
        for words in (["exit 0"], ["exit 5"], ["kill -9 $$"], ["kill -TERM $$"]):
            self.both("exec", name, "sh", "-c", *words)
        self.both("exec", "--cwd", "/bin", "--env", "A=b", "--user", "0:0", name, "true")
        self.both("exec", name)
        self.both("exec", "absent", "true")
        self.both("exec", "--user", "no-one", name, "true")
        self.both("ps", name)
        ours, theirs = (json.loads(out) for out in self.both("ps", "--format", "json", name))
        self.assertEqual(len(ours), len(theirs))
        ours, theirs = self.both("ps", name, "-o", "pid,comm")
        self.assertEqual(ours.split(b"\n")[0], theirs.split(b"\n")[0])
        for words in (["pause"], ["resume"]):
            self.both(*words, name)
        self.compare_state(name, "running")
        self.both("kill", name, "NOSUCH")
        self.both("kill", name, "usr1")
        self.both("kill", name, "SIGKILL")
        for state in (self.moat, self.runc):
            self.wait_until(lambda state=state: json.loads(state("state", name).stdout)["status"] == "stopped", "it has ended")
        self.compare_state(name, "stopped")
        self.both("kill", name, "KILL")
        self.both("exec", name, "true")
        self.both("events", "--stats", name)
        self.both("delete", name)
        self.both("delete", name)
        self.both("delete", "--force", name)

    def test_states(self):
        """What each can be asked in every state, and what else is done there; the last leads on to the next state."""
        asked = ("events --stats", "ps", "ps --format json", "update --pids-limit 50", "exec {} true", "kill {} 0")
        states = (("created", "resume", "pause"), ("paused", "pause", "start", "delete", "resume"), ("created", "start"),
                  ("running", "start", "resume", "delete", "pause"), ("paused", "pause", "start", "delete", "resume"),
                  ("running", "kill {} KILL"), ("stopped", "start", "resume", "pause", "delete"))
        self.bundle("sleep", "1000")
        name = self.pair()
        self.both("create", "--bundle", self.bundle_path, name)
        for state, *commands in states:
            for moat in (self.moat, self.runc):
                self.wait_until(lambda moat=moat: json.loads(moat("state", name).stdout)["status"] == state, state)
            for line in (*asked, *commands):
                words = (line if "{}" in line else line + " {}").format(name).split()
                with self.subTest(line, state=state):
                    self.both(*words)

    def compare_state(self, name, status):
        for command in (["state", name], ["list", "--format", "json"]):
            ours, theirs = (json.loads(out) for out in self.both(*command))
            if command[0] == "list":
                (ours,), (theirs,) = ours, theirs
            self.assertEqual((ours["status"], theirs["status"]), (status, status))
            for key, value in theirs.items():
                self.assertIs(type(ours.get(key)), type(value), key)
            self.assertEqual((ours["id"], theirs["id"]), (name, self.twins[name]))
            for key in ("bundle", "rootfs"):
                self.assertEqual(ours[key], theirs[key])
            self.assertEqual(ours["pid"] == 0, theirs["pid"] == 0)
        ours, theirs = self.both("list")
        words = theirs.split(b"\n")[0].split()
        self.assertEqual(ours.split(b"\n")[0].split()[:len(words)], words)
        self.assertEqual(self.both("list", "-q"), (name.encode() + b"\n", self.twins[name].encode() + b"\n"))

    def test_what_is_not_there(self):
        for words in (["state"], ["start"], ["delete"], ["delete", "--force"], ["kill"], ["pause"], ["resume"], ["ps"],
                      ["events", "--stats"], ["update", "--pids-limit", "10"]):
            with self.subTest(words):
                self.both(*words, "absent")
        self.both("run", "--bundle", self.work, "absent")
        self.both("create", "--bundle", "/nonexistent", "absent")

    def test_wrong_lines(self):
        for words in (["state"], ["state", "a", "b"], ["state", "--no-such-option", "a"], ["--no-such-option"], ["kill"],
                      ["--log-format", "xml", "list"], ["--log", "/nonexistent/log", "list"]):
            with self.subTest(words):
                self.both(*words)

    def test_run(self):
        for words in (["true"], ["sh", "-c", "exit 7"]):
            self.bundle(*words)
            self.both("run", "--bundle", self.bundle_path, self.pair())
        self.bundle("sleep", "1000")
        name = self.pair()
        self.both("run", "--detach", "--bundle", self.bundle_path, name)
        self.compare_state(name, "running")
        self.both("delete", "--force", name)

    def test_spec(self):
        for tool in ("moat", "runc"):
            os.mkdir(os.path.join(self.work, tool + "-bundle"))
        for _ in range(2):
            statuses = {self.moat("spec", "--bundle", self.work + "/moat-bundle").returncode,
                        self.runc("spec", "--bundle", self.work + "/runc-bundle").returncode}
            self.assertEqual(len(statuses), 1, statuses)
        ours, theirs = (json.load(open(os.path.join(self.work, tool + "-bundle/config.json"))) for tool in ("moat", "runc"))
        self.assertEqual(sorted(theirs), sorted(ours))
        self.assertEqual(ours["process"]["args"], theirs["process"]["args"])

    def test_events(self):
        self.bundle("sleep", "1000")
        name = self.pair()
        self.both("run", "--detach", "--bundle", self.bundle_path, name)
        ours, theirs = (json.loads(out) for out in self.both("events", "--stats", name))
        self.assertEqual((ours["type"], ours["id"], theirs["type"]), ("stats", name, "stats"))
        for path in ("cpu.usage.total", "cpu.throttling", "memory.usage.usage", "memory.usage.limit", "pids.current"):
            value, other = ours["data"], theirs["data"]
            for key in path.split("."):
                value, other = value[key], other[key]
            self.assertIs(type(value), type(other), path)
        self.both("delete", "--force", name)

    def test_features(self):
        """What runc names and moat has as well goes by the same names."""
        ours, theirs = (json.loads(out) for out in self.both("features"))
        self.assertLessEqual(set(theirs["hooks"]), set(ours["hooks"]))
        self.assertLessEqual(set(theirs["linux"]["namespaces"]), set(ours["linux"]["namespaces"]))
        self.assertLessEqual(set(theirs["linux"]["capabilities"]), set(ours["linux"]["capabilities"]))
        self.assertEqual(set(theirs["mountOptions"]) - set(ours["mountOptions"]), set())
        self.assertEqual(set(theirs["linux"]["seccomp"]["operators"]), set(ours["linux"]["seccomp"]["operators"]))

    def test_signals(self):
        self.bundle("sh", "-c", "trap 'exit 9' USR1; while :; do sleep 0.05; done")
        for name in ("10", "USR1", "SIGUSR1", "sigusr1"):
            with self.subTest(name):
                container = self.new_id()
                process = self.start_moat("run", "--bundle", self.bundle_path, container)
                self.wait_until(lambda: container in self.ok("list", "-q").stdout.decode().split() and
                                self.state(container)["status"] == "running", "it runs")
                self.wait_until(lambda: self.moat("kill", container, name).returncode or process.poll() is not None,
                                "the shell heard it")
                self.assertEqual(process.wait(timeout=20 * host.TIME_SCALE), 9)
        self.assertEqual(signal.SIGUSR1, 10)
