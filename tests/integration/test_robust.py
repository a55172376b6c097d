# SPDX-License-Identifier: GPL-2.0-or-later
"""Callers that are careless or unlucky: closed streams, full disks, signals in the middle, commands that race."""
import fcntl
import json
import os
import resource
import signal
import subprocess
import time

from harness import Case, at_levels, differs, host


def close_streams():
    for fd in (0, 1, 2):
        os.close(fd)


@at_levels("plain", "sandbox", "vm")
class ClosedStreams(Case):
    """What moat opens must not become a standard stream of the workload (CVE-2024-21626 is of that family)."""

    LOOK = "for i in 0 1 2; do x=\"$x $(readlink /proc/$$/fd/$i)\"; done; echo $x >/tmp/seen"

    def writable_tmp(self):
        os.makedirs(os.path.join(self.rootfs, "tmp"), exist_ok=True)
        os.chmod(os.path.join(self.rootfs, "tmp"), 0o1777)

    def seen(self):
        with open(os.path.join(self.rootfs, "tmp/seen")) as f:
            return f.read().split()

    def test_create_and_start(self):
        self.bundle("sh", "-c", self.LOOK)
        self.writable_tmp()
        name = self.new_id()
        self.ok("create", "--bundle", self.bundle_path, name, preexec_fn=close_streams)
        self.ok("start", name, preexec_fn=close_streams)
        self.wait_status(name, "stopped")
        self.assertEqual(self.seen(), ["/dev/null"] * 3)
        self.ok("delete", name)

    def test_exec(self):
        self.bundle("sleep", "1000")
        self.writable_tmp()
        name = self.create()
        self.ok("start", name)
        self.ok("exec", name, "sh", "-c", self.LOOK,
                preexec_fn=close_streams)
        self.assertEqual(self.seen(), ["/dev/null"] * 3)
        self.ok("delete", "--force", name)


