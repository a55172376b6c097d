# SPDX-License-Identifier: GPL-2.0-or-later
"""Level sandbox: what a container is given, what is refused, and what the operator can allow."""
import ctypes
import json
import os
import resource
import shutil
import subprocess
import tempfile

import bundles
from harness import IN_LAB, TOP, Case, at_levels

REGISTRY = "/run/moat-ids"


@at_levels("sandbox")
class Given(Case):
    def test_ids_of_its_own(self):
        """Files keep their owners inside; outside, the process is nobody that the host knows."""
        self.bundle("sh", "-c", "touch /new; chown 1000:1000 /new; stat -c '%u %g' /new /bin/busybox; exec sleep 1000",
                    change=lambda c: c.__setitem__("root", {"path": "rootfs"}))
        out = os.path.join(self.work, "out")
        with open(out, "wb") as f:
            name = self.create(stdout=f)
            self.ok("start", name)
        self.wait_until(lambda: os.path.getsize(out) == 14, "the owners are told")
        with open(out) as f:
            self.assertEqual(f.read(), "1000 1000\n0 0\n")
        pid = self.pid(name)
        self.assertEqual(os.stat("/proc/%d" % pid).st_uid, 1879048192)
        with open("/proc/%d/uid_map" % pid) as f:
            self.assertEqual(f.read().split(), ["0", "1879048192", "65536"])
        self.assertEqual(os.stat(os.path.join(self.rootfs, "new")).st_uid, 1000)
        self.ok("delete", "--force", name)

    def test_ranges(self):
        """No two containers have the same; a killed command's is free again."""
        self.settings["sandbox"] = {"idRanges": 3}
        self.write_settings()
        self.bundle("sleep", "1000")
        names = [self.create() for _ in range(3)]
        self.assertEqual(len({os.stat("/proc/%d" % self.pid(name)).st_uid for name in names}), 3)
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says="idRanges")
        self.ok("delete", "--force", names[1])
        again = self.create()
        self.assertEqual(os.stat("/proc/%d" % self.pid(again)).st_uid, 1879048192 + 65536)
        for name in (names[0], names[2], again):
            self.ok("delete", "--force", name)
        self.assertFalse(os.path.exists(REGISTRY))

    def test_many_at_once(self):
        """No two get the same range, also where commands run side by side and some are killed on the way."""
        self.bundle("sleep", "1000")
        names = [self.new_id() for _ in range(24)]
        making = [self.start_moat("create", "--bundle", self.bundle_path, name, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) for name in names]
        for process in making[::6]:
            process.kill()
        for process in making:
            process.wait()
        alive = [name for name, process in zip(names, making) if process.returncode == 0]
        self.assertGreaterEqual(len(alive), 20)
        owners = {os.stat("/proc/%d" % self.pid(name)).st_uid for name in alive}
        self.assertEqual(len(owners), len(alive))
        for name in names:
            self.moat("delete", "--force", name)
        self.assertFalse(os.path.exists(REGISTRY))

    def test_range_of_one_that_is_gone(self):
        self.bundle("true")
        os.mkdir(REGISTRY, 0o700)
        os.symlink("/nowhere/at/all", REGISTRY + "/1879048192")
        self.assertEqual(self.run_container().returncode, 0)
        self.assertFalse(os.path.exists(REGISTRY))

    def test_delegated_ranges_are_left_alone(self):
        path = os.path.join(self.work, "subuid")
        with open(path, "w") as f:
            f.write("somebody:1879048192:65536\n")
        subprocess.run(["mount", "--bind", path, "/etc/subuid"], check=True)
        try:
            out = self.output("cat", "/proc/self/uid_map")
        finally:
            subprocess.run(["umount", "/etc/subuid"], check=True)
        self.assertEqual(out.split()[1], str(1879048192 + 65536))

    def test_process(self):
        """no_new_privs, a filter, capabilities under the ceiling: for exec too."""
        self.bundle("sleep", "1000", change=lambda c: (c["process"].__setitem__("noNewPrivileges", False)))
        name = self.create()
        self.ok("start", name)
        wanted = "CapInh:\t0000000000000000 CapPrm:\t00000000800405fb CapEff:\t00000000800405fb CapBnd:\t00000000800405fb " \
                 "NoNewPrivs:\t1 Seccomp:\t2"

        def shown(lines):
            return " ".join(line for line in lines.splitlines()
                            if line.split(":")[0] in ("CapInh", "CapPrm", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp"))
        with open("/proc/%d/status" % self.pid(name)) as f:
            self.assertEqual(shown(f.read()), wanted)
        self.assertEqual(shown(self.ok("exec", name, "cat", "/proc/self/status").stdout.decode()), wanted)
        self.refused("exec", "--cap", "CAP_SYS_ADMIN", name, "true", says=["CAP_SYS_ADMIN", "sandbox.capabilities"])
        self.ok("delete", "--force", name)

    def test_hard_limits_above_the_callers(self):
        """Engines ask for many descriptors; in a user namespace the process could not raise its own limit."""
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        with open("/proc/self/status") as f:
            effective = int(next(line for line in f if line.startswith("CapEff")).split()[1], 16)
        if not effective & 1 << 24:
            self.skipTest("CAP_SYS_RESOURCE is missing here")
        self.bundle("sh", "-c", "ulimit -Hn; exec sleep 1000", change=lambda c: c["process"].__setitem__(
            "rlimits", [{"type": "RLIMIT_NOFILE", "hard": limit, "soft": 500}]))
        name = self.new_id()
        out = os.path.join(self.work, "out")
        with open(out, "wb") as f:
            self.create(name=name, stdout=f, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
        self.ok("start", name)
        self.wait_until(lambda: os.path.getsize(out) > 0, "the limit is told")
        with open(out) as f:
            self.assertEqual(f.read(), "%d\n" % limit)
        done = self.ok("exec", name, "sh", "-c", "ulimit -Hn",
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
        self.assertEqual(done.stdout, b"%d\n" % limit)
        self.ok("delete", "--force", name)

    def test_default_limits(self):
        out = self.output("sh", "-c", "cat /sys/fs/cgroup/pids/pids.max 2> /dev/null || cat /sys/fs/cgroup/pids.max",
                          change=self.with_cgroups)
        self.assertEqual(out, "1024\n")

    def test_limits_of_the_operator(self):
        self.settings["sandbox"] = {"pids": 77, "memory": "64M", "cpus": 1}
        self.write_settings()
        read = "cd /sys/fs/cgroup; cat pids/pids.max memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us 2>/dev/null || " \
               "cat pids.max memory.max cpu.max"
        out = self.output("sh", "-c", read, change=self.with_cgroups)
        self.assertEqual(out.split()[:3], ["77", "67108864", "100000"])

    def with_cgroups(self, config):
        config["mounts"].append({"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup"})

    def test_bundles_own_limit(self):
        out = self.output("sh", "-c", "cat /sys/fs/cgroup/pids/pids.max 2> /dev/null || cat /sys/fs/cgroup/pids.max",
                          change=lambda c: (self.with_cgroups(c),
                                            c["linux"].__setitem__("resources", {"pids": {"limit": 50}})))
        self.assertEqual(out, "50\n")

    def test_kernel_files(self):
        """Read-only, whatever the bundle says; what tells of the machine is hidden."""
        def change(c):
            c["linux"]["maskedPaths"] = c["linux"]["readonlyPaths"] = []
            for mount in c["mounts"]:
                if mount["destination"] == "/sys":
                    mount["options"] = ["rw"]
        script = "for f in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /proc/irq /sys/kernel/uevent_helper; do " \
                 "if [ -d $f ]; then touch $f; else true >> $f; fi 2> /dev/null && echo $f; done; wc -c < /proc/kallsyms; wc -c < /proc/keys; ls /sys/firmware /sys/module | wc -w"
        out = self.output("sh", "-c", script, change=change)
        self.assertEqual(out, "0\n0\n2\n")  # ls names the two directories

    def test_streams_can_be_opened_anew(self):
        """By root inside, and by another user."""
        for uid in (0, 1000):
            self.bundle("sh", "-c", "echo anew > /proc/self/fd/1",
                        change=lambda c: c["process"].__setitem__("user", {"uid": uid, "gid": uid}))
            done = subprocess.run(self.command("run", "--bundle", self.bundle_path, self.new_id()), capture_output=True,
                                  stdin=subprocess.DEVNULL, timeout=60)
            self.assertEqual((done.stdout, done.returncode), (b"anew\n", 0), done.stderr)

    def test_bind_mounts(self):
        """The owners of files in them are seen as they are; what is made there belongs to the host's ids as named inside."""
        shared = os.path.join(self.work, "shared")
        os.mkdir(shared)
        with open(os.path.join(shared, "file"), "w"):
            pass
        os.chown(os.path.join(shared, "file"), 33, 34)
        out = self.output("sh", "-c", "stat -c '%u %g' /shared/file; touch /shared/new",
                          change=lambda c: c["mounts"].append(
                              {"destination": "/shared", "type": "bind", "source": shared, "options": ["rbind"]}))
        self.assertEqual(out, "33 34\n")
        self.assertEqual(os.stat(os.path.join(shared, "new")).st_uid, 0)

    def test_on_disk(self):
        """A root file system of the machine's own disk, where the other tests' are on a tmpfs."""
        if IN_LAB:
            self.skipTest("the lab has no disk but this machine's files over virtio-fs, where owners cannot be mapped")
        home = tempfile.mkdtemp(dir=bundles.CACHE)
        self.addCleanup(shutil.rmtree, home)
        self.bundle("sh", "-c", "touch /new; chown 5:6 /new; stat -c '%u %g' /new /bin/busybox")
        rootfs = os.path.join(home, "rootfs")
        shutil.copytree(self.rootfs, rootfs, symlinks=True)
        self.config["root"]["path"] = rootfs
        self.write_config()
        done = self.run_container()
        self.assertEqual((done.stdout, done.stderr), (b"5 6\n0 0\n", b""))
        self.assertEqual(os.stat(os.path.join(rootfs, "new")).st_uid, 5)

    def test_overlay(self):
        """A root file system that is an overlay, as engines make them: two layers below; changed, removed and new files."""
        self.bundle("sh", "-c", "stat -c %u /etc/passwd; cat /etc/two; ls /var; echo x >> /etc/passwd; rm /etc/group; mkdir /new; "
                    "rm -r /opt; mkdir /opt; ls /opt; touch /opt/mine; stat -c '%u %g' /new /etc/passwd /opt/mine")
        layers = [os.path.join(self.work, name) for name in ("lower:one", "two", "upper", "work")]
        os.rename(self.rootfs, layers[0])
        for path in layers[1:] + [self.rootfs]:
            os.makedirs(path)
            os.chmod(path, 0o755)
        os.makedirs(layers[1] + "/etc")
        os.makedirs(layers[0] + "/opt/old")
        with open(layers[1] + "/etc/two", "w") as f:
            f.write("two\n")
        os.mknod(layers[1] + "/var", 0o20000, 0)  # a whiteout: the second layer removed it
        subprocess.run(["mount", "-t", "overlay", "-o", "lowerdir=%s:%s,upperdir=%s,workdir=%s" % (
            layers[1], layers[0].replace(":", "\\:"), layers[2], layers[3]), "overlay", self.rootfs], check=True)
        self.addCleanup(self._unmount, self.rootfs)
        done = self.run_container()
        self.assertEqual((done.stdout, done.stderr), (b"0\ntwo\n0 0\n0 0\n0 0\n", b"ls: /var: No such file or directory\n"))
        self.assertTrue(os.path.isdir(os.path.join(self.rootfs, "new")))
        self.assertEqual(os.listdir(os.path.join(self.rootfs, "opt")), ["mine"])
        self.assertFalse(os.path.exists(os.path.join(self.rootfs, "etc/group")))
        self.assertEqual(os.stat(os.path.join(layers[2], "opt/mine")).st_uid, 0)

    def test_overlay_seen_afresh(self):
        """What the engine looked up before is not what it goes on seeing when the container has changed it (docker diff)."""
        self.bundle("sh", "-c", "echo more >> /etc/passwd; rm /etc/group")
        lower = self.rootfs + ".lower"
        os.rename(self.rootfs, lower)
        os.mkdir(self.rootfs)
        self._overlay(lower, self.rootfs)
        for name in ("passwd", "group"):
            os.stat(os.path.join(self.rootfs, "etc", name))
        self.assertEqual(self.run_container().returncode, 0)
        self.assertEqual(os.listdir(os.path.join(self.rootfs, "etc")), ["passwd"])
        with open(os.path.join(self.rootfs, "etc/passwd")) as f:
            self.assertIn("more", f.read())

    def test_overlay_whose_layers_are_elsewhere(self):
        """As the root of a container is, whose layers only the host can see."""
        self.bundle("true")
        lower = self.rootfs + ".lower"
        os.rename(self.rootfs, lower)
        os.mkdir(self.rootfs)
        self._overlay(lower, self.rootfs)
        os.rename(lower, lower + ".moved")
        self.refused("run", "--bundle", self.bundle_path, self.new_id(),
                     says=["the overlay " + self.rootfs, lower + ": No such file", "another file system"])

    def test_overlay_with_relative_layers(self):
        """containerd and docker, where an image has many layers: the upper one in SNAPSHOT/fs, or the place in ID/merged.
        And podman with --rm: volatile."""
        for absolute in (True, False):
            self.bundle("sh", "-c", "cat /two; touch /new")
            home = os.path.join(self.work, "home%d" % absolute)
            for name in ("1/fs", "2/fs", "3/fs", "3/work", "3/merged"):
                os.makedirs(os.path.join(home, name))
                os.chmod(os.path.join(home, name), 0o755)
            os.rmdir(os.path.join(home, "1/fs"))
            os.rename(self.rootfs, os.path.join(home, "1/fs"))
            with open(os.path.join(home, "2/fs/two"), "w") as f:
                f.write("two\n")
            place = os.path.join(home, "3/merged")
            upper = home + "/3" if absolute else "3"
            self.mount_relative(home, place, "lowerdir=2/fs:1/fs,upperdir=%s/fs,workdir=%s/work%s" % (
                upper, upper, ",volatile" if absolute else ""))
            self.addCleanup(self._unmount, place)
            self.config["root"]["path"] = place
            self.write_config()
            for _ in range(2):  # engines start a container again
                done = self.run_container()
                self.assertEqual((done.stdout, done.stderr), (b"two\n", b""))
            self.assertEqual(os.stat(os.path.join(home, "3/fs/new")).st_uid, 0)

    def mount_relative(self, home, place, options):
        """mount(8) makes paths absolute; the system call does not."""
        libc = ctypes.CDLL(None, use_errno=True)
        old = os.getcwd()
        os.chdir(home)
        try:
            result = libc.mount(b"overlay", place.encode(), b"overlay", 0, options.encode())
        finally:
            os.chdir(old)
        self.assertEqual(result, 0, os.strerror(ctypes.get_errno()))

    def test_maps_of_a_mount(self):
        """Ids in the maps of a mount are ids inside, as they are for a container that has no user namespace."""
        shared = os.path.join(self.work, "shared")
        os.mkdir(shared)
        os.chown(shared, 100, 100)
        maps = [{"containerID": 100, "hostID": 1000, "size": 10}]
        out = self.output("stat", "-c", "%u %g", "/shared", change=lambda c: c["mounts"].append(
            {"destination": "/shared", "type": "bind", "source": shared, "options": ["bind", "idmap"],
             "uidMappings": maps, "gidMappings": maps}))
        self.assertEqual(out, "1000 1000\n")

    def test_no_user_namespace_inside(self):
        self.bundle("unshare", "-U", "true")
        self.assertNotEqual(self.run_container().returncode, 0)
        self.assertEqual(self.output("cat", "/proc/sys/user/max_user_namespaces"), "0\n")

    def test_own_mappings(self):
        """An engine that manages ids itself (podman --userns=auto) keeps doing so."""
        def change(c):
            c["linux"]["namespaces"].append({"type": "user"})
            c["linux"]["uidMappings"] = c["linux"]["gidMappings"] = [{"containerID": 0, "hostID": 500000, "size": 65536}]
            subprocess.run(["chown", "-hR", "500000:500000", self.rootfs], check=True)
        self.assertEqual(self.output("cat", "/proc/self/uid_map", change=change).split(), ["0", "500000", "65536"])


@at_levels("sandbox")
class Refused(Case):
    def refuse(self, says, change, allow=None, works=True):
        """Refused with a message; and where the operator allows it, it runs."""
        self.bundle("true", change=change)
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=says)
        if allow:
            self.settings["sandbox"] = allow
            self.write_settings()
            done = self.run_container()
            if works:
                self.assertEqual((done.returncode, done.stderr), (0, b""))
            else:
                self.assertNotIn(b"level sandbox", done.stderr)
            self.settings.pop("sandbox")
            self.write_settings()

    def test_host_namespaces(self):
        for kind, permission in (("network", "hostNetwork"), ("pid", "hostPID"), ("ipc", "hostIPC"), ("uts", "hostUTS")):
            def without(c):
                c["linux"]["namespaces"] = [n for n in c["linux"]["namespaces"] if n["type"] != kind]
                c.pop("hostname", None)
            self.refuse([kind, permission], without, {"allow": [permission]})

            def by_path(c):
                for n in c["linux"]["namespaces"]:
                    if n["type"] == kind:
                        n["path"] = "/proc/1/ns/" + {"network": "net"}.get(kind, kind)
                c["mounts"] = [m for m in c["mounts"] if m["type"] not in ("sysfs", "proc", "mqueue")]
                c.pop("hostname", None)
            self.refuse([kind, permission], by_path)

    def test_user_namespace(self):
        def hosts_root(c):
            c["linux"]["namespaces"].append({"type": "user"})
            c["linux"]["uidMappings"] = c["linux"]["gidMappings"] = [{"containerID": 0, "hostID": 0, "size": 1}]
        self.refuse(["uidMappings", "root"], hosts_root)
        self.refuse("user namespace", lambda c: c["linux"]["namespaces"].append(
            {"type": "user", "path": "/proc/1/ns/user"}))

    def test_capabilities(self):
        for name in ("CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_NET_ADMIN", "CAP_SYS_MODULE", "CAP_BPF", "CAP_DAC_READ_SEARCH"):
            def change(c):
                for kind in ("bounding", "permitted", "effective"):
                    c["process"]["capabilities"][kind] = c["process"]["capabilities"][kind] + [name]
            self.refuse([name, "sandbox.capabilities"], change, {"capabilities": [name]})

    def test_devices(self):
        disk = {"path": "/dev/disk", "type": "b", "major": 7, "minor": 0}
        self.refuse(["/dev/disk", "devices"], lambda c: c["linux"].__setitem__("devices", [disk]))
        kvm = {"path": "/dev/kvm", "type": "c", "major": 10, "minor": 232}
        self.refuse(["/dev/kvm", "devices"], lambda c: c["linux"].__setitem__("devices", [kvm]), {"allow": ["devices"]})
        self.refuse("every device", lambda c: c["linux"].__setitem__(
            "resources", {"devices": [{"allow": True, "access": "rwm"}]}), {"allow": ["devices"]})
        self.refuse("/dev/kvm", lambda c: c["mounts"].append(
            {"destination": "/x", "type": "bind", "source": "/dev/kvm", "options": ["bind"]}))

    def test_kernel_file_systems(self):
        for path in ("/proc", "/sys", "/proc/sys/kernel", "/sys/fs/cgroup/pids" if os.path.isdir("/sys/fs/cgroup/pids")
                     else "/sys/fs/cgroup"):
            self.refuse(["/host", path], lambda c: c["mounts"].append(
                {"destination": "/host", "type": "bind", "source": path, "options": ["rbind"]}))

    def test_ids_that_are_not_mapped(self):
        self.refuse("100000", lambda c: c["process"].__setitem__("user", {"uid": 100000, "gid": 0}))

    def test_without_a_cgroup(self):
        self.bundle("true")
        self.refused("--cgroup-manager", "disabled", "run", "--bundle", self.bundle_path, self.new_id(), says="cgroup")


@at_levels("sandbox")
class Joined(Case):
    """Namespaces that were there before: what an engine prepared, and pods."""

    def test_network_of_an_engine(self):
        """podman and CNI: a network namespace by its path. sysfs shows it, its sysctls can be set, and root inside has no rights."""
        holder = subprocess.Popen(["unshare", "--net", "sleep", "1000"])
        self._children.append(holder)
        path = "/proc/%d/ns/net" % holder.pid
        self.wait_until(lambda: os.readlink(path) != os.readlink("/proc/self/ns/net"), "the namespace is there")
        subprocess.run(["nsenter", "--net=" + path, "ip", "link", "set", "lo", "up"], check=True)

        def change(c):
            for n in c["linux"]["namespaces"]:
                if n["type"] == "network":
                    n["path"] = path
            c["linux"]["sysctl"] = {"net.ipv4.ip_unprivileged_port_start": "77", "net.ipv4.ping_group_range": "0 0"}
        out = self.output("sh", "-c", "cat /proc/sys/net/ipv4/ip_unprivileged_port_start; readlink /proc/self/ns/net; "
                          "ls /sys/class/net; ifconfig lo down 2>/dev/null || echo no", change=change)
        groups = subprocess.run(["nsenter", "--net=" + path, "cat", "/proc/sys/net/ipv4/ping_group_range"], capture_output=True)
        self.assertEqual(groups.stdout.split(), [b"1879048192", b"1879048192"])  # group 0 inside
        seen = subprocess.run(["nsenter", "--net=" + path, "ls", "/proc/self/net/dev_snmp6"], capture_output=True, text=True)
        self.assertEqual(out.split(), ["77", os.readlink(path), *sorted(seen.stdout.split()), "no"])

    def test_pod(self):
        """A second container in the namespaces of the first."""
        self.bundle("sleep", "1000")
        first = self.create()
        self.ok("start", first)
        pid = self.pid(first)

        def change(c):
            for n in c["linux"]["namespaces"]:
                if n["type"] != "mount":
                    n["path"] = "/proc/%d/ns/%s" % (pid, {"network": "net"}.get(n["type"], n["type"]))
            c["hostname"] = "pod"
        out = self.output("sh", "-c", "hostname; cat /proc/1/cmdline | tr '\\0' ' '; echo; "
                          "awk '{print $2}' /proc/self/uid_map; test -d /dev/mqueue && echo mq", change=change)
        self.assertEqual(out.split(), ["pod", "sleep", "1000", str(1879048192 + 65536), "mq"])
        self.assertEqual(self.ok("exec", first, "hostname").stdout, b"pod\n")
        self.ok("delete", "--force", first)


@at_levels("sandbox")
class Engines(Case):
    def test_config_of_an_engine(self):
        """What docker writes for an ordinary container: nothing of it is refused."""
        with open(os.path.join(TOP, "tests/bench/seccomp.json")) as f:
            seccomp = json.load(f)

        def change(c):
            devices = [{"allow": False, "access": "rwm"}]
            devices += [{"allow": True, "type": "c", "major": major, "minor": minor, "access": "rwm"}
                        for major, minor in ((1, 5), (1, 3), (1, 9), (1, 8), (5, 0), (5, 1), (10, 200))]
            devices += [{"allow": True, "type": kind, "access": "m"} for kind in "cb"]
            etc = os.path.join(self.work, "resolv.conf")
            with open(etc, "w") as f:
                f.write("nameserver 192.0.2.1\n")
            c["process"].update(noNewPrivileges=False, oomScoreAdj=0)
            c["process"]["capabilities"]["inheritable"] = c["process"]["capabilities"]["bounding"]
            c["linux"].update(seccomp=seccomp, resources={"devices": devices, "pids": {"limit": 0}, "blockIO": {"weight": 0},
                                                          "memory": {}, "cpu": {"shares": 0}},
                              sysctl={"net.ipv4.ip_unprivileged_port_start": "0", "net.ipv4.ping_group_range": "0 2147483647"})
            c["mounts"] += [{"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup",
                             "options": ["ro", "nosuid", "noexec", "nodev"]},
                            {"destination": "/etc/resolv.conf", "type": "bind", "source": etc, "options": ["rbind", "rprivate"]}]
        out = self.output("sh", "-c", "cat /etc/resolv.conf; cat /proc/sys/net/ipv4/ip_unprivileged_port_start; echo x > /dev/null; "
                          "awk '{print $1, $2}' /proc/sys/net/ipv4/ping_group_range; head -c 4 /dev/urandom | wc -c; test -d /sys/fs/cgroup && id -u; grep Seccomp_filters /proc/self/status",
                          change=change)
        self.assertEqual(out, "nameserver 192.0.2.1\n0\n0 65535\n4\n0\nSeccomp_filters:\t2\n")
