# SPDX-License-Identifier: GPL-2.0-or-later
"""What only a microVM has: its processes and their jail, its size, what it shares with the host, and how it can end."""
import array
import os
import re
import stat
import signal
import socket
import subprocess
import time

from harness import Case, SANITIZED, host

ROLES = ("monitor", "vmm", "fsd")
MIB = 1 << 20


def status_of(pid):
    """/proc/PID/status as a dictionary."""
    with open("/proc/%d/status" % pid) as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)


def roles(monitor):
    """{role: pid} of a machine."""
    pids = [monitor, *host.children_of(monitor)]
    return {status_of(pid)["Name"].removeprefix("moat-"): pid for pid in pids}


def private_memory(pid, without):
    """Private bytes of a process, but for mappings of the files named."""
    total, name = 0, ""
    with open("/proc/%d/smaps" % pid) as f:
        for line in f:
            fields = line.split()
            if not fields[0].endswith(":"):
                name = fields[5] if len(fields) > 5 else ""
            elif fields[0] in ("Private_Clean:", "Private_Dirty:") and not any(w in name for w in without):
                total += int(fields[1]) << 10
    return total


class Running(Case):
    level = "vm"

    def start(self, *args, **bundle):
        self.bundle(*args, **bundle)
        name = self.create()
        self.ok("start", name)
        return name

    def finish(self, name):
        self.ok("kill", name, "KILL")
        self.wait_status(name, "stopped")
        self.ok("delete", name)


