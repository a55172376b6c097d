# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands in a running container, as far as level vm does them in a way of its own."""
import json
import os
import signal
import subprocess
import time

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


class Paused(Running):
    def test_nothing_of_it_runs_and_all_can_be_asked(self):
        name = self.start("sh", "-c", "trap 'touch /usr2' USR2; i=0; while :; do i=$((i+1)); echo $i >/count; done")
        self.wait_until(lambda: os.path.exists(self.rootfs + "/count"), "it counts")
        self.ok("pause", name)
        self.wait_until(self.counts_no_more, "what it had asked of the file server is done")
        with open(self.rootfs + "/count") as f:
            count = f.read()
        stats = self.ok("events", "--stats", name).stdout
        self.assertGreater(json.loads(stats)["data"]["memory"]["usage"]["usage"], 0)
        self.assertIn(b"sh -c", self.ok("ps", name).stdout)
        self.refused("update", "--pids-limit", 7, name, says="resume")
        self.refused("exec", name, "true", says="paused")
        process = self.start_moat("exec", "--ignore-paused", name, "echo", "at last", stdout=-1)
        self.ok("kill", name, "USR2", timeout=5)
        time.sleep(1)
        self.assertIsNone(process.poll())
        with open(self.rootfs + "/count") as f:
            self.assertEqual(f.read(), count)
        self.assertEqual(json.loads(self.ok("events", "--stats", name).stdout)["data"]["cpu"], json.loads(stats)["data"]["cpu"])
        self.ok("resume", name)
        self.assertEqual(process.communicate(timeout=20 * host.TIME_SCALE)[0], b"at last\n")
        self.wait_until(lambda: os.path.exists(self.rootfs + "/usr2"), "the signal has come")
        self.finish(name)

    def counts_no_more(self):
        def count():
            with open(self.rootfs + "/count") as f:
                return f.read()
        before = count()
        time.sleep(0.5)
        return count() == before

    def test_clock(self):
        """It has gone on meanwhile, as it does for processes that are frozen."""
        name = self.start("sleep", "1000")
        off, known = self.clock_is_off(name)
        pause = 5 + 4 * known  # a clock that stood still would show
        self.ok("pause", name)
        time.sleep(pause)
        self.ok("resume", name)
        later, known_later = self.clock_is_off(name)
        self.assertLess(known + known_later + 0.5, pause, "the machine is too slow to look at a clock")
        self.assertLess(abs(later - off), known + known_later + 0.5)
        up = float(self.ok("exec", name, "cat", "/proc/uptime").stdout.split()[0])
        self.assertGreater(up, pause)
        self.finish(name)

    def clock_is_off(self, name):
        """By how many seconds, and how well that is known: it was read at some time while exec ran, in whole seconds."""
        before = time.time()
        inside = int(self.ok("exec", name, "date", "+%s").stdout)
        after = time.time()
        return inside + 0.5 - (before + after) / 2, (after - before) / 2 + 0.5

    def test_several_vcpus_that_spin(self):
        name = self.start("sh", "-c", "while :; do :; done & while :; do :; done",
                          change=lambda c: c.update(vm={"hwConfig": {"vcpus": 2}}))
        for _ in range(5):
            self.ok("pause", name)
            self.ok("resume", name)
        self.assertEqual(self.ok("exec", name, "echo", "x").stdout, b"x\n")
        self.ok("pause", name)
        self.finish(name)

    def test_vmm_that_does_not_answer(self):
        name = self.start("sleep", "1000")
        os.kill(roles(self.pid(name))["vmm"], signal.SIGSTOP)
        self.refused("pause", name, says=("pause the machine", "timed out"), timeout=60)
        self.assertEqual(self.state(name)["status"], "running")
        self.ok("delete", "--force", name)


