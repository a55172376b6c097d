# SPDX-License-Identifier: GPL-2.0-or-later
"""
A systemd of the tests' own: the first process of pid, mount and cgroup namespaces that see cgroup v2 only, with a /run of its
own. Where v2 has no controllers (a hybrid machine) limits are seen as systemd's properties alone.
"""
import json
import os
import subprocess
import time

import harness
import host

SYSTEMD = "/lib/systemd/systemd"
V2 = "/sys/fs/cgroup" if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else "/sys/fs/cgroup/unified"
# In the new namespaces: a /run and a cgroup tree of its own, and no units but one to start with.
ENTER = """
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs /run
umount -R -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /run/units
printf '[Unit]\\nDefaultDependencies=no\\n' >/run/units/test.target
exec env -i container=test PATH="$PATH" SYSTEMD_UNIT_PATH=%s SYSTEMD_LOG_TARGET=console \
    %s --system --unit=test.target
""" % (":".join(("/run/units", "/run/systemd/transient", "/run/systemd/system.control")), SYSTEMD)


def why_not():
    """None where there can be one that moat can talk to, else the reason."""
    if not os.access(SYSTEMD, os.X_OK):
        return "no systemd: run contrib/install-packages"
    if not os.path.exists(V2 + "/cgroup.procs"):
        return "no cgroup v2"
    features = json.loads(subprocess.run([harness.MOAT, "features"], capture_output=True, check=True).stdout)
    if not features["linux"]["cgroup"]["systemd"]:
        return "moat was built without libsystemd-dev"
    return None


class OwnSystemd:
    def __init__(self, name, log):
        """name: of the cgroup that is the root of what it sees; log: a path for what it says."""
        self.group = os.path.join(V2, name)
        self.log_path = log
        self.outer = self.pid1 = None

    def start(self):
        for path in (self.group, self.group + "/system.slice", self.group + "/terminal"):
            os.mkdir(path)
        with open(self.log_path, "w+b") as log:
            self.outer = subprocess.Popen(
                ["sh", "-c", "echo $$ >%s/cgroup.procs; "
                 "exec unshare --cgroup --mount --pid --fork --kill-child --mount-proc sh -c \"$0\"" % self.group, ENTER],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pid1 = self._wait_for(lambda: next(iter(host.children_of(self.outer.pid)), 0))
        # No process may be in the top of the tree, where controllers are passed on: systemd moves its own, not this one.
        with open(self.group + "/terminal/cgroup.procs", "w") as f:
            f.write(str(self.outer.pid))
        self._wait_for(lambda: self.inside("systemctl", "is-active", "test.target").stdout == b"active\n")

    def controllers(self):
        with open(self.group + "/cgroup.controllers") as f:
            return f.read().split()

    def _wait_for(self, condition):
        deadline = time.monotonic() + 15 * host.TIME_SCALE
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        with open(self.log_path, "rb") as log:
            raise RuntimeError("systemd does not start: %r" % log.read()[-2000:])

    def end(self):
        """With all processes that it has, and its cgroups."""
        if self.outer:
            self.outer.kill()
            self.outer.wait()
        deadline = time.monotonic() + 5 * host.TIME_SCALE
        while os.path.exists(self.group) and time.monotonic() < deadline:
            for directory, _, _ in os.walk(self.group, topdown=False):
                try:
                    os.rmdir(directory)
                except OSError:
                    time.sleep(0.05)

    def nsenter(self):
        return ["nsenter", "--target", str(self.pid1), "--mount", "--pid", "--cgroup"]

    def inside(self, *command):
        return subprocess.run([*self.nsenter(), *command], stdin=subprocess.DEVNULL, capture_output=True)

    def from_terminal(self):
        """From a cgroup of systemd's tree: with nsdelegate no process is moved into it from outside."""
        return ["sh", "-c", "echo 0 >%s/terminal/cgroup.procs; exec \"$@\"" % self.group, "sh"]

    def show(self, unit, *names, manager=()):
        """A unit's properties as systemd tells them."""
        text = self.inside("systemctl", *manager, "show", unit, *("--property=" + n for n in names)).stdout.decode()
        found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        return [found.get(n, "") for n in names] if len(names) > 1 else found.get(names[0], "")
