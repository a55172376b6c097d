# SPDX-License-Identifier: GPL-2.0-or-later
"""Pods as a kubelet has them: containerd's CRI makes a pause container and a workload in its network, both with moat."""
import json
import os
import subprocess
import unittest

import cri
import images
import machine
import table
from base import EngineCase, on
from images import BUSYBOX

PAUSE = "localhost/pause:latest"
CNI = "/usr/lib/cni"
EXITED = 2


@on("containerd")
class Pod(EngineCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        reason = cri.why_not() or (None if os.path.exists(CNI + "/bridge") else "no containernetworking-plugins")
        if reason:
            raise unittest.SkipTest(table.LOCAL + reason)
        layer = images.busybox_tar(machine.HOME)
        for name, command in ((PAUSE, ["sleep", "1000000"]), (BUSYBOX, ["sh"])):
            archive = images.oci_archive(layer, cls.engine.home + "/cri.tar", name, command)
            cls.engine.must("--namespace", "k8s.io", "image", "import", archive)

    def setUp(self):
        super().setUp()
        self.bridge = "moatcni%d" % table.LEVELS.index(self.level)
        os.makedirs(self.engine.home + "/cni", exist_ok=True)
        machine.write(self.engine.home + "/cni/10-test.conflist", json.dumps({"cniVersion": "1.0.0", "name": self.bridge, "plugins": [
            {"type": "bridge", "bridge": self.bridge, "isGateway": True,
             "ipam": {"type": "host-local", "subnet": "10.66.%d.0/24" % table.LEVELS.index(self.level)}}]}))
        self.addCleanup(subprocess.run, ["ip", "link", "delete", self.bridge], stderr=subprocess.DEVNULL)
        self.wait_until(self.network_is_ready, "containerd has read the network's configuration")
        self.wait_until(self.has_images, "the CRI knows the images")

    def call(self, method, request):
        return cri.call(self.engine.home + "/sock", method, request)

    def network_is_ready(self):
        return b"NetworkReady" in self.call("Status", {})[1] and b"cni config" not in self.call("Status", {})[1]

    def has_images(self):
        listed = self.engine.must("--namespace", "k8s.io", "image", "ls")
        return sum(PAUSE in line or BUSYBOX in line for line in listed.splitlines() if "io.cri-containerd.image=managed" in line) == 2

    def pod(self):
        self.config = {1: {1: self.name("pod"), 2: self.name("uid"), 3: "tests", 4: 0}, 2: "in-the-pod", 3: self.path("logs"), 8: {}}
        pod = self.call("RunPodSandbox", {1: self.config, 2: "moat"})[1].decode()

        def remove():
            self.call("StopPodSandbox", {1: pod})
            self.call("RemovePodSandbox", {1: pod})
        self.addCleanup(remove)
        return pod

    def container(self, pod, *command, limits=None):
        config = {1: {1: self.name()}, 2: {1: BUSYBOX}, 3: list(command), 11: "log",
                  15: {1: limits or {}, 2: {3: {2: 1}}}}  # as a kubelet: processes of its own
        return self.call("CreateContainer", {1: pod, 2: config, 3: self.config})[1].decode()

    def inside(self, container, *command):
        answer = self.call("ExecSync", {1: container, 2: list(command), 3: 60})
        self.assertEqual(answer.get(3, 0), 0, answer)
        return answer.get(1, b"").decode()

    def state(self, container):
        return cri.decode(self.call("ContainerStatus", {1: container})[1])

    def test_pod(self):
        """a CRI pod: pause container and workloads in one network"""
        pod = self.pod()
        if self.level == "vm":
            says = "a microVM has a kernel of its own and cannot join"
            with self.assertRaises(cri.Refused) as raised:
                self.call("StartContainer", {1: self.container(pod, "sleep", "1000")})
            self.assertIn(says, str(raised.exception))
            self.skipTest("refused: " + says)
        server = self.container(pod, "sh", "-c", "while :; do echo served | nc -l -p 8080; done", limits={4: 64 << 20})
        self.call("StartContainer", {1: server})
        address = cri.decode(cri.decode(self.call("PodSandboxStatus", {1: pod})[1])[5])[1].decode()
        self.assertIn(address, self.inside(server, "ip", "-4", "-o", "addr", "show", "eth0"))
        self.assertEqual(self.inside(server, "hostname"), "in-the-pod\n")
        client = self.container(pod, "sh", "-c", "i=0; while [ $i -lt 50 ]; do nc -w 2 127.0.0.1 8080 < /dev/null && exit 4; "
                                "i=$((i+1)); sleep 0.1; done")
        self.call("StartContainer", {1: client})
        self.wait_until(lambda: self.state(client).get(3) == EXITED, "the client has ended")
        self.assertEqual(self.state(client)[7], 4)
        self.assertIn("served", machine.read(self.work + "/logs/log"))
        self.call("UpdateContainerResources", {1: server, 2: {4: 48 << 20}})
        stats = cri.decode(self.call("ContainerStats", {1: server})[1])
        self.assertGreater(cri.decode(cri.decode(stats[3])[2])[1], 4096)
        self.call("StopContainer", {1: server, 2: 0})
        self.assertEqual(self.state(server)[7], 137)
