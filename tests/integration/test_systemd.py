# SPDX-License-Identifier: GPL-2.0-or-later
"""The systemd cgroup driver, with a systemd of the tests' own."""
import os
import pwd
import shutil
import signal
import subprocess
import time
import unittest

from harness import Case, at_levels
import host
from own_systemd import SYSTEMD, OwnSystemd, why_not

USER = pwd.getpwnam("games")


class Systemd(Case):
    """One systemd for all tests of a class."""
    controllers = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        reason = why_not()
        if reason:
            raise unittest.SkipTest(reason)
        cls.systemd = OwnSystemd(host.RUN_TAG + "-systemd", "/tmp/systemd-%s.log" % host.RUN_TAG)
        cls.addClassCleanup(os.unlink, cls.systemd.log_path)
        cls.addClassCleanup(cls.systemd.end)
        cls.systemd.start()
        cls.group, cls.controllers = cls.systemd.group, cls.systemd.controllers()
        cls.nsenter, cls.inside, cls.from_terminal, cls.show = (
            cls.systemd.nsenter, cls.systemd.inside, cls.systemd.from_terminal, cls.systemd.show)

    def command(self, *args, level=None):
        command = super().command(*args, level=level)
        command.insert(1, "--systemd-cgroup")
        return [*self.from_terminal(), *self.nsenter(), *command]

    def container(self, *args, path=None, resources=None, annotations=None):
        """Creates and starts a container; returns its id."""
        def change(config):
            config["linux"]["resources"] = resources or {}
            if path:
                config["linux"]["cgroupsPath"] = path
            if annotations:
                config["annotations"] = annotations
        self.bundle(*args, change=change)
        name = self.create()
        self.ok("start", name)
        return name

    def stop_slices(self, *names):
        for name in names:
            self.addCleanup(self.inside, "systemctl", "stop", name)

    def cgroup_of(self, name):
        """The cgroup of a container's first process, inside of systemd's tree."""
        pid = self.pid(name)
        with_v2 = self.inside("cat", "/proc/%d/cgroup" % pid).stdout.decode().splitlines()
        return next(line[3:] for line in with_v2 if line.startswith("0::"))


