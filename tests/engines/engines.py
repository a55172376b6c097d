# SPDX-License-Identifier: GPL-2.0-or-later
"""
The engines under test: for each and each level one object that writes its configuration, starts its daemon where it has one,
gives it images, and stops it. Stores and sockets are its own, below machine.HOME.
"""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import time

import harness
import images
import machine
import own_systemd
from host import TIME_SCALE

SETTINGS = "/etc/moat/moat.json"
BIN = os.path.join(machine.HOME, "bin")


def install_moat():
    """The program with the links by which the level is chosen, as meson install leaves them, and the operator's file."""
    os.makedirs(BIN)
    shutil.copy(harness.MOAT, os.path.join(BIN, "moat"))
    for name in ("moat-plain", "moat-sandbox"):
        os.symlink("moat", os.path.join(BIN, name))
    os.makedirs(os.path.dirname(SETTINGS), exist_ok=True)
    settings = {"memory": 128 << 20, "guestTimeout": harness.GUEST_TIMEOUT}
    kernel, init = harness.find_kernel(), harness.find_init()
    if kernel and init:  # where everybody may read them
        settings.update(kernel=shutil.copy(kernel, machine.HOME + "/kernel"), init=shutil.copy(init, machine.HOME + "/init"))
    with open(SETTINGS, "w") as f:
        json.dump(settings, f)


def binary(level):
    """MOAT_ENGINES_RUNTIME: another runtime, to see what is the engine's own doing."""
    return os.environ.get("MOAT_ENGINES_RUNTIME") or os.path.join(BIN, "moat" if level == "vm" else "moat-" + level)


class Engine:
    program = ()  # the client's first words
    remove = ("rm", "--force")  # at once, whatever runs
    rootless = False
    family = None  # the engine that this one is a version of; None: none
    where = ()  # words before a command of it, the daemon's as well
    cgroup_manager = "cgroupfs"
    refusal = None  # why moat does not run anything here, in its own words

    def __init__(self, level):
        self.level = level
        self.home = os.path.join(machine.HOME, "%s-%s" % (self.name, level))
        self.environment = dict(os.environ)
        self.daemon = None
        os.makedirs(self.home)

    @classmethod
    def why_not(cls):
        """None where this engine can be tested, else the reason."""
        for program in cls.needs:
            if not shutil.which(program):
                return "no %s: run contrib/install-packages" % program
        return None

    def write(self, name, text):
        path = os.path.join(self.home, name)
        machine.write(path, text)
        return path

    def command(self, *args):
        """The client's command, found where this engine's programs are."""
        program = shutil.which(self.program[0], path=self.environment["PATH"]) or self.program[0]
        return [*self.where, program, *self.program[1:], *map(str, args)]

    def call(self, *args, timeout=60, **options):
        """Runs the client to its end; output is text. A time-out is an error with what it said so far."""
        options.setdefault("stdin", None if "input" in options else subprocess.DEVNULL)
        try:
            return subprocess.run(self.command(*args), env=self.environment, cwd=self.home, timeout=timeout * TIME_SCALE, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, errors="replace", **options)
        except subprocess.TimeoutExpired as error:
            raise AssertionError("no end after %.0f s: %s\nstdout: %s\nstderr: %s" % (
                error.timeout, " ".join(error.cmd), error.stdout, error.stderr)) from None

    def must(self, *args, **options):
        done = self.call(*args, **options)
        if done.returncode != 0:
            raise RuntimeError("%s: %s" % (" ".join(done.args), done.stderr))
        return done.stdout.strip()

    def start_daemon(self, command, *asking):
        """Starts a daemon whose log is in home, and waits until the client gets an answer."""
        self.started = (command, *asking)
        with open(os.path.join(self.home, "log"), "a") as log:
            command = [*self.where, shutil.which(command[0], path=self.environment["PATH"]), *command[1:]]
            self.daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment)
        deadline = time.monotonic() + 30 * TIME_SCALE
        while self.call(*asking).returncode != 0:
            if time.monotonic() > deadline or self.daemon.poll() is not None:
                raise RuntimeError("%s did not start: %s" % (command[0], machine.read(os.path.join(self.home, "log"))[-2000:]))
            time.sleep(0.1)

    def restart(self):
        """Ends the daemon and starts it again, with the containers running on."""
        Engine.stop(self)
        self.start_daemon(*self.started)

    def containers(self):
        return self.call("ps", "-aq").stdout.split()

    def remove_all(self):
        """Removes all containers; returns what the engine complained of."""
        names = self.containers()
        return self.call(*self.remove, "--volumes", *names).stderr if names else ""

    def stop(self):
        if self.daemon:
            self.daemon.send_signal(signal.SIGTERM)
            try:
                self.daemon.wait(30 * TIME_SCALE)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()


