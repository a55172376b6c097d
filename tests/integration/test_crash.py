# SPDX-License-Identifier: GPL-2.0-or-later
"""kill -9 of any of moat's processes at any moment: `state` says stopped, `delete` succeeds, and nothing is left."""
import ctypes
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import time

from criu_images import criu_runs, why_no_criu
from harness import Case, IN_LAB, SANITIZED, at_levels, host


@at_levels("vm")
class KilledRoles(Case):
    """The processes of a microVM: the monitor, and its children vmm and fsd."""

    def roles(self, name):
        """{role: pid} of a container."""
        monitor = self.pid(name)
        found = {host.name_of(pid).removeprefix("moat-"): pid for pid in host.children_of(monitor)}
        self.assertLessEqual({"vmm", "fsd"}, set(found), found)
        return {"monitor": monitor, "vmm": found["vmm"], "fsd": found["fsd"]}

    def kill_and_check(self, name, role):
        os.kill(self.roles(name)[role], signal.SIGKILL)
        self.wait_status(name, "stopped")
        self.ok("delete", name)
        self.refused("state", name, says=name)

    def test_each_when_running(self):
        for role in ("monitor", "vmm", "fsd"):
            with self.subTest(role=role):
                self.bundle("sleep", "1000")
                name = self.create()
                self.ok("start", name)
                self.kill_and_check(name, role)

    def test_each_when_created(self):
        for role in ("monitor", "vmm", "fsd"):
            with self.subTest(role=role):
                self.bundle("sleep", "1000")
                self.kill_and_check(self.create(), role)

    def test_each_between_create_and_start(self):
        """Of one command that does both: who it was is told once."""
        for role in ("monitor", "vmm", "fsd"):
            with self.subTest(role=role):
                hook = self.work + "/hook"
                with open(hook, "w") as f:
                    f.write("#!/bin/sh\npid=$(grep -o '\"pid\":[ ]*[0-9]*' | grep -o '[0-9]*$')\n"
                            "for one in $pid $(cat /proc/$pid/task/$pid/children); do\n"
                            "  [ $(cat /proc/$one/comm) != moat-%s ] || kill -KILL $one\ndone\n"
                            "while grep -q 'State:.[^Z]' /proc/$pid/status; do sleep 0.05; done\n" % role)
                os.chmod(hook, 0o755)
                self.bundle("true", change=lambda c: c.update(hooks={"createRuntime": [{"path": hook}]}))
                name = self.new_id()
                done = self.run_container(name=name)
                self.assertEqual(done.returncode, 1 if role == "monitor" else 137, done.stderr)
                self.assertRegex(done.stderr, rb"\Amoat: [^\n]*%s[^\n]*\n\Z" %
                                 (b"is stopped" if role == "monitor" else b"the %s was killed" % role.encode()))
                self.refused("state", name, says="does not exist")

    def test_busy_workload(self):
        """The file server dies in the middle of writes, the VMM in the middle of output."""
        for role, script in (("fsd", "while :; do echo x >>/file; done"), ("vmm", "yes")):
            with self.subTest(role=role):
                self.bundle("sh", "-c", script)
                name = self.new_id()
                process = self.start_moat("run", "--bundle", self.bundle_path, name, stdout=subprocess.DEVNULL,
                                          stderr=subprocess.PIPE)
                self.wait_until(lambda: self.running(name), "runs", 20)
                os.kill(self.roles(name)[role], signal.SIGKILL)
                _, err = process.communicate(timeout=20 * host.TIME_SCALE)
                self.assertNotEqual(process.returncode, 0)
                self.assertEqual(len(err.splitlines()), 1, err)
                self.ok("delete", "--force", name)

    def running(self, name):
        done = self.moat("state", name)
        return done.returncode == 0 and b'"running"' in done.stdout


