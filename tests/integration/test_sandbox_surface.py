# SPDX-License-Identifier: GPL-2.0-or-later
"""moat doctor --surface: the wall counted. What it prints is held against what the kernel does."""
import ctypes
import json
import os

from harness import Case, at_levels

CEILING = 250  # system calls that a workload may make

NEVER = set("""bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register kexec_load kexec_file_load
init_module finit_module delete_module keyctl add_key request_key ptrace process_vm_readv process_vm_writev mount umount2
mount_setattr move_mount open_tree fsopen fsconfig fsmount fspick pivot_root unshare setns clone3 open_by_handle_at
name_to_handle_at quotactl quotactl_fd acct swapon swapoff reboot syslog settimeofday clock_settime clock_adjtime adjtimex iopl
ioperm modify_ldt sethostname setdomainname fanotify_init lookup_dcookie uselib nfsservctl vhangup kcmp pidfd_getfd
memfd_secret process_madvise migrate_pages move_pages mbind set_mempolicy""".split())

SOCKETS = {"unix stream", "unix dgram", "unix seqpacket", "inet stream", "inet dgram", "inet6 stream", "inet6 dgram",
           "netlink route"}


class Looking(Case):
    def surface(self, change=None, started=True):
        self.bundle("sleep", "1000", change=change)
        name = self.create()
        self.ok("start", name)
        self.text = self.ok("doctor", "--surface", name).stdout.decode()
        found = json.loads(self.ok("doctor", "--surface", name, "--json").stdout)
        self.ok("delete", "--force", name)
        return found


@at_levels("sandbox")
class Surface(Looking):
    def test_under_the_ceiling(self):
        found = self.surface()
        self.assertLessEqual(len(found["calls"]) + len(found["checkedCalls"]), CEILING)
        self.assertEqual(NEVER & set(found["calls"] + found["checkedCalls"]), set())
        self.assertEqual(set(found["checkedCalls"]),
                         {"clone", "ioctl", "mknod", "mknodat", "personality", "socket", "socketpair"})
        self.assertEqual(found["architectures"], [])
        self.assertEqual(set(found["sockets"]), SOCKETS)
        self.assertEqual(found["hostNamespaces"], [])
        self.assertTrue(found["noNewPrivileges"])
        self.assertLessEqual(len(found["capabilities"]), 11)
        self.assertIn("system calls allowed: %d\n" % len(found["calls"]), self.text)

    def test_landlock_and_cores(self):
        found = self.surface()
        abi = ctypes.CDLL(None, use_errno=True).syscall(444, None, ctypes.c_size_t(0), 1)
        always = ["make-device-nodes", "change-mounts", "trace-other-processes"] if abi >= 2 else []
        self.assertEqual(found["landlock"], always)
        self.assertIn("kept from by Landlock: %d\n" % len(always), self.text)
        with_smt = os.path.exists("/sys/devices/system/cpu/smt/active") and \
            open("/sys/devices/system/cpu/smt/active").read().strip() == "1"
        self.assertIn(found["coreScheduling"], ("own", "none") if with_smt else ("own", "shared", "none"))
        self.assertIn("processor cores: ", self.text)
        self.settings["sandbox"] = {"allow": ["hostNetwork"]}
        self.write_settings()
        found = self.surface(lambda c: c["linux"].update(
            namespaces=[n for n in c["linux"]["namespaces"] if n["type"] != "network"]))
        self.assertEqual(found["landlock"], always + (["abstract-sockets-outside"] if abi >= 6 else []))

    def test_kernel_files(self):
        """All that is left is each process's own."""
        found = self.surface()
        self.assertEqual([path for path in found["writableKernelFiles"] if not path.startswith("/proc/[pid]/")], [])
        self.assertIn("/proc/[pid]/oom_score_adj", found["writableKernelFiles"])

    def test_bundles_filter_counts(self):
        """Both filters are in force: what either refuses is refused."""
        def change(c):
            c["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"],
                                     "syscalls": [{"names": ["chroot", "msgget"], "action": "SCMP_ACT_ERRNO"},
                                                  {"names": ["kill"], "action": "SCMP_ACT_ERRNO",
                                                   "args": [{"index": 1, "value": 9, "op": "SCMP_CMP_EQ"}]}]}
        plain = self.surface()
        found = self.surface(change)
        self.assertEqual(found["filters"], plain["filters"] + 1)
        self.assertEqual(set(plain["calls"]) - set(found["calls"]), {"chroot", "msgget", "kill"})
        self.assertIn("kill", found["checkedCalls"])

    def test_what_the_operator_allows(self):
        self.settings["sandbox"] = {"allow": ["ioUring", "ptrace"], "capabilities": ["CAP_SYS_PTRACE"]}
        self.write_settings()
        found = self.surface(lambda c: c["process"]["capabilities"]["bounding"].append("CAP_SYS_PTRACE"))
        self.assertLessEqual({"io_uring_setup", "io_uring_enter", "ptrace", "process_vm_readv"}, set(found["calls"]))

    def test_refused(self):
        self.bundle("true")
        self.refused("doctor", "--surface", self.new_id(), says="does not exist")
        name = self.create()
        self.refused("doctor", "--surface", name, says="created")
        self.ok("delete", "--force", name)


@at_levels("plain")
class Plain(Looking):
    def test_no_wall(self):
        """The same eyes see a container that has none."""
        found = self.surface(lambda c: c["linux"].update(
            maskedPaths=[], readonlyPaths=[], namespaces=[{"type": "mount"}, {"type": "pid"}]) or c.pop("hostname"))
        self.assertEqual(found["filters"], 0)
        self.assertGreater(len(found["calls"]), 300)
        self.assertLessEqual({"bpf", "mount", "keyctl"}, set(found["calls"]))
        self.assertLessEqual({"x32", "x86"}, set(found["architectures"]))
        self.assertIn("/proc/sys/kernel/core_pattern", found["writableKernelFiles"])
        self.assertLessEqual({"net", "uts", "user"}, set(found["hostNamespaces"]))
        self.assertIn("packet", found["sockets"])
