# SPDX-License-Identifier: GPL-2.0-or-later
"""config.json inside of a microVM: what the agent makes of it, seen from the workload."""
import json
import os
import pty
import select
import shutil
import subprocess

from harness import Case, TIME_SCALE, at_levels, program
import host

MIB = 1 << 20


@at_levels("vm")
class Guest(Case):
    def resources(self, **resources):
        """For the cgroups of the host, too, so with a path where controllers are given."""
        def change(config):
            config["linux"]["cgroupsPath"] = "/%s/%s" % (host.RUN_TAG, self.id())
            config["linux"]["resources"] = resources
            config["linux"]["namespaces"].append({"type": "cgroup"})
            config["mounts"].append({"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup"})
            self.addCleanup(host.remove_tagged_cgroups)
        return change

    def test_limits_are_the_workloads(self):
        change = self.resources(memory={"limit": 48 * MIB}, pids={"limit": 33},
                                cpu={"quota": 40000, "period": 100000, "cpus": "0", "mems": "0"})
        out = self.output("sh", "-c", "cd /sys/fs/cgroup; cat memory.max pids.max cpu.max", change=change)
        self.assertEqual(out, "%d\n33\n40000 100000\n" % (48 * MIB))

    def test_out_of_memory_is_the_workloads_end(self):
        """The guest's OOM killer ends it: neither the machine nor the host's does."""
        self.bundle("sh", "-c", "x=a; while :; do x=$x$x; done", change=self.resources(memory={"limit": 48 * MIB}))
        done = self.run_container()
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertRegex(done.stderr, rb"container \S+: the workload ran out of memory")
        # One that asks for more than the machine has, at once, gets it, and ends when it uses it.
        self.bundle("tail", "-c", "500m", "/dev/zero", change=self.resources(memory={"limit": 48 * MIB}))
        self.assertEqual(self.run_container().returncode, 137)

    def test_user_namespace(self):
        def change(config):
            config["linux"]["namespaces"].append({"type": "user"})
            for kind in ("uidMappings", "gidMappings"):
                config["linux"][kind] = [{"containerID": 0, "hostID": 70000, "size": 1000}]
        out = self.output("sh", "-c", "cat /proc/self/uid_map; ls /sys/kernel >/dev/null && echo sysfs", change=change)
        self.assertEqual(out.split(), ["0", "70000", "1000", "sysfs"])

    def test_seccomp(self):
        def change(config):
            config["linux"]["seccomp"] = {
                "defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"],
                "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 30}]}
        self.bundle("mkdir", "/tmp/x", change=change)
        done = self.run_container()
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"Read-only file system", done.stderr)

    def test_sysctl_of_the_network_and_of_ipc(self):
        def change(config):
            config["linux"]["sysctl"] = {"net.core.somaxconn": "77", "kernel.shmmax": "123456"}
        out = self.output("cat", "/proc/sys/net/core/somaxconn", "/proc/sys/kernel/shmmax", change=change)
        self.assertEqual(out, "77\n123456\n")

    def test_start_container_hook(self):
        def change(config):
            config["hooks"] = {"startContainer": [{"path": "/bin/sh", "args": ["sh", "-c", "cat >/hooked"]}]}
        state = json.loads(self.output("cat", "/hooked", change=change))
        self.assertEqual((state["id"], state["status"]), (self.ids[-1], "created"))

    def test_loopback_is_up(self):
        self.assertIn("LOOPBACK,UP", self.output("ip", "address", "show", "lo"))

    def test_agent_is_out_of_reach(self):
        """Without a pid namespace the agent is in sight: neither its memory, its files nor its life is the workload's."""
        def change(config):
            spaces = config["linux"]["namespaces"]
            config["linux"]["namespaces"] = [n for n in spaces if n["type"] != "pid"]
        out = self.output("sh", "-c", "cat /proc/1/comm; for i in fd/0 root exe cwd; do readlink /proc/1/$i; done; "
                          "cat /proc/1/mem 2>/dev/null || echo unread; kill -KILL 1; echo alive", change=change)
        self.assertEqual(out, "init\nunread\nalive\n")

    def test_streams_of_others(self):
        """An ordinary user's process that tries the ports where streams were wont to be is not there before the agent."""
        self.bundle("/thief", "19", "42")
        shutil.copy(program("thief"), self.rootfs)
        name = self.new_id()
        process = self.start_moat("run", "--bundle", self.bundle_path, name, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        for _ in range(8):
            self.assertEqual(self.ok("exec", name, "cat", input=b"secret\n").stdout, b"secret\n")
        self.ok("kill", name, "KILL")
        self.assertEqual(process.communicate(timeout=30 * TIME_SCALE)[0], b"")

    def test_what_cannot_be_is_refused(self):
        for say, edit in (
                ("ipc namespace", lambda c: c["linux"]["namespaces"].__setitem__(
                    slice(None), [{"type": "mount"}, {"type": "ipc", "path": "/proc/self/ns/ipc"}])),
                ("type 'nfs'", lambda c: c["mounts"].append({"destination": "/n", "type": "nfs", "source": "h:/x"})),
                ("execCPUAffinity", lambda c: c["process"].update(execCPUAffinity={"final": "0"})),
                ("listenerPath: a listener on the host cannot serve system calls of a microVM; leave it out, or use", lambda c: c["linux"].update(seccomp={
                    "defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/run/x", "syscalls": [
                        {"names": ["mkdir"], "action": "SCMP_ACT_NOTIFY"}]})),
                ("/dev/sda (b 8:0)", lambda c: c["linux"].update(devices=[
                    {"path": "/dev/null", "type": "c", "major": 1, "minor": 3},
                    {"path": "/dev/sda", "type": "b", "major": 8, "minor": 0}])),
                ("/dev/kvm (c 10:232)", lambda c: c["linux"].update(devices=[
                    {"path": "/dev/kvm", "type": "c", "major": 10, "minor": 232}])),
                ("netDevices: an interface of the host cannot be moved into a microVM; move it", lambda c: c["linux"].update(netDevices={"eth0": {"name": "x"}})),
                ("intelRdt", lambda c: c["linux"].update(intelRdt={"closID": "x"}))):
            with self.subTest(say):
                self.bundle("true", change=edit)
                self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=say)
        self.bundle("true")
        self.refused("run", "--preserve-fds", 1, "--bundle", self.bundle_path, self.new_id(),
                     says=("--preserve-fds", "cannot be passed", "or use --isolation=sandbox"))

    def test_every_device_of_the_host(self):
        """As engines' --privileged gives them: the guest has those that are its own."""
        def change(config):
            config["linux"]["devices"] = [{"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229},
                                          {"path": "/dev/sda", "type": "b", "major": 8, "minor": 0}]
            config["linux"]["resources"] = {"devices": [{"allow": True, "access": "rwm"}]}
        self.assertEqual(self.output("sh", "-c", "ls /dev/fuse; ls /dev/sda 2>/dev/null; true", change=change), "/dev/fuse\n")

    def test_terminal(self):
        def change(config):
            config["process"]["terminal"] = True
        self.bundle("sh", "-c", "tty; read line; echo got $line; exit 5", change=change)
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        process = self.start_moat("run", "--bundle", self.bundle_path, self.new_id(), stdin=theirs, stdout=theirs,
                                  stderr=theirs)
        os.close(theirs)
        text = b""
        os.write(ours, b"word\n")
        while select.select([ours], [], [], 30 * TIME_SCALE)[0]:
            try:
                data = os.read(ours, 4096)
            except OSError:  # EIO: the other side is closed
                break
            text += data
        self.assertEqual(process.wait(), 5, text)
        self.assertIn(b"/dev/pts/0", text)
        self.assertIn(b"got word", text)
