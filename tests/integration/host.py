# SPDX-License-Identifier: GPL-2.0-or-later
"""
What a test may have left behind on the host: a snapshot before, another one after, and the difference in words.
The runner gives tests mount, network, PID and IPC namespaces of their own, so all that differs is the test's doing;
only cgroups are shared with whatever else runs here, and are told apart by the run's tag.
"""
import os
import secrets
import signal
import socket
import struct
import time

RUN_TAG = os.environ.setdefault("MOAT_TEST_TAG", "moat" + secrets.token_hex(4))
all_cgroups = False  # set by a runner whose cgroup namespace is its own
IN_LAB = os.environ.get("MOAT_LAB") == "1"
SANITIZED = os.environ.get("MOAT_SANITIZED") == "1"
TIME_SCALE = float(os.environ.get("MOAT_TIME_SCALE") or 1) * (5 if SANITIZED else 1)

# Directories where a forgotten file would end up.
WATCHED = ("/tmp", "/var/tmp", "/run", "/dev/shm")


def cgroup_roots():
    """Mount points of cgroup hierarchies, v1 and v2."""
    roots = []
    with open("/proc/self/mountinfo") as f:
        for line in f:
            left, right = line.split(" - ")
            if right.split()[0] in ("cgroup", "cgroup2"):
                roots.append(left.split()[4])
    return roots


def cgroups():
    """Paths of cgroups; but "moat" itself, where containers without a cgroupsPath go, stays as other runtimes' parents do."""
    found = set()
    for root in cgroup_roots():
        for directory, names, _ in os.walk(root):
            for name in names:
                path = os.path.join(directory, name)
                if RUN_TAG in path or all_cgroups or (IN_LAB and name != "moat"):
                    found.add(path)
    return found


def remove_tagged_cgroups():
    """The level above a container's cgroup is kept for the next one; after a test there is none."""
    for root in cgroup_roots():
        try:
            os.rmdir(os.path.join(root, RUN_TAG))
        except OSError:
            pass


def mounts():
    found = []
    with open("/proc/self/mountinfo") as f:
        for line in f:
            fields = line.split()
            found.append("%s on %s (%s)" % (fields[3], fields[4], line.split(" - ")[1].split()[0]))
    return sorted(found)


def processes():
    """Living processes but this one and its ancestors, as {pid: command}."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open("/proc/%s/stat" % name) as f:
                stat = f.read()
            state, parent, _, _, _, _, flags = stat[stat.rindex(")") + 2:].split()[:7]
            with open("/proc/%s/cmdline" % name, "rb") as f:
                command = f.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue  # ended meanwhile
        kernel_thread = int(flags) & 0x00200000
        if state not in "ZX" and not kernel_thread:
            found[int(name)] = command or stat[stat.index("("):stat.rindex(")") + 1]
    pid = os.getpid()
    while pid > 0:
        found.pop(pid, None)
        pid = parent_of(pid)
    return found


def parent_of(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            stat = f.read()
    except OSError:
        return 0
    return int(stat[stat.rindex(")") + 2:].split()[1])


def name_of(pid):
    """What a process calls itself, "" for one that has ended."""
    try:
        with open("/proc/%d/comm" % pid) as f:
            return f.read().strip()
    except OSError:
        return ""


def children_of(pid):
    """Direct children of a process, as pids."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and parent_of(int(name)) == pid:
            found.append(int(name))
    return found


def files(own):
    """Paths below the watched directories, but those of the harness itself."""
    found = set()
    for top in WATCHED:
        for directory, names, plain in os.walk(top):
            names[:] = [n for n in names if os.path.join(directory, n) not in own]
            found.update(os.path.join(directory, n) for n in names + plain)
    found.discard("/run/criu.kdat")  # what CRIU knows of the kernel, kept by whoever asks it first
    return found


def nft_tables():
    """Names of nftables' tables, asked over netlink: starting nft for every test would cost more than the test."""
    request, dump, done, error = 1, 0x300, 3, 2
    get_table = 10 << 8 | 1  # NFNL_SUBSYS_NFTABLES, NFT_MSG_GETTABLE
    found = set()
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as netfilter:
            netfilter.bind((0, 0))
            netfilter.send(struct.pack("=IHHIIBBH", 20, get_table, request | dump, 1, 0, 0, 0, 0))
            while True:
                data = netfilter.recv(1 << 16)
                while len(data) >= 16:
                    length, kind = struct.unpack_from("=IH", data)
                    if kind in (done, error):
                        return found
                    family, attributes = data[16], data[20:length]
                    while len(attributes) >= 4:
                        size, number = struct.unpack_from("=HH", attributes)
                        if number & 0x3fff == 1:  # NFTA_TABLE_NAME
                            found.add("table %s of family %d" % (attributes[4:size].rstrip(b"\0").decode(), family))
                        attributes = attributes[(size + 3) & ~3:]
                    data = data[(length + 3) & ~3:]
    except OSError:
        return found  # no nftables in this kernel


def ipc():
    found = set()
    for kind in ("msg", "sem", "shm"):
        try:
            with open("/proc/sysvipc/" + kind) as f:
                found.update(kind + " " + line.split()[1] for line in f.readlines()[1:])
        except OSError:
            pass
    return found


def kill_leftovers(lines):
    """Those of Snapshot.leftovers() that are processes, so that one test does not spoil the next."""
    for line in lines:
        if line.startswith("process "):
            try:
                os.kill(int(line.split()[1].rstrip(":")), signal.SIGKILL)
            except ProcessLookupError:
                pass


class Snapshot:
    """own: paths that belong to the harness and may change."""

    def __init__(self, own=()):
        self.own = set(own)
        self.cgroups = cgroups()
        self.mounts = mounts()
        self.processes = processes()
        self.interfaces = {name for _, name in socket.if_nameindex()}
        self.files = files(self.own)
        self.nft = nft_tables()
        self.ipc = ipc()

    def leftovers(self):
        """What is there now and was not then, in words."""
        found = []
        for pid, command in processes().items():
            if pid not in self.processes:
                found.append("process %d: %.100s" % (pid, command))
        before = list(self.mounts)
        for mount in mounts():
            if mount in before:
                before.remove(mount)
            else:
                found.append("mount " + mount)
        found += ["mount gone: " + mount for mount in before]
        found += ["cgroup " + path for path in sorted(cgroups() - self.cgroups)]
        found += ["interface " + name for name in {n for _, n in socket.if_nameindex()} - self.interfaces]
        found += ["file " + path for path in sorted(files(self.own) - self.files)[:20]]
        found += ["nft " + table for table in nft_tables() - self.nft]
        found += ["System V " + name for name in ipc() - self.ipc]
        return found

    def settle(self, seconds=2.0):
        """leftovers(), after giving processes that are on their way out the time to end."""
        deadline = time.monotonic() + seconds * TIME_SCALE
        found = self.leftovers()
        while found and time.monotonic() < deadline:
            time.sleep(0.05)
            found = self.leftovers()
        return found
