# SPDX-License-Identifier: GPL-2.0-or-later
"""
What the runners of integration and engine tests share: namespaces of their own, a line a test, and the sum at the end.
"""
import os
import signal
import subprocess
import sys
import time
import unittest

LIMIT = 900 if os.environ.get("MOAT_LAB") == "1" else 300  # seconds for one test, however it is written
HERE = os.path.dirname(os.path.abspath(__file__))


def isolation(script):
    """The command that runs this script again, with the same arguments, inside namespaces of its own."""
    return ["unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child", "--propagation", "private",
            "--mount-proc", sys.executable, os.path.abspath(script), *sys.argv[1:]]


def fetch_trees(tests, default=None):
    """
    Makes the Debian root file systems that tests want: their packages come over the network, which the namespaces do not have.
    default: what tests want that do not say. Where that fails, the tests that need one will say so.
    """
    import bundles
    wanted = {getattr(type(test), "packages", default) for test in tests if not getattr(type(test), "__unittest_skip__", False)}
    for packages in wanted - {None}:
        try:
            bundles.debian_rootfs(packages)
        except (OSError, RuntimeError) as error:
            print("no Debian root file system: %s" % error, file=sys.stderr)


def prepare_namespace():
    """The first process of the namespaces: the mounts, the loopback interface, then a reaper with the tests as its child."""
    import bundles
    keep = [p for p in (os.path.dirname(os.path.dirname(HERE)), bundles.CACHE, os.environ.get("MOAT_BUILD", ""), os.getcwd())
            if p.startswith("/tmp/") and os.path.isdir(p)]
    held = {path: os.open(path, os.O_PATH) for path in keep}
    for path, mode in (("/tmp", "1777"), ("/run", "755"), ("/dev/shm", "1777"), ("/var/tmp", "1777")):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=" + mode, "tmpfs", path], check=True)
    for path, fd in held.items():
        os.makedirs(path, exist_ok=True)
        subprocess.run(["mount", "--no-canonicalize", "--bind", "/proc/self/fd/%d" % fd, path], check=True, pass_fds=[fd])
        os.close(fd)
    # As on a machine under systemd: what leaks out of a container by propagation shows.
    subprocess.run(["mount", "--make-rshared", "/"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.environ["TMPDIR"] = "/tmp"
    child = os.fork()
    if child == 0:
        return
    while True:
        pid, status = os.wait()
        if pid == child:
            os._exit(os.waitstatus_to_exitcode(status) & 0xff)


class Result(unittest.TestResult):
    """Prints a line when a test ends, and what went wrong at the end (or at once, with -x)."""

    def __init__(self, at_once, tests=()):
        super().__init__()
        self.class_sizes = {}
        for test in tests:
            key = "%s.%s" % (type(test).__module__, type(test).__qualname__)
            self.class_sizes[key] = self.class_sizes.get(key, 0) + 1
        self.at_once = at_once
        self.failfast = at_once
        self.passed = self.failed = self.skips = 0
        self.stories = []
        self.told = None

    def startTest(self, test):
        super().startTest(test)
        self.start = time.monotonic()
        self.told = None
        signal.alarm(LIMIT)

    def stopTest(self, test):
        signal.alarm(0)
        super().stopTest(test)

    def line(self, word, test, text=""):
        took = " (%.1f s)" % (time.monotonic() - self.start) if hasattr(self, "start") else ""
        print("%-4s %s%s%s" % (word, name_of(test), took, text), flush=True)

    def _fail(self, test, err):
        story = self._exc_info_to_string(err, test)
        if self.told != id(test):
            self.failed += 1
            self.line("FAIL", test)
        self.told = id(test)
        self.stories.append((name_of(test), story))
        if self.at_once:
            print(story, flush=True)

    def addSuccess(self, test):
        if self.told != id(test):
            self.passed += 1
            self.line("ok", test)

    def addError(self, test, err):
        super().addError(test, err)
        self._fail(test, err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._fail(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self._fail(test, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        # A class that cannot run here counts each of its tests.
        count = 1
        if not isinstance(test, unittest.TestCase):
            count = self.class_sizes.get(test.id().split("(")[-1].rstrip(")"), 1)
        self.skips += count
        self.line("skip", test, (" [%d tests]" % count if count > 1 else "") + ": " + reason)

    def addExpectedFailure(self, test, err):
        self._fail(test, err)

    def addUnexpectedSuccess(self, test):
        self.failed += 1
        self.line("FAIL", test, ": expected to fail")


def too_long(_signal, _frame):
    raise TimeoutError("the test took more than %d s" % LIMIT)


def name_of(test):
    return test.id() if isinstance(test, unittest.TestCase) else str(test.id())


def flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flatten(item)
        else:
            yield item
