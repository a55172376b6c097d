# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine's memory on the host: what goes back to it, huge pages, and ends for lack of memory."""
import mmap
import os
import subprocess
import time

from harness import Case, host

MIB = 1 << 20
ORDER = "/sys/module/page_reporting/parameters/page_reporting_order"
HUGE_PAGES = "/proc/sys/vm/nr_hugepages"
KHUGEPAGED = "/sys/kernel/mm/transparent_hugepage/khugepaged/"


def khugepaged(name, value=None):
    """A number of khugepaged's; with a value it becomes that."""
    with open(KHUGEPAGED + name, "r" if value is None else "r+") as f:
        before = int(f.read())
        if value is not None:
            f.seek(0)
            f.write(str(value))
    return before


def vmm_of(monitor):
    return next(pid for pid in host.children_of(monitor) if host.name_of(pid) == "moat-vmm")


def memory_of(vmm):
    """Bytes of the host's memory that the guest's has: of the blocks of the file that it is."""
    with open("/proc/%d/maps" % vmm) as f:
        for line in f:
            fields = line.split(None, 5)
            if len(fields) > 5 and "s" in fields[1] and ("memfd:" in fields[5] or "/#" in fields[5]):
                return os.stat("/proc/%d/map_files/%s" % (vmm, fields[0])).st_blocks * 512
    raise RuntimeError("vmm %d has no memory file mapped" % vmm)


