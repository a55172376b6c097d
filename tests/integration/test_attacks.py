# SPDX-License-Identifier: GPL-2.0-or-later
"""
Attacks on runtimes in namespaces: images and workloads that try to reach the host. Each must fail here, and succeed against a
careless copy of the mechanism, made by hand in Mechanisms: see ATTACKS. What checklists of breakouts try from inside is in
test_sandbox_escapes.
"""
import ctypes
import errno
import importlib
import os
import shutil
import stat
import subprocess
import time

from harness import MOAT, Case, at_levels, differs


# The attack: the tests that it fails in, and the test in which its mechanism works.
LINKED_TOP = (["Attacks.test_symlinked_tops", "Attacks.test_proc_is_a_link_to_a_volume", "Attacks.test_proc_behind_a_link"],
              "test_proc_at_a_link")
LINKED_DESTINATION = (["Attacks.test_destination_leads_out", "test_sandbox_escapes.Races.test_destination_swapped_for_a_link"],
                      "test_destination_by_path")
LINKED_DEV = (["Attacks.test_symlinked_tops", "Attacks.test_devices_behind_a_link"], "test_devices_by_path")
FALSE_PROC = (["Attacks.test_volume_over_proc"], "test_writing_through_the_images_proc")
ATTACKS = {
    "CVE-2019-5736": (["Attacks.test_overwrite_the_runtime", "Attacks.test_program_file_is_not_writable"],
                      "test_program_that_anybody_can_write_to"),
    "CVE-2019-16884": FALSE_PROC,
    "CVE-2019-19921": LINKED_TOP,
    "CVE-2021-30465": LINKED_DESTINATION,
    "CVE-2022-29162": (["Attacks.test_inheritable_is_empty"], "test_inherited_capabilities"),
    "CVE-2023-27561": LINKED_TOP,
    "CVE-2023-28642": LINKED_TOP,
    "CVE-2024-21626": (["Attacks.test_cwd_in_the_host", "Attacks.test_cwd_link_to_a_descriptor",
                        "Attacks.test_waiting_init_shows_nothing", "test_exec.Exec.test_no_descriptor_of_the_host"],
                       "test_working_directory_by_a_descriptor"),
    "CVE-2024-45310": LINKED_DESTINATION,
    "CVE-2025-24965": (["Attacks.test_nothing_is_written_into_the_image"], "test_file_by_path"),
    "CVE-2025-31133": (["Attacks.test_mask_does_not_trust_the_images_null", "Attacks.test_masked_link"],
                       "test_mask_with_the_images_null"),
    "CVE-2025-52565": (["Attacks.test_single_device_is_a_link", "test_exec.Terminal.test_console_that_is_a_link",
                        "test_exec.Terminal.test_without_devpts"], "test_console_over_a_link"),
    "CVE-2025-52881": FALSE_PROC,
    "CVE-2026-30892": (["test_exec.Exec.test_user_refused", "test_exec.Exec.test_user_names"], "test_user_read_loosely"),
    "CVE-2026-41579": LINKED_DEV,
    "CVE-2026-47766": LINKED_DEV,
}


