# SPDX-License-Identifier: GPL-2.0-or-later
"""Volumes of microVMs in use: changed by the host meanwhile, shared between containers, and by programs that lean on them."""
import fcntl
import os
import shutil
import sqlite3
import subprocess
import threading
import time
import unittest

import host
from harness import Case, TIME_SCALE, TOLD, program

ALL = os.environ.get("MOAT_TEST_ALL") == "1"


def bind(destination, source, *options):
    return {"destination": destination, "type": "bind", "source": source, "options": ["rbind", *options]}


class Volume(Case):
    """A base: a directory of the host, mounted at /data."""
    level = "vm"

    def setUp(self):
        super().setUp()
        self.volume = os.path.join(self.work, "volume")
        os.mkdir(self.volume)

    def put(self, name, text):
        with open(os.path.join(self.volume, name), "w") as f:
            f.write(text)

    def get(self, name):
        with open(os.path.join(self.volume, name)) as f:
            return f.read()

    def end(self, process):
        """Its shell comes to the end of its input, and the container with it."""
        process.stdin.close()
        self.assertEqual(process.wait(20 * TIME_SCALE), 0)

    def shell(self, *mounts):
        """A container that does what it is told, as a function: command line in, its output out."""
        self.bundle("sh", "-c", TOLD, change=lambda c: c["mounts"].extend(mounts or [bind("/data", self.volume)]))
        process = self.run_told()
        self.addCleanup(self.end, process)
        return lambda line: self.tell(process, line)


class HostChanges(Volume):
    def test_seen_at_once(self):
        tell = self.shell()
        for i in range(10):
            self.put("f", "%03d" % i)
            self.assertEqual(tell("cat /data/f"), "%03d" % i)
            self.put("new", "other %d" % i)
            os.rename(self.volume + "/new", self.volume + "/f")
            self.assertEqual(tell("cat /data/f; stat -c ' %s' /data/f"), "other %d %d\n" % (i, len("other %d" % i)))
            # Not listed: a name that was may be believed for a moment.
            self.assertEqual(tell("cat /data/g || echo none").splitlines()[-1], "none")
            self.put("g", "here")
            self.assertEqual(tell("cat /data/g"), "here")
            os.unlink(self.volume + "/g")

    def test_written_by_the_guest_is_seen_at_once(self):
        tell = self.shell()
        for i in range(10):
            tell("echo %d >/data/f; mv /data/f /data/g" % i)
            self.assertEqual(self.get("g"), "%d\n" % i)


class SeveralQueues(Volume):
    """A guest of several processors has as many queues to the file server, and a thread there for each."""

    WORK = """set -e
for i in $(seq 40); do
    mkdir $1-$i
    echo $1 $i >$1-$i/f
    mv $1-$i/f $1-$i/g
    echo $1 $i >>log
    echo $1 >common
    mv common other-$1 2>/dev/null || :
    [ "$(cat $1-$i/g)" = "$1 $i" ]
    ls >/dev/null 2>&1 || :
    rm -r $1-$i
done
"""
    ON_BOTH = ("ls -d /sys/fs/virtiofs/*/mqs/* | wc -l; cd /data; taskset 1 sh work one & one=$!; "
               "taskset 2 sh work two & wait $! && wait $one && echo both; exec sleep 1000")

    def threads(self, name):
        """How many fsd has."""
        for pid in host.children_of(self.pid(name)):
            with open("/proc/%d/comm" % pid) as f:
                if f.read() == "moat-fsd\n":
                    return len(os.listdir("/proc/%d/task" % pid))
        return 0

    def start_with(self, vcpus, script):
        """Returns the container's name, and its output."""
        def change(config):
            config["vm"] = {"hwConfig": {"vcpus": vcpus}}
            config["mounts"].append(bind("/data", self.volume))
        self.bundle("sh", "-c", script, change=change)
        name = self.new_id()
        process = self.start_moat("run", "--bundle", self.bundle_path, name, stdout=subprocess.PIPE)
        return name, process.stdout

    def test_at_the_same_time(self):
        self.put("work", self.WORK)
        for _ in range(2):  # booted, and from a template
            self.put("log", "")
            name, out = self.start_with(2, self.ON_BOTH)
            self.assertEqual([out.readline(), out.readline()], [b"3\n", b"both\n"])
            self.assertEqual(self.threads(name), 3)
            self.assertEqual(sorted(self.get("log").splitlines()),
                             sorted("%s %d" % (who, i) for who in ("one", "two") for i in range(1, 41)))
            self.assertEqual([name for name in os.listdir(self.volume) if "-" in name and "other" not in name], [])
            self.ok("delete", "--force", name)

    def test_one_processor(self):
        name, out = self.start_with(1, "ls -d /sys/fs/virtiofs/*/mqs/* | wc -l; exec sleep 1000")
        self.assertEqual(out.readline(), b"2\n")
        self.assertEqual(self.threads(name), 1)
        self.ok("delete", "--force", name)


