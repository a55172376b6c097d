# SPDX-License-Identifier: GPL-2.0-or-later
"""Networks: bridges, names, published ports, shared and absent ones."""
import itertools
import os
import socket
import time

import machine
from base import EngineCase, long, on, only
from images import BUSYBOX

_ports = itertools.count(20000)
NO_POD = "a microVM has a kernel of its own and cannot join"
SERVE = "while :; do echo served | nc -l -p 8080; done"


@on("podman", "rootless", "docker")
class Net(EngineCase):
    @property
    def bridge(self):
        return ["--network", "slirp4netns:allow_host_loopback=true" if self.engine.rootless else "bridge" if self.family == "docker" else "podman"]

    def network(self):
        name = self.name("net")
        self.cli("network", "create", name)

        def remove():
            self.engine.remove_all()
            self.cli("network", "rm", name)
        self.addCleanup(remove)
        return name

    def test_none(self):
        """--network none"""
        self.assertEqual(self.run_("ls", "/sys/class/net", flags=["--network", "none"]).split(), ["lo"])

    def test_bridge(self):
        """a bridge: an address, a route, and the gateway answers"""
        with socket.create_server(("0.0.0.0", 0)) as server:
            name = self.start("sh", "-c", "ip -4 -o addr show; ip route; g=$(ip route | awk '/^default/ { print $3 }'); "
                              "echo hello | nc -w 10 $g %d" % server.getsockname()[1], flags=self.bridge)
            server.settimeout(20)
            connection, _ = server.accept()
            with connection:
                self.assertEqual(connection.recv(100), b"hello\n")
        self.assertRegex(self.logs(name), r"(eth0|tap0)\s+inet \d")

    def test_network_of_two(self):
        """two containers on a network of their own, by name"""
        network = self.network()
        server = self.start("sh", "-c", SERVE, flags=["--network", network])
        blind = self.family == "docker" and self.level == "vm"
        where = self.inspect(server, "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}") if blind else server
        out = self.run_("sh", "-c", "for i in $(seq 50); do nc -w 2 %s 8080 < /dev/null && exit; sleep 0.1; done" % where,
                        flags=["--network", network])
        self.assertEqual(out, "served\n")
        if blind:
            self.skipTest("they talk by address; docker answers for names at 127.0.0.11, which in a microVM is the guest itself")

    def test_network_of_another(self):
        """--network container:"""
        server = self.start("sh", "-c", SERVE, flags=self.bridge)
        if self.level == "vm":
            self.refused("run", "--rm", "--network", "container:" + server, BUSYBOX, "true",
                         says="two kernels cannot share its addresses")
        out = self.run_("sh", "-c", "for i in $(seq 50); do nc -w 2 127.0.0.1 8080 < /dev/null && exit; sleep 0.1; done",
                        flags=["--network", "container:" + server])
        self.assertEqual(out, "served\n")

    def test_host(self):
        """--network host"""
        self.kept_from("--network", "host", levels=["sandbox"], says="network namespace")
        if self.level == "vm" and self.family == "docker":
            done = self.engine.call("run", "--rm", "--network", "host", BUSYBOX, "ls", "/sys/class/net")
            if done.returncode == 0:  # docker 28 names no namespace
                self.assertEqual(done.stdout.split(), ["lo"])
            else:
                self.assertIn("a microVM cannot use the host's own network", done.stderr)
            self.skipTest("a microVM cannot use the host's own network: it is refused, or has none (docker 28)")
        if self.level == "vm":
            self.assertEqual(self.run_("ls", "/sys/class/net", flags=["--network", "host"]).split(), ["lo"])
            self.skipTest("a microVM cannot use the host's own network, and has none")
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            name = self.start("sh", "-c", "echo hello | nc 127.0.0.1 %d" % port, flags=["--network", "host"])
            server.settimeout(20)
            connection, _ = server.accept()
            with connection:
                self.assertEqual(connection.recv(100), b"hello\n")
        self.cli("wait", name)

    def test_published(self):
        """-p for TCP"""
        port = next(_ports)
        self.start("sh", "-c", SERVE, flags=[*self.bridge, "-p", "127.0.0.1:%d:8080" % port])

        def answer():
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                    return connection.recv(100) == b"served\n"
            except OSError:
                return False
        self.wait_until(answer, "the port answers")

    @long
    def test_published_udp(self):
        """-p for UDP"""
        port = next(_ports)
        directory = self.path("shared")
        self.inside(directory)
        name = self.start("/shared/inside", "udp", "8080",
                          flags=["-v", directory + ":/shared", *self.bridge, "-p", "127.0.0.1:%d:8080/udp" % port])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            deadline = time.monotonic() + 20
            while "datagram" not in self.logs(name):
                self.assertLess(time.monotonic(), deadline, "nothing came")
                sender.sendto(b"datagram\n", ("127.0.0.1", port))
                time.sleep(0.3)

    def free(self, pod):
        """
        podman 4.3 without systemd lets no process of a pod, nor any runtime in it, open a device under cgroup v2. A cgroup of
        that name that is made anew does not have the program that refuses it.
        """
        if not os.path.exists("/sys/fs/cgroup/cgroup.controllers") or self.engine.rootless:
            return
        path = "/sys/fs/cgroup" + self.cli("pod", "inspect", "--format", "{{.CgroupPath}}", pod).strip()
        controllers = machine.read(path + "/cgroup.subtree_control").split()
        os.rmdir(path)
        os.mkdir(path)
        machine.write(path + "/cgroup.subtree_control", " ".join("+" + name for name in controllers))

    @only("podman", "rootless", why="docker has no pods")
    def test_pod(self):
        """pods: one network, one set of names"""
        pod = self.name("pod")
        self.cli("pod", "create", "--name", pod, "--network", "none")
        self.addCleanup(self.cli, "pod", "rm", "--force", "--time", "0", pod)
        self.free(pod)
        if self.level == "vm":
            self.refused("run", "--rm", "--pod", pod, BUSYBOX, "true", says=NO_POD)
        self.cli("run", "-d", "--pod", pod, BUSYBOX, "sh", "-c", SERVE)
        out = self.cli("run", "--rm", "--pod", pod, BUSYBOX, "sh", "-c", "hostname; for i in $(seq 50); do nc -w 2 127.0.0.1 8080 "
                       "< /dev/null && exit; sleep 0.1; done")
        self.assertEqual(out, pod + "\nserved\n")

    @long
    @only("podman", "rootless", why="docker plays no kube")
    def test_play_kube(self):
        """play kube, and down"""
        pod = self.name("kube")
        reader = """
  - name: reader
    image: %s
    imagePullPolicy: Never
    command: ["sh", "-c", "while ! test -s /shared/file; do sleep 0.1; done; cat /shared/file; sleep 1000"]
    volumeMounts: [{name: shared, mountPath: /shared}]""" % BUSYBOX
        file = self.path("pod.yaml", """apiVersion: v1
kind: Pod
metadata:
  name: %s
spec:
  restartPolicy: Never
  containers:
  - name: writer
    image: %s
    imagePullPolicy: Never
    command: ["sh", "-c", "echo from-kube > /shared/file; sleep 1000"]
    volumeMounts: [{name: shared, mountPath: /shared}]
    env: [{name: A, value: b}]
    resources: {%s}%s
  volumes: [{name: shared, emptyDir: {}}]
""" % (pod, BUSYBOX, "" if self.engine.rootless else "limits: {memory: 64Mi}", "" if self.level == "vm" else reader))
        self.addCleanup(self.cli, "play", "kube", "--down", file)
        self.cli("play", "kube", "--start=false", "--network", "none", file)
        self.free(pod)
        if self.level == "vm":
            self.refused("pod", "start", pod, says=NO_POD)
        self.cli("pod", "start", pod)
        self.wait_logs(pod + "-reader", "from-kube")

    @only("docker", why="podman's restore their networks in other ways")
    def test_reconnect(self):
        """network connect and disconnect while it runs"""
        network = self.network()
        name = self.start("sleep", "1000", flags=self.bridge)
        self.cli("network", "connect", network, name)
        if self.level == "vm":
            self.cli("restart", "-t", "0", name)
            self.assertIn("eth1", self.cli("exec", name, "ls", "/sys/class/net"))
            self.skipTest("a microVM has the networks that were there when it was started: docker restart NAME")
        self.assertIn("eth1", self.cli("exec", name, "ls", "/sys/class/net"))
        self.cli("network", "disconnect", network, name)
        self.assertNotIn("eth1", self.cli("exec", name, "ls", "/sys/class/net"))
