# SPDX-License-Identifier: GPL-2.0-or-later
"""What everybody expects of a runtime, at both levels: streams, statuses, signals, files, and the lifecycle's commands."""
import hashlib
import json
import os
import random
import stat
import subprocess
import threading

from harness import Case, IN_LAB, SANITIZED, at_levels, differs, host

SLOW = (IN_LAB or SANITIZED) and not os.environ.get("MOAT_TEST_ALL")
MIB = 1 << 20


def pattern(size, seed=1):
    """Bytes that do not repeat, made quickly."""
    block = random.Random(seed).randbytes(MIB - 7)  # no multiple of any buffer's size
    for offset in range(0, size, len(block)):
        yield block[:min(len(block), size - offset)]


@at_levels("plain", "sandbox", "vm")
class Streams(Case):
    def test_output_and_error_apart(self):
        self.bundle("sh", "-c", "echo out; echo err >&2")
        done = self.run_container()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"out\n", b"err\n"))

    def test_every_byte_value(self):
        data = bytes(range(256)) * 33
        self.bundle("cat")
        self.assertEqual(self.run_container(input=data).stdout, data)

    def test_end_of_input_is_passed_on(self):
        self.bundle("sh", "-c", "wc -c; echo done")
        self.assertEqual(self.run_container(input=b"12345").stdout, b"5\ndone\n")

    def test_empty_input(self):
        self.bundle("cat")
        self.assertEqual(self.run_container().stdout, b"")

    def test_large_both_ways(self):
        """1 GiB through cat, there and back at the same time, compared by its hash."""
        size = (24 if SLOW else 1024) * MIB
        self.bundle("cat")
        name = self.new_id()
        process = self.start_moat("run", "--bundle", self.bundle_path, name, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
        sent, received = hashlib.sha256(), hashlib.sha256()

        def feed():
            for block in pattern(size):
                sent.update(block)
                process.stdin.write(block)
            process.stdin.close()

        feeder = threading.Thread(target=feed)
        feeder.start()
        total = 0
        while True:
            block = process.stdout.read1(MIB)
            if not block:
                break
            total += len(block)
            received.update(block)
        feeder.join()
        self.assertEqual(process.wait(), 0, process.stderr.read())
        self.assertEqual(total, size)
        self.assertEqual(received.hexdigest(), sent.hexdigest())

    def test_output_to_a_file(self):
        self.bundle("sh", "-c", "echo one; echo two")
        path = os.path.join(self.work, "out")
        with open(path, "wb") as f:
            self.assertEqual(self.run_container(stdout=f).returncode, 0)
        with open(path, "rb") as f:
            self.assertEqual(f.read(), b"one\ntwo\n")

    def test_reader_that_goes_away(self):
        """The workload meets a broken pipe, and its end is reported."""
        self.bundle("sh", "-c", "yes; exit 9")
        process = self.start_moat("run", "--bundle", self.bundle_path, self.new_id(), stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL)
        self.assertEqual(process.stdout.read(4), b"y\ny\n")
        process.stdout.close()
        self.assertEqual(process.wait(timeout=20 * host.TIME_SCALE), 9)

    def test_slow_reader_gets_all(self):
        self.bundle("sh", "-c", "dd if=/dev/zero bs=65536 count=32 2>/dev/null; echo end")
        process = self.start_moat("run", "--bundle", self.bundle_path, self.new_id(), stdout=subprocess.PIPE)
        self.wait_until(lambda: process.poll() is not None or host.processes(), "started")
        process.stdout.read(1)
        threading.Event().wait(0.5)
        rest = process.stdout.read()
        self.assertEqual((len(rest), rest[-4:]), (32 * 65536 + 4 - 1, b"end\n"))
        self.assertEqual(process.wait(), 0)


@at_levels("plain", "sandbox", "vm")
class Status(Case):
    def test_exit_7(self):
        self.bundle("sh", "-c", "exit 7")
        self.assertEqual(self.run_container().returncode, 7)

    def test_true_and_false(self):
        for program, status in (("true", 0), ("false", 1)):
            self.bundle(program)
            self.assertEqual(self.run_container().returncode, status)

    def without_pid_namespace(self, config):
        """So that the workload is no init, which ignores signals that it has no handler for."""
        config["linux"]["namespaces"] = [n for n in config["linux"]["namespaces"] if n["type"] != "pid"]

    def test_killed_by_a_signal(self):
        if self.level == "sandbox":
            self.skipTest("the host's pid namespace is refused, and in its own the first process ignores signals from inside")
        for name, number in (("TERM", 15), ("KILL", 9), ("ABRT", 6)):
            self.bundle("sh", "-c", "kill -%s $$" % name, change=self.without_pid_namespace)
            self.assertEqual(self.run_container().returncode, 128 + number, name)

    def test_segmentation_fault(self):
        self.bundle("/usr/bin/python3", "-c", "import faulthandler; faulthandler._read_null()", base="debian")
        self.assertEqual(self.run_container().returncode, 139)

    def test_signal_reaches_the_workload(self):
        self.bundle("sh", "-c", "trap 'exit 42' TERM; echo ready; while :; do sleep 0.1; done")
        name = self.new_id()
        process = self.start_moat("run", "--bundle", self.bundle_path, name, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.ok("kill", name, "TERM")
        self.assertEqual(process.wait(timeout=20 * host.TIME_SCALE), 42)

    def test_signal_to_moat_run_reaches_the_workload(self):
        self.bundle("sh", "-c", "trap 'exit 43' INT; echo ready; while :; do sleep 0.1; done")
        process = self.start_moat("run", "--bundle", self.bundle_path, self.new_id(), stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        process.send_signal(2)
        self.assertEqual(process.wait(timeout=20 * host.TIME_SCALE), 43)

    def test_signal_names_and_numbers(self):
        self.bundle("sh", "-c", "trap 'echo hup' HUP; trap 'echo usr1' USR1; trap 'exit 5' USR2; echo ready;"
                    "while :; do sleep 0.1; done")
        name = self.new_id()
        process = self.start_moat("run", "--bundle", self.bundle_path, name, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        for signal, answer in (("HUP", b"hup\n"), ("SIGUSR1", b"usr1\n"), ("10", b"usr1\n")):
            self.ok("kill", name, signal)
            self.assertEqual(process.stdout.readline(), answer)
        self.refused("kill", name, "NOSUCH", says="NOSUCH")
        self.refused("kill", name, "99", says="99")
        self.ok("kill", name, "12")
        self.assertEqual(process.wait(timeout=20 * host.TIME_SCALE), 5)

    def test_orphans_are_reaped(self):
        """A daemon in the container, whose parent has gone, leaves no zombie."""
        self.bundle("sh", "-c", "(sh -c 'sleep 0.3' &) ; sleep 1; ps -o stat,comm | grep -c Z")
        self.assertEqual(self.run_container().stdout, b"0\n")


@at_levels("plain", "sandbox", "vm")
class Files(Case):
    def test_debian_python_writes_a_file(self):
        program = ("import os, sys\n"
                   "path = '/srv/result'\n"
                   "open(path, 'w').write(str(sum(n * n for n in range(1000))))\n"
                   "os.chown(path, 1234, 4321)\n"
                   "os.chmod(path, 0o2750)\n"
                   "print(sys.version_info.major)\n")
        self.assertEqual(self.output("/usr/bin/python3", "-c", program, base="debian"), "3\n")
        path = os.path.join(self.rootfs, "srv/result")
        with open(path) as f:
            self.assertEqual(f.read(), "332833500")
        info = os.stat(path)
        self.assertEqual((info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)), (1234, 4321, 0o2750))

    @differs("vm", "the image is the root there: test_vm_storage")
    def test_image_of_a_machine(self):
        """It is no root here: a warning says what is."""
        self.bundle("echo", "hello", change=lambda c: c.update(vm={"image": {"path": "/nonexistent", "format": "raw"}}))
        done = self.run_container()
        self.assertEqual((done.returncode, done.stdout), (0, b"hello\n"), done.stderr)
        self.assertRegex(done.stderr.decode(), r"\Amoat: [^\n]*vm\.image[^\n]*root\.path, %s\n\Z" % self.rootfs)

    def test_workload_with_a_user_of_its_own(self):
        def user(config):
            config["process"]["user"] = {"uid": 1000, "gid": 1000, "additionalGids": [7, 8], "umask": 0o027}
        self.bundle("sh", "-c", "id -u; id -G; echo x >/tmp/file", change=user)
        done = self.run_container()
        self.assertEqual(done.stdout, b"1000\n1000 7 8\n", done.stderr)
        info = os.stat(os.path.join(self.rootfs, "tmp/file"))
        self.assertEqual((info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)), (1000, 1000, 0o640))

    def test_links_and_special_names(self):
        self.bundle("sh", "-c", "cd /tmp && echo a >a && ln a hard && ln -s a soft && mkdir -p d/e/f && mkfifo pipe && "
                    "echo x >'name with  spaces' && echo y >\"$(printf 'new\\nline')\" && mv d/e moved && rm a")
        self.assertEqual(self.run_container().returncode, 0)
        tmp = os.path.join(self.rootfs, "tmp")
        self.assertEqual(sorted(os.listdir(tmp)), ["d", "hard", "moved", "name with  spaces", "new\nline", "pipe", "soft"])
        self.assertEqual(os.readlink(os.path.join(tmp, "soft")), "a")
        self.assertTrue(stat.S_ISFIFO(os.stat(os.path.join(tmp, "pipe")).st_mode))
        self.assertTrue(os.path.isdir(os.path.join(tmp, "moved/f")))

    @staticmethod
    def random_files(seed):
        """200 files as {name: bytes}: any byte in a name but / and NUL, any length up to 255, sizes up to 100 kB."""
        source = random.Random(seed)
        allowed = bytes(b for b in range(1, 256) if b != ord("/"))
        result = {}
        while len(result) < 200:
            name = bytes(source.choices(allowed, k=source.choice((1, 8, 40, 255))))
            if name not in (b".", b".."):
                result[name] = source.randbytes(source.choice((0, 1, 100, 4096, 4097, 100000)))
        return result

    def test_200_random_files_to_the_host(self):
        """The container unpacks an archive; the host compares."""
        files = self.random_files(1)
        self.bundle("sh", "-c", "mkdir /out && cd /out && tar -xf -")
        done = self.run_container(input=archive(files))
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        out = os.fsencode(os.path.join(self.rootfs, "out"))
        self.assertEqual(set(os.listdir(out)), set(files))
        for name, data in files.items():
            with open(os.path.join(out, name), "rb") as f:
                self.assertEqual(f.read(), data, name)

    def test_200_random_files_from_the_host(self):
        """The host writes, the container packs an archive; the host compares."""
        files = self.random_files(2)
        self.bundle("sh", "-c", "cd /in && tar -cf - .")
        directory = os.fsencode(os.path.join(self.rootfs, "in"))
        os.mkdir(directory)
        for name, data in files.items():
            with open(os.path.join(directory, name), "wb") as f:
                f.write(data)
        done = self.run_container()
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(unpacked(done.stdout), files)


def archive(files):
    import io
    import tarfile
    result = io.BytesIO()
    with tarfile.open(fileobj=result, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(os.fsdecode(name))
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return result.getvalue()


def unpacked(data):
    import io
    import tarfile
    result = {}
    with tarfile.open(fileobj=io.BytesIO(data), encoding="utf-8", errors="surrogateescape") as tar:
        for info in tar:
            if info.isfile():
                result[os.fsencode(info.name).removeprefix(b"./")] = tar.extractfile(info).read()
    return result


@at_levels("plain", "sandbox", "vm")
class Kernel(Case):
    def test_uname(self):
        inside = self.output("uname", "-r").strip()
        outside = os.uname().release
        if self.level == "vm":
            self.assertNotEqual(inside, outside)
        else:
            self.assertEqual(inside, outside)

    def test_hostname(self):
        self.assertEqual(self.output("hostname"), "moat-test\n")

    def test_first_process_alone(self):
        self.assertEqual(self.output("sh", "-c", "echo $$; ls -d /proc/[0-9]* | wc -l").split()[0], "1")

    def test_environment_and_directory(self):
        def change(config):
            config["process"].update(env=["PATH=/bin", "A=b c", "EMPTY="], cwd="/tmp")
        self.bundle("sh", "-c", "env | sort; pwd", change=change)
        out = self.run_container().stdout.decode().splitlines()
        for line in ("A=b c", "EMPTY=", "PATH=/bin", "/tmp"):
            self.assertIn(line, out)
        self.assertFalse([line for line in out if line.startswith(("MOAT", "HOME=/root/", "LD_"))], out)

    def test_directory_is_made_in_a_read_only_root(self):
        def change(config):
            config["root"]["readonly"] = True
            config["process"]["cwd"] = "/made/for/it"
        self.assertEqual(self.output("pwd", change=change), "/made/for/it\n")

    def test_no_descriptor_leaks_in(self):
        self.bundle("sh", "-c", "ls -l /proc/self/fd | awk 'NF > 2 { print $9 }' | sort -n | tr '\\n' ' '")
        read, write = os.pipe()
        os.set_inheritable(read, True)
        try:
            out = self.run_container(close_fds=False).stdout.split()
        finally:
            os.close(read)
            os.close(write)
        self.assertEqual(out, [b"0", b"1", b"2", b"3"])  # 3 is ls's own


@at_levels("plain", "sandbox", "vm")
class Lifecycle(Case):
    def test_delete_right_after_kill(self):
        """A container that was sent KILL ends within a moment; delete does not make the caller wait for it."""
        self.bundle("sleep", "1000")
        for _ in range(3 if IN_LAB else 20):
            name = self.create()
            self.ok("start", name)
            self.refused("delete", name, says="kill it first")
            self.ok("kill", name, "KILL")
            self.ok("delete", name)

    def test_create_start_kill_delete(self):
        self.bundle("sh", "-c", "trap 'exit 3' TERM; touch /started; while :; do sleep 0.1; done")
        pid_file = os.path.join(self.work, "pid")
        name = self.create("--pid-file", pid_file)
        state = self.state(name)
        self.assertEqual((state["id"], state["status"], state["bundle"]), (name, "created", self.bundle_path))
        self.assertRegex(state["ociVersion"], r"^1\.\d+\.\d+")
        with open(pid_file) as f:
            self.assertEqual(int(f.read()), state["pid"])
        self.assertFalse(os.path.exists(os.path.join(self.rootfs, "started")))
        self.ok("start", name)
        self.assertEqual(self.state(name)["status"], "running")
        self.wait_until(lambda: os.path.exists(os.path.join(self.rootfs, "started")), "the workload has started")
        self.refused("start", name, says="running")
        self.refused("delete", name, says="running")
        self.ok("kill", name, "TERM")
        self.wait_status(name, "stopped")
        self.refused("kill", name, "TERM", says="signal %s: container not running\n" % name)
        self.ok("delete", name)
        self.refused("state", name, says=name)

    def test_delete_force(self):
        self.bundle("sleep", "1000")
        name = self.create()
        self.ok("start", name)
        self.ok("delete", "--force", name)
        self.refused("state", name, says=name)
        self.ok("delete", "--force", name)  # as runc: nothing to do is no error

    def test_delete_what_never_started(self):
        self.bundle("true")
        self.ok("delete", "--force", self.create())

    def test_detach(self):
        self.bundle("sleep", "1000")
        name = self.new_id()
        self.ok("run", "--detach", "--bundle", self.bundle_path, name, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertEqual(self.state(name)["status"], "running")
        self.ok("kill", name, "KILL")
        self.wait_status(name, "stopped")
        self.ok("delete", name)

    def test_config_changes_after_create_do_not_matter(self):
        self.bundle("sh", "-c", "echo first >/result")
        name = self.create()
        self.config["process"]["args"] = ["sh", "-c", "echo second >/result"]
        self.write_config()
        self.ok("start", name)
        self.wait_status(name, "stopped")
        with open(os.path.join(self.rootfs, "result")) as f:
            self.assertEqual(f.read(), "first\n")
        self.ok("delete", name)

    def test_list(self):
        self.bundle("sleep", "1000")
        names = sorted(self.create() for _ in range(2))
        listed = json.loads(self.ok("list", "--format", "json").stdout)
        self.assertEqual(sorted(c["id"] for c in listed), names)
        self.assertEqual({c["status"] for c in listed}, {"created"})
        self.assertEqual(sorted(self.ok("list", "-q").stdout.decode().split()), names)
        table = self.ok("list").stdout.decode()
        for name in names:
            self.assertIn(name, table)
            self.ok("delete", "--force", name)

    def test_log_of_an_error_in_json(self):
        log = os.path.join(self.work, "log.json")
        done = self.moat("--log", log, "--log-format", "json", "state", "nothere")
        self.assertNotEqual(done.returncode, 0)
        with open(log) as f:
            lines = [json.loads(line) for line in f]
        self.assertEqual(lines[-1]["level"], "error")
        self.assertIn("nothere", lines[-1]["msg"])
        self.assertIn("time", lines[-1])

    def test_twenty_at_once(self):
        self.bundle("sh", "-c", "echo $0; exit 4")
        running = [(self.new_id(), n) for n in range(20)]
        processes = [self.start_moat("run", "--bundle", self.bundle_path, name, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE) for name, _ in running]
        for process in processes:
            out, err = process.communicate(timeout=60 * host.TIME_SCALE)
            self.assertEqual((process.returncode, out, err), (4, b"sh\n", b""))


class Information(Case):
    """Commands that need no level."""

    def test_version(self):
        out = self.ok("--version").stdout.decode()
        self.assertRegex(out, r"^moat version \d+\.\d+\.\d+")
        self.assertIn("spec: 1.", out)

    def test_help(self):
        out = self.ok("--help").stdout.decode()
        for command in ("run", "create", "start", "state", "kill", "delete", "list", "spec", "features", "doctor"):
            self.assertIn(command, out)
            self.assertIn(command, self.ok(command, "--help").stdout.decode())

    def test_features(self):
        features = json.loads(self.ok("features").stdout)
        self.assertEqual(features["ociVersionMin"], "1.0.0")
        self.assertIn("mount", features["linux"]["namespaces"])

    def test_spec_makes_a_config_that_runs(self):
        self.bundle("true")
        os.unlink(os.path.join(self.bundle_path, "config.json"))
        self.ok("spec", "--bundle", self.bundle_path)
        path = os.path.join(self.bundle_path, "config.json")
        with open(path) as f:
            document = json.load(f)
        document["process"].update(terminal=False, args=["echo", "it runs"])
        document["root"]["readonly"] = False
        with open(path, "w") as f:
            json.dump(document, f)
        self.assertEqual(self.run_container().stdout, b"it runs\n")
        self.refused("spec", "--bundle", self.bundle_path, says="config.json")