@at_levels("plain", "sandbox")
class ExecKilled(Case):
    """
    moat exec is killed; its process gets another parent, which here does not reap it. The kernel keeps the container's init
    until somebody does, but there is nothing that it holds.
    """

    def setUp(self):
        super().setUp()
        libc = ctypes.CDLL(None)
        libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        self.addCleanup(libc.prctl, 36, 0, 0, 0, 0)

    def exec_and_kill(self, name):
        """Returns the pid of what exec ran, which is now a child of ours."""
        process = self.start_moat("exec", name, "sleep", "1000", stderr=subprocess.DEVNULL)

        def pids():
            return json.loads(self.ok("ps", "--format", "json", name).stdout)
        self.wait_until(lambda: len(pids()) == 2 and all(host.name_of(p) == "sleep" for p in pids()), "two processes are there")
        process.kill()
        process.wait()
        joined = max(pids())
        self.assertEqual(host.parent_of(joined), os.getpid())
        return joined

    def test_delete_does_not_wait_for_the_reaper(self):
        self.bundle("sleep", "1000")
        name = self.create()
        self.ok("start", name)
        joined = self.exec_and_kill(name)
        began = time.monotonic()
        self.ok("delete", "--force", name)
        took = time.monotonic() - began
        os.waitpid(joined, 0)
        self.assertLess(took, 5 * host.TIME_SCALE)  # who waited would give up after ten

    def test_state_says_stopped(self):
        self.bundle("sleep", "1000")
        name = self.create()
        self.ok("start", name)
        joined = self.exec_and_kill(name)
        self.ok("kill", name, "KILL")
        self.wait_status(name, "stopped")
        self.ok("delete", name)
        os.waitpid(joined, 0)