class HostChangesAreTold(Volume):
    """inotify in the guest, of what the host does below bind mounts. What is told exactly is in test_fs.HostChangesAreTold."""

    def watch(self, *paths):
        """Returns the container's shell, and a function that waits for lines of watch.c and returns those since the last time."""
        watch = program("watch")
        tools = os.path.join(self.work, "tools")
        os.mkdir(tools)
        shutil.copy(watch, tools)
        os.makedirs(self.volume + "/in/deep")
        self.put("single", "one")
        self.put("in/deep/f", "one")
        tell = self.shell(bind("/data", self.volume), bind("/ro", self.volume + "/in", "ro"),
                          bind("/etc/single", self.volume + "/single"), bind("/tools", tools, "ro"))
        tell("/tools/watch %s >/log 2>&1 &" % " ".join(paths))
        self.seen = 0

        def told(*wanted, provoke=None):
            end = time.monotonic() + 10 * min(TIME_SCALE, 4)
            while True:
                lines = tell("cat /log").splitlines()
                if not set(wanted) - set(lines[self.seen:]):
                    break
                self.assertLess(time.monotonic(), end, (wanted, lines))
                if provoke:
                    provoke()
            lines, self.seen = lines[self.seen:], len(lines)
            return lines
        told("ready")
        told("/data ready close_write", provoke=lambda: self.put("ready", "x"))
        return tell, told

    def fsd_watches(self):
        """How many watches each file server on this machine has."""
        counts = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/comm" % pid) as f:
                    if f.read() != "moat-fsd\n":
                        continue
                counts.append(0)
                for name in os.listdir("/proc/%s/fdinfo" % pid):
                    with open("/proc/%s/fdinfo/%s" % (pid, name)) as f:
                        counts[-1] += sum(line.startswith("inotify wd") for line in f)
            except FileNotFoundError:
                pass
        return counts

    def test_inotify(self):
        tell, told = self.watch("/data", "/data/in/deep", "/data/in/deep/f", "/ro/deep", "/etc/single")
        with open(self.volume + "/in/deep/f", "a") as f:
            f.write(" and more")
        told("/data/in/deep f modify", "/data/in/deep/f - modify", "/data/in/deep f close_write", "/ro/deep f modify",
             "/ro/deep f close_write")
        os.chmod(self.volume + "/in/deep/f", 0o600)
        told("/data/in/deep f attrib", "/ro/deep f attrib")
        self.put("in/deep/new", "other")
        told("/data/in/deep new close_write", "/ro/deep new create")
        os.rename(self.volume + "/in/deep/new", self.volume + "/in/deep/f")
        told("/data/in/deep f modify", "/data/in/deep/f - modify", "/data/in/deep/f - delete_self",
             "/data/in/deep f create", "/ro/deep f modify")
        self.assertEqual(tell("cat /data/in/deep/f /ro/deep/f"), "otherother")
        # A guest's kernel forgets a file that nobody uses, and then its end cannot be told.
        tell("exec 3</data/in/deep/f")
        os.unlink(self.volume + "/in/deep/f")
        told("/data/in/deep f delete")
        tell("exec 3<&-")
        # A file that is mounted by itself: written in place it is told, replaced it stays what it was.
        self.put("single", "two")
        told("/etc/single - modify", "/etc/single - close_write", "/data single modify")
        os.mkdir(self.volume + "/dir")
        told("/data dir create")
        os.rmdir(self.volume + "/dir")
        told("/data dir delete")
        # What the guest does itself is told by its own kernel, once.
        tell("echo own >/data/own; rm /data/own; find / -xdev >/dev/null")
        self.put("last", "x")
        lines = told("/data last close_write")
        self.assertEqual([line for line in lines if " own " in line],
                         ["/data own create", "/data own modify", "/data own close_write", "/data own delete"])
        # The root file system, of which find has seen all, is not watched: these are /data, its in and deep, single and tools.
        counts = self.fsd_watches()
        self.assertEqual(len(counts), 1)
        self.assertIn(counts[0], range(4, 8))


