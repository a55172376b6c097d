# SPDX-License-Identifier: GPL-2.0-or-later
"""What config.json says of the process at level plain: user, capabilities, limits, environment, program."""
import fcntl
import os
import resource
import signal
import subprocess

from harness import Case, at_levels, differs, host


def process(**values):
    return lambda c: c["process"].update(values)


@at_levels("plain", "vm", quick={"vm": ["test_unknown_capability_is_a_warning"]})
class Process(Case):
    def status(self, change=None, *, user=None):
        """/proc/self/status of the workload."""
        text = self.output("cat", "/proc/self/status", change=change)
        return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)

    def test_user_groups_umask(self):
        out = self.output("sh", "-c", "id -u; id -g; id -G; umask",
                          change=process(user={"uid": 1000, "gid": 1001, "additionalGids": [5, 77], "umask": 0o027}))
        self.assertEqual(out, "1000\n1001\n1001 5 77\n0027\n")

    def test_default_umask(self):
        self.assertEqual(self.output("sh", "-c", "umask"), "0022\n")

    def test_no_groups_of_the_caller(self):
        self.assertEqual(self.status()["Groups"].strip(), "")

    @differs("vm", "groups of the host give no right in a guest: refused")
    def test_groups_of_the_caller_that_are_kept(self):
        """run.oci.keep_original_groups, as podman's --group-add keep-groups sets it."""
        key = "run.oci.keep_original_groups"
        self.bundle("sleep", "1000", change=lambda c: c.update(annotations={key: "1"}))
        create = ["create", "--bundle", self.bundle_path]
        self.refused(*create, self.new_id(), says=[key, "operator's file"])
        self.settings["annotations"] = [key]
        self.write_settings()
        self.refused("--isolation", "sandbox", *create, self.new_id(), says=[key, "level plain"])
        name = self.new_id()

        def groups(pid):
            with open("/proc/%d/status" % pid) as f:
                return next(line for line in f if line.startswith("Groups:")).split()[1:]
        own = {"extra_groups": [701, 702]}
        self.create(name=name, **own)
        self.ok("start", name, **own)
        self.assertEqual(groups(self.pid(name)), ["701", "702"])
        self.assertEqual(self.ok("exec", name, "id", "-G", **own).stdout, b"0 701 702\n")
        self.ok("delete", "--force", name)

    def capabilities(self, **sets):
        return process(capabilities={kind: ["CAP_" + name for name in names] for kind, names in sets.items()})

    def test_capabilities(self):
        status = self.status(self.capabilities(bounding=["KILL", "CHOWN"], effective=["CHOWN"], permitted=["CHOWN", "KILL"]))
        both, one = "%016x" % (1 << 5 | 1), "%016x" % 1
        self.assertEqual(status["CapBnd"], both)
        self.assertEqual(status["CapPrm"], both)
        self.assertEqual(status["CapInh"], "0" * 16)
        self.assertEqual(status["CapAmb"], "0" * 16)
        self.assertIn(status["CapEff"], (both, one))  # execve gives root all that is permitted

    def test_no_capabilities(self):
        status = self.status(lambda c: c["process"].pop("capabilities"))
        for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb"):
            self.assertEqual(status["Cap" + kind], "0" * 16)

    def test_ambient_capabilities_of_a_user(self):
        def change(c):
            self.capabilities(**{kind: ["NET_RAW"] for kind in ("bounding", "effective", "permitted", "inheritable",
                                                                "ambient")})(c)
            c["process"]["user"] = {"uid": 1000, "gid": 1000}
        status = self.status(change)
        for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb"):
            self.assertEqual(status["Cap" + kind], "%016x" % (1 << 13))

    def test_user_without_ambient_has_none(self):
        def change(c):
            c["process"]["user"] = {"uid": 1000, "gid": 1000}
        status = self.status(change)
        self.assertEqual((status["CapEff"], status["CapPrm"], status["CapAmb"]), ("0" * 16,) * 3)

    def test_unknown_capability_is_a_warning(self):
        self.bundle("true", change=self.capabilities(bounding=["KILL", "NO_SUCH_THING"]))
        done = self.run_container()
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"CAP_NO_SUCH_THING", done.stderr)

    def test_no_new_privileges(self):
        self.assertEqual(self.status(process(noNewPrivileges=True))["NoNewPrivs"], "1")
        self.assertEqual(self.status(process(noNewPrivileges=False))["NoNewPrivs"], "0")

    def test_rlimits(self):
        out = self.output("sh", "-c", "ulimit -S -n; ulimit -H -n; ulimit -S -c",
                          change=process(rlimits=[{"type": "RLIMIT_NOFILE", "soft": 100, "hard": 200},
                                                  {"type": "RLIMIT_CORE", "soft": 0, "hard": 0}]))
        self.assertEqual(out, "100\n200\n0\n")

    def test_rlimit_refused(self):
        for limits, words in (([{"type": "RLIMIT_NOFILE", "soft": 1, "hard": 1}] * 2, "RLIMIT_NOFILE"),
                              ([{"type": "RLIMIT_NOFILE", "soft": 1, "hard": 1 << 40}], "RLIMIT_NOFILE"),
                              ([{"type": "RLIMIT_NOFILE", "soft": 9, "hard": 5}], "RLIMIT_NOFILE"),
                              ([{"type": "RLIMIT_WHAT", "soft": 1, "hard": 1}], "RLIMIT_WHAT")):
            self.bundle("true", change=process(rlimits=limits))
            self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=words)

    @differs("vm", "processes of a guest are not the caller's: its limits do not bind them")
    def test_rlimit_above_the_callers(self):
        """Without CAP_SYS_RESOURCE; what to do is said in the words of who has asked, an engine's user mostly."""
        self.bundle("true", change=process(rlimits=[{"type": "RLIMIT_NOFILE", "soft": 1024, "hard": 4096}]))

        def limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
        command = ["setpriv", "--bounding-set=-sys_resource", *self.command("run", "--bundle", self.bundle_path, self.new_id())]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, preexec_fn=limit)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"set RLIMIT_NOFILE to 4096: Operation not permitted; ", done.stderr)
        self.assertIn(b"hard limit of 512 takes CAP_SYS_RESOURCE", done.stderr)
        self.assertIn(b"--ulimit nofile=512", done.stderr)

    def test_environment(self):
        out = self.output("env", change=process(env=["PATH=/bin", "A=b c", "EMPTY="]))
        self.assertEqual(sorted(out.splitlines()), ["A=b c", "EMPTY=", "HOME=/root", "PATH=/bin"])

    def test_home(self):
        self.assertIn("HOME=/mine\n", self.output("env", change=process(env=["PATH=/bin", "HOME=/mine"])))
        self.assertIn("HOME=/\n", self.output("env", change=process(env=["PATH=/bin"], user={"uid": 77, "gid": 0})))

    def test_passwd_that_is_a_fifo(self):
        def change(c):
            os.unlink(os.path.join(self.rootfs, "etc/passwd"))
            os.mkfifo(os.path.join(self.rootfs, "etc/passwd"))
        self.assertIn("HOME=/\n", self.output("env", change=change))

    def test_cwd(self):
        self.assertEqual(self.output("pwd", change=process(cwd="/etc")), "/etc\n")
        self.assertEqual(self.output("pwd", change=process(cwd="/made/for/it")), "/made/for/it\n")

    def test_cwd_of_another_user(self):
        def change(c):
            os.makedirs(os.path.join(self.rootfs, "home"))
            os.chown(os.path.join(self.rootfs, "home"), 1000, 1000)
            os.chmod(os.path.join(self.rootfs, "home"), 0o700)
            c["process"].update(cwd="/home", user={"uid": 1000, "gid": 1000},
                                capabilities={})
        self.assertEqual(self.output("pwd", change=change), "/home\n")

    def test_exit_statuses(self):
        for script, status in (("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -SEGV $$", 139), ("kill -9 $$", 137)):
            self.bundle("sh", "-c", "sh -c '%s'; exit $?" % script)
            self.assertEqual(self.run_container().returncode, status, script)

    def test_program_not_found(self):
        for name, words in (("nosuch", "executable file not found in $PATH"), ("/bin/nosuch", "no such file or directory"),
                            ("/etc/passwd/x", "no such file or directory"), ("", "no such file or directory")):
            self.bundle(name)
            self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=words, status=127)

    def test_program_denied(self):
        for name in ("/etc/passwd", "/etc", "denied"):
            def change(c):
                path = os.path.join(self.rootfs, "bin/denied")
                with open(path, "w") as f:
                    f.write("#!/bin/sh\n")
                os.chmod(path, 0o644)
            self.bundle(name, change=change)
            self.refused("run", "--bundle", self.bundle_path, self.new_id(), says="permission denied", status=126)

    def test_program_of_no_format(self):
        def change(c):
            path = os.path.join(self.rootfs, "bin/junk")
            with open(path, "wb") as f:
                f.write(b"\x01\x02\x03\x04")
            os.chmod(path, 0o755)
        self.bundle("junk", change=change)
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says="exec format error", status=126)

    def test_script_without_interpreter(self):
        def change(c):
            path = os.path.join(self.rootfs, "bin/script")
            with open(path, "w") as f:
                f.write("#!/no/such/interpreter\n")
            os.chmod(path, 0o755)
        self.bundle("script", change=change)
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=["no such file", "#! line"], status=127)

    def test_path_search_goes_on(self):
        def change(c):
            os.makedirs(os.path.join(self.rootfs, "first/prog"))
            c["process"]["env"] = ["PATH=/first:/none:/bin"]
        self.assertEqual(self.output("echo", "found", change=change), "found\n")

    def test_signals_are_reset(self):
        previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            status = self.status()
        finally:
            signal.signal(signal.SIGHUP, previous)
        self.assertEqual((status["SigIgn"], status["SigBlk"]), ("0" * 16, "0" * 16))

    def test_descriptors(self):
        """Only the three streams, and what is asked for, reach the workload."""
        held = [os.open("/etc", os.O_RDONLY | os.O_DIRECTORY) for _ in range(5)]
        try:
            for fd in held:
                os.set_inheritable(fd, True)
            self.bundle("ls", "/proc/self/fd")
            done = self.run_container(close_fds=False)
            self.assertEqual(done.stdout.split(), [b"0", b"1", b"2", b"3"])  # 3: ls' own
            read, write = os.pipe()
            os.dup2(write, 3) if write != 3 else None
        finally:
            for fd in held:
                os.close(fd)

    @differs("vm", "descriptors cannot be passed into a machine: refused")
    def test_preserved_descriptors(self):
        self.bundle("sh", "-c", "cat <&4; ls /proc/self/fd")
        read, write = os.pipe()
        os.write(write, b"passed\n")
        os.close(write)

        def arrange():
            os.dup2(read, 10)
            os.dup2(10, 3)
            os.dup2(10, 4)
            os.set_inheritable(10, True)
        done = self.run_container("--preserve-fds", "2", preexec_fn=arrange, close_fds=False)
        os.close(read)
        self.assertEqual(done.stdout.split(), [b"passed", b"0", b"1", b"2", b"3", b"4", b"5"])

    def test_streams_belong_to_the_user(self):
        read, write = os.pipe()
        self.bundle("sh", "-c", "echo anew > /dev/stdout", change=process(user={"uid": 1000, "gid": 1000}))
        done = self.run_container(stdout=write)
        os.close(write)
        with os.fdopen(read, "rb") as f:
            self.assertEqual((f.read(), done.returncode), (b"anew\n", 0))

    def test_oom_score(self):
        self.assertEqual(self.output("cat", "/proc/self/oom_score_adj", change=process(oomScoreAdj=321)), "321\n")

    def test_scheduler_and_io_priority(self):
        out = self.output("cat", "/proc/self/stat", change=process(scheduler={"policy": "SCHED_BATCH", "nice": 5},
                                                                   ioPriority={"class": "IOPRIO_CLASS_IDLE"}))
        fields = out[out.rindex(")") + 2:].split()
        self.assertEqual((fields[16], fields[38]), ("5", "3"))  # nice, policy: SCHED_BATCH

    @differs("vm", "a guest has no memory nodes: see test_vm_memory")
    def test_memory_policy(self):
        def policy(**values):
            return lambda c: c["linux"].__setitem__("memoryPolicy", values)
        if not os.path.isdir("/sys/devices/system/node/node0"):
            self.skipTest("a kernel without NUMA")
        for values, seen in (({"mode": "MPOL_BIND", "nodes": "0"}, "bind:0"),
                             ({"mode": "MPOL_INTERLEAVE", "nodes": "0-0", "flags": ["MPOL_F_STATIC_NODES"]},
                              "interleave=static:0"),
                             ({"mode": "MPOL_LOCAL"}, "local"), ({"mode": "MPOL_DEFAULT"}, "default")):
            self.assertIn(" %s " % seen, self.output("cat", "/proc/self/numa_maps", change=policy(**values)))
        for values, words in (({"mode": "MPOL_BIND", "nodes": "0-"}, ("nodes", "0-")), ({"mode": "MPOL_BIND"}, "MPOL_BIND"),
                              ({"mode": "MPOL_DEFAULT", "nodes": "0"}, "MPOL_DEFAULT")):
            self.bundle("true", change=policy(**values))
            self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=words)

    @differs("vm", "a guest has no memory nodes: see test_vm_memory")
    def test_memory_policy_holds_for_exec(self):
        if not os.path.isdir("/sys/devices/system/node/node0"):
            self.skipTest("a kernel without NUMA")
        self.bundle("sleep", "1000", change=lambda c: c["linux"].__setitem__(
            "memoryPolicy", {"mode": "MPOL_BIND", "nodes": "0"}))
        name = self.create()
        self.ok("start", name)
        self.assertIn(b" bind:0 ", self.ok("exec", name, "cat", "/proc/self/numa_maps").stdout)
        self.ok("delete", "--force", name)

    @differs("vm", "descriptors cannot be passed into a machine: refused")
    def test_socket_activation(self):
        opened = os.open("/dev/null", os.O_RDONLY)
        given = fcntl.fcntl(opened, fcntl.F_DUPFD, 50)
        os.close(opened)
        self.addCleanup(os.close, given)

        def run(pid):
            # The shell becomes moat, so that LISTEN_PID is moat's own.
            script = "exec 3<&%d %d<&-; export LISTEN_FDS=1 LISTEN_FDNAMES=web LISTEN_PID=%s; exec \"$@\"" % (
                given, given, pid)
            command = self.command("run", "--bundle", self.bundle_path, self.new_id())
            done = subprocess.run(["bash", "-c", script, "sh", *command], pass_fds=[given], stdin=subprocess.DEVNULL,
                                  capture_output=True, timeout=60 * host.TIME_SCALE)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            return done.stdout.decode().split()
        self.bundle("sh", "-c", "echo $LISTEN_PID $LISTEN_FDS $LISTEN_FDNAMES; ls /proc/$$/fd; true")
        self.assertEqual(run("$$"), ["1", "1", "web", "0", "1", "2", "3"])
        self.assertEqual(run("1"), ["0", "1", "2"])

    def test_personality(self):
        self.assertEqual(self.output("uname", "-m", change=lambda c: c["linux"].__setitem__(
            "personality", {"domain": "LINUX32"})), "i686\n")

    @differs("vm", "no keyring of the host's is within a guest's reach, so --no-new-keyring has nothing to keep")
    def test_keyring_is_not_the_callers(self):
        def rings(*flags):
            name = self.new_id()
            done = self.run_container(*flags, name=name)
            return done.stdout.count(b"_ses." + name.encode())
        self.bundle("cat", "/proc/keys", change=lambda c: c["linux"].__setitem__("maskedPaths", []))
        self.assertEqual((rings(), rings("--no-new-keyring")), (1, 0))

    @differs("vm", "security modules are the host kernel's, which does not run the workload: left out, see moat(1)")
    def test_unsupported_is_refused(self):
        for section, key, value, *words in (("process", "selinuxLabel", "a:b:c:d"),
                                    ("process", "apparmorProfile", "no-such-profile", "AppArmor")):
            self.bundle("true", change=lambda c: c[section].__setitem__(key, value))
            self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=words or key)
