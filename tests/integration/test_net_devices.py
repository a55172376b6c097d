# SPDX-License-Identifier: GPL-2.0-or-later
"""linux.netDevices: network devices of the host that become the container's. The runner's network namespace is the host's."""
import json
import os
import socket
import subprocess

from harness import Case, at_levels


def ip(*args):
    return subprocess.run(["ip", *args], check=True, capture_output=True).stdout.decode()


def host_devices():
    return [name for _, name in socket.if_nameindex()]


@at_levels("plain")
class NetDevices(Case):
    def device(self, name, *addresses):
        """A device on the host, one of a pair: with the other end it goes at the end of the test, wherever it is."""
        ip("link", "add", name, "type", "veth", "peer", "name", "peer-" + name)
        self.addCleanup(subprocess.run, ["ip", "link", "del", "peer-" + name], capture_output=True)
        for address in addresses:
            ip("addr", "add", address, "dev", name)

    def running(self, **devices):
        self.bundle("sleep", "1000", change=lambda c: c["linux"].__setitem__("netDevices", devices))
        name = self.create()
        self.ok("start", name)
        self.addCleanup(self.moat, "delete", "--force", name)
        return name

    def inside(self, name):
        """{device: (flags, [address/length])} in the container."""
        out = subprocess.run(["nsenter", "--net=/proc/%d/ns/net" % self.pid(name), "ip", "-j", "addr"], check=True,
                             capture_output=True).stdout
        return {d["ifname"]: (d["flags"], ["%s/%d" % (a["local"], a["prefixlen"]) for a in d["addr_info"]
                                           if a["scope"] == "global"]) for d in json.loads(out)}

    def test_moved_with_addresses_and_up(self):
        self.device("dum0", "192.0.2.5/24", "198.51.100.1/32", "2001:db8::5/64")
        ip("addr", "add", "192.0.2.9/24", "dev", "dum0", "valid_lft", "1000", "preferred_lft", "1000")
        name = self.running(dum0={})
        self.assertNotIn("dum0", host_devices())
        flags, addresses = self.inside(name)["dum0"]
        self.assertIn("UP", flags)
        self.assertEqual(sorted(addresses), ["192.0.2.5/24", "198.51.100.1/32", "2001:db8::5/64"])
        self.ok("delete", "--force", name)

    def test_names(self):
        self.device("dum0")
        self.device("dum1")
        self.device("dum2", "192.0.2.7/24")
        name = self.running(dum0={"name": "net%d"}, dum1={"name": "net%d"}, dum2={"name": "eth0"})
        devices = self.inside(name)
        self.assertEqual(set(devices) - {"lo"}, {"net0", "net1", "eth0"})
        self.assertEqual(devices["eth0"][1], ["192.0.2.7/24"])
        self.ok("delete", "--force", name)

    def test_peer_of_a_pair(self):
        ip("link", "add", "host0", "type", "veth", "peer", "name", "peer0")
        self.addCleanup(subprocess.run, ["ip", "link", "del", "host0"], capture_output=True)
        ip("addr", "add", "192.0.2.1/24", "dev", "host0")
        ip("link", "set", "host0", "up")
        ip("addr", "add", "192.0.2.2/24", "dev", "peer0")
        self.bundle("ping", "-c", "1", "-W", "5", "192.0.2.1",
                    change=lambda c: c["linux"].__setitem__("netDevices", {"peer0": {"name": "eth0"}}))
        if not os.path.lexists(os.path.join(self.rootfs, "bin/ping")):
            os.symlink("busybox", os.path.join(self.rootfs, "bin/ping"))
        done = self.run_container()
        self.assertEqual(done.returncode, 0, (done.stdout, done.stderr))

    def test_put_back_where_there_is_no_container(self):
        self.device("dum0", "192.0.2.5/24")
        self.device("dum1")
        ip("link", "set", "dum0", "up")
        self.bundle("no-such-program", change=lambda c: c["linux"].__setitem__(
            "netDevices", {"dum0": {"name": "eth0"}, "dum1": {}}))
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says="no-such-program")
        self.assertEqual(sorted(host_devices()), ["dum0", "dum1", "lo", "peer-dum0", "peer-dum1"])
        self.assertIn("192.0.2.5/24", ip("addr", "show", "dum0"))
        self.assertIn(",UP", ip("link", "show", "dum0"))
        self.assertNotIn(",UP", ip("link", "show", "dum1"))

    def test_refused(self):
        self.device("dum0")
        for devices, words in (({"dum0": {}, "dum9": {}}, ("netDevices", "dum9")), ({"dum0": {"name": "lo"}}, ("dum0", "lo")),
                               ({"dum0": {"name": "0123456789abcdef"}}, ("dum0", "15"))):
            self.bundle("true", change=lambda c: c["linux"].__setitem__("netDevices", devices))
            self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=words)
            self.assertIn("dum0", host_devices())
        self.bundle("true", change=lambda c: (
            c["linux"].__setitem__("netDevices", {"dum0": {}}),
            c["linux"]["namespaces"].remove({"type": "network"}), c["mounts"].pop()))
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=("netDevices", "network namespace"))

    def test_namespace_of_another(self):
        holder = subprocess.Popen(["unshare", "--net", "sleep", "1000"])
        self.addCleanup(holder.wait)
        self.addCleanup(holder.kill)
        path = "/proc/%d/ns/net" % holder.pid
        self.wait_until(lambda: os.readlink(path) != os.readlink("/proc/self/ns/net"), "the namespace is there")
        self.device("dum0", "192.0.2.5/24")
        self.bundle("sleep", "1000", change=lambda c: (
            c["linux"].__setitem__("netDevices", {"dum0": {}}), c["linux"]["namespaces"].remove({"type": "network"}),
            c["linux"]["namespaces"].append({"type": "network", "path": path})))
        name = self.create()
        self.assertEqual(self.inside(name)["dum0"][1], ["192.0.2.5/24"])
        self.ok("delete", "--force", name)
        # It is the namespace's, which outlives the container.
        subprocess.run(["nsenter", "--net=" + path, "ip", "link", "show", "dum0"], check=True, capture_output=True)
