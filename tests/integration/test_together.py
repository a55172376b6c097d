# SPDX-License-Identifier: GPL-2.0-or-later
"""
Many properties of config.json in one container, at levels plain and vm: each has tests of its own in the files test_plain_*,
but at level vm a machine has to boot for each of those, so there most are for tests/run --all.
"""
import os

from harness import Case, at_levels

# A name, a command, and what it has to say.
AS_A_USER = (
    ("user", "id -u; id -g; id -G", "1000 1001 1001 5 77"),
    ("umask", "umask", "0027"),
    ("directory", "pwd", "/made/for/it"),
    ("environment", "echo $A; echo $HOME", "b c /mine"),
    ("capabilities", "grep ^Cap /proc/self/status | cut -f 2", "%s %s %s %s %s" % ((("%016x" % (1 << 13)),) * 3 + (
        "%016x" % (1 << 13 | 1 << 5), "%016x" % (1 << 13)))),
    ("no new privileges", "grep ^NoNewPrivs /proc/self/status | cut -f 2", "1"),
    ("seccomp", "mkdir /tmp/x 2>&1 | grep -o cross-device; grep ^Seccomp: /proc/self/status | cut -f 2", "cross-device 2"),
    ("rlimits", "ulimit -S -n; ulimit -H -n; ulimit -S -c", "100 200 0"),
    ("oom score", "cat /proc/self/oom_score_adj", "321"),
    ("scheduler", "cut -d ' ' -f 19,41 /proc/self/stat", "5 3"),  # nice, SCHED_BATCH
    ("personality", "uname -m", "i686"),
    ("names", "cat /proc/sys/kernel/hostname /proc/sys/kernel/domainname", "some-name some.domain"),
    ("sysctl", "cat /proc/sys/kernel/shmmni /proc/sys/net/ipv4/ip_default_ttl", "1234 77"),
    ("time", "test $(cut -d . -f 1 /proc/uptime) -ge 172800 && echo later", "later"),
    ("cgroup namespace", "grep 0:: /proc/self/cgroup || echo 0::/", "0::/"),
    ("masked directory", "ls -A /secret/dir", ""),
    ("masked file", "wc -c < /secret/file", "0"),
    ("masked of the kernel", "ls -A /proc/acpi /sys/firmware 2>/dev/null | grep -v :; wc -c < /proc/keys", "0"),
    ("read-only paths", "cat /shown; (echo y > /shown) 2>&1 | grep -o 'Read-only'; (echo 1 > /proc/sysrq-trigger) 2>&1 | grep -c .",
     "x Read-only 1"),
    ("devices", "stat -c '%F %t:%T %a %u %g' /dev/mine /dev/pipe /dev/null",
     "character special file 1:5 640 3 4 fifo 0:0 600 0 0 character special file 1:3 666 0 0"),
    ("links in /dev", "readlink /dev/fd; readlink /dev/ptmx", "/proc/self/fd pts/ptmx"),
    ("queues and shared memory", "touch /dev/mqueue/q /dev/shm/s && ls /dev/mqueue /dev/shm | grep -v :", "q s"),
    ("tmpfs", "grep ' /small ' /proc/self/mountinfo | grep -o 'size=64k'; head -c 100000 /dev/zero 2>/dev/null > /small/x || echo full",
     "size=64k full"),
    ("copied up", "cat /seed/link; stat -c '%a %u %g' /seed/file; touch /seed/x 2>&1 | grep -o Read-only", "copied 604 7 8 Read-only"),
    ("bind, read-only", "cat /data/inside; touch /data/x 2>&1 | grep -o Read-only", "hello Read-only"),
    ("flags of a bind", "grep ' /data ' /proc/self/mountinfo | cut -d ' ' -f 6", "ro,nosuid,nodev,noexec,noatime,nosymfollow"),
    ("bind of a file", "cat /a/b/c", "hello"),
    ("bind, written to", "echo there > /way/new; cat /way/new", "there"),
)


