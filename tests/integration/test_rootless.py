# SPDX-License-Identifier: GPL-2.0-or-later
"""Containers of an ordinary user at level plain: one id of its own, and ids that /etc/subuid grants."""
import json
import os
import pwd
import shutil
import subprocess
import unittest

import bundles
import host
from harness import Case, at_levels
from test_attacks import exec_shows_nothing_of_the_host

USER = pwd.getpwnam("games")  # of every Debian; uid and gid differ
FIRST = 300000  # of the ids granted


class Ordinary(Case):
    """Not a test by itself: calls moat as the user."""

    def setUp(self):
        super().setUp()
        self.home = os.path.join(self.work, "run")
        os.mkdir(self.home)
        os.chown(self.home, USER.pw_uid, USER.pw_gid)
        self.root = os.path.join(self.home, "moat")

    def command(self, *args, level=None):
        command = super().command(*args, level=level)
        at = command.index("--root")
        del command[at:at + 2]
        return ["setpriv", "--reuid", str(USER.pw_uid), "--regid", str(USER.pw_gid), "--clear-groups", "--inh-caps=-all",
                "env", "XDG_RUNTIME_DIR=" + self.home, *command]

    def own_bundle(self, *args, uids=(), change=None):
        """The harness's bundle for the user; uids: further entries of both maps."""
        def adapt(config):
            config["linux"]["namespaces"].append({"type": "user"})
            for kind, own in (("uidMappings", USER.pw_uid), ("gidMappings", USER.pw_gid)):
                config["linux"][kind] = [{"containerID": 0, "hostID": own, "size": 1}, *uids]
            if change:
                change(config)
        self.bundle(*args, change=adapt)
        for directory, names, files in os.walk(self.bundle_path):
            for name in (".", *names, *files):
                os.lchown(os.path.join(directory, name), USER.pw_uid, USER.pw_gid)

    def out(self, *args, **options):
        self.own_bundle(*args, **options)
        done = self.run_container()
        self.assertEqual((done.returncode, done.stderr), (0, b""), done.stdout)
        return done.stdout.decode()


