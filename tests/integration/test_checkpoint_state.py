# SPDX-License-Identifier: GPL-2.0-or-later
"""What of a container a checkpoint keeps (connections, memory, files), and what it says where it cannot."""
import os
import random
import shutil
import socket
import subprocess
import time

from criu_images import COUNT, Images, criu_runs
from harness import at_levels
import host


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

    def checkpoint_with_a_mount(self):
        """On /data."""
        data = os.path.join(self.work, "data")
        os.mkdir(data)
        name = self.running("sh", "-c", COUNT, change=lambda c: c["mounts"].append(
            {"destination": "/data", "type": "bind", "source": data, "options": ["bind"]}))
        self.goes_on()
        self.checkpoint(name)

    def refuse_to_restore(self, *says):
        self.refused("restore", "--detach", "--bundle", self.bundle_path, "--image-path", self.images, self.new_id(), says=says)

    def test_bundle_that_lacks_a_mount(self):
        self.checkpoint_with_a_mount()
        self.config["mounts"].pop()
        self.write_config()
        self.refuse_to_restore("/data", "no bind mount")

    def test_mount_point_is_a_link(self):
        """The root file system was changed meanwhile: the mount must not go where a link leads."""
        self.checkpoint_with_a_mount()
        os.rmdir(os.path.join(self.rootfs, "data"))
        os.symlink("/etc", os.path.join(self.rootfs, "data"))
        self.refuse_to_restore("/data", "symbolic link")

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
