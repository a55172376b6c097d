# SPDX-License-Identifier: GPL-2.0-or-later
"""What people do all day: run, look, go in, stop."""
import os
import subprocess
import time

from base import EngineCase, long, on, only
from host import TIME_SCALE
from images import BUSYBOX

CLI = ("podman", "rootless", "docker")


@on(*CLI)
class Life(EngineCase):
    def test_level(self):
        """the level asked for is the one that it runs at"""
        own = os.uname()
        text = self.run_("sh", "-c", "uname -r; cat /proc/self/uid_map")
        release, mapping = text.split("\n", 1)
        if self.level == "vm":
            self.assertNotEqual(release, own.release)
            return
        self.assertEqual(release, own.release)
        if not self.engine.rootless:
            inside, outside, _ = mapping.split()[:3]
            self.assertEqual(inside, "0")
            self.assertEqual(outside == "0", self.level == "plain", mapping)

    def test_run(self):
        """run --rm: output and exit status"""
        self.assertEqual(self.run_("sh", "-c", "echo out; echo err >&2"), "out\n")
        self.assertEqual(self.run_("sh", "-c", "echo err >&2; exit 7", status=7), "err\n")
        self.assertIn("nothere", self.run_("nothere", status=127))
        self.run_("/etc", status=126)

    def test_run_stdin(self):
        """run -i"""
        data = "".join("line %d\n" % i for i in range(20000))
        self.assertEqual(self.run_("cat", flags=["-i"], input=data), data)

    def test_run_terminal(self):
        """run -it"""
        shell = self.terminal("run", "--rm", "-it", *self.flags([]), BUSYBOX, "sh")
        shell.send("tty; echo $((6 * 7)); test -t 0 -a -t 1 -a -t 2 && echo all-three\n")
        shell.expect(r"/dev/(pts/0|console)\s")
        shell.expect(r"\s42\s")
        shell.expect("all-three\r")
        shell.send("exit 3\n")
        self.assertEqual(shell.end(), 3)

    def test_interrupt(self):
        """Ctrl-C on run -it"""
        shell = self.terminal("run", "--rm", "-it", *self.flags([]), BUSYBOX, "sh", "-c",
                              "trap 'echo caught; exit 4' INT; echo ready; while :; do sleep 0.1; done")
        shell.expect("ready")
        shell.send("\x03")
        shell.expect("caught")
        self.assertEqual(shell.end(), 4)

    def test_detached(self):
        """run -d, ps, wait, logs"""
        name = self.start("sh", "-c", "echo begun; sleep %g; echo ended; exit 9" % (0.5 * TIME_SCALE))
        self.assertEqual(self.cli("ps", "--format", "{{.Names}}").split(), [name])
        self.assertEqual(self.cli("wait", name).strip(), "9")
        self.assertEqual(self.logs(name), "begun\nended\n")
        self.assertEqual(self.cli("ps", "--format", "{{.Names}}"), "")
        self.assertEqual(self.inspect(name, "{{.State.Status}} {{.State.ExitCode}}"), "exited 9")

    def test_create_start(self):
        """create, start, start -a"""
        name = self.name()
        self.cli("create", "--name", name, *self.flags([]), BUSYBOX, "sh", "-c", "echo once; exit 6")
        self.assertEqual(self.inspect(name, "{{.State.Status}}"), "created")
        self.cli("start", name)
        self.assertEqual(self.cli("wait", name).strip(), "6")
        self.assertEqual(self.engine.call("start", "--attach", name).returncode, 6)
        self.assertEqual(self.logs(name), "once\nonce\n")

    def test_logs_follow(self):
        """logs -f"""
        name = self.start("sh", "-c", "echo one; sleep 1; echo two")
        follow = self.popen("logs", "-f", name, stdout=subprocess.PIPE, text=True)
        self.assertEqual(follow.stdout.readline(), "one\n")
        self.assertEqual(follow.stdout.read(), "two\n")
        self.assertEqual(follow.wait(10), 0)

    @long
    def test_log_drivers(self):
        """logging drivers"""
        lines = "".join("line %d\n" % i for i in range(500))
        for driver in ("local", "json-file") if self.family == "docker" else ("k8s-file", "json-file"):
            name = self.start("sh", "-c", "for i in $(seq 0 499); do echo line $i; done", flags=["--log-driver", driver])
            self.cli("wait", name)
            self.assertEqual(self.logs(name), lines)
        name = self.start("echo", "unheard", flags=["--log-driver", "none"])
        self.assertEqual(self.cli("wait", name), "0\n")
        self.assertNotIn("unheard", self.engine.call("logs", name).stdout)

    def test_attach(self):
        """attach, with input"""
        name = self.start("sh", "-c", "while read -r l; do echo got $l; test $l != end || exit 0; done", flags=["-i"])
        there = self.popen("attach", name, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        time.sleep(0.3 * TIME_SCALE)  # until it is attached, what comes is not seen
        there.stdin.write("word\n")
        there.stdin.flush()
        self.assertEqual(there.stdout.readline(), "got word\n")
        there.stdin.write("end\n")
        there.stdin.flush()
        self.assertEqual(there.stdout.read().strip(), "got end")
        self.assertEqual(there.wait(20), 0)

    def test_exec(self):
        """exec: output, status, user, environment, directory"""
        name = self.start("sleep", "1000")
        self.assertEqual(self.cli("exec", name, "echo", "in"), "in\n")
        self.assertEqual(self.cli("exec", name, "sh", "-c", "echo bad >&2; exit 5", status=5), "bad\n")
        self.assertEqual(self.cli("exec", "--user", "1000", "--env", "A=b c", "--workdir", "/tmp", name, "sh", "-c",
                                  "id -u; pwd; echo $A"), "1000\n/tmp\nb c\n")
        self.assertEqual(self.cli("exec", "-i", name, "cat", input="through"), "through")
        missing = self.engine.call("exec", name, "nothere")
        self.assertIn(missing.returncode, (126, 127))
        self.assertIn("nothere", missing.stderr + missing.stdout)
        self.assertIn("sleep", self.cli("exec", name, "ps"))

    def test_exec_terminal(self):
        """exec -it"""
        name = self.start("sleep", "1000")
        shell = self.terminal("exec", "-it", name, "sh")
        shell.send("tty; ps; echo done\n")
        shell.expect(r"/dev/pts/\d")
        shell.expect("sleep 1000")
        shell.expect("done\r")
        shell.send("exit 12\n")
        self.assertEqual(shell.end(), 12)

    def test_exec_detached(self):
        """exec -d"""
        name = self.start("sleep", "1000")
        self.cli("exec", "-d", name, "sh", "-c", "echo x > /made; exec sleep 999")
        self.wait_until(lambda: self.engine.call("exec", name, "cat", "/made").stdout == "x\n", "/made is there")
        self.assertIn("sleep 999", self.cli("exec", name, "ps"))

    def test_stop(self):
        """stop: TERM, then KILL"""
        polite = self.start("sh", "-c", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.1; done")
        self.wait_logs(polite, "ready")
        self.cli("stop", polite)
        self.assertEqual(self.inspect(polite, "{{.State.ExitCode}}"), "5")
        deaf = self.start("sleep", "1000")
        self.cli("stop", "-t", "1", deaf)
        self.assertEqual(self.inspect(deaf, "{{.State.ExitCode}}"), "137")

    def test_kill(self):
        """kill, with a signal"""
        name = self.start("sh", "-c", "trap 'echo usr1' USR1; echo ready; while :; do sleep 0.1; done")
        self.wait_logs(name, "ready")
        self.cli("kill", "-s", "USR1", name)
        self.wait_logs(name, "usr1")
        self.cli("kill", name)
        self.cli("wait", name)
        self.assertEqual(self.inspect(name, "{{.State.ExitCode}}"), "137")

    def test_restart(self):
        """restart"""
        name = self.start("sh", "-c", "echo up; exec sleep 1000")
        self.wait_logs(name, "up")
        first = self.inspect(name, "{{.State.Pid}}")
        self.cli("restart", "-t", "0", name)
        self.wait_until(lambda: self.logs(name) == "up\nup\n", "started twice")
        self.assertNotIn(self.inspect(name, "{{.State.Pid}}"), (first, "0"))

    @long
    def test_restart_policy(self):
        """run --restart"""
        name = self.start("sh", "-c", "echo try; exit 3", flags=["--restart", "on-failure:2"])
        self.wait_until(lambda: self.logs(name).count("try") == 3, "tried three times", 20)
        self.wait_until(lambda: self.inspect(name, "{{.State.Status}}") == "exited", "it is over")

    def test_pause(self):
        """pause, unpause"""
        self.needs_cgroups()
        name = self.start("sh", "-c", "while :; do echo tick; sleep 0.1; done")
        self.wait_logs(name, "tick")
        self.cli("pause", name)
        self.assertEqual(self.inspect(name, "{{.State.Status}}"), "paused")
        time.sleep(0.3)
        before = self.logs(name)
        time.sleep(0.5)
        self.assertEqual(self.logs(name), before)
        self.cli("unpause", name)
        self.wait_until(lambda: len(self.logs(name)) > len(before), "it goes on")
        self.assertEqual(self.inspect(name, "{{.State.Status}}"), "running")

    def test_top(self):
        """top"""
        name = self.start("sh", "-c", "sleep 999 & exec sleep 1000")
        how = ["aux"] if self.family != "docker" and self.level == "vm" else []
        if self.family == "docker" and self.level == "vm":
            listed = self.cli("top", name)
            self.assertIn("moat", listed)
            self.assertNotIn("dockerd", listed)
            self.skipTest("docker top shows the machine's processes on the host; docker exec NAME ps shows the workload's")
        self.wait_until(lambda: all(word in self.cli("top", name, *how) for word in ("sleep 999", "sleep 1000")), "both are listed")
        if how:
            self.assertEqual(len(self.cli("top", name).splitlines()), 1)  # and by no means the host's
            self.skipTest("podman top looks for processes on the host and finds none; podman top NAME aux runs ps inside")

    def test_stats(self):
        """stats: memory, processor and processes of the workload"""
        self.needs_cgroups()
        name = self.start("sh", "-c", "sleep 999 & while :; do :; done")
        time.sleep(0.5)
        text = self.cli("stats", "--no-stream", "--format", "{{.MemUsage}};{{.PIDs}};{{.CPUPerc}}", name).strip()
        memory, pids, busy = text.split(";")
        self.assertRegex(memory, r"^[1-9][0-9.]* ?[kKM]i?B")
        self.assertGreaterEqual(int(pids), 2)
        self.assertGreater(float(busy.rstrip("%")), 1)

    def test_inspect(self):
        """inspect: the pid is a process that ends with the container"""
        name = self.start("sleep", "1000")
        pid = int(self.inspect(name, "{{.State.Pid}}"))
        self.assertTrue(os.path.exists("/proc/%d" % pid))
        self.assertEqual(self.inspect(name, "{{.State.Running}} {{.Config.Cmd}}"), "true [sleep 1000]")
        self.remove(name)
        self.wait_until(lambda: not os.path.exists("/proc/%d" % pid), "the process has ended")

    def test_remove_running(self):
        """rm: refused for what runs, done with --force"""
        name = self.start("sleep", "1000")
        self.assertNotEqual(self.engine.call("rm", name).returncode, 0)
        self.remove(name)
        self.assertEqual(self.cli("ps", "-a", "--format", "{{.Names}}"), "")

    def test_init(self):
        """run --init"""
        self.assertIn("init", self.run_("cat", "/proc/1/cmdline", flags=["--init"]))
        self.assertEqual(self.run_("sh", "-c", "exit 8", flags=["--init"], status=8), "")

    def test_healthcheck(self):
        """health checks"""
        name = self.start("sleep", "1000", flags=["--health-cmd", "test -e /healthy", "--health-interval", "1s",
                                                  "--health-retries", "1"])
        if self.family == "docker":
            status = "{{.State.Health.Status}}"
            self.wait_until(lambda: self.inspect(name, status) == "unhealthy", "unhealthy")
            self.cli("exec", name, "touch", "/healthy")
            self.wait_until(lambda: self.inspect(name, status) == "healthy", "healthy")
            return
        # podman's timers are systemd's; without, one asks.
        self.cli("healthcheck", "run", name, status=1)
        self.cli("exec", name, "touch", "/healthy")
        self.cli("healthcheck", "run", name)

    @only("docker", why="podman 4.3 has no update")
    def test_update(self):
        """update"""
        name = self.start("sleep", "1000", flags=["--memory", "64m"])
        self.cli("update", "--memory", "32m", "--memory-swap", "64m", "--pids-limit", "50", name)
        self.assertEqual(self.inspect(name, "{{.HostConfig.Memory}}"), str(32 << 20))
        if self.level == "vm":  # the machine keeps its size; the limit is in it
            self.assertEqual(self.cli("exec", name, "cat", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/pids.max"), "%d\n50\n" % (32 << 20))
        else:
            self.assertIn("32MiB", self.cli("stats", "--no-stream", "--format", "{{.MemUsage}}", name))

    @only("docker", why="podman has no daemon")
    def test_restart_of_the_daemon(self):
        """a container outlives a restart of the daemon"""
        name = self.start("sh", "-c", "while :; do echo tick; sleep 0.2; done")
        self.engine.restart()
        before = self.logs(name)
        self.wait_until(lambda: len(self.logs(name)) > len(before), "its output is still taken")
        self.assertEqual(self.cli("exec", name, "echo", "still"), "still\n")
        self.cli("stop", "-t", "0", name)

    @long
    def test_rename(self):
        """rename"""
        name, new = self.start("sleep", "1000"), self.name()
        self.cli("rename", name, new)
        self.assertEqual(self.cli("exec", new, "echo", "in"), "in\n")

    @long
    def test_many(self):
        """ten at once"""
        names = [self.name() for _ in range(10)]
        started = [self.popen("run", "-d", "--name", name, *self.flags([]), BUSYBOX, "sleep", "1000", stdout=subprocess.DEVNULL)
                   for name in names]
        for process in started:
            self.assertEqual(process.wait(60 * TIME_SCALE), 0)
        self.assertEqual(sorted(self.cli("ps", "--format", "{{.Names}}").split()), sorted(names))
        self.remove(*names)

    def test_message(self):
        """an error is one line that says what is wrong"""
        text = self.run_("/bin/nothere", status=127)
        lines = [line for line in text.splitlines() if line.strip() and "--help" not in line]
        self.assertEqual(len(lines), 1, text)
        self.assertIn("/bin/nothere", lines[0])
        self.assertIn("no such file or directory", lines[0].lower())