@at_levels("plain")
class Driver(Systemd):
    def test_scope(self):
        self.stop_slices("moat-test.slice", "moat.slice")
        name = self.container("sleep", "1000", path="moat-test.slice:cri:web")
        self.assertEqual(self.show("cri-web.scope", "ActiveState", "Slice", "ControlGroup", "Delegate", "Description"),
                         ["active", "moat-test.slice", "/moat.slice/moat-test.slice/cri-web.scope", "yes", "Container " + name])
        self.assertEqual(self.cgroup_of(name), "/moat.slice/moat-test.slice/cri-web.scope")
        procs = self.inside("cat", "/sys/fs/cgroup/moat.slice/moat-test.slice/cri-web.scope/cgroup.procs").stdout.split()
        self.assertEqual(len(procs), 1, "who kept the scope at first is gone")
        self.ok("exec", name, "true")
        self.ok("pause", name)
        self.ok("resume", name)
        self.assertIn(b"sleep", self.ok("ps", name).stdout)
        self.ok("delete", "--force", name)
        self.gone("cri-web.scope")

    def gone(self, unit):
        self.wait_until(lambda: self.show(unit, "LoadState") == "not-found", "systemd has forgotten %s" % unit)

    def test_default_names(self):
        name = self.container("sleep", "1000")
        self.assertEqual(self.cgroup_of(name), "/system.slice/moat-%s.scope" % name)
        self.ok("delete", "--force", name)
        name = self.container("sleep", "1000", path="::bare")
        self.assertEqual(self.cgroup_of(name), "/system.slice/bare.scope")
        self.ok("delete", "--force", name)

    def test_run_and_end(self):
        self.bundle("sh", "-c", "exit 7", change=lambda c: c["linux"].update(cgroupsPath=":moat:short"))
        self.assertEqual(self.run_container().returncode, 7)
        self.gone("moat-short.scope")

    def test_names_that_are_none(self):
        for path in ("a:b", "a.slice:b", "web:a:b", "a.slice:b:c:d", "a--b.slice:b:c", "-a.slice:b:c", "a/b.slice:b:c",
                     ":b:c.slice", ":a/b:c", ":b:", "/absolute"):
            self.bundle("true", change=lambda c: c["linux"].update(cgroupsPath=path))
            self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=" slice" if "--" in path else "with systemd"
                         if not path.startswith("-") else "slice")

    def test_name_in_use(self):
        name = self.container("sleep", "1000", path=":moat:twice")
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=["moat-twice.scope", "systemd: "])
        self.assertEqual(self.state(name)["status"], "running")
        self.ok("delete", "--force", name)

    def test_failed_unit_is_in_nobodys_way(self):
        for _ in range(2):
            name = self.container("sleep", "1000", path=":moat:again")
            self.ok("kill", name, "KILL")
            self.wait_status(name, "stopped")
            self.ok("delete", name)

    def test_limits_that_cannot_be_kept(self):
        """The scope is there by then, and goes again."""
        for resources, says in (({"cpu": {"cpus": "5000"}}, "cpu"), ({"hugepageLimits": [{"pageSize": "7MB", "limit": 1}]}, "hugetlb"),
                                ({"devices": [{"allow": True, "access": "rwx"}]}, "rwx")):
            self.bundle("true", change=lambda c: c["linux"].update(cgroupsPath=":moat:never", resources=resources))
            self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=says)
            self.gone("moat-never.scope")

    def test_limits(self):
        if not {"memory", "cpu", "cpuset", "pids"} <= set(self.controllers):
            self.skipTest("cgroup v2 has no controllers here")
        name = self.container("sleep", "1000", path=":moat:limits", resources={
            "memory": {"limit": 64 << 20, "reservation": 32 << 20}, "pids": {"limit": 33},
            "cpu": {"shares": 2048, "quota": 30000, "period": 60000, "cpus": "0"},
            "unified": {"memory.high": str(48 << 20)}})
        unit = "moat-limits.scope"
        self.assertEqual(self.show(unit, "MemoryMax", "MemoryLow", "MemoryHigh", "TasksMax", "CPUQuotaPerSecUSec",
                                   "CPUQuotaPeriodUSec", "AllowedCPUs"),
                         [str(64 << 20), str(32 << 20), str(48 << 20), "33", "500ms", "60ms", "0"])
        self.assertEqual(self.show(unit, "CPUWeight"), self.read(unit, "cpu.weight"))
        self.assertEqual(self.read(unit, "memory.max"), str(64 << 20))
        self.assertEqual(self.read(unit, "cpu.max"), "30000 60000")
        self.ok("update", "--memory", str(96 << 20), "--pids-limit", "44", name)
        self.assertEqual(self.show(unit, "MemoryMax", "TasksMax"), [str(96 << 20), "44"])
        self.assertEqual(self.read(unit, "memory.max"), str(96 << 20))
        self.inside("systemctl", "daemon-reload")
        self.assertEqual(self.read(unit, "memory.max"), str(96 << 20))
        self.assertEqual(self.read(unit, "pids.max"), "44")
        self.ok("delete", "--force", name)

    def read(self, unit, file):
        return self.inside("cat", "/sys/fs/cgroup/system.slice/%s/%s" % (unit, file)).stdout.decode().strip()

    def test_devices(self):
        name = self.container("sh", "-c", "echo x >/dev/null && mknod /tmp/kmsg c 1 11 && sleep 1000",
                              resources={"devices": [{"allow": False, "access": "rwm"}]})
        done = self.moat("exec", name, "sh", "-c", "echo y >/dev/null && head -c1 /tmp/kmsg")
        self.assertIn(b"Operation not permitted", done.stderr)
        self.inside("systemctl", "daemon-reload")
        done = self.moat("exec", name, "sh", "-c", "echo y >/dev/null && head -c1 /tmp/kmsg")
        self.assertIn(b"Operation not permitted", done.stderr)
        self.ok("delete", "--force", name)

    def test_annotations(self):
        prefix = "org.systemd.property."
        name = self.container("sleep", "1000", path=":moat:notes", annotations={
            prefix + "TimeoutStopSec": "uint64 7", prefix + "KillSignal": "10"})
        self.assertEqual(self.show("moat-notes.scope", "TimeoutStopUSec", "KillSignal"), ["7s", "10"])
        self.ok("delete", "--force", name)
        self.config["annotations"] = {prefix + "MemoryMin": "uint64 4096"}
        self.write_config()
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=["MemoryMin", "operator's file"])
        self.settings["annotations"] = [prefix + "MemoryMin", prefix + "Nonsense", prefix + "After"]
        self.write_settings()
        name = self.create()
        self.assertEqual(self.show("moat-notes.scope", "MemoryMin"), "4096")
        self.ok("delete", "--force", name)
        self.config["annotations"] = {prefix: "uint64 4096"}
        self.write_config()
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=[prefix, "expected the name"])
        for key, value, says in (("Nonsense", "5", ["systemd: ", "Nonsense"]), ("MemoryMin", "uint64 x", ["cannot read"])):
            self.config["annotations"] = {prefix + key: value}
            self.write_config()
            self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=says)
            self.gone("moat-notes.scope")

    def test_moat_is_killed(self):
        """At any moment of a creation: what is left can be deleted, and no scope stays."""
        self.bundle("sleep", "1000", change=lambda c: c["linux"].update(cgroupsPath=":moat:killed"))
        for n in range(4 if host.IN_LAB else 12):
            name = self.new_id()
            process = self.start_moat("create", "--bundle", self.bundle_path, name, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
            time.sleep(n * 0.004 * host.TIME_SCALE)
            process.send_signal(signal.SIGKILL)
            process.wait()
            for pid in host.processes():  # nsenter was killed, and maybe not who it waits for
                try:
                    with open("/proc/%d/cmdline" % pid, "rb") as f:
                        if name.encode() in f.read().split(b"\0"):
                            os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            self.moat("delete", "--force", name)
            self.gone("moat-killed.scope")

    def test_no_systemd(self):
        self.bundle("true")
        command = super(Systemd, self).command("--systemd-cgroup", "run", "--bundle", self.bundle_path, self.new_id())
        done = subprocess.run([*self.nsenter(), "unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /run; exec \"$@\"", "sh",
                               *command], stdin=subprocess.DEVNULL, capture_output=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"connect to systemd", done.stderr)
        self.assertIn(b"cgroupfs driver", done.stderr)


@at_levels("sandbox")
class Hardened(Systemd):
    def test_scope(self):
        if "memory" not in self.controllers:
            self.skipTest("cgroup v2 has no controllers here, which level sandbox limits")
        name = self.container("sleep", "1000", path=":moat:hardened")
        self.assertEqual(self.cgroup_of(name), "/system.slice/moat-hardened.scope")
        self.assertEqual(self.show("moat-hardened.scope", "TasksMax"), "1024")
        self.ok("delete", "--force", name)


@at_levels("plain")
class OrdinaryUser(Systemd):
    """The user's own manager, beneath a cgroup that was given to the user."""
    inner = []  # what moat is called by

    def setUp(self):
        super().setUp()
        self.home = os.path.join(self.work, "run")
        os.mkdir(self.home)
        self.own(self.home)
        self.root = os.path.join(self.home, "moat")
        units = os.path.join(self.home, "units")
        os.mkdir(units)
        with open(os.path.join(units, "test.target"), "w") as f:
            f.write("[Unit]\nDefaultDependencies=no\n")
        # As user@.service is: a cgroup with its processes that the user may divide further.
        group = self.group + "/user"
        for path in (group, group + "/terminal"):
            os.mkdir(path)
            for name in ("", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"):
                self.own(path + name)
        manager = [*self.from_terminal(), *self.nsenter(), *self.as_user("/user"), "SYSTEMD_UNIT_PATH=" + units, "SYSTEMD_LOG_TARGET=console", SYSTEMD,
                   "--user", "--unit=test.target"]
        with open(self.systemd.log_path, "ab") as log:
            self.manager = subprocess.Popen(manager, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(self.end_manager, group)
        private = os.path.join(self.home, "systemd/private")
        self.wait_until(lambda: os.path.exists(private), "the user's systemd runs")

    def end_manager(self, group):
        with open(group + "/cgroup.kill", "w") as f:
            f.write("1")
        self.manager.wait()
        shutil.rmtree(os.path.join(self.home, "systemd"), ignore_errors=True)
        for _ in range(50):
            for directory, _, _ in os.walk(group, topdown=False):
                try:
                    os.rmdir(directory)
                except OSError:
                    time.sleep(0.05)

    def own(self, path):
        os.chown(path, USER.pw_uid, USER.pw_gid)

    def as_user(self, cgroup):
        """From a cgroup of the user's: only processes there can be moved without the system's manager."""
        return ["sh", "-c", "echo 0 >/sys/fs/cgroup%s/cgroup.procs; exec \"$@\"" % cgroup, "sh", "setpriv", "--reuid", str(USER.pw_uid), "--regid", str(USER.pw_gid), "--clear-groups", "--inh-caps=-all", "env",
                "XDG_RUNTIME_DIR=" + self.home]

    def command(self, *args, level=None):
        command = super().command(*args, level=level)
        at = command.index("--root")
        del command[at:at + 2]
        at = len(self.from_terminal()) + len(self.nsenter())
        return command[:at] + self.as_user("/user/terminal") + self.inner + command[at:]

    def container_of(self, uid, gid, path):
        """Creates and starts one, whose root is that id of where moat runs."""
        def change(config):
            config["linux"]["namespaces"].append({"type": "user"})
            for kind, own in (("uidMappings", uid), ("gidMappings", gid)):
                config["linux"][kind] = [{"containerID": 0, "hostID": own, "size": 1}]
            config["linux"]["cgroupsPath"] = path
        self.bundle("sleep", "1000", change=change)
        for directory, names, files in os.walk(self.bundle_path):
            for name in (".", *names, *files):
                os.lchown(os.path.join(directory, name), USER.pw_uid, USER.pw_gid)
        name = self.create()
        self.ok("start", name)
        return name

    def test_scope(self):
        name = self.container_of(USER.pw_uid, USER.pw_gid, "user.slice:moat:own")
        self.assertEqual(self.cgroup_of(name), "/user/user.slice/moat-own.scope")
        self.ok("exec", name, "true")
        self.ok("delete", "--force", name)
        self.assertFalse(os.path.exists(self.group + "/user/user.slice/moat-own.scope"))

    def test_root_of_a_user_namespace(self):
        """As rootless podman calls it."""
        self.inner = ["unshare", "--user", "--map-root-user", "--mount"]
        name = self.container_of(0, 0, "user.slice:libpod:rootless")
        self.assertEqual(self.cgroup_of(name), "/user/user.slice/libpod-rootless.scope")
        self.ok("delete", "--force", name)
        self.assertFalse(os.path.exists(self.group + "/user/user.slice/libpod-rootless.scope"))
