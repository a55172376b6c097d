# SPDX-License-Identifier: GPL-2.0-or-later
"""
The base of integration tests: they drive the moat binary as an engine or a person does, and look from outside.

    from harness import Case, at_levels

    @at_levels("plain", "vm")
    class Status(Case):
        def test_exit_status(self):
            self.bundle("sh", "-c", "exit 7")
            self.assertEqual(self.run_container().returncode, 7)

runs once a level; what has to be otherwise at one of them says so with @differs. Every test has a bundle and a --root of
its own and is checked for what it left on the host. All times are in seconds of a real machine; in the lab they are
multiplied by MOAT_TIME_SCALE. See run for how tests are started.
"""
import atexit
import functools
import glob
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import bundles
import host
from bundles import config  # noqa: F401: for the tests' use
from host import IN_LAB, RUN_TAG, SANITIZED, TIME_SCALE

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("MOAT_BUILD") or os.path.join(TOP, "build")
MOAT = os.environ.get("MOAT") or os.path.join(BUILD, "src/cli/moat")
ALL = os.environ.get("MOAT_TEST_ALL") == "1"
SANITIZER_OPTIONS = {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=99"}
GUEST_TIMEOUT = 600 if IN_LAB else 60  # of the operator's file: there a guest may be slow, and a test has time-outs of its own
TOLD = "while read -r line; do eval \"$line\" 2>&1; echo ///; done"  # a workload that does what it is told: Case.tell()
_numbers = itertools.count(1)
exceptions = []  # (test, level, why), as differs() is told
isolated = False  # set by run, once in namespaces of its own


def at_levels(*levels, quick=None):
    """
    Class decorator: makes one class a level of the test case, named NameLevel, in the same module. quick: {level: names}:
    at that level a machine has to boot for each test, so without MOAT_TEST_ALL (tests/run --all) only those are run.
    """
    def decorate(cls):
        module = sys.modules[cls.__module__]
        for level in levels:
            name = cls.__name__ + level.capitalize()
            members = {"level": level, "__module__": cls.__module__, "__doc__": cls.__doc__}
            for test in [test for test in dir(cls) if test.startswith("test_")]:
                if level in getattr(getattr(cls, test), "differs", {}):
                    members[test] = None
                elif quick and level in quick and test not in quick[level] and not ALL:
                    members[test] = None
            setattr(module, name, type(name, (cls,), members))
        return None  # the undecorated class is no test
    return decorate


def differs(level, why):
    """Decorator of a test: what it is about is otherwise at that level, where it does not run. Why is for the reader."""
    def decorate(function):
        function.differs = {**getattr(function, "differs", {}), level: why}
        exceptions.append((function, level, why))
        return function
    return decorate


@functools.cache
def find_kernel():
    """The guest kernel: MOAT_KERNEL, or the one that contrib/kernel/build has made of this tree."""
    given = os.environ.get("MOAT_KERNEL")
    if given:
        return given
    done = subprocess.run([os.path.join(TOP, "contrib/kernel/build"), "--cached"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip() or None


def find_init():
    made = glob.glob(os.path.join(BUILD, "src/guest/*.cpio"))
    return os.environ.get("MOAT_INIT") or (made[0] if made else None)


@functools.cache
def shared_cache():
    """Of all microVMs of a run: only the first of a kind boots its kernel."""
    path = tempfile.mkdtemp(prefix="moat-cache-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def program(name):
    """A static program that is made for a test to run inside; no sanitized build has such."""
    path = os.path.join(BUILD, "tests/integration", name)
    if not os.access(path, os.X_OK):
        raise unittest.SkipTest("no %s in this build: the sanitized one has no static programs" % name)
    return path


def why_no_level(level):
    """None where tests of that level can run, else the reason."""
    if os.geteuid() != 0:
        return "not root"
    if level == "vm":
        if not os.access("/dev/kvm", os.R_OK | os.W_OK):
            return "no /dev/kvm that can be opened"
        with open("/proc/cpuinfo") as f:
            flags = f.read().split()
        if "svm" not in flags and "vmx" not in flags:
            return "KVM without hardware virtualization cannot boot a guest kernel (use tests/lab/run)"
        if not find_kernel():
            return "no guest kernel: run contrib/kernel/build"
        if not find_init():
            return "no agent in %s" % BUILD
    return None


class Case(unittest.TestCase):
    """One test class at one isolation level."""
    level = "plain"
    memory = 128 << 20  # of a guest
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        reason = why_no_level(cls.level)
        if reason:
            raise unittest.SkipTest(reason)
        if not isolated:
            # The check for leftovers kills every process that is new: outside, those are other people's.
            raise RuntimeError("start tests with tests/integration/run, which isolates them")
        if not os.access(MOAT, os.X_OK):
            raise RuntimeError("no %s: run meson setup build && ninja -C build" % MOAT)

    def setUp(self):
        self.work = tempfile.mkdtemp(prefix="moat-test-")
        os.chmod(self.work, 0o755)
        self.root = os.path.join(self.work, "state")
        self.cache = shared_cache() if self.level == "vm" else os.path.join(self.work, "cache")
        self.bundle_path = None
        self.settings = {"cache": self.cache}
        if self.level == "vm":
            self.settings.update(kernel=find_kernel(), init=find_init(), memory=self.memory, guestTimeout=GUEST_TIMEOUT)
        self.settings_path = os.path.join(self.work, "moat.json")
        self.ids = []
        self._children = []
        if SANITIZED:
            self._watch_sanitizers()
        self.write_settings()
        self.before = host.Snapshot(own=[self.work, self.cache])
        self.addCleanup(self._check_leftovers)

    # -- what is set up

    def write_settings(self):
        """Writes the operator's file from self.settings."""
        with open(self.settings_path, "w") as f:
            json.dump(self.settings, f)

    def bundle(self, *args, base="busybox", packages=bundles.DEBIAN_PACKAGES, change=None):
        """
        Makes this test's bundle, of busybox or of "debian" with packages, whose workload is args; change(config) may edit the
        document.
        The config is in self.config; after changing it later, call write_config(). Returns the bundle's path.
        """
        if base != "busybox" and self.level == "sandbox" and IN_LAB:
            self.skipTest("the lab has this machine's files over virtio-fs, where owners cannot be mapped")
        self.bundle_path = os.path.join(self.work, "bundle%d" % next(_numbers))
        rootfs = self.rootfs = os.path.join(self.bundle_path, "rootfs")
        os.makedirs(rootfs)
        if base == "busybox":
            os.rmdir(rootfs)
            bundles.busybox_rootfs(rootfs)
        else:
            self._overlay(bundles.debian_rootfs(packages), rootfs)
        self.config = bundles.config(*args)
        if change:
            change(self.config)
        self.write_config()
        return self.bundle_path

    def _overlay(self, lower, target):
        upper = tempfile.mkdtemp(dir=self.work)
        work = tempfile.mkdtemp(dir=self.work)
        os.chmod(upper, 0o755)
        subprocess.run(["mount", "-t", "overlay", "-o", "lowerdir=%s,upperdir=%s,workdir=%s" % (lower, upper, work),
                        "overlay", target], check=True)
        self.addCleanup(self._unmount, target)

    def _unmount(self, target):
        subprocess.run(["umount", "-l", target], check=True)

    def write_config(self):
        bundles.write(self.bundle_path, self.config)

    def new_id(self):
        """A container id that no other test has, and that is known to the check for leftovers."""
        name = "%s-%d" % (RUN_TAG, next(_numbers))
        self.ids.append(name)
        return name

    # -- calls of moat

    def command(self, *args, level=None):
        """The argument vector of a moat command at this level, with this test's state and operator's file."""
        return [MOAT, "--root", self.root, "--config", self.settings_path,
                "--isolation", level or self.level, *[str(a) for a in args]]

    def moat(self, *args, timeout=20, stdin=subprocess.DEVNULL, input=None, **options):
        """Runs a moat command to its end; output is captured as bytes. A time-out kills it and fails the test."""
        command = self.command(*args)
        if input is not None:
            stdin = subprocess.PIPE
        # Output goes to files: a daemon that keeps a pipe open must not stop us, only the check for leftovers.
        with tempfile.TemporaryFile(dir=self.work) as out, tempfile.TemporaryFile(dir=self.work) as err:
            options.setdefault("stdout", out)
            options.setdefault("stderr", err)
            with subprocess.Popen(command, stdin=stdin, **options) as process:
                try:
                    process.communicate(input, timeout=timeout * TIME_SCALE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    out.seek(0)
                    err.seek(0)
                    self.fail("no end after %.0f s: %s\nstdout: %r\nstderr: %r" % (
                        timeout * TIME_SCALE, " ".join(command), out.read(2000), err.read(2000)))
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(command, process.returncode, out.read(), err.read())

    def ok(self, *args, **options):
        """moat(), which must succeed."""
        done = self.moat(*args, **options)
        self.assertEqual(done.returncode, 0, "%s: %r" % (" ".join(map(str, args)), done.stderr))
        return done

    def refused(self, *args, says=(), status=None, **options):
        """moat(), which must fail with a one-line message that has each of the words in says. Returns the message."""
        done = self.moat(*args, **options)
        text = done.stderr.decode()
        self.assertNotEqual(done.returncode, 0, "%s succeeded" % (args,))
        if done.returncode != 255:  # of exec, told from its command's
            self.assertLess(done.returncode, 128, "%s: died: %s" % (args, text))
        if status is not None:
            self.assertEqual(done.returncode, status, text)
        lines = text.splitlines()
        self.assertEqual(len(lines), 1, "not one line: %r" % text)
        for word in [says] if isinstance(says, str) else says:
            self.assertIn(word, text)
        return text

    def start_moat(self, *args, **options):
        """Starts a moat command and returns the Popen; it is killed at the end of the test if it still runs."""
        options.setdefault("stdin", subprocess.DEVNULL)
        process = subprocess.Popen(self.command(*args), **options)
        self._children.append(process)
        return process

    def run_container(self, *flags, name=None, **options):
        """moat run of this test's bundle in the foreground."""
        return self.moat("run", "--bundle", self.bundle_path, *flags, name or self.new_id(), **options)

    def run_told(self):
        """Starts moat run of this test's bundle, whose workload is `sh -c TOLD`, for tell(). Returns the Popen."""
        return self.start_moat("run", "--bundle", self.bundle_path, self.new_id(), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def tell(self, process, line):
        """Has a workload of TOLD do a command line. Returns its output."""
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        out = b""
        alarm = threading.Timer(60 * TIME_SCALE, process.kill)
        alarm.start()
        while not out.endswith(b"///\n"):
            got = process.stdout.readline()
            self.assertTrue(got, "no answer to '%s': %r" % (line, out))
            out += got
        alarm.cancel()
        return out[:-4].decode()

    def output(self, *args, **bundle):
        """Standard output of a container that runs args, as text; it must end with status 0 and say nothing on stderr."""
        self.bundle(*args, **bundle)
        done = self.run_container()
        self.assertEqual((done.returncode, done.stderr), (0, b""), done.stdout)
        return done.stdout.decode()

    def create(self, *flags, name=None, **options):
        """moat create; returns the id."""
        name = name or self.new_id()
        options.setdefault("stdout", subprocess.DEVNULL)
        self.ok("create", "--bundle", self.bundle_path, *flags, name, **options)
        return name

    def state(self, name):
        """moat state, parsed."""
        return json.loads(self.ok("state", name).stdout)

    def pid(self, name):
        return self.state(name)["pid"]

    def wait_status(self, name, status, timeout=10):
        """Waits until the container's state is status."""
        self.wait_until(lambda: self.state(name)["status"] == status, "%s is %s" % (name, status), timeout)

    def wait_until(self, condition, what, timeout=10):
        deadline = time.monotonic() + timeout * TIME_SCALE
        while not condition():
            if time.monotonic() > deadline:
                self.fail("after %.0f s still not: %s" % (timeout * TIME_SCALE, what))
            time.sleep(0.02)

    # -- the end

    def _watch_sanitizers(self):
        """
        A build with sanitizers reports into files: of processes without anybody at their standard error, too. What is not
        found there shows as a status that no test expects: of processes in a container, where the directory is not, and of
        what C does not define, as GCC's libubsan beside libasan knows standard error only.
        """
        self.reports = os.path.join(self.work, "sanitizers")
        os.mkdir(self.reports)
        os.chmod(self.reports, 0o1777)
        for name, options in SANITIZER_OPTIONS.items():
            os.environ[name] = "%s:log_path=%s/report" % (options, self.reports)

    def _sanitizer_reports(self):
        found = []
        for name in sorted(os.listdir(self.reports)) if SANITIZED else []:
            with open(os.path.join(self.reports, name), errors="replace") as f:
                text = f.read(3000)
            if "ERROR: " in text:  # else it was killed in its last look at its memory, and tells that
                found.append("sanitizer's report: " + text)
        return found

    def _check_leftovers(self):
        for process in self._children:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()
        states = sorted(set(os.listdir(self.root)) & set(self.ids)) if os.path.isdir(self.root) else []
        for name in states:  # so that one test does not spoil the next
            self.moat("delete", "--force", name)
        found = ["container " + name for name in states] + self.before.settle() + self._sanitizer_reports()
        host.kill_leftovers(found)
        shutil.rmtree(self.work, ignore_errors=True)
        if found:
            self.fail("left behind:\n  " + "\n  ".join(found))
