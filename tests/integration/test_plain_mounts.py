# SPDX-License-Identifier: GPL-2.0-or-later
"""Mounts of config.json at level plain, seen from inside."""
import os
import subprocess

from harness import Case, at_levels, differs


def mount(destination, source=None, type=None, *options):
    made = {"destination": destination, "options": list(options)}
    if source:
        made["source"] = source
    if type:
        made["type"] = type
    return made


@at_levels("plain", "vm", quick={"vm": ["test_shared_root_does_not_leak_to_the_host", "test_mapped_ids_of_the_user_namespace"]})
class Mounts(Case):
    def with_mounts(self, *args, mounts=(), **options):
        return self.output(*args, change=lambda c: c["mounts"].extend(mounts), **options)

    def line(self, where, *mounts):
        """The options (of the mount, and of its file system) in the container's mountinfo."""
        text = self.with_mounts("cat", "/proc/self/mountinfo", mounts=mounts)
        found = [line.split() for line in text.splitlines() if line.split()[4] == where]
        self.assertEqual(len(found), 1, text)
        fields = found[0]
        return set(fields[5].split(",")), set(fields[-1].split(",")), fields[6]

    def source(self, name="source", file=None):
        path = os.path.join(self.work, name)
        os.makedirs(path)
        with open(os.path.join(path, "inside"), "w") as f:
            f.write("hello\n")
        return path

    def test_defaults(self):
        text = self.output("mount")
        for line in ("proc on /proc type proc (rw,", "tmpfs on /dev type tmpfs (rw,nosuid,", "devpts on /dev/pts",
                     "mqueue on /dev/mqueue", "sysfs on /sys type sysfs (ro,nosuid,nodev,noexec,"):
            self.assertIn(line, text)

    def test_nothing_of_the_host(self):
        for line in self.output("cat", "/proc/self/mountinfo").splitlines():
            self.assertRegex(line.split()[4], "^/($|proc|dev|sys)")

    def test_bind_directory(self):
        self.assertEqual(self.with_mounts("cat", "/data/inside", mounts=[mount("/data", self.source(), "bind", "bind")]),
                         "hello\n")
        self.assertTrue(os.path.isdir(os.path.join(self.rootfs, "data")))

    def test_bind_file(self):
        source = os.path.join(self.source(), "inside")
        self.assertEqual(self.with_mounts("cat", "/a/b/c", mounts=[mount("/a/b/c", source, None, "rbind", "ro")]), "hello\n")

    def test_bind_source_relative_to_bundle(self):
        self.bundle("cat", "/x/config.json", change=lambda c: c["mounts"].append(mount("/x", ".", "bind", "ro")))
        self.assertIn(b"ociVersion", self.run_container().stdout)

    def test_bind_writes_reach_the_host(self):
        source = self.source()
        self.with_mounts("sh", "-c", "echo there > /data/new", mounts=[mount("/data", source, "bind", "rbind", "rw")])
        with open(os.path.join(source, "new")) as f:
            self.assertEqual(f.read(), "there\n")

    def test_bind_readonly(self):
        self.bundle("sh", "-c", "echo x > /data/new",
                    change=lambda c: c["mounts"].append(mount("/data", self.source(), "bind", "bind", "ro")))
        done = self.run_container()
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"Read-only file system", done.stderr)

    def test_bind_through_symlink_in_image(self):
        """A link on the way is followed inside the image only."""
        def change(c):
            os.symlink("/../../../target", os.path.join(self.rootfs, "link"))
            c["mounts"].append(mount("/link/sub", self.source(), "bind", "bind"))
        os.makedirs(os.path.join(self.work, "target"))
        self.bundle("cat", "/target/sub/inside", change=change)
        os.makedirs(os.path.join(self.rootfs, "target"))
        self.assertEqual(self.run_container().stdout, b"hello\n")
        self.assertEqual(os.listdir(os.path.join(self.work, "target")), [])

    def test_options(self):
        flags = ["ro", "nosuid", "nodev", "noexec", "noatime", "nodiratime", "nosymfollow"]
        mine, _, _ = self.line("/data", mount("/data", self.source(), "bind", "bind", *flags))
        self.assertEqual(mine, set(flags))

    def test_later_option_wins(self):
        mine, _, _ = self.line("/data", mount("/data", "tmpfs", "tmpfs", "ro", "nosuid", "strictatime", "rw", "suid", "relatime"))
        self.assertEqual(mine, {"rw", "relatime"})

    def test_data_for_the_file_system(self):
        _, its, _ = self.line("/data", mount("/data", "tmpfs", "tmpfs", "size=64k", "nr_inodes=12", "mode=0711", "uid=5"))
        self.assertLessEqual({"size=64k", "nr_inodes=12", "mode=711", "uid=5"}, its)

    @differs("vm", "what the host has mounted below a source is no mount of its own in a guest: ro holds for all of it")
    def test_recursive_options(self):
        source = self.source()
        below = os.path.join(source, "below")
        os.makedirs(below)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", below], check=True)
        try:
            text = self.with_mounts("cat", "/proc/self/mountinfo", mounts=[
                mount("/top", source, "bind", "rbind", "ro"), mount("/all", source, "bind", "rbind", "rro", "rnosuid")])
        finally:
            subprocess.run(["umount", below], check=True)
        options = {line.split()[4]: line.split()[5].split(",") for line in text.splitlines()}
        self.assertIn("ro", options["/top"])
        self.assertIn("rw", options["/top/below"])
        self.assertIn("ro", options["/all"])
        self.assertIn("ro", options["/all/below"])
        self.assertIn("nosuid", options["/all/below"])

    def test_bind_not_recursive(self):
        source = self.source()
        below = os.path.join(source, "below")
        os.makedirs(below)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", below], check=True)
        try:
            text = self.with_mounts("cat", "/proc/self/mountinfo", mounts=[mount("/top", source, "bind", "bind")])
        finally:
            subprocess.run(["umount", below], check=True)
        self.assertNotIn("/top/below", text)

    def test_propagation(self):
        for option, word in (("private", "-"), ("rslave", "master:"), ("rshared", "shared:"), ("unbindable", "unbindable")):
            _, _, tag = self.line("/data", mount("/data", self.source("of-" + option), "bind", "bind", option))
            self.assertTrue(tag.startswith(word), (option, tag))

    def test_tmpfs_keeps_the_mode_of_what_it_hides(self):
        def change(c):
            os.makedirs(os.path.join(self.rootfs, "cache"))
            os.chmod(os.path.join(self.rootfs, "cache"), 0o2751)
            c["mounts"].append(mount("/cache", "tmpfs", "tmpfs"))
        self.assertEqual(self.output("stat", "-c", "%a", "/cache", change=change), "2751\n")

    def test_tmpcopyup(self):
        def change(c):
            top = os.path.join(self.rootfs, "seed")
            os.makedirs(os.path.join(top, "deep/er"))
            with open(os.path.join(top, "deep/er/file"), "w") as f:
                f.write("copied\n")
            os.chmod(os.path.join(top, "deep/er/file"), 0o640)
            os.chown(os.path.join(top, "deep/er/file"), 7, 8)
            os.symlink("er/file", os.path.join(top, "deep/link"))
            c["mounts"].append(mount("/seed", "tmpfs", "tmpfs", "tmpcopyup", "ro"))
        out = self.output("sh", "-c", "cat /seed/deep/link; stat -c '%a %u %g' /seed/deep/er/file; ! touch /seed/x 2>/dev/null",
                          change=change)
        self.assertEqual(out, "copied\n640 7 8\n")

    def test_readonly_tmpfs_with_mounts_below(self):
        out = self.with_mounts("sh", "-c", "touch /t/x 2>/dev/null || cat /t/sub/inside", mounts=[
            mount("/t", "tmpfs", "tmpfs", "ro"), mount("/t/sub", self.source(), "bind", "bind")])
        self.assertEqual(out, "hello\n")

    def test_relative_destination(self):
        self.assertEqual(self.with_mounts("cat", "/data/inside", mounts=[mount("data", self.source(), "bind", "bind")]),
                         "hello\n")

    def test_readonly_dev_has_its_devices(self):
        def change(c):
            for entry in c["mounts"]:
                if entry["destination"] == "/dev":
                    entry["options"].append("ro")
        out = self.output("sh", "-c", "test -c /dev/null && ! touch /dev/x 2>/dev/null && echo good", change=change)
        self.assertEqual(out, "good\n")

    def test_readonly_root(self):
        def change(c):
            c["root"]["readonly"] = True
        self.assertEqual(self.output("sh", "-c", "touch /x 2>/dev/null || touch /dev/shm/x && echo good", change=change),
                         "good\n")

    def test_rootfs_propagation(self):
        for value, word in (("shared", " shared:"), ("private", " - "), ("rslave", " master:")):
            text = self.output("cat", "/proc/self/mountinfo",
                               change=lambda c: c["linux"].__setitem__("rootfsPropagation", value))
            self.assertIn(word, text.splitlines()[0], value)

    def test_shared_root_does_not_leak_to_the_host(self):
        with open("/proc/self/mountinfo") as f:
            before = f.read()
        self.output("mount", "-t", "tmpfs", "tmpfs", "/tmp", change=lambda c: (
            c["linux"].__setitem__("rootfsPropagation", "rshared"),
            [c["process"]["capabilities"][kind].append("CAP_SYS_ADMIN") for kind in c["process"]["capabilities"]]))
        with open("/proc/self/mountinfo") as f:
            self.assertEqual(f.read(), before)

    def test_masked_and_readonly_paths(self):
        def change(c):
            os.makedirs(os.path.join(self.rootfs, "secret/dir"))
            for name in ("secret/file", "secret/dir/inner", "shown"):
                with open(os.path.join(self.rootfs, name), "w") as f:
                    f.write("x\n")
            c["linux"]["maskedPaths"] += ["/secret/dir", "/secret/file", "/missing"]
            c["linux"]["readonlyPaths"] += ["/shown", "/not-there"]
        out = self.output("sh", "-c", "ls /secret/dir; wc -c < /secret/file; cat /shown; "
                          "! touch /secret/dir/x 2>/dev/null && ! sh -c 'echo y > /shown' 2>/dev/null && echo good",
                          change=change)
        self.assertEqual(out, "0\nx\ngood\n")

    def test_proc_sys_is_readonly(self):
        self.assertEqual(self.output("sh", "-c", "echo 1 2>/dev/null > /proc/sys/vm/drop_caches || echo good"), "good\n")

    def test_mapped_ids(self):
        source = self.source()
        os.chown(os.path.join(source, "inside"), 2007, 2008)
        maps = [{"containerID": 2000, "hostID": 0, "size": 1000}]
        entry = mount("/data", source, "bind", "bind")
        entry.update(uidMappings=maps, gidMappings=maps)
        os.chown(source, 2000, 2000)
        out = self.with_mounts("sh", "-c", "stat -c '%u %g' /data/inside; touch /data/new", mounts=[entry])
        self.assertEqual(out, "7 8\n")
        self.assertEqual(os.stat(os.path.join(source, "new")).st_uid, 2000)

    def test_mapped_ids_of_the_user_namespace(self):
        maps = [{"containerID": 0, "hostID": 100000, "size": 65536}]
        source = self.source()

        def change(c):
            c["linux"]["namespaces"].append({"type": "user"})
            c["linux"].update(uidMappings=maps, gidMappings=maps)
            subprocess.run(["chown", "-hR", "100000:100000", self.rootfs], check=True)
            c["mounts"] += [mount("/plain", source, "bind", "rbind"), mount("/mapped", source, "bind", "rbind", "ridmap")]
        out = self.output("sh", "-c", "stat -c %u /plain/inside /mapped/inside; touch /mapped/new", change=change)
        self.assertEqual(out, "65534\n0\n")
        self.assertEqual(os.stat(os.path.join(source, "new")).st_uid, 0)

    def test_refused(self):
        source = self.source()
        for entry, words in (
                (mount("/x", source + "/none", "bind", "bind"), ["/x", "No such file"]),
                (mount("/x", "x", "nosuchfs"), ["nosuchfs"]),
                (mount("/x", "tmpfs", "tmpfs", "nosuchoption"), ["nosuchoption", "/x"]),
                (mount("/x", "tmpfs", "tmpfs", "size=huge"), ["size=huge"]),
                (mount("/x", source, "bind", "bind", "wat"), ["wat"]),
                (mount("/", source, "bind", "bind"), ["root"]),
                (mount("/x/..", source, "bind", "bind"), ["root"]),
                (mount("/x", None, "bind", "bind"), ["source"]),
                (mount("/x", source, "bind", "bind", "idmap"), ["uidMappings"]),
                (mount("/x", "tmpfs", "tmpfs", "idmap"), ["bind mount"]),
                (mount("/x", source, "bind", "bind", "tmpcopyup"), ["tmpcopyup"])):
            self.bundle("true", change=lambda c: c["mounts"].append(entry))
            self.refused("run", "--bundle", self.bundle_path, self.new_id(), says=words)


@at_levels("plain", "vm", quick={"vm": []})
class CgroupMount(Case):
    def test_with_and_without_namespace(self):
        for namespace in (True, False):
            def change(c):
                c["mounts"].append(mount("/sys/fs/cgroup", "cgroup", "cgroup", "ro", "nosuid", "noexec", "nodev"))
                if namespace:
                    c["linux"]["namespaces"].append({"type": "cgroup"})
            out = self.output("sh", "-c", "cat /proc/self/cgroup; grep /sys/fs/cgroup /proc/self/mountinfo; "
                              "ls /sys/fs/cgroup; ! mkdir /sys/fs/cgroup/x 2>/dev/null", change=change)
            self.assertIn(" ro,nosuid,nodev,noexec", out)
            if namespace:
                self.assertIn("0::/\n", out)
            if "cgroup.controllers" not in out:  # v1: a directory for each hierarchy
                self.assertIn("\nmemory\n", out)
