# SPDX-License-Identifier: GPL-2.0-or-later
"""Control groups as a container's engine sees them: limits in the files, kept; pausing; ends that leave nothing."""
import os
import subprocess
import time

from harness import Case, at_levels, differs
import host

V2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")


def has(controller):
    if V2:
        with open("/sys/fs/cgroup/cgroup.controllers") as f:
            return controller in f.read().split()
    return os.path.exists("/sys/fs/cgroup/%s/cgroup.procs" % controller)


@at_levels("plain", "vm", quick={"vm": ["test_delete_ends_all_and_nested_cgroups"]})
class Cgroup(Case):
    def container(self, *args, resources=None):
        """Creates and starts a container with limits; returns its id."""
        self.bundle(*args)
        self.config["linux"]["cgroupsPath"] = self.path = "/%s/%s" % (host.RUN_TAG, self.id())
        self.config["linux"]["resources"] = resources or {}
        self.write_config()
        self.addCleanup(host.remove_tagged_cgroups)
        name = self.create()
        self.ok("start", name)
        return name

    def file(self, name, controller=None):
        if V2:
            return "/sys/fs/cgroup%s/%s" % (self.path, name)
        return "/sys/fs/cgroup/%s%s/%s" % (controller or name.split(".")[0], self.path, name)

    def read(self, v1, v2):
        with open(self.file(v2 if V2 else v1)) as f:
            return f.read().strip()

    @differs("vm", "the host's cgroup holds the machine: its limits are those of test_guest and test_vm_machine")
    def test_limits(self):
        for controller in ("memory", "pids", "cpu"):
            if not has(controller):
                self.skipTest("no %s controller" % controller)
        name = self.container("sleep", "1000", resources={
            "memory": {"limit": 64 << 20, "reservation": 32 << 20}, "pids": {"limit": 33},
            "cpu": {"shares": 2048, "quota": 30000, "period": 60000}})
        self.assertEqual(self.read("memory.limit_in_bytes", "memory.max"), str(64 << 20))
        self.assertEqual(self.read("memory.soft_limit_in_bytes", "memory.low"), str(32 << 20))
        self.assertEqual(self.read("pids.max", "pids.max"), "33")
        self.assertEqual(self.read("cpu.shares", "cpu.weight"), "174" if V2 else "2048")
        self.assertEqual(self.read("cpu.cfs_quota_us", "cpu.max"), "30000 60000" if V2 else "30000")
        self.ok("update", "--memory", str(96 << 20), "--pids-limit", "44", name)
        self.assertEqual(self.read("memory.limit_in_bytes", "memory.max"), str(96 << 20))
        self.assertEqual(self.read("pids.max", "pids.max"), "44")
        self.ok("delete", "--force", name)

    def test_in_every_hierarchy(self):
        name = self.container("sleep", "1000")
        with open("/proc/%d/cgroup" % self.pid(name)) as f:
            for line in f:
                number, controllers, path = line.strip().split(":", 2)
                mounted = V2 or not controllers or os.path.exists("/sys/fs/cgroup/" + controllers.replace("name=", ""))
                if mounted:
                    self.assertEqual(path, self.path, line)
        self.ok("delete", "--force", name)

    def test_too_many_processes(self):
        if not has("pids"):
            self.skipTest("no pids controller")
        self.bundle("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done; echo all")
        self.config["linux"]["cgroupsPath"] = "/%s/%s" % (host.RUN_TAG, self.id())
        self.config["linux"]["resources"] = {"pids": {"limit": 5}}
        self.write_config()
        self.addCleanup(host.remove_tagged_cgroups)
        done = self.run_container()
        self.assertIn(b"can't fork", done.stderr)
        self.assertNotIn(b"all", done.stdout)

    def test_memory_is_limited(self):
        if not has("memory"):
            self.skipTest("no memory controller")
        limits = {"limit": 16 << 20}
        if not V2 or has("memory"):
            limits["swap"] = 16 << 20
        self.bundle("sh", "-c", "x=$(head -c 64000000 /dev/zero | tr '\\0' x); echo done")
        self.config["linux"]["cgroupsPath"] = self.path = "/%s/%s" % (host.RUN_TAG, self.id())
        self.config["linux"]["resources"] = {"memory": limits}
        self.write_config()
        self.addCleanup(host.remove_tagged_cgroups)
        done = self.run_container()
        self.assertNotIn(b"done", done.stdout)
        self.assertNotEqual(done.returncode, 0)

    def test_devices(self):
        if not V2 and not has("devices"):
            self.skipTest("no devices controller")
        self.bundle("sh", "-c", "echo x >/dev/null && mknod /tmp/kmsg c 1 11 && head -c1 /tmp/kmsg")
        self.config["linux"]["cgroupsPath"] = self.path = "/%s/%s" % (host.RUN_TAG, self.id())
        self.config["linux"]["resources"] = {"devices": [{"allow": False, "access": "rwm"}]}
        self.write_config()
        self.addCleanup(host.remove_tagged_cgroups)
        done = self.run_container()
        self.assertIn(b"Operation not permitted", done.stderr)
        self.assertEqual(done.returncode, 1)

    @differs("vm", "the container's pid is the monitor's, which uses no time: test_control pauses machines")
    def test_pause_and_resume(self):
        name = self.container("sh", "-c", "while :; do :; done")
        pid = self.pid(name)

        def ticks():
            with open("/proc/%d/stat" % pid) as f:
                return int(f.read().rsplit(")", 1)[1].split()[11])
        self.ok("pause", name)
        self.assertEqual(self.state(name)["status"], "paused")
        before = ticks()
        time.sleep(0.2)
        self.assertEqual(ticks(), before)
        self.ok("resume", name)
        self.assertEqual(self.state(name)["status"], "running")
        self.wait_until(lambda: ticks() > before, "it goes on")
        self.ok("delete", "--force", name)

    def test_delete_while_paused(self):
        name = self.container("sleep", "1000")
        self.ok("pause", name)
        self.ok("delete", "--force", name)

    def test_delete_ends_all_and_nested_cgroups(self):
        name = self.container("sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; trap '' TERM; sleep 1000")
        root = os.path.dirname(self.file("cgroup.procs", "pids" if not V2 and has("pids") else "systemd"))
        deep = root + "/a" * 50
        os.makedirs(deep)
        self.ok("delete", "--force", name)
        self.assertFalse(os.path.exists(root))

    def test_kill_all(self):
        name = self.container("sh", "-c", "sleep 1000 & exec sleep 1000")
        pid = self.pid(name)
        self.ok("kill", "--all", name, "KILL")
        self.wait_status(name, "stopped")
        self.wait_until(lambda: not os.path.exists("/proc/%d" % pid), "it is reaped")
        self.ok("delete", name)

    def test_paths(self):
        for path in ("/..", "../up", "/a/../../b", "/"):
            self.bundle("true", change=lambda c: c["linux"].update(cgroupsPath=path))
            self.refused("run", "--bundle", self.bundle_path, self.new_id(), says="cgroupsPath")

    def test_cgroup_in_use(self):
        name = self.container("sleep", "1000")
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=[self.path, "has processes in it"])
        self.assertEqual(self.state(name)["status"], "running")
        self.ok("delete", "--force", name)

    def test_limits_that_cannot_be_kept(self):
        cases = [({"cpu": {"cpus": "5000"}}, "cpuset"),
                 ({"memory": {"limit": 8 << 20, "swap": 4 << 20}}, "cannot be less"),
                 ({"hugepageLimits": [{"pageSize": "7MB", "limit": 1}]}, "hugetlb"),
                 ({"devices": [{"allow": True, "access": "rwx"}]}, "rwx"),
                 ({"network": {"classID": 1}} if V2 else {"unified": {"memory.high": "1"}}, "cgroup v2")]
        for resources, says in cases:
            self.bundle("true")
            self.config["linux"]["resources"] = resources
            self.config["linux"]["cgroupsPath"] = self.path = "/%s/%s" % (host.RUN_TAG, self.id())
            self.write_config()
            self.addCleanup(host.remove_tagged_cgroups)
            self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=says)