@at_levels("plain", "vm")
class Together(Case):
    def source(self, name):
        path = os.path.join(self.work, name)
        os.makedirs(path)
        self.file(path, "inside", "hello\n")
        return path

    def file(self, top, name, text):
        path = os.path.join(top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        return path

    def image(self):
        for name in ("secret/file", "secret/dir/inner", "shown"):
            self.file(self.rootfs, name, "x\n")
        copied = self.file(self.rootfs, "seed/file", "copied\n")
        os.chmod(copied, 0o604)
        os.chown(copied, 7, 8)
        os.symlink("file", os.path.join(self.rootfs, "seed/link"))

    def mounts(self):
        data, way = self.source("data"), self.source("way")
        os.chown(way, 1000, 1000)
        return way, [
            {"destination": "/data", "source": data, "type": "bind",
             "options": ["bind", "ro", "nosuid", "nodev", "noexec", "noatime", "nosymfollow"]},
            {"destination": "/a/b/c", "source": os.path.join(data, "inside"), "options": ["rbind", "ro"]},
            {"destination": "way", "source": way, "type": "bind", "options": ["rbind", "rw"]},
            {"destination": "/small", "source": "tmpfs", "type": "tmpfs", "options": ["size=64k", "mode=1777"]},
            {"destination": "/seed", "source": "tmpfs", "type": "tmpfs", "options": ["tmpcopyup", "ro"]}]

    def ask(self, change):
        script = "".join("echo '=%s'; %s\n" % (name, command) for name, command, _ in AS_A_USER)
        out = self.output("sh", "-c", script, change=change)
        said = {}
        for line in out.splitlines():
            if line.startswith("="):
                name = line[1:]
                said[name] = []
            else:
                said[name] += line.split()
        return {name: " ".join(words) for name, words in said.items()}

    def test_of_a_user(self):
        way, mounts = self.mounts()

        def change(c):
            self.image()
            c.update(hostname="some-name", domainname="some.domain")
            c["mounts"] += mounts
            net_raw = {kind: ["CAP_NET_RAW"] for kind in ("effective", "permitted", "inheritable", "ambient")}
            c["process"].update(
                user={"uid": 1000, "gid": 1001, "additionalGids": [5, 77], "umask": 0o027}, cwd="/made/for/it",
                env=["PATH=/bin", "A=b c", "HOME=/mine"], noNewPrivileges=True, oomScoreAdj=321,
                capabilities={"bounding": ["CAP_NET_RAW", "CAP_KILL"], **net_raw},
                rlimits=[{"type": "RLIMIT_NOFILE", "soft": 100, "hard": 200}, {"type": "RLIMIT_CORE", "soft": 0, "hard": 0}],
                scheduler={"policy": "SCHED_BATCH", "nice": 5}, ioPriority={"class": "IOPRIO_CLASS_IDLE"})
            c["linux"].update(
                sysctl={"kernel.shmmni": "1234", "net.ipv4.ip_default_ttl": "77"}, personality={"domain": "LINUX32"},
                timeOffsets={"boottime": {"secs": 172800}}, devices=[
                    {"path": "/dev/mine", "type": "c", "major": 1, "minor": 5, "fileMode": 0o640, "uid": 3, "gid": 4},
                    {"path": "/dev/pipe", "type": "p", "fileMode": 0o600}],
                seccomp={"defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"], "syscalls": [
                    {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 18}]})
            c["linux"]["namespaces"] += [{"type": "time"}, {"type": "cgroup"}]
            c["linux"]["maskedPaths"] += ["/secret/dir", "/secret/file", "/missing"]
            c["linux"]["readonlyPaths"] += ["/shown", "/not-there"]
        said = self.ask(change)
        for name, _, expected in AS_A_USER:
            with self.subTest(name):
                self.assertEqual(said[name], expected)
        status = os.stat(os.path.join(way, "new"))
        self.assertEqual((status.st_uid, status.st_gid, status.st_mode & 0o777), (1000, 1001, 0o640))

    def test_of_root_in_a_read_only_image(self):
        mapped = self.source("mapped")
        os.chown(os.path.join(mapped, "inside"), 2007, 2008)
        os.chown(mapped, 2000, 2000)
        maps = [{"containerID": 2000, "hostID": 0, "size": 1000}]

        def change(c):
            c["root"]["readonly"] = True
            c["mounts"].append({"destination": "/mapped", "source": mapped, "type": "bind", "options": ["bind"],
                                "uidMappings": maps, "gidMappings": maps})
        out = self.output("sh", "-c", "touch /x 2>&1 | grep -o Read-only; touch /dev/shm/x /mapped/new; "
                          "stat -c '%u %g' /mapped/inside /mapped/new; grep ^CapEff /proc/self/status", change=change)
        self.assertEqual(out.splitlines(), ["Read-only", "7 8", "0 0", "CapEff:\t00000000a80425fb"])
        status = os.stat(os.path.join(mapped, "new"))
        self.assertEqual((status.st_uid, status.st_gid), (2000, 2000))