class Memory(Case):
    level = "vm"

    def run_ok(self):
        done = self.run_container()
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        return done.stdout.decode()

    def test_free_memory_goes_back(self):
        """A file of 48 MiB in a tmpfs, which is not there any more: the guest reports within seconds."""
        def change(config):
            next(m for m in config["mounts"] if m["destination"] == "/dev/shm")["options"] = ["size=60m", "mode=1777"]
        self.bundle("sh", "-c", "head -c 50331648 /dev/zero >/dev/shm/x; echo; while [ ! -e /go ]; do sleep 0.1; done; "
                    "rm /dev/shm/x; sleep 1000", change=change)
        read, write = os.pipe()
        name = self.create(stdout=write)
        os.close(write)
        self.ok("start", name)
        with os.fdopen(read, "rb") as out:
            self.assertEqual(out.readline(), b"\n")
        vmm = vmm_of(self.pid(name))
        full = memory_of(vmm)
        self.assertGreater(full, 64 * MIB)
        open(os.path.join(self.rootfs, "go"), "w").close()
        self.wait_until(lambda: memory_of(vmm) < full - 32 * MIB, "the host has it again", 30)
        # And it is the guest's as soon as that wants it.
        self.ok("exec", name, "sh", "-c", "head -c 50331648 /dev/zero >/dev/shm/y")
        self.assertGreater(memory_of(vmm), full - 8 * MIB)
        self.ok("delete", "--force", name)

    def test_policy(self):
        """linux.memoryPolicy is about the host's nodes, which the machine's memory is from; the guest knows of none."""
        if not os.path.isdir("/sys/devices/system/node/node0"):
            self.skipTest("a kernel without NUMA")

        def policy(**values):
            return lambda c: c["linux"].update(memoryPolicy=values)
        self.bundle("sleep", "1000", change=policy(mode="MPOL_BIND", nodes="0"))
        name = self.create()
        with open("/proc/%d/numa_maps" % vmm_of(self.pid(name))) as f:
            guest = [line.split()[1] for line in f if "memfd:" in line or "/#" in line]
        self.assertTrue(guest)
        self.assertEqual(set(guest), {"bind:0"})
        self.ok("start", name)
        self.ok("exec", name, "true")
        self.ok("delete", "--force", name)
        self.bundle("true", change=policy(mode="MPOL_BIND", nodes="0-"))
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=("memoryPolicy.nodes", "0-"))

    def test_free_memory_is_not_kept(self):
        """Lists of free pages are not reported: what a processor's hold stays near 1 MiB, also after much was given to it."""
        self.bundle("sh", "-c", "head -c 16777216 /dev/zero >/dev/shm/x; rm /dev/shm/x; "
                    "awk '/count:/ { pages += $2 } END { print pages }' /proc/zoneinfo; nproc")
        pages, processors = self.run_ok().split()
        self.assertLess(int(pages), 512 * int(processors))

    def test_idle(self):
        """What a machine that began with a template has of the host when its workload sleeps; its kernel's code is the file's."""
        self.settings["memory"] = 128 * MIB
        self.write_settings()
        self.bundle("true")
        self.run_ok()  # makes the template, if there is none
        self.bundle("sleep", "1000")
        name = self.create()
        self.ok("start", name)
        vmm = vmm_of(self.pid(name))
        self.wait_until(lambda: memory_of(vmm) <= 24 * MIB, "it has at most 24 MiB", 60)
        self.ok("delete", "--force", name)

    def test_idle_stays_idle(self):
        """The host does not make huge pages again of those that the guest has given back in part."""
        if not os.path.exists(KHUGEPAGED):
            self.skipTest("this kernel has no transparent huge pages")
        self.settings["memory"] = 128 * MIB
        self.write_settings()
        self.bundle("sleep", "1000")
        name = self.create()
        self.ok("start", name)
        vmm = vmm_of(self.pid(name))
        full = memory_of(vmm)
        self.wait_until(lambda: memory_of(vmm) < full and self.is_steady(vmm), "it has given memory back", 60)
        for setting, value in ("scan_sleep_millisecs", 50), ("pages_to_scan", 65536):
            self.addCleanup(khugepaged, setting, khugepaged(setting, value))
        before, scans = memory_of(vmm), khugepaged("full_scans")
        with mmap.mmap(-1, 8 * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as own:
            own.madvise(mmap.MADV_HUGEPAGE)  # there is one process at least that it looks at
            self.wait_until(lambda: khugepaged("full_scans") > scans + 3, "khugepaged has looked at all processes", 60)
        self.assertLess(memory_of(vmm), before + 6 * MIB)
        self.ok("delete", "--force", name)

    def is_steady(self, vmm):
        """Nothing has changed for longer than the guest's kernel waits between two reports."""
        before = memory_of(vmm)
        time.sleep(3)
        return memory_of(vmm) == before

    def test_pieces_of_huge_pages(self):
        """They go back from a guest that idles; one that works would only take them again."""
        self.bundle("sh", "-c", "while :; do read order <%s; echo $order >/order; [ -e /busy ] || sleep 4; done" % ORDER)
        busy = os.path.join(self.rootfs, "busy")
        name = self.create()
        self.ok("start", name)
        self.wait_until(lambda: self.order() == "5", "it reports small pieces", 60)
        open(busy, "w").close()
        self.wait_until(lambda: self.order() == "9", "it reports huge pages only", 60)
        os.unlink(busy)
        self.wait_until(lambda: self.order() == "5", "it reports small pieces again", 60)
        self.ok("delete", "--force", name)

    def order(self):
        try:
            with open(os.path.join(self.rootfs, "order")) as f:
                return f.read().strip()
        except FileNotFoundError:
            return None

    def set_aside(self, pages):
        with open(HUGE_PAGES, "w") as f:
            f.write(str(pages))
        with open(HUGE_PAGES) as f:
            return int(f.read())

    def test_huge_pages(self):
        with open(HUGE_PAGES) as f:
            self.addCleanup(self.set_aside, int(f.read()))
        self.settings.update(hugepages=True, memory=64 * MIB)
        self.write_settings()
        self.bundle("sleep", "1000")
        if self.set_aside(40) < 40:
            self.skipTest("the host has no 80 MiB of huge pages to give")
        name = self.create()
        self.ok("start", name)
        with open("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages") as f, \
                open("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages") as g:
            self.assertEqual(40 - int(g.read()) + int(f.read()), 32)
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=("64 MiB of huge pages", "nr_hugepages"))
        self.assertEqual(self.ok("exec", name, "echo", "still here").stdout, b"still here\n")
        self.ok("delete", "--force", name)
        with open("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages") as f:
            self.assertEqual(int(f.read()), 40)