class Jail(Running):
    def test_processes(self):
        name = self.start("sleep", "1000")
        found = roles(self.pid(name))
        self.assertEqual(set(found), set(ROLES))
        state = {role: status_of(pid) for role, pid in found.items()}
        for role in ROLES:
            self.assertEqual(state[role]["NoNewPrivs"], "1", role)
            if not SANITIZED:
                self.assertEqual(state[role]["Seccomp"], "2", role)
            self.assertEqual(state[role]["CapBnd"], state[role]["CapPrm"], role)
            self.assertEqual(int(state[role]["CapInh"], 16) | int(state[role]["CapAmb"], 16), 0, role)
        self.assertEqual(int(state["vmm"]["CapPrm"], 16), 0)
        self.assertGreater(int(state["vmm"]["Uid"].split()[0]), 0x70000000)
        self.assertEqual(len(set(state["vmm"]["Uid"].split())), 1)
        self.assertEqual(state["vmm"]["Groups"].strip(), "")
        self.assertEqual(int(state["monitor"]["CapPrm"], 16), 1 << 5)  # CAP_KILL
        self.assertEqual(int(state["fsd"]["CapPrm"], 16) & (1 << 21 | 1 << 19 | 1 << 2 | 1 << 27), 0)  # SYS_ADMIN, ...
        for role in ("vmm", "fsd"):
            self.assertEqual(os.listdir("/proc/%d/root" % found[role]), [], role)
            with open("/proc/%d/net/dev" % found[role]) as f:
                self.assertEqual(len(f.readlines()), 3, role)  # two lines of headings, and lo
            self.assertEqual(state[role]["NSpid"].split()[-1], "1")
        for kind in ("net", "ipc", "uts", "cgroup", "mnt", "pid"):
            monitor, vmm, fsd = (os.readlink("/proc/%d/ns/%s" % (found[role], kind)) for role in ROLES)
            self.assertNotIn(monitor, (vmm, fsd), kind)
            self.assertEqual(vmm == fsd, kind not in ("mnt", "pid"), kind)
        self.finish(name)

    def test_descriptors(self):
        """Nobody holds a file or directory of the host that is not the guest's, but the log and the state directory."""
        log = os.path.join(self.work, "log")
        self.bundle("sleep", "1000")
        name = self.new_id()
        self.ok("--log", log, "create", "--bundle", self.bundle_path, name, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
        found = roles(self.pid(name))
        allowed = {"monitor": {log, os.path.join(self.root, name), "/dev/null"}, "vmm": {log, "/dev/null"},
                   "fsd": {log, "/dev/null"}}
        for role, pid in found.items():
            for fd in os.listdir("/proc/%d/fd" % pid):
                target = os.readlink("/proc/%d/fd/%s" % (pid, fd))
                if role == "monitor" and target.startswith("/sys/fs/cgroup/"):  # for its end, and whether the host's OOM killer came
                    self.assertIn(os.path.basename(target), (
                        "memory.events", "memory.max", "cgroup.procs", "cgroup.stat",
                        "memory.oom_control", "memory.limit_in_bytes", "memory.swappiness"))
                elif target.startswith("/") and role == "fsd":
                    # seen from detached mounts: the root itself, what lies in it, and /proc/self/fd
                    self.assertTrue(target in allowed[role] or os.path.exists(self.rootfs + target) or "/fd" in target, target)
                elif target.startswith("/"):
                    self.assertIn(target, allowed[role], role)
        self.ok("delete", "--force", name)

    def test_memory(self):
        """monitor, vmm and fsd together need less than 8 MiB beyond guest RAM (the kernel's clean pages are RAM, too)."""
        name = self.start("sleep", "1000")
        used = {role: private_memory(pid, ["memfd:", "vmlinux", "/templates/", "/#"]) for role, pid in roles(self.pid(name)).items()}
        if not SANITIZED:
            self.assertLess(sum(used.values()), 8 * MIB, used)
        self.finish(name)

    def test_two_machines_have_two_users(self):
        names = [self.start("sleep", "1000"), self.start("sleep", "1000")]
        uids = {status_of(roles(self.pid(name))["vmm"])["Uid"] for name in names}
        self.assertEqual(len(uids), 2)
        for name in names:
            self.finish(name)


class View(Running):
    """The mount namespace of the pid that engines know, as podman cp enters it."""

    def test_files_of_the_container(self):
        """There are the container's files and mounts, and none of the host's; what is put there reaches the guest."""
        for directory in ("shared", "kept"):
            os.mkdir(os.path.join(self.work, directory))
        with open(self.work + "/kept/file", "w") as f:
            f.write("of the host\n")

        def change(config):
            config["mounts"] += [
                {"destination": "/shared", "type": "bind", "source": self.work + "/shared", "options": ["rbind", "rw"]},
                {"destination": "/shared/kept", "type": "bind", "source": self.work + "/kept", "options": ["bind", "ro"]},
                {"destination": "/scratch", "type": "tmpfs", "source": "tmpfs", "options": ["size=1m"]},
                {"destination": "/scratch/kept", "type": "bind", "source": self.work + "/kept", "options": ["bind"]},
                {"destination": "/host", "type": "bind", "source": "/", "options": ["rbind", "ro"]}]
        name = self.start("sleep", "1000", change=change)
        seen = "/proc/%d/root" % self.pid(name)
        self.assertNotEqual(os.readlink("/proc/%d/ns/mnt" % self.pid(name)), os.readlink("/proc/self/ns/mnt"))
        self.assertEqual(sorted(os.listdir(seen)), sorted(os.listdir(self.rootfs)))
        for where, there in (("/new", self.rootfs + "/new"), ("/shared/new", self.work + "/shared/new"),
                             ("/scratch/kept/new", self.work + "/kept/new")):
            with open(seen + where, "w") as f:
                f.write("to " + where)
            self.assertTrue(os.path.exists(there), there)
            self.assertEqual(self.ok("exec", name, "cat", where).stdout.decode(), "to " + where)
        with open(seen + "/shared/kept/file") as f:
            self.assertEqual(f.read(), "of the host\n")
        for where in ("/shared/kept/x", "/scratch/x", "/proc/x", "/dev/x"):
            with self.assertRaises(OSError, msg=where):
                open(seen + where, "w").close()
        self.assertEqual(os.listdir(seen + "/proc"), [])
        self.assertEqual(sorted(os.listdir(seen + "/host")), sorted(os.listdir("/")))
        self.assertEqual(os.listdir(seen + "/scratch"), ["kept"])  # and nothing of what is in /dev
        self.assertEqual(stat.S_IMODE(os.stat(seen + "/proc").st_mode), 0o555)
        with open("/proc/%d/mountinfo" % self.pid(name)) as f:
            mounts = [line.split() for line in f]
        for fields in mounts:
            self.assertTrue({"nodev", "nosuid", "noexec"} <= set(fields[5].split(",")), fields)
        self.assertEqual(sorted(fields[4] for fields in mounts if not fields[4].startswith("/host/")),
                         sorted(["/"] + [m["destination"] for m in self.config["mounts"]]))
        self.finish(name)

    def test_read_only_root(self):
        def change(config):
            config["root"]["readonly"] = True
        name = self.start("sleep", "1000", change=change)
        with self.assertRaises(OSError):
            open("/proc/%d/root/x" % self.pid(name), "w").close()
        self.finish(name)


class Size(Case):
    level = "vm"

    def inside(self, change):
        text = self.output("sh", "-c", "grep -c ^processor /proc/cpuinfo; grep MemTotal /proc/meminfo", change=change)
        cpus, memory = text.splitlines()
        return int(cpus), int(memory.split()[1]) << 10

    def test_hardware(self):
        cpus, memory = self.inside(lambda c: c.update(vm={"hwConfig": {"vcpus": 2, "memory": 96 * MIB}}))
        self.assertEqual(cpus, 2)
        self.assertTrue(64 * MIB < memory < 96 * MIB, memory)

    def test_limits(self):
        """The limit is the workload's: RAM is more than it, and the guest's cgroup keeps it."""
        def change(config):
            config["linux"]["cgroupsPath"] = "/%s-limits" % host.RUN_TAG
            config["linux"]["resources"] = {"memory": {"limit": 150 * MIB}, "cpu": {"quota": 50000, "period": 100000}}
        cpus, memory = self.inside(change)
        self.assertEqual(cpus, 1)
        self.assertTrue(150 * MIB < memory < 200 * MIB, memory)

    def test_impossible(self):
        self.bundle("true", change=lambda c: c.update(vm={"hwConfig": {"vcpus": 1000}}))
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says="vm.hwConfig.vcpus")
        self.bundle("true", change=lambda c: c.update(vm={"hwConfig": {"memory": MIB}}))
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says="vm.hwConfig.memory")


