# SPDX-License-Identifier: GPL-2.0-or-later
"""
Many machines, machines that lose a process at any moment, and guests that end or stand still as no program makes them: what is
told, in what time, and that nothing is left (the harness looks after each test). Most of it is for tests/run --all.
"""
import os
import random
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from harness import ALL, Case, host

ROLES = ("moat-monitor", "moat-vmm", "moat-fsd")


def with_name(name):
    """Processes of that name: the tests have a pid namespace of their own."""
    return [pid for pid in host.processes() if host.name_of(pid) == name]


def write_kernel(path, code):
    """A file that is loaded as a kernel, of a few instructions that need no place of their own."""
    at = 0x1000000
    with open(path, "wb") as f:
        f.write(struct.pack("<4sBBBBQHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 0, 2, 62, 1, at, 64, 0, 0, 64, 56, 1, 0, 0, 0))
        f.write(struct.pack("<IIQQQQQQ", 1, 5, 0x1000, at, at, len(code), len(code), 0x1000))
        f.write(bytes(0x1000 - f.tell()) + code)


class Many(Case):
    level = "vm"
    memory = 64 << 20

    def roles_left(self):
        return [role for role in ROLES if with_name(role)]

    @unittest.skipUnless(ALL, "takes minutes: MOAT_TEST_ALL=1 runs it")
    def test_one_after_the_other(self):
        self.bundle("echo", "here")
        mounts = host.mounts()
        for i in range(100):
            with self.subTest(i):
                done = self.run_container()
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"here\n", b""))
                self.wait_until(lambda: not self.roles_left(), "its processes have ended")
        self.assertEqual(host.mounts(), mounts)
        self.assertEqual(os.listdir(self.root), [])

    @unittest.skipUnless(ALL, "takes minutes: MOAT_TEST_ALL=1 runs it")
    def test_at_once(self):
        self.bundle("sh", "-c", "echo here; read line; echo $line")
        self.assertEqual(self.run_container().returncode, 0)  # a template is made once
        self.at_once()

    @unittest.skipUnless(ALL, "takes minutes: MOAT_TEST_ALL=1 runs it")
    def test_at_once_without_a_template(self):
        """One makes it, where it has the time for that beside the others, which boot."""
        self.settings["cache"] = os.path.join(self.work, "cache")
        self.write_settings()
        self.bundle("sh", "-c", "echo here; read line; echo $line")
        self.at_once()
        self.assertLessEqual(len(os.listdir(os.path.join(self.settings["cache"], "templates"))), 1)

    def at_once(self):
        running = [self.start_moat("run", "--bundle", self.bundle_path, self.new_id(), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(30)]
        for process in running:
            self.assertEqual(process.stdout.readline(), b"here\n")
        self.assertEqual(len(with_name("moat-vmm")), 30)  # all of them live
        for i, process in enumerate(running):
            out, err = process.communicate(b"number %d\n" % i, timeout=120 * host.TIME_SCALE)
            self.assertEqual((process.returncode, out, err), (0, b"number %d\n" % i, b""))
        self.wait_until(lambda: not self.roles_left(), "their processes have ended")


class KilledAtRandom(Case):
    """SIGKILL for one of the processes of a machine, from its making to its end: 200 of them with --all, a quarter for each."""
    level = "vm"
    memory = 64 << 20
    TIMES = 50 if ALL else 1

    def begin(self):
        name = self.new_id()
        return name, self.start_moat("run", "--bundle", self.bundle_path, name, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def span(self):
        """How long a machine takes from its making to its end, when it is let alone."""
        began = time.monotonic()
        _, process = self.begin()
        _, err = process.communicate(timeout=60 * host.TIME_SCALE)
        self.assertEqual((process.returncode, err), (0, b""))
        return time.monotonic() - began

    def kill(self, role, process):
        """Returns whether there was one."""
        for pid in with_name(role) if role != "moat" else [process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
                return True
            except ProcessLookupError:
                pass
        return False

    def many(self, role):
        self.bundle("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do echo $i >>/file; done")
        span = self.span()
        if ALL:
            span = self.span()  # the first one also made a template, which takes longer than all that follow
        seed = int(os.environ.get("MOAT_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
        source = random.Random(seed)
        killed = 0
        for i in range(self.TIMES):
            delay = source.uniform(0, span)
            with self.subTest("seed %d, number %d: %s after %.0f ms" % (seed, i, role, delay * 1000)):
                name, process = self.begin()
                time.sleep(delay)
                hit = self.kill(role, process)
                killed += hit
                process.wait(timeout=30 * host.TIME_SCALE)
                began = time.monotonic()
                self.ok("delete", "--force", name)
                self.assertLess(time.monotonic() - began, 5 * host.TIME_SCALE)
                with process.stderr:  # the machine has it, too, which may have been made and not started
                    err = process.stderr.read()
                self.assertLessEqual(len(err.splitlines()), 1, err)  # who it was that died, or nothing: it was over
                self.refused("state", name, says="does not exist")
                self.wait_until(lambda: not any(with_name(r) for r in ROLES), "its processes have ended")
        if ALL:
            # How many met somebody depends on what else the machine does; it is not to be next to none.
            self.assertGreater(killed, self.TIMES / 10, "of %d kills within %.1f s" % (self.TIMES, span))

    def test_monitor(self):
        self.many("moat-monitor")

    def test_vmm(self):
        self.many("moat-vmm")

    def test_file_server(self):
        self.many("moat-fsd")

    def test_moat(self):
        self.many("moat")


class Guests(Case):
    """How the ends of its kernel are told, some of which a workload makes that is given the guest's own rights."""
    level = "vm"
    memory = 64 << 20

    def unbound(self, config):
        """The guest's /proc/sys is the workload's, and it has the rights to write there."""
        config["linux"]["readonlyPaths"] = []
        for kind in ("bounding", "effective", "permitted"):
            config["process"]["capabilities"][kind] += ["CAP_SYS_ADMIN", "CAP_SYS_NICE", "CAP_SYS_RESOURCE"]

    def timed(self):
        began = time.monotonic()
        done = self.run_container(timeout=60)
        return done.returncode, done.stderr.decode(), time.monotonic() - began

    def test_kernel_that_stands_still_at_boot(self):
        """It takes no processor time, so it is told by the clock: once while a template would be made, once without one."""
        self.settings.update(kernel=os.path.join(self.work, "halts"), guestTimeout=4)
        write_kernel(self.settings["kernel"], b"\xfa\xf4\xeb\xfd")  # cli; hlt; jmp to that
        self.write_settings()
        self.bundle("true")
        began = time.monotonic()
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), timeout=60,
                     says=("boot the guest kernel", "init to answer", "guestTimeout"))
        self.assertLess(time.monotonic() - began, 10 + host.TIME_SCALE)

    def test_that_answers_neither_start_nor_exec(self):
        """Within the operator's time: a start ends the machine, whose program is not to begin later; an exec ends itself."""
        patience = self.settings["guestTimeout"] = int(min(30, 2 * host.TIME_SCALE))
        self.write_settings()
        self.bundle("sh", "-c", "touch /began; exec sleep 1000")
        began = os.path.join(self.rootfs, "began")
        running = self.create()
        self.ok("start", running)
        self.wait_until(lambda: os.path.exists(began), "it runs")
        others = set(with_name("moat-vmm"))
        os.unlink(began)
        created = self.create()
        for vmm in with_name("moat-vmm"):
            os.kill(vmm, signal.SIGSTOP)
        since = time.monotonic()
        said = []
        with tempfile.TemporaryFile() as start, tempfile.TemporaryFile() as execution:  # the vmm has one, and closes nothing now
            commands = [self.start_moat(*args, stdout=subprocess.DEVNULL, stderr=file) for file, args in
                        ((start, ("start", created)), (execution, ("exec", running, "touch", "/late")))]
            for process, file in zip(commands, (start, execution)):
                process.wait(timeout=20 * host.TIME_SCALE)
                file.seek(0)
                said.append(file.read().decode())
        self.assertIn("start the container in the guest: the guest does not answer", said[0])
        self.assertIn("; the machine is switched off", said[0])
        self.assertIn("the guest does not answer", said[1])
        self.assertEqual([process.returncode for process in commands], [1, 255])
        self.assertEqual([text.count("\n") for text in said], [1, 1], said)
        self.assertGreaterEqual(time.monotonic() - since, patience)
        self.assertLess(time.monotonic() - since, patience + 5 + 2 * host.TIME_SCALE)
        self.wait_status(created, "stopped")
        self.ok("delete", created)
        self.assertFalse(os.path.exists(began))
        self.assertEqual(set(with_name("moat-vmm")), others)
        for vmm in others:
            os.kill(vmm, signal.SIGCONT)
        self.ok("exec", running, "true", timeout=60)
        self.wait_until(lambda: b"touch" not in self.ok("ps", running).stdout, "what was given up has ended")
        self.ok("delete", "--force", running)

    @unittest.skipUnless(ALL, "takes a minute: MOAT_TEST_ALL=1 runs it")
    def test_kernel_that_spins_at_boot(self):
        """It is told by the processor time that it had: a kernel boots in less than a second of it."""
        self.settings["kernel"] = os.path.join(self.work, "spins")
        write_kernel(self.settings["kernel"], b"\xeb\xfe")  # jmp $
        self.write_settings()
        self.bundle("true")
        began = time.monotonic()
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=("boot the guest kernel", "init to answer"), timeout=200)
        self.assertLess(time.monotonic() - began, 100 + 10 * host.TIME_SCALE)

    def test_panic(self):
        self.bundle("sh", "-c", "echo 2 >/proc/sys/vm/panic_on_oom; x=a; while :; do x=$x$x; done", change=self.unbound)
        status, said, took = self.timed()
        self.assertEqual(status, 137)
        self.assertIn("the guest kernel panicked", said)
        self.assertLess(took, 10 * host.TIME_SCALE)

    def test_out_of_memory(self):
        """Of the guest as a whole: its kernel ends the workload, and the agent goes on."""
        self.bundle("sh", "-c", "x=a; while :; do x=$x$x; done")
        status, said, took = self.timed()
        self.assertEqual(status, 137)
        self.assertIn("out of memory", said)
        self.assertLess(took, 10 * host.TIME_SCALE)

    @unittest.skipUnless(ALL, "takes a minute: MOAT_TEST_ALL=1 runs it")
    def test_full_memory_and_a_fork_bomb(self):
        """All commands come to an end, other machines do not notice, and it can be switched off."""
        patience = self.settings["guestTimeout"] = int(min(30, 2 * host.TIME_SCALE))
        self.write_settings()
        self.bundle("sleep", "1000", change=lambda c: c["linux"].pop("resources", None))
        name = self.create()
        self.ok("start", name)
        # At once: when one has begun, there may be no process left for a second exec.
        script = "dd if=/dev/zero of=/dev/shm/x bs=1M & f() { while :; do f & done; }; f"
        self.ok("exec", "--detach", name, "sh", "-c", script, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.5 * host.TIME_SCALE)
        self.config["process"]["args"] = ["echo", "here"]
        self.write_config()
        self.assertEqual(self.run_container(timeout=60).stdout, b"here\n")
        took = {}
        for args, most in ((("ps", name), 10), (("events", "--stats", name), 10), (("update", "--pids-limit", "5000", name), 10),
                           (("exec", name, "true"), patience), (("kill", name, "USR1"), 10), (("kill", name, "KILL"), 20)):
            began = time.monotonic()
            done = self.moat(*args, timeout=60)
            took[args[0], args[-1]] = done.returncode, round(time.monotonic() - began, 1), done.stderr
            self.assertLess(time.monotonic() - began, most + 5 + 0.5 * host.TIME_SCALE, took)
        self.wait_status(name, "stopped", 30)
        self.ok("delete", name)

    def test_that_stands_still(self):
        """As one whose kernel spins: no answer, which is told in time, and SIGKILL switches the machine off."""
        self.bundle("sleep", "1000")
        name = self.create()
        self.ok("start", name)
        os.kill(with_name("moat-vmm")[0], signal.SIGSTOP)
        began = time.monotonic()
        self.refused("ps", name, says="the guest does not answer", timeout=60)
        self.assertLess(time.monotonic() - began, 15 + host.TIME_SCALE)
        began = time.monotonic()
        self.ok("kill", name, "KILL", timeout=60)
        self.wait_status(name, "stopped", 30)
        self.assertLess(time.monotonic() - began, 30 + host.TIME_SCALE)
        self.ok("delete", name)