@at_levels("plain", "vm")
class Divided(Case):
    """A container with a cgroup namespace and its cgroup file system writable: it may divide its cgroup, under v2."""

    def divided(self, script, option="rw", **linux):
        if not V2 and self.level != "vm":
            self.skipTest("cgroups are divided by containers under v2 alone")

        def change(config):
            config["linux"].update(linux)
            config["linux"]["cgroupsPath"] = "/%s-divided" % host.RUN_TAG
            config["linux"]["namespaces"].append({"type": "cgroup"})
            config["mounts"].append({"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup",
                                     "options": ["nosuid", "noexec", "nodev", option]})
        self.bundle("sh", "-c", script, change=change)

    def test_exec_goes_where_the_first_process_is(self):
        self.divided("cd /sys/fs/cgroup; mkdir inner; echo 1 > inner/cgroup.procs; echo +pids > cgroup.subtree_control; "
                     "touch /divided; exec sleep 1000")
        name = self.create()
        self.ok("start", name)
        # Not asked by exec: its process would be in the way.
        self.wait_until(lambda: os.path.exists(self.rootfs + "/divided"), "the cgroup is divided")
        if self.level == "vm" or has("pids"):
            self.assertEqual(self.ok("exec", name, "cat", "/sys/fs/cgroup/cgroup.subtree_control").stdout, b"pids\n")
        self.assertEqual(self.ok("exec", name, "grep", "^0::", "/proc/self/cgroup").stdout, b"0::/inner\n")
        self.ok("pause", name)
        self.ok("resume", name)
        self.ok("delete", "--force", name)

    @differs("vm", "the ids of its user namespace are the guest's")
    def test_it_is_its_users(self):
        owner = {"user": 500000}

        def container(option):
            maps = [{"containerID": 0, "hostID": owner["user"], "size": 65536}]
            self.divided("sleep 1000", option=option, uidMappings=maps, gidMappings=maps,
                         namespaces=[{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount", "user")])
            subprocess.run(["chown", "-hR", "%d:%d" % (owner["user"], owner["user"]), self.rootfs], check=True)
            name = self.create()
            self.ok("start", name)
            top = "/sys/fs/cgroup/%s-divided/" % host.RUN_TAG
            owners = [os.stat(top + file).st_uid for file in ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.freeze")]
            return name, owners
        name, owners = container("rw")
        self.assertEqual(owners, [owner["user"]] * 3 + [0])
        self.ok("exec", name, "mkdir", "/sys/fs/cgroup/inner")
        self.refused("exec", name, "sh", "-c", "echo 1 > /sys/fs/cgroup/cgroup.freeze", says="")
        self.ok("delete", "--force", name)
        name, owners = container("ro")
        self.assertEqual(owners, [0] * 4)
        self.ok("delete", "--force", name)


@at_levels("plain", "sandbox")
class Resctrl(Case):
    """
    linux.intelRdt, on a tree of plain files where the operator's file says that resctrl is: what only the kernel makes, the
    files of a new group, is left to the unit test.
    """

    def tree(self):
        top = os.path.join(self.work, "resctrl")
        os.makedirs(os.path.join(top, "gold/mon_groups"))
        for name, text in (("gold/tasks", ""), ("gold/schemata", "    L3:0=ff\n")):
            with open(os.path.join(top, name), "w") as f:
                f.write(text)
        self.settings["resctrl"] = top
        self.write_settings()
        return os.path.join(top, "gold")

    def text(self, path):
        with open(path) as f:
            return f.read()

    def rdt(self, **members):
        self.bundle("sleep", "1000", change=lambda c: c["linux"].update(intelRdt=members))

    def test_joins_with_all_its_processes(self):
        group = self.tree()
        self.rdt(closID="gold", l3CacheSchema="L3:0=ff")
        name = self.create()
        self.assertEqual(self.text(group + "/tasks"), "%d\n" % self.pid(name))
        self.ok("start", name)
        pid_file = os.path.join(self.work, "pid")
        self.ok("exec", "--detach", "--pid-file", pid_file, name, "sleep", "1000", stdout=subprocess.DEVNULL)
        self.assertEqual(self.text(group + "/tasks").split()[0], self.text(pid_file))
        self.ok("update", "--l3-cache-schema", "L3:0=f", "--pids-limit", 50, name)
        self.assertTrue(self.text(group + "/schemata").startswith("L3:0=f\n"))
        self.ok("delete", "--force", name)
        self.assertTrue(os.path.isdir(group))

    def test_nothing_is_left_where_it_cannot_be_had(self):
        group = self.tree()
        for members, says in (({"closID": "lead"}, "give a schema"), ({"closID": "gold", "l3CacheSchema": "L3:0=f"}, "other shares"),
                              ({"closID": "../x"}, "name of a group"), ({"memBwSchema": "MB:0=10"}, "schemata"),
                              ({}, "tasks"), ({"closID": "gold", "enableMonitoring": True}, "tasks")):
            with self.subTest(members=members):
                self.rdt(**members)
                name = self.new_id()
                self.refused("create", "--bundle", self.bundle_path, name, says=says)
                self.assertEqual(sorted(os.listdir(os.path.dirname(group))), ["gold"])
                self.assertEqual(os.listdir(group + "/mon_groups"), [])
                self.refused("state", name, says="does not exist")

    def test_no_resctrl(self):
        with open("/proc/mounts") as f:
            if " resctrl " in f.read():
                self.skipTest("there is one")
        self.rdt(closID="gold")
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=("intelRdt", "not mounted", "mount -t resctrl"))
