# SPDX-License-Identifier: GPL-2.0-or-later
"""A running container held and measured: pause, resume, update, ps, events, and the terminal of moat run."""
import fcntl
import glob
import json
import os
import pty
import select
import signal
import struct
import termios
import time

from harness import Case, at_levels, host
from test_vm_machine import roles


def cpu_ticks(pid):
    """CPU time that a process has used."""
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def waits_in_poll(pid):
    with open("/proc/%d/syscall" % pid) as f:
        return f.read().split()[0] in ("7", "271")  # poll and ppoll of x86-64


@at_levels("plain", "vm")
class Control(Case):
    def worker(self, name):
        """The process of the host whose time is the workload's."""
        return roles(self.pid(name))["vmm"] if self.level == "vm" else self.pid(name)

    def running(self, *args):
        self.bundle(*args)
        name = self.create()
        self.ok("start", name)
        return name

    def test_pause_and_resume(self):
        name = self.running("sh", "-c", "while :; do :; done")
        pid = self.worker(name)
        self.ok("pause", name)
        self.assertEqual(self.state(name)["status"], "paused")
        before = cpu_ticks(pid)
        time.sleep(0.3)
        self.assertEqual(cpu_ticks(pid), before)
        self.refused("pause", name, says="paused")
        self.ok("resume", name)
        self.assertEqual(self.state(name)["status"], "running")
        self.wait_until(lambda: cpu_ticks(pid) > before, "it runs again")
        self.refused("resume", name, says=(name, "running, not paused"))
        self.ok("delete", "--force", name)

    def test_paused_before_its_start(self):
        """Start would wait for a program that cannot run."""
        self.bundle("sleep", "1000")
        name = self.create()
        self.refused("resume", name, says=(name, "created, not paused"))
        self.ok("pause", name)
        self.assertEqual(self.state(name)["status"], "paused")
        self.refused("pause", name, says=(name, "paused"))
        self.refused("start", name, says=(name, "paused", "resume"))
        self.refused("exec", name, "true", says=(name, "--ignore-paused"))
        self.refused("delete", name, says=(name, "paused", "--force"))
        self.ok("resume", name)
        self.assertEqual(self.state(name)["status"], "created")
        self.ok("start", name)
        self.assertEqual(self.state(name)["status"], "running")
        self.ok("pause", name)
        self.assertIn("--ignore-paused", self.moat("exec", name, "true").stderr.decode())
        self.ok("delete", "--force", name)

    def test_delete_of_a_paused_one(self):
        name = self.running("sleep", "1000")
        self.ok("pause", name)
        self.ok("delete", "--force", name)

    def test_kill_of_a_paused_one(self):
        name = self.running("sleep", "1000")
        self.ok("pause", name)
        self.ok("kill", name, "KILL")
        self.wait_status(name, "stopped")
        self.refused("resume", name, says=(name, "stopped"))
        self.ok("delete", name)

    def test_only_what_runs_can_be_held(self):
        name = self.running("true")
        self.wait_status(name, "stopped")
        for command in ("pause", "resume", "events"):
            self.refused(command, name, says=(name, "stopped"))
        self.refused("update", "--pids-limit", 5, name, says=(name, "stopped"))
        self.ok("delete", name)

    def test_ps(self):
        name = self.running("sh", "-c", "sleep 1000 & exec sleep 999")
        pid = self.pid(name)

        def pids():
            return json.loads(self.ok("ps", "--format", "json", name).stdout)
        # By the names that they end up with: busybox executes itself, as "exe".
        self.wait_until(lambda: self.ok("ps", name, "-o", "pid,comm").stdout.split().count(b"sleep") == 2, "both are there")
        if self.level == "vm":  # what the host sees of it; the table is of what runs in the guest
            self.assertEqual(set(roles(pid).values()), set(pids()))
        else:
            self.assertEqual(len(pids()), 2)
        self.assertIn(pid, pids())
        table = self.ok("ps", name).stdout.decode().splitlines()
        self.assertIn("PID", table[0])
        self.assertEqual(len(table), 3)
        self.assertTrue(any("sleep 1000" in line for line in table))
        own = self.ok("ps", name, "-o", "pid,comm").stdout.decode().splitlines()
        self.assertEqual(own[0].split(), ["PID", "COMMAND"])
        self.assertEqual([line.split()[1] for line in own[1:]], ["sleep", "sleep"])
        if self.level == "vm":
            self.refused("ps", name, "-o", "pid,nosuch", says=["nosuch", "these are: pid, ppid, user, "])
            self.refused("ps", name, "-L", says="-L")
        else:
            self.assertEqual(sorted(int(line.split()[0]) for line in own[1:]), sorted(pids()))
            self.refused("ps", name, "-o", "comm", says="PID")
        for words in (["--", "-o", "pid,comm"], ["axo", "pid,comm"], ["-e", "-o", "pid,comm"]):
            self.assertEqual(sorted(self.ok("ps", name, *words).stdout.decode().splitlines()), sorted(own), words)
        self.refused("ps", "--format", "xml", name, says="xml")
        self.ok("delete", "--force", name)

    def test_ps_on_another_terminal(self):
        """ps takes the processes of its own terminal where nothing else is said; a container's have another, or none."""
        if self.level == "vm":
            self.skipTest("ps is not asked for a guest's processes")
        name = self.running("sleep", "1000")
        pid = self.pid(name)
        other, ours = pty.openpty()
        self.addCleanup(os.close, other)

        def take():
            os.setsid()
            fcntl.ioctl(ours, termios.TIOCSCTTY, 0)
        done = self.ok("ps", name, "-o", "pid,comm", preexec_fn=take, pass_fds=[ours])
        os.close(ours)
        self.assertEqual(done.stdout.decode().split(), ["PID", "COMMAND", str(pid), "sleep"])
        self.ok("delete", "--force", name)

    def test_ps_of_a_stopped_one_is_empty(self):
        name = self.running("true")
        self.wait_status(name, "stopped")
        self.assertEqual(json.loads(self.ok("ps", "--format", "json", name).stdout), [])
        for words in ([], ["-o", "pid,comm"]):
            table = self.ok("ps", name, *words).stdout.decode().splitlines()
            self.assertEqual(len(table), 1, table)
            self.assertIn("PID", table[0])
        self.ok("delete", name)

    def test_ps_shows_what_outlived_the_first_process(self):
        if self.level == "vm":
            self.skipTest("the machine ends with the first process")

        def change(c):
            c["linux"]["namespaces"] = [n for n in c["linux"]["namespaces"] if n["type"] != "pid"]
        self.bundle("sh", "-c", "sleep 1000 & echo $!", change=change)
        name = self.create()
        self.ok("start", name)
        self.wait_status(name, "stopped")
        pids = json.loads(self.ok("ps", "--format", "json", name).stdout)
        self.assertEqual(len(pids), 1)
        with open("/proc/%d/cmdline" % pids[0]) as f:
            self.assertIn("sleep", f.read())
        self.ok("delete", name)

    def test_update_and_statistics(self):
        name = self.running("sleep", "1000")

        def stats():
            event = json.loads(self.ok("events", "--stats", name).stdout)
            self.assertEqual((event["type"], event["id"]), ("stats", name))
            return event["data"]
        unlimited = 2 ** 64 - 1 if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else 2 ** 63 - 4096
        self.assertEqual(stats()["memory"]["usage"]["limit"], unlimited)
        self.assertEqual(stats()["memory"]["swap"]["limit"], unlimited)
        self.assertEqual(stats()["pids"]["limit"], 0)
        self.ok("update", "--pids-limit", 77, "--memory", "64M", name)
        self.assertEqual(stats()["pids"], {"current": 1, "limit": 77})
        self.assertEqual(stats()["memory"]["usage"]["limit"], 64 << 20)
        self.assertGreater(stats()["memory"]["usage"]["usage"], 0)
        self.ok("update", "--resources", "-", name, input=b'{"pids":{"limit":78}}')
        self.assertEqual(stats()["pids"]["limit"], 78)
        self.assertEqual(stats()["memory"]["usage"]["limit"], 64 << 20)
        self.refused("update", "--memory", "lots", name, says=("--memory", "lots", "such as 512M"))
        self.refused("update", "--cpu-quota", "1.5", name, says="--cpu-quota")
        self.refused("update", "--resources", "/nonexistent", name, says="/nonexistent")
        self.refused("update", "--resources", "-", name, input=b'{"pids":{"limit":"x"}}', says="pids.limit")
        self.ok("delete", "--force", name)

    def test_cpu_time_is_counted(self):
        name = self.running("sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 1000")

        def total():
            return json.loads(self.ok("events", "--stats", name).stdout)["data"]["cpu"]["usage"]["total"]
        self.wait_until(lambda: total() > 5_000_000, "5 ms of CPU time are counted", 20)
        self.ok("delete", "--force", name)

    def test_events_follow_until_the_end(self):
        name = self.running("sleep", "1000")
        process = self.start_moat("events", "--interval", "100ms", name, stdout=-1)
        first = json.loads(process.stdout.readline())
        self.assertEqual(first["type"], "stats")
        self.ok("kill", name, "KILL")
        process.stdout.read()
        self.assertEqual(process.wait(timeout=10 * host.TIME_SCALE), 0)
        self.refused("events", "--interval", "never", name, says="never")
        self.ok("delete", name)

    def test_out_of_memory_is_an_event(self):
        name = self.running("sh", "-c", "while [ ! -e /go ]; do sleep 0.1; done; dd if=/dev/zero of=/dev/null bs=60M count=1; sleep 1000")
        self.ok("update", "--memory", "32M", "--memory-swap", "32M", name)
        process = self.start_moat("events", "--interval", "60m", name, stdout=-1)
        self.wait_until(lambda: waits_in_poll(process.pid), "it watches")
        open(os.path.join(self.rootfs, "go"), "w").close()
        ready = select.select([process.stdout], [], [], 20 * host.TIME_SCALE)[0]
        self.assertTrue(ready, "no event came")
        line = process.stdout.readline()
        self.assertEqual(json.loads(line)["type"], "oom", line)
        self.ok("delete", "--force", name)

    def test_out_of_memory_of_the_first_process(self):
        """It is an event, too, and comes before the end of events."""
        name = self.running("sh", "-c", "while [ ! -e /go ]; do sleep 0.1; done; x=a; while :; do x=$x$x; done")
        self.ok("update", "--memory", "32M", "--memory-swap", "32M", name)
        process = self.start_moat("events", "--interval", "1s", name, stdout=-1)
        self.assertEqual(json.loads(process.stdout.readline())["type"], "stats")  # so it watches
        open(os.path.join(self.rootfs, "go"), "w").close()
        said = [json.loads(line)["type"] for line in process.stdout]
        self.assertEqual(process.wait(timeout=10 * host.TIME_SCALE), 0)
        self.wait_status(name, "stopped")
        self.ok("delete", name)
        self.assertEqual(said.count("oom"), 1, said)


