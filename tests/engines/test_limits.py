# SPDX-License-Identifier: GPL-2.0-or-later
"""Who a container is and what it may have: users, capabilities, filters, limits, names."""
import json
import os
import time

import engines
import machine
import table
from base import EngineCase, long, on, only
from images import BUSYBOX

CLI = ("podman", "rootless", "docker")
V2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")


@on(*CLI)
class Limits(EngineCase):
    long_for = ("rootless",)

    def status(self, field, *flags):
        text = self.run_("cat", "/proc/self/status", flags=flags)
        return next(line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith(field + ":"))

    def test_user(self):
        """--user, --group-add"""
        out = self.run_("sh", "-c", "id -u; id -g; id -G", flags=["--user", "1000:1001", "--group-add", "55"])
        self.assertEqual(out.split()[:2], ["1000", "1001"])
        self.assertIn("55", out.split()[2:])
        self.assertEqual(self.run_("id", "-un", flags=["--user", "user"]), "user\n")

    def test_capabilities(self):
        """--cap-drop, --cap-add"""
        self.assertEqual(int(self.status("CapEff", "--cap-drop", "all"), 16), 0)
        self.assertEqual(int(self.status("CapEff", "--cap-drop", "all", "--cap-add", "CHOWN"), 16), 1)
        self.assertNotEqual(int(self.status("CapEff"), 16), 0)
        self.assertNotEqual(self.run_("sh", "-c", "chown 1 /tmp; echo $?", flags=["--cap-drop", "chown"]), "0\n")

    def test_capabilities_added(self):
        """--cap-add beyond the default"""
        self.kept_from("--cap-add", "NET_ADMIN", levels=["sandbox"], says="CAP_NET_ADMIN")
        out = self.run_("sh", "-c", "ip addr add 192.0.2.1/32 dev lo && echo added", flags=["--cap-add", "NET_ADMIN"])
        self.assertEqual(out, "added\n")

    def test_no_new_privileges(self):
        """--security-opt no-new-privileges"""
        self.assertEqual(self.status("NoNewPrivs", "--security-opt", "no-new-privileges"), "1")
        if self.level != "sandbox":
            self.assertEqual(self.status("NoNewPrivs"), "0")

    def test_seccomp(self):
        """--security-opt seccomp=FILE and unconfined"""
        profile = self.path("profile.json", json.dumps({
            "defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]}))
        command = ["sh", "-c", "mkdir /made 2>/dev/null && echo made || echo refused"]
        self.assertEqual(self.run_(*command), "made\n")
        self.assertEqual(self.run_(*command, flags=["--security-opt", "seccomp=" + profile]), "refused\n")
        self.assertEqual(self.run_(*command, flags=["--security-opt", "seccomp=unconfined"]), "made\n")

    def test_privileged(self):
        """--privileged"""
        self.kept_from("--privileged", levels=["sandbox"], says="more than a process may have here")
        if self.family == "docker" and engines.lacks_cap_sys_resource():
            self.skipTest(table.LOCAL + "docker gives more capabilities than this machine has")
        self.devices_are_mounts("--privileged")
        out = self.run_("sh", "-c", "mkdir /m; mount -t tmpfs none /m && echo mounted", flags=["--privileged"])
        self.assertEqual(out, "mounted\n")

    def test_memory(self):
        """--memory: what takes more is killed"""
        self.needs_cgroups()
        name = self.start("sh", "-c", "tail -c 200m /dev/zero", flags=["--memory", "32m", "--memory-swap", "32m"])
        self.cli("wait", name)
        self.assertEqual(self.inspect(name, "{{.State.ExitCode}}"), "137")
        if self.family == "docker":
            self.assertEqual(self.inspect(name, "{{.State.OOMKilled}}"), "true")
        else:  # conmon 2.1.6 notes it where it was started, and podman does not find it
            os.unlink(os.path.join(self.engine.home, "oom"))

    def test_memory_seen(self):
        """--memory: the limit is in force"""
        self.needs_cgroups()
        name = self.start("sleep", "1000", flags=["--memory", "64m"])
        if self.level == "vm":  # on the host there is the machine, which is larger
            self.assertEqual(self.cli("exec", name, "cat", "/sys/fs/cgroup/memory.max"), "%d\n" % (64 << 20))
        else:
            self.assertRegex(self.cli("stats", "--no-stream", "--format", "{{.MemUsage}}", name), r"/ (64MiB|67\.1\dMB)")

    @long
    def test_cpus(self):
        """--cpus"""
        self.needs_cgroups()
        name = self.start("sh", "-c", "while :; do :; done", flags=["--cpus", "0.2"])
        pid = self.inspect(name, "{{.State.Pid}}")
        before, began = self.processor_time(pid), time.monotonic()
        self.cli("exec", name, "sleep", "3")
        used = self.processor_time(pid) - before
        self.assertLess(used, 0.4 * (time.monotonic() - began))

    @staticmethod
    def processor_time(pid):
        """Seconds that a container has had, from the cgroup that its process is in."""
        for line in machine.read("/proc/%s/cgroup" % pid).splitlines():
            _, controllers, path = line.split(":", 2)
            if "cpuacct" in controllers.split(","):
                return int(machine.read("/sys/fs/cgroup/cpuacct%s/cpuacct.usage" % path)) / 1e9
            if V2 and not controllers:
                return int(machine.read("/sys/fs/cgroup%s/cpu.stat" % path).split()[1]) / 1e6
        raise AssertionError("no cgroup that counts")

    def test_pids(self):
        """--pids-limit"""
        self.needs_cgroups()
        done = self.engine.call("run", "--rm", *self.flags(["--pids-limit", "15"]), BUSYBOX, "sh", "-c",
                                "for i in $(seq 30); do sleep 5 & done; wait")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("fork", done.stderr)

    def test_ulimit(self):
        """--ulimit"""
        flags = ["--ulimit", "nofile=100:200", "--ulimit", "core=0"]
        if self.family == "podman":  # else it asks for more processes than may be had without CAP_SYS_RESOURCE
            flags += ["--ulimit", "nproc=4096:4096"]
        self.assertEqual(self.run_("sh", "-c", "ulimit -Sn; ulimit -Hn; ulimit -c", flags=flags), "100\n200\n0\n")

    def test_ulimit_default(self):
        """default ulimits of the engine"""
        self.assertEqual(self.run_("sh", "-c", "ulimit -Sn; ulimit -Hn"), "1024\n1024\n")

    @long
    def test_cpuset(self):
        """--cpuset-cpus, --cpu-shares"""
        self.needs_cgroups()
        self.assertEqual(self.status("Cpus_allowed_list", "--cpuset-cpus", "0", "--cpu-shares", "100"), "0")

    def test_shm(self):
        """--shm-size"""
        fill = "dd if=/dev/zero of=/dev/shm/file bs=64k count=64 2>&1 | grep -o 'No space'; wc -c < /dev/shm/file"
        self.assertEqual(self.run_("sh", "-c", fill, flags=["--shm-size", "2m"]).split("\n")[:2], ["No space", str(2 << 20)])

    def test_hostname(self):
        """--hostname, --add-host, --dns"""
        flags = ["--hostname", "named", "--add-host", "other:192.0.2.7"]
        out = self.run_("sh", "-c", "hostname; grep other /etc/hosts | tr '\\t' ' '", flags=flags)
        self.assertEqual(out, "named\n192.0.2.7 other\n")

    def test_dns(self):
        """--dns, --dns-search"""
        network = ["--network", "none"] if self.level == "vm" and self.family == "docker" else []
        out = self.run_("cat", "/etc/resolv.conf", flags=["--dns", "192.0.2.53", "--dns-search", "example.org", *network])
        self.assertIn("nameserver 192.0.2.53", out)
        self.assertIn("search example.org", out)

    def test_environment(self):
        """--env, --env-file, --workdir, --entrypoint, --label"""
        file = self.path("env", "FROM_FILE=1\n")
        name = self.name()
        out = self.cli("run", "--name", name, *self.flags(["--env", "A=b c", "--env-file", file, "--workdir", "/tmp", "--label",
                       "kind=test", "--entrypoint", "sh"]), BUSYBOX, "-c", "echo $A $FROM_FILE; pwd")
        self.assertEqual(out, "b c 1\n/tmp\n")
        self.assertEqual(self.inspect(name, "{{.Config.Labels.kind}}"), "test")

    def test_sysctl(self):
        """--sysctl"""
        self.assertEqual(self.run_("cat", "/proc/sys/net/ipv4/ip_default_ttl", "/proc/sys/kernel/shmmni", flags=[
            "--sysctl", "net.ipv4.ip_default_ttl=77", "--sysctl", "kernel.shmmni=1234"]).split(), ["77", "1234"])

    def devices_are_mounts(self, *flags):
        """podman gives an ordinary user devices as bind mounts; a microVM takes none such."""
        if self.engine.rootless and self.level == "vm":
            self.refused("run", "--rm", *self.flags(flags), BUSYBOX, "true", says="only directories and regular files can be")

    def test_device(self):
        """--device"""
        self.kept_from("--device", "/dev/fuse", levels=["sandbox"], says="/dev/fuse")
        self.devices_are_mounts("--device", "/dev/fuse")
        self.assertEqual(self.run_("sh", "-c", "test -c /dev/fuse && echo there", flags=["--device", "/dev/fuse"]), "there\n")

    def test_pid_host(self):
        """--pid host"""
        self.kept_from("--pid", "host", levels=["sandbox"], says="pid namespace")
        if self.engine.rootless and self.level == "vm":  # podman gives an ordinary user the host's /proc for it
            self.refused("run", "--rm", *self.flags(["--pid", "host"]), BUSYBOX, "true",
                         says="what is in it is of the host's processes")
        seen = "engines/run" in self.run_("ps", flags=["--pid", "host"])
        self.assertEqual(seen, self.level != "vm")  # there the processes are the guest's

    @only("docker", why="podman 4.3 has no --gpus")
    def test_gpus(self):
        """--gpus is refused with a reason"""
        done = self.engine.call("run", "--rm", "--network", "none", "--gpus", "all", BUSYBOX, "true")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("gpu", done.stderr.lower())

    def test_masked(self):
        """/proc and /sys are masked"""
        self.assertEqual(self.run_("sh", "-c", "wc -c < /proc/kcore; echo x > /proc/sysrq-trigger || echo refused").split()[-1], "refused")
