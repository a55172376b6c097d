# SPDX-License-Identifier: GPL-2.0-or-later
"""
A microVM's network: a namespace that an engine has prepared, with veth pairs to the tests' own namespace. What the other end
sees must be what a container in that namespace would have shown, and the namespace's own kernel must stay silent.
"""
import ast
import hashlib
import json
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time

from harness import Case, TIME_SCALE, host

HERE = ("10.77.0.1", "fd77::1")
THERE = ("10.77.0.2", "fd77::2")
MIB = 1 << 20
ALL = os.environ.get("MOAT_TEST_ALL") == "1"


def run(*command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def ip(*args):
    run("ip", *args)


class Namespace:
    """A network namespace that lasts as long as its process."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 100000"], stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.path = "/proc/%d/ns/net" % self.holder.pid

    def run(self, *command, **options):
        return subprocess.run(["nsenter", "--net=" + self.path, *command], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, check=True, **options).stdout

    def ip(self, *args):
        return self.run("ip", *args)

    def tables(self):
        return self.run("nft", "list", "tables")

    def links(self):
        return {link["ifname"] for link in json.loads(self.ip("-j", "link"))}

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


class Server(threading.Thread):
    """Accepts one connection and hands it to serve(socket)."""

    def __init__(self, address, serve, family=socket.AF_INET):
        super().__init__(daemon=True)
        self.socket = socket.create_server((address, 0), family=family)
        self.socket.settimeout(60 * TIME_SCALE)
        self.port = self.socket.getsockname()[1]
        self.serve = serve
        self.result = None
        self.start()

    def run(self):
        with self.socket:
            connection, _ = self.socket.accept()
            with connection:
                connection.settimeout(60 * TIME_SCALE)
                self.result = self.serve(connection)


def sender(data):
    def serve(connection):
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
    return serve


def receive_all(connection):
    parts = []
    while part := connection.recv(1 << 20):
        parts.append(part)
    return b"".join(parts)


class Network(Case):
    level = "vm"

    def setUp(self):
        super().setUp()
        self.namespace = Namespace()
        self.addCleanup(self.namespace.close)

    def pair(self, name="eth0", outer="p0", mtu=1500, addresses=True, into=None):
        """A veth pair from here to the namespace, or to the one of a process."""
        ip("link", "add", outer, "mtu", str(mtu), "type", "veth", "peer", "name", name, "mtu", str(mtu), "netns",
           str(into or self.namespace.holder.pid))
        self.addCleanup(subprocess.run, ["ip", "link", "del", outer], stderr=subprocess.DEVNULL)
        ip("link", "set", outer, "up")
        inside = ["nsenter", "--net=/proc/%d/ns/net" % into] if into else ["nsenter", "--net=" + self.namespace.path]
        run(*inside, "ip", "link", "set", name, "up")
        if addresses:
            ip("addr", "add", HERE[0] + "/24", "dev", outer)
            ip("addr", "add", HERE[1] + "/64", "dev", outer, "nodad")
            run(*inside, "ip", "addr", "add", THERE[0] + "/24", "dev", name)
            run(*inside, "ip", "addr", "add", THERE[1] + "/64", "dev", name, "nodad")
            run(*inside, "ip", "route", "add", "default", "via", HERE[0])

    def joins(self, config):
        for namespace in config["linux"]["namespaces"]:
            if namespace["type"] == "network":
                namespace["path"] = self.namespace.path

    def script(self, script, change=None):
        """A bundle whose shell script runs in the namespace's network."""
        def both(config):
            self.joins(config)
            if change:
                change(config)
        self.bundle("sh", "-c", script, change=both)

    def run_script(self, script, change=None, timeout=60):
        self.script(script, change)
        done = self.run_container(timeout=timeout)
        self.assertEqual((done.returncode, done.stderr), (0, b""), done.stdout)
        return done.stdout.decode()

    def rest(self, name):
        self.ok("kill", name, "KILL")
        self.wait_status(name, "stopped")
        self.ok("delete", name)

    def quiet(self):
        """Nothing of moat's is in the namespace."""
        self.assertEqual(self.namespace.links(), {"lo", "eth0"})
        self.assertEqual(self.namespace.tables(), "")


class Traffic(Network):
    def test_both_families_and_both_ways(self):
        """ICMP and TCP, large transfers; the guest has what the namespace has, and nothing is left in it."""
        self.pair()
        inside = self.namespace
        inside.ip("route", "add", "10.78.0.0/16", "via", "10.77.0.9", "metric", "7")
        inside.ip("route", "add", "blackhole", "10.79.0.0/16")
        inside.ip("-6", "route", "add", "default", "via", HERE[1])
        inside.ip("neigh", "add", "10.77.0.9", "lladdr", "02:00:00:00:00:09", "dev", "eth0")
        mac = json.loads(inside.ip("-j", "link", "show", "eth0"))[0]["address"]
        link_local = next(a["local"] for a in json.loads(inside.ip("-j", "addr", "show", "eth0"))[0]["addr_info"]
                          if a.get("scope") == "link")
        data = random.Random(1).randbytes(8 * MIB)
        down, up = Server(HERE[0], sender(data)), Server(HERE[0], receive_all)
        six = Server(HERE[1], receive_all, socket.AF_INET6)
        text = self.run_script(
            "cat /proc/sys/net/ipv4/conf/eth0/rp_filter; ip addr show eth0; ip route; ip -6 route; ip neigh; ping -c 2 %s && ping -c 2 -6 %s && "
            "nc %s %d </dev/null >/dev/shm/x && nc %s %d </dev/shm/x && nc %s %d </dev/shm/x"
            % (HERE[0], HERE[1], HERE[0], down.port, HERE[0], up.port, HERE[1], six.port),
            change=lambda c: c["linux"].update(sysctl={"net.ipv4.conf.eth0.rp_filter": "2"}))
        self.assertEqual(text.splitlines()[0], "2")
        for line in ("mtu 1500", "link/ether " + mac, "inet 10.77.0.2/24", "inet6 fd77::2/64", "inet6 %s/64" % link_local,
                     "default via 10.77.0.1 dev eth0", "10.78.0.0/16 via 10.77.0.9 dev eth0  metric 7", "blackhole 10.79.0.0/16",
                     "default via fd77::1 dev eth0", "10.77.0.9 dev eth0 lladdr 02:00:00:00:00:09"):
            self.assertIn(line, text)
        self.assertEqual(text.count("inet6"), 2)
        for server in (down, up, six):
            server.join(10 * TIME_SCALE)
        self.assertEqual(hashlib.sha256(up.result).hexdigest(), hashlib.sha256(data).hexdigest())
        self.assertEqual(hashlib.sha256(six.result).hexdigest(), hashlib.sha256(data).hexdigest())
        self.quiet()

    def transfers(self, mtu, ping):
        self.pair(mtu=mtu)
        data = random.Random(2).randbytes(3 * MIB)
        down, up = Server(HERE[0], sender(data)), Server(HERE[0], receive_all)
        # One answer of several is enough: datagrams may be lost, and a busy machine may be late.
        text = self.run_script("ip link show eth0; ping -c 3 -W 60 -s %d %s && ping -c 3 -W 60 -s %d -6 %s && "
                               "nc %s %d </dev/null >/dev/shm/x && nc %s %d </dev/shm/x"
                               % (ping, HERE[0], ping, HERE[1], HERE[0], down.port, HERE[0], up.port))
        self.assertIn("mtu %d " % mtu, text)
        up.join(10 * TIME_SCALE)
        self.assertEqual(hashlib.sha256(up.result).hexdigest(), hashlib.sha256(data).hexdigest())

    def test_mtu_1280(self):
        self.transfers(1280, 5000)

    def test_mtu_65535(self):
        self.transfers(65535, 60000)

    def test_two_interfaces(self):
        """Their names are swapped in the order in which the kernel finds them."""
        self.pair("eth1", "p1", addresses=False)
        self.pair("eth0", "p0")
        ip("addr", "add", "10.80.0.1/24", "dev", "p1")
        self.namespace.ip("addr", "add", "10.80.0.2/24", "dev", "eth1")
        macs = {link["ifname"]: link["address"] for link in json.loads(self.namespace.ip("-j", "link"))}
        text = self.run_script("cat /sys/class/net/eth0/address /sys/class/net/eth1/address; "
                               "ping -c 1 %s && ping -c 1 10.80.0.1" % HERE[0])
        self.assertEqual(text.splitlines()[:2], [macs["eth0"], macs["eth1"]])
        self.assertEqual(text.count(" 0% packet loss"), 2)


SERVER = """
import select, socket
tcp = socket.create_server(("", 5000), backlog=1000)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
udp.bind(("", 5000))
poll = select.poll()
open_ = {s.fileno(): s for s in (tcp, udp)}
for s in open_:
    poll.register(s, select.POLLIN)
print("ready", flush=True)
while True:
    for fd, _ in poll.poll():
        if fd == tcp.fileno():
            s, _ = tcp.accept()
            open_[s.fileno()] = s
            poll.register(s, select.POLLIN)
        elif fd == udp.fileno():
            data, peer = udp.recvfrom(65536)
            udp.sendto(data, peer)
        else:
            data = open_[fd].recv(65536)
            if data:
                open_[fd].sendall(data)
            else:
                poll.unregister(fd)
                open_.pop(fd).close()
"""


class Connections(Network):
    """A server in the container, clients outside."""

    def test_connections_and_datagrams(self):
        self.pair()

        def change(config):
            self.joins(config)
            config["process"]["rlimits"][0].update(hard=4096, soft=4096)
        self.bundle("python3", "-c", SERVER, base="debian", change=change)
        with open(os.path.join(self.work, "out"), "wb+") as out:
            name = self.create(stdout=out)
            self.ok("start", name)
            self.wait_until(lambda: os.path.getsize(out.name), "the server is ready", 60)
        self.connections(1000 if ALL else 100)
        self.datagrams()
        self.rest(name)
        self.quiet()

    def connections(self, count):
        """All open at once; each gets its own bytes back."""
        sockets = [socket.create_connection((THERE[0], 5000), timeout=30 * TIME_SCALE) for _ in range(count)]
        for number, connection in enumerate(sockets):
            connection.sendall(b"%08d" % number)
        for number, connection in enumerate(sockets):
            self.assertEqual(connection.recv(100), b"%08d" % number)
            connection.close()

    def datagrams(self):
        """Of all sizes, those that need fragments too."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.connect((THERE[0], 5000))
            udp.settimeout(10 * TIME_SCALE)
            for size in (1, 2, 100, 1471, 1472, 1473, 3000, 9000, 30000, 65507):
                data = random.Random(size).randbytes(size)
                udp.send(data)
                self.assertEqual(udp.recv(65536), data)


QUEUES = """
import array, fcntl, os, socket, struct

def statistics(name):
    "Of the card, by name: what ethtool -S shows."
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        def ask(text):
            buffer = array.array("B", text)
            fcntl.ioctl(s, 0x8946, struct.pack("16sP8x", name.encode(), buffer.buffer_info()[0]))
            return buffer.tobytes()
        count = struct.unpack_from("I", ask(struct.pack("IIQI", 0x37, 0, 2, 0)), 16)[0]
        names = ask(struct.pack("III", 0x1b, 1, count) + bytes(32 * count))[12:]
        values = struct.unpack("%%dQ" %% count, ask(struct.pack("II", 0x1d, count) + bytes(8 * count))[8:])
        return {names[32 * i:32 * i + 32].rstrip(b"\\0").decode(): value for i, value in enumerate(values)}

server = socket.create_server(("", 5000), backlog=100)
print(sorted(os.listdir("/sys/class/net/eth0/queues")), flush=True)
for number in range(%d):
    connection, _ = server.accept()
    if os.fork() == 0:
        os.sched_setaffinity(0, {number %% 2})
        size, = struct.unpack("I", connection.recv(4, socket.MSG_WAITALL))
        data = connection.recv(size, socket.MSG_WAITALL)
        connection.sendall(data[::-1])
        os._exit(0)
    connection.close()
for _ in range(%d):
    os.wait()
print(statistics("eth0"), flush=True)
"""


class Queues(Network):
    """Several processors: several pairs of queues, which share the work."""
    connections = 4

    def exchange(self, number, results):
        data = random.Random(number).randbytes(MIB // 8 + number)
        with socket.create_connection((THERE[0], 5000), timeout=60 * TIME_SCALE) as connection:
            connection.sendall(struct.pack("I", len(data)) + data)
            with connection.makefile("rb") as answer:
                results[number] = answer.read(len(data)) == data[::-1]

    def test_both_are_used(self):
        self.pair()

        def change(config):
            self.joins(config)
            config["vm"] = {"hwConfig": {"vcpus": 2}}
        self.bundle("python3", "-c", QUEUES % (self.connections, self.connections), base="debian", change=change)
        for _ in range(2):  # the second starts from the template that the first has made, if there was none
            self.check(*self.serve())
        self.quiet()

    def serve(self):
        """One container's life; returns what it says: the card's queues, and then its statistics."""
        results = {}
        with open(os.path.join(self.work, "out"), "wb+") as out:
            name = self.create(stdout=out, stderr=out)
            self.ok("start", name)
            self.wait_until(lambda: os.path.getsize(out.name), "the server is ready", 60)
            self.assertEqual(self.state(name)["status"], "running")
            threads = [threading.Thread(target=self.exchange, args=(i, results)) for i in range(self.connections)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(results, {i: True for i in range(self.connections)})
            self.wait_status(name, "stopped", 30)
            out.seek(0)
            lines = out.read().decode().splitlines()
        self.ok("delete", name)
        return [ast.literal_eval(line) for line in lines]

    def check(self, queues, statistics):
        """Of what comes in, test_network counts: the guest's kernel has numbers of what goes out alone."""
        self.assertEqual(queues, ["rx-0", "rx-1", "tx-0", "tx-1"])
        for queue in (0, 1):
            kicks = [value for key, value in statistics.items() if key in ("tx_queue_%d_kicks" % queue, "tx%d_kicks" % queue)]
            self.assertEqual(len(kicks), 1, statistics)
            self.assertGreater(kicks[0], 0, statistics)


class Life(Network):
    def answers(self, seconds):
        """Who answers an ARP request for the container's address: a list of MACs, one for each answer."""
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as packet:
            packet.bind(("p0", 0))
            ours = packet.getsockname()[4]
        request = (b"\xff" * 6 + ours + struct.pack("!HHHBBH", 0x806, 1, 0x800, 6, 4, 1) + ours + socket.inet_aton(HERE[0]) +
                   b"\0" * 6 + socket.inet_aton(THERE[0]))
        found = []
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x806)) as packet:
            packet.bind(("p0", 0))
            packet.send(request)
            deadline = time.monotonic() + seconds
            while (left := deadline - time.monotonic()) > 0:
                packet.settimeout(left)
                try:
                    frame = packet.recv(100)
                except TimeoutError:
                    break
                if frame[20:22] == b"\0\2" and frame[28:32] == socket.inet_aton(THERE[0]):
                    found.append(frame[22:28].hex(":"))
        return found

    def test_namespace_is_silent(self):
        """Its kernel answers before, the guest alone afterwards: a vmm that stands still answers nothing."""
        self.pair()
        mac = json.loads(self.namespace.ip("-j", "link", "show", "eth0"))[0]["address"]
        self.bundle("sleep", "1000", change=self.joins)
        name = self.create()
        self.assertEqual(self.answers(2), [mac])
        self.ok("start", name)
        self.assertEqual(self.answers(2 * min(TIME_SCALE, 3)), [mac])
        vmm = next(pid for pid in host.children_of(self.pid(name)) if open("/proc/%d/comm" % pid).read() == "moat-vmm\n")
        os.kill(vmm, signal.SIGSTOP)
        try:
            self.assertEqual(self.answers(2), [])
        finally:
            os.kill(vmm, signal.SIGCONT)
        self.wait_until(lambda: self.answers(1), "the guest answers again", 10)
        tap = next(link for link in json.loads(self.namespace.ip("-j", "addr")) if link["ifname"].startswith("moat"))
        self.assertEqual(tap["addr_info"], [])
        self.assertIn("UP", tap["flags"])
        self.assertIn("table netdev moat", self.namespace.tables())
        self.second_machine()
        os.kill(self.pid(name), signal.SIGKILL)
        self.wait_until(lambda: self.namespace.links() == {"lo", "eth0"} and not self.namespace.tables(),
                        "tap and table are gone with the monitor", 10)
        self.assertEqual(self.answers(2), [mac])
        self.ok("delete", name)

    def second_machine(self):
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=[
            "linux.namespaces: another microVM has the network namespace " + self.namespace.path, "--isolation=sandbox"])
        self.assertIn("table netdev moat", self.namespace.tables())

    def test_interface_between_create_and_start(self):
        """As docker does; the namespace is the monitor's."""
        self.bundle("sh", "-c", "ip addr; ping -c 2 " + HERE[0])
        with open(os.path.join(self.work, "out"), "wb+") as out:
            name = self.create(stdout=out)
            self.pair(into=self.pid(name))
            self.ok("start", name)
            self.wait_status(name, "stopped", 30)
            self.ok("delete", name)
            out.seek(0)
            text = out.read().decode()
        self.assertIn("inet 10.77.0.2/24", text)
        self.assertIn(" 0% packet loss", text)

    def test_interface_of_a_hook(self):
        hook = os.path.join(self.work, "hook")
        with open(hook, "w") as f:
            f.write("#!/bin/sh\npid=$(grep -o '\"pid\":[ ]*[0-9]*' | grep -o '[0-9]*$')\nset -e\n"
                    "ip link add p0 type veth peer name eth0 netns $pid\nip addr add %s/24 dev p0\nip link set p0 up\n"
                    "in=\"nsenter --net=/proc/$pid/ns/net ip\"\n$in addr add %s/24 dev eth0\n$in link set eth0 up\n"
                    % (HERE[0], THERE[0]))
        os.chmod(hook, 0o755)
        text = self.output("ping", "-c", "2", HERE[0],
                           change=lambda c: c.update(hooks={"createRuntime": [{"path": hook}]}))
        self.assertIn(" 0% packet loss", text)

    def test_none(self):
        """Without a network namespace, and in an empty one: the loopback interface, and nothing else."""
        def without(config):
            config["linux"]["namespaces"] = [n for n in config["linux"]["namespaces"] if n["type"] != "network"]
            config["mounts"] = [m for m in config["mounts"] if m["type"] != "sysfs"]
        script = "ip link | grep -c mtu; ping -c 1 127.0.0.1 | grep loss"
        for change in (without, None):
            text = self.output("sh", "-c", script, change=change)
            self.assertEqual(text.splitlines()[0], "1")
            self.assertIn(" 0% packet loss", text)

    def test_hosts_own(self):
        def own(config):
            next(n for n in config["linux"]["namespaces"] if n["type"] == "network")["path"] = "/proc/self/ns/net"
        self.bundle("true", change=own)
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=["linux.namespaces", "host's own network"])

    def test_too_many(self):
        for number in range(9):
            self.pair("eth%d" % number, "p%d" % number, addresses=False)
        self.bundle("true", change=self.joins)
        name = self.create()
        self.refused("start", name, says="at most 8 network interfaces")
        self.namespace.ip("link", "set", "eth8", "down")
        self.ok("start", name)
        self.wait_status(name, "stopped", 30)
        self.ok("delete", name)