@at_levels("plain", "sandbox", "vm")
class States(Case):
    """What can be asked and done in every state, as test_cli_runc finds it with runc, is the same at every level."""
    ASKED = ("state {}", "events --stats {}", "ps {}", "ps --format json {}", "kill {} 0", "exec {} true", "update --pids-limit 50 {}")
    STATES = (("created", [0, 0, 0, 0, 0, 0, 0], {"resume": 1, "pause": 0}),
              ("paused", [0, 0, 0, 0, 0, 255, 0], {"pause": 1, "start": 1, "delete": 1, "resume": 0}),
              ("created", [0, 0, 0, 0, 0, 0, 0], {"start": 0}),
              ("running", [0, 0, 0, 0, 0, 0, 0], {"start": 1, "resume": 1, "delete": 1, "pause": 0}),
              ("paused", [0, 0, 0, 0, 0, 255, 0], {"pause": 1, "start": 1, "delete": 1}),
              ("stopped", [0, 1, 0, 0, 1, 255, 1], {"start": 1, "resume": 1, "pause": 1, "delete": 0}))

    def test_all(self):
        self.bundle("sleep", "1000")
        name = self.create()
        for state, statuses, commands in self.STATES:
            if state == "stopped":
                self.ok("kill", name, "KILL")
            self.wait_status(name, state)
            lines = dict(zip(self.ASKED, statuses))
            if self.level == "vm" and state == "paused":
                lines["update --pids-limit 50 {}"] = 1  # nobody is awake who could change the guest's
            for line, status in {**lines, **{"%s {}" % command: status for command, status in commands.items()}}.items():
                with self.subTest(line, state=state):
                    done = self.moat(*line.format(name).split())
                    self.assertEqual(done.returncode, status, done.stderr)
                    self.assertEqual(len(done.stderr.splitlines()), 1 if status else 0, done.stderr)
        self.refused("state", name, says="does not exist")


