# SPDX-License-Identifier: GPL-2.0-or-later
"""Namespaces at level plain: new ones, joined ones, what is set in them, devices."""
import os
import subprocess

from harness import Case, at_levels, differs, host

KINDS = {"pid": "pid", "network": "net", "ipc": "ipc", "uts": "uts", "mount": "mnt", "cgroup": "cgroup", "time": "time",
         "user": "user"}
MAP = [{"containerID": 0, "hostID": 100000, "size": 65536}]


def namespaces(*kinds, **paths):
    def change(c):
        c["linux"]["namespaces"] = [{"type": kind} for kind in kinds] + [
            {"type": kind, "path": path} for kind, path in paths.items()]
    return change


def own(kind):
    return os.readlink("/proc/self/ns/" + KINDS[kind])


@at_levels("plain", "vm", quick={"vm": ["test_join_the_wrong_kind", "test_user_namespace"]})
class Namespaces(Case):
    SHOW = ("sh", "-c", "cd /proc/self/ns; for i in *; do echo $i $(readlink $i); done")

    def shown(self, change):
        return dict(line.split() for line in self.output(*self.SHOW, change=change).splitlines())

    def with_userns(self, *also):
        """A user namespace, whose root must reach the image."""
        def change(c):
            c["linux"]["namespaces"].append({"type": "user"})
            c["linux"].update(uidMappings=MAP, gidMappings=MAP)
            for top, directories, files in os.walk(self.rootfs):
                for name in ["."] + directories + files:
                    os.lchown(os.path.join(top, name), 100000, 100000)
            for function in also:
                function(c)
        return change

    def test_new_ones(self):
        kinds = ["pid", "network", "ipc", "uts", "mount", "cgroup", "time"]
        shown = self.shown(namespaces(*kinds))
        for kind in kinds:
            self.assertNotEqual(shown[KINDS[kind]], own(kind), kind)
        self.assertEqual(shown["user"], own("user"))

    @differs("vm", "what is not the container's own is the guest's, not the host's")
    def test_only_mount(self):
        def change(c):
            namespaces("mount")(c)
            del c["hostname"]
            c["mounts"] = [m for m in c["mounts"] if m["type"] not in ("sysfs", "mqueue")]
        shown = self.shown(change)
        for kind in ("pid", "network", "ipc", "uts"):
            self.assertEqual(shown[KINDS[kind]], own(kind), kind)

    def test_no_mount_namespace(self):
        self.bundle("true", change=namespaces("pid", "uts"))
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says="mount namespace")

    @differs("vm", "of the host's namespaces only that of the network can be joined: others are refused")
    def test_joined(self):
        with subprocess.Popen(["unshare", "--net", "--ipc", "--uts", "--pid", "--fork", "--kill-child", "sh", "-c",
                               "echo ready; read x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            self.assertEqual(holder.stdout.readline(), b"ready\n")
            with open("/proc/%d/task/%d/children" % (holder.pid, holder.pid)) as f:
                inner = int(f.read())
            paths = {kind: "/proc/%d/ns/%s" % (inner, KINDS[kind]) for kind in ("network", "ipc", "uts", "pid")}
            expected = {kind: os.readlink(path) for kind, path in paths.items()}
            shown = self.shown(namespaces("mount", **paths))
            holder.stdin.close()
        for kind in paths:
            self.assertEqual(shown[KINDS[kind]], expected[kind], kind)

    def test_join_the_wrong_kind(self):
        self.bundle("true", change=namespaces("mount", network="/proc/self/ns/ipc"))
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=["/proc/self/ns/ipc", "network"])
        self.bundle("true", change=namespaces("mount", network="/etc/passwd"))
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=["/etc/passwd", "not a namespace"])

    def test_pid_one(self):
        self.assertEqual(self.output("sh", "-c", "echo $$"), "1\n")

    def test_hostname_and_domainname(self):
        def change(c):
            c.update(hostname="some-name", domainname="some.domain")
        out = self.output("cat", "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname", change=change)
        self.assertEqual(out, "some-name\nsome.domain\n")

    def test_hostname_without_namespace(self):
        self.bundle("true", change=namespaces("mount", "pid"))
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says="hostname")

    def test_loopback_is_up(self):
        out = self.output("cat", "/sys/class/net/lo/flags")
        self.assertEqual(int(out, 16) & 1, 1)

    def test_time_offsets(self):
        def change(c):
            namespaces("mount", "pid", "uts", "ipc", "network", "time")(c)
            c["linux"]["timeOffsets"] = {"monotonic": {"secs": 86400}, "boottime": {"secs": 172800, "nanosecs": 5}}
        uptime = float(self.output("cat", "/proc/uptime", change=change).split()[0])
        with open("/proc/uptime") as f:
            since = float(f.read().split()[0])
        if self.level == "vm":  # a kernel that has just been started
            since = 0
        self.assertAlmostEqual(uptime - since, 172800, delta=60 * host.TIME_SCALE)

    def test_user_namespace(self):
        out = self.output("sh", "-c", "cat /proc/self/uid_map; id -u; touch /new; ls -ln /new; cat /dev/null && mount",
                          change=self.with_userns())
        self.assertRegex(out, r"^ +0 +100000 +65536\n0\n")
        self.assertEqual(os.stat(os.path.join(self.rootfs, "new")).st_uid, 100000)

    def test_user_namespace_whose_root_does_not_own_the_image(self):
        """What is not there cannot be made, as with others; what is there is used."""
        def change(path, *mounts):
            def function(c):
                c["linux"]["namespaces"].append({"type": "user"})
                c["linux"].update(uidMappings=MAP, gidMappings=MAP, devices=[
                    {"path": path, "type": "c", "major": 1, "minor": 3, "fileMode": 0o666}])
                c["mounts"] = [m for m in c["mounts"] if not m["destination"].startswith("/dev") or "/dev" in mounts]
            return function
        for path, mounts, says in (("/opt/deep/null", ["/dev"], "make directory /opt"), ("/dev/null", [], "make file /dev/")):
            self.bundle("true", change=change(path, *mounts))
            self.refused("run", "--bundle", self.bundle_path, self.new_id(),
                         says=(says, "Permission denied", "have it in the root file system beforehand"))
            self.assertFalse(os.path.exists(os.path.join(self.rootfs, "opt")))
        self.assertEqual(self.output("sh", "-c", "echo x >/dev/null; stat -c %t:%T /dev/null", change=change("/dev/null", "/dev")), "1:3\n")

    def test_devices_in_a_user_namespace(self):
        """None can be made there: it is the host's of that path, or of that number under another name."""
        def devices(*devices):
            return self.with_userns(lambda c: c["linux"].update(devices=[
                {"path": path, "type": "c", "major": major, "minor": minor} for path, major, minor in devices]))
        out = self.output("stat", "-c", "%n %F %t:%T", "/dev/mine", "/dev/below/null", "/dev/zero",
                          change=devices(("/dev/mine", 1, 5), ("/dev/below/null", 1, 3), ("/dev/zero", 1, 5)))
        self.assertEqual(out, "".join("%s character special file %s\n" % named for named in (
            ("/dev/mine", "1:5"), ("/dev/below/null", "1:3"), ("/dev/zero", "1:5"))))
        self.assertEqual(self.output("stat", "-c", "%t:%T", "/dev/full", change=devices(("/dev/full", 1, 3))), "1:3\n")
        self.bundle("true", change=devices(("/dev/none", 1, 250)))
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=("the host's /dev/none", "user namespace"))

    def test_user_namespace_without_maps(self):
        self.bundle("true", change=namespaces("mount", "user", "pid", "uts", "ipc", "network"))
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says="uidMappings")

    def test_user_namespace_and_unreachable_sources(self):
        hidden = os.path.join(self.work, "hidden")
        os.makedirs(os.path.join(hidden, "data"))
        with open(os.path.join(hidden, "data/file"), "w") as f:
            f.write("seen\n")
        os.chmod(hidden, 0o700)
        change = self.with_userns(lambda c: c["mounts"].append(
            {"destination": "/data", "source": os.path.join(hidden, "data"), "type": "bind", "options": ["rbind", "ro"]}))
        self.assertEqual(self.output("cat", "/data/file", change=change), "seen\n")

    @differs("vm", "the guest's own network stands for the one joined")
    def test_user_namespace_and_joined_network(self):
        with subprocess.Popen(["unshare", "--net", "sh", "-c", "echo ready; read x"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as holder:
            self.assertEqual(holder.stdout.readline(), b"ready\n")
            path = "/proc/%d/ns/net" % holder.pid
            expected = os.readlink(path)

            def join(c):
                namespaces("mount", "pid", "uts", "ipc", "user", network=path)(c)
                c["mounts"] = [m for m in c["mounts"] if m["type"] != "sysfs"]
            shown = self.shown(self.with_userns(join))
            holder.stdin.close()
        self.assertEqual(shown["net"], expected)

    def test_sysctl(self):
        def change(c):
            c["linux"]["sysctl"] = {"net.ipv4.ip_forward": "1", "kernel.shmmni": "1234", "net/ipv4/ip_default_ttl": "77"}
        out = self.output("cat", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel/shmmni",
                          "/proc/sys/net/ipv4/ip_default_ttl", change=change)
        self.assertEqual(out, "1\n1234\n77\n")

    @differs("vm", "the guest's network is the container's, with or without a namespace")
    def test_sysctl_of_the_hosts_network(self):
        self.bundle("true", change=lambda c: (namespaces("mount", "uts")(c), c["linux"].__setitem__(
            "sysctl", {"net.ipv4.ip_forward": "1"})))
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says="network namespace")

    def test_sysctl_refused(self):
        for key, words in (
                ("vm.swappiness", "vm.swappiness"), ("kernel.core_pattern", "kernel.core_pattern"),
                ("net/../kernel/core_pattern", "net/../kernel"), ("net.ipv4.no_such_thing", "no_such_thing")):
            self.bundle("true", change=lambda c: c["linux"].__setitem__("sysctl", {key: "1"}))
            self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=words)


