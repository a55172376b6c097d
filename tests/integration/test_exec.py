# SPDX-License-Identifier: GPL-2.0-or-later
"""Further processes in a container, and terminals."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import termios
import time

from harness import Case, at_levels, differs, host


def receive_terminal(listener):
    connection, _ = listener.accept()
    with connection:
        name, fds, _, _ = socket.recv_fds(connection, 4096, 4)
    assert len(fds) == 1, fds
    return name, fds[0]


def read_all(fd):
    data = b""
    while True:
        try:
            part = os.read(fd, 65536)
        except OSError:  # EIO: the other end is closed
            part = b""
        if not part:
            os.close(fd)
            return data.replace(b"\r\n", b"\n").decode()
        data += part


def read_until(fd, text, timeout=20):
    """What comes until it ends with text, which must come in time."""
    data, deadline = b"", time.monotonic() + timeout * host.TIME_SCALE
    while not data.replace(b"\r\n", b"\n").endswith(text.encode()):
        left = deadline - time.monotonic()
        assert left > 0 and select.select([fd], [], [], left)[0], "%r did not come, only %r" % (text, data)
        data += os.read(fd, 4096)
    return data


class WithConsole(Case):
    def listen(self):
        path = os.path.join(self.work, "console.sock")
        if os.path.exists(path):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(path)
        listener.listen()
        listener.settimeout(20 * host.TIME_SCALE)
        return path, listener


@at_levels("plain", "vm")
class Exec(WithConsole):
    def setUp(self):
        super().setUp()
        self.bundle("sleep", "1000")

    @differs("vm", "processors of a machine are its own: refused")
    def test_cpu_affinity(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("one CPU only")
        first, last = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))

        def allowed(**affinity):
            self.config["process"]["execCPUAffinity"] = affinity
            self.write_config()
            name = self.running()
            out = self.ok("exec", name, "grep", "Cpus_allowed_list", "/proc/self/status").stdout
            init = self.ok("exec", name, "grep", "Cpus_allowed_list", "/proc/1/status").stdout
            self.assertNotEqual(init.split()[1], b"%d" % last)  # of exec alone
            return out.split()[1].decode()
        self.assertEqual(allowed(initial=str(first), final=str(last)), str(last))
        self.assertEqual(allowed(final="%d-%d" % (first, first)), str(first))
        # Which a v1 cpuset may widen again as the process enters.
        self.assertIn(str(first), allowed(initial=str(first)))

    def test_wrong_cpu_affinity(self):
        name = self.running()
        process = dict(self.config["process"], args=["true"])
        path = os.path.join(self.work, "process.json")
        wrong = [({"final": "0-"}, ("final", "0-")), ({"initial": "x"}, ("initial", "x")),
                 ({"initial": "3-1"}, ("initial", "3-1"))]
        if self.level == "plain":  # a guest has other processors than those that are named
            wrong.append(({"final": "8191"}, ("final", "8191", "CPUs")))
        for affinity, words in wrong:
            with open(path, "w") as f:
                json.dump(dict(process, execCPUAffinity=affinity), f)
            self.refused("exec", "--process", path, name, says=words)
        self.config["process"]["execCPUAffinity"] = {"initial": "0,"}
        self.write_config()
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=("execCPUAffinity", "0,"))

    def running(self, **options):
        name = self.create(**options)
        self.ok("start", name)
        self.addCleanup(self.ok, "delete", "--force", name)
        return name

    def said(self, name, *args, **options):
        done = self.moat("exec", name, *args, **options)
        self.assertEqual((done.returncode, done.stderr), (0, b""), done.stdout)
        return done.stdout.decode()

    def test_in_all_namespaces(self):
        name = self.running()
        show = "cd /proc/self/ns; for i in cgroup ipc mnt net pid time user uts; do readlink $i; done"
        ours = self.said(name, "sh", "-c", show)
        self.assertEqual(ours, self.said(name, "sh", "-c", show.replace("self", "1")))
        self.assertEqual(len(ours.split()), 8)
        self.assertIn("sleep 1000", self.said(name, "ps"))

    def test_in_the_cgroup(self):
        name = self.running()
        self.assertEqual(self.said(name, "cat", "/proc/self/cgroup"), self.said(name, "cat", "/proc/1/cgroup"))

    def test_status_and_streams(self):
        name = self.running()
        self.assertEqual(self.moat("exec", name, "sh", "-c", "exit 9").returncode, 9)
        self.assertEqual(self.moat("exec", name, "sh", "-c", "kill -9 $$").returncode, 137)
        data = os.urandom(300000)
        self.assertEqual(self.moat("exec", name, "cat", input=data).stdout, data)

    def test_process_as_the_containers(self):
        name = self.running()
        text = self.said(name, "cat", "/proc/self/status")
        status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual(status["CapInh"], "0" * 16)
        self.assertEqual(status["CapAmb"], "0" * 16)
        self.assertEqual(status["CapEff"], "%016x" % 0xa80425fb)

    def test_options(self):
        name = self.running()
        out = self.moat("exec", "--cwd", "/etc", "--env", "A=1", "--env", "PATH=/bin", "--user", "1000:5", name, "sh", "-c",
                        "pwd; echo $A $PATH; id -u; id -g").stdout
        self.assertEqual(out, b"/etc\n1 /bin\n1000\n5\n")

    def test_further_options(self):
        name = self.running()
        groups = self.said(name, "id", "-G").split()
        more = self.ok("exec", "--additional-gids", "71", "-g", "72", name, "id", "-G").stdout.decode().split()
        self.assertEqual(more, groups + ["71", "72"])
        for flag, value, word in (("--process-label", "a_u:a_r:a_t:s0", "SELinux"), ("--apparmor", "no-such-profile", "no-such-profile")):
            if self.level == "vm":  # a guest's kernel has none of the host's policy: moat(1)
                self.ok("exec", flag, value, name, "true")
            else:
                self.refused("exec", flag, value, name, "true", says=word, status=255)
        self.refused("exec", "--additional-gids", "x", name, "true", says="--additional-gids", status=255)

    def test_no_new_privileges(self):
        """It can be set for a process whose container does without."""
        self.config["process"]["noNewPrivileges"] = False
        self.write_config()
        name = self.running()
        for flags, expected in (([], "0"), (["--no-new-privs"], "1")):
            text = self.ok("exec", *flags, name, "grep", "NoNewPrivs", "/proc/self/status").stdout.decode()
            self.assertEqual(text.split()[1], expected)

    def test_preserved_descriptors(self):
        name = self.running()
        if self.level == "vm":  # a guest cannot have descriptors of the host
            self.refused("exec", "--preserve-fds", "1", name, "true", says=("--preserve-fds", "cannot", "--isolation=sandbox"))
            return
        read, write = os.pipe()
        try:
            self.ok("exec", "--preserve-fds", "1", name, "sh", "-c", "echo passed >&3", pass_fds=[3],
                    preexec_fn=lambda: os.dup2(write, 3))
            self.assertEqual(os.read(read, 100), b"passed\n")
            done = self.moat("exec", name, "sh", "-c", "echo passed >&3", pass_fds=[3], preexec_fn=lambda: os.dup2(write, 3))
            self.assertNotEqual(done.returncode, 0)
            self.refused("exec", "--preserve-fds", "2147483647", name, "true", says=("--preserve-fds", "number"))
        finally:
            os.close(read)
            os.close(write)

    def test_user_names(self):
        with open(os.path.join(self.rootfs, "etc/group"), "a") as f:
            f.write("staff:x:50:other,user\nwheel:x:51:user\nbroken\n:x:x:user\n")
        name = self.running()
        for user, expected in (("user", "1000 1000 50 51"), ("user:staff", "1000 50"), ("1000", "1000 1000 50 51"),
                               ("user:77", "1000 77"), ("4242", "4242 0"), ("root", "0 0")):
            done = self.moat("exec", "--user", user, name, "sh", "-c", "echo $(id -u) $(id -G)")
            self.assertEqual(done.stdout.decode().strip(), expected, user)

    def test_user_refused(self):
        """CVE-2026-30892: no loose reading of a user."""
        name = self.running()
        for user in ("nobody-here", "1000x", "-1", "4294967295", "0x10", "user:", ":5", "user:nogroup", "1:2:3", "", " 0"):
            self.refused("exec", "--user", user, name, "true", says="")

    def test_user_where_the_files_are_none(self):
        """What the image has put in place of /etc/passwd neither holds exec up nor leaves the user guessing."""
        name = self.running()
        passwd, group = (os.path.join(self.rootfs, "etc", n) for n in ("passwd", "group"))

        def device(path):
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))

        def unix_socket(path):
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(path)

        def huge(path):
            with open(path, "w") as f:
                f.truncate(2 << 20)
        kinds = ((os.mkfifo, "is no regular file"), (device, "is no regular file"), (os.mkdir, "is no regular file"),
                 (unix_socket, "is no regular file"), (huge, "too large"), (lambda path: None, "is not there"),
                 (lambda path: os.symlink("/dev/zero", path), "is no regular file"))
        for make, reason in kinds:
            for path in (passwd, group):
                os.rmdir(path) if os.path.isdir(path) else os.path.lexists(path) and os.unlink(path)
                make(path)
            if self.level == "vm":
                time.sleep(1.5)  # a guest keeps names for a second
                if make == device:
                    reason = "cannot be opened"  # the file server gives no device to a guest
            self.refused("exec", "--user", "user", name, "true", says=("'user'", "/etc/passwd", reason), timeout=5)
            self.refused("exec", "--user", "7:staff", name, "true", says=("'staff'", "/etc/group", reason), timeout=5)
            self.ok("exec", name, "true", timeout=5)
            self.ok("exec", "--user", "7:8", name, "true", timeout=5)
        os.rmdir(passwd) if os.path.isdir(passwd) else os.unlink(passwd)
        self.ok("delete", "--force", name)

    def test_terminal_without_one(self):
        name = self.running()
        for flags in (["--tty"], ["--tty", "--detach"]):
            self.refused("exec", *flags, name, "true", says=("terminal", "--console-socket"), status=255)
        read, write = os.pipe()
        try:
            self.refused("exec", "--tty", name, "true", stdin=read, says=("terminal", "--tty"), status=255)
        finally:
            os.close(read)
            os.close(write)
        self.ok("exec", name, "true")
        self.ok("delete", "--force", name)

    def test_program_missing(self):
        name = self.running()
        self.refused("exec", name, "nosuch", says="executable file not found in $PATH", status=127)
        self.refused("exec", name, "/etc/passwd", says="permission denied", status=126)

    def test_not_running(self):
        self.bundle("true")
        name = self.create()
        self.ok("start", name)
        self.wait_status(name, "stopped")
        self.refused("exec", name, "true", says=name)
        self.ok("delete", name)

    def test_detached_with_pid_file(self):
        name = self.running()
        path = os.path.join(self.work, "pid")
        self.ok("exec", "--detach", "--pid-file", path, name, "sleep", "2000", stdout=subprocess.DEVNULL)
        with open(path) as f:
            pid = int(f.read())
        with open("/proc/%d/comm" % pid) as f:
            self.assertEqual(f.read(), "moat-standin\n" if self.level == "vm" else "sleep\n")
        self.assertIn("sleep 2000", self.said(name, "ps"))
        os.kill(pid, signal.SIGKILL)
        self.wait_until(lambda: "sleep 2000" not in self.said(name, "ps"), "it has ended")

    def test_taken_back_where_its_pid_cannot_be_told(self):
        """Nobody would know of it."""
        name = self.running()
        for flags in ((), ("--detach",)):
            self.refused("exec", *flags, "--pid-file", self.work + "/nowhere/pid", name, "sleep", "2000", says="pid file")
            self.wait_until(lambda: "sleep 2000" not in self.said(name, "ps"), "it has ended")

    def test_number_of_nobody(self):
        """To the kernel's setresuid(2) it means to stay what one is: root."""
        name = self.running()
        path = os.path.join(self.work, "process.json")
        for user in ({"uid": 4294967295, "gid": 5}, {"uid": 5, "gid": 4294967295}):
            with open(path, "w") as f:
                json.dump({"args": ["id"], "cwd": "/", "env": ["PATH=/bin"], "user": user}, f)
            self.refused("exec", "--process", path, name, says="4294967295 is nobody's number")

    def test_process_file(self):
        name = self.running()
        path = os.path.join(self.work, "process.json")
        with open(path, "w") as f:
            json.dump({"args": ["sh", "-c", "id -u; pwd; echo $X"], "cwd": "/tmp", "env": ["PATH=/bin", "X=y"],
                       "user": {"uid": 12, "gid": 13}}, f)
        self.assertEqual(self.moat("exec", "--process", path, name).stdout, b"12\n/tmp\ny\n")

    def test_terminal(self):
        name = self.running()
        path, listener = self.listen()
        process = self.start_moat("exec", "--tty", "--console-socket", path, name, "sh", "-c", "tty; stty size; echo done")
        _, fd = receive_terminal(listener)
        out = read_all(fd)
        self.assertEqual(process.wait(20 * host.TIME_SCALE), 0)
        self.assertRegex(out, r"^/dev/pts/\d+\n")
        self.assertTrue(out.endswith("done\n"), out)

    def test_size_of_a_terminal(self):
        """From the engine's side of it, at any time."""
        name = self.running()
        path, listener = self.listen()
        process = self.start_moat("exec", "--tty", "--console-socket", path, name, "sh", "-c",
                                  "trap 'stty size' WINCH; echo ready; while :; do sleep 0.1; done")
        _, fd = receive_terminal(listener)
        read_until(fd, "ready\n")
        for rows, columns in ((21, 71), (22, 72)):
            fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            read_until(fd, "%d %d\n" % (rows, columns))
        os.write(fd, b"\x03")
        self.assertEqual(process.wait(20 * host.TIME_SCALE), 130)
        os.close(fd)

    def test_terminal_of_the_caller(self):
        """moat passes on what is typed, with the size that it has."""
        name = self.running()
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 101, 0, 0))
        process = self.start_moat("exec", "--tty", name, "sh", "-c",
                                  "trap 'stty size' WINCH; stty size; read x; echo got-$x; while :; do sleep 0.1; done",
                                  stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        read_until(ours, "33 101\n")
        os.write(ours, b"word\n")
        read_until(ours, "got-word\n")
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 70, 0, 0))
        process.send_signal(signal.SIGWINCH)
        read_until(ours, "20 70\n")
        os.write(ours, b"\x03")
        self.assertEqual(process.wait(20 * host.TIME_SCALE), 130)

    def test_console_that_is_hung_up(self):
        name = self.running()
        path, listener = self.listen()
        process = self.start_moat("exec", "--tty", "--console-socket", path, name, "sh", "-c",
                                  "trap 'exit 7' HUP; echo ready; while :; do sleep 0.1; done")
        _, fd = receive_terminal(listener)
        read_until(fd, "ready\n")
        os.close(fd)
        self.assertEqual(process.wait(20 * host.TIME_SCALE), 7)

    def test_several_at_once(self):
        name = self.running()
        processes = [self.start_moat("exec", name, "sh", "-c", "read x; echo $x $x; echo e >&2; exit %d" % i, stdin=-1,
                                     stdout=-1, stderr=-1) for i in range(8)]
        for i, process in enumerate(processes):
            out, err = process.communicate(b"%d\n" % i, timeout=60 * host.TIME_SCALE)
            self.assertEqual((process.returncode, out, err), (i, b"%d %d\n" % (i, i), b"e\n"))

    def test_signals_are_passed_on(self):
        name = self.running()
        script = "trap 'exit 5' TERM; trap 'echo usr' USR1; echo ready; while :; do sleep 0.1; done"
        for _ in range(1 if self.level == "vm" else 20):  # from the first moment on
            process = self.start_moat("exec", name, "sh", "-c", script, stdout=-1)
            self.assertEqual(process.stdout.readline(), b"ready\n")
            process.send_signal(signal.SIGUSR1)
            self.assertEqual(process.stdout.readline(), b"usr\n")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(20 * host.TIME_SCALE), 5)

    def test_ends_with_the_container(self):
        name = self.create()
        self.ok("start", name)
        process = self.start_moat("exec", name, "sh", "-c", "echo ready; sleep 1000", stdout=-1)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.ok("kill", name, "KILL")
        self.assertEqual(process.wait(20 * host.TIME_SCALE), 137)
        self.wait_status(name, "stopped")
        self.refused("exec", name, "true", says=(name, "stopped"))
        self.ok("delete", name)

    def test_in_a_container_that_is_only_created(self):
        name = self.create()
        self.addCleanup(self.ok, "delete", "--force", name)
        self.assertEqual(self.said(name, "echo", "x"), "x\n")

    def test_child_in_the_background(self):
        """It has the process's output open, and nobody waits for it."""
        name = self.running()
        process = self.start_moat("exec", name, "sh", "-c", "(sleep 3; echo later) & echo now", stdout=-1)
        self.assertEqual(process.wait(20 * host.TIME_SCALE), 0)
        self.assertEqual(process.stdout.read(), b"now\nlater\n")

    def test_detached_is_the_engines_to_wait_for(self):
        """As conmon or a shim does: a subreaper, to which it comes when moat has ended."""
        name = self.running()
        path = os.path.join(self.work, "pid")
        script = ("import ctypes, os, subprocess, sys\nctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
                  "subprocess.run(sys.argv[2:], check=True)\npid = int(open(sys.argv[1]).read())\n"
                  "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))")
        for command, status in ("exit 9", "9"), ("kill -9 $$", "137" if self.level == "vm" else "-9"):
            done = subprocess.run([sys.executable, "-c", script, path,
                                   *self.command("exec", "--detach", "--pid-file", path, name, "sh", "-c", command)],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60 * host.TIME_SCALE)
            self.assertEqual(done.stdout.decode().strip(), status)

    def test_in_a_cgroup_below(self):
        name = self.running()
        for cgroup, words in (("../x", "must not leave"), ("cpu:x", "one controller"), ("nosuch", "nosuch")):
            self.refused("exec", "--cgroup", cgroup, name, "true", says=words)

    def test_user_namespace(self):
        maps = [{"containerID": 0, "hostID": 100000, "size": 65536}]

        def change(c):
            c["linux"]["namespaces"].append({"type": "user"})
            c["linux"].update(uidMappings=maps, gidMappings=maps)
        self.bundle("sleep", "1000", change=change)
        subprocess.run(["chown", "-hR", "100000:100000", self.rootfs], check=True)
        name = self.running()
        self.assertEqual(self.said(name, "sh", "-c", "id -u; cat /proc/self/uid_map").split(),
                         ["0", "0", "100000", "65536"])

    def test_no_descriptor_of_the_host(self):
        """CVE-2024-21626."""
        name = self.running()
        self.assertEqual(self.said(name, "ls", "/proc/self/fd").split(), ["0", "1", "2", "3"])
        for number in range(3, 16):
            self.assertNotEqual(self.moat("exec", "--cwd", "/proc/self/fd/%d" % number, name, "pwd").returncode, 0)