@at_levels("plain", "vm")
class RunInTheForeground(Case):
    def start(self):
        self.bundle("sleep", "1000")
        name = self.new_id()
        process = self.start_moat("run", "--bundle", self.bundle_path, name, stderr=-1)
        self.wait_until(lambda: os.path.isdir(os.path.join(self.root, name)) and
                        self.state(name)["status"] == "running" and self.is_free(name), "it runs, and others may change it")
        return name, process

    def is_free(self, name):
        """The state says running a moment before `moat run` gives its lock up."""
        with open(os.path.join(self.root, name, "lock"), "r+b") as lock:
            try:
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def test_others_may_change_and_delete_it(self):
        name, process = self.start()
        self.refused("delete", name, says="running")
        self.ok("delete", "--force", name)
        self.assertEqual(process.wait(timeout=20 * host.TIME_SCALE), 137)
        self.assertEqual(process.stderr.read(), b"")

    def test_another_of_that_id_stays(self):
        """Deleted and made again before `moat run` has noticed."""
        name, process = self.start()
        process.send_signal(signal.SIGSTOP)
        self.ok("delete", "--force", name)
        self.create(name=name)
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(timeout=20 * host.TIME_SCALE), 137)
        self.assertEqual(self.state(name)["status"], "created")
        self.ok("delete", "--force", name)


