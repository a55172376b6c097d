# SPDX-License-Identifier: GPL-2.0-or-later
"""
A microVM's network: a namespace that an engine has prepared, with veth pairs to the tests' own namespace. What the other end
sees must be what a container in that namespace would have shown, and the namespace's own kernel must stay silent.
"""
import hashlib
import json
import os
import random
import signal
import socket
import subprocess
import threading

from harness import Case, TIME_SCALE, host

HERE = ("10.77.0.1", "fd77::1")
THERE = ("10.77.0.2", "fd77::2")
MIB = 1 << 20


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

    def test_first(self):
        """ICMP and TCP of both families, large transfers both ways, and nothing left in the namespace."""
        self.pair()
        data = random.Random(1).randbytes(8 * MIB)
        down, up = Server(HERE[0], sender(data)), Server(HERE[0], receive_all)
        six = Server(HERE[1], receive_all, socket.AF_INET6)
        text = self.run_script(
            "ip addr show eth0; ip route; ping -c 2 %s && ping -c 2 -6 %s && nc %s %d </dev/null >/dev/shm/x && "
            "nc %s %d </dev/shm/x && nc %s %d </dev/shm/x"
            % (HERE[0], HERE[1], HERE[0], down.port, HERE[0], up.port, HERE[1], six.port))
        self.assertIn("inet 10.77.0.2/24", text)
        self.assertIn("default via 10.77.0.1 dev eth0", text)
        for server in (down, up, six):
            server.join(10 * TIME_SCALE)
        self.assertEqual(hashlib.sha256(up.result).hexdigest(), hashlib.sha256(data).hexdigest())
        self.assertEqual(hashlib.sha256(six.result).hexdigest(), hashlib.sha256(data).hexdigest())
        self.assertEqual(self.namespace.links(), {"lo", "eth0"})
        self.assertEqual(self.namespace.tables(), "")