@at_levels("plain", "vm", quick={"vm": []})
class Devices(Case):
    def test_defaults(self):
        out = self.output("sh", "-c", "cd /dev; stat -c '%n %F %t:%T %a' null zero full random urandom tty; "
                          "for i in fd stdin stdout stderr ptmx; do readlink $i; done")
        for name, number in (("null", "1:3"), ("zero", "1:5"), ("full", "1:7"), ("random", "1:8"), ("urandom", "1:9"),
                             ("tty", "5:0")):
            self.assertIn("%s character special file %s 666\n" % (name, number), out)
        self.assertIn("/proc/self/fd\n/proc/self/fd/0\n/proc/self/fd/1\n/proc/self/fd/2\npts/ptmx\n", out)

    def test_listed(self):
        def change(c):
            c["linux"]["devices"] = [
                {"path": "/dev/mine", "type": "c", "major": 1, "minor": 5, "fileMode": 0o640, "uid": 3, "gid": 4},
                {"path": "/dev/below/pipe", "type": "p", "fileMode": 0o600},
                {"path": "/dev/unbuffered", "type": "u", "major": 1, "minor": 7},
                {"path": "/dev/null", "type": "c", "major": 1, "minor": 3, "fileMode": 0o622}]
        out = self.output("stat", "-c", "%n %F %t:%T %a %u %g", "/dev/mine", "/dev/below/pipe", "/dev/unbuffered", "/dev/null",
                          change=change)
        self.assertEqual(out, "/dev/mine character special file 1:5 640 3 4\n/dev/below/pipe fifo 0:0 600 0 0\n"
                         "/dev/unbuffered character special file 1:7 666 0 0\n/dev/null character special file 1:3 622 0 0\n")

    @differs("vm", "the host's devices are not the guest's: refused, but for virtual ones that both have")
    def test_block_device(self):
        out = self.output("stat", "-c", "%n %F %t:%T %a", "/dev/block", change=lambda c: c["linux"].update(
            devices=[{"path": "/dev/block", "type": "b", "major": 7, "minor": 99}]))
        self.assertEqual(out, "/dev/block block special file 7:63 666\n")

    def test_without_a_mount_at_dev(self):
        """An image's own, wrong, /dev/null gives way to the real one."""
        def change(c):
            with open(os.path.join(self.rootfs, "dev/null"), "w") as f:
                f.write("trap")
            c["mounts"] = [m for m in c["mounts"] if not m["destination"].startswith("/dev")]
        self.assertEqual(self.output("stat", "-c", "%F %t:%T", "/dev/null", change=change),
                         "character special file 1:3\n")

    def test_bound_dev_is_left_alone(self):
        source = os.path.join(self.work, "mydev")
        os.makedirs(source)

        def change(c):
            c["mounts"] = [{"destination": "/dev", "source": source, "type": "bind", "options": ["rbind"]}] + [
                m for m in c["mounts"] if not m["destination"].startswith("/dev")]
        self.output("true", change=change)
        self.assertEqual(os.listdir(source), [])
