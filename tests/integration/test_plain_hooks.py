# SPDX-License-Identifier: GPL-2.0-or-later
"""Hooks at level plain: which run, where, when, and what their failure does."""
import json
import os
import subprocess
import time

from harness import Case, at_levels, differs, host

KINDS = ("prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop")


@at_levels("plain", "vm", quick={"vm": ["test_all_in_their_order", "test_namespaces"]})
class Hooks(Case):
    def script(self, name, text):
        path = os.path.join(self.work, name)
        with open(path, "w") as f:
            f.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
        return path

    def hook(self, kind, text, **more):
        return {kind: [dict(path=self.script(kind, text), args=[kind, "first"], **more)]}

    def with_hooks(self, *args, **hooks):
        def change(c):
            c["hooks"] = hooks
            if "startContainer" in hooks:
                for entry in hooks["startContainer"]:
                    inside = os.path.join(self.rootfs, "hook")
                    with open(entry["path"]) as source, open(inside, "w") as f:
                        f.write(source.read())
                    os.chmod(inside, 0o755)
                    entry["path"] = "/hook"
        self.bundle(*args, change=change)

    def test_hook_ends_with_the_command_that_runs_it(self):
        """A hook whose create (start, delete) was killed would go on beside a container that nobody knows."""
        for kind in KINDS:
            with self.subTest(kind):
                inside = kind == "startContainer"
                mark = "/mark" if inside else os.path.join(self.work, "mark")
                self.with_hooks("sleep", "1000", **self.hook(kind, "echo >%s; exec sleep 1234\n" % mark))
                self.hook_is_ended(kind, self.rootfs + mark if inside else mark)

    def hook_is_ended(self, kind, mark):
        name = self.new_id()
        before = host.processes()
        if kind in ("startContainer", "poststart", "poststop"):
            self.create(name=name)
            command = ["start", name]
        else:
            command = ["create", "--bundle", self.bundle_path, name]
        if kind == "poststop":
            command = ["delete", "--force", name]
        process = self.start_moat(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_until(lambda: os.path.exists(mark), "the hook runs")
        os.unlink(mark)
        process.kill()
        process.wait()
        if kind.endswith("Container"):  # that is init's child
            self.ok("delete", "--force", name)
        self.wait_until(lambda: not [p for p, c in host.processes().items() if p not in before and "sleep 1234" in c], "it has ended")
        with open(os.path.join(self.work, kind), "w") as f:
            f.write("#!/bin/true\n")
        self.ok("delete", "--force", name)

    def test_all_in_their_order(self):
        log = os.path.join(self.work, "log")
        os.makedirs(os.path.join(self.work, "shared"))
        hooks = {}
        for kind in KINDS:
            where = "/shared/log" if kind == "startContainer" else os.path.join(self.work, "shared/log")
            hooks.update(self.hook(kind, "echo $1 $0 $X $(cat | tr -d '\\n') >> %s\n" % where, env=["X=" + kind, "PATH=/bin:/usr/bin"]))
        self.with_hooks("sh", "-c", "echo program >> /shared/log; sleep 0.3", **hooks)
        self.config["mounts"].append({"destination": "/shared", "source": os.path.join(self.work, "shared"), "type": "bind",
                                      "options": ["bind"]})
        self.config["annotations"] = {"who": "me"}
        self.write_config()
        name = self.create()
        log = os.path.join(self.work, "shared/log")
        with open(log) as f:
            self.assertEqual([line.split()[2] for line in f], ["prestart", "createRuntime", "createContainer"])
        pid = self.pid(name)
        self.ok("start", name)
        self.wait_status(name, "stopped")
        self.ok("delete", name)
        states = {}
        order = []
        with open(log) as f:
            for line in f:
                if line == "program\n":
                    order.append("program")
                    continue
                first, _, kind, state = line.split(" ", 3)
                self.assertEqual(first, "first")
                states[kind] = json.loads(state)
                order.append(kind)
        self.assertEqual([kind for kind in order if kind not in ("program", "poststart")],
                         [kind for kind in KINDS if kind != "poststart"])
        self.assertLess(order.index("startContainer"), order.index("program"))
        self.assertLess(order.index("startContainer"), order.index("poststart"))
        for kind, status, its_pid in (("prestart", "creating", pid), ("createRuntime", "creating", pid),
                                      ("createContainer", "creating", pid if self.level == "vm" else 1), ("startContainer", "created", 1),
                                      ("poststart", "running", pid), ("poststop", "stopped", 0)):
            state = states[kind]
            self.assertEqual((state["id"], state["status"], state["bundle"], state["annotations"]),
                             (name, status, self.bundle_path, {"who": "me"}), kind)
            self.assertEqual(state.get("pid", 0), its_pid, kind)

    def test_namespaces(self):
        """createRuntime sees the host, createContainer the container's namespaces and still the host's files."""
        os.makedirs(os.path.join(self.work, "out"))
        hooks = {}
        for kind in ("createRuntime", "createContainer"):
            hooks.update(self.hook(kind, "readlink /proc/self/ns/net /proc/self/ns/mnt > %s/out/%s\n" % (self.work, kind)))
        self.with_hooks("sh", "-c", "readlink /proc/self/ns/net; readlink /proc/self/ns/mnt", **hooks)
        ours = "".join(os.readlink("/proc/self/ns/" + kind) + "\n" for kind in ("net", "mnt"))
        theirs = self.run_container().stdout.decode()
        with open(self.work + "/out/createRuntime") as f:
            self.assertEqual(f.read(), ours)
        with open(self.work + "/out/createContainer") as f:
            net, mnt = f.read().split()
        if self.level == "vm":  # whose files are in the guest: it is in the network namespace that the host has for it
            self.assertEqual(mnt, ours.split()[1])
            self.assertNotEqual(net, ours.split()[0])
        else:
            self.assertEqual([net, mnt], theirs.split())

    @differs("vm", "a guest has interfaces that have a peer: test_vm_network makes one by a hook")
    def test_network_can_be_made_by_a_hook(self):
        """As dockerd does: the hook finds the network namespace by the state's pid."""
        self.with_hooks("cat", "/proc/net/dev", **self.hook(
            "prestart", "pid=$(sed 's/.*\"pid\":\\([0-9]*\\).*/\\1/'); "
            "nsenter --net=/proc/$pid/ns/net ip link add dummy7 type dummy || "
            "nsenter --net=/proc/$pid/ns/net ip link add dummy7 type bridge\n", env=["PATH=/sbin:/bin:/usr/sbin:/usr/bin"]))
        self.assertIn(b"dummy7", self.run_container().stdout)

    def test_failures_before_the_start(self):
        for kind in ("prestart", "createRuntime", "createContainer"):
            self.with_hooks("true", **self.hook(kind, "echo because of this >&2; exit 3\n"))
            self.refused("create", "--bundle", self.bundle_path, self.new_id(),
                         says=[kind, "exit status 3", "because of this"])

    def test_failure_in_the_container(self):
        self.with_hooks("echo", "never", **self.hook("startContainer", "echo no >&2; exit 4\n"))
        done = self.run_container()
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(done.stdout, b"")
        self.assertIn(b"startContainer", done.stderr)

    def test_failure_of_poststart_ends_the_container(self):
        self.with_hooks("sleep", "1000", **self.hook("poststart", "exit 1\n"))
        name = self.create()
        self.refused("start", name, says="poststart")
        self.wait_status(name, "stopped")
        self.ok("delete", name)

    def test_failure_of_poststop_is_a_warning(self):
        self.with_hooks("true", **self.hook("poststop", "exit 1\n"))
        name = self.create()
        self.ok("start", name)
        self.wait_status(name, "stopped")
        self.assertIn(b"poststop", self.ok("delete", name).stderr)

    def test_timeout(self):
        self.with_hooks("true", **self.hook("createRuntime", "sleep 1000\n", timeout=1))
        begin = time.monotonic()
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=["createRuntime", "1 second"])
        self.assertLess(time.monotonic() - begin, 15)

    def test_missing(self):
        self.with_hooks("true", createRuntime=[{"path": "/no/such/hook"}])
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=["/no/such/hook", "No such file"])

    def test_output_is_not_the_containers(self):
        self.with_hooks("echo", "mine", **self.hook("createRuntime", "echo noise; cat /dev/zero | head -c 200000 >&2\n"))
        self.assertEqual(self.run_container().stdout, b"mine\n")

    def test_output_to_files_of_crun(self):
        """run.oci.hooks.stdout and .stderr, where the operator lets them; a program of the container's writes to none."""
        out, errors = os.path.join(self.work, "hooks.out"), os.path.join(self.work, "hooks.err")
        kinds = ("createRuntime", "createContainer", "startContainer", "poststart", "poststop")
        annotations = {"run.oci.hooks.stdout": out, "run.oci.hooks.stderr": errors}

        def change(c):
            c["annotations"] = annotations
            c["hooks"] = {kind: [{"path": "/bin/sh", "args": ["sh", "-c", "echo out of %s; echo error of %s >&2" % (kind, kind)]}]
                          for kind in kinds}
        self.bundle("true", change=change)
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=["run.oci.hooks.stdout", "operator's file"])
        self.settings["annotations"] = list(annotations)
        self.write_settings()
        for _ in range(2):  # they are appended to
            self.assertEqual(self.run_container().returncode, 0)
        for path, word in ((out, "out"), (errors, "error")):
            with open(path) as f:
                self.assertEqual(f.read().splitlines(), ["%s of %s" % (word, kind) for kind in kinds if kind != "startContainer"] * 2)
        annotations["run.oci.hooks.stdout"] = "relative"
        self.write_config()
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=["run.oci.hooks.stdout", "absolute"])

    def test_descriptors(self):
        out = os.path.join(self.work, "fds")
        self.with_hooks("true", **self.hook("createContainer", "ls /proc/self/fd > %s\n" % out))
        self.assertEqual(self.run_container().returncode, 0)
        with open(out) as f:
            self.assertEqual(f.read().split(), ["0", "1", "2", "3"])
