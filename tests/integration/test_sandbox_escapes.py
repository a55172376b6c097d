# SPDX-License-Identifier: GPL-2.0-or-later
"""
What public checklists of container breakouts try, tried from inside by probe.c: at level sandbox nothing is reached. The same
program is run in a plain container that was given everything, where it must reach nearly all: a probe that cannot succeed
would prove nothing.
"""
import ctypes
import os
import shutil
import socket
import subprocess
import threading
import time

import harness
from harness import Case, at_levels

ALL_CAPABILITIES = ["CAP_" + name for name in """CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP
LINUX_IMMUTABLE NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE
SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE SETFCAP SYSLOG""".split()]

# What a container without a wall reaches on every kernel that tests run on.
REACHED_WITHOUT_A_WALL = {
    "setns-leaked", "leaked-descriptor", "core-pattern", "drop-caches", "block-device", "memory-device",
    "kernel-log-device", "open-by-handle", "abstract-socket", "raw-socket", "packet-socket", "user-namespace",
    "user-namespace-clone", "user-namespace-clone3", "network-namespace", "mount", "writable-proc-sys", "unmount-mask",
    "trace-another-user", "perf-event", "kernel-log", "keyring", "add-key", "quotactl", "acct", "swapon", "reboot", "settime",
    "fsopen", "open-tree", "pivot-root", "read-others-memory", "tiocsti", "tiocsti-high-bits", "cgroup-release-agent"}


def compiler():
    return shutil.which("cc") or shutil.which("gcc")


