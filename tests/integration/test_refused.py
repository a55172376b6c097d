# SPDX-License-Identifier: GPL-2.0-or-later
"""Bad input: each time one clear line, a status that is not 0, and nothing left (the harness looks)."""
import json
import os
import shutil

from harness import Case, at_levels, config, find_init, find_kernel


@at_levels("plain", "vm")
class Refused(Case):
    def refuse_run(self, *flags, says=(), status=None, name=None):
        """run and create must say the same."""
        text = self.refused("run", "--bundle", self.bundle_path, *flags, name or self.new_id(), says=says, status=status)
        self.refused("create", "--bundle", self.bundle_path, *flags, name or self.new_id(), says=says, status=status)
        return text

    def refuse_config(self, change, says=(), status=None):
        self.bundle("true", change=change)
        return self.refuse_run(says=says, status=status)

    def test_no_config(self):
        self.bundle("true")
        os.unlink(os.path.join(self.bundle_path, "config.json"))
        self.refuse_run(says="config.json")

    def test_config_that_is_no_regular_file(self):
        """None of these is waited for: bundle's file, --config's, the operator's and the state of a container."""
        self.bundle("true")
        paths = [os.path.join(self.work, name) for name in ("fifo", "directory")] + ["/dev/zero"]
        os.mkfifo(paths[0])
        os.mkdir(paths[1])
        file = os.path.join(self.bundle_path, "config.json")
        for path in paths:
            os.unlink(file)
            os.symlink(path, file)
            self.refuse_run(says=("config.json: it is not a regular file",))
            self.refused("--config", path, "list",
                         says=("operator's file", path + ": it is not a regular file", "--config names it"))
        for path in paths:
            os.unlink(file)
            self.write_config()
            self.refuse_run("--config", path, says=(path + ": it is not a regular file",))
        root = os.path.join(self.work, "root")
        os.makedirs(root + "/one")
        os.mkfifo(root + "/one/state.json")
        self.assertEqual(json.loads(self.ok("--root", root, "state", "one").stdout)["status"], "stopped")  # it is damaged
        self.ok("--root", root, "delete", "one")

    def test_no_bundle(self):
        self.bundle_path = os.path.join(self.work, "nowhere")
        self.refuse_run(says=self.bundle_path)

    def test_broken_json(self):
        self.bundle("true")
        self.config = '{\n "ociVersion": "1.2.0",\n "process": {,}\n}\n'
        self.write_config()
        self.refuse_run(says="config.json:3:14:")

    def test_half_a_character(self):
        self.bundle("true")
        self.config = '{\n "ociVersion": "1.2.0",\n "hostname": "a\\ud800"\n}\n'
        self.write_config()
        self.refuse_run(says=("config.json:3:16:", "surrogate"))

    def test_long_names_leave_room_for_the_reason(self):
        """A message has an end, and what matters stands there."""
        long = "/" + "/".join(["n" * 200] * 19) + "/end"

        def source(c):
            c["mounts"].append({"destination": "/mnt", "type": "bind", "source": long, "options": ["bind"]})
        text = self.refuse_config(source, says=("/end", "No such file or directory"))
        self.assertLess(len(text), 1100)

        def root(c):
            c["root"]["path"] = long
        self.refuse_config(root, says=("find the root file system /nnn", "/end: No such file or directory"))

        def both(c):
            c["mounts"].append({"destination": long + "\u00e9" * 3000, "type": "tmpfs" * 900, "source": "x"})
        text = self.refuse_config(both)
        self.assertLess(len(text), 1100)
        self.refuse_config(lambda c: c["process"].update(args=[long]), says=long[:20], status=127)

    def test_truncated_json(self):
        self.bundle("true")
        self.config = json.dumps(config("true"))[:-2]
        self.write_config()
        self.refuse_run(says="config.json")

    def test_empty_config(self):
        self.bundle("true")
        self.config = ""
        self.write_config()
        self.refuse_run(says="config.json: it is empty")
        empty = os.path.join(self.work, "empty")
        os.mknod(empty)
        self.refused("--config", empty, "list", says=empty + ": it is empty")

    def test_wrong_type(self):
        def soft(c):
            c["process"]["rlimits"] = [{"type": "RLIMIT_NOFILE", "hard": 10, "soft": "ten"}]
        self.refuse_config(soft, says=("process.rlimits[0].soft", "unsigned integer", "string"))

    def test_wrong_type_of_an_object(self):
        self.refuse_config(lambda c: c.update(process=[]), says="process")

    def test_no_args(self):
        self.refuse_config(lambda c: c["process"].pop("args"), says="process.args")

    def test_empty_args(self):
        self.refuse_config(lambda c: c["process"].update(args=[]), says="process.args")

    def test_no_root(self):
        self.refuse_config(lambda c: c.pop("root"), says="root")

    def test_rootfs_missing(self):
        self.bundle("true")
        shutil.rmtree(self.rootfs)
        self.refuse_run(says="rootfs")

    def test_rootfs_is_a_file(self):
        self.bundle("true")
        shutil.rmtree(self.rootfs)
        with open(self.rootfs, "w"):
            pass
        self.refuse_run(says=("rootfs: Not a directory", "root.path of config.json"))

    def test_cwd_is_a_file(self):
        self.refuse_config(lambda c: c["process"].update(cwd="/etc/passwd"),
                           says=("working directory /etc/passwd: Not a directory", "process.cwd of config.json"))

    def test_variable_without_value(self):
        self.refuse_config(lambda c: c["process"]["env"].append("FOO"), says=("process.env[", "expected NAME=VALUE", '"FOO"'))

    def test_relative_cwd(self):
        self.refuse_config(lambda c: c["process"].update(cwd="tmp"), says="process.cwd")

    def test_unknown_namespace(self):
        self.refuse_config(lambda c: c["linux"]["namespaces"].append({"type": "soul"}), says=("namespaces", "soul"))

    def test_namespace_twice(self):
        self.refuse_config(lambda c: c["linux"]["namespaces"].append({"type": "pid"}), says="pid")

    def test_rlimit_twice(self):
        self.refuse_config(lambda c: c["process"]["rlimits"].append(c["process"]["rlimits"][0]), says="RLIMIT_NOFILE")

    def test_program_missing(self):
        self.refuse_config(lambda c: c["process"].update(args=["/no/such/program"]), says="/no/such/program", status=127)

    def test_program_missing_in_path(self):
        self.refuse_config(lambda c: c["process"].update(args=["nosuchprogram"]), says="nosuchprogram", status=127)

    def test_program_not_executable(self):
        self.refuse_config(lambda c: c["process"].update(args=["/etc/passwd"]), says="/etc/passwd", status=126)

    def test_program_is_a_directory(self):
        self.refuse_config(lambda c: c["process"].update(args=["/tmp"]), says="/tmp", status=126)

    def test_proc_is_a_symlink(self):
        self.bundle("true")
        os.rmdir(os.path.join(self.rootfs, "proc"))
        os.symlink("/tmp", os.path.join(self.rootfs, "proc"))
        self.refuse_run(says="/proc")

    def test_dev_is_a_symlink(self):
        self.bundle("true")
        os.rmdir(os.path.join(self.rootfs, "dev"))
        os.symlink("tmp", os.path.join(self.rootfs, "dev"))
        self.refuse_run(says="/dev")

    def test_ids(self):
        self.bundle("true")
        for name in ("a/b", "..", ".", "", "x" * 1100, "a b", "../../tmp/x", "a\nb"):
            with self.subTest(name=name):
                self.refused("run", "--bundle", self.bundle_path, "--", name)
                for command in ("state", "start", "kill", "delete"):
                    self.refused(command, "--", name)

    def test_id_in_use(self):
        self.bundle("sleep", "1000")
        name = self.create()
        pid = self.pid(name)
        self.refuse_run(name=name, says=name)
        self.assertEqual((self.state(name)["status"], self.pid(name)), ("created", pid))
        self.ok("delete", "--force", name)

    def test_no_such_container(self):
        for command in ("state", "start", "kill", "delete"):
            self.refused(command, "nothere", says="nothere")

    def test_pid_file_in_no_directory(self):
        self.bundle("sleep", "1000")
        self.refuse_run("--pid-file", os.path.join(self.work, "no/such/pid"), says="no/such/pid")