class Shared(Case):
    level = "vm"

    def test_bind_mounts(self):
        outside = os.path.join(self.work, "outside")
        os.makedirs(outside + "/below")
        for path, text in ((outside + "/file", "old\n"), (self.work + "/single", "one\n"), (outside + "/below/deep", "deep\n")):
            with open(path, "w") as f:
                f.write(text)

        def change(config):
            config["mounts"] += [
                {"destination": "/data", "type": "bind", "source": outside, "options": ["rbind", "rw"]},
                {"destination": "/ro", "type": "none", "source": outside, "options": ["bind", "ro"]},
                {"destination": "/etc/single", "type": "bind", "source": self.work + "/single", "options": ["bind"]}]
        script = "cat /data/file /etc/single /ro/below/deep; echo new >/data/file; echo two >/etc/single; echo no >/ro/x"
        self.bundle("sh", "-c", script, change=change)
        done = self.run_container()
        self.assertEqual(done.stdout, b"old\none\ndeep\n")
        self.assertIn(b"Read-only file system", done.stderr)
        with open(outside + "/file") as f:
            self.assertEqual(f.read(), "new\n")
        with open(self.work + "/single") as f:
            self.assertEqual(f.read(), "two\n")

    def test_read_only_root(self):
        def change(config):
            config["root"]["readonly"] = True
            config["mounts"].append({"destination": "/new/point", "type": "tmpfs", "source": "tmpfs"})
        self.bundle("sh", "-c", "echo x >/x; echo x >/new/point/x && cat /new/point/x", change=change)
        done = self.run_container()
        self.assertEqual(done.stdout, b"x\n")
        self.assertIn(b"Read-only file system", done.stderr)
        self.assertFalse(os.path.exists(self.rootfs + "/x"))

    def test_what_cannot_be_shared(self):
        for source, says in (("/dev/null", "only directories and regular files"), ("/proc", "processes"),
                             ("/proc/self/mem", "processes"), ("/nonexistent", "/nonexistent")):
            self.bundle("true", change=lambda c: c["mounts"].append(
                {"destination": "/x", "type": "bind", "source": source, "options": ["bind"]}))
            self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=[says, "/x"])

    def test_proc_of_the_whole_host(self):
        """It comes with all that is mounted below /, and is closed. It can be mounted over."""
        whole = {"destination": "/host", "type": "bind", "source": "/", "options": ["rbind", "ro"]}
        self.bundle("sh", "-c", "ls -d /host/proc /host/etc/passwd; ls /host/sys | grep kernel; for i in version self/status 1/environ; do "
                    "cat /host/proc/$i; done; ls /host/proc", change=lambda c: c["mounts"].append(whole))
        done = self.run_container()
        self.assertEqual(done.stdout, b"/host/etc/passwd\n/host/proc\nkernel\n")
        self.assertEqual(done.stderr.count(b"Permission denied"), 4, done.stderr)
        over = {"destination": "/host/proc", "type": "tmpfs", "source": "tmpfs"}
        self.assertEqual(self.output("sh", "-c", "echo x >/host/proc/x; ls /host/proc", change=lambda c: c["mounts"].extend([whole, over])),
                         "x\n")

    def test_root_of_the_host(self):
        """What is mounted in a root is there, but for its proc: over that the container's own is mounted."""
        def change(config):
            config["root"] = {"path": "/", "readonly": True}
        self.assertEqual(self.output("cat", "/proc/1/comm", change=change), "cat\n")

    def test_both_streams_to_the_end_of_one_file(self):
        """As `moat run >>file 2>&1`: nothing of the file, nor of either stream, is overwritten."""
        path = os.path.join(self.work, "log")
        with open(path, "w") as f:
            f.write("before\n")
        self.bundle("sh", "-c", "for i in 1 2 3; do echo out $i; sleep 0.2; echo err $i >&2; sleep 0.2; done")
        with open(path, "a") as f:
            self.run_container(stdout=f, stderr=f)
        with open(path) as f:
            self.assertEqual(f.read(), "before\nout 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n")

    def test_blocking_pipe_stays_blocking(self):
        """The flags of the caller's own descriptors are not changed."""
        self.bundle("echo", "x")
        reader, writer = os.pipe()
        self.run_container(stdout=writer)
        self.assertTrue(os.get_blocking(writer))
        self.assertEqual(os.read(reader, 10), b"x\n")
        os.close(reader)
        os.close(writer)


