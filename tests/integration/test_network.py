# SPDX-License-Identifier: GPL-2.0-or-later
"""
The host's part of a microVM's network, and the agent's, without a microVM: a second network namespace is the guest, and a
program moves packets between taps in both (tests/unit/network_wire.c).
"""
import hashlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import unittest

from harness import BUILD
from test_vm_network import HERE, Namespace, Server, THERE, receive_all, sender

WIRE = os.path.join(BUILD, "tests/unit/network_wire")


class Two(unittest.TestCase):
    level = "none"

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("not root")
        self.source, self.target = Namespace(), Namespace()
        self.addCleanup(self.source.close)
        self.addCleanup(self.target.close)


class Copy(Two):
    """What the one has and what the other is given must look the same to iproute2."""

    def setUp(self):
        super().setUp()
        self.cards = []

    def interface(self, name, target, mtu=1500, mac="02:00:00:00:00:01"):
        """One of the source, and the one that is to become like it: a card that the kernel has given another name."""
        self.source.ip("link", "add", name, "address", mac, "mtu", str(mtu), "type", "veth", "peer", "name", name + "p")
        self.source.ip("link", "set", name, "up")
        number = len(self.target.links())
        self.cards.append(target)
        self.target.ip("link", "add", target, "index", str(20 + number), "address", mac, "type", "veth", "peer", "name",
                       target + "p", "index", str(200 + number))
        return name

    def copy(self):
        return subprocess.run([WIRE, self.source.path, self.target.path, *self.cards], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)

    def compare(self):
        done = self.copy()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for what in (("addr",), ("route",), ("-6", "route"), ("neigh", "show", "nud", "permanent")):
            self.assertEqual(self.look(self.target, *what), self.look(self.source, *what), what)

    def look(self, namespace, *what):
        """What ip shows, without what may differ: indexes, the peers, order, states of the link."""
        family = [word for word in what if word.startswith("-")]
        text = namespace.ip("-j", "-d", *family, *[word for word in what if not word.startswith("-")])
        found = []
        for entry in json.loads(text or "[]"):
            if not entry or entry.get("ifname", "").endswith("p") or entry.get("dev", "").endswith("p"):
                continue
            if "addr_info" in entry:
                entry = {"name": entry["ifname"], "mtu": entry["mtu"], "mac": entry.get("address"),
                         "up": "UP" in entry["flags"], "noarp": "NOARP" in entry["flags"],
                         "addresses": sorted(json.dumps({key: value for key, value in a.items() if key not in (
                             "noprefixroute", "nodad", "valid_life_time", "preferred_life_time", "label") or value in (0, 100)},
                             sort_keys=True) for a in entry["addr_info"])}
            else:
                entry["flags"] = [flag for flag in entry.get("flags", []) if flag not in ("linkdown", "dead")]
            found.append(json.dumps(entry, sort_keys=True))
        return sorted(found)

    def test_usual(self):
        """As CNI and docker leave it: an address, a default route; IPv6 beside it."""
        self.interface("eth0", "x0")
        self.source.ip("addr", "add", "10.88.0.5/16", "brd", "10.88.255.255", "dev", "eth0")
        self.source.ip("addr", "add", "fd00:88::5/64", "dev", "eth0", "nodad")
        self.source.ip("route", "add", "default", "via", "10.88.0.1")
        self.source.ip("-6", "route", "add", "default", "via", "fd00:88::1")
        self.compare()

    def test_point_to_point(self):
        """As Calico and CNI's ptp leave it: a host route to the gateway, whose MAC was set by hand."""
        self.interface("eth0", "x0", mtu=1440)
        self.source.ip("addr", "add", "192.168.4.9/32", "dev", "eth0")
        self.source.ip("route", "add", "169.254.1.1", "dev", "eth0", "scope", "link")
        self.source.ip("route", "add", "default", "via", "169.254.1.1", "dev", "eth0")
        self.source.ip("neigh", "add", "169.254.1.1", "lladdr", "ee:ee:ee:ee:ee:ee", "dev", "eth0")
        self.source.ip("neigh", "add", "fe80::99", "lladdr", "ee:ee:ee:ee:ee:ee", "dev", "eth0")
        self.compare()

    def test_connected_route_was_removed(self):
        self.interface("eth0", "x0")
        self.source.ip("addr", "add", "10.1.1.5/24", "dev", "eth0")
        self.source.ip("route", "del", "10.1.1.0/24", "dev", "eth0")
        self.source.ip("route", "add", "10.1.1.1", "dev", "eth0", "src", "10.1.1.5")
        self.source.ip("route", "add", "10.1.1.0/24", "via", "10.1.1.1", "src", "10.1.1.5")
        self.compare()

    def test_attributes_of_routes(self):
        self.interface("eth0", "x0")
        self.source.ip("addr", "add", "10.1.1.5/24", "dev", "eth0")
        self.source.ip("addr", "add", "fd00:1::5/64", "dev", "eth0", "nodad")
        self.source.ip("route", "add", "10.2.0.0/16", "via", "10.1.1.1", "metric", "50", "mtu", "1400")
        self.source.ip("route", "add", "10.2.0.0/16", "via", "10.1.1.2", "metric", "60", "proto", "static")
        self.source.ip("route", "add", "10.3.0.0/16", "via", "10.9.9.9", "dev", "eth0", "onlink")
        self.source.ip("route", "add", "10.4.0.0/16", "via", "inet6", "fd00:1::1", "dev", "eth0")
        self.source.ip("route", "add", "unreachable", "10.5.0.0/16")
        self.source.ip("-6", "route", "add", "fd00:2::/64", "via", "fd00:1::1", "metric", "7", "pref", "high")
        self.source.ip("-6", "route", "add", "fd00:3::/64", "via", "fe80::1", "dev", "eth0")
        self.source.ip("-6", "route", "add", "blackhole", "fd00:4::/64")
        self.compare()

    def test_several_interfaces(self):
        """The kernel has given the cards each other's names."""
        self.interface("eth1", "eth0", mac="02:00:00:00:00:01")
        self.interface("eth0", "eth1", mac="02:00:00:00:00:02")
        self.source.ip("addr", "add", "10.1.1.5/24", "dev", "eth0")
        self.source.ip("addr", "add", "10.1.2.5/24", "dev", "eth1")
        self.source.ip("addr", "add", "10.1.2.6/24", "dev", "eth1")
        self.source.ip("route", "add", "default", "via", "10.1.2.1")
        self.source.ip("link", "set", "eth1", "arp", "off")
        self.compare()

    def test_address_that_will_end(self):
        self.interface("eth0", "x0")
        self.source.ip("addr", "add", "fd00:1::5/64", "dev", "eth0", "valid_lft", "1000", "preferred_lft", "500", "nodad")
        self.assertEqual(self.copy().returncode, 0)
        address = [a for a in json.loads(self.target.ip("-j", "addr", "show", "eth0"))[0]["addr_info"]
                   if a["local"] == "fd00:1::5"]
        self.assertTrue(490 <= address[0]["preferred_life_time"] <= 500, address)
        self.assertTrue(990 <= address[0]["valid_life_time"] <= 1000, address)

    def test_ipv6_is_off(self):
        """By a sysctl, which the guest has got before: the other family is there all the same."""
        self.interface("eth0", "x0")
        self.source.ip("addr", "add", "10.1.1.5/24", "dev", "eth0")
        self.source.ip("addr", "add", "fd00:1::5/64", "dev", "eth0", "nodad")
        self.source.ip("-6", "route", "add", "default", "via", "fd00:1::1")
        self.target.run("sh", "-c", "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6")
        done = self.copy()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([a["local"] for a in json.loads(self.target.ip("-j", "addr", "show", "eth0"))[0]["addr_info"]], ["10.1.1.5"])

    def test_left_out(self):
        """Interfaces that are down or belong to a bridge; and one that is no Ethernet, which is said."""
        self.interface("eth0", "x0")
        self.source.ip("addr", "add", "10.1.1.5/24", "dev", "eth0")
        self.source.ip("tuntap", "add", "down0", "mode", "tap")
        self.source.ip("link", "add", "br0", "type", "bridge")
        self.source.ip("tuntap", "add", "port0", "mode", "tap")
        self.source.ip("link", "set", "port0", "master", "br0", "up")
        self.source.ip("tuntap", "add", "tun0", "mode", "tun")
        self.source.ip("link", "set", "tun0", "up")
        done = self.copy()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn("tun0 is no Ethernet", done.stderr)
        self.assertIn("eth0", self.target.links())