@at_levels("vm")
class RefusedKernel(Case):
    """What the operator's file names must be there and be what it should be."""

    def refuse(self, says):
        self.bundle("true")
        self.write_settings()
        return self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=says)

    def file(self, data):
        path = os.path.join(self.work, "file")
        with open(path, "wb") as f:
            f.write(data)
        return path

    def test_kernel_of_the_bundle(self):
        """A file of the host's by a bundle's choice: only where the operator lets it."""
        self.bundle("true", change=lambda c: c.update(vm={"kernel": {"path": find_kernel(), "parameters": ["quiet"]}}))
        self.write_settings()
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says="vm.kernel")
        self.settings["bundleKernel"] = True
        self.write_settings()
        self.assertEqual(self.run_container().returncode, 0)

    def test_no_kernel(self):
        self.settings["kernel"] = os.path.join(self.work, "nowhere")
        self.refuse(self.settings["kernel"])

    def test_kernel_is_empty(self):
        self.settings["kernel"] = self.file(b"")
        self.refuse(self.settings["kernel"])

    def test_kernel_is_text(self):
        self.settings["kernel"] = self.file(b"I am no kernel\n" * 1000)
        self.refuse(self.settings["kernel"])

    def test_kernel_is_truncated(self):
        with open(find_kernel(), "rb") as f:
            for size in (100, 5 << 20):
                f.seek(0)
                self.settings["kernel"] = self.file(f.read(size))
                self.refuse(self.settings["kernel"])

    def test_kernel_is_a_program(self):
        self.settings["kernel"] = shutil.which("busybox")
        self.refuse(self.settings["kernel"])

    def test_no_regular_file(self):
        fifo = os.path.join(self.work, "fifo")  # that nobody writes to
        os.mkfifo(fifo)
        for key in ("kernel", "init"):
            for path in (fifo, self.work, "/dev/zero"):
                with self.subTest(key, path=path):
                    self.settings.update(kernel=find_kernel(), init=find_init())
                    self.settings[key] = path
                    self.refuse(path + ": it is not a regular file")

    def test_no_init(self):
        self.settings["init"] = os.path.join(self.work, "nowhere")
        self.refuse(self.settings["init"])

    def test_init_is_no_initramfs(self):
        for data in (b"", b"07", b"root:x:0:0\n"):
            self.settings["init"] = self.file(data)
            self.refuse((self.settings["init"] + ": it is not an initramfs", 'as "init"'))

    def test_init_is_not_moats(self):
        """An archive that has no init: the kernel panics, and what it needs is said."""
        self.settings["init"] = self.file(b"070701" + b"0" * 88 + b"0000000b" + b"0" * 8 + b"TRAILER!!!" + bytes(400))
        self.refuse(("boot the guest kernel", "moat kernel import printed"))

    def test_no_device(self):
        """/dev/kvm is hidden by an empty directory over /dev."""
        self.bundle("true")
        self.hide_kvm("true")
        self.hide_kvm("mknod -m 600 /dev/kvm c 1 3")  # a device that is not KVM

    def hide_kvm(self, then):
        import subprocess
        script = ("umask 0; mount -t tmpfs tmpfs /dev && mknod /dev/null c 1 3 && mknod /dev/urandom c 1 9 && %s && "
                  "exec \"$@\"" % then)
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh",
                               *self.command("run", "--bundle", self.bundle_path, self.new_id())],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/dev/kvm", done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


class CommandLine(Case):
    def test_unknown_command(self):
        self.refused("dance", says=("dance", "--help"))

    def test_unknown_flag(self):
        self.refused("--dance", says=("--dance", "--help"))
        self.refused("run", "--dance", "x", says=("--dance", "--help"))

    def test_flag_without_value(self):
        self.refused("run", "--bundle", says="--bundle")

    def test_arguments_missing_or_too_many(self):
        for command in ("run", "create", "start", "state", "kill", "delete"):
            self.refused(command)
        self.refused("state", "a", "b")

    def test_unknown_level(self):
        self.bundle("true")
        command = self.command("run", "--bundle", self.bundle_path, self.new_id(), level="fortress")
        import subprocess
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("fortress", done.stderr)

    def test_settings(self):
        self.bundle("true")
        for text, says in (("{", "moat.json"), ('{"vcpu": 1}', "vcpu"), ('{"memory": "much"}', "memory"),
                           ('{"vcpus": 0}', "vcpus")):
            with open(self.settings_path, "w") as f:
                f.write(text)
            self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=says)

    def test_log_that_cannot_be_opened(self):
        done = self.moat("--log", os.path.join(self.work, "no/log"), "state", "x")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"no/log", done.stderr)
