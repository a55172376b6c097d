# SPDX-License-Identifier: GPL-2.0-or-later
"""
A process that KILL does not end, as it waits in the kernel for a file server that does not answer (state D): delete --force
gives up after some seconds and says what holds it up; once the server is gone, it works.
"""
import ctypes
import os
import struct
import threading
import time
import unittest

from harness import Case, at_levels, host

ALL = os.environ.get("MOAT_TEST_ALL") == "1"
FUSE_INIT = 26
LIBC = ctypes.CDLL(None, use_errno=True)


class MuteServer(threading.Thread):
    """A file system by FUSE that takes requests and answers none but the first, by which it is there."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.path = path
        self.asked = threading.Event()
        self.fd = os.open("/dev/fuse", os.O_RDWR)
        data = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % self.fd
        if LIBC.mount(b"mute", path.encode(), b"fuse", 6, data.encode()) < 0:  # MS_NOSUID | MS_NODEV
            error = ctypes.get_errno()
            os.close(self.fd)
            raise OSError(error, os.strerror(error), path)
        self.start()

    def run(self):
        try:
            while True:
                request = os.read(self.fd, 1 << 17)
                _, operation, number = struct.unpack_from("=IIQ", request)
                if operation == FUSE_INIT:
                    answer = struct.pack("=IIIIHHIIHH8I", 7, 31, 0, 0, 1, 1, 4096, 1, 1, 0, *[0] * 8)
                    os.write(self.fd, struct.pack("=IiQ", 16 + len(answer), 0, number) + answer)
                else:
                    self.asked.set()
        except OSError:
            pass  # unmounted

    def stop(self):
        """Who waits gets an error, and may end."""
        LIBC.umount2(self.path.encode(), 1)  # MNT_FORCE
        self.join()
        LIBC.umount2(self.path.encode(), 2)  # MNT_DETACH
        os.close(self.fd)


def state_of(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


@at_levels("plain")
class Unkillable(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            raise unittest.SkipTest("no /dev/fuse, by which a file server can be silent")

    def stuck(self, script, change=None):
        """A container whose script reads a file of the server; returns its id, the process that waits and the server."""
        shared = os.path.join(self.work, "shared")
        os.makedirs(os.path.join(shared, "fs"))

        def both(c):
            c["mounts"].append({"destination": "/shared", "type": "bind", "source": shared, "options": ["rbind", "rslave"]})
            if change:
                change(c)
        self.bundle("sh", "-c", "while [ ! -e /shared/go ]; do sleep 0.05; done; " + script, change=both)
        name = self.create()
        self.ok("start", name)
        server = MuteServer(os.path.join(shared, "fs"))  # which is seen in the container, by propagation
        self.addCleanup(server.stop)
        with open(os.path.join(shared, "go"), "w"):
            pass
        self.assertTrue(server.asked.wait(20 * host.TIME_SCALE), "the container reads from the server")
        waiting = []

        def waits():
            waiting[:] = [pid for pid, command in host.processes().items() if command == "cat /shared/fs/file"]
            return waiting
        self.wait_until(waits, "the process waits for the server")
        return name, waiting[0], server

    def check(self, name, pid, server, says):
        began = time.monotonic()
        self.refused("delete", "--force", name, says=[*says, str(pid)], timeout=60)
        self.assertLess(time.monotonic() - began, 30 * host.TIME_SCALE)
        self.assertEqual(state_of(pid), "D", "it could be killed, and nothing was tried")
        self.state(name)
        self._cleanups.remove((server.stop, (), {}))
        server.stop()
        self.wait_until(lambda: state_of(pid) in "XZ", "the process has ended")
        self.ok("delete", "--force", name)
        self.refused("state", name, says="does not exist")

    def test_first_process(self):
        name, pid, server = self.stuck("exec cat /shared/fs/file")
        self.assertEqual(pid, self.pid(name))
        self.check(name, pid, server, ["does not end although it was killed", "hangs in the kernel"])

    @unittest.skipUnless(ALL, "takes ten seconds more: MOAT_TEST_ALL=1 runs it")
    def test_another_process(self):
        """Without a pid namespace it outlives the first one, in the cgroup."""
        def change(c):
            c["linux"]["namespaces"] = [n for n in c["linux"]["namespaces"] if n["type"] != "pid"]
        name, pid, server = self.stuck("cat /shared/fs/file; sleep 1000", change)
        self.assertNotEqual(pid, self.pid(name))
        self.check(name, pid, server, ["remove cgroup", "(cat, state D) has not ended"])
