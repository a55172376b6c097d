# SPDX-License-Identifier: GPL-2.0-or-later
"""MicroVMs of an ordinary user who may open /dev/kvm: alone, and as root of a user namespace, as engines of users call."""
import os
import shutil
import stat
import subprocess
import unittest

from harness import SANITIZED, host
from test_rootless import USER, Ordinary

DEVICES = ("/dev/kvm", "/dev/net/tun")
GROUP = 991  # as kvm is in Debian; nobody's in the tests


class OrdinaryVm(Ordinary):
    level = "vm"

    def setUp(self):
        super().setUp()
        for path in DEVICES:
            before = os.stat(path)
            self.addCleanup(os.chmod, path, stat.S_IMODE(before.st_mode))
            self.addCleanup(os.chown, path, before.st_uid, before.st_gid)
            os.chown(path, 0, GROUP)
            os.chmod(path, 0o660)
        for name in ("kernel", "init"):  # where the user may read them
            copy = os.path.join(self.work, name)
            shutil.copyfile(self.settings[name], copy)
            os.chmod(copy, 0o644)
            self.settings[name] = copy
        self.write_settings()
        os.chmod(self.settings_path, 0o644)

    def command(self, *args, level=None):
        command = super().command(*args, level=level)
        at = command.index("--clear-groups")
        command[at:at + 1] = ["--groups", str(GROUP)]
        return command

    def inside(self, script, *args, network=("--net",)):
        """A script, run as root of the user's new user namespace; "$@" is moat with its arguments."""
        command = self.command(*args)
        wrapper = ["unshare", "--user", "--map-root-user", *network, "--mount", "--pid", "--fork", "--mount-proc",
                   "sh", "-c", script, "sh"]
        at = next(i for i, word in enumerate(command) if word.endswith("/moat"))
        return subprocess.run(command[:at] + wrapper + command[at:], stdin=subprocess.DEVNULL, capture_output=True, text=True)


class Own(OrdinaryVm):
    """moat makes the user namespace."""

    def test_run(self):
        self.assertEqual(self.out("sh", "-c", "id -u; echo x > /made; stat -c %u:%g /made; ls /sys/class/net; exit 0"),
                         "0\n0:0\nlo\n")
        made = os.stat(os.path.join(self.rootfs, "made"))
        self.assertEqual((made.st_uid, made.st_gid), (USER.pw_uid, USER.pw_gid))
        self.own_bundle("sh", "-c", "exit 7")
        self.assertEqual(self.run_container().returncode, 7)

    def test_life(self):
        self.own_bundle("sleep", "1000")
        name = self.create()
        self.ok("start", name)
        pid = self.pid(name)
        with open("/proc/%d/status" % pid) as f:
            self.assertIn("Uid:\t%d\t" % USER.pw_uid, f.read())
        self.assertEqual(self.ok("exec", name, "id", "-u").stdout, b"0\n")
        self.ok("pause", name)
        self.ok("resume", name)
        # Its processes are locked up, though they have the user's id: no capability outside, none to be had, a filter each.
        children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()
        self.assertEqual(len(children), 2)
        for child in children:
            for task in os.listdir("/proc/%s/task" % child):
                with open("/proc/%s/task/%s/status" % (child, task)) as f:
                    status = f.read()
                self.assertIn("NoNewPrivs:\t1\nSeccomp:\t%d\n" % (0 if SANITIZED else 2), status)
                self.assertIn("Uid:\t%d\t" % USER.pw_uid, status)
            self.assertNotEqual(os.readlink("/proc/%s/ns/user" % child), os.readlink("/proc/self/ns/user"))
            self.assertEqual(os.listdir("/proc/%s/root" % child), [])
        self.ok("kill", name, "KILL")
        self.wait_status(name, "stopped")
        self.ok("delete", name)

    def test_refused(self):
        self.bundle("true")
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=("the user's own id alone", "--rootless"))
        self.own_bundle("true", uids=[{"containerID": 1, "hostID": 300000, "size": 10}])
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=("the user's own id alone", "podman unshare"))
        holder = subprocess.Popen(["unshare", "--net", "sleep", "1000"], stdin=subprocess.DEVNULL)
        try:
            def join(config):
                config["linux"]["namespaces"] = [n for n in config["linux"]["namespaces"] if n["type"] != "network"]
                config["linux"]["namespaces"].append({"type": "network", "path": "/proc/%d/ns/net" % holder.pid})
            self.own_bundle("true", change=join)
            done = self.run_container()
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"/ns/net", done.stderr)
        finally:
            holder.kill()
            holder.wait()

    def test_no_access_to_kvm(self):
        os.chmod("/dev/kvm", 0o600)
        self.own_bundle("true")
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=("/dev/kvm", "Permission denied"))