@at_levels("plain", "vm")
class OneCgroupForTwo(Case):
    def test_second_is_refused_and_first_lives_on(self):
        path = "/moat-test-shared/%s" % self.new_id()
        self.bundle("sleep", "1000", change=lambda c: c["linux"].update(cgroupsPath=path))
        first = self.create()
        self.ok("start", first)
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=("cgroup", "processes"))
        self.assertEqual(self.state(first)["status"], "running")
        self.ok("delete", "--force", first)
        self.addCleanup(self.remove_parent)

    def remove_parent(self):
        """The parent was named by the config, so it is for whoever wrote that to remove it."""
        for directory in glob.glob("/sys/fs/cgroup/moat-test-shared") + glob.glob("/sys/fs/cgroup/*/moat-test-shared"):
            os.rmdir(directory)


@at_levels("plain", "vm")
class Terminal(Case):
    def run_in_terminal(self, rows=33, columns=101):
        """moat run with this side of a new terminal: (Popen, descriptor of the other side)."""
        other, ours = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        process = self.start_moat("run", "--bundle", self.bundle_path, self.new_id(), stdin=ours, stdout=ours, stderr=ours)
        os.close(ours)
        self.addCleanup(os.close, other)
        return process, other

    def read_until(self, fd, text, timeout=15):
        seen = b""
        deadline = time.monotonic() + timeout * host.TIME_SCALE
        while text not in seen:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                self.fail("%r did not come, only %r" % (text, seen))
            try:
                data = os.read(fd, 4096)
            except OSError:  # the other side is gone
                data = b""
            if not data:
                self.fail("the end came before %r: %r" % (text, seen))
            seen += data
        return seen

    def test_typing_size_and_status(self):
        self.bundle("sh", "-c", "trap 'stty size' WINCH; tty; stty size; read x; echo got-$x; "
                    "while [ ! -e /go ]; do sleep 0.1; done; exit 5",
                    change=lambda c: c["process"].update(terminal=True))
        process, fd = self.run_in_terminal()
        seen = self.read_until(fd, b"33 101")
        self.assertIn(b"/dev/pts/0", seen)
        os.write(fd, b"word\n")
        self.read_until(fd, b"got-word")
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 70, 0, 0))
        process.send_signal(signal.SIGWINCH)
        self.read_until(fd, b"20 70")
        open(os.path.join(self.rootfs, "go"), "w").close()
        self.assertEqual(process.wait(timeout=15 * host.TIME_SCALE), 5)

    def test_interrupt_from_the_keyboard(self):
        self.bundle("sh", "-c", "trap 'echo interrupted; exit 3' INT; echo ready; while :; do sleep 0.1; done",
                    change=lambda c: c["process"].update(terminal=True))
        process, fd = self.run_in_terminal()
        self.read_until(fd, b"ready")
        os.write(fd, b"\x03")
        self.read_until(fd, b"interrupted")
        self.assertEqual(process.wait(timeout=15 * host.TIME_SCALE), 3)

    def test_input_that_is_no_terminal(self):
        self.bundle("true", change=lambda c: c["process"].update(terminal=True))
        done = self.run_container()
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"terminal", done.stderr)

    def test_needs_somewhere_to_go(self):
        self.bundle("true", change=lambda c: c["process"].update(terminal=True))
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=("terminal", "--console-socket"))
