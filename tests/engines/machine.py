# SPDX-License-Identifier: GPL-2.0-or-later
"""
The machine that engines are tested on: this one, seen from namespaces where nothing of it can be changed. /etc, /var and
/root are overlays in memory, /tmp and /run are empty, and all cgroups lie below one that the runner removes at the end.
"""
import ctypes
import os
import stat
import subprocess
import time

import bundles

HOME = "/tmp/engines"  # everything of the engines: stores, sockets, configurations
CACHE = HOME + "/cache"  # the tests' own, as it is without our overlays
CLONE_NEWCGROUP = 0x02000000
USER, USER_ID, USER_IDS = "moat-tester", 4321, 500000  # the rootless one, and the first of its subordinate ids
KVM_GROUP = 991  # as kvm is in Debian: of those that may have microVMs


def hierarchies():
    """[(controllers, mount point, this process's path)] of the cgroup hierarchies that are mounted; v2 has no controllers."""
    with open("/proc/self/cgroup") as f:
        own = {line.split(":")[1]: line.rstrip("\n").split(":", 2)[2] for line in f}
    found = []
    with open("/proc/self/mountinfo") as f:
        for line in f:
            left, right = line.rstrip("\n").split(" - ")
            kind, _, options = right.split()
            at = left.split()[4]
            for controllers, path in own.items():
                is_v2 = kind == "cgroup2" and not controllers
                is_v1 = kind == "cgroup" and controllers and set(controllers.split(",")) <= set(options.split(","))
                if (is_v1 or is_v2) and at not in [f[1] for f in found]:
                    found.append((controllers, at, path))
    return found


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def read(path):
    with open(path) as f:
        return f.read()


def make_cgroups(tag):
    """A cgroup for this run in every hierarchy, beside this process's own under v2 (which may have processes); their paths."""
    made = []
    for controllers, at, path in hierarchies():
        parent = at + (path.rstrip("/") if controllers else os.path.dirname(path).rstrip("/"))
        new = os.path.join(parent, tag)
        os.mkdir(new)
        made.append(new)
        for name in ("cpuset.cpus", "cpuset.mems"):
            if controllers == "cpuset":
                write(os.path.join(new, name), read(os.path.join(parent, name)))
    return made


def remove_cgroups(paths):
    """Removes them with all below; processes in them have just been killed."""
    for path in paths:
        for directory, _, _ in os.walk(path, topdown=False):
            for _ in range(50):
                try:
                    os.rmdir(directory)
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.1)


def enter_cgroups(paths):
    """
    Moves into the cgroups and makes them the roots of what is seen. Under v2 the processes then go into a leaf, so that
    the controllers can be given to others.
    """
    mounts = [(controllers, at) for controllers, at, _ in hierarchies()]
    for path in paths:
        write(os.path.join(path, "cgroup.procs"), "0")
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWCGROUP) < 0:
        raise OSError(ctypes.get_errno(), "unshare a cgroup namespace")
    subprocess.run(["umount", "-R", "-l", "/sys/fs/cgroup"], check=True)
    if all(controllers for controllers, _ in mounts) or len(mounts) > 1:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/sys/fs/cgroup"], check=True)
    for controllers, at in mounts:
        os.makedirs(at, exist_ok=True)
        kind = ["cgroup", "-o", controllers] if controllers else ["cgroup2"]
        subprocess.run(["mount", "-t", *kind, "cgroup", at], check=True)
        if not controllers:
            os.mkdir(at + "/tests")
            write(at + "/tests/cgroup.procs", "0")
            for name in read(at + "/cgroup.controllers").split():
                write(at + "/cgroup.subtree_control", "+" + name)


def prepare():
    """What of this machine an engine may write, it gets a copy of; and the rootless user."""
    os.makedirs(CACHE)
    if os.path.isdir(bundles.CACHE):
        # The kernel stacks two overlays: where the root is one, an engine's over ours would be the third (EINVAL).
        subprocess.run(["mount", "--bind", bundles.CACHE, CACHE], check=True)
    for path in ("/etc", "/var", "/root"):
        upper, work = HOME + "/upper" + path, HOME + "/work" + path
        os.makedirs(upper)
        os.makedirs(work)
        os.chmod(upper, os.stat(path).st_mode & 0o7777)
        subprocess.run(["mount", "-t", "overlay", "-o", "lowerdir=%s,upperdir=%s,workdir=%s" % (path, upper, work),
                        "overlay", path], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/var/tmp"], check=True)
    os.environ["HOME"] = "/root"
    with open("/etc/passwd", "a") as f:
        f.write("%s:x:%d:%d::%s/user:/bin/sh\n" % (USER, USER_ID, USER_ID, HOME))
    with open("/etc/group", "a") as f:
        f.write("%s:x:%d:\n" % (USER, USER_ID))
    for name in ("/etc/subuid", "/etc/subgid"):
        with open(name, "a") as f:
            f.write("%s:%d:65536\n" % (USER, USER_IDS))
    write("/proc/sys/net/ipv4/ip_forward", "1")
    # As udev leaves them: everybody may make a tun device in a namespace of his own, and members of kvm a microVM.
    device("/dev/net/tun", 0o666, 0)
    if os.path.exists("/dev/kvm"):
        device("/dev/kvm", 0o660, KVM_GROUP)


def device(path, mode, group):
    """A node of our own in the place of the machine's."""
    own = os.path.join(HOME, os.path.basename(path))
    os.mknod(own, mode | stat.S_IFCHR, os.stat(path).st_rdev)
    os.chown(own, 0, group)
    os.chmod(own, mode)
    subprocess.run(["mount", "--bind", own, path], check=True)