@at_levels("plain", "vm")
class Terminal(WithConsole):
    def terminal(self, *args, change=None, size=None):
        def with_terminal(c):
            c["process"]["terminal"] = True
            if size:
                c["process"]["consoleSize"] = {"height": size[0], "width": size[1]}
            if change:
                change(c)
        self.bundle(*args, change=with_terminal)
        path, listener = self.listen()
        name = self.create("--console-socket", path)
        sent, fd = receive_terminal(listener)
        self.ok("start", name)
        return name, fd, sent

    def finish(self, name, fd):
        out = read_all(fd)
        self.wait_status(name, "stopped")
        self.ok("delete", name)
        return out

    def test_streams_are_it(self):
        name, fd, sent = self.terminal("sh", "-c", "tty; for i in 0 1 2; do readlink /proc/self/fd/$i; done; "
                                       "stat -c '%F %t' /dev/console; echo x > /dev/tty")
        self.assertTrue(sent.startswith(b"/dev/p"))
        lines = self.finish(name, fd).splitlines()
        self.assertEqual(lines[:4], ["/dev/pts/0"] * 4)
        self.assertEqual(lines[-2:], ["character special file 88", "x"])

    def test_size(self):
        name, fd, _ = self.terminal("stty", "size", size=(33, 101))
        self.assertEqual(struct.unpack("HHHH", fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(8)))[:2], (33, 101))
        self.assertEqual(self.finish(name, fd), "33 101\n")

    def test_job_control(self):
        name, fd, _ = self.terminal("sleep", "1000")
        fields = re.sub(r"\(.*\)", "x", self.ok("exec", name, "cat", "/proc/1/stat").stdout.decode()).split()
        self.assertEqual(fields[4], fields[5])  # its group leads its session,
        self.assertEqual(fields[7], fields[4])  # and is the terminal's foreground group
        self.ok("kill", name, "KILL")
        self.finish(name, fd)

    def test_for_another_user(self):
        name, fd, _ = self.terminal("sh", "-c", "echo fine > /dev/stdout",
                                    change=lambda c: c["process"].update(user={"uid": 1000, "gid": 1000}))
        self.assertEqual(self.finish(name, fd), "fine\n")

    def test_without_devpts(self):
        """CVE-2025-52565: what the image has at /dev/pts is no terminal."""
        def change(c):
            c["process"]["terminal"] = True
            c["mounts"] = [m for m in c["mounts"] if m["destination"] != "/dev/pts"]
        self.bundle("true", change=change)
        path, _ = self.listen()
        self.refused("create", "--bundle", self.bundle_path, "--console-socket", path, self.new_id(), says="devpts")

    def test_console_that_is_a_link(self):
        def change(c):
            c["process"]["terminal"] = True
            c["mounts"] = [m for m in c["mounts"] if m["destination"] not in ("/dev", "/dev/shm", "/dev/mqueue")]
            os.symlink("/etc/passwd", os.path.join(self.rootfs, "dev/console"))
        self.bundle("true", change=change)
        path, _ = self.listen()
        done = self.moat("create", "--bundle", self.bundle_path, "--console-socket", path, self.new_id())
        self.assertNotEqual(done.returncode, 0)
        with open(os.path.join(self.rootfs, "etc/passwd")) as f:
            self.assertTrue(f.read().startswith("root:"))