@at_levels("plain")
class Rootless(Ordinary):
    def test_level_sandbox_needs_root(self):
        self.own_bundle("true")
        done = subprocess.run(self.command("run", "--bundle", self.bundle_path, self.new_id(), level="sandbox"),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"level sandbox needs root", done.stderr)

    def test_spec_runs(self):
        bundle = os.path.join(self.home, "bundle")
        os.makedirs(os.path.join(bundle, "rootfs"))
        os.rmdir(os.path.join(bundle, "rootfs"))
        bundles.busybox_rootfs(os.path.join(bundle, "rootfs"))
        os.chown(bundle, USER.pw_uid, USER.pw_gid)
        self.ok("spec", "--rootless", "--bundle", bundle)
        with open(os.path.join(bundle, "config.json")) as f:
            config = json.load(f)
        config["process"].update(terminal=False, args=["sh", "-c", "id -u; cat /proc/self/uid_map /proc/self/gid_map "
                                                       "/proc/self/setgroups; ls -d /proc/1 /sys/kernel /dev/null"])
        bundles.write(bundle, config)
        done = self.moat("run", "--bundle", bundle, self.new_id())
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(done.stdout.decode().split(), ["0", "0", str(USER.pw_uid), "1", "0", str(USER.pw_gid), "1", "deny",
                                                        "/dev/null", "/proc/1", "/sys/kernel"])

    def test_what_is_made_is_the_users(self):
        self.assertEqual(self.out("sh", "-c", "echo x > /made; stat -c %u:%g /made; hostname; echo y > /dev/null; "
                                  "ls /sys/class/net"), "0:0\nmoat-test\nlo\n")
        made = os.stat(os.path.join(self.rootfs, "made"))
        self.assertEqual((made.st_uid, made.st_gid), (USER.pw_uid, USER.pw_gid))

    def test_exit_status(self):
        self.own_bundle("sh", "-c", "exit 7")
        self.assertEqual(self.run_container().returncode, 7)

    def test_life(self):
        self.own_bundle("sh", "-c", "sleep 1000 & exec sleep 999")
        name = self.create()
        self.assertEqual(self.state(name)["status"], "created")
        self.assertEqual(os.stat(os.path.join(self.home, "moat", name)).st_uid, USER.pw_uid)
        self.ok("start", name)
        pid = self.pid(name)
        with open("/proc/%d/status" % pid) as f:
            self.assertIn("Uid:\t%d\t" % USER.pw_uid, f.read())
        done = self.ok("exec", name, "sh", "-c", "id -u; for ns in user mnt; do readlink /proc/self/ns/$ns "
                       "&& readlink /proc/1/ns/$ns; done; hostname").stdout.decode().split()
        self.assertEqual((done[0], done[5]), ("0", "moat-test"))
        self.assertEqual((done[1], done[3]), (done[2], done[4]))
        self.assertEqual(done[1], os.readlink("/proc/%d/ns/user" % pid))
        self.assertEqual(self.moat("exec", name, "sh", "-c", "exit 9").returncode, 9)
        self.refused("exec", name, "no-such-program", says="no-such-program", status=127)
        pids = json.loads(self.ok("ps", "--format", "json", name).stdout)
        self.assertEqual(len(pids), 2)
        self.assertIn(pid, pids)
        self.refused("pause", name, says="cgroup")
        self.ok("kill", name, "KILL")
        self.wait_status(name, "stopped")
        self.ok("delete", name)
        self.assertEqual(os.listdir(os.path.join(self.home, "moat")), [])

    def test_exec_with_a_score_for_the_oom_killer(self):
        self.own_bundle("sleep", "1000", change=lambda c: c["process"].update(oomScoreAdj=500))
        name = self.create()
        self.ok("start", name)
        self.assertEqual(self.ok("exec", name, "cat", "/proc/self/oom_score_adj").stdout, b"500\n")
        self.ok("delete", "--force", name)

    def test_exec_shows_nothing_of_the_host(self):
        exec_shows_nothing_of_the_host(self, self.own_bundle)

    def test_delete_by_force(self):
        self.own_bundle("sleep", "1000")
        name = self.create()
        self.ok("delete", "--force", name)
        name = self.create()
        self.ok("start", name)
        self.ok("exec", "--detach", name, "sleep", "1000")
        self.ok("delete", "--force", name)

    def test_detached(self):
        self.own_bundle("sleep", "1000")
        name = self.new_id()
        self.ok("run", "--detach", "--bundle", self.bundle_path, name, stdout=subprocess.DEVNULL)
        self.assertEqual(self.state(name)["status"], "running")
        self.ok("delete", "--force", name)

    def test_binds(self):
        shared = os.path.join(self.work, "shared")
        with open(shared, "w") as f:
            f.write("shared")
        self.assertEqual(self.out("cat", "/shared", change=lambda c: c["mounts"].append(
            {"destination": "/shared", "type": "bind", "source": shared, "options": ["rbind", "ro"]})), "shared")

    def test_limits_need_a_cgroup(self):
        self.own_bundle("true", change=lambda c: c["linux"].__setitem__("resources", {"pids": {"limit": 10}}))
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=("cgroup", "limits", "delegated"))
        for none in ({"devices": [{"allow": False, "access": "rwm"}]}, {"pids": {"limit": -1}}):
            self.own_bundle("true", change=lambda c: c["linux"].__setitem__("resources", none))
            self.assertEqual(self.run_container().returncode, 0)

    def test_needs_a_user_namespace(self):
        self.bundle("true")
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=("user namespace", "--rootless"))

    def grant(self, first, count):
        """Gives the user ids in /etc/subuid and /etc/subgid, for this test."""
        if not shutil.which("newuidmap"):
            raise unittest.SkipTest("no newuidmap: install uidmap")
        for name in ("subuid", "subgid"):
            path = os.path.join(self.work, name)
            with open(path, "w") as f:
                f.write("%s:%d:%d\n" % (USER.pw_name, first, count))
            subprocess.run(["mount", "--bind", path, "/etc/" + name], check=True)
            self.addCleanup(self._unmount, "/etc/" + name)

    def test_ids_granted(self):
        self.grant(FIRST, 2000)
        more = [{"containerID": 1, "hostID": FIRST, "size": 2000}]
        out = self.out("sh", "-c", "id -u; id -g; id -G; echo > /tmp/made; cat /proc/self/setgroups", uids=more,
                       change=lambda c: c["process"].update(user={"uid": 1000, "gid": 1001, "additionalGids": [5]}))
        self.assertEqual(out.split(), ["1000", "1001", "1001", "5", "allow"])
        made = os.stat(os.path.join(self.rootfs, "tmp/made"))
        self.assertEqual((made.st_uid, made.st_gid), (FIRST + 999, FIRST + 1000))

    def test_life_with_ids_granted(self):
        self.grant(FIRST, 2000)
        self.own_bundle("sleep", "1000", uids=[{"containerID": 1, "hostID": FIRST, "size": 2000}],
                        change=lambda c: c["process"].update(user={"uid": 1000, "gid": 1000}))
        name = self.create()
        self.ok("start", name)
        with open("/proc/%d/status" % self.pid(name)) as f:
            self.assertIn("Uid:\t%d\t" % (FIRST + 999), f.read())
        self.assertEqual(self.ok("exec", "--user", "7:8", name, "sh", "-c", "id -u; id -g").stdout, b"7\n8\n")
        self.assertEqual(json.loads(self.ok("ps", "--format", "json", name).stdout), [self.pid(name)])
        self.ok("kill", name, "KILL")
        self.wait_status(name, "stopped")
        self.ok("delete", name)

    def test_ids_not_granted(self):
        self.grant(FIRST, 10)
        self.own_bundle("true", uids=[{"containerID": 1, "hostID": FIRST, "size": 11}])
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=("newuidmap", "/etc/subuid"))
        self.own_bundle("true", uids=[{"containerID": 1, "hostID": 1, "size": 1}])
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says="newuidmap")

    def test_root_of_a_user_namespace(self):
        """As rootless podman calls: root inside, with what an ordinary user has outside. State is the user's, cgroups go without."""
        self.bundle("sh", "-c", "id -u; cat /proc/self/uid_map")
        for directory, names, files in os.walk(self.bundle_path):
            for name in (".", *names, *files):
                os.lchown(os.path.join(directory, name), USER.pw_uid, USER.pw_gid)
        # sysfs shows a network that belongs to the machine, and is not given to others.
        self.config["mounts"] = [m for m in self.config["mounts"] if m["destination"] != "/sys"]
        self.write_config()
        inside = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c",
                  'ls -A "$0"; "$@" && ls -A "$0"', self.home]
        command = self.command("run", "--bundle", self.bundle_path, self.new_id())
        done = subprocess.run(command[:7] + inside + command[7:], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.split(), ["0", "0", str(USER.pw_uid), "1", "moat"])
        command = self.command("run", "--bundle", self.bundle_path, self.new_id(), level="sandbox")
        done = subprocess.run(command[:7] + inside + command[7:], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("level sandbox needs root", done.stderr)


V2 = "/sys/fs/cgroup"


@at_levels("plain")
class Delegated(Ordinary):
    """The same user in a part of cgroup v2 that is its own, as systemd's Delegate= makes it: limits, and all that hangs on them."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not os.path.exists(V2 + "/cgroup.controllers"):
            raise unittest.SkipTest("no cgroup v2 alone, and v1 is not delegated")

    def setUp(self):
        super().setUp()
        self.group = "%s/%s-user" % (V2, host.RUN_TAG)
        with open(V2 + "/cgroup.subtree_control", "w") as f:
            f.write("+memory +pids +cpu")
        os.makedirs(self.group + "/caller")
        self.addCleanup(self.remove_group)
        for directory in (self.group, self.group + "/caller"):
            os.chown(directory, USER.pw_uid, USER.pw_gid)
            for name in ("cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
                os.chown(os.path.join(directory, name), USER.pw_uid, USER.pw_gid)

    def remove_group(self):
        for directory, _, _ in os.walk(self.group, topdown=False):
            os.rmdir(directory)

    def command(self, *args, level=None):
        enter = "echo $$ >%s/caller/cgroup.procs; exec \"$@\"" % self.group
        return ["sh", "-c", enter, "sh", *super().command(*args, level=level)]

    def limit(self, name, file):
        with open("%s/moat/%s/%s" % (self.group, name, file)) as f:
            return f.read().strip()

    def test_limits(self):
        self.own_bundle("sleep", "1000", change=lambda c: c["linux"].__setitem__(
            "resources", {"pids": {"limit": 10}, "memory": {"limit": 64 << 20}, "cpu": {"quota": 50000, "period": 100000},
                          "devices": [{"allow": False, "access": "rwm"}]}))
        name = self.create()
        self.ok("start", name)
        self.assertEqual(self.limit(name, "pids.max"), "10")
        self.assertEqual(self.limit(name, "memory.max"), str(64 << 20))
        self.assertEqual(self.limit(name, "cpu.max"), "50000 100000")
        self.assertEqual(self.limit(name, "cgroup.procs"), str(self.pid(name)))
        self.ok("delete", "--force", name)
        self.assertFalse(os.path.exists("%s/moat/%s" % (self.group, name)))

    def test_held_and_measured(self):
        self.own_bundle("sleep", "1000")
        name = self.create()
        self.ok("start", name)
        self.ok("update", "--pids-limit", 20, "--memory", "32M", name)
        self.assertEqual((self.limit(name, "pids.max"), self.limit(name, "memory.max")), ("20", str(32 << 20)))
        self.ok("pause", name)
        self.assertEqual(self.state(name)["status"], "paused")
        self.assertIn("frozen 1", self.limit(name, "cgroup.events"))
        self.ok("resume", name)
        data = json.loads(self.ok("events", "--stats", name).stdout)["data"]
        self.assertEqual((data["pids"]["limit"], data["memory"]["usage"]["limit"]), (20, 32 << 20))
        self.ok("exec", "--detach", name, "sleep", "1000")
        self.assertEqual(len(json.loads(self.ok("ps", "--format", "json", name).stdout)), 2)
        self.ok("kill", "--all", name, "KILL")
        self.wait_status(name, "stopped")
        self.ok("delete", name)
        self.assertFalse(os.path.exists("%s/moat/%s" % (self.group, name)))

    def test_path_of_its_own_and_of_others(self):
        """A path below what is delegated is used; elsewhere nothing can be made."""
        limits = {"pids": {"limit": 7}}
        inside = "/%s-user/box" % host.RUN_TAG
        self.own_bundle("sh", "-c", "cat /proc/self/cgroup", change=lambda c: c["linux"].update(cgroupsPath=inside, resources=limits))
        self.assertEqual(self.run_container().returncode, 0)
        self.assertFalse(os.path.exists(V2 + inside))
        outside = "/%s-other" % host.RUN_TAG
        self.own_bundle("true", change=lambda c: c["linux"].update(cgroupsPath=outside, resources=limits))
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=("cgroup", outside, "delegated"))
        self.assertFalse(os.path.exists(V2 + outside))
