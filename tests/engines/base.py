# SPDX-License-Identifier: GPL-2.0-or-later
"""
The base of engine tests. A class of them is made once for each engine and level; each method is one feature, and its name a
row of the table that the runner prints at the end:

    @on("podman", "docker")
    class Life(EngineCase):
        def test_run(self):
            self.assertEqual(self.run_("echo", "hi"), "hi\n")

Every test is checked for the containers, processes, mounts, cgroups, interfaces and files that it left.
"""
import itertools
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import engines
import harness
import host
import machine
import table
from host import TIME_SCALE
from images import BUSYBOX

ALL = bool(os.environ.get("MOAT_TEST_ALL"))
_numbers = itertools.count(1)

# What engines keep when the last container is gone: their network's tables and what they lock.
KEPT = re.compile("|".join((
    r"nft table (filter|nat|mangle|raw) of", r"file /run/(netns|lock|docker|containerd|crun|moat|user|libpod|containers)\b",
    r"file /run/xtables.lock", r"file /tmp/(podman-run-|containers-user-|storage-run-)", r"file /var/tmp/",
    r"mount (gone: )?\S+ on \S+/graph/overlay \(", r"mount (gone: )?\S+ on \S*/netns(/default)? ",
    r"cgroup \S+\.slice$",  # systemd's
    r"cgroup \S+/(docker|default|k8s\.io|moat|libpod_parent(/conmon)?)$",
    r"cgroup /sys/fs/cgroup/(systemd|unified)/libpod_parent/[0-9a-f]{64}$",  # of a pod: hierarchies that podman does not know
    r"process \d+: (\S*/)?(containerd|dockerd) --config")))

# What the engines complain of on a machine without systemd.
NOISE = re.compile("level=warning|unable to get systemd connection to remove healthchecks")


def on(*names, levels=table.LEVELS, versions=True):
    """Class decorator: a class for each engine (with --all, in each version of it) and level, in the same module."""
    kinds = [kind.name for kind in engines.KINDS.values()
             if kind.name in names or (ALL and versions and kind.family in names)]

    def decorate(cls):
        module = sys.modules[cls.__module__]
        for name, level in itertools.product(kinds, levels):
            made = cls.__name__ + name.capitalize() + level.capitalize()
            setattr(module, made, type(made, (cls,), {
                "engine_name": name, "family": engines.KINDS[name].family or name, "level": level,
                "__module__": cls.__module__, "__doc__": cls.__doc__}))
        return None
    return decorate


def only(*names, why):
    """Method decorator: the other engines do not have it."""
    def decorate(method):
        method.only, method.why = names, why
        return method
    return decorate


def long(method):
    """Method decorator: only with tests/engines/run --all."""
    method.long = True
    return method


