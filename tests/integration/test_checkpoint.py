# SPDX-License-Identifier: GPL-2.0-or-later
"""Checkpoint and restore: what ran goes on where it was, with what it had open; failures leave the container as it was."""
import array
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
import unittest

from harness import Case, at_levels
import host

V2 = os.path.exists("/sys/fs/cgroup/cgroup.controllers")
COUNT = "i=0; while :; do i=$((i+1)); echo $i >/count; sleep 0.1; done"


def why_no_criu():
    """None where CRIU works, else its own first words."""
    try:
        done = subprocess.run(["criu", "check"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError:
        return "no criu: run contrib/install-packages"
    return None if done.returncode == 0 else "CRIU does not work here: %s" % (done.stdout.splitlines() or ["?"])[0]


def criu_runs():
    """Whether a CRIU that moat has started is still there."""
    return any("criu swrk" in command or "criu: " in command for command in host.processes().values())


class Images(Case):
    """What the tests here share."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        reason = why_no_criu()
        if reason:
            raise unittest.SkipTest(reason)

    def setUp(self):
        super().setUp()
        self.images = os.path.join(self.work, "images")

    def running(self, *args, **options):
        """A started container of args; its streams are /dev/null."""
        self.bundle(*args, **options)
        name = self.create(stderr=subprocess.DEVNULL)
        self.ok("start", name)
        return name

    def checkpoint(self, name, *flags, images=None):
        return self.ok("checkpoint", "--image-path", images or self.images, *flags, name, timeout=60)

    def restore(self, *flags, name=None, images=None, **options):
        name = name or self.new_id()
        options.setdefault("stdout", subprocess.DEVNULL)
        options.setdefault("stderr", subprocess.DEVNULL)
        done = self.moat("restore", "--detach", "--bundle", self.bundle_path, "--image-path", images or self.images,
                         *flags, name, timeout=60, **options)
        if done.returncode != 0:
            with open(os.path.join(images or self.images, "restore.log")) as f:
                self.fail("not restored:\n" + "".join(line for line in f if "Error" in line))
        return name

    def count(self):
        try:
            with open(os.path.join(self.rootfs, "count")) as f:
                return int(f.read() or 0)
        except FileNotFoundError:
            return 0

    def goes_on(self, least=0):
        """Waits until the counter is beyond least and counts."""
        self.wait_until(lambda: self.count() > least, "the counter is beyond %d" % least)
        now = self.count()
        self.wait_until(lambda: self.count() > now, "the counter goes on")

    def read_until(self, fd, text):
        got = b""
        while text not in got:
            got += os.read(fd, 1000)
        return got


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


@at_levels("plain")
class Connections(Images):
    SERVER = """
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", 8000))
s.listen()
while True:
    c, _ = s.accept()
    while True:
        data = c.recv(100)
        if not data:
            break
        c.send(b"got " + data)
"""

    def test_listener(self):
        """A listening socket in a namespace of the container's own; a client inside finds it afterwards."""
        self.bundle("nc", "-ll", "-p", "8000", "-e", "echo", "hello")
        name = self.create(stderr=subprocess.DEVNULL)
        self.ok("start", name)
        client = ("sh", "-c", "nc 127.0.0.1 8000 </dev/null")
        self.wait_until(lambda: self.moat("exec", name, *client).stdout == b"hello\n", "it listens")
        self.checkpoint(name)
        restored = self.restore()
        self.assertEqual(self.ok("exec", restored, *client).stdout, b"hello\n")
        self.ok("delete", "--force", restored)

    def test_established(self):
        script = "nc -l -p 8000 -e cat & sleep 1; while :; do i=$((i+1)); echo $i; sleep 0.2; done | " \
            "nc 127.0.0.1 8000 | while read x; do echo $x >/count; done"
        name = self.running("sh", "-c", script)
        self.goes_on()
        text = self.refused("checkpoint", "--image-path", self.images, name, says=["CRIU: ", "onnected TCP socket"],
                            timeout=60)
        self.assertIn("dump.log", text)
        self.goes_on(self.count())
        self.checkpoint(name, "--tcp-established")
        before = self.count()
        restored = self.restore("--tcp-established")
        self.goes_on(before)
        self.ok("delete", "--force", restored)


@at_levels("plain")
class Memory(Images):
    """Memory that goes another way than through the images."""
    PORT = 27027

    def start(self, *command):
        """A program beside, with its output in self.work; ended with the test."""
        with open(os.path.join(self.work, command[1] + ".log"), "wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._children.append(process)
        return process

    def listens(self):
        with open("/proc/net/tcp") as f:
            return any(":%04X 00000000:0000 0A" % self.PORT in line for line in f)

    def test_page_server(self):
        name = self.running("sh", "-c", COUNT)
        self.goes_on()
        os.mkdir(self.images)
        server = self.start("criu", "page-server", "--images-dir", self.images, "--port", str(self.PORT), "--address", "127.0.0.1")
        self.wait_until(self.listens, "the page server listens")
        self.checkpoint(name, "--page-server", "127.0.0.1:%d" % self.PORT)
        self.assertEqual(server.wait(60 * host.TIME_SCALE), 0)
        before = self.count()
        restored = self.restore()
        self.goes_on(before)
        self.ok("delete", "--force", restored)

    def need_userfaultfd(self):
        if subprocess.run(["criu", "check", "--feature", "uffd"], capture_output=True).returncode != 0:
            self.skipTest("this kernel has no userfaultfd for CRIU")

    def lazy_daemon(self, *flags):
        daemon = self.start("criu", "lazy-pages", "--images-dir", self.images, "--work-dir", self.work, *flags)
        self.wait_until(lambda: os.path.exists(os.path.join(self.work, "lazy-pages.socket")), "the daemon listens")
        return daemon

    def test_lazy_pages_of_an_image(self):
        self.need_userfaultfd()
        name = self.running("sh", "-c", COUNT)
        self.goes_on()
        self.checkpoint(name)
        before = self.count()
        daemon = self.lazy_daemon()
        restored = self.restore("--lazy-pages", "--work-path", self.work)
        self.goes_on(before)
        self.assertEqual(daemon.wait(60 * host.TIME_SCALE), 0)
        self.ok("delete", "--force", restored)

    def test_lazy_pages_of_a_container(self):
        """Memory is fetched from the container that was stopped, which is gone once that is done."""
        self.need_userfaultfd()
        name = self.running("sh", "-c", COUNT)
        self.goes_on()
        ready, status = os.pipe()
        os.mkdir(self.images)
        with open(os.path.join(self.work, "saving.log"), "wb") as log:
            saving = self.start_moat("checkpoint", "--lazy-pages", "--page-server", "127.0.0.1:%d" % self.PORT, "--status-fd",
                                     status, "--image-path", self.images, name, pass_fds=[status], stderr=log)
        os.close(status)
        self.assertEqual(os.read(ready, 1), b"\0", "it says that memory can be fetched")
        os.close(ready)
        before = self.count()
        self.lazy_daemon("--page-server", "--address", "127.0.0.1", "--port", str(self.PORT))
        restored = self.new_id()
        restoring = self.start_moat("restore", "--detach", "--bundle", self.bundle_path, "--image-path", self.images,
                                    "--lazy-pages", "--work-path", self.work, restored, stderr=subprocess.DEVNULL)
        status = saving.wait(60 * host.TIME_SCALE)
        with open(os.path.join(self.work, "saving.log")) as f:
            words = f.read()
        if "splice: -1" in words:  # CRIU 4.2: its page server throws pages away into no descriptor
            restoring.kill()
            restoring.wait()
            self.moat("delete", "--force", restored)
            self.wait_until(lambda: not criu_runs(), "CRIU has ended")
            self.assertEqual(self.state(name)["status"], "running")
            self.goes_on(before)
            self.ok("delete", "--force", name)
            self.skipTest("this CRIU serves no memory: " + words.strip())
        self.assertEqual((status, words), (0, ""))
        self.assertEqual(restoring.wait(60 * host.TIME_SCALE), 0)
        self.goes_on(before)
        self.ok("delete", "--force", restored)


@at_levels("plain")
class Files(Images):
    """What CRIU refuses unless it is told to go on."""
    PROGRAM = """
import fcntl, os, socket, sys, time
what = sys.argv[1]
if what == "lock":
    f = open("/locked", "w")
    fcntl.flock(f, fcntl.LOCK_EX)
elif what == "nameless":
    f = open("/nameless", "w+")
    os.link("/nameless", "/other")
    os.unlink("/nameless")
elif what == "socket":
    f = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    f.connect("/run/out/server")
n = 0
while True:
    n += 1
    with open("/new", "w") as count:
        count.write(str(n))
    os.rename("/new", "/count")
    if what == "socket" and n % 10 == 0:
        try:
            f.send(b"x")
        except OSError as e:
            open("/error", "w").write(str(e))
    time.sleep(0.05)
"""

    def python(self, what, change=None):
        self.bundle("python3", "-c", self.PROGRAM, what, base="debian", change=change)
        name = self.create(stderr=subprocess.DEVNULL)
        self.ok("start", name)
        self.goes_on()
        return name

    def refused_without(self, name, flag):
        self.refused("checkpoint", "--image-path", self.images, name, says="CRIU: ", timeout=60)
        self.goes_on(self.count())
        self.checkpoint(name, flag)

    def test_file_locks(self):
        name = self.python("lock")
        self.refused_without(name, "--file-locks")
        before = self.count()
        restored = self.restore("--file-locks")
        self.goes_on(before)
        done = self.moat("exec", restored, "python3", "-c", "import fcntl; fcntl.flock(open('/locked'), fcntl.LOCK_EX|fcntl.LOCK_NB)")
        self.assertIn(b"BlockingIOError", done.stderr)
        self.ok("delete", "--force", restored)

    def test_file_without_its_name(self):
        name = self.python("nameless")
        self.refused_without(name, "--link-remap")
        before = self.count()
        restored = self.restore()
        self.goes_on(before)
        self.ok("delete", "--force", restored)

    def test_socket_to_outside(self):
        # CRIU connects to the name that the other end has, as it was given by who made it.
        out = "/run/out"
        os.mkdir(out)
        self.addCleanup(shutil.rmtree, out)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
            server.bind(os.path.join(out, "server"))

            def change(config):
                # CRIU looks for the other end in the socket's network namespace only.
                config["linux"]["namespaces"] = [n for n in config["linux"]["namespaces"] if n["type"] != "network"]
                config["mounts"].append({"destination": "/run/out", "type": "bind", "source": out, "options": ["bind"]})
            name = self.python("socket", change=change)
            self.refused_without(name, "--ext-unix-sk")
            before = self.count()
            restored = self.restore("--ext-unix-sk")
            self.goes_on(before)
            server.setblocking(False)
            try:
                while server.recv(10):
                    pass
            except BlockingIOError:
                pass
            server.settimeout(20 * host.TIME_SCALE)
            self.assertEqual(server.recv(10), b"x")
            self.ok("delete", "--force", restored)

    def test_shell_job(self):
        """A terminal of the host's as standard streams."""
        master, terminal = os.openpty()
        self.bundle("sh", "-c", "while read x; do echo got $x; done")
        name = self.create(stdin=terminal, stdout=terminal, stderr=terminal)
        self.ok("start", name)
        os.write(master, b"one\n")
        self.read_until(master, b"got one")
        self.checkpoint(name, "--shell-job")
        restored = self.new_id()
        self.ok("restore", "--shell-job", "--detach", "--bundle", self.bundle_path, "--image-path", self.images, restored,
                stdin=terminal, stdout=terminal, stderr=terminal, timeout=60)
        os.write(master, b"two\n")
        self.read_until(master, b"got two")
        self.ok("delete", "--force", restored)
        os.close(master)
        os.close(terminal)


@at_levels("plain")
class Failures(Images):
    def test_images_that_are_none(self):
        self.bundle("sleep", "1000")
        os.mkdir(self.images)
        restore = ("restore", "--detach", "--bundle", self.bundle_path)
        self.refused(*restore, "--image-path", self.images, self.new_id(), says=[self.images, "no checkpoint"])
        self.refused(*restore, "--image-path", self.images + "/not", self.new_id(), says=["No such file", "/not"])
        with open(os.path.join(self.images, "inventory.img"), "wb") as f:
            f.write(b"nonsense" * 100)
        self.refused(*restore, "--image-path", self.images, self.new_id(), says="CRIU: ")

    def test_bundle_that_lacks_a_mount(self):
        data = os.path.join(self.work, "data")
        os.mkdir(data)
        name = self.running("sh", "-c", COUNT, change=lambda c: c["mounts"].append(
            {"destination": "/data", "type": "bind", "source": data, "options": ["bind"]}))
        self.goes_on()
        self.checkpoint(name)
        self.config["mounts"].pop()
        self.write_config()
        self.refused("restore", "--detach", "--bundle", self.bundle_path, "--image-path", self.images, self.new_id(),
                     says=["/data", "no bind mount"])

    def test_mount_point_is_a_link(self):
        """The root file system was changed meanwhile: the mount must not go where a link leads."""
        data = os.path.join(self.work, "data")
        os.mkdir(data)
        name = self.running("sh", "-c", COUNT, change=lambda c: c["mounts"].append(
            {"destination": "/data", "type": "bind", "source": data, "options": ["bind"]}))
        self.goes_on()
        self.checkpoint(name)
        os.rmdir(os.path.join(self.rootfs, "data"))
        os.symlink("/etc", os.path.join(self.rootfs, "data"))
        self.refused("restore", "--detach", "--bundle", self.bundle_path, "--image-path", self.images, self.new_id(),
                     says=["/data", "symbolic link"])

    def test_states(self):
        self.bundle("sleep", "1000")
        name = self.create(stderr=subprocess.DEVNULL)
        self.refused("checkpoint", "--image-path", self.images, name, says="it is created")
        self.ok("start", name)
        self.ok("kill", name, "KILL")
        self.wait_status(name, "stopped")
        self.refused("checkpoint", "--image-path", self.images, name, says="it is stopped")
        self.ok("delete", name)
        self.refused("checkpoint", "--image-path", self.images, name, says="does not exist")
        self.assertFalse(os.path.exists(self.images))

    def test_options(self):
        name = self.running("sleep", "1000")
        self.refused("checkpoint", "--page-server", "nowhere", name, says="ADDRESS:PORT")
        self.refused("checkpoint", "--empty-ns", "user", name, says="expected network")
        self.refused("checkpoint", "--manage-cgroups-mode", "odd", name, says="soft|full|strict|ignore")
        images = ("--image-path", self.images)
        self.refused("checkpoint", *images, "--parent-path", "../none", name, says=["../none", "No such file"])
        self.refused("checkpoint", *images, "--parent-path", "/tmp", name, says="from the images' directory")
        self.ok("delete", "--force", name)

    def test_no_criu(self):
        name = self.running("sleep", "1000")
        environment = dict(os.environ, PATH="/nowhere")
        self.refused("checkpoint", "--image-path", self.images, name, env=environment, says=["criu", "install"])
        self.assertEqual(self.state(name)["status"], "running")
        self.assertIn(b"checkpoint: there is no program criu", self.moat("doctor", env=environment).stdout)
        self.assertIn(b"checkpoint: criu check says that all is well", self.moat("doctor").stdout)
        self.ok("delete", "--force", name)

    def test_moat_is_killed(self):
        """At any moment of a checkpoint or a restore: the container goes on or is gone, and can be deleted."""
        random.seed(7)
        name = self.running("sh", "-c", COUNT)
        self.goes_on()
        for _ in range(2 if host.IN_LAB else 6):
            process = self.start_moat("checkpoint", "--leave-running", "--image-path", self.images, name,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(random.random() * 0.1 * host.TIME_SCALE)
            process.kill()
            process.wait()
            self.assertEqual(self.state(name)["status"], "running")
            self.wait_until(lambda: not criu_runs(), "CRIU has ended")
            self.goes_on(self.count())
        self.checkpoint(name)
        for _ in range(2 if host.IN_LAB else 6):
            restored = self.new_id()
            process = self.start_moat("restore", "--detach", "--bundle", self.bundle_path, "--image-path", self.images,
                                      restored, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(random.random() * 0.1 * host.TIME_SCALE)
            process.kill()
            process.wait()
            self.moat("delete", "--force", restored)
            self.wait_until(lambda: not criu_runs(), "CRIU has ended")

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