@at_levels("plain", "vm")
class Unlucky(Case):
    def test_few_descriptors(self):
        """However few they are, and wherever they run out: a reason, and no state."""
        if self.level == "vm":
            self.skipTest("twenty machines are too many: see FewDescriptors")
        self.bundle("sleep", "1000", change=lambda c: c["process"].pop("rlimits", None))
        failed = 0
        for limit in range(4, 24):
            def few():
                resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            name = self.new_id()
            done = self.moat("create", "--bundle", self.bundle_path, name, preexec_fn=few)
            if done.returncode == 0:
                self.ok("delete", "--force", name)
                continue
            failed += 1
            self.assertIn(b"Too many open files", done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertFalse(os.path.exists(os.path.join(self.root, name)), "%d: %r" % (limit, done.stderr))
        self.assertIn(failed, range(3, 19))

    def test_files_that_may_not_grow(self):
        """SIGXFSZ would end moat in the middle (getrlimit(2)); the workload has it as ever."""
        def change(c):
            c["process"].pop("rlimits", None)
            c["annotations"] = {"long": "x" * 300}  # which the state has, too
        self.bundle("sh", "-c", "grep SigIgn /proc/self/status; exec sleep 1000", change=change)
        name = self.new_id()

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (300, resource.RLIM_INFINITY))
        self.refused("create", "--bundle", self.bundle_path, name, says="File too large", status=1, preexec_fn=limit)
        self.assertFalse(os.path.exists(os.path.join(self.root, name)))
        path = os.path.join(self.work, "out")
        with open(path, "wb") as out:
            self.create(name=name, stdout=out)
        self.refused("start", name, says="File too large", status=1, preexec_fn=limit)
        self.assertEqual(self.state(name)["status"], "created")
        self.ok("start", name)
        self.wait_until(lambda: os.path.getsize(path) > 0, "it has said what it ignores")
        with open(path) as f:
            self.assertEqual(int(f.read().split()[1], 16), 0)
        self.ok("delete", "--force", name)

    def test_output_that_cannot_be_written(self):
        self.bundle("sleep", "1000")
        name = self.create()
        with open("/dev/full", "wb") as full:
            for command in (["state", name], ["list"], ["features"]):
                self.refused(*command, stdout=full, says="standard output")
        self.ok("delete", "--force", name)

    def test_full_disk_at_start_and_pause(self):
        """Nothing happens that the state cannot tell of."""
        self.bundle("sh", "-c", "touch /ran; exec sleep 1000")
        os.makedirs(self.root)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", self.root], check=True)
        self.addCleanup(self._unmount, self.root)
        name = self.create()
        ran = os.path.join(self.rootfs, "ran")
        self.fill()
        self.refused("start", name, says=("state", "No space"))
        self.assertFalse(os.path.exists(ran))
        self.assertEqual(self.state(name)["status"], "created")
        self.empty()
        self.ok("start", name)
        self.wait_until(lambda: os.path.exists(ran), "the program has started")
        self.fill()
        self.refused("pause", name, says=("state", "No space"))
        self.assertEqual(self.state(name)["status"], "running")
        self.ok("exec", name, "true")
        self.ok("delete", "--force", name)

    def fill(self):
        with open(os.path.join(self.root, ".fill"), "wb", buffering=0) as f:
            for size in (4096, 1):
                try:
                    while True:
                        f.write(bytes(size))
                except OSError:
                    pass

    def empty(self):
        os.unlink(os.path.join(self.root, ".fill"))

    def test_exec_into_a_frozen_one_can_be_ended(self):
        self.bundle("sleep", "1000")
        name = self.create()
        self.ok("start", name)
        self.ok("pause", name)
        process = self.start_moat("exec", "--ignore-paused", name, "true", stderr=subprocess.DEVNULL)
        time.sleep(0.3)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertNotEqual(process.wait(timeout=10 * host.TIME_SCALE), 0)
        self.ok("resume", name)
        self.ok("delete", "--force", name)

    @differs("vm", "the process is one of the guest's, where nothing kills it while the machine stands still")
    def test_exec_killed_before_its_program_began(self):
        """On its way it is one of the container's processes, and frozen like them; killed there, it has run nothing."""
        self.bundle("sleep", "1000")
        name = self.create()
        self.ok("start", name)
        self.ok("pause", name)
        process = self.start_moat("exec", "--ignore-paused", name, "true", stderr=subprocess.PIPE)

        def others():
            return set(json.loads(self.ok("ps", "--format", "json", name).stdout)) - {self.pid(name)}
        self.wait_until(others, "its process is there")
        os.kill(others().pop(), signal.SIGKILL)
        self.ok("resume", name)
        said = process.communicate(timeout=20 * host.TIME_SCALE)[1].decode()
        self.assertEqual(process.returncode, 255)
        self.assertRegex(said, "^moat: run a process in container %s: it was killed .*before its program began\n$" % name)
        self.assertEqual(self.state(name)["status"], "running")
        self.ok("delete", "--force", name)

    def test_delete_beside_start(self):
        self.bundle("sleep", "1000")
        for _ in range(3 if self.level == "vm" else 10):  # a machine takes its time
            name = self.create()
            starting = self.start_moat("start", name, stderr=subprocess.DEVNULL)
            self.ok("delete", "--force", name)
            starting.wait(timeout=20 * host.TIME_SCALE)
            self.assertFalse(os.path.exists(os.path.join(self.root, name)))