class Podman(Engine):
    """As root, with conmon; networks by netavark."""
    name, needs = "podman", ("podman", "conmon")
    program = ("podman",)
    remove = ("rm", "--force", "--time", "0")

    def containers_conf(self):
        lines = ["[containers]", 'log_driver = "k8s-file"',
                 # Without CAP_SYS_RESOURCE the defaults are above what may be set.
                 'default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]',
                 "[engine]", 'cgroup_manager = "%s"' % self.cgroup_manager, 'events_logger = "file"', 'runtime = "moat-test"',
                 'tmp_dir = "%s/tmp"' % self.home, "[engine.runtimes]", 'moat-test = ["%s"]' % binary(self.level),
                 "[network]", 'network_backend = "netavark"', 'network_config_dir = "%s/networks"' % self.home]
        return "\n".join(lines) + "\n"

    def start(self):
        storage = '[storage]\ndriver = "overlay"\ngraphroot = "%s/graph"\nrunroot = "%s/run"\n' % (self.home, self.home)
        self.environment["CONTAINERS_CONF"] = self.write("containers.conf", self.containers_conf())
        self.environment["CONTAINERS_STORAGE_CONF"] = self.write("storage.conf", storage)
        os.makedirs(self.home + "/networks")
        if self.rootless:
            os.chown(self.home + "/networks", machine.USER_ID, machine.USER_ID)
        self.must("import", "--change", "CMD sh", images.busybox_tar(machine.HOME), images.BUSYBOX)

    def remove_all(self):
        if self.must("pod", "ls", "-q"):
            self.call("pod", "rm", "--force", "--all", "--time", "0")
        return super().remove_all()

    def stop(self):
        self.call("system", "reset", "--force")


class RootlessPodman(Podman):
    """As an ordinary user with subordinate ids and, under cgroup v2, with cgroups as systemd gives them to its user's session."""
    name, needs = "rootless", ("podman", "conmon", "newuidmap", "slirp4netns")
    rootless = True
    cgroup = None
    program = ("setpriv", "--reuid", str(machine.USER_ID), "--regid", str(machine.USER_ID), "--groups", str(machine.KVM_GROUP),
               "--inh-caps=-all", "podman")

    def start(self):
        for path in (self.home + "/user", self.home + "/runtime"):
            os.makedirs(path, exist_ok=True)
            os.chown(path, machine.USER_ID, machine.USER_ID)
        os.chown(self.home, machine.USER_ID, machine.USER_ID)
        self.delegate()
        self.environment.update(HOME=self.home + "/user", XDG_RUNTIME_DIR=self.home + "/runtime", USER=machine.USER)
        super().start()
        if self.level == "sandbox":
            done = self.call("run", "--rm", "--network", "none", images.BUSYBOX, "true")
            if done.returncode and "needs root" in done.stderr:
                self.refusal = re.search("(moat: .*?)(: OCI.*)?\n", done.stderr).group(1)

    def delegate(self):
        if not os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            return
        self.cgroup = "/sys/fs/cgroup/user-%s" % self.level
        controllers = machine.read("/sys/fs/cgroup/cgroup.controllers").split()
        machine.write("/sys/fs/cgroup/cgroup.subtree_control", " ".join("+" + name for name in controllers))
        for path in (self.cgroup, self.cgroup + "/session"):
            os.makedirs(path)
            for name in ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
                os.chown(os.path.join(path, name), machine.USER_ID, machine.USER_ID)
        self.program = ("sh", "-c", "echo 0 > %s/session/cgroup.procs && exec \"$@\"" % self.cgroup, "sh", *self.program)

    def stop(self):
        super().stop()
        if self.cgroup:
            machine.write(self.cgroup + "/cgroup.kill", "1")
            machine.remove_cgroups([self.cgroup])


class Docker(Engine):
    """dockerd with a containerd of its own."""
    name, needs = "docker", ("dockerd", "docker", "iptables")
    number = 20

    def start(self):
        run = self.home + "/run"
        os.makedirs(run)
        self.socket = "unix://%s/docker.sock" % run
        self.program = ("docker", "--host", self.socket)
        self.environment["DOCKER_CONFIG"] = self.home + "/client"
        # A bridge of its own: daemons of several levels run at the same time.
        number = self.number + ("plain", "sandbox", "vm").index(self.level)
        bridge = "moat%d" % number
        for command in (["add", bridge, "type", "bridge"], ["set", bridge, "up"]):
            subprocess.run(["ip", "link", *command], check=True)
        subprocess.run(["ip", "address", "add", "172.%d.0.1/16" % number, "dev", bridge], check=True)
        config = self.write("daemon.json", json.dumps({
            "runtimes": {"moat-test": {"path": binary(self.level)}}, "default-runtime": "moat-test",
            "default-ulimits": {"nofile": {"Name": "nofile", "Soft": 1024, "Hard": 1024}},
            "data-root": self.home + "/data", "exec-root": run + "/exec", "pidfile": run + "/pid", "hosts": [self.socket],
            "exec-opts": ["native.cgroupdriver=" + self.cgroup_manager], "live-restore": True, "experimental": True, "bridge": bridge, "default-address-pools": [{"base": "10.%d.0.0/16" % number, "size": 24}]}))
        self.start_daemon(["dockerd", "--config-file", config], "version")
        self.must("import", "--change", "CMD sh", images.busybox_tar(machine.HOME), images.BUSYBOX)