class EngineCase(unittest.TestCase):
    maxDiff = 2000
    engine_name = family = level = None
    kinds = engines.KINDS
    long_for = ()  # engines for which all of it only runs with --all

    @classmethod
    def setUpClass(cls):
        kind = cls.kinds[cls.engine_name]
        reason = kind.why_not() or harness.why_no_level(cls.level)
        if reason:
            raise unittest.SkipTest(table.LOCAL + reason)
        cls.engine = engines.get(kind, cls.level)
        if cls.engine.refusal:
            raise unittest.SkipTest(cls.engine.refusal)

    def setUp(self):
        method = getattr(self, self._testMethodName)
        if self.family not in getattr(method, "only", (self.family,)):
            self.skipTest(method.why)
        if (getattr(method, "long", False) or self.family in self.long_for) and not ALL:
            self.skipTest(table.LOCAL + "takes long: tests/engines/run --all")
        self.work = tempfile.mkdtemp(prefix="work-", dir=machine.HOME)
        os.chmod(self.work, 0o755)
        if self.engine.rootless:
            os.chown(self.work, machine.USER_ID, machine.USER_ID)
        self.before = host.Snapshot(own=[machine.HOME])
        self.addCleanup(self._check_leftovers)

    def needs_cgroups(self):
        """For what the engine cannot do where an ordinary user has no cgroups."""
        if self.engine.rootless and not os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            self.skipTest(table.LOCAL + "podman has no cgroups for ordinary users under cgroup v1")

    def kept_from(self, *flags, levels, says):
        """At these levels moat refuses such a container with a message that has these words; then the test ends."""
        if self.level in levels:
            done = self.engine.call("run", "--rm", *self.flags(flags), BUSYBOX, "true")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(says, done.stderr)
            reason = re.search("(level %s: .*?|(?<=create failed: ).*?|(?<=moat: ).*?)(: unknown\.?|: OCI.*)?\n" % self.level, done.stderr)
            self.skipTest("refused: " + re.sub(r"CAP_\w+ is", "a capability is", reason.group(1)))  # which, depends on the machine

    def refused(self, *args, says):
        """
        A microVM cannot do it, and moat says why; then the test ends. The engine's own cleaning up is not judged: what it
        has left is found anyway.
        """
        done = self.engine.call(*args)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn(says, done.stderr)
        self.assertEqual(len([line for line in done.stderr.splitlines() if says in line]), 1, done.stderr)
        self.skipTest("refused: " + says)

    # -- calls of the engine

    def cli(self, *args, status=0, says=None, **options):
        """Calls the client, which must end with that status; returns its output, or its message where it must fail."""
        done = self.engine.call(*args, **options)
        self.assertEqual(done.returncode, status, "%s\nstdout: %s\nstderr: %s" % (" ".join(done.args), done.stdout, done.stderr))
        if says is not None:
            self.assertIn(says, done.stderr)
        return done.stdout if not status else done.stderr

    def name(self, word="c"):
        """A container's name; all containers are removed at the end."""
        return "%s%d" % (word, next(_numbers))

    def flags(self, flags):
        """Without a network unless the test asks for one: faster, and not what most tests are about."""
        flags = list(map(str, flags))
        return flags if any(f.startswith(("--net", "--pod", "-p", "--dns")) for f in flags) else ["--network", "none", *flags]

    def run_(self, *args, flags=(), image=BUSYBOX, **options):
        """Runs a container to its end and removes it; returns its output."""
        return self.cli("run", "--rm", *self.flags(flags), image, *args, **options)

    def start(self, *args, flags=(), image=BUSYBOX):
        """Starts a container in the background; returns its name."""
        name = self.name()
        self.cli("run", "-d", "--name", name, *self.flags(flags), image, *args)
        return name

    def logs(self, name):
        return self.cli("logs", name)

    def inspect(self, name, template):
        return self.cli("inspect", "--format", template, name).strip()

    def remove(self, *names):
        self.cli(*self.engine.remove, *names)

    def wait_logs(self, name, text, timeout=10):
        self.wait_until(lambda: text in self.logs(name), "%r in the logs of %s" % (text, name), timeout)

    def wait_until(self, condition, what, timeout=10):
        deadline = time.monotonic() + timeout * TIME_SCALE
        while not condition():
            if time.monotonic() > deadline:
                self.fail("after %.0f s still not: %s" % (timeout * TIME_SCALE, what))
            time.sleep(0.05)

    def popen(self, *args, **options):
        """Starts the client in the background; it is killed at the end of the test if it still runs."""
        process = subprocess.Popen(self.engine.command(*args), env=self.engine.environment, cwd=self.engine.home, **options)
        self.addCleanup(self._end, process)
        return process

    def terminal(self, *args):
        """The client on a terminal of its own."""
        made = Terminal(self, self.engine.command(*args), self.engine.environment)
        self.addCleanup(made.close)
        return made

    def path(self, name, text=None, mode=0o644):
        """A path in this test's directory: a file with text, or a new directory that everybody may write."""
        path = os.path.join(self.work, name)
        if text is None:
            os.mkdir(path)
            os.chmod(path, 0o777)
        else:
            machine.write(path, text)
            os.chmod(path, mode)
        if self.engine.rootless:
            os.chown(path, machine.USER_ID, machine.USER_ID)
        return path

    def inside(self, directory):
        """Puts the helper of inside.c into a directory."""
        subprocess.run(["cc", "-static", "-O1", "-o", os.path.join(directory, "inside"),
                        os.path.join(os.path.dirname(__file__), "inside.c")], check=True)

    # -- the end

    @staticmethod
    def _end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()

    def _check_leftovers(self):
        found = []
        said = self.engine.remove_all()
        found += ["rm --force: " + line for line in said.splitlines() if not NOISE.search(line)]
        found += self._settle()
        host.kill_leftovers(line for line in found if "podman pause" not in line)
        shutil.rmtree(self.work, ignore_errors=True)
        if found:
            self.fail("left behind:\n  " + "\n  ".join(found))


    def _settle(self):
        """What is left when engines have had the time to clean up behind a container."""
        deadline = time.monotonic() + 5 * TIME_SCALE
        while True:
            found = [line for line in self.before.leftovers() if not KEPT.match(line)]
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.05)


class Terminal:
    """A program on a pseudo terminal, as a person has it before him."""

    def __init__(self, test, command, environment):
        self.test = test
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.execvpe(command[0], command, environment)
            finally:
                os._exit(127)

    def send(self, text):
        os.write(self.fd, text.encode())

    def expect(self, pattern, timeout=15):
        """Waits until the pattern has been printed; returns the match and forgets what came before its end."""
        deadline = time.monotonic() + timeout * TIME_SCALE
        while True:
            match = re.search(pattern, self.seen)
            if match:
                self.seen = self.seen[match.end():]
                return match
            left = deadline - time.monotonic()
            if left <= 0 or not self._read(left):
                self.test.fail("the terminal does not show %r but %r" % (pattern, self.seen[-1000:]))

    def _read(self, timeout):
        if not select.select([self.fd], [], [], timeout)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # EIO: nobody has the other end any more
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    def end(self, timeout=15):
        """Waits for the program's end; returns its status."""
        deadline = time.monotonic() + timeout * TIME_SCALE
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > deadline:
                self.test.fail("the program on the terminal does not end; it shows %r" % self.seen[-1000:])
            if select.select([self.fd], [], [], 0.05)[0] and not self._read(0):
                time.sleep(0.05)

    def close(self):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        os.close(self.fd)