class Limits(Running):
    def test_both_cgroups(self):
        path = "/%s-update" % host.RUN_TAG

        def change(config):
            config["linux"]["cgroupsPath"] = path
            config["linux"]["namespaces"].append({"type": "cgroup"})
            config["mounts"].append({"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["ro"]})
        name = self.start("sleep", "1000", change=change)
        before = json.loads(self.ok("events", "--stats", name).stdout)["data"]
        self.assertGreater(before["machine"]["memory"]["usage"]["usage"], before["memory"]["usage"]["usage"])
        self.assertGreater(before["machine"]["cpu"]["usage"]["total"], 0)
        self.assertGreaterEqual(before["machine"]["pids"]["current"], 4)  # three processes, and a vCPU
        self.ok("update", "--memory", "64M", "--cpu-quota", 50000, "--cpu-period", 100000, name)
        after = json.loads(self.ok("events", "--stats", name).stdout)["data"]
        self.assertEqual(after["memory"]["usage"]["limit"], 64 << 20)
        self.assertGreater(after["machine"]["memory"]["usage"]["limit"], self.memory)
        with open("/sys/fs/cgroup%s/cpu.max" % path) as f:
            self.assertEqual(f.read(), "50000 100000\n")
        self.assertEqual(self.ok("exec", name, "cat", "/sys/fs/cgroup/cpu.max").stdout, b"50000 100000\n")
        self.refused("update", "--memory", "64G", name, says=["to 65536 MiB: the container's virtual machine has", "make it anew"])
        text = self.refused("update", "--cpuset-cpus", "4000", name, says="set cpuset.cpus")
        self.assertNotIn("in the guest", text)  # where nothing has changed
        self.refused("update", "--cpu-quota", 5, name, says=["change the limits in the guest", "set cpu.max"])
        self.finish(name)

    def test_memory_above_the_hosts(self):
        """A limit that nobody can reach is one all the same; the machine is as large as one here can be."""
        path = "/%s-large" % host.RUN_TAG
        limit = 8 << 40

        def change(config):
            config["linux"]["cgroupsPath"] = path
            config["linux"]["resources"] = {"memory": {"limit": limit, "swap": limit}}
            config["linux"]["namespaces"].append({"type": "cgroup"})
            config["mounts"].append({"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["ro"]})

        def limits():
            with open("/sys/fs/cgroup%s/memory.max" % path) as f:
                return int(self.ok("exec", name, "cat", "/sys/fs/cgroup/memory.max").stdout), int(f.read())
        name = self.start("sleep", "1000", change=change)
        inside, outside = limits()
        self.assertEqual(inside, limit)
        self.assertGreaterEqual(outside, limit)
        has = int(self.ok("exec", name, "awk", "/^MemTotal/ { print $2 }", "/proc/meminfo").stdout) << 10
        most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self.assertTrue(most * 0.8 < has <= most, (has, most))
        for limit in 16 << 40, most + 1, 64 << 20:
            self.ok("update", "--memory", limit, "--memory-swap", limit, name)
            inside, outside = limits()
            self.assertEqual(inside, limit // 4096 * 4096)
            self.assertGreater(outside, max(limit, has))
        self.finish(name)
        name = self.start("sleep", "1000", change=lambda c: c.update(vm={"hwConfig": {"memory": 128 << 20}}))
        self.ok("update", "--memory", "64G", name)
        self.finish(name)


class Hostile(Running):
    """What a workload gives itself as a name, or has a guest say."""

    def test_names_of_processes(self):
        name = self.start("sh", "-c", "sh -c 'while :; do sleep 1000; done' \"$(printf 'a\\033[2Jb\\nc\\302\\233d\\377')\"")
        self.wait_until(lambda: b" sleep 1000\n" in self.ok("ps", name).stdout, "all are there")
        table = self.ok("ps", name).stdout
        self.assertTrue(all(32 <= byte < 127 or byte == 10 for byte in table), table)
        self.assertIn(b"done a\\x1b[2Jb\\x0ac\\xc2\\x9bd\\xef\\xbf\\xbd", table)
        self.finish(name)

    def test_many_processes(self):
        name = self.start("sh", "-c", "i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); done; touch /done; wait")
        self.wait_until(lambda: os.path.exists(self.rootfs + "/done"), "all are there", 60)
        self.wait_until(lambda: len(self.ok("ps", name).stdout.splitlines()) == 62, "they are listed")
        self.finish(name)
