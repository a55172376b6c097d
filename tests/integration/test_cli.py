# SPDX-License-Identifier: GPL-2.0-or-later
"""The command line as engines use it: exit statuses, JSON, logs, features."""
import array
import json
import os
import pty
import re
import socket
import subprocess
import threading

from harness import MOAT, Case, at_levels, host


def receive_descriptor(listener, found):
    """Takes one connection and the descriptor that comes over it."""
    connection, _ = listener.accept()
    with connection:
        _, control, _, _ = connection.recvmsg(256, socket.CMSG_SPACE(16))
        for level, kind, data in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                found.extend(array.array("i", data[:4]))


def pid_of(pidfd):
    with open("/proc/self/fdinfo/%d" % pidfd) as f:
        return int(re.search(r"^Pid:\s+(-?\d+)", f.read(), re.M)[1])


@at_levels("plain")
class Cli(Case):
    def running(self, *args):
        self.bundle(*(args or ("sleep", "1000")))
        name = self.create()
        self.ok("start", name)
        return name

    # -- options

    def test_before_and_after_the_id(self):
        self.bundle("sleep", "1000")
        name = self.new_id()
        pid_file = os.path.join(self.work, "pid")
        self.ok("create", name, "--bundle=" + self.bundle_path, "--pid-file", pid_file, stdout=subprocess.DEVNULL)
        with open(pid_file) as f:
            self.assertEqual(int(f.read()), self.pid(name))
        self.ok("kill", name, "9", "--all")
        self.wait_status(name, "stopped")
        self.ok("delete", name, "-f")

    def test_flags_with_values(self):
        name = self.running()
        self.refused("delete", "--force=false", name, says="running")
        self.refused("delete", "--force=maybe", name, says=["true or false", "maybe"])
        self.refused("delete", "--force=", name, says="true or false")
        self.ok("delete", "--force=true", name)

    def test_global_options_of_engines(self):
        self.bundle("true")
        name = self.create()
        for options in (["--rootless", "true"], ["--rootless=auto"], ["--cgroup-manager", "cgroupfs"], ["--systemd-cgroup=false"],
                        ["--debug", "--log", "/dev/null", "--log-format=json"]):
            self.ok(*options, "state", name)
        for options in (["-rootless", "true"], ["-systemd-cgroup=false", "-debug"]):  # as Go's programs may write them
            self.ok(*options, "state", name)
        self.refused("-rootles", "true", "state", name, says="unknown option")
        self.assertEqual(self.ok("ps", "-format", "json", name).stdout[:1], b"[")
        self.refused("--rootless", "maybe", "state", name, says="true|false|auto")
        self.refused("--cgroup-manager", "none", "state", name, says="cgroupfs|systemd|disabled")
        self.ok("delete", "--force", name)

    def test_config_of_another_name(self):
        self.bundle("sh", "-c", "exit 3")
        for name in ("other.json", os.path.join(self.work, "far.json")):
            os.rename(os.path.join(self.bundle_path, "config.json"), os.path.join(self.bundle_path, name))
            self.assertEqual(self.run_container("--config", name).returncode, 3)
            self.assertEqual(self.run_container("-f", name).returncode, 3)
            self.refused("run", "--bundle", self.bundle_path, self.new_id(), says="config.json")
            os.rename(os.path.join(self.bundle_path, name), os.path.join(self.bundle_path, "config.json"))

    def test_keep(self):
        """The container stays to be looked at, as a stopped one."""
        self.bundle("sh", "-c", "exit 4")
        name = self.new_id()
        self.assertEqual(self.run_container("--keep", name=name).returncode, 4)
        self.assertEqual(self.state(name)["status"], "stopped")
        self.ok("delete", name)

    def test_no_pivot(self):
        """chroot in the place of pivot_root, for a root file system on a ramfs; nothing of the host is seen all the same."""
        self.bundle("sh", "-c", "ls /; cd ../../..; ls -d /rootfs /proc/1/root/bin 2>&1")
        done = self.run_container("--no-pivot")
        lines = done.stdout.decode().splitlines()
        self.assertEqual(sorted(lines[:-2]), sorted(os.listdir(self.rootfs)))
        self.assertIn("/proc/1/root/bin", lines[-2:])

    def test_no_subreaper(self):
        """Who outlives the container's first process is then not moat's to wait for."""
        self.bundle("sh", "-c", "exit 5")
        self.assertEqual(self.run_container("--no-subreaper").returncode, 5)

    def test_update_refusals(self):
        name = self.running()
        self.refused("update", "--l3-cache-schema", "L3:0=f", name, says=[name, "no resctrl group"])
        self.refused("update", "--mem-bw-schema", "MB:0=20", name, says=[name, "no resctrl group"])
        self.refused("update", "--resources", "-", "--memory", "1G", name, says=["--memory", "not both"])
        self.refused("update", "--cpu-idle", "2", name, says="0|1")
        self.ok("delete", "--force", name)

    def test_pidfd_sockets(self):
        self.bundle("sleep", "1000")
        name = self.new_id()
        for words in (["create", "--bundle", self.bundle_path], ["start"], ["exec", "--detach"], ["run"]):
            if words == ["start"]:
                self.ok("start", name)
                continue
            path = os.path.join(self.work, words[0])
            found = []
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(path)
                listener.listen()
                thread = threading.Thread(target=receive_descriptor, args=(listener, found))
                thread.start()
                pid_file = os.path.join(self.work, "pid")
                if words == ["run"]:
                    other = self.new_id()
                    words = ["run", "--detach", "--bundle", self.bundle_path]
                    self.ok(*words, "--pid-file", pid_file, "--pidfd-socket", path, other, stdout=subprocess.DEVNULL)
                else:
                    command = ["sleep", "1000"] if words[0] == "exec" else []
                    self.ok(*words, "--pid-file", pid_file, "--pidfd-socket", path, name, *command, stdout=subprocess.DEVNULL)
                thread.join(10)
            with open(pid_file) as f:
                self.assertEqual([pid_of(fd) for fd in found], [int(f.read())], words)
            os.close(found[0])
        self.ok("delete", "--force", name)
        self.ok("delete", "--force", other)

    def test_pidfd_receiver_of_crun(self):
        """The same by an annotation, where the operator lets it."""
        path, found = os.path.join(self.work, "receiver"), []
        self.bundle("sleep", "1000", change=lambda c: c.update(annotations={"run.oci.pidfd_receiver": path}))
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=["run.oci.pidfd_receiver", "operator's file"])
        self.settings["annotations"] = ["run.oci.pidfd_receiver"]
        self.write_settings()
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=["pidfd socket", path])
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            thread = threading.Thread(target=receive_descriptor, args=(listener, found))
            thread.start()
            name = self.create()
            thread.join(10 * host.TIME_SCALE)
        self.assertEqual([pid_of(fd) for fd in found], [self.pid(name)])
        os.close(found[0])
        self.ok("delete", "--force", name)

    def test_annotations_of_crun_that_are_not_offered(self):
        for key, value in (("run.oci.delegate-cgroup", "x"), ("run.oci.systemd.subgroup", "x")):
            self.bundle("true", change=lambda c: c.update(annotations={key: value}))
            self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=key)
        self.bundle("true", change=lambda c: c.update(annotations={"run.oci.systemd.subgroup": "", "run.oci.of.tomorrow": "1"}))
        self.assertEqual(self.run_container().returncode, 0)

    def test_pidfd_socket_that_is_not_there(self):
        self.bundle("true")
        self.refused("create", "--bundle", self.bundle_path, "--pidfd-socket", "/nonexistent", self.new_id(),
                     says=["pidfd socket", "/nonexistent", "No such file"])

    # -- errors and logs

    def test_log(self):
        log = os.path.join(self.work, "log")
        done = self.moat("--log", log, "--log-format", "json", "state", "absent")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertRegex(done.stderr, rb"\Amoat: container absent does not exist[^\n]*\n\Z")
        with open(log) as f:
            line = json.loads(f.read())
        self.assertEqual(sorted(line), ["level", "msg", "time"])
        self.assertEqual(line["level"], "error")
        self.assertIn("container absent does not exist", line["msg"])
        self.assertRegex(line["time"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z\Z")

    def test_log_to_standard_error(self):
        done = self.moat("--log-format", "json", "state", "absent")
        self.assertEqual(json.loads(done.stderr)["level"], "error")
        self.refused("--log-format", "xml", "state", "absent", says=["text|json", "xml"])
        text = os.path.join(self.work, "text")
        self.moat("--log", text, "state", "absent")
        with open(text) as f:
            self.assertRegex(f.read(), r"\A\S+Z error: container absent does not exist[^\n]*\n\Z")

    def test_errors_on_a_terminal(self):
        """One line, no colour; `doctor` is coloured there and nowhere else."""
        for words, colour in ((["state", "absent"], False), (["doctor"], True)):
            main, end = pty.openpty()
            process = self.start_moat(*words, stdout=end, stderr=end)
            os.close(end)
            text = b""
            while True:
                try:
                    piece = os.read(main, 4096)
                except OSError:
                    break
                if not piece:
                    break
                text += piece
            process.wait(timeout=30 * host.TIME_SCALE)
            os.close(main)
            self.assertEqual(b"\x1b[" in text, colour, text)
            self.assertTrue(colour or text.count(b"\n") == 1, text)
        self.assertNotIn(b"\x1b", self.moat("doctor").stdout)

    def test_log_that_cannot_be_opened(self):
        """There is one place left to say so, once."""
        self.refused("--log", os.path.join(self.work, "none/log"), "state", "absent", says=["open log file", "No such file", "--log names it"])

    def test_option_that_takes_the_command_for_its_value(self):
        self.refused("--cgroup-manager", "disabled", "--log", "/dev/null", says="no command is given")

    def test_global_option_after_the_command(self):
        for words in (["state", "--root", "/x", "a"], ["list", "--debug"], ["run", "--log-format=json", "a"],
                      ["exec", "--isolation", "plain", "a", "b"]):
            self.refused(*words, says=["unknown option --", "global option, which comes before the command"])
        self.assertNotIn("global", self.refused("state", "--roo", "/x", "a", says="unknown option --roo"))

    def test_what_to_do_about_what_is_missing(self):
        self.bundle("nosuch")
        run = ["run", "--bundle", self.bundle_path]
        path = next(e for e in self.config["process"]["env"] if e.startswith("PATH="))[5:]
        self.refused(*run, self.new_id(), says="executable file not found in $PATH; in the container that is " + path)
        self.config["process"]["args"] = ["/no/such"]
        self.write_config()
        self.refused(*run, self.new_id(), says="no such file or directory; the path is one in the container")
        self.config["root"]["path"] = "nowhere"
        self.write_config()
        self.refused(*run, self.new_id(), says=["nowhere: No such file", "root.path of config.json"])
        self.refused("run", "--bundle", "/nowhere", self.new_id(), says=["/nowhere: No such file", "--bundle names"])

    def test_root_that_cannot_be_used(self):
        """What names it is told, or where it stands: it need not be on this command line."""
        self.bundle("true")
        file = os.path.join(self.work, "file")
        os.mknod(file)
        create = ["create", "--bundle", self.bundle_path, self.new_id()]
        for words in (create, ["list"], ["state", "a"]):
            for root in (file, file + "/below"):
                self.refused("--root", root, *words, says=["Not a directory", "--root names it"])
        settings = os.path.join(self.work, "settings")
        with open(settings, "w") as f:
            json.dump({"stateRoot": file}, f)
        # The harness gives --root, which goes before the file.
        done = subprocess.run([MOAT, "--config", settings, "list"], capture_output=True, text=True)
        self.assertIn('"stateRoot" of the operator\'s file names it', done.stderr)
        self.assertEqual(done.returncode, 1)

    def test_wrong_state(self):
        """What it is already, and what is left to do."""
        name = self.running()
        self.refused("start", name, says="it is running already")
        self.ok("pause", name)
        self.refused("pause", name, says="it is paused already")
        self.ok("resume", name)
        self.ok("kill", name, "KILL")
        self.wait_status(name, "stopped")
        self.refused("start", name, says="it is stopped: delete it and create it anew")
        self.ok("delete", name)

    def test_signal_in_another_place(self):
        for words in (["a1", "-9"], ["-9", "a1"], ["-s", "KILL", "a1"], ["--signal", "KILL", "a1"]):
            self.refused("kill", *words, says=["unknown option", "the signal follows the id: moat kill ID KILL"])
        self.refused("kill", "KILL", "a1", says=["unknown signal 'a1'", "the id comes first: moat kill a1 KILL"])
        self.assertNotIn("first", self.refused("kill", "a1", "NOSUCH", says="unknown signal 'NOSUCH': give a name such as TERM"))
        self.assertNotIn("signal", self.refused("kill", "--all=maybe", "a1", says="true or false"))

    def test_id_that_is_no_name(self):
        for name in (".", ".."):
            self.refused("state", name, says=["'%s' is not a name" % name, "use letters, digits and _ + - . only"])

    def test_kernels_that_are_not_there(self):
        self.refused("kernel", "list", "--to", "/nope", says=["read /nope: No such file", "--to names it"])
        self.assertIn(b"RELEASE", self.ok("kernel", "list", "--to", self.work).stdout)

    def test_what_to_do_about_a_slip(self):
        """What people type who come from docker, or who name the file where the directory is asked for."""
        self.bundle("true")
        run = ["run", "--bundle", self.bundle_path]
        self.refused(*run, self.new_id(), "sh", says=["'sh' is an argument too many", "process.args of its config.json"])
        self.refused("list", "all", says=["'all' is an argument too many", "no arguments"])
        self.refused("run", "--bundle", os.path.join(self.bundle_path, "config.json"), self.new_id(),
                     says=["Not a directory", "--bundle names the directory"])
        self.refused("spec", "--bundle", os.path.join(self.work, "nowhere"), says="make the directory first")
        text = self.refused(*run, "--pid-file", self.work, self.new_id(), says=["write the pid file", self.work + ": Is a directory"])
        self.assertNotIn(".tmp", text)
        self.assertEqual([name for name in os.listdir("/tmp") if name.endswith(".tmp")], [])
        for source, destination, words in ((self.work, "/bin/sh", "a directory, onto what is none"),
                                           ("/etc/passwd", "/bin", "no directory, onto a directory")):
            self.bundle("true", change=lambda c: c["mounts"].append(
                {"destination": destination, "type": "bind", "source": source, "options": ["bind"]}))
            self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=["mount " + destination, source, words])

    def test_unknown_capability(self):
        """Said once, however many sets have it."""
        def change(config):
            for names in config["process"].setdefault("capabilities", {}).values():
                names += ["net_admin", "CAP_NOSUCH"]
        self.bundle("true", change=change)
        done = self.run_container()
        lines = done.stderr.decode().splitlines()
        self.assertEqual((done.returncode, len(lines)), (0, 2), lines)
        self.assertIn("'net_admin' is left out: no capability has that name (as CAP_NET_ADMIN", lines[0])
        self.assertIn("'CAP_NOSUCH' is left out", lines[1])

    def test_words_that_engines_look_for(self):
        """containerd and CRI-O find out by these whether a container has ended, or is not there."""
        self.refused("kill", "absent", "KILL", says="does not exist")
        self.refused("state", "absent", says="does not exist")
        name = self.running("true")
        self.wait_status(name, "stopped")
        self.assertEqual(self.refused("kill", name, "KILL"), "moat: signal %s: container not running\n" % name)
        self.refused("kill", name, "0", says="container not running")
        self.ok("delete", name)

    def test_version(self):
        for flag in ("--version", "-v"):
            lines = self.ok(flag).stdout.decode().splitlines()
            self.assertRegex(lines[0], r"\Amoat version \d+\.\d+\.\d+\Z")
            self.assertRegex(lines[1], r"\Acommit: \S+\Z")
            self.assertRegex(lines[2], r"\Aspec: 1\.\d+\.\d+\Z")

    # -- what is printed

    def test_spec(self):
        os.mkdir(os.path.join(self.work, "new"))
        path = os.path.join(self.work, "new/config.json")
        self.ok("spec", "-b", os.path.dirname(path))
        with open(path) as f:
            text = f.read()
        self.assertEqual(json.loads(text)["process"]["args"], ["sh"])
        self.assertTrue(text.endswith("}\n") and not text.endswith("\n\n"))
        self.refused("spec", "--bundle", os.path.dirname(path), says=["config.json", "there already"])
        with open(path) as f:
            self.assertEqual(f.read(), text)

    def test_list_and_state(self):
        name = self.running()
        (row,) = json.loads(self.ok("list", "--format", "json").stdout)
        state = self.state(name)
        self.assertEqual(row, state)
        self.assertEqual((row["owner"], row["isolation"]), ("root", "plain"))
        self.assertNotIn("annotations", row)
        header, line = self.ok("list").stdout.decode().splitlines()
        self.assertEqual(header.split(), ["ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER", "LEVEL"])
        self.assertEqual(line.split(), [name, str(row["pid"]), "running", self.bundle_path, row["created"], "root", "plain"])
        for column in ("PID", "BUNDLE", "LEVEL"):  # as wide as what is in them
            self.assertEqual(line[header.index(column) - 1], " ")
        self.assertEqual(self.ok("list", "-q").stdout.decode(), name + "\n")
        self.ok("delete", "--force", name)
        self.assertEqual(json.loads(self.ok("list", "-f", "json").stdout), [])


@at_levels("plain", "sandbox", "vm")
class Features(Case):
    """What `features` says is so."""

    def test_hooks(self):
        hooks = json.loads(self.ok("features").stdout)["hooks"]
        self.assertEqual(len(hooks), 6)
        seen = os.path.join(self.work, "seen")
        open(seen, "w").close()
        os.chmod(seen, 0o666)  # createContainer has the ids of the container
        self.bundle("true")
        os.makedirs(os.path.join(self.rootfs, "tmp"), exist_ok=True)
        os.chmod(os.path.join(self.rootfs, "tmp"), 0o1777)
        for kind in hooks:
            where = "/tmp/seen" if kind == "startContainer" else seen  # it runs in the container
            self.config.setdefault("hooks", {})[kind] = [
                {"path": "/bin/sh", "args": ["sh", "-c", "echo %s >>%s" % (kind, where)]}]
        self.write_config()
        done = self.run_container()
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        found = set()
        for path in (seen, os.path.join(self.rootfs, "tmp/seen")):
            with open(path) as f:
                found |= set(f.read().split())
        self.assertEqual(found, set(hooks))


@at_levels("plain")
class FeaturesOfNamespaces(Case):
    def test_mounts_and_properties(self):
        said = json.loads(self.ok("features").stdout)
        linux = said["linux"]
        cases = {
            "netDevices": (linux["netDevices"]["enabled"], lambda c: c["linux"].update(netDevices={"lo": {"name": "lo0"}})),
            "intelRdt": (linux["intelRdt"]["enabled"], lambda c: c["linux"].update(intelRdt={"closID": "x"})),
            "memoryPolicy": ("memoryPolicy" in linux, lambda c: c["linux"].update(memoryPolicy={"mode": "MPOL_DEFAULT"})),
            "selinux": (linux["selinux"]["enabled"], lambda c: c["process"].update(selinuxLabel="a_u:a_r:a_t:s0")),
        }
        for name, (enabled, change) in cases.items():
            with self.subTest(name):
                self.bundle("true", change=change)
                text = self.run_container().stderr.decode()
                self.assertEqual("not supported" not in text, enabled, text)
        self.assertEqual(linux["mountExtensions"]["idmap"]["enabled"], "idmap" in said["mountOptions"])
        self.assertLessEqual({"rbind", "ro", "nosuid", "rro", "tmpcopyup"}, set(said["mountOptions"]))
        self.assertEqual(sorted(linux["namespaces"]), sorted("pid network mount ipc uts user cgroup time".split()))

    def test_annotations(self):
        key = "potentiallyUnsafeConfigAnnotations"
        self.assertEqual(json.loads(self.ok("features").stdout).get(key, []), [])
        self.settings["annotations"] = ["run.moat.isolation"]
        self.write_settings()
        self.assertEqual(json.loads(self.ok("features").stdout)[key], ["run.moat.isolation"])
        for wrong in ("run.moat.isolatoin", "org.systemd.property.", "org.systemd.property.Cpu.Weight"):
            self.settings["annotations"] = [wrong]
            self.write_settings()
            self.refused("features", says=["annotations", "'%s'" % wrong])

    def test_capabilities_of_the_operators_file(self):
        for name, known in (("CAP_NET_RAW", True), ("NET_RAW", False), ("", False)):
            self.settings["sandbox"] = {"capabilities": ["CAP_CHOWN", name]}
            self.write_settings()
            if known:
                self.ok("features")
            else:
                self.refused("features", says=["sandbox.capabilities[1]", '"%s"' % name])
