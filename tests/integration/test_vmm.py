# SPDX-License-Identifier: GPL-2.0-or-later
"""
The VMM alone, without monitor, agent and file server: the guest kernel reaches an init of busybox, finds the machine as it
was ordered, and ends. Driven by tests/unit/boot_vmm.c.
"""
import os
import re
import shutil
import subprocess

import harness

BOOT_VMM = os.path.join(harness.BUILD, "tests/unit/boot_vmm")
RESET = "event 4 port 0 end 1 the guest reset the machine"
INIT = """#!/bin/busybox sh
export PATH=/bin
busybox mkdir -p /proc /sys /dev
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
exec >/dev/console 2>&1
echo "cpus: $(busybox nproc)"
echo "entropy: $(busybox dd if=/dev/hwrng bs=1000 count=2 2>/dev/null | busybox wc -c)"
echo "clock: $(busybox cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"
busybox grep MemTotal /proc/meminfo
for d in /sys/bus/virtio/devices/*; do echo "device: $(busybox cat $d/device) $(busybox cat $d/status)"; done
busybox grep -E 'virtio|ttyS0' /proc/interrupts
busybox ls -l /dev/ttyS0
busybox reboot -f
"""


class Boot(harness.Case):
    level = "vm"

    def setUp(self):
        super().setUp()
        tree = os.path.join(self.work, "tree")
        os.makedirs(os.path.join(tree, "bin"))
        shutil.copy("/bin/busybox", os.path.join(tree, "bin/busybox"))
        with open(os.path.join(tree, "init"), "w") as f:
            f.write(INIT)
        os.chmod(os.path.join(tree, "init"), 0o755)
        os.makedirs(os.path.join(tree, "dev"))
        self.initrd = os.path.join(self.work, "initrd")
        subprocess.run("/bin/busybox find . | /bin/busybox cpio -o -H newc > " + self.initrd, shell=True, check=True, cwd=tree,
                       stderr=subprocess.DEVNULL)

    def boot(self, *options, kernel=None, initrd=None):
        """Returns the guest's console as text, and what boot_vmm said."""
        done = subprocess.run([BOOT_VMM, *options, kernel or harness.find_kernel(), initrd or self.initrd],
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=20 * harness.TIME_SCALE)
        return done.stdout.decode(errors="replace"), done.stderr.decode()

    def check(self, cpus, *options):
        console, said = self.boot("-a", "quiet", "-c", str(cpus), *options)
        self.assertIn("cpus: %d\n" % cpus, console.replace("\r", ""), said)
        self.assertIn("entropy: 2000\n", console.replace("\r", ""))
        self.assertIn("clock: kvm-clock", console)
        # Drivers that are content say ACKNOWLEDGE, DRIVER, FEATURES_OK, DRIVER_OK.
        self.assertRegex(console, r"device: 0x0013 0x0000000f")
        self.assertRegex(console, r"device: 0x0004 0x0000000f")
        self.assertIn(RESET, said)
        return console

    def test_one_cpu(self):
        self.check(1)

    def test_four_cpus(self):
        self.check(4)

    def test_memory_on_both_sides_of_the_hole(self):
        console = self.check(1, "-m", "3328")
        self.assertGreater(int(re.search(r"MemTotal: *(\d+) kB", console).group(1)), 3100 << 10)

    def test_no_console(self):
        console, said = self.boot("-q", "-a", "quiet")
        self.assertEqual(console, "")
        self.assertIn(RESET, said)

    def test_panic_ends_the_machine(self):
        """An init that is no program: the kernel panics, and resets at once."""
        console, said = self.boot("-a", "rdinit=/dev")
        self.assertIn("Kernel panic", console)
        self.assertIn(RESET, said)

    def test_kernel_cut_short(self):
        path = os.path.join(self.work, "kernel")
        with open(harness.find_kernel(), "rb") as f, open(path, "wb") as out:
            out.write(f.read(5 << 20))
        self.assertRegex(self.boot(kernel=path)[1], r"boot_vmm: load .*/kernel: .*truncated\n$")

    def test_initrd_that_does_not_fit(self):
        path = os.path.join(self.work, "large")
        with open(path, "wb") as f:
            f.truncate(1 << 30)
        self.assertRegex(self.boot(initrd=path)[1], r"boot_vmm: boot with .*/large: .* do not fit")
