# SPDX-License-Identifier: GPL-2.0-or-later
"""
Kernels of distributions, as contrib/kernel/import makes them usable. The packages are in the cache, where `tests/run --all
kernel` puts them.
"""
import glob
import json
import os
import subprocess
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


@unittest.skipUnless(os.environ.get("MOAT_TEST_ALL") == "1", "takes minutes: MOAT_TEST_ALL=1 runs it")
class Import(harness.Case):
    level = "vm"
    memory = 512 << 20

    def use(self, version):
        to = os.path.join(self.work, "kernels")
        done = subprocess.run([IMPORT, "--init", harness.find_init(), "--to", to, package(version)], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.settings.update(json.loads("{%s}" % done.stdout.split("\n", 1)[1]))
        self.write_settings()

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
