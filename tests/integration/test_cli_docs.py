# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of the command line, held against the command line: --help, the manual, the completion of bash."""
import glob
import os
import re
import shutil
import subprocess
import unittest

from harness import BUILD, IN_LAB, MOAT, TOP, Case, at_levels

MAN = os.path.join(BUILD, "man")
COMPLETION = os.path.join(BUILD, "contrib/completion/moat")

# The command line that engines and people expect, as runc and crun have it.
EXPECTED = {
    "": "debug log log-format root systemd-cgroup rootless cgroup-manager config version isolation",
    "create": "bundle console-socket pidfd-socket pid-file no-pivot no-new-keyring preserve-fds config",
    "run": "bundle console-socket pidfd-socket pid-file no-pivot no-new-keyring preserve-fds config detach keep no-subreaper",
    "start": "", "state": "", "pause": "", "resume": "", "features": "",
    "exec": "console-socket pidfd-socket cwd env tty user additional-gids process detach pid-file process-label apparmor "
            "no-new-privs cap preserve-fds cgroup ignore-paused",
    "checkpoint": "image-path work-path parent-path leave-running tcp-established tcp-skip-in-flight link-remap ext-unix-sk "
                  "shell-job lazy-pages status-fd page-server file-locks pre-dump manage-cgroups-mode empty-ns auto-dedup",
    "restore": "bundle console-socket pidfd-socket pid-file no-pivot no-new-keyring preserve-fds config image-path work-path "
               "tcp-established ext-unix-sk shell-job file-locks manage-cgroups-mode detach no-subreaper empty-ns auto-dedup "
               "lazy-pages lsm-profile lsm-mount-context",
    "kill": "all", "delete": "force", "list": "format quiet", "ps": "format", "events": "interval stats",
    "spec": "bundle rootless",
    "update": "resources blkio-weight cpu-period cpu-quota cpu-burst cpu-share cpu-rt-period cpu-rt-runtime cpu-idle cpuset-cpus "
              "cpuset-mems memory memory-reservation memory-swap pids-limit l3-cache-schema mem-bw-schema",
}
SHORT = {"create": "b f", "run": "b f d", "exec": "e t u g p d c", "kill": "a", "delete": "f", "list": "f q", "ps": "f",
         "spec": "b", "update": "r", "": "v"}


