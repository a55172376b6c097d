# SPDX-License-Identifier: GPL-2.0-or-later
"""Callers without an engine: buildah, and conmon with the calls that CRI-O makes."""
import json
import os
import shutil
import subprocess
import unittest

import bundles
import engines
import host
import machine
import table
from base import EngineCase, on
from images import BUSYBOX


@on("podman", versions=False)
class Buildah(EngineCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not shutil.which("buildah"):
            raise unittest.SkipTest(table.LOCAL + "no buildah: run contrib/install-packages")

    def buildah(self, *args, status=0):
        done = subprocess.run(["buildah", *args], env=self.engine.environment, cwd=self.work, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60 * host.TIME_SCALE)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def test_buildah(self):
        """buildah: from, run, commit"""
        name = self.buildah("from", "--pull-never", BUSYBOX).strip()
        self.addCleanup(self.buildah, "rm", name)
        run = ("run", "--runtime", engines.binary(self.level), "--isolation", "oci", "--network", "none", name, "--")
        self.assertEqual(self.buildah(*run, "sh", "-c", "echo built > /built; chown 7:8 /built; id -u; uname -r").split()[0], "0")
        self.buildah(*run, "sh", "-c", "exit 5", status=5)
        self.buildah("commit", "--quiet", name, "localhost/alone")
        self.addCleanup(self.cli, "rmi", "-f", "localhost/alone")
        self.assertEqual(self.run_("sh", "-c", "cat /built; stat -c %u:%g /built", image="localhost/alone"), "built\n7:8\n")


@on("podman", versions=False)
class Conmon(EngineCase):
    def setUp(self):
        super().setUp()
        self.key = self.name("crio")
        self.root = self.path("root")
        self.bundle = self.path("bundle")
        bundles.busybox_rootfs(self.bundle + "/rootfs")

    def moat(self, *args, status=0, **options):
        done = subprocess.run([engines.binary(self.level), "--root", self.root, *args], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=60 * host.TIME_SCALE, **options)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def conmon(self, log, *args, answers):
        """Returns that many objects that conmon says over its pipe; it has the pipe as long as it watches over a process."""
        reading, writing = os.pipe()
        command = ["conmon", "--cid", self.key, "--cuuid", self.key, "--name", self.key, "--runtime", engines.binary(self.level),
                   "--runtime-arg", "--root=" + self.root, "--log-path", self.work + "/" + log,
                   "--socket-dir-path", self.work + "/sockets", *args]
        os.makedirs(self.work + "/sockets", exist_ok=True)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=dict(os.environ, _OCI_SYNCPIPE=str(writing)), pass_fds=[writing])
        os.close(writing)
        with open(reading) as said:
            lines = [json.loads(said.readline() or "{}") for _ in range(answers)]
        process.wait(60 * host.TIME_SCALE)
        return lines

    def process(self, *args):
        path = self.work + "/process.json"
        with open(path, "w") as f:
            json.dump(dict(bundles.config(*args)["process"], cwd="/tmp"), f)
        return path

    def test_calls_of_crio(self):
        """CRI-O's calls: create and exec through conmon, exec, update, kill, delete"""
        config = bundles.config("sh", "-c", "echo begun; exec sleep 1000", cgroup="/moat/" + self.key)
        config["linux"]["resources"] = {"memory": {"limit": 64 << 20}}
        bundles.write(self.bundle, config)
        self.assertIn("linux", json.loads(self.moat("features")))
        exits = self.path("exits")
        said = self.conmon("log", "--bundle", self.bundle, "--container-pidfile", self.work + "/pid", "--exit-dir", exits,
                           "--persist-dir", self.work, "--conmon-pidfile", self.work + "/conmon", answers=1)
        pid = said[0].get("pid", 0)
        self.assertGreater(pid, 0, said)
        self.assertEqual(machine.read(self.work + "/pid"), str(pid))
        self.addCleanup(self.moat, "delete", "--force", self.key)
        self.assertEqual(json.loads(self.moat("state", self.key))["status"], "created")
        self.moat("start", self.key)
        self.wait_until(lambda: "begun" in machine.read(self.work + "/log"), "its output is in the log")
        said = self.conmon("exec-log", "--exec", "--exec-process-spec", self.process("sh", "-c", "pwd; exit 7"),
                           "--container-pidfile", self.work + "/exec-pid", answers=1)
        self.assertEqual(said, [{"exit_code": 7}])
        self.assertIn("/tmp", machine.read(self.work + "/exec-log"))
        self.assertEqual(self.moat("exec", "--process", self.process("echo", "in"), self.key), "in\n")
        self.moat("update", "--resources", "-", self.key, input=json.dumps({"memory": {"limit": 48 << 20}}))
        self.moat("kill", self.key, "KILL")
        self.wait_until(lambda: os.path.exists(exits + "/" + self.key), "conmon tells of the end")
        self.assertEqual(machine.read(exits + "/" + self.key), "137")
        self.moat("delete", self.key)