class ReadAhead(Volume):
    def test_more_than_for_a_disk(self):
        """A request to the host costs more than what else it could bring along."""
        self.assertEqual(self.shell()("cat /sys/class/bdi/0:$(stat -c %d /data)/read_ahead_kb"), "512\n")


class Mapped(Volume):
    """What was written through mappings is in the guest's page cache only until its machine ends: then the host has it."""
    PAGE, PAGES = 4096, 1024  # as in dirty.c

    def setUp(self):
        super().setUp()
        self.bundle("true", change=lambda c: c["mounts"].append(bind("/data", self.volume)))
        shutil.copy(program("dirty"), os.path.join(self.rootfs, "dirty"))
        self.files = [os.path.join(self.rootfs, "f"), os.path.join(self.volume, "f")]

    def set_arguments(self, *arguments):
        self.config["process"]["args"] = ["/dirty", *arguments, "/f", "/data/f"]
        self.write_config()

    def check(self):
        for path in self.files:
            with open(path, "rb") as f:
                data = f.read()
            numbers = [(i + 1).to_bytes(4, "little") for i in range(self.PAGES)]
            self.assertEqual(len(data), self.PAGE * self.PAGES, path)
            self.assertEqual([data[i * self.PAGE:][:4] for i in range(self.PAGES)], numbers, path)
            self.assertEqual([data[(i + 1) * self.PAGE - 4:][:4] for i in range(self.PAGES)], numbers, path)

    def test_program_that_ends(self):
        self.set_arguments()
        self.assertEqual(self.run_container().stdout, b"written\n")
        self.check()

    def test_program_that_is_killed(self):
        self.set_arguments("--stay")
        name = self.new_id()
        process = self.start_moat("run", "--bundle", self.bundle_path, name, stdout=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"written\n")
        self.ok("kill", name, "KILL")
        self.assertEqual(process.wait(20 * TIME_SCALE), 128 + 9)
        process.stdout.close()
        self.check()


