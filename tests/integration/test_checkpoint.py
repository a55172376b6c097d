# SPDX-License-Identifier: GPL-2.0-or-later
"""Checkpoint and restore: what ran goes on where it was, with what it had open; failures leave the container as it was."""
import array
import json
import os
import random
import signal
import socket
import subprocess
import time

from criu_images import COUNT, Images
from harness import Case, at_levels
import host

V2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")


@at_levels("plain")
class Checkpoint(Images):
    def test_counter_goes_on(self):
        name = self.running("sh", "-c", COUNT)
        self.goes_on(5)
        self.checkpoint(name)
        self.assertEqual(self.ok("list", "-q").stdout, b"")
        before = self.count()
        self.assertGreater(before, 5)
        time.sleep(0.5)
        self.assertEqual(self.count(), before)
        restored = self.restore(name=name)
        self.goes_on(before)
        self.assertLess(self.count(), before + 100)
        state = self.state(restored)
        self.assertEqual(state["status"], "running")
        self.assertIn(b"count", self.ok("exec", restored, "cat", "/proc/1/cmdline").stdout)
        self.ok("pause", restored)
        self.ok("resume", restored)
        self.ok("kill", restored, "KILL")
        self.wait_status(restored, "stopped")
        self.ok("delete", restored)

    def test_leave_running(self):
        name = self.running("sh", "-c", COUNT)
        self.goes_on()
        self.checkpoint(name, "--leave-running")
        self.assertEqual(self.state(name)["status"], "running")
        self.goes_on(self.count())
        self.ok("kill", name, "KILL")
        self.wait_status(name, "stopped")
        self.ok("delete", name)
        before = self.count()
        other = self.restore()
        self.goes_on(1)
        self.assertLess(self.count(), before + 100)
        self.ok("delete", "--force", other)

    def test_paused(self):
        """It stays paused, or ends; what is restored runs."""
        name = self.running("sh", "-c", COUNT)
        self.goes_on()
        self.ok("pause", name)
        before = self.count()
        self.checkpoint(name, "--leave-running")
        self.assertEqual(self.state(name)["status"], "paused")
        time.sleep(0.5)
        self.assertEqual(self.count(), before)
        self.ok("resume", name)
        self.goes_on(before)
        self.ok("pause", name)
        before = self.count()
        self.checkpoint(name)
        self.refused("state", name, says="does not exist")
        restored = self.restore()
        self.assertEqual(self.state(restored)["status"], "running")
        self.goes_on(before)
        self.ok("delete", "--force", restored)

    def test_pre_dump(self):
        if subprocess.run(["criu", "check", "--feature", "mem_dirty_track"], capture_output=True).returncode != 0:
            self.skipTest("this kernel does not tell which memory was changed")
        name = self.running("sh", "-c", COUNT)
        first, second = os.path.join(self.work, "first"), os.path.join(self.work, "second")
        self.checkpoint(name, "--pre-dump", images=first)
        self.goes_on()
        self.assertFalse(os.path.exists(os.path.join(first, "core-1.img")))
        self.checkpoint(name, "--parent-path", "../first", images=second)
        self.assertEqual(os.readlink(os.path.join(second, "parent")), "../first")

        def pages(path):
            return sum(os.path.getsize(os.path.join(path, f)) for f in os.listdir(path) if f.startswith("pages-"))
        self.assertLess(pages(second), pages(first))
        before = self.count()
        restored = self.restore(images=second)
        self.goes_on(before)
        self.ok("delete", "--force", restored)

    def test_streams_are_the_callers(self):
        self.bundle("sh", "-c", "while read x; do echo got $x; done; exit 9")
        into, out = os.pipe(), os.pipe()
        name = self.create(stdin=into[0], stdout=out[1], stderr=subprocess.DEVNULL)
        self.ok("start", name)
        os.write(into[1], b"one\n")
        self.assertEqual(os.read(out[0], 100), b"got one\n")
        self.checkpoint(name)
        for fd in (*into, *out):
            os.close(fd)
        restored = self.new_id()
        process = self.start_moat("restore", "--bundle", self.bundle_path, "--image-path", self.images, restored,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        process.stdin.write(b"two\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"got two\n")
        process.stdin.close()
        self.assertEqual(process.wait(60 * host.TIME_SCALE), 9)
        self.refused("state", restored, says="does not exist")

    def test_signals_are_passed_on(self):
        self.bundle("sh", "-c", "trap 'exit 5' TERM; %s" % COUNT)
        name = self.create(stderr=subprocess.DEVNULL)
        self.ok("start", name)
        self.goes_on()
        self.checkpoint(name)
        before = self.count()
        process = self.start_moat("restore", "--bundle", self.bundle_path, "--image-path", self.images, self.new_id(),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.goes_on(before)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(60 * host.TIME_SCALE), 5)

    def test_mounts(self):
        """Bind mounts are those of the bundle, what is on a tmpfs is in the image, masks stay."""
        shared, single = os.path.join(self.work, "shared"), os.path.join(self.work, "single")
        os.mkdir(shared)
        with open(single, "w") as f:
            f.write("single")

        def change(config):
            config["mounts"] += [
                {"destination": "/data", "type": "bind", "source": shared, "options": ["rbind", "rprivate"]},
                {"destination": "/run/name", "type": "bind", "source": single, "options": ["bind", "ro"]},
                {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]}]
            config["linux"]["namespaces"].append({"type": "cgroup"})
            config["mounts"].append({"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup",
                                     "options": ["ro"]})
        name = self.running("sh", "-c", "echo kept >/tmp/kept; exec 5>/data/log; echo a >&5; %s" % COUNT, change=change)
        self.goes_on()
        self.checkpoint(name)
        before = self.count()
        with open(single, "w") as f:
            f.write("changed")
        restored = self.restore()
        self.goes_on(before)
        look = "cat /tmp/kept /run/name; echo; cat /proc/keys; mount | grep -c '/sys/firmware\\|/proc/sys type'; " \
            "echo x >/run/name || echo b >/data/new; ls /sys/fs/cgroup"
        text = self.ok("exec", restored, "sh", "-c", look).stdout.decode().split()
        self.assertEqual(text[:3], ["kept", "changed", "2"])
        self.assertIn("cgroup.procs" if V2 else "pids", text)
        self.assertTrue(os.path.exists(os.path.join(shared, "new")))
        self.ok("delete", "--force", restored)

    def test_terminal(self):
        self.bundle("sh", "-c", "while read x; do echo got $x; done", change=lambda c: c["process"].update(terminal=True))
        name = self.new_id()
        master = self.with_console(lambda path: self.ok("create", "--bundle", self.bundle_path, "--console-socket", path,
                                                        name))
        self.ok("start", name)
        os.write(master, b"one\n")
        self.read_until(master, b"got one")
        self.checkpoint(name)
        os.close(master)
        self.refused("restore", "--detach", "--bundle", self.bundle_path, "--image-path", self.images, self.new_id(),
                     says="--console-socket")
        restored = self.new_id()
        master = self.with_console(lambda path: self.restore("--console-socket", path, name=restored))
        os.write(master, b"two\n")
        self.read_until(master, b"got two")
        self.assertIn(b"/dev/pts/0", self.ok("exec", restored, "readlink", "/proc/1/fd/0").stdout)
        os.close(master)
        self.ok("delete", "--force", restored)

    def with_console(self, action):
        """Calls action with the path of a console socket; returns the terminal that came."""
        path = os.path.join(self.work, "console%d" % random.getrandbits(30))
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen()
            action(path)
            server.settimeout(10 * host.TIME_SCALE)
            with server.accept()[0] as connection:
                _, ancillary, _, _ = connection.recvmsg(256, socket.CMSG_SPACE(4))
        fds = array.array("i")
        fds.frombytes(ancillary[0][2])
        return fds[0]

    def test_pid_file_and_hooks(self):
        trace = os.path.join(self.work, "trace")

        def hook(kind):
            return [{"path": "/bin/sh", "args": ["sh", "-c", "echo %s $(cat) >>%s" % (kind, trace)]}]
        name = self.running("sh", "-c", COUNT, change=lambda c: c.update(
            hooks={kind: hook(kind) for kind in ("createRuntime", "poststart", "poststop")}))
        pid_file = os.path.join(self.work, "pid")
        self.checkpoint(name)
        restored = self.restore("--pid-file", pid_file)
        with open(pid_file) as f:
            pid = int(f.read())
        self.assertEqual(self.pid(restored), pid)
        with open(trace) as f:
            lines = [line.split(None, 1) for line in f]
        self.assertEqual([kind for kind, _ in lines], ["createRuntime", "poststart", "poststop", "createRuntime"])
        self.assertEqual(json.loads(lines[-1][1])["pid"], pid)
        self.ok("delete", "--force", restored)

    def test_flags_that_change_little(self):
        """CRIU takes them: pages are punched out of the images as they are read, the rest concerns what is not there."""
        name = self.running("sh", "-c", COUNT)
        self.goes_on()
        self.checkpoint(name, "--auto-dedup", "--tcp-skip-in-flight", "--link-remap")
        before = self.count()
        pages = os.path.join(self.images, "pages-1.img")
        used = os.stat(pages).st_blocks
        restored = self.restore("--auto-dedup", "--no-subreaper", "--lsm-mount-context", "a_u:a_r:a_t:s0")
        self.goes_on(before)
        self.assertLess(os.stat(pages).st_blocks, used)
        self.ok("delete", "--force", restored)

    def test_profile_that_is_not_there(self):
        name = self.running("sh", "-c", COUNT)
        self.goes_on()
        self.checkpoint(name)
        self.refused("restore", "--detach", "--bundle", self.bundle_path, "--image-path", self.images, "--lsm-profile",
                     "apparmor:no-such-profile", self.new_id(), says="CRIU: ", timeout=60)
        self.ok("delete", "--force", self.restore())

    def test_network_namespace_of_others(self):
        subprocess.run(["ip", "netns", "add", "given"], check=True)
        self.addCleanup(os.rmdir, "/run/netns")
        self.addCleanup(subprocess.run, ["umount", "/run/netns"], check=True)
        self.addCleanup(subprocess.run, ["ip", "netns", "delete", "given"], check=True)
        subprocess.run(["ip", "-n", "given", "link", "set", "lo", "up"], check=True)
        subprocess.run(["ip", "-n", "given", "address", "add", "10.9.8.7/32", "dev", "lo"], check=True)

        def change(config):
            config["linux"]["namespaces"] = [n for n in config["linux"]["namespaces"] if n["type"] != "network"]
            config["linux"]["namespaces"].append({"type": "network", "path": "/run/netns/given"})
        name = self.running("sh", "-c", COUNT, change=change)
        self.goes_on()
        self.checkpoint(name)
        ruleset = subprocess.run(["ip", "netns", "exec", "given", "nft", "list", "ruleset"], capture_output=True, check=True)
        self.assertEqual(ruleset.stdout, b"", "others there are not cut off")
        restored = self.restore()
        self.assertEqual(os.stat("/proc/%d/ns/net" % self.pid(restored)).st_ino, os.stat("/run/netns/given").st_ino)
        self.assertIn(b"10.9.8.7", self.ok("exec", restored, "ip", "address").stdout)
        self.ok("delete", "--force", restored)

    def test_cgroup_and_limits(self):
        path = "/%s/%s" % (host.RUN_TAG, self.id())
        self.addCleanup(host.remove_tagged_cgroups)

        def change(config):
            config["linux"]["cgroupsPath"] = path
            config["linux"]["resources"] = {"pids": {"limit": 33}}
        name = self.running("sh", "-c", COUNT, change=change)
        self.goes_on()
        self.checkpoint(name)
        self.config["linux"]["resources"]["pids"]["limit"] = 44
        self.write_config()
        for mode in ("soft", "ignore"):
            restored = self.restore("--manage-cgroups-mode", mode)
            with open("/proc/%d/cgroup" % self.pid(restored)) as f:
                self.assertIn(path + "\n", f.read(), mode)
            with open("/sys/fs/cgroup%s%s/pids.max" % ("" if V2 else "/pids", path)) as f:
                self.assertEqual(f.read().strip(), "44", mode)
            self.ok("delete", "--force", restored)


@at_levels("sandbox")
class NotInTheSandbox(Images):
    def test_refused(self):
        name = self.running("sleep", "1000")
        self.refused("checkpoint", "--image-path", self.images, name, says=["level sandbox", "Landlock"])
        self.assertEqual(self.state(name)["status"], "running")
        self.ok("delete", "--force", name)


@at_levels("vm")
class NotInAMachine(Case):
    def test_refused(self):
        self.bundle("sleep", "1000")
        name = self.create(stderr=subprocess.DEVNULL)
        self.ok("start", name)
        self.refused("checkpoint", name, says=["level vm", "kernel of their own"])
        self.refused("restore", "--bundle", self.bundle_path, "--image-path", self.work, self.new_id(), says="level vm")
        self.ok("delete", "--force", name)