def rendered(page, *options):
    return subprocess.run(["groff", "-man", "-Tascii", "-P-cbou", "-rLL=200n", *options, page], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@at_levels("plain")
class Docs(Case):
    @classmethod
    def setUpClass(cls):
        if IN_LAB:
            raise unittest.SkipTest("the command line is the same outside the lab, and faster")
        super().setUpClass()

    def help(self, *command):
        return self.ok(*command, "--help").stdout.decode()

    def commands(self):
        listed = self.help().split("Commands:\n")[1].split("\n\n")[0]
        names = re.findall(r"^  (\S+)", listed, re.M)
        names.remove("help")  # tells of the others, and has no options
        return names

    def options(self, *command):
        """{name: (short or "", placeholder)} as --help shows them."""
        text = self.help(*command).split("ptions:\n")[-1]
        found = re.findall(r"^  (?:-(.), |    )--(\S+)(?: (\S+))?(?: |$)", text, re.M)
        self.assertGreater(len(found), 0, text)
        self.assertLessEqual(max(map(len, text.split("\n"))), 100, text)
        return {name: (short, argument) for short, name, argument in found}

    def test_expected_options(self):
        self.assertEqual(set(EXPECTED) - set(self.commands()), {""})
        for command, names in EXPECTED.items():
            with self.subTest(command):
                options = self.options(*command.split())
                self.assertEqual(set(names.split()) - set(options), set())
                shorts = {short for short, _ in options.values()}
                self.assertEqual(set(SHORT.get(command, "").split()) - shorts, set())

    def test_help_as_a_command(self):
        self.assertEqual(self.ok("help").stdout, self.ok("--help").stdout)
        self.settings_path = os.path.join(self.work, "absent.json")  # neither of them looks at it
        for command in self.commands():
            self.assertEqual(self.ok("help", command).stdout, self.ok(command, "--help").stdout)
        self.refused("help", "no-such", says="unknown command 'no-such'")
        self.refused("help", "run", "create", says="one command")

    def test_help_is_true(self):
        """Each option that --help shows is taken, with a value where it shows one, and one that it does not show is not."""
        for command in [""] + self.commands():
            words = command.split()
            self.refused(*words, "--no-such-option", says="unknown option --no-such-option")
            for name, (short, argument) in self.options(*words).items():
                if name == "help":
                    continue
                with self.subTest(command=command, option=name):
                    value = [argument.split("|")[0] if "|" in argument else "1"] if argument else []
                    self.ok(*words, "--" + name, *value, "--help")
                    if short:
                        self.ok(*words, "-" + short, *value, "--help")
                    if argument:
                        self.refused(*words, "--" + name, says="needs a value")
                    if "|" in argument:
                        self.refused(*words, "--" + name, "neither", says=["expected " + argument, "neither"])

    def test_manual(self):
        """Each command has a page with the very options of --help; no page is of a command that there is not."""
        for command in [""] + self.commands():
            with self.subTest(command):
                with open(os.path.join(MAN, "moat%s.1" % (command and "-" + command))) as f:
                    text = re.sub(r"\\f.", "", f.read()).replace("\\-", "-")
                title = "GLOBAL OPTIONS" if not command else "OPTIONS"
                section = re.search(r"^\.SH %s\n(.*?)^\.SH" % title, text, re.M | re.S)[1]
                found = re.findall(r"^\.TP\n(?:-(.), )?--(\S+)(?: (\S+))?$", section, re.M)
                self.assertEqual({n: (s, a) for s, n, a in found}, self.options(*command.split()))
        pages = {os.path.basename(p)[5:-2] for p in glob.glob(MAN + "/moat-*.1")}
        self.assertEqual(pages, set(self.commands()))

    def test_manual_is_well_made(self):
        pages = glob.glob(MAN + "/moat*.[1578]")
        self.assertGreater(len(pages), 15)
        installed = os.path.join(self.work, "man")
        for page in pages:
            with self.subTest(os.path.basename(page)):
                self.assertEqual(rendered(page, "-ww").stderr, b"")
                section = os.path.join(installed, "man" + page[-1])
                os.makedirs(section, exist_ok=True)
                shutil.copy(page, section)
                for name, number in re.findall(r"\\fB(moat[^ ]*?)\\fR\((\d)\)", open(page).read()):
                    self.assertTrue(os.path.exists(os.path.join(MAN, "%s.%s" % (name.replace("\\-", "-"), number))), name)
                done = subprocess.run(["man", "--warnings", "-P", "cat", "-l", page], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, env=dict(os.environ, LC_ALL="C.UTF-8", MANWIDTH="100"))
                self.assertEqual((done.returncode, done.stderr), (0, b""))
                self.assertIn(b"SEE ALSO", done.stdout)

    def test_annotations(self):
        """Each annotation that the code looks at is described, and no other."""
        code = set()
        for path in glob.glob(os.path.join(TOP, "src/**/*.[ch]"), recursive=True):
            with open(path) as f:
                code |= set(re.findall(r'"(run\.(?:moat|oci)\.[A-Za-z_.-]*[A-Za-z])"', f.read()))
        code -= {"run.moat.version", "run.moat.blockDevices"}  # of `moat features`
        text = rendered(os.path.join(MAN, "moat-annotations.7")).stdout.decode()
        section = re.search(r"^ANNOTATIONS\n(.*?)^\S", text, re.M | re.S)[1]
        self.assertEqual(set(re.findall(r"^ {7}(run\.\S+)", section, re.M)), code)

    # -- the completion

    def complete(self, *words, root=None):
        """What bash offers for the last of the words."""
        script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _moat; printf "%s\\n" "${COMPREPLY[@]}"'
        program = [MOAT] + (["--root", root] if root else [])
        done = subprocess.run(["bash", "-uc", script, "bash", COMPLETION, *program, *words], cwd=self.work,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return sorted(done.stdout.decode().split())

    def test_completion_of_options(self):
        for command in [""] + self.commands():
            with self.subTest(command):
                options = self.options(*command.split())
                expected = ["--" + name for name in options] + ["-" + short for short, _ in options.values() if short]
                self.assertEqual(self.complete(*command.split(), "-"), sorted(expected))

    def test_completion_of_words(self):
        self.assertEqual(self.complete(""), sorted(self.commands() + ["help"]))
        self.assertEqual(self.complete("help", "upd"), ["update"])
        self.assertEqual(self.complete("help", "update", ""), [])
        self.assertEqual(self.complete("--debug", "--log", "run", "st"), ["start", "state"])
        self.assertEqual(self.complete("--isolation", ""), ["plain", "sandbox", "vm"])
        self.assertEqual(self.complete("--isolation", "=", "pl"), ["plain"])
        self.assertEqual(self.complete("--isolation", "=", "plain", "--cgroup-manager", "="), ["cgroupfs", "disabled", "systemd"])
        self.assertEqual(self.complete("list", "-f", "j"), ["json"])
        self.assertEqual(self.complete("kill", "x", "TE"), ["TERM"])
        self.assertEqual(self.complete("kill", "x", "SIGUSR"), ["USR1", "USR2"])
        self.assertEqual(self.complete("start", "one", ""), [])
        self.assertEqual(self.complete("kernel", ""), ["import", "list"])
        self.assertEqual(self.complete("kernel", "--to", "/", "im"), ["import"])
        self.assertEqual(self.complete("kernel", "list", ""), [])
        self.assertEqual(self.complete("kernel", "import", "/etc/passw"), ["/etc/passwd"] if not os.path.exists("/etc/passwd-")
                         else ["/etc/passwd", "/etc/passwd-"])

    def test_completion_of_files(self):
        for name in ("moat-file", "moat-other"):
            open(os.path.join(self.work, name), "w").close()
        os.mkdir(os.path.join(self.work, "moat-directory"))
        self.assertEqual(self.complete("create", "--bundle", "moat-"), ["moat-directory"])
        self.assertEqual(self.complete("create", "--pid-file", "moat-f"), ["moat-file"])
        self.assertEqual(self.complete("exec", "-d", "one", "moat-o"), ["moat-other"])

    def test_completion_of_ids(self):
        self.bundle("sleep", "1000")
        names = sorted(self.create() for _ in range(2))
        for words in (["state"], ["kill", "--all"], ["exec", "--tty", "--env", "A=b"], ["--debug", "delete", "-f"], ["ps"]):
            with self.subTest(words):
                self.assertEqual(self.complete(*words, "", root=self.root), names)
        self.assertEqual(self.complete("state", names[0], root=self.root), [names[0]])
        self.assertEqual(self.complete("state", "", root=self.work + "/none"), [])
        for name in names:
            self.ok("delete", "--force", name)