@at_levels("plain", "sandbox", "vm")
class KilledAnywhere(Case):
    def test_workload_killed_from_outside(self):
        self.bundle("sleep", "1000")
        name = self.create()
        self.ok("start", name)
        os.kill(self.pid(name), signal.SIGKILL)
        self.wait_status(name, "stopped")
        self.ok("delete", name)

    def test_run_killed(self):
        """The command in the foreground dies: what is left of the container can be named and removed."""
        self.bundle("sleep", "1000")
        name = self.new_id()
        process = self.start_moat("run", "--bundle", self.bundle_path, name, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        self.wait_until(lambda: self.moat("state", name).returncode == 0 and self.state(name)["status"] == "running", "runs")
        process.kill()
        process.wait()
        self.ok("delete", "--force", name)

    def test_create_killed_at_random_moments(self):
        """However far it came, delete --force ends it all."""
        self.bundle("sleep", "1000")
        began = time.monotonic()
        self.ok("delete", "--force", self.create())
        span = time.monotonic() - began
        source = random.Random(7)
        for _ in range(8 if IN_LAB else 40):
            name = self.new_id()
            process = self.start_moat("create", "--bundle", self.bundle_path, name, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
            time.sleep(source.uniform(0, span))
            process.kill()
            process.wait()
            self.ok("delete", "--force", name)
            self.refused("state", name)

    def test_start_killed(self):
        self.bundle("sleep", "1000")
        for delay in (0, 0.001, 0.005, 0.02):
            name = self.create()
            process = self.start_moat("start", name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(delay * host.TIME_SCALE)
            process.kill()
            process.wait()
            self.assertIn(self.state(name)["status"], ("created", "running", "stopped"))
            self.ok("delete", "--force", name)

    def test_delete_killed(self):
        """A second delete finishes what the first one began."""
        self.bundle("sleep", "1000")
        for delay in (0, 0.001, 0.005, 0.02):
            name = self.create()
            process = self.start_moat("delete", "--force", name)
            time.sleep(delay * host.TIME_SCALE)
            process.kill()
            process.wait()
            self.ok("delete", "--force", name)
            self.refused("state", name)


@at_levels("plain", "sandbox", "vm", quick={"vm": ["test_delete", "test_mark_that_names_no_cgroup"]})
class DamagedState(Case):
    """state.json is gone or no JSON, as after a crash of the file system: what still runs is not forgotten."""
    TEXTS = (None, "", '{"id":', "{}")

    def damage(self, make):
        """make: the file's new text or None, or a function that makes something else of that path."""
        self.bundle("sleep", "1000")
        name = self.create()
        self.ok("start", name)
        path = os.path.join(self.root, name, "state.json")
        os.unlink(path)
        if callable(make):
            make(path)
        elif make is not None:
            with open(path, "w") as f:
                f.write(make)
        return name

    def check_delete(self, name):
        self.refused("delete", name, says=[name, "state.json is damaged or gone", "give --force"])
        self.ok("delete", "--force", name)
        self.refused("state", name, says="does not exist")

    def test_delete(self):
        for text in self.TEXTS[-1:] if self.level == "vm" else self.TEXTS:
            with self.subTest(text):
                self.check_delete(self.damage(text))

    def test_state_that_is_no_file(self):
        def tree(path):
            os.makedirs(os.path.join(path, "a/b"))

        def large(path):
            with open(path, "w") as f:
                f.truncate(2 << 20)
        for make in (os.mkdir, tree, os.mkfifo, large, lambda path: os.symlink("state.json", path),
                     lambda path: os.mknod(path, 0o600 | stat.S_IFSOCK)):
            name = self.damage(make)
            self.assertEqual(self.state(name)["status"], "stopped")
            self.assertIn(name, self.ok("list", "-q").stdout.decode())
            self.check_delete(name)

    def test_other_files_that_are_none(self):
        """Of the state directory, whatever the first process's death needs none of."""
        for file in ("config.json", "lock", "cgroup", "killed"):
            for make in (os.mkdir, os.mkfifo):
                with self.subTest(file, make=make.__name__):
                    self.bundle("sleep", "1000")
                    name = self.create()
                    self.ok("start", name)
                    path = os.path.join(self.root, name, file)
                    if os.path.exists(path):
                        os.unlink(path)
                    make(path)
                    self.ok("delete", "--force", name)

    def test_mark_that_names_no_cgroup(self):
        """Nothing but the container's own cgroup is touched, whatever the state directory says."""
        name = self.damage("")
        mark = os.path.join(self.root, name, "cgroup")
        with open(mark) as f:
            own = f.read()
        for text in ("", "/", "x", "/x/../..", own + "/../x"):
            with open(mark, "w") as f:
                f.write(text)
            self.ok("list")
            self.ok("state", name)
        with open(mark, "w") as f:
            f.write(own)
        self.ok("delete", "--force", name)


@at_levels("plain", "sandbox")
class KilledAtRandom(Case):
    """Any command, at any moment: delete --force works afterwards, soon, and nothing is left (the harness looks)."""
    TIMES = (100 if SANITIZED else 500) if os.environ.get("MOAT_TEST_ALL") == "1" else 12 if IN_LAB else 25
    COMMANDS = {  # what is done before, and what is killed
        "create": ([], ["create", "--bundle", "BUNDLE", "ID"]),
        "start": (["create"], ["start", "ID"]),
        "exec": (["create", "start"], ["exec", "ID", "sleep", "0.01"]),
        "exec --detach": (["create", "start"], ["exec", "--detach", "ID", "sleep", "1000"]),
        "update": (["create", "start"], ["update", "--memory", "64M", "--pids-limit", "100", "ID"]),
        "kill": (["create", "start"], ["kill", "ID", "KILL"]),
        "pause": (["create", "start"], ["pause", "ID"]),
        "delete": (["create"], ["delete", "ID"]),
        "delete --force": (["create", "start"], ["delete", "--force", "ID"]),
        "run": ([], ["run", "--detach", "--bundle", "BUNDLE", "ID"]),
        "checkpoint": (["create", "start"], ["checkpoint", "--image-path", "IMAGES", "ID"]),
        "checkpoint --leave-running": (["create", "start"], ["checkpoint", "--leave-running", "--image-path", "IMAGES", "ID"]),
    }

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.checkpoints = cls.level == "plain" and not why_no_criu()  # asked before a test begins: CRIU leaves a file in /run

    def words(self, command, name):
        values = {"ID": name, "BUNDLE": self.bundle_path, "IMAGES": os.path.join(self.work, "images-" + name)}
        return [values.get(word, word) for word in self.COMMANDS[command][1]]

    def begin(self, command, name):
        for before in self.COMMANDS[command][0]:  # CRIU saves no streams but /dev/null
            self.ok(*self.words(before, name), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return subprocess.Popen(self.command(*self.words(command, name)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def spans(self, commands):
        """How long each takes when it is let alone."""
        found = {}
        for command in commands:
            name = self.new_id()
            process = self.begin(command, name)
            began = time.monotonic()
            self.assertEqual(process.wait(timeout=20 * host.TIME_SCALE), 0, command)
            found[command] = time.monotonic() - began
            self.ok("delete", "--force", name)
        return found

    def test_many(self):
        """checkpoint among them where CRIU works."""
        commands = [c for c in self.COMMANDS if "checkpoint" not in c or self.checkpoints]
        self.bundle("sleep", "1000")
        spans = self.spans(commands)
        seed = int(os.environ.get("MOAT_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
        source = random.Random(seed)
        for i in range(self.TIMES):
            command = commands[i % len(commands)]
            delay = source.uniform(0, 1.2 * spans[command])
            with self.subTest("seed %d, number %d: %s after %.2f ms" % (seed, i, command, delay * 1000)):
                name = self.new_id()
                process = self.begin(command, name)
                time.sleep(delay)
                process.kill()
                process.wait()
                began = time.monotonic()
                self.ok("delete", "--force", name)
                self.assertLess(time.monotonic() - began, 5 * host.TIME_SCALE)
                self.refused("state", name, says="does not exist")
                if command.startswith("checkpoint"):
                    self.wait_until(lambda: not criu_runs(), "CRIU has ended")
                shutil.rmtree(os.path.join(self.work, "images-" + name), ignore_errors=True)