class Containerd(Engine):
    """containerd, through ctr and the runc shim."""
    name, needs = "containerd", ("containerd", "ctr")

    def start(self):
        config = self.write("config.toml", """version = 2
root = "{home}/data"
state = "{home}/run"
[grpc]
  address = "{home}/sock"
[ttrpc]
  address = "{home}/sock.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:latest"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "{home}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
  default_runtime_name = "moat"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.moat]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.moat.options]
  BinaryName = "{moat}"
""".format(home=self.home, moat=binary(self.level)))
        os.makedirs(self.home + "/cni")
        self.program = ("ctr", "--address", self.home + "/sock")
        self.start_daemon(["containerd", "--config", config], "version")
        archive = images.oci_archive(images.busybox_tar(machine.HOME), self.home + "/busybox.tar", images.BUSYBOX)
        self.must("image", "import", archive)

    def remove_all(self):
        for task in self.must("task", "ls", "-q").split():
            self.call("task", "delete", "--force", task)
        said = ""
        for name in self.must("container", "ls", "-q").split():
            said += self.call("container", "delete", name).stderr
        return said


def lacks_cap_sys_resource():
    with open("/proc/self/status") as f:
        effective = next(line.split()[1] for line in f if line.startswith("CapEff:"))
    return not int(effective, 16) >> 24 & 1


class Unpacked:
    """Before an engine's class: the same of a later Debian, unpacked and not installed."""
    suite, version = "trixie", None  # a suite that goes on may have another version some day

    @classmethod
    def root(cls):
        fetch = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fetch")
        if cls.suite not in _roots:
            # Outside of our namespaces there is a network; here there is what was fetched before.
            done = subprocess.run([fetch, cls.suite], stdin=subprocess.DEVNULL, capture_output=True, text=True)
            _roots[cls.suite] = done.stdout.strip() if done.returncode == 0 else None
        return _roots[cls.suite]

    @classmethod
    def why_not(cls):
        if super().why_not() or not cls.root():
            return super().why_not() or "not there: run tests/engines/fetch " + cls.suite
        if cls.version:
            program = glob.glob("%s/usr/*bin/%s" % (cls.root(), cls.needs[0]))[0]
            said = subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
            if " %s." % cls.version not in said:
                return "Debian %s has another version by now: %s" % (cls.suite, said.strip())
        return None

    def start(self):
        self.environment["PATH"] = "%s/usr/bin:%s/usr/sbin:%s" % (self.root(), self.root(), self.environment["PATH"])
        super().start()


class Docker26(Unpacked, Docker):
    name, family, number = "docker26", "docker", 30


class Containerd17(Unpacked, Containerd):
    name, family = "containerd17", "containerd"


class Docker28(Unpacked, Docker):
    name, family, number, suite, version = "docker28", "docker", 40, "sid", "28"


class Containerd21(Unpacked, Containerd):
    name, family, suite, version = "containerd21", "containerd", "sid", "2.1"


class UnderSystemd:
    """Before an engine's class: with a systemd of its own, which makes the cgroups, as on most machines."""
    cgroup_manager = "systemd"

    @classmethod
    def why_not(cls):
        return super().why_not() or own_systemd.why_not()

    def start(self):
        self.systemd = own_systemd.OwnSystemd("systemd-%s" % os.path.basename(self.home), self.home + "/systemd.log")
        self.systemd.start()
        self.where = (*self.systemd.from_terminal(), *self.systemd.nsenter())
        super().start()

    def stop(self):
        """The daemon and all else there ends with its first process."""
        self.systemd.end()
        if self.daemon:
            self.daemon.wait()


class SystemdPodman(UnderSystemd, Podman):
    name, family = "systemd-podman", "podman"


class SystemdDocker(UnderSystemd, Docker):
    name, family, number = "systemd-docker", "docker", 50


class SystemdContainerd(UnderSystemd, Containerd):
    name, family = "systemd-containerd", "containerd"


# By what @on names them; with a systemd they have a test of their own (test_manager.py).
MANAGED = {kind.family: kind for kind in (SystemdPodman, SystemdDocker, SystemdContainerd)}
KINDS = {kind.name: kind for kind in (Podman, RootlessPodman, Docker, Containerd, Docker26, Docker28, Containerd17, Containerd21)}
_roots = {}
_running = {}


def get(kind, level):
    """The engine, started by the first test that needs it. One that did not start is not tried again."""
    key = kind, level
    if key not in _running:
        _running[key] = engine = kind(level)
        try:
            engine.start()
        except Exception as error:
            engine.stop()
            _running[key] = error
    if isinstance(_running[key], Exception):
        raise RuntimeError("%s did not start: %s" % (kind.name, _running[key]))
    return _running[key]


def stop_all():
    for engine in _running.values():
        if not isinstance(engine, Exception):
            engine.stop()
    _running.clear()