@at_levels("plain", "sandbox")
class FiftyAtOnce(Case):
    COUNT = 50

    def together(self, *calls):
        """Starts all and waits for all; they must succeed. Returns their outputs."""
        processes = [(words, self.start_moat(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)) for words in calls]
        outputs = []
        for words, process in processes:
            out, err = process.communicate(timeout=120 * host.TIME_SCALE)
            self.assertEqual((process.returncode, err), (0, b""), words)
            outputs.append(out.decode())
        return outputs

    def test_created_started_entered_and_deleted(self):
        """Each step is done by fifty commands at a time, and all containers are there at once."""
        self.bundle("sleep", "1000")
        names = [self.new_id() for _ in range(self.COUNT)]
        files = {name: os.path.join(self.work, name) for name in names}
        creating = []
        for name in names:  # the containers hold the streams: no pipes, whose end we would wait for
            with open(files[name], "wb") as log:
                creating.append(self.start_moat("create", "--bundle", self.bundle_path, name, stdout=log, stderr=log))
        for name, process in zip(names, creating):
            self.assertEqual(process.wait(120 * host.TIME_SCALE), 0)
            self.assertEqual(os.path.getsize(files[name]), 0)
        self.together(*(("start", name) for name in names))
        self.assertEqual(sorted(self.ok("list", "-q").stdout.decode().split()), sorted(names))
        said = self.together(*(("exec", name, "sh", "-c", "echo %s; cat /proc/1/comm" % name) for name in names))
        self.assertEqual(said, ["%s\nsleep\n" % name for name in names])
        # Another exec into each while it is deleted: it ends, one way or another.
        entering = [self.start_moat("exec", name, "sleep", "1000", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    for name in names]
        self.together(*(("delete", "--force", name) for name in names))
        for process in entering:
            self.assertNotEqual(process.wait(120 * host.TIME_SCALE), 0)
        self.assertEqual(self.ok("list", "-q").stdout, b"")


@at_levels("vm")
class FewDescriptors(Case):
    def test_reasons(self):
        """At create, where a machine's processes are made, and at exec, whose streams are handed over."""
        self.bundle("sleep", "1000", change=lambda c: c["process"].pop("rlimits", None))

        def few(limit):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        for limit in range(4, 24, 3):
            name = self.new_id()
            done = self.moat("create", "--bundle", self.bundle_path, name, preexec_fn=few(limit))
            if done.returncode == 0:
                self.ok("delete", "--force", name)
                break
            self.assertIn(b"Too many open files", done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertFalse(os.path.exists(os.path.join(self.root, name)), "%d: %r" % (limit, done.stderr))
        name = self.create()
        self.ok("start", name)
        for limit in range(4, 16):
            done = self.moat("exec", name, "echo", "x", preexec_fn=few(limit))
            if done.returncode:
                self.assertIn(b"Too many open files", done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            else:
                self.assertEqual(done.stdout, b"x\n")
        self.ok("exec", name, "true")
        self.ok("delete", "--force", name)


@at_levels("plain", "sandbox", "vm", quick={"vm": ["test_while_another_is_about_to_write_or_remove_its_state"]})
class Outrun(Case):
    """Commands for a container that another one deletes: what is told is that, not where it was noticed."""
    COMMANDS = (["state"], ["kill", "ID", "0"], ["kill", "ID", "USR1"], ["kill", "--all", "ID", "USR1"], ["ps"],
                ["ps", "--format", "json"], ["events", "--stats"], ["exec", "ID", "sleep", "1000"], ["update", "--pids-limit", "9"],
                ["pause"], ["resume"], ["start"], ["delete"])
    REASONS = ("container ID does not exist: moat list shows those that do", "signal ID: container not running",
               "it is stopped", "it is running", "it is paused")

    def test_deleted_meanwhile(self):
        self.bundle("sleep", "1000")
        for command in self.COMMANDS:
            for _ in range(2 if self.level == "vm" else 8):
                with self.subTest(command):
                    self.outrun(command)

    def outrun(self, command):
        """Repeats the command while the container is deleted, and until it is gone."""
        name = self.create()
        self.ok("start", name)
        words = [name if word == "ID" else word for word in command if "ID" in command] or [*command, name]
        deletion = self.start_moat("delete", "--force", name)
        said = ""
        while "does not exist" not in said:
            done = self.moat(*words)
            said = done.stderr.decode()
            if done.returncode == 0 and command == ["state"]:
                self.assertEqual(json.loads(done.stdout)["bundle"], self.bundle_path)
            elif done.returncode not in (0, 128 + signal.SIGKILL):
                self.assertTrue(any(reason.replace("ID", name) in said for reason in self.REASONS), (words, said))
        self.assertEqual(deletion.wait(timeout=20 * host.TIME_SCALE), 0)

    def test_while_another_is_about_to_write_or_remove_its_state(self):
        """Without state.json it is not there yet or no more, as long as a command has its lock; without that it is damaged."""
        name = self.new_id()
        directory = os.path.join(self.root, name)
        os.makedirs(directory)
        with open(os.path.join(directory, "lock"), "w") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            process = self.start_moat("state", name, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            time.sleep(0.2)
            os.unlink(lock.name)
            os.rmdir(directory)
            said = process.communicate(timeout=20 * host.TIME_SCALE)[1]
        self.assertIn(b"container %s does not exist" % name.encode(), said)
        os.makedirs(directory)
        self.assertEqual(self.state(name)["status"], "stopped")
        self.ok("delete", "--force", name)