class Shared(Volume):
    def test_two_containers(self):
        one, two = self.shell(), self.shell()
        one("echo from one >/data/f")
        self.assertEqual(two("cat /data/f"), "from one\n")
        two("echo from two >/data/g && mv /data/g /data/f")
        self.assertEqual(one("cat /data/f; ls /data"), "from two\nf\n")
        self.assertEqual(one("mkdir /data/lock && echo mine"), "mine\n")
        self.assertIn("File exists", two("mkdir /data/lock"))
        # Lines that both append at the same time are all there.
        count = 100
        append = "i=0; while [ $i -lt %d ]; do echo %%s $i >>/data/log; i=$((i + 1)); done" % count
        threads = [threading.Thread(target=tell, args=(append % name,)) for name, tell in (("one", one), ("two", two))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = self.get("log").splitlines()
        self.assertEqual(sorted(lines), sorted("%s %d" % (name, i) for name in ("one", "two") for i in range(count)))

    def test_mounts_in_mounts(self):
        """Directories and files, writable and read-only, in one another."""
        os.makedirs(self.volume + "/in/deep")
        self.put("single", "one\n")
        self.put("in/file", "two\n")
        tell = self.shell(bind("/data", self.volume), bind("/data/in/deep", self.volume + "/in", "ro"),
                          bind("/data/file", self.volume + "/single", "ro"), bind("/etc/rw", self.volume + "/single"))
        self.assertEqual(tell("cat /data/file /etc/rw /data/in/deep/file"), "one\none\ntwo\n")
        self.assertIn("Read-only", tell("echo x >/data/file"))
        self.assertIn("Read-only", tell("touch /data/in/deep/new"))
        self.assertEqual(tell("echo changed >/etc/rw; cat /data/file /data/single; touch /data/in/new; ls /data/in/deep"),
                         "changed\nchanged\ndeep\nfile\nnew\n")
        self.put("single", "by the host\n")
        self.assertEqual(tell("cat /data/file"), "by the host\n")


class Image(Volume):
    """A disk image as the root (vm.image)."""

    def image(self, *args, read_only=False):
        """A bundle whose root is an ext4 of busybox, with a workload of args."""
        def change(config):
            config["vm"] = {"image": {"path": self.path, "format": "raw"}}
            config["root"]["readonly"] = read_only
            config["mounts"].append(bind("/data", self.volume))
        self.path = os.path.join(self.work, "disk")
        self.bundle(*args, change=change)
        if not os.path.exists(self.path):
            os.mkdir(os.path.join(self.rootfs, "data"))
            open(self.path, "w").close()
            subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", self.rootfs, self.path, "24M"], check=True,
                           env={"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})
        shutil.rmtree(self.rootfs)
        os.mkdir(self.rootfs)

    def test_as_root_file_system(self):
        self.settings.update(bundleImage=True, directIO=True)  # of which blocks of 1 KiB are no part
        self.write_settings()
        script = """grep -q ' / .* ext4 /dev/vda rw' /proc/self/mountinfo && echo ext4
            mkdir /new; i=0; while [ $i -lt 40 ]; do dd if=/bin/busybox of=/new/$i bs=64k count=4 2>/dev/null; i=$((i+1)); done
            sync; dd if=/new/7 of=/data/seven iflag=direct bs=64k 2>/dev/null; rm -r /new; sync; busybox fstrim / && echo trimmed
            echo kept >/kept; dd if=/bin/busybox of=/direct bs=4k count=3 oflag=direct 2>/dev/null && echo direct"""
        self.image("sh", "-c", script)
        self.config["process"]["capabilities"] = {kind: ["CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE"]
                                                  for kind in ("bounding", "effective", "permitted")}
        self.write_config()
        used = os.stat(self.path).st_blocks
        done = self.run_container()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"ext4\ntrimmed\ndirect\n", b""))
        with open(shutil.which("busybox"), "rb") as f, open(os.path.join(self.volume, "seven"), "rb") as seven:
            self.assertEqual(seven.read(), f.read(256 << 10))
        # What was written and trimmed, 10 MiB, takes no room.
        self.assertLess(os.stat(self.path).st_blocks - used, (4 << 20) // 512)
        subprocess.run(["e2fsck", "-fn", self.path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env={"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})
        self.image("sh", "-c", "cat /kept; echo x >/kept", read_only=True)
        done = self.run_container()
        self.assertEqual(done.stdout, b"kept\n")
        self.assertIn(b"Read-only file system", done.stderr)

    def erofs(self, *args, read_only=False):
        """A bundle whose root is an EROFS image, compressed, that holds busybox and a file of known content."""
        if not shutil.which("mkfs.erofs"):
            self.skipTest("no mkfs.erofs")
        self.path = os.path.join(self.work, "erofs")
        made = os.path.exists(self.path)

        def change(config):
            config["vm"] = {"image": {"path": self.path, "format": "raw"}, "hwConfig": {"vcpus": 2}}
            config["root"]["readonly"] = read_only
            config["mounts"].append(bind("/data", self.volume))
        self.bundle(*args, change=change)
        if not made:
            os.mkdir(os.path.join(self.rootfs, "data"))
            with open(os.path.join(self.rootfs, "known"), "w") as f:
                f.writelines("line %d of the image\n" % i for i in range(20000))
            os.chmod(os.path.join(self.rootfs, "known"), 0o640)
            os.chown(os.path.join(self.rootfs, "known"), 5, 6)
            subprocess.run(["mkfs.erofs", "-zlz4", self.path, self.rootfs], check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(self.rootfs)
        os.mkdir(self.rootfs)

    def test_erofs(self):
        """It is never written: what the container writes is in memory. Two machines may have it at once."""
        self.settings.update(bundleImage=True, directIO=True)
        self.write_settings()
        self.erofs("sh", "-c", """stat -c '%a %u %g' /known; cp /known /data; ls /sys/block/vda/mq | wc -l
            echo new >/new; echo more >>/known; rm /bin/env; mkdir /made; mv /new /made; cat /made/new; tail -n1 /known; ls /bin/env""")
        with open(self.path, "rb") as f:
            before = f.read()
        done = self.run_container()
        self.assertEqual(done.stdout, b"640 5 6\n2\nnew\nmore\n", done.stderr)
        self.assertIn(b"/bin/env: No such file", done.stderr)
        with open(os.path.join(self.volume, "known")) as f:
            self.assertEqual(f.read(), "".join("line %d of the image\n" % i for i in range(20000)))
        self.erofs("sh", "-c", "ls /made; echo x >/known; tail -n1 /known", read_only=True)
        done = self.run_container()
        self.assertEqual(done.stdout, b"line 19999 of the image\n")
        self.assertIn(b"Read-only file system", done.stderr)
        self.erofs("sh", "-c", "echo mine >>/known; tail -n1 /known")
        os.chmod(self.path, 0o444)
        with open(self.path, "rb") as other:
            fcntl.flock(other, fcntl.LOCK_SH)
            self.assertEqual(self.run_container().stdout, b"mine\n")
        with open(self.path, "rb") as f:
            self.assertEqual(f.read(), before)

    def test_what_is_refused(self):
        self.image("sleep", "1000")
        run = ("run", "--bundle", self.bundle_path)
        self.refused(*run, self.new_id(), says=["vm.image", "bundleImage"])
        self.settings["bundleImage"] = True
        self.write_settings()
        with open(self.path, "rb+") as image:
            fcntl.flock(image, fcntl.LOCK_EX)
            self.refused(*run, self.new_id(), says=["vm.image", "in use"])
        odd = os.path.join(self.work, "odd")
        with open(odd, "w") as image:
            image.write("x" * 1000)
        for path, form, word in ((self.path, "qcow2", "raw"), (self.work, "raw", "directory"), ("/dev/null", "raw", "regular"), (odd, "raw", "sectors")):
            self.config["vm"]["image"] = {"path": path, "format": form}
            self.write_config()
            self.refused(*run, self.new_id(), says=["vm.image", word])
        with open(self.path, "rb+") as image:
            image.write(bytes(1 << 20))  # no file system any more
        self.config["vm"]["image"] = {"path": self.path, "format": "raw"}
        self.write_config()
        self.refused(*run, self.new_id(), says=["vm.image", "no file system"])


@unittest.skipUnless(ALL, "takes minutes in the lab: tests/run --all")
class Programs(Volume):
    """This machine's own programs, from a read-only mount of its /usr, at work in a volume."""
    memory = 512 << 20

    def run_script(self, script, *tools):
        for tool in tools:
            if not shutil.which(tool):
                self.skipTest("no " + tool)
        self.bundle("/usr/bin/sh", "-ec", script, change=lambda c: c["mounts"].extend(
            [bind("/usr", "/usr", "ro"), bind("/data", self.volume)]))
        for name in os.listdir("/usr"):
            if name.startswith("lib"):
                os.symlink("usr/" + name, os.path.join(self.rootfs, name))
        self.config["process"]["env"] += ["HOME=/data", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory",
                                          "GIT_CONFIG_VALUE_0=*"]
        self.write_config()
        done = self.run_container(timeout=90)
        self.assertEqual(done.returncode, 0, done.stderr[-1000:] + done.stdout[-1000:])
        return done.stdout.decode()

    def fill(self, directory, count):
        """Files of many sizes, with links, odd names and modes."""
        for i in range(count):
            path = os.path.join(directory, "d%d" % (i % 17), "e%d" % (i % 5))
            os.makedirs(path, exist_ok=True)
            with open(os.path.join(path, "file %d" % i), "wb") as f:
                f.write(b"%d\n" % i * (i * i % 4000))
            if i % 10 == 0:
                os.symlink("file %d" % i, os.path.join(path, "link-%d" % i))
            if i % 15 == 0:
                os.link(os.path.join(path, "file %d" % i), os.path.join(path, "hard-%d" % i))
            os.chmod(os.path.join(path, "file %d" % i), 0o600 + i % 64)

    def test_git(self):
        source = os.path.join(self.volume, "source")
        os.mkdir(source)
        self.fill(source, 150)
        git = ["git", "-C", source, "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "safe.directory=*"]
        for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
            subprocess.run(git + words, check=True)
        out = self.run_script("""cd /data; git clone -q --no-hardlinks source clone; cd clone; git fsck --strict
            echo more >>'d1/e1/file 1'; git -c user.name=t -c user.email=t@example.org commit -qam two; git gc -q
            git status --porcelain; git fsck --full; git rev-parse HEAD^:""", "git")
        tree = subprocess.run(git + ["rev-parse", "HEAD:"], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(out, tree)
        subprocess.run(["git", "-c", "safe.directory=*", "-C", self.volume + "/clone", "fsck", "--strict"], check=True,
                       stderr=subprocess.DEVNULL)

    def test_tar(self):
        source = os.path.join(self.volume, "source")
        os.mkdir(source)
        self.fill(source, 300)
        self.run_script("cd /data; tar -cf a.tar source; mkdir out; tar -xpf a.tar -C out; diff -r source out/source; "
                        "tar -df a.tar", "tar")
        subprocess.run(["tar", "-C", self.volume, "-df", self.volume + "/a.tar"], check=True)
        subprocess.run(["tar", "-C", self.volume + "/out", "-df", self.volume + "/a.tar"], check=True)

    def test_sqlite(self):
        """Two processes at one database, in both kinds of journal; the host reads what they wrote."""
        script = """
        for mode in delete wal; do
            sqlite3 /data/$mode.db "pragma journal_mode=$mode; create table t (who, n);" >/dev/null
            for who in 1 2; do
                for n in 1 2 3 4 5 6 7 8; do
                    echo "begin immediate; insert into t values ($who, $n); commit;"
                done | sqlite3 -cmd '.timeout 100000' -bail /data/$mode.db &
                eval "p$who=$!"
            done
            wait $p1; wait $p2
            sqlite3 /data/$mode.db 'pragma integrity_check; select count(*) from t;'
        done"""
        self.assertEqual(self.run_script(script, "sqlite3").split(), ["ok", "16"] * 2)
        for mode in ("delete", "wal"):
            with sqlite3.connect(os.path.join(self.volume, mode + ".db")) as db:
                self.assertEqual(db.execute("select who, count(*) from t group by who").fetchall(), [(1, 8), (2, 8)])

    def test_fio(self):
        """Blocks with checksums, at random places: written through the cache, past it and by mappings; read there and here."""
        jobs = ["--directory=" + self.volume, "--size=2m", "--verify=crc32c", "--verify_fatal=1", "--verify_state_save=0", "--thread",
                "--output-format=terse",
                "--name=cached", "--rw=randwrite", "--bs=1k-16k", "--bs_unaligned", "--fsync=50", "--ioengine=psync",
                "--name=direct", "--rw=randwrite", "--bs=4k", "--direct=1", "--ioengine=psync",
                "--name=mapped", "--rw=randwrite", "--bs=4k", "--ioengine=mmap",
                "--name=appended", "--rw=write", "--bs=64k", "--ioengine=pvsync", "--end_fsync=1"]
        inside = [word.replace(self.volume, "/data") for word in jobs]
        out = self.run_script("fio " + " ".join(inside), "fio")
        self.assertEqual([line.split(";")[4] for line in out.splitlines()], ["0"] * 4, out)  # errors
        done = subprocess.run(["fio", "--verify_only=1", *jobs], cwd=self.work, capture_output=True, text=True)
        self.assertEqual((done.returncode, [line.split(";")[4] for line in done.stdout.splitlines()]), (0, ["0"] * 4), done.stderr)
        # And the check is one: a changed byte is found.
        with open(self.volume + "/direct.0.0", "r+b") as f:
            f.seek(5000)
            byte = f.read(1)
            f.seek(5000)
            f.write(bytes([byte[0] ^ 1]))
        done = subprocess.run(["fio", "--verify_only=1", *jobs], cwd=self.work, capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0, done.stdout)

    def test_many_files_in_a_directory(self):
        count = 100000
        for i in range(count):
            os.close(os.open(os.path.join(self.volume, "file-%d" % i), os.O_CREAT | os.O_WRONLY, 0o644))
        out = self.run_script("cd /data; ls -f | wc -l; echo x >file-99999; rm file-7; touch new; ls -f | wc -l; "
                              "find . -size +0 -name 'file*'", "find")
        self.assertEqual(out.split(), [str(count + 2)] * 2 + ["./file-99999"])
        self.assertEqual(len(os.listdir(self.volume)), count)
        shutil.rmtree(self.volume)


del Volume  # a base only
