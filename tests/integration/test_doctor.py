# SPDX-License-Identifier: GPL-2.0-or-later
"""moat doctor: its form, that it agrees with what the machine is, and that it names what is missing."""
import ctypes
import json
import os
import re
import resource
import stat
import subprocess

import harness


class Doctor(harness.Case):
    def findings(self, *args, **options):
        """moat doctor --json: a map from topic to finding, and the levels that work."""
        done = self.moat("doctor", "--json", *args, **options)
        report = json.loads(done.stdout)
        self.status = done.returncode
        levels = {level["level"]: level for level in report["levels"]}
        return {finding["topic"]: finding for finding in report["findings"]}, levels

    def test_lines(self):
        done = self.ok("doctor")
        lines = done.stdout.decode().splitlines()
        for line in lines:
            self.assertRegex(line, r"^(ok  |warn|fail)  [a-z ]+: [^\x1b]+$")
        topics = [re.match(r".{6}([a-z ]+):", line).group(1) for line in lines]
        for topic in ("kernel", "seccomp", "namespaces", "user namespaces", "cgroups", "landlock", "kvm",
                      "guest kernel", "guest init", "templates", "memory", "state", "level vm", "level plain"):
            self.assertIn(topic, topics)

    def test_plain_works_where_the_other_tests_run(self):
        found, levels = self.findings()
        self.assertEqual(self.status, 0)
        self.assertTrue(levels["plain"]["works"])
        self.assertTrue(levels["sandbox"]["works"])
        self.assertEqual(found["namespaces"]["verdict"], "ok", found["namespaces"])

    def test_kvm_verdict_agrees_with_the_processor(self):
        kvm = self.findings()[0]["kvm"]
        with open("/proc/cpuinfo") as f:
            flags = set(f.read().split())
        if not os.path.exists("/dev/kvm"):
            self.assertEqual(kvm["verdict"], "fail")
            self.assertIn("open /dev/kvm: No such file", kvm["finding"])
        elif flags & {"vmx", "svm"}:
            self.assertEqual(kvm["verdict"], "ok", kvm)
        else:
            self.assertEqual(kvm["verdict"], "fail", kvm)
            self.assertIn("cannot run a kernel", kvm["finding"])

    def kvm_where(self, prepare, *user):
        """What is found of KVM where that was done to /dev in a mount namespace."""
        script = prepare + ' && exec "$@"'
        done = subprocess.run(["unshare", "--mount", "sh", "-ec", script, "sh", *user, *self.command("doctor", "--json")],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        found = [f for f in json.loads(done.stdout or '{"findings": []}')["findings"] if f["topic"] == "kvm"]
        self.assertTrue(found, done.stderr)
        self.assertEqual(found[0]["verdict"], "fail", found)
        return found[0]["finding"]

    def test_kvm_that_is_not_given(self):
        """To an ordinary user: which group to be in, and what else there is."""
        if not os.path.exists("/dev/kvm"):
            self.skipTest("no /dev/kvm")
        node = os.path.join(self.work, "kvm")
        os.close(os.open(node, os.O_CREAT | os.O_WRONLY, 0o600))
        said = self.kvm_where("mount --bind %s /dev/kvm" % node, "setpriv", "--reuid", "5", "--regid", "60", "--clear-groups")
        self.assertIn("open /dev/kvm: Permission denied", said)
        for word in ("as root", "group (kvm)", "in a container", "--isolation=sandbox", "--isolation=plain"):
            self.assertIn(word, said)

    def test_kvm_that_is_not_there(self):
        """Which module to load, and what else there is."""
        said = self.kvm_where("mount -t tmpfs dev /dev; mknod -m 666 /dev/null c 1 3")
        self.assertIn("open /dev/kvm: No such file or directory", said)
        for word in ("kvm_intel or kvm_amd", "firmware", "--isolation=sandbox"):
            self.assertIn(word, said)

    def test_kvm_that_is_another_device(self):
        """And not that one of its calls failed."""
        for what in ("mknod -m 666 /dev/kvm c 1 3", "touch /dev/kvm"):
            said = self.kvm_where("mount -t tmpfs dev /dev; mknod -m 666 /dev/null c 1 3; " + what)
            self.assertIn("/dev/kvm is not the KVM device", said)
            self.assertIn("10:232", said)

    def test_jail(self):
        """What the processes of a microVM may do stays a list that can be read: no files and no programs but fsd's files."""
        roles = {role["role"]: role for role in json.loads(self.ok("doctor", "--jail", "--json").stdout)["roles"]}
        most = {"monitor": 60, "vmm": 30, "fsd": 40, "diskd": 15, "standin": 15, "victim": 4}
        self.assertEqual(set(roles), set(most))
        text = self.ok("doctor", "--jail").stdout.decode()
        for name, role in roles.items():
            calls = {call["name"] for call in role["calls"]}
            self.assertEqual(len(calls), role["systemCalls"])
            self.assertLessEqual(len(calls), most[name])
            self.assertFalse(calls & {"execve", "execveat", "fork", "vfork", "clone3", "ptrace", "socket", "connect", "bpf"}, name)
            self.assertEqual("openat" in calls, name == "fsd")
            self.assertIn("%s: %d system calls" % (name, len(calls)), text)
        self.assertEqual(roles["vmm"]["capabilities"], [])
        self.assertTrue(all(call["checked"] for call in roles["vmm"]["calls"] if call["name"] in ("ioctl", "mmap", "clone")))
        self.assertTrue(all(call["checked"] for call in roles["fsd"]["calls"] if call["name"] == "openat"))

    def test_cache_without_unnamed_files(self):
        self.assertEqual(self.findings()[0]["cache"]["verdict"], "ok")
        self.settings["cache"] = os.path.join(self.work, "not", "yet", "there")
        self.write_settings()
        self.assertEqual(self.findings()[0]["cache"]["verdict"], "ok")
        self.settings["cache"] = "/dev/pts/moat"
        self.write_settings()
        cache = self.findings()[0]["cache"]
        self.assertEqual(cache["verdict"], "warn")
        self.assertIn("/dev/pts has no unnamed files", cache["finding"])
        self.assertIn('"cache" in the operator', cache["advice"])

    def test_memory_of_a_machine(self):
        self.settings.update(memory=100 << 20, overhead=20 << 20)
        self.write_settings()
        with open("/proc/meminfo") as f:
            total = int(f.readline().split()[1]) >> 10
        memory = self.findings()[0]["memory"]
        self.assertEqual(memory["verdict"], "ok")
        self.assertIn("may use 120 MiB (100 for the guest", memory["finding"])
        self.assertRegex(memory["finding"], "this machine has %d MiB in all" % total)
        self.settings.update(memory=total + 1000 << 20)
        self.write_settings()
        self.assertEqual(self.findings()[0]["memory"]["verdict"], "warn")

    def test_block_devices_and_images(self):
        self.assertFalse({"block devices", "disk images"} & set(self.findings()[0]))
        disk = os.path.join(self.work, "disk")
        os.mknod(disk + "1", stat.S_IFBLK | 0o600, os.makedev(7, 250))
        os.symlink("disk1", disk + "2")
        open(disk + "3", "w").close()
        self.settings.update(blockDevices=[disk + "[1-3]"], directIO=True)
        self.write_settings()
        found = self.findings()[0]
        self.assertEqual(found["block devices"]["verdict"], "ok")
        self.assertIn(disk + "[1-3]: 2 of the host's", found["block devices"]["finding"])
        self.assertEqual(found["disk images"]["verdict"], "warn")
        self.assertIn('"bundleImage"', found["disk images"]["advice"])
        self.settings.update(blockDevices=[disk + "3", disk + "4*"], bundleImage=True)
        self.write_settings()
        lines = self.ok("doctor").stdout.decode()
        for path in ("3", "4*"):
            self.assertIn("warn  block devices: %s: there is no block device" % (disk + path), lines)
        self.assertIn("ok    disk images: a bundle may choose one (bundleImage), which is read and written past the host's", lines)

    def test_missing_kernel_and_init(self):
        self.settings.update(kernel="/nowhere/vmlinux", init="/nowhere/agent.cpio")
        self.write_settings()
        found, levels = self.findings()
        self.assertEqual(self.status, 0)
        for topic, path, advice in (("guest kernel", "/nowhere/vmlinux", "contrib/kernel/build"),
                                    ("guest init", "/nowhere/agent.cpio", "install")):
            self.assertEqual(found[topic]["verdict"], "fail")
            self.assertIn("open %s: No such file" % path, found[topic]["finding"])
            self.assertIn(advice, found[topic]["advice"])
            self.assertIn(topic, levels["vm"]["lacking"])
        self.assertFalse(levels["vm"]["works"])

    def test_files_that_are_no_kernel_and_no_init(self):
        path = os.path.join(self.work, "text")
        with open(path, "w") as f:
            f.write("#!/bin/sh\n" * 200)
        self.settings.update(kernel=path, init=path)
        self.write_settings()
        found, _ = self.findings()
        self.assertIn("is not a vmlinux or bzImage", found["guest kernel"]["finding"])
        self.assertIn("is not an initramfs", found["guest init"]["finding"])

    def test_a_kernel_that_is_cut(self):
        import struct
        path = os.path.join(self.work, "vmlinux")
        ident = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
        head = struct.pack("<16sHHIQQQIHHHHHH", ident, 2, 62, 1, 0x1000000, 64, 0, 0, 64, 56, 1, 0, 0, 0)
        head += struct.pack("<IIQQQQQQ", 1, 5, 0x1000, 0x1000000, 0x1000000, 0x1000, 0x1000, 0x1000)
        self.settings.update(kernel=path)
        self.write_settings()
        for size, verdict in ((0x2000, "ok"), (0x1fff, "fail")):
            with open(path, "wb") as f:
                f.write(head.ljust(size, b"\0"))
            os.chmod(path, 0o644)
            self.assertEqual(self.findings()[0]["guest kernel"]["verdict"], verdict)

    def test_an_init_that_others_can_write(self):
        path = os.path.join(self.work, "agent.cpio")
        with open(path, "wb") as f:
            f.write(b"070701" + bytes(1000))
        self.settings.update(init=path)
        self.write_settings()
        os.chmod(path, 0o644)
        self.assertEqual(self.findings()[0]["guest init"]["verdict"], "ok")
        os.chmod(path, 0o666)
        self.assertEqual(self.findings()[0]["guest init"]["verdict"], "warn")

    def test_too_little_memory(self):
        self.settings.update(memory="1000T")
        self.write_settings()
        self.assertEqual(self.findings()[0]["memory"]["verdict"], "warn")

    def test_without_a_capability(self):
        def drop_mknod():
            PR_CAPBSET_DROP, CAP_MKNOD = 24, 27
            ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_MKNOD, 0, 0, 0)
        done = self.ok("doctor", preexec_fn=drop_mknod)
        self.assertRegex(done.stdout.decode(), r"(?m)^warn  capabilities: CAP_MKNOD is missing")

    def test_low_limits(self):
        """Those that engines ask for by themselves cannot be had."""
        def lower(capability):
            def change():
                resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
                resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
                ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
            return change
        CAP_SYS_RESOURCE, CAP_MKNOD = 24, 27
        hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        processes = 1000000 if hard == resource.RLIM_INFINITY else min(hard, 1000000)
        with open("/proc/sys/kernel/pid_max") as f:
            askable = min(processes, int(f.read()))  # podman's own limit is pid_max
        text = self.ok("doctor", preexec_fn=lower(CAP_SYS_RESOURCE)).stdout.decode()
        self.assertRegex(text, r"(?m)^warn  resource limits: at most 512 open files: .*--ulimit nofile=512")
        self.assertRegex(text, r"(?m)^warn  resource limits: at most %d processes: .*--ulimit nproc=%d" % (processes, askable))
        with open("/proc/self/status") as f:
            effective = int(next(line for line in f if line.startswith("CapEff")).split()[1], 16)
        if effective >> CAP_SYS_RESOURCE & 1:
            self.assertNotIn("resource limits", self.ok("doctor", preexec_fn=lower(CAP_MKNOD)).stdout.decode())

    def test_an_ordinary_user(self):
        """Who has no runtime directory and may open no device is told what to do, and features and spec work."""
        home = os.path.join(self.work, "home")
        os.mkdir(home)
        os.chmod(home, 0o777)

        def moat(*words):
            command = self.command(*words)
            at = command.index("--root")
            del command[at:at + 2]
            return subprocess.run(["setpriv", "--reuid", "5", "--regid", "60", "--clear-groups", "env", "-u", "XDG_RUNTIME_DIR",
                                   *command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        done = moat("doctor", "--json")
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        report = json.loads(done.stdout)
        found = {finding["topic"]: finding for finding in report["findings"]}
        self.assertIn("XDG_RUNTIME_DIR is not set", found["state"]["finding"])
        self.assertIn("--root DIR", found["state"]["advice"])
        if not os.path.exists("/dev/kvm") or os.stat("/dev/kvm").st_mode & 0o006 == 0:
            self.assertIn("--isolation=plain", found["kvm"]["finding"])
        if os.path.exists("/dev/net/tun") and os.stat("/dev/net/tun").st_mode & 0o006 == 0:
            self.assertIn("run moat as root", found["guest network"]["advice"])
        for words in (["features"], ["spec", "--bundle", home], ["doctor", "--engine", "podman"], ["doctor", "--jail"]):
            done = moat(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)
        for words in (["list"], ["doctor", "--surface", "x"], ["state", "x"]):
            done = moat(*words)
            self.assertEqual(done.returncode, 1)
            self.assertIn("nowhere to keep the containers' state", done.stderr)

    def test_state_that_cannot_be_made(self):
        self.root = os.path.join(self.settings_path, "state")
        found, levels = self.findings()
        self.assertEqual(found["state"]["verdict"], "fail")
        self.assertEqual(self.status, 1)
        self.assertEqual(levels["plain"]["lacking"], ["state"])

    def test_an_argument_is_refused(self):
        self.refused("doctor", "x", says="no arguments")

    def test_one_thing_at_a_time(self):
        for words in (["--jail", "--engine", "podman"], ["--surface", "one", "--jail"], ["--surface", "one", "--engine", "docker"]):
            self.refused("doctor", *words, says=("--surface, --jail and --engine", "give one of them"))
        self.refused("doctor", "--engine", "podman", "--json", says="leave out --json")

    def test_lines_for_engines(self):
        here = os.path.dirname(os.path.realpath(harness.MOAT))
        lines = self.ok("doctor", "--engine", "podman").stdout.decode().splitlines()
        self.assertEqual(lines[0], "[engine.runtimes]")
        self.assertIn('moat = ["%s/moat"]' % here, lines)
        runtimes = json.loads(self.ok("doctor", "--engine", "docker").stdout)["runtimes"]
        self.assertEqual(runtimes["moat"], {"path": here + "/moat"})
        self.assertIn('BinaryName = "%s/moat"' % here, self.ok("doctor", "--engine", "containerd").stdout.decode())
        self.refused("doctor", "--engine", "lxd", says=("--engine", "podman|docker|containerd", "lxd"))

    def test_version_of_a_configuration(self):
        """Lines that can be appended to a file: one that has a version gets no second one."""
        etc = os.path.join(self.work, "etc")
        os.mkdir(etc)
        made = not os.path.isdir("/etc/containerd")
        if made:
            os.mkdir("/etc/containerd")
            self.addCleanup(os.rmdir, "/etc/containerd")
        subprocess.run(["mount", "--bind", etc, "/etc/containerd"], check=True)
        self.addCleanup(self._unmount, "/etc/containerd")
        for text, version in ((None, 0), ("", 0), ('# version\nroot = "/version"\n', 0), ("version = 2\n", 2),
                              ("# ours\n\n  version=2\n[plugins]\n", 2), ("version = 3\n", 3)):
            if text is not None:
                with open(os.path.join(etc, "config.toml"), "w") as f:
                    f.write(text)
            lines = self.ok("doctor", "--engine", "containerd").stdout.decode().splitlines()
            self.assertEqual("version = 2" in lines, not version, text)
            plugin = "io.containerd.cri.v1.runtime" if version == 3 else "io.containerd.grpc.v1.cri"
            self.assertIn('[plugins."%s".containerd.runtimes.moat]' % plugin, lines)

    def test_configuration_of_an_engine(self):
        """An engine that is installed, seen through its configuration."""
        programs, etc = os.path.join(self.work, "bin"), os.path.join(self.work, "etc")
        os.mkdir(programs)
        os.mkdir(etc)
        for name in ("dockerd", "moat-plain"):
            with open(os.path.join(programs, name), "w") as f:
                f.write("#!/bin/sh\n")
            os.chmod(os.path.join(programs, name), 0o755)
        made = not os.path.isdir("/etc/docker")
        if made:
            os.mkdir("/etc/docker")
            self.addCleanup(os.rmdir, "/etc/docker")
        subprocess.run(["mount", "--bind", etc, "/etc/docker"], check=True)
        self.addCleanup(self._unmount, "/etc/docker")
        environment = dict(os.environ, PATH=programs + ":" + os.environ["PATH"])

        def docker(text):
            with open(os.path.join(etc, "daemon.json"), "w") as f:
                f.write(text)
            report = json.loads(self.ok("doctor", "--json", env=environment).stdout)
            return [f for f in report["findings"] if f["topic"] == "docker"]
        finding, = docker("{}")
        self.assertEqual(finding["verdict"], "warn")
        self.assertIn("does not name moat", finding["finding"])
        self.assertIn("moat doctor --engine docker", finding["advice"])
        finding, = docker('{"runtimes": {')
        self.assertEqual(finding["verdict"], "warn")
        self.assertIn("/etc/docker/daemon.json:1:", finding["finding"])
        right, wrong = docker(json.dumps({"data-root": "/moat/x", "runtimes": {
            "a": {"path": programs + "/moat-plain"}, "b": {"path": "/nowhere/moat"}}}))
        self.assertEqual((right["verdict"], wrong["verdict"]), ("ok", "warn"))
        self.assertIn(programs + "/moat-plain", right["finding"])
        self.assertIn("/nowhere/moat", wrong["finding"])
        self.assertIn("No such file", wrong["finding"])