class Probing(Case):
    """Not a test by itself: at_levels makes those."""

    def probe(self, *flags, change=None, leak=False):
        """Runs the program in a container, beside a listening socket of the host; returns {attack: reached}."""
        name = "moat-probe-" + self.new_id()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind("\0" + name)
        listener.listen()
        self.addCleanup(listener.close)
        self.bundle("/probe", name, change=change)
        subprocess.run([compiler(), "-static", "-O1", "-D_GNU_SOURCE", "-o", os.path.join(self.rootfs, "probe"),
                        os.path.join(harness.TOP, "tests/integration/probe.c")], check=True)
        options = {}
        if leak:  # a namespace of the host's, as a careless engine would leave it open
            held = os.open("/proc/self/ns/uts", os.O_RDONLY)
            self.addCleanup(os.close, held)
            options = {"pass_fds": [3], "preexec_fn": lambda: os.dup2(held, 3)}
            flags = ("--preserve-fds", "1") + flags
        done = self.run_container(*flags, timeout=60, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.decode().splitlines()
        self.assertGreater(len(lines), 45)
        return {line.split()[0]: line.split()[1] == "reached" for line in lines}


@at_levels("sandbox")
class Probe(Probing):
    def test_nothing_is_reached(self):
        result = self.probe()
        self.assertEqual([name for name, reached in result.items() if reached], [])

    def test_as_another_user(self):
        result = self.probe(change=lambda c: c["process"].__setitem__("user", {"uid": 1000, "gid": 1000}))
        self.assertEqual([name for name, reached in result.items() if reached], [])

    def test_with_a_leaked_namespace(self):
        """A descriptor of the host that an engine left open leads nowhere."""
        result = self.probe(leak=True)
        self.assertEqual([name for name, reached in result.items() if reached], ["leaked-descriptor"])

    def test_careless_bundle(self):
        """No masks, no read-only paths, a filter that allows everything: the level's own wall stands."""
        def change(c):
            c["linux"]["maskedPaths"] = c["linux"]["readonlyPaths"] = []
            c["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW"}
            c["process"]["noNewPrivileges"] = False
            for mount in c["mounts"]:
                if mount["type"] == "sysfs":
                    mount["options"] = ["rw"]
        result = self.probe(change=change)
        self.assertEqual([name for name, reached in result.items() if reached], [])

    def test_exec(self):
        """A process that joins later is behind the same wall."""
        name = self.new_id()
        self.bundle("sleep", "1000")
        subprocess.run([compiler(), "-static", "-O1", "-D_GNU_SOURCE", "-o", os.path.join(self.rootfs, "probe"),
                        os.path.join(harness.TOP, "tests/integration/probe.c")], check=True)
        self.create(name=name)
        self.ok("start", name)
        done = self.ok("exec", name, "/probe", timeout=60)
        self.assertNotIn(b"reached", done.stdout)
        self.assertGreater(len(done.stdout.splitlines()), 45)
        self.ok("delete", "--force", name)

    def test_hosts_network(self):
        """Where the operator allows the host's network, Landlock keeps its abstract sockets away."""
        self.settings["sandbox"] = {"allow": ["hostNetwork"]}
        self.write_settings()

        def change(c):
            c["linux"]["namespaces"] = [n for n in c["linux"]["namespaces"] if n["type"] != "network"]
        result = self.probe(change=change)
        reached = [name for name, reached in result.items() if reached]
        if not self.scopes_sockets():
            self.skipTest("this kernel's Landlock knows no scopes (since Linux 6.12)")
        self.assertEqual(reached, [])
        name = self.new_id()
        self.config["process"]["args"] = ["sleep", "1000"]
        self.write_config()
        self.create(name=name)
        self.ok("start", name)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("\0" + name)
            listener.listen()
            done = self.ok("exec", name, "/probe", name, timeout=60)
        self.assertIn(b"abstract-socket refused", done.stdout)
        self.assertNotIn(b"reached", done.stdout)
        self.ok("delete", "--force", name)

    def scopes_sockets(self):
        libc = ctypes.CDLL(None, use_errno=True)
        return libc.syscall(444, None, ctypes.c_size_t(0), 1) >= 6


@at_levels("plain")
class Unwalled(Probing):
    def test_probe_can_succeed(self):
        def change(c):
            for kind in ("bounding", "permitted", "effective"):
                c["process"]["capabilities"][kind] = ALL_CAPABILITIES
            c["process"]["noNewPrivileges"] = False
            c["linux"]["maskedPaths"] = ["/proc/kcore"]
            c["linux"]["readonlyPaths"] = []
            c["linux"]["namespaces"] = [{"type": "mount"}, {"type": "pid"}]
            c.pop("hostname")
            for mount in c["mounts"]:
                if mount["type"] == "sysfs":
                    mount["options"] = ["rw"]
        result = self.probe(change=change, leak=True)
        self.assertEqual(sorted(REACHED_WITHOUT_A_WALL - {name for name, reached in result.items() if reached}), [])


@at_levels("plain", "sandbox")
class Races(Case):
    def test_destination_swapped_for_a_link(self):
        """CVE-2021-30465, CVE-2024-45310: somebody exchanges a directory on the way for a link to the host, all the time."""
        outside = os.path.join(self.work, "outside")
        os.makedirs(os.path.join(outside, "b"))
        libc = ctypes.CDLL(None, use_errno=True)

        def change(c):
            os.makedirs(os.path.join(self.rootfs, "a"))
            os.symlink(outside, os.path.join(self.rootfs, "lure"))
            source = os.path.join(self.work, "source")
            os.makedirs(source, exist_ok=True)
            c["mounts"] += [{"destination": "/a/b/tmp", "type": "tmpfs", "source": "tmpfs"},
                            {"destination": "/a/b/bind", "type": "bind", "source": source, "options": ["bind"]},
                            {"destination": "/a/b/proc", "type": "proc", "source": "proc"},
                            {"destination": "/a/b/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"]},
                            {"destination": "/a/b/queue", "type": "mqueue", "source": "mqueue"},
                            {"destination": "/a/b/pts", "type": "devpts", "source": "devpts", "options": ["newinstance"]},
                            {"destination": "/a/b/file", "type": "bind", "source": self.settings_path, "options": ["bind"]}]
            c["linux"]["maskedPaths"] = ["/a/b/masked"]
            c["linux"]["readonlyPaths"] = ["/a/b/readonly"]
            c["process"]["cwd"] = "/a/b/cwd"
        self.bundle("true", change=change)
        for name in ("masked", "readonly"):
            os.makedirs(os.path.join(outside, "b", name))
        before = sorted(os.listdir(os.path.join(outside, "b")))
        stop, slowly = threading.Event(), threading.Event()
        way, lure = (os.path.join(self.rootfs, name).encode() for name in ("a", "lure"))

        def swap():
            while not stop.is_set():
                libc.syscall(316, -100, way, -100, lure, 2)  # renameat2, RENAME_EXCHANGE
                if slowly.is_set():
                    time.sleep(0.003)
        racer = threading.Thread(target=swap)
        racer.start()
        try:
            ended = [self.run_container().returncode for _ in range(30)]
            slowly.set()  # at full speed it may be that none gets through, and nothing was tried
            while 0 not in ended and len(ended) < 300:
                ended.append(self.run_container().returncode)
        finally:
            stop.set()
            racer.join()
        self.assertEqual(sorted(os.listdir(os.path.join(outside, "b"))), before)
        self.assertEqual(os.listdir(outside), ["b"])
        self.assertIn(0, ended)
