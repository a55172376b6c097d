# SPDX-License-Identifier: GPL-2.0-or-later
"""The Debian package: what contrib/package builds installs, works and goes without a trace. And the other scripts of contrib/."""
import os
import shutil
import subprocess
import unittest

import bundles
import harness

ALL = os.environ.get("MOAT_TEST_ALL") == "1"


@unittest.skipUnless(ALL, "builds moat anew: tests/run --all")
@unittest.skipIf(harness.IN_LAB, "a package is the same outside the lab, and built there in minutes")
class Package(harness.Case):
    def run_in(self, tree, *command):
        done = subprocess.run(["chroot", tree, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def files(self, tree):
        """All but dpkg's own records, and what others than packages change."""
        found = set()
        for directory, names, files in os.walk(tree):
            names[:] = [n for n in names if os.path.join(directory, n)[len(tree):] not in ("/var/lib/dpkg", "/var/log", "/proc")]
            found.update(os.path.join(directory, name)[len(tree):] for name in names + files)
        return found

    def test_package(self):
        done = subprocess.run([os.path.join(harness.TOP, "contrib/package"), "--without-kernel", self.work], capture_output=True,
                              text=True, env=dict(os.environ, CC=os.environ.get("CC", "gcc")))
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        package = done.stdout.strip()
        listed = subprocess.run(["dpkg-deb", "--contents", package], capture_output=True, text=True, check=True).stdout
        for path in ("./usr/share/man/man1/moat.1.gz", "./usr/share/man/man5/moat.json.5.gz", "./usr/share/doc/moat/copyright"):
            self.assertIn(path, listed)
        self.assertNotIn("/usr/local", listed)
        tree = os.path.join(self.work, "tree")
        os.mkdir(tree)
        self._overlay(bundles.debian_rootfs(), tree)
        before = self.files(tree)
        shutil.move(package, tree + "/moat.deb")
        self.run_in(tree, "dpkg", "--install", "/moat.deb")
        self.assertIn("moat version", self.run_in(tree, "moat", "--version"))
        self.assertIn("--isolation", self.run_in(tree, "moat-sandbox", "--help"))
        # The tree's dpkg leaves out all documentation.
        wrong = self.run_in(tree, "dpkg", "--verify", "moat").splitlines()
        self.assertEqual([line for line in wrong if "/usr/share/man" not in line and "/usr/share/doc" not in line], [])
        made = self.files(tree) - before
        for path in ("/usr/bin/moat", "/usr/bin/moat-vm", "/usr/bin/moat-sandbox", "/usr/bin/moat-plain", "/usr/lib/moat/agent.cpio",
                     "/etc/moat/moat.json",
                     "/usr/share/bash-completion/completions/moat"):
            self.assertIn(path, made)
        os.unlink(tree + "/moat.deb")
        self.run_in(tree, "dpkg", "--remove", "moat")
        self.assertEqual(self.files(tree) - before, {"/etc/moat", "/etc/moat/moat.json"})  # the operator's
        self.run_in(tree, "dpkg", "--purge", "moat")
        self.assertEqual(self.files(tree) - before, set())
        self.assertEqual(before - self.files(tree), set())


class Uninstall(harness.Case):
    def test_uninstall(self):
        """What meson install has put anywhere goes with the README's command."""
        with open(os.path.join(harness.TOP, "README.md"), encoding="utf-8") as f:
            self.assertIn("\nninja -C build uninstall ", f.read())
        top = os.path.join(self.work, "installed")
        self.keep(os.path.join(harness.BUILD, "meson-logs/install-log.txt"))
        for command in (["meson", "install", "-C", harness.BUILD, "--no-rebuild", "--destdir", top],
                        ["ninja", "-C", harness.BUILD, "uninstall"]):
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            found = " ".join(os.path.join(directory, name) for directory, _, names in os.walk(top) for name in names)
            if command[0] == "meson":
                for path in ("/bin/moat ", "/bin/moat-sandbox", "/man1/moat.1 "):
                    self.assertIn(path, found + " ")
                # Static, as sanitizers cannot be.
                self.assertEqual("/lib/moat/agent.cpio" in found, not harness.SANITIZED, found)
        self.assertEqual(found, "")

    def keep(self, log):
        """By it what was really installed from this build directory can be removed one day."""
        before = None
        if os.path.exists(log):
            with open(log, encoding="utf-8") as f:
                before = f.read()

        def restore():
            if before is None:
                os.unlink(log)
                return
            with open(log, "w", encoding="utf-8") as f:
                f.write(before)
        self.addCleanup(restore)


class Scripts(harness.Case):
    SCRIPTS = ("install-packages", "package", "quickstart", "kernel/build")

    def call(self, script, *args):
        return subprocess.run([os.path.join(harness.TOP, "contrib", script), *args], cwd=self.work, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)

    def test_help(self):
        """Is asked for: on standard output, and a success."""
        for script in self.SCRIPTS:
            with self.subTest(script):
                done = self.call(script, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertTrue(done.stdout.startswith("usage: contrib/" + script), done.stdout)

    def test_unknown_option(self):
        """Nothing is done, and the message names the script's usage."""
        before = os.listdir(self.work)
        for script in self.SCRIPTS:
            with self.subTest(script):
                done = self.call(script, "--no-such-option")
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(done.stdout, "")
                self.assertIn("usage: contrib/" + script, done.stderr)
        self.assertEqual(os.listdir(self.work), before)