class Terminal(Case):
    level = "vm"

    def test_console_socket(self):
        def change(config):
            config["process"].update(terminal=True, consoleSize={"height": 33, "width": 111})
        self.bundle("sh", "-c", "tty; stty size; read x; echo got $x; exit 5", change=change)
        path = os.path.join(self.work, "console.sock")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            name = self.create("--console-socket", path)
            connection, _ = listener.accept()
            with connection:
                message, data, _, _ = connection.recvmsg(100, socket.CMSG_SPACE(4))
        self.assertTrue(message.startswith(b"/dev/pts/"), message)
        master = array.array("i", data[0][2])[0]
        try:
            self.ok("start", name)
            text = self.read_until(master, b"111\r\n")
            self.assertRegex(text, rb"^/dev/(pts/\d+|console)\r\n33 111\r\n$")
            os.write(master, b"hello\r")
            self.assertEqual(self.read_until(master, b"got hello\r\n"), b"hello\r\ngot hello\r\n")
        finally:
            os.close(master)
        self.wait_status(name, "stopped")
        self.ok("delete", name)

    def read_until(self, fd, end):
        text, deadline = b"", time.monotonic() + 10 * host.TIME_SCALE
        os.set_blocking(fd, False)
        while not text.endswith(end):
            self.assertLess(time.monotonic(), deadline, text)
            try:
                text += os.read(fd, 1000)
            except BlockingIOError:
                time.sleep(0.02)
        return text

    def test_without_one(self):
        self.bundle("true", change=lambda c: c["process"].update(terminal=True))
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says="--console-socket")


