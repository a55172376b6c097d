# SPDX-License-Identifier: GPL-2.0-or-later
"""
Kernels of distributions, as contrib/kernel/import makes them usable. The packages are in the cache, where `tests/run --all
kernel` puts them.
"""
import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

import harness
from test_vm_network import Namespace, ip

MAC = "02:00:00:00:78:02"
IMPORT = os.path.join(harness.TOP, "contrib/kernel/import")
CACHE = os.environ.get("MOAT_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "moat")


def package(version):
    found = sorted(glob.glob(os.path.join(CACHE, "distribution", "linux-image-%s.*.deb" % version)))
    if not found:
        raise unittest.SkipTest("no package linux-image-%s.… in %s/distribution" % (version, CACHE))
    return found[-1]


class Refused(unittest.TestCase):
    """What import is given and cannot use: one line that says so, in no time, and nothing made."""
    level = "none"
    MODULES = ("virtio_mmio", "virtiofs", "vmw_vsock_virtio_transport")

    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="moat-test-")
        self.addCleanup(shutil.rmtree, self.work)

    def path(self, name, content=None):
        path = os.path.join(self.work, name)
        if content is not None:
            with open(path, "wb") as f:
                f.write(content)
        return path

    def kernel(self, release):
        header = bytearray(0x1000)
        header[0x202:0x206] = b"HdrS"
        header[0x20e:0x210] = (0x300).to_bytes(2, "little")
        header[0x500:0x500 + len(release)] = release
        return self.path("vmlinuz", header)

    def refused(self, file, says, *flags):
        command = [IMPORT, "--init", self.path("init", b""), "--to", self.path("kernels"), *flags, file]
        done = subprocess.run(command, capture_output=True, timeout=60 * harness.TIME_SCALE)
        text = done.stderr.decode()
        self.assertEqual((done.returncode, done.stdout, len(text.splitlines())), (1, b"", 1), text)
        self.assertIn(says, text)
        self.assertNotIn("\x1b", text)
        self.assertFalse(os.path.exists(self.path("kernels")))

    def test_no_kernel(self):
        self.refused(self.path("missing"), "no such file")
        self.refused(self.path("empty", b""), "not a bzImage")
        self.refused(self.path("noise", os.urandom(1 << 16)), "not a bzImage")
        os.mkfifo(self.path("fifo"))  # nobody writes to it
        for file in (self.path("fifo"), self.work, "/dev/zero"):
            self.refused(file, "not a regular file")

    @unittest.skipUnless(shutil.which("dpkg-deb"), "no dpkg-deb")
    def test_damaged_package(self):
        for content in (b"", b"!<arch>\ndebian-binary   1342943816  0     0     100644  4         `\n2.0\n", os.urandom(4096)):
            self.refused(self.path("linux.deb", content), "truncated, damaged or no Debian package")

    def test_release(self):
        for release in (b"", b"../up", b"..", b"6.1/x", b"\xff\xfe", b"6.1\x1b[31m", b"6" * 65):
            with self.subTest(release):
                self.refused(self.kernel(release + b" (somebody)\0"), "no release")

    def test_modules(self):
        kernel, modules = self.kernel(b"6.1.0-x (somebody)\0"), self.path("modules")
        os.mkdir(modules)
        self.refused(kernel, modules + ": there are no modules\n", "--modules", modules)
        self.refused(kernel, "there are no modules; name their directory with --modules\n")
        for name, other in zip(self.MODULES, self.MODULES[1:] + self.MODULES[:1]):
            self.path("modules/%s.ko" % name, b"depends=%s\0" % other.encode())
        self.refused(kernel, "depends on itself", "--modules", modules)


class Imported(harness.Case):
    level = "vm"
    memory = 512 << 20

    def use(self, version):
        to = os.path.join(self.work, "kernels")
        done = subprocess.run([IMPORT, "--init", harness.find_init(), "--to", to, package(version)], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.settings.update(json.loads("{%s}" % done.stdout.split("\n", 1)[1]))
        self.write_settings()


@unittest.skipUnless(os.environ.get("MOAT_TEST_ALL") == "1", "takes minutes: MOAT_TEST_ALL=1 runs it")
class Import(Imported):
    def network(self):
        """A network namespace with a card; its path."""
        namespace = Namespace()
        self.addCleanup(namespace.close)
        ip("link", "add", "moatk0", "type", "veth", "peer", "name", "eth0", "address", MAC, "netns", str(namespace.holder.pid))
        # Not with its namespace: that ends when the kernel comes to it.
        self.addCleanup(subprocess.run, ["ip", "link", "del", "moatk0"], stderr=subprocess.DEVNULL)
        namespace.ip("addr", "add", "10.78.0.2/24", "dev", "eth0")
        namespace.ip("link", "set", "eth0", "up")
        return namespace.path

    def check(self, version):
        self.use(version)
        path = self.network()

        def change(config):
            spaces = [n for n in config["linux"]["namespaces"] if n["type"] != "network"]
            config["linux"]["namespaces"] = spaces + [{"type": "network", "path": path}]
        self.bundle("sh", "-c", "uname -r; echo made > /made; cat /made; cat /sys/class/net/eth0/address; "
                    "head -c 8 /dev/urandom | wc -c", change=change)
        done = self.moat("--debug", "run", "--bundle", self.bundle_path, self.new_id(), timeout=40)
        self.assertEqual(done.returncode, 0, done.stderr.decode(errors="replace")[-4000:])
        said = done.stdout.decode().split()
        self.assertTrue(said[0].startswith(version + "."), said)
        self.assertEqual(said[1:], ["made", MAC, "8"])

    def test_debian_6_1(self):
        self.check("6.1")

    def test_debian_6_12(self):
        self.check("6.12")


class Ends(harness.Case):
    """Ends of the whole machine by a workload that may do everything: told as what they are, and soon."""
    level = "vm"
    RESET = "the guest kernel panicked, or reset the machine"
    HALTED = "the guest was halted or switched off from within"

    def check(self, line, says):
        """In the guest's own namespace of processes, and with all of its /proc."""
        def change(config):
            linux = config["linux"]
            linux["namespaces"] = [n for n in linux["namespaces"] if n["type"] != "pid"]
            del linux["readonlyPaths"], linux["maskedPaths"]
            capabilities = config["process"]["capabilities"]
            for kind, names in capabilities.items():
                capabilities[kind] = names + ["CAP_SYS_BOOT", "CAP_SYS_ADMIN"]
        self.bundle("sh", "-c", line + "; sleep 1000", change=change)
        done = self.run_container(timeout=30)
        said = done.stderr.decode()
        self.assertEqual((done.returncode, done.stdout, len(said.splitlines())), (128 + signal.SIGKILL, b"", 1), said)
        self.assertIn(says, said)

    def test_own_kernel(self):
        for line, says in (("reboot -f", self.RESET), ("poweroff -f", self.HALTED)):
            with self.subTest(line):
                self.check(line, says)


@unittest.skipUnless(os.environ.get("MOAT_TEST_ALL") == "1", "takes minutes: MOAT_TEST_ALL=1 runs it")
class ImportedEnds(Imported, Ends):
    test_own_kernel = None

    def test_debian_6_12(self):
        self.use("6.12")
        for line, says in (("echo b", self.RESET), ("echo c", self.RESET), ("echo o", self.HALTED)):
            with self.subTest(line):
                self.check(line + " >/proc/sysrq-trigger", says)
        for line, says in (("reboot -f", self.RESET), ("halt -f", self.HALTED)):
            with self.subTest(line):
                self.check(line, says)
