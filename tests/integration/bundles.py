# SPDX-License-Identifier: GPL-2.0-or-later
"""
Bundles for tests: a small one of busybox, made in milliseconds, and a Debian one with Python, made once by mmdebstrap and
kept in the cache. Also the config.json that they start from, written here and not by moat, so that moat is not its own judge.
"""
import copy
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys

CACHE = os.environ.get("MOAT_CACHE") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "moat")

APPLETS = """ash awk base64 cat chmod chown cmp cp cut date dd df dirname echo env expr false find free getopt grep head
hostname id ifconfig ip kill ln ls md5sum mkdir mkfifo mknod mount mountpoint mv nc nproc od pgrep ping printf ps pwd readlink
realpath rm rmdir sed seq setsid sh sha256sum sleep sort stat stty sync tail tar tee test timeout touch tr true truncate tty
umask umount uname uniq unshare usleep wc which whoami xargs yes""".split()

CAPABILITIES = ["CAP_" + name for name in """CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP
NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE""".split()]

CONFIG = {
    "ociVersion": "1.2.0",
    "process": {
        "terminal": False,
        "user": {"uid": 0, "gid": 0},
        "args": ["true"],
        "env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM=dumb"],
        "cwd": "/",
        "capabilities": {kind: CAPABILITIES for kind in ("bounding", "effective", "permitted")},
        "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1024, "soft": 1024}],
        "noNewPrivileges": True,
    },
    "root": {"path": "rootfs", "readonly": False},
    "hostname": "moat-test",
    "mounts": [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs",
         "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]},
        {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
         "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "shm",
         "options": ["nosuid", "noexec", "nodev", "mode=1777", "size=65536k"]},
        {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue",
         "options": ["nosuid", "noexec", "nodev"]},
        {"destination": "/sys", "type": "sysfs", "source": "sysfs",
         "options": ["nosuid", "noexec", "nodev", "ro"]},
    ],
    "linux": {
        "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")],
        "maskedPaths": ["/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
                        "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"],
        "readonlyPaths": ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"],
    },
}


def config(*args, cgroup=None):
    """A fresh config.json, as a dictionary to be changed; the workload is args."""
    result = copy.deepcopy(CONFIG)
    if args:
        result["process"]["args"] = list(args)
    if cgroup:
        result["linux"]["cgroupsPath"] = cgroup
    return result


def busybox_rootfs(path):
    """Makes a root file system of static busybox at path."""
    busybox = shutil.which("busybox")
    if not busybox:
        raise RuntimeError("no busybox: run contrib/install-packages")
    for name in ("bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "var"):
        os.makedirs(os.path.join(path, name))
    os.chmod(os.path.join(path, "tmp"), 0o1777)
    shutil.copy(busybox, os.path.join(path, "bin/busybox"))
    for name in APPLETS:
        os.symlink("busybox", os.path.join(path, "bin", name))
    with open(os.path.join(path, "etc/passwd"), "w") as f:
        f.write("root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/:/bin/sh\n")
    with open(os.path.join(path, "etc/group"), "w") as f:
        f.write("root:x:0:\nuser:x:1000:\n")
    return path


def write(bundle, document):
    """Writes config.json: a dictionary, or text as it is."""
    with open(os.path.join(bundle, "config.json"), "w") as f:
        if isinstance(document, str):
            f.write(document)
        else:
            json.dump(document, f, indent=1)


DEBIAN_PACKAGES = "python3-minimal,procps"

# What people run: a database, a web server, programs in JavaScript, Python and Go (gron).
SERVICE_PACKAGES = DEBIAN_PACKAGES + ",apt,gron,nginx-light,nodejs,npm,postgresql,python3-pip,python3-setuptools,python3-wheel"


# systemd as the first process, and what of such a tree is large and of no use to it.
SYSTEMD_PACKAGES = "dbus,systemd-sysv"
BESIDE_SYSTEMD = ("usr/share/[!d]*", "usr/share/d[!b]*", "usr/lib/*/perl*", "usr/lib/*/gconv", "var/lib/dpkg", "var/cache/*")


def debian_rootfs(packages=DEBIAN_PACKAGES):
    """
    The path of a Debian root file system with Python, made on first use (half a minute, some for SERVICE_PACKAGES) and never
    written: put an overlay over it.
    """
    recipe = "bookworm minbase " + packages
    home = os.path.join(CACHE, "bundle", "debian-" + hashlib.sha256(recipe.encode()).hexdigest()[:12])
    rootfs = os.path.join(home, "rootfs")
    if os.path.isdir(rootfs):
        return rootfs
    os.makedirs(home, exist_ok=True)
    with open(os.path.join(home, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.isdir(rootfs):
            return rootfs
        print("bundles: making a Debian root file system, this happens once", file=sys.stderr, flush=True)
        new = os.path.join(home, "new")
        shutil.rmtree(new, ignore_errors=True)
        command = ["mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", "--include=" + packages,
                   "--aptopt=APT::Install-Recommends false", "--dpkgopt=path-exclude=/usr/share/doc/*",
                   "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
                   "--customize-hook=rm -rf \"$1\"/var/lib/apt/lists/* \"$1\"/var/cache/apt/*", "bookworm", new]
        with open(os.path.join(home, "log"), "w") as log:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if done.returncode != 0:
            raise RuntimeError("mmdebstrap failed: see %s/log" % home)
        os.rename(new, rootfs)
    return rootfs


if __name__ == "__main__":
    print(debian_rootfs(SYSTEMD_PACKAGES if "--systemd" in sys.argv else DEBIAN_PACKAGES))