class Hook(OrdinaryVm):
    """createContainer, in a network namespace that the user has no way back from."""

    def with_hook(self, text, *args, network=True):
        def change(config):
            config["hooks"] = {"createContainer": [{"path": "/bin/sh", "args": ["sh", "-c", text]}]}
            if not network:
                config["linux"]["namespaces"] = [n for n in config["linux"]["namespaces"] if n["type"] != "network"]
        self.own_bundle(*args, change=change)

    def seen(self):
        with open(os.path.join(self.home, "seen")) as f:
            return f.read().split()

    LOOK = "readlink /proc/self/ns/net /proc/self/ns/mnt > %s/seen; grep -o '\"status\": *\"[a-z]*\"' | tr -d ' ' >> %s/seen"

    def test_namespace(self):
        ours = [os.readlink("/proc/self/ns/" + kind) for kind in ("net", "mnt")]
        self.with_hook(self.LOOK % (self.home, self.home), "sh", "-c", "exit 7")
        name = self.create()
        self.assertEqual(self.seen(), [os.readlink("/proc/%d/ns/net" % self.pid(name)), ours[1], '"status":"creating"'])
        self.assertNotEqual(self.seen()[0], ours[0])
        self.ok("delete", "--force", name)
        self.assertEqual(self.run_container().returncode, 7)
        self.with_hook(self.LOOK % (self.home, self.home), "sh", "-c", "exit 7", network=False)
        self.assertEqual(self.run_container().returncode, 7)
        self.assertEqual(self.seen()[:2], ours)

    def test_fails(self):
        self.with_hook("echo no luck >&2; exit 3", "true")
        self.refused("create", "--bundle", self.bundle_path, self.new_id(),
                     says=("createContainer hook /bin/sh: exit status 3", "no luck"))

    def test_ends_with_the_command(self):
        self.with_hook("echo > %s/seen; exec sleep 1234" % self.home, "true")
        before = host.processes()
        name = self.new_id()
        process = self.start_moat("create", "--bundle", self.bundle_path, name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_until(lambda: os.path.exists(self.home + "/seen"), "the hook runs")
        process.kill()
        process.wait()
        self.wait_until(lambda: not [p for p, c in host.processes().items() if p not in before and "sleep 1234" in c], "it has ended")
        self.ok("delete", "--force", name)


class Inside(OrdinaryVm):
    """The caller is root of a user namespace, in which it has a network namespace ready."""

    def prepare(self, *args, hooks=None):
        self.bundle(*args, change=lambda c: c["linux"]["namespaces"].append({"type": "network", "path": "/run/container.net"}))
        self.config["linux"]["namespaces"] = [n for n in self.config["linux"]["namespaces"]
                                              if n["type"] != "network" or n.get("path")]
        self.config["linux"]["namespaces"][-1]["path"] = os.path.join(self.home, "net")
        self.config["hooks"] = hooks or {}
        self.write_config()
        for directory, names, files in os.walk(self.bundle_path):
            for name in (".", *names, *files):
                os.lchown(os.path.join(directory, name), USER.pw_uid, USER.pw_gid)

    # The container's network namespace, as engines pin one: mounted on a file, with an interface whose peer is here.
    PIN = ("set -e; touch %(net)s; unshare --net --kill-child --fork sleep 1000 & holder=$!; "
           "while [ \"$(readlink /proc/$holder/ns/net)\" = \"$(readlink /proc/self/ns/net)\" ]; do sleep 0.05; done; "
           "mount --bind /proc/$holder/ns/net %(net)s; ")

    def script(self, text):
        return self.PIN % {"net": os.path.join(self.home, "net")} + text

    def test_network_of_veth(self):
        self.prepare("sh", "-c", "cat /sys/class/net/eth0/address; ip -4 addr show eth0 | grep -o '10.9.0.[0-9]*/24'; "
                                 "ping -c 1 -W 20 10.9.0.1 > /dev/null && echo reached")
        done = self.inside(self.script(
            "ip link add veth0 type veth peer name eth0 address 02:00:00:00:09:02 netns $holder; "
            "ip addr add 10.9.0.1/24 dev veth0; ip link set veth0 up; "
            "nsenter --net=/proc/$holder/ns/net sh -c 'ip addr add 10.9.0.2/24 dev eth0; ip link set eth0 up'; "
            '"$@"; kill $holder'), "run", "--bundle", self.bundle_path, self.new_id())
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(done.stdout.split(), ["02:00:00:00:09:02", "10.9.0.2/24", "reached"])

    def test_network_by_a_hook(self):
        """In the machine's own network, as podman calls: whoever is root of a user namespace only has no way back to it."""
        self.prepare("sh", "-c", "ip -4 addr show eth0 | grep -o '10.9.0.[0-9]*/24'", hooks={"createContainer": [
            {"path": "/bin/sh", "args": ["sh", "-c", "ip addr add 10.9.0.3/24 dev eth0 && ip link set eth0 up"],
             "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]}]})
        done = self.inside(self.script(
            "unshare --net --kill-child --fork sleep 1000 & far=$!; "
            "while [ \"$(readlink /proc/$far/ns/net)\" = \"$(readlink /proc/self/ns/net)\" ]; do sleep 0.05; done; "
            "nsenter --net=/proc/$holder/ns/net ip link add eth0 type veth peer name veth0 netns $far; "
            "nsenter --net=/proc/$far/ns/net ip link set veth0 up; "
            'status=0; "$@" || status=$?; kill $holder $far; exit $status'),
            "run", "--bundle", self.bundle_path, self.new_id(), network=())
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(done.stdout.split(), ["10.9.0.3/24"])

    def test_network_of_slirp4netns(self):
        if not shutil.which("slirp4netns"):
            raise unittest.SkipTest("no slirp4netns: install it")
        self.prepare("sh", "-c", "ip -4 addr show tap0 | grep -o '10.0.2.100/24'; ping -c 1 -W 20 10.0.2.2 > /dev/null && echo reached")
        done = self.inside(self.script(
            "slirp4netns --configure --mtu=1500 --ready-fd=3 $holder tap0 3> %(home)s/ready > /dev/null 2>&1 & slirp=$!; "
            "while [ ! -s %(home)s/ready ]; do kill -0 $slirp; sleep 0.05; done; "
            '"$@"; status=$?; kill $holder $slirp; exit $status' % {"home": self.home}),
            "run", "--bundle", self.bundle_path, self.new_id())
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(done.stdout.split(), ["10.0.2.100/24", "reached"])

    def test_network_of_pasta(self):
        """pasta puts its own namespace's addresses on an interface of the same name: here those of a pretended machine."""
        if not shutil.which("pasta"):
            raise unittest.SkipTest("no pasta: install passt")
        self.prepare("sh", "-c", "ip -4 addr show up0 | grep -o '10.7.0.2/24'; ip route | grep -o 'default via 10.7.0.1'; "
                                 "(while :; do echo served | nc -l -p 7001 > /dev/null; done) & "
                                 "until x=$(exec 2> /dev/null; echo asked | timeout 5 nc 10.7.0.1 7000); [ \"$x\" = answered ]; do sleep 0.2; done; "
                                 "echo $x")
        done = self.inside(self.script(
            # The machine: an interface with a default route, and a neighbour behind it.
            "unshare --net --kill-child --fork sleep 1000 & far=$!; "
            "while [ \"$(readlink /proc/$far/ns/net)\" = \"$(readlink /proc/self/ns/net)\" ]; do sleep 0.05; done; "
            "far() { timeout 10 nsenter --net=/proc/$far/ns/net \"$@\"; }; "
            "ip link set lo up; ip link add up0 type veth peer name eth0 netns $far; ip addr add 10.7.0.2/24 dev up0; ip link set up0 up; "
            "far ip addr add 10.7.0.1/24 dev eth0; far ip link set eth0 up; ip route add default via 10.7.0.1; "
            "pasta --config-net --ipv4-only --no-map-gw --tcp-ports 7001 --netns %(net)s > /dev/null 2>&1; "
            # It asks at the published port.
            "(set +e; until [ \"$(far busybox nc -w 5 10.7.0.2 7001 < /dev/null)\" = served ]; do sleep 0.2; done; "
            "echo served; "
            # The end of a connection may not come through pasta (20230309): who asks waits for it no longer than 5 s.
            "while :; do echo answered | far busybox nc -l -p 7000 >> %(home)s/heard; done) 2> /dev/null & "
            '"$@"; status=$?; sort -u %(home)s/heard; exit $status'
            % {"home": self.home, "net": os.path.join(self.home, "net")}), "run", "--bundle", self.bundle_path, self.new_id())
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(["10.7.0.2/24", "default via 10.7.0.1", "served", "answered", "asked"]))