class Lack(Case):
    level = "vm"

    def in_cgroup(self, *args, limit=48 * MIB):
        self.bundle(*args)
        self.path = "/%s/%s" % (host.RUN_TAG, self.id())
        self.config["linux"]["cgroupsPath"] = self.path
        self.config["linux"]["resources"] = {"memory": {"limit": limit, "swap": limit}}
        self.write_config()
        self.addCleanup(host.remove_tagged_cgroups)

    def test_of_the_host(self):
        """The host's OOM killer takes the vmm: that is what is told."""
        self.in_cgroup("sh", "-c", "echo; while [ ! -e /go ]; do sleep 0.1; done; head -c 40000000 /dev/zero >/dev/shm/x; sleep 1000")
        limit = "/sys/fs/cgroup%s/memory.max" % self.path
        name = self.new_id()
        process = self.start_moat("run", "--bundle", self.bundle_path, name, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"\n")
        if not os.path.exists(limit):
            process.kill()
            self.ok("delete", "--force", name)
            self.skipTest("no memory controller of cgroup v2")
        with open(os.path.join(os.path.dirname(limit), "memory.current")) as f:
            used = int(f.read())
        with open(limit, "w") as f:
            f.write(str(used + 8 * MIB))
        open(os.path.join(self.rootfs, "go"), "w").close()
        _, said = process.communicate(timeout=60 * host.TIME_SCALE)
        self.assertEqual(process.returncode, 137)
        self.assertIn(b"the host ran out of memory for it", said)
        self.assertEqual(len(said.splitlines()), 1, said)

    def oom_kills(self, *args):
        """How many the host's kernel has counted in the container's cgroup when the workload has ended."""
        self.in_cgroup(*args)
        name = self.create(stderr=subprocess.DEVNULL)
        events = "/sys/fs/cgroup%s/memory.events" % self.path
        if not os.path.exists(events):
            self.ok("delete", "--force", name)
            self.skipTest("no memory controller of cgroup v2")
        self.ok("start", name)
        self.wait_status(name, "stopped")
        with open(events) as f:
            count = int(dict(line.split() for line in f)["oom_kill"])
        self.ok("delete", name)
        return count

    def test_of_the_guest(self):
        """Engines look for it in the host's cgroup, and find it there."""
        self.assertEqual(self.oom_kills("sh", "-c", "x=a; while :; do x=$x$x; done"), 1)

    def test_of_a_child(self):
        """The workload goes on and ends by itself."""
        self.assertEqual(self.oom_kills("sh", "-c", "sh -c 'x=a; while :; do x=$x$x; done'; exit 3"), 1)

    def test_of_a_group(self):
        """kubelet asks for the end of all that is in the cgroup when one is killed. Of the workload, not of its monitor."""
        self.in_cgroup("sh", "-c", "x=a; while :; do x=$x$x; done")
        self.config["linux"]["resources"]["unified"] = {"memory.oom.group": "1"}
        self.write_config()
        if not os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            self.skipTest("no cgroup v2")
        name = self.new_id()
        process = self.start_moat("run", "--keep", "--bundle", self.bundle_path, name, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        _, said = process.communicate(timeout=60 * host.TIME_SCALE)
        with open("/sys/fs/cgroup%s/memory.events" % self.path) as f:
            events = dict(line.split() for line in f)
        self.ok("delete", "--force", name)
        self.assertEqual(process.returncode, 137, said)
        self.assertEqual((events["oom_kill"], events.get("oom_group_kill", "0")), ("1", "0"), said)

    def test_of_none(self):
        """Killed, but not for that."""
        self.assertEqual(self.oom_kills("sh", "-c", "kill -9 $$"), 0)