def watch_for_the_host(case, bundle):
    """A container that looks for a file of the host in whatever it sees, and says where it is. Returns its name and process."""
    marker = os.path.join(case.work, "marker")
    with open(marker, "w"):
        pass
    os.chmod(case.work, 0o755)
    script = "echo ready; while :; do for p in /proc/[2-9]* /proc/1?*; do for w in root cwd fd/3/1/root fd/4/1/root fd/5/1/root; do " \
             "[ -e $p/$w%s ] && echo $p/$w; done; done; done" % marker
    bundle("sh", "-c", script, change=lambda c: [
        c["process"]["capabilities"][kind].append("CAP_SYS_PTRACE") for kind in ("bounding", "effective", "permitted")])
    name = case.new_id()
    process = case.start_moat("run", "--bundle", case.bundle_path, name, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    case.assertEqual(process.stdout.readline(), b"ready\n")
    return name, process


def nothing_was_seen(case, name, process):
    case.ok("kill", name, "KILL")
    case.assertEqual(process.communicate(timeout=30)[0], b"")


def exec_shows_nothing_of_the_host(case, bundle):
    """On its way a process of exec is seen in the container, and with CAP_SYS_PTRACE all that it has is there to be taken."""
    name, process = watch_for_the_host(case, bundle)
    for _ in range(20):
        case.ok("exec", name, "true")
    nothing_was_seen(case, name, process)


@at_levels("plain", "sandbox")
class Attacks(Case):
    def test_symlinked_tops(self):
        """
        CVE-2019-19921, CVE-2023-27561, CVE-2023-28642, CVE-2026-41579, CVE-2026-47766: the image has a link where kernel files
        belong.
        """
        for name in ("proc", "sys", "dev"):
            def change(c):
                os.rmdir(os.path.join(self.rootfs, name))
                os.makedirs(os.path.join(self.rootfs, "fake"))
                os.symlink("/fake", os.path.join(self.rootfs, name))
            self.bundle("true", change=change)
            self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=["/" + name, "symbolic link"])
            self.assertEqual(os.listdir(os.path.join(self.rootfs, "fake")), [])

    def test_proc_is_a_link_to_a_volume(self):
        """CVE-2023-28642: where the link leads, a volume of the image's is mounted, before or after."""
        volume = os.path.join(self.work, "volume")
        os.makedirs(volume)
        for at in (0, 99):
            def change(c):
                os.rmdir(os.path.join(self.rootfs, "proc"))
                os.makedirs(os.path.join(self.rootfs, "fake"))
                os.symlink("fake", os.path.join(self.rootfs, "proc"))
                c["mounts"].insert(at, {"destination": "/fake", "type": "bind", "source": volume, "options": ["bind"]})
            self.bundle("true", change=change)
            self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=["/proc", "symbolic link"])
            self.assertEqual(os.listdir(volume), [])

    def test_devices_behind_a_link(self):
        """CVE-2026-41579, CVE-2026-47766: /dev is not mounted, and a link out of the image; devices are made in it."""
        outside = os.path.join(self.work, "outside")
        os.makedirs(outside)
        for target in (outside, "../../../../../../../.." + outside, "/nowhere"):
            def change(c):
                os.rmdir(os.path.join(self.rootfs, "dev"))
                os.symlink(target, os.path.join(self.rootfs, "dev"))
                c["mounts"] = [m for m in c["mounts"] if not m["destination"].startswith("/dev")]
                c["process"]["terminal"] = False
            self.bundle("true", change=change)
            self.run_container()
            self.assertEqual(os.listdir(outside), [])
            self.assertFalse(os.path.exists("/nowhere"))

    def test_single_device_is_a_link(self):
        """One of the devices, of the links beside them, or of the console is a link in the image."""
        outside = os.path.join(self.work, "outside")
        with open(outside, "w") as f:
            f.write("host\n")
        os.chmod(outside, 0o600)
        for name in ("null", "zero", "tty", "console", "ptmx", "fd", "stdin", "core", "pts", "shm"):
            def change(c):
                os.symlink(outside, os.path.join(self.rootfs, "dev", name))
                c["mounts"] = [m for m in c["mounts"] if not m["destination"].startswith("/dev")]
            self.bundle("sh", "-c", "echo x > /dev/%s" % name, change=change)
            self.run_container()
            with open(outside) as f:
                self.assertEqual(f.read(), "host\n", name)
            self.assertEqual(os.stat(outside).st_mode & 0o7777, 0o600, name)
            self.assertEqual(os.stat(outside).st_uid, 0, name)

    def test_proc_behind_a_link(self):
        def change(c):
            os.makedirs(os.path.join(self.rootfs, "real/proc"))
            os.symlink("real", os.path.join(self.rootfs, "way"))
            c["mounts"].append({"destination": "/way/proc", "type": "proc", "source": "proc"})
        self.bundle("true", change=change)
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=["/way/proc", "symbolic link"])

    def test_destination_leads_out(self):
        """CVE-2021-30465, CVE-2024-45310: what is made on the way is made in the image."""
        outside = os.path.join(self.work, "outside")
        os.makedirs(outside)
        for target in (outside, "../../../../../../../.." + outside):
            def change(c):
                os.symlink(target, os.path.join(self.rootfs, "way"))
                c["mounts"].append({"destination": "/way/made/here", "type": "tmpfs", "source": "tmpfs"})
            self.bundle("true", change=change)
            self.run_container()
            self.assertEqual(os.listdir(outside), [])

    def test_mask_does_not_trust_the_images_null(self):
        """CVE-2025-31133: masking with the container's /dev/null, which the image made a link."""
        def change(c):
            c["mounts"] = [m for m in c["mounts"] if not m["destination"].startswith("/dev")]
            os.symlink("/proc/sysrq-trigger", os.path.join(self.rootfs, "dev/null"))
            c["linux"]["maskedPaths"].append("/etc/passwd")
        out = self.output("sh", "-c", "wc -c < /etc/passwd; stat -c %t:%T /etc/passwd", change=change)
        self.assertEqual(out, "0\n1:3\n")

    def test_masked_link(self):
        """A masked path that is a link is resolved in the image."""
        outside = os.path.join(self.work, "outside")
        with open(outside, "w") as f:
            f.write("host\n")
        self.output("true", change=lambda c: (os.symlink(outside, os.path.join(self.rootfs, "lure")),
                                              c["linux"]["maskedPaths"].append("/lure")))
        with open(outside) as f:
            self.assertEqual(f.read(), "host\n")

    def test_cwd_in_the_host(self):
        """CVE-2024-21626: a working directory through a descriptor of the runtime."""
        for number in range(3, 20):
            self.bundle("pwd", change=lambda c: c["process"].__setitem__("cwd", "/proc/self/fd/%d" % number))
            done = self.run_container()
            self.assertNotEqual(done.returncode, 0, done.stdout)

    def test_cwd_link_to_a_descriptor(self):
        for number in range(3, 20):
            def change(c):
                os.symlink("/proc/self/fd/%d" % number, os.path.join(self.rootfs, "cwd"))
                c["process"]["cwd"] = "/cwd"
            self.bundle("pwd", change=change)
            self.assertNotEqual(self.run_container().returncode, 0)

    def test_waiting_init_shows_nothing(self):
        """What shares the pid namespace cannot look into init, nor does init hold anything of the host."""
        self.bundle("true")
        name = self.create()
        pid = self.pid(name)
        done = subprocess.run(["setpriv", "--reuid", "0", "--bounding-set=-all", "--inh-caps=-all", "sh", "-c",
                               "readlink /proc/%d/fd/0 /proc/%d/cwd /proc/%d/root /proc/%d/exe" % ((pid,) * 4)],
                              capture_output=True)
        self.assertEqual(done.stdout, b"")
        held = [os.readlink("/proc/%d/fd/%s" % (pid, fd)) for fd in os.listdir("/proc/%d/fd" % pid) if int(fd) > 2]
        self.assertEqual([path for path in held if not path.startswith("socket:")], [])
        self.ok("delete", "--force", name)

    def test_overwrite_the_runtime(self):
        """CVE-2019-5736: the program of the runtime, reached through /proc/self/exe."""
        self.settings["sandbox"] = {"capabilities": ["CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "CAP_SYS_ADMIN"]}
        self.write_settings()
        copy = os.path.join(self.work, "moat")
        shutil.copy(MOAT, copy)
        with open(copy, "rb") as f:
            before = f.read()
        # The container executes the runtime's own file and opens it for writing as soon as it can.
        script = "(for i in $(seq 300); do for p in /proc/[0-9]*; do (echo x >> $p/exe) 2>/dev/null; done; done) & exec %s"
        self.bundle("sh", "-c", script % "/proc/1/exe", change=lambda c: [
            c["process"]["capabilities"][kind].extend(["CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH", "CAP_SYS_ADMIN"])
            for kind in c["process"]["capabilities"]])
        name = self.new_id()
        command = self.command("run", "--bundle", self.bundle_path, name)
        subprocess.run([copy] + command[1:], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        self.bundle("/proc/self/exe", "--version")
        name = self.new_id()
        command = self.command("run", "--bundle", self.bundle_path, name)
        subprocess.run([copy] + command[1:], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        with open(copy, "rb") as f:
            self.assertEqual(f.read(), before)

    def test_program_file_is_not_writable(self):
        """The same, looked at directly: what a container gets hold of cannot be written to once the process has ended."""
        self.bundle("true")
        name = self.create()
        held = os.open("/proc/%d/exe" % self.pid(name), os.O_PATH)
        self.ok("delete", "--force", name)
        try:
            with self.assertRaises(OSError) as caught:
                os.close(os.open("/proc/self/fd/%d" % held, os.O_WRONLY))
        finally:
            os.close(held)
        self.assertIn(caught.exception.errno, (errno.EROFS, errno.EPERM))  # EPERM: a sealed file

    def fake_proc(self, c):
        """A volume over /proc with the files that a runtime writes to."""
        fake = os.path.join(self.work, "fake")
        shutil.rmtree(fake, ignore_errors=True)
        for name in ("sys/net/ipv4/ip_unprivileged_port_start", "self/attr/exec", "self/oom_score_adj", "self/setgroups"):
            os.makedirs(os.path.dirname(os.path.join(fake, name)), exist_ok=True)
            with open(os.path.join(fake, name), "w") as f:
                f.write("fake")
        c["mounts"] = [m for m in c["mounts"] if m["type"] != "proc"]
        c["mounts"].append({"destination": "/proc", "type": "bind", "source": fake, "options": ["bind"]})
        c["linux"]["readonlyPaths"] = c["linux"]["maskedPaths"] = []
        c["linux"]["sysctl"] = {"net.ipv4.ip_unprivileged_port_start": "77"}
        c["process"]["oomScoreAdj"] = 500

    def test_volume_over_proc(self):
        """CVE-2019-16884, CVE-2025-52881: what the runtime writes for the process does not go where the image wants it."""
        self.bundle("sleep", "1000", change=self.fake_proc)
        name = self.create()
        self.ok("start", name)
        pid = self.pid(name)
        for directory, _, files in os.walk(os.path.join(self.work, "fake")):
            for file in files:
                with open(os.path.join(directory, file)) as f:
                    self.assertEqual(f.read(), "fake", file)
        done = subprocess.run(["nsenter", "-t", str(pid), "--net", "cat", "/proc/sys/net/ipv4/ip_unprivileged_port_start"],
                              capture_output=True)
        self.assertEqual(done.stdout, b"77\n")
        with open("/proc/%d/oom_score_adj" % pid) as f:
            self.assertEqual(f.read(), "500\n")
        self.ok("delete", "--force", name)

    def test_nothing_is_written_into_the_image(self):
        """CVE-2025-24965: no file of the runtime's own, by a path that the image may have made a link, or otherwise."""
        self.bundle("true")

        def files():
            return sorted((directory, name) for directory, _, names in os.walk(self.rootfs) for name in names)
        before = files()
        self.assertEqual(self.run_container().returncode, 0)
        self.assertEqual([f for f in files() if f not in before and not f[0].endswith("/dev")], [])

    def test_inheritable_is_empty(self):
        """CVE-2022-29162."""
        out = self.output("grep", "-E", "CapInh|CapAmb", "/proc/self/status")
        self.assertEqual(out, "CapInh:\t" + "0" * 16 + "\nCapAmb:\t" + "0" * 16 + "\n")
        self.bundle("sleep", "1000")
        name = self.create()
        self.ok("start", name)
        for flags in ([], ["--cap", "CAP_KILL"]):
            # moat's caller has some, as a service of systemd's may.
            command = ["setpriv", "--inh-caps=+kill,+chown", *self.command("exec", *flags, name, "grep", "-E", "CapInh|CapAmb",
                                                                          "/proc/self/status")]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
            self.assertEqual(done.stdout.decode(), out, done.stderr)
        self.ok("delete", "--force", name)

    def test_exec_shows_nothing_of_the_host(self):
        self.settings["sandbox"] = {"capabilities": ["CAP_SYS_PTRACE"]}
        self.write_settings()
        exec_shows_nothing_of_the_host(self, self.bundle)

    @differs("sandbox", "each container has a user namespace of its own")
    def test_neighbour_shows_nothing_of_the_host(self):
        """The same of a container that joins another's user and pid namespaces, as those of a pod do."""
        def own_ids(c):
            c["linux"]["namespaces"].append({"type": "user"})
            for kind in ("uidMappings", "gidMappings"):
                c["linux"][kind] = [{"containerID": 0, "hostID": 100000, "size": 65536}]

        def bundle(*args, change):
            self.bundle(*args, change=lambda c: (own_ids(c), change(c)))
            subprocess.run(["chown", "-hR", "100000:100000", self.rootfs], check=True)
        name, process = watch_for_the_host(self, bundle)
        pid = self.pid(name)
        for kind in ("uidMappings", "gidMappings"):
            del self.config["linux"][kind]
        for namespace in self.config["linux"]["namespaces"]:
            if namespace["type"] in ("pid", "user"):
                namespace["path"] = "/proc/%d/ns/%s" % (pid, namespace["type"])
        self.config["process"]["args"] = ["true"]
        self.write_config()
        for _ in range(10):
            self.assertEqual(self.run_container().returncode, 0)
        nothing_was_seen(self, name, process)

    def test_no_host_root(self):
        """Neither the parent of the root nor the old root can be reached."""
        marker = "marker-" + self.new_id()
        with open(os.path.join(self.work, marker), "w"):
            pass
        self.assertNotIn(marker, self.output("sh", "-c", "cd /; cd ../../../..; ls; ls /proc/1/root/ /proc/1/cwd/"))


@at_levels("plain")
class Mechanisms(Case):
    """The same attacks on what careless runtimes do, done here by hand: they succeed, so that the tests above mean something."""

    def setUp(self):
        super().setUp()
        self.bundle("true")
        self.outside = os.path.join(self.work, "outside")
        os.makedirs(self.outside)

    def test_each_attack_is_there(self):
        """The table names tests that there are."""
        for attack, (tests, mechanism) in ATTACKS.items():
            self.assertTrue(hasattr(type(self), mechanism), attack)
            for name in tests:
                module, cls, method = (["test_attacks"] + name.split("."))[-3:]
                self.assertTrue(hasattr(getattr(importlib.import_module(module), cls + "Plain"), method), name)

    def test_user_read_loosely(self):
        """As C's programs that do not look where the number ends."""
        libc = ctypes.CDLL(None)
        self.assertEqual([libc.atoi(text) for text in (b"nobody-here", b"", b" 0", b"1000x")], [0, 0, 0, 1000])

    def test_destination_by_path(self):
        os.symlink(self.outside, os.path.join(self.rootfs, "way"))
        os.makedirs(os.path.join(self.rootfs, "way/made/here"))
        self.assertEqual(os.listdir(self.outside), ["made"])

    def test_proc_at_a_link(self):
        os.rmdir(os.path.join(self.rootfs, "proc"))
        os.makedirs(os.path.join(self.rootfs, "fake"))
        os.symlink("fake", os.path.join(self.rootfs, "proc"))
        subprocess.run(["mount", "-t", "proc", "proc", os.path.join(self.rootfs, "proc")], check=True)
        try:
            self.assertTrue(os.path.exists(os.path.join(self.rootfs, "fake/self/status")))
        finally:
            subprocess.run(["umount", os.path.join(self.rootfs, "fake")], check=True)

    def test_devices_by_path(self):
        os.rmdir(os.path.join(self.rootfs, "dev"))
        os.symlink(self.outside, os.path.join(self.rootfs, "dev"))
        os.mknod(os.path.join(self.rootfs, "dev/null"), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        self.assertEqual(os.listdir(self.outside), ["null"])

    def test_console_over_a_link(self):
        secret = os.path.join(self.outside, "secret")
        with open(secret, "w") as f:
            f.write("host\n")
        os.symlink(secret, os.path.join(self.rootfs, "dev/console"))
        subprocess.run(["mount", "--bind", "/dev/null", os.path.join(self.rootfs, "dev/console")], check=True)
        try:
            with open(secret) as f:
                self.assertEqual(f.read(), "")  # the host's file is covered
        finally:
            subprocess.run(["umount", secret], check=True)

    def test_file_by_path(self):
        os.symlink(os.path.join(self.outside, "made"), os.path.join(self.rootfs, "config"))
        with open(os.path.join(self.rootfs, "config"), "w"):
            pass
        self.assertEqual(os.listdir(self.outside), ["made"])

    def test_inherited_capabilities(self):
        done = subprocess.run(["setpriv", "--inh-caps=+kill", "grep", "CapInh", "/proc/self/status"], capture_output=True)
        self.assertEqual(int(done.stdout.split()[1], 16) >> 5 & 1, 1)

    def test_mask_with_the_images_null(self):
        secret = os.path.join(self.outside, "secret")
        with open(secret, "w") as f:
            f.write("host\n")
        os.symlink(secret, os.path.join(self.rootfs, "dev/null"))
        masked = os.path.join(self.rootfs, "etc/passwd")
        subprocess.run(["mount", "--bind", os.path.join(self.rootfs, "dev/null"), masked], check=True)
        try:
            with open(masked) as f:
                self.assertEqual(f.read(), "host\n")
        finally:
            subprocess.run(["umount", masked], check=True)

    def test_working_directory_by_a_descriptor(self):
        with open(os.path.join(self.outside, "secret"), "w") as f:
            f.write("host\n")
        held = os.open(self.outside, os.O_RDONLY)
        try:
            subprocess.run(["mount", "-t", "proc", "proc", os.path.join(self.rootfs, "proc")], check=True)
            done = subprocess.run(["chroot", self.rootfs, "sh", "-c", "cd /proc/self/fd/%d && cat secret" % held],
                                  pass_fds=[held], capture_output=True)
            self.assertEqual(done.stdout, b"host\n")
        finally:
            subprocess.run(["umount", os.path.join(self.rootfs, "proc")], check=True)
            os.close(held)

    def test_program_that_anybody_can_write_to(self):
        copy = os.path.join(self.work, "runtime")
        shutil.copy("/bin/sleep", copy)
        process = subprocess.Popen([copy, "1000"])
        # It is there before it is the other program: the parent goes on as soon as its memory is its own again.
        self.wait_until(lambda: os.readlink("/proc/%d/exe" % process.pid) == copy, "the program runs")
        held = os.open("/proc/%d/exe" % process.pid, os.O_PATH)
        process.kill()
        process.wait()
        with open("/proc/self/fd/%d" % held, "wb") as f:
            f.write(b"#!/bin/evil")
        os.close(held)
        with open(copy, "rb") as f:
            self.assertEqual(f.read(), b"#!/bin/evil")

    def test_writing_through_the_images_proc(self):
        os.makedirs(os.path.join(self.rootfs, "proc/self"))
        subprocess.run(["chroot", self.rootfs, "sh", "-c", "echo 500 > /proc/self/oom_score_adj"], check=True)
        with open(os.path.join(self.rootfs, "proc/self/oom_score_adj")) as f:
            self.assertEqual(f.read(), "500\n")


@at_levels("plain", "sandbox")
class Failures(Case):
    """Whatever goes wrong, nothing stays behind (the harness looks)."""

    def test_killed_at_any_moment(self):
        self.bundle("sleep", "1000")
        for step in range(25):
            name = self.new_id()
            process = self.start_moat("create", "--bundle", self.bundle_path, name, stdout=subprocess.DEVNULL,
                                      stderr=subprocess.DEVNULL)
            time.sleep(step * 0.0004)
            process.kill()
            process.wait()
            if os.path.isdir(os.path.join(self.root, name)):
                self.ok("delete", "--force", name)

    def test_limit_of_one_process(self):
        self.bundle("true", change=lambda c: c["linux"].update(resources={"pids": {"limit": 1}},
                                                               cgroupsPath="/" + self.new_id()))
        done = self.run_container()
        self.assertEqual((done.returncode, done.stderr), (0, b""))
