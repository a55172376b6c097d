# SPDX-License-Identifier: GPL-2.0-or-later
"""Block devices of the host in microVMs, as the operator allows them: loop devices here, whose files show what was done."""
import os
import random
import shutil
import signal
import subprocess
import threading
import time

import host
from harness import Case, TIME_SCALE, TOLD, program

ALL = os.environ.get("MOAT_TEST_ALL") == "1"
MIB = 1 << 20
TOOLS = {"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
MOUNTING = {kind: ["CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE", "CAP_MKNOD", "CAP_CHOWN"]
            for kind in ("bounding", "effective", "permitted")}


def tool(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=TOOLS).stdout


class Devices(Case):
    """A base: loop devices, and bundles that ask for them."""
    level = "vm"

    def setUp(self):
        super().setUp()
        if not os.path.exists("/dev/loop-control"):
            self.skipTest("no loop devices here")

    def loop(self, name, size, *options):
        """A loop device of a file of zeros that take no room; returns its path."""
        path = os.path.join(self.work, name)
        with open(path, "wb") as f:
            f.truncate(size)
        device = tool("losetup", "--find", "--show", *options, path).strip()
        self.addCleanup(tool, "losetup", "-d", device)
        return device

    def allow(self, *patterns):
        self.settings["blockDevices"] = list(patterns)
        self.write_settings()

    def ask(self, *args, capabilities=None, vcpus=None, users=False, devices=()):
        """A bundle with devices: (path in the container, device of the host, what engines allow, more)."""
        def change(config):
            linux = config["linux"]
            linux["devices"] = linux.get("devices", [])
            rules = linux.setdefault("resources", {}).setdefault("devices", [])
            rules.insert(0, {"allow": False, "access": "rwm"})
            for path, device, access, more in devices:
                number = os.stat(device).st_rdev
                entry = {"type": "b", "major": os.major(number), "minor": os.minor(number)}
                linux["devices"].append({**entry, "path": path, **more})
                rules.append({**entry, "allow": True, "access": access})
            config["mounts"].append({"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]})
            if capabilities:
                config["process"]["capabilities"] = capabilities
            if users:
                linux["namespaces"].append({"type": "user"})
                for kind in ("uidMappings", "gidMappings"):
                    linux[kind] = [{"containerID": 0, "hostID": 70000, "size": 1000}]
            if vcpus:
                config["vm"] = {"hwConfig": {"vcpus": vcpus}}
        self.bundle(*args, change=change)
        for name in os.listdir("/usr"):
            if name.startswith("lib"):
                os.symlink("usr/" + name, os.path.join(self.rootfs, name))
        os.mkdir(os.path.join(self.rootfs, "mnt"))

    def shell(self, **bundle):
        """A container that does what it is told, as a function: command line in, its output out."""
        self.ask("sh", "-c", TOLD, **bundle)
        process = self.run_told()

        def tell(line=None):
            if line is not None:
                return self.tell(process, line)
            process.stdin.close()
            self.assertEqual(process.wait(20 * TIME_SCALE), 0)
            return None
        return tell


class Served(Devices):
    def test_file_system(self):
        """Made, used and trimmed inside, by two processors; another one that can only be read."""
        for name in ("mkfs.ext4", "debugfs", "e2fsck"):
            if not shutil.which(name, path=TOOLS["PATH"]):
                self.skipTest("no " + name)
        volume, other, third = self.loop("volume", 64 * MIB), self.loop("other", MIB), self.loop("third", MIB)
        backing = os.path.join(self.work, "volume")
        with open(other, "wb") as f:
            f.write(b"of the host\n")
        with open(volume, "wb") as f:
            f.write(b"x" * 8 * MIB)  # old data, which mkfs discards
        os.sync()
        self.allow(volume, os.path.join(self.work, "link"), "/dev/loop[0-9]*")
        os.symlink(other, os.path.join(self.work, "link"))
        tell = self.shell(capabilities=MOUNTING, vcpus=2, devices=(
            ("/dev/volume", volume, "rwm", {"fileMode": 0o640, "uid": 7, "gid": 8}),
            ("/dev/deep/er/read", other, "r", {}),
            ("/dev/mode", third, "rw", {"fileMode": 0o440})))
        self.assertEqual(tell("stat -c '%F %a %u %g' /dev/volume /dev/deep/er/read"),
                         "block special file 640 7 8\nblock special file 666 0 0\n")
        self.assertEqual(tell("head -n1 /dev/deep/er/read"), "of the host\n")
        self.assertIn("not permitted", tell("echo x >/dev/deep/er/read"))
        self.assertRegex(tell("echo x >/dev/mode"), "not permitted|denied|Read-only|I/O error")
        self.assertEqual(tell("set -- $(stat -c '0x%t 0x%T' /dev/volume); ls /sys/dev/block/$(($1)):$(($2))/mq | wc -l"), "2\n")
        # Numbers are the guest's: the host's open nothing, nor do others.
        number = os.stat(volume).st_rdev
        tell("mknod /dev/host b %d %d; mknod /dev/none b $(($1)) 240" % (os.major(number), os.minor(number)))
        for name in ("host", "none"):
            self.assertIn("not permitted", tell("test -b /dev/%s && head -c1 /dev/%s" % (name, name)))
        self.assertEqual(tell("/usr/sbin/mkfs.ext4 -q /dev/volume && mount -t ext4 /dev/volume /mnt && echo made"), "made\n")
        self.assertLess(os.stat(backing).st_blocks * 512, 7 * MIB)
        tell("i=0; while [ $i -lt 20 ]; do (head -c 1048576 /dev/zero | tr '\\0' z >/mnt/$i; sync) & i=$((i + 1)); done; wait")
        tell("cp /bin/busybox /mnt; sync")
        self.assertGreater(os.stat(backing).st_blocks * 512, 20 * MIB)
        # The file of a loop device on tmpfs cannot be zeroed, which mkfs has asked for, but discarded.
        self.assertEqual(tell("rm /mnt/[0-9]*; sync; busybox fstrim /mnt && echo trimmed"), "trimmed\n")
        self.assertLess(os.stat(backing).st_blocks * 512, 15 * MIB)
        self.assertEqual(tell("dd if=/mnt/busybox of=/mnt/direct bs=4k count=9 oflag=direct 2>/dev/null && cmp -n 36864 /mnt/direct "
                              "/bin/busybox && echo same; umount /mnt"), "same\n")
        # It is the machine's alone meanwhile.
        self.ask("true", devices=(("/dev/volume", volume, "rwm", {}),))
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=["/dev/volume", "in use"])
        tell()
        tool("e2fsck", "-fn", volume)
        tool("debugfs", "-R", "dump /busybox " + os.path.join(self.work, "copy"), volume)
        with open(os.path.join(self.work, "copy"), "rb") as copy, open(shutil.which("busybox"), "rb") as original:
            self.assertEqual(copy.read(), original.read())

    def test_outside_dev(self):
        """Where the root file system has no devices each is a mount of its own, over what the image has there or not."""
        volume = self.loop("volume", MIB)
        with open(volume, "wb") as f:
            f.write(b"of the host\n")
        self.allow(volume)

        def add(config):
            config["linux"]["devices"] += [{"path": path, "type": "c", "major": 1, "minor": 3, "fileMode": 0o646, "uid": 7, "gid": 8}
                                           for path in ("/a/b/null", "/there")]
        self.ask("sh", "-c", "stat -c '%F %a %u %g %t %T' /a/b/null /there; stat -c %F /srv/disk; head -n1 /srv/disk; echo x >/there; "
                 "wc -c </there; ls -A /a/b; pwd", devices=(("/srv/disk", volume, "rw", {}),))
        add(self.config)
        self.write_config()
        with open(os.path.join(self.rootfs, "there"), "w") as f:
            f.write("kept")
        done = self.run_container()
        self.assertEqual((done.stderr, done.stdout.decode()),
                         (b"", "character special file 646 7 8 1 3\n" * 2 + "block special file\nof the host\n0\nnull\n/\n"))
        self.ask("true", users=True, devices=(("/there", volume, "rw", {}),))
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=("/there", "user namespace", "has to be in /dev"))

    def test_errors(self):
        """
        What the host's device can no longer do is an error inside, and nothing else ends. In a user namespace, where the
        device is not made but bound.
        """
        device = self.loop("shrinks", 4 * MIB)
        self.allow(device)
        tell = self.shell(users=True, devices=(("/dev/disk", device, "rw", {"fileMode": 0o620, "uid": 0, "gid": 6}),))
        self.assertEqual(tell("stat -c '%F %a %u %g' /dev/disk"), "block special file 620 0 6\n")
        read = "dd if=/dev/disk of=/dev/null bs=64k skip=%d count=1 iflag=direct && echo read"
        self.assertIn("read\n", tell(read % 40))
        os.truncate(os.path.join(self.work, "shrinks"), MIB)
        tool("losetup", "-c", device)
        self.assertIn("error", tell(read % 40))
        self.assertIn("error", tell("dd if=/dev/zero of=/dev/disk bs=64k seek=40 count=1 oflag=direct"))
        self.assertIn("read\n", tell(read % 4))
        tell()


class Killed(Devices):
    """
    kill -9 of each of a machine's processes, and of the command, at any moment from the start on: two processors write to a
    block device and to a shared directory, which is watched, and which the host changes, too.
    """
    TIMES = 60 if ALL else 5
    ROLES = ("monitor", "vmm", "fsd", "diskd", "command")
    WORK = """/tools/watch /data >/log 2>&1 &
        while :; do dd if=/dev/zero of=/dev/disk bs=64k count=8 oflag=direct 2>/dev/null; done &
        while :; do dd if=/dev/disk of=/dev/null bs=64k count=16 iflag=direct 2>/dev/null; done &
        while :; do mkdir /data/d; echo x >/data/d/f; mv /data/d/f /data/g; rm -r /data/d; done 2>/dev/null &
        echo ready; wait"""

    def setUp(self):
        super().setUp()
        watch = program("watch")
        self.device = self.loop("disk", MIB)
        self.allow(self.device)
        self.ask("sh", "-c", self.WORK, vcpus=2, devices=(("/dev/disk", self.device, "rw", {}),))
        for name in ("data", "tools"):
            os.mkdir(os.path.join(self.work, name))
            self.config["mounts"].append({"destination": "/" + name, "type": "bind", "source": os.path.join(self.work, name),
                                          "options": ["rbind"]})
        shutil.copy(watch, os.path.join(self.work, "tools"))
        self.write_config()

    def pids(self, *roles):
        """Of what runs: the tests have process numbers of their own."""
        names = ["moat-" + role for role in roles]
        return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and host.name_of(int(pid)) in names]

    def change(self, end):
        path = os.path.join(self.work, "data", "host")
        while not end.wait(0.02):
            with open(path, "w") as f:
                f.write("x")
            os.rename(path, path + "2")
            os.unlink(path + "2")

    def begin(self):
        name = self.new_id()
        return name, self.start_moat("run", "--bundle", self.bundle_path, name, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def kill(self, role, process):
        """When it is there; the others may all have ended before, which is then what is wrong."""
        if role == "command":
            process.kill()
            return
        self.wait_until(lambda: self.pids(role) or process.poll() is not None, role + " is there")
        for pid in self.pids(role):
            os.kill(pid, signal.SIGKILL)

    def check_nothing_is_left(self, name):
        self.ok("delete", "--force", name)
        self.refused("state", name, says="does not exist")
        self.assertEqual(self.pids(*self.ROLES, "victim", "standin"), [])
        os.close(os.open(self.device, os.O_RDWR | os.O_EXCL))

    def test_at_random_moments(self):
        end = threading.Event()
        changer = threading.Thread(target=self.change, args=(end,))
        changer.start()
        self.addCleanup(changer.join)
        self.addCleanup(end.set)
        began = time.monotonic()
        name, process = self.begin()
        self.assertEqual(process.stdout.readline(), b"ready\n")
        span = time.monotonic() - began
        self.assertEqual(len(self.pids("monitor", "vmm", "fsd", "diskd")), 4)
        self.assertEqual(len({os.readlink("/proc/%d/ns/net" % pid) for pid in self.pids("vmm", "fsd", "diskd")}), 1)
        process.kill()
        process.wait()
        self.check_nothing_is_left(name)
        seed = int(os.environ.get("MOAT_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
        source = random.Random(seed)
        for i in range(self.TIMES):
            role, delay = self.ROLES[i % len(self.ROLES)], source.uniform(0, 1.5 * span)
            with self.subTest("seed %d, number %d: %s after %.2f s" % (seed, i, role, delay)):
                name, process = self.begin()
                time.sleep(delay)
                self.kill(role, process)
                self.assertNotEqual(process.wait(20 * TIME_SCALE), 0)
                self.check_nothing_is_left(name)


class Refused(Devices):
    def refuse(self, *words, device, access="rwm", more=None):
        self.ask("true", devices=(("/dev/wanted", device, access, more or {}),))
        self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=words)

    def test_what_is_refused(self):
        one, two = self.loop("one", MIB), self.loop("two", MIB, "--read-only")
        for allowed in ((), (two,), (os.path.join(self.work, "one"), "/dev/null", "/dev/nothing*")):
            self.allow(*allowed)
            self.refuse("linux.devices[0]: /dev/wanted (b 7:", "nothing that \"blockDevices\"" if allowed else "\"blockDevices\" in",
                        device=one)
        self.allow("/dev/loop*")
        self.refuse("/dev/wanted to write", "only read it", device=two)
        number = os.stat(one).st_rdev
        self.refuse("(b 7:%d)" % (os.minor(number) + 100000), "blockDevices", device=one,
                    more={"minor": os.minor(number) + 100000})
        tool("mkfs.ext4", "-q", one)
        os.mkdir(os.path.join(self.work, "mounted"))
        tool("mount", one, os.path.join(self.work, "mounted"))
        self.addCleanup(tool, "umount", os.path.join(self.work, "mounted"))
        self.refuse("mounted or in use on the host", device=one)
        self.allow("loop0")
        self.refuse("blockDevices", "absolute path", device=one)