class Joined(Two):
    """The source's interface p0/eth0 leads here; the wire runs."""

    def pair(self, mtu=1500):
        run = subprocess.check_call
        run(["ip", "link", "add", "w0", "mtu", str(mtu), "type", "veth", "peer", "name", "eth0", "mtu", str(mtu), "netns",
             str(self.source.holder.pid)])
        self.addCleanup(subprocess.run, ["ip", "link", "del", "w0"], stderr=subprocess.DEVNULL)
        run(["ip", "link", "set", "w0", "up"])
        run(["ip", "addr", "add", HERE[0] + "/24", "dev", "w0"])
        run(["ip", "addr", "add", HERE[1] + "/64", "dev", "w0", "nodad"])
        self.source.ip("link", "set", "lo", "up")
        self.source.ip("link", "set", "eth0", "up")
        self.source.ip("addr", "add", THERE[0] + "/24", "dev", "eth0")
        self.source.ip("addr", "add", THERE[1] + "/64", "dev", "eth0", "nodad")

    def start(self, queues=1):
        wire = subprocess.Popen([WIRE, self.source.path, self.target.path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env={**os.environ, "WIRE_QUEUES": str(queues)})
        self.addCleanup(self.stop, wire)
        return wire

    def stop(self, wire):
        wire.kill()
        wire.communicate()

    def transfer(self, mtu, queues=1):
        self.pair(mtu)
        wire = self.start(queues)
        self.assertEqual(wire.stdout.readline(), "ready\n")
        data = random.Random(mtu).randbytes(20 << 20)
        for family, here in ((socket.AF_INET, HERE[0]), (socket.AF_INET6, HERE[1])):
            down, up = Server(here, sender(data), family), Server(here, receive_all, family)
            text = self.target.run("sh", "-c", "busybox nc %s %d </dev/null | tee /dev/fd/2 2>&1 >/dev/null | busybox nc %s %d"
                                   % (here, down.port, here, up.port))
            self.assertEqual(text, "")
            up.join(30)
            self.assertEqual(hashlib.sha256(up.result).hexdigest(), hashlib.sha256(data).hexdigest())
        return wire

    def test_several_queues(self):
        """The kernel spreads what comes over the queues; and keeps no lines of packets before them."""
        wire = self.transfer(1500, queues=3)
        tap = next(name for name in self.source.links() if name.startswith("moat"))
        self.assertIn("numqueues 3", self.source.ip("-d", "link", "show", tap))
        self.assertIn("qdisc noqueue", self.source.ip("link", "show", tap))
        wire.terminate()
        counts = wire.communicate()[0].split()
        self.assertEqual(len(counts), 3)
        for count in counts:
            self.assertGreater(int(count), 100, counts)
        self.assertEqual(self.source.links(), {"lo", "eth0"})

    def test_transfers(self):
        self.transfer(1500)

    def test_transfers_mtu_1280(self):
        self.transfer(1280)

    def test_transfers_large_mtu(self):
        """The largest one that a tap can have, which is here in the place of the guest's card."""
        self.transfer(65521)

    def test_one_machine_a_namespace_and_nothing_left(self):
        """By itself the namespace's kernel answers; while there is a machine, it does not; afterwards it does again."""
        def answers():
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
                client.settimeout(1)
                try:
                    client.connect((THERE[0], 9))
                except ConnectionRefusedError:
                    return True
                except OSError:
                    return False
        self.pair()
        self.assertTrue(answers())
        wire = self.start()
        self.assertEqual(wire.stdout.readline(), "ready\n")
        self.assertTrue(answers())
        tap = next(a for a in json.loads(self.source.ip("-j", "addr")) if a["ifname"].startswith("moat"))
        self.assertEqual(tap["addr_info"], [])
        self.assertIn("table netdev moat", self.source.tables())
        done = subprocess.run([WIRE, self.source.path, self.target.path], stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("another microVM has this network namespace", done.stderr)
        wire.send_signal(signal.SIGSTOP)
        subprocess.check_call(["ip", "neigh", "flush", "dev", "w0"])
        self.assertFalse(answers())
        self.stop(wire)
        self.assertEqual(self.source.links(), {"lo", "eth0"})
        self.assertEqual(self.source.tables(), "")
        self.assertTrue(answers())


class Local(Two):
    """The source's interface is a tap, of which a program has the other end, as slirp4netns and pasta have."""
    GATEWAY, OWN = "10.0.2.2", "10.0.2.100"
    TALK = """
import hashlib, socket, sys
kind, where, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
s = socket.socket(type=socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
s.settimeout(float(sys.argv[4]))
try:
    s.connect((where, port))
    s.send(b"asked by " + kind.encode())
    got = b""
    while kind == "tcp":
        more = s.recv(65536)
        if not more:
            break
        got += more
    print(hashlib.sha256(got or s.recv(65536)).hexdigest())
except OSError as error:
    print(error.strerror or error)
"""
    SERVE = """
import socket, sys, threading
tcp = socket.create_server(("0.0.0.0", 8080))
udp = socket.socket(type=socket.SOCK_DGRAM)
udp.bind(("0.0.0.0", 8080))
def answer():
    while True:
        data, client = udp.recvfrom(1000)
        print(client[0], data.decode(), flush=True)
        udp.sendto(b"x" * 1000, client)
threading.Thread(target=answer, daemon=True).start()
print("ready", flush=True)
while True:
    c, client = tcp.accept()
    print(client[0], c.recv(1000).decode(), flush=True)
    c.sendall(b"x" * 3000000)
    c.close()
"""

    def setUp(self):
        super().setUp()
        self.source.ip("link", "set", "lo", "up")
        self.source.ip("tuntap", "add", "tap0", "mode", "tap")
        self.source.ip("link", "set", "tap0", "up")
        self.source.ip("addr", "add", self.OWN + "/24", "dev", "tap0")
        self.source.ip("route", "add", "default", "via", self.GATEWAY)
        self.source.ip("neigh", "add", self.GATEWAY, "lladdr", "02:00:00:00:00:01", "dev", "tap0")
        self.target.ip("link", "set", "lo", "up")
        self.wire = self.popen(WIRE, self.source.path, self.target.path, stderr=subprocess.PIPE)
        self.assertEqual(self.wire.stdout.readline(), "ready\n")

    def popen(self, *command, **options):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **options)

        def end():
            process.kill()
            process.communicate()
        self.addCleanup(end)
        return process

    def talk(self, namespace, kind, where, port=8080, timeout=20):
        return namespace.run("python3", "-c", self.TALK, kind, where, str(port), str(timeout)).strip()

    def test_reached_from_its_namespace(self):
        server = self.popen("nsenter", "--net=" + self.target.path, "python3", "-c", self.SERVE)
        self.assertEqual(server.stdout.readline(), "ready\n")
        for kind, size in (("tcp", 3000000), ("udp", 1000)):
            for where in (self.OWN, "127.0.0.1"):
                self.assertEqual(self.talk(self.source, kind, where), hashlib.sha256(b"x" * size).hexdigest(), (kind, where))
                self.assertEqual(server.stdout.readline(), "169.254.77.1 asked by %s\n" % kind)
        self.assertEqual(self.talk(self.source, "tcp", self.OWN, 8081), "Connection refused")  # by the guest
        self.assertEqual(self.target.ip("-4", "-o", "addr", "show", "dev", "tap0").count("inet"), 1)

    def test_not_the_other_way(self):
        """The guest begins nothing with its namespace's kernel, whatever address it tries."""
        server = self.popen("nsenter", "--net=" + self.source.path, "python3", "-c", self.SERVE)
        self.assertEqual(server.stdout.readline(), "ready\n")
        self.target.ip("route", "add", "local", "127.0.0.2", "dev", "lo")
        self.target.ip("addr", "add", "169.254.77.2/32", "dev", "tap0")
        for kind in ("tcp", "udp"):
            self.assertEqual(self.talk(self.target, kind, "169.254.77.1", timeout=1), "timed out")
        self.target.ip("route", "del", "local", "127.0.0.0/8", "table", "local")
        self.target.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet")
        self.target.ip("route", "add", "127.0.0.1", "via", self.GATEWAY, "src", self.OWN)
        self.target.ip("route", "del", "local", "127.0.0.1", "table", "local")
        self.assertEqual(self.talk(self.target, "tcp", "127.0.0.1", timeout=1), "timed out")
        self.assertEqual(select.select([server.stdout], [], [], 0.5)[0], [])

    def test_nothing_left(self):
        self.wire.kill()
        self.wire.communicate()
        self.assertEqual((self.source.links(), self.source.tables()), ({"lo", "tap0"}, ""))
        server = self.popen("nsenter", "--net=" + self.source.path, "python3", "-c", self.SERVE)
        self.assertEqual(server.stdout.readline(), "ready\n")
        self.assertEqual(self.talk(self.source, "udp", self.OWN), hashlib.sha256(b"x" * 1000).hexdigest())