class Ends(Running):
    def run_until(self, *args, then, **bundle):
        """Runs a container in the foreground, calls then(pid) when it runs, and returns its status and stderr."""
        self.bundle(*args, **bundle)
        name = self.new_id()
        process = self.start_moat("run", "--bundle", self.bundle_path, name, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.wait_until(lambda: b'"running"' in self.moat("state", name).stdout, "runs", 30)
        then(self.pid(name))
        _, err = process.communicate(timeout=40 * host.TIME_SCALE)
        return process.returncode, err.decode()

    def test_who_died_and_how(self):
        for role in ("vmm", "fsd"):
            status, text = self.run_until("sleep", "1000", then=lambda pid, r=role: os.kill(roles(pid)[r], signal.SIGKILL))
            self.assertEqual(status, 137, role)
            self.assertIn("the %s was killed by signal 9" % role, text)

    def test_signal_to_the_monitor_reaches_the_workload(self):
        def send(pid):
            self.wait_until(lambda: os.path.exists(self.rootfs + "/ready"), "it hears the signal")
            os.kill(pid, signal.SIGTERM)
        status, text = self.run_until("sh", "-c", "trap 'exit 9' TERM; touch /ready; while :; do sleep 0.1; done", then=send)
        self.assertEqual((status, text), (9, ""))

    def test_guest_that_does_not_answer(self):
        """A vmm that is stopped answers nothing: SIGKILL then switches the machine off."""
        self.bundle("sleep", "1000")
        name = self.create()
        self.ok("start", name)
        os.kill(roles(self.pid(name))["vmm"], signal.SIGSTOP)
        self.ok("kill", name, "KILL", timeout=30)
        self.wait_status(name, "stopped")
        self.ok("delete", name)

    def test_output_that_nobody_reads(self):
        """It is kept until it is read; SIGKILL gives it up."""
        self.bundle("dd", "if=/dev/zero", "bs=1k", "count=200")
        reader, writer = os.pipe()
        name = self.create(stdout=writer)
        os.close(writer)
        self.ok("start", name)
        time.sleep(5 * host.TIME_SCALE / 10)
        self.assertEqual(self.state(name)["status"], "running")
        self.ok("kill", name, "KILL")
        self.wait_status(name, "stopped")
        os.close(reader)
        self.ok("delete", name)

    def test_hooks(self):
        """Beside the machine, whose monitor is the process that they are told of; startContainer in the guest."""
        out = os.path.join(self.work, "hooks")

        def change(config):
            config["hooks"] = {kind: [{"path": "/bin/sh", "args": ["sh", "-c", "cat >>%s; echo %s >>%s" % (out, kind, out)]}]
                               for kind in ("prestart", "createRuntime", "createContainer", "poststart", "poststop")}
            config["hooks"]["startContainer"] = [{"path": "/bin/touch", "args": ["touch", "/touched"]}]
        self.bundle("test", "-e", "/touched", change=change)
        name = self.new_id()
        self.assertEqual(self.run_container(name=name).returncode, 0)
        with open(out) as f:
            text = f.read()
        self.assertEqual(re.findall(r"^\w+$|(?<=})\w+$", text, re.M),
                         ["prestart", "createRuntime", "createContainer", "poststart", "poststop"])
        self.assertEqual(re.findall(r'"status": ?"(\w+)"', text), ["creating"] * 3 + ["running", "stopped"])
        self.bundle("true", change=lambda c: c.update(hooks={"prestart": [{"path": "/bin/false"}]}))
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says="prestart")

    def test_guest_resets_itself(self):
        def change(config):
            config["linux"]["namespaces"] = [n for n in config["linux"]["namespaces"] if n["type"] != "pid"]
            for kind in ("bounding", "effective", "permitted"):
                config["process"]["capabilities"][kind] = ["CAP_SYS_BOOT"]
        self.bundle("busybox", "reboot", "-f", change=change)
        done = self.run_container()
        self.assertEqual(done.returncode, 137)
        self.assertIn("reset the machine", done.stderr.decode())

    def test_steps_in_the_log(self):
        log = os.path.join(self.work, "log")
        self.bundle("true")
        self.ok("--debug", "--log", log, "run", "--bundle", self.bundle_path, self.new_id(), stderr=subprocess.DEVNULL)
        with open(log, errors="replace") as f:
            steps = re.findall(r"debug: machine: (\d+\.\d+) (.*)", f.read())
        self.assertEqual([step for _, step in steps], [
            "monitor started", "vmm ready", "hello", "created", "started", "exited", "output delivered",
            "machine ended", "over"])
        self.assertEqual([t for t, _ in steps], sorted((t for t, _ in steps), key=float))

    def test_descriptors_for_the_workload_are_refused(self):
        self.bundle("true")
        self.refused("create", "--bundle", self.bundle_path, "--preserve-fds", "1", self.new_id(), says="--preserve-fds")
