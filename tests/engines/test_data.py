# SPDX-License-Identifier: GPL-2.0-or-later
"""Files: volumes, copies, images, secrets."""
import os
import subprocess
import tarfile

import machine
import table
from base import EngineCase, long, on, only
from images import BUSYBOX

CLI = ("podman", "rootless", "docker")


@on(*CLI)
class Data(EngineCase):
    long_for = ("rootless",)

    def test_volume_named(self):
        """named volumes"""
        volume = self.name("v")
        self.addCleanup(self.cli, "volume", "rm", volume)
        self.run_("sh", "-c", "echo kept > /data/file; chown 7:8 /data/file", flags=["-v", volume + ":/data"])
        out = self.run_("sh", "-c", "cat /data/file; stat -c %u:%g /data/file", flags=["-v", volume + ":/data"])
        self.assertEqual(out, "kept\n7:8\n")

    @only("podman", "rootless", why="docker has no such option")
    def test_keep_id(self):
        """--userns keep-id: the user is himself inside, and his files are his"""
        if not self.engine.rootless:
            self.skipTest("podman has it for ordinary users only")
        directory = self.path("shared")
        out = self.run_("sh", "-c", "id -u; id -g; touch /shared/made; stat -c %u:%g /shared/made /bin/busybox",
                        flags=["--userns", "keep-id", "-v", directory + ":/shared"])
        own = machine.USER_ID
        self.assertEqual(out.split(), [str(own)] * 2 + ["%d:%d" % (own, own), "0:0"])
        made = os.stat(directory + "/made")
        self.assertEqual((made.st_uid, made.st_gid), (own, own))

    def test_volume_bind(self):
        """bind mounts: both ways, :ro"""
        directory = self.path("shared")
        self.path("shared/in", "from the host\n", 0o666)
        out = self.run_("sh", "-c", "cat /shared/in; echo back > /shared/out", flags=["-v", directory + ":/shared"])
        self.assertEqual(out, "from the host\n")
        self.assertEqual(machine.read(directory + "/out"), "back\n")
        out = self.run_("sh", "-c", "cat /shared/in; echo x > /shared/in || echo refused", flags=["-v", directory + ":/shared:ro"])
        self.assertEqual(out, "from the host\nrefused\n")
        self.assertEqual(machine.read(directory + "/in"), "from the host\n")

    def test_volume_file(self):
        """a single file as a bind mount, and --mount"""
        path = self.path("one", "content\n")
        flags = ["--mount", "type=bind,source=%s,target=/etc/one,readonly" % path]
        self.assertEqual(self.run_("sh", "-c", "cat /etc/one; echo > /etc/one || echo refused", flags=flags), "content\nrefused\n")

    def test_volume_tmpfs(self):
        """--tmpfs with a size"""
        out = self.run_("sh", "-c", "dd if=/dev/zero of=/scratch/big bs=1024 count=3000 2>/dev/null || echo full; mount | grep -c "
                        "'/scratch type tmpfs'", flags=["--tmpfs", "/scratch:size=2m"])
        self.assertEqual(out, "full\n1\n")

    @only("podman", "rootless", why="docker has no such option")
    def test_volume_owner(self):
        """volumes with :U"""
        directory = self.path("shared")
        self.path("shared/file", "x")
        out = self.run_("sh", "-c", "stat -c %u:%g /shared /shared/file; echo y > /shared/file",
                        flags=["-v", directory + ":/shared:U", "--user", "1000:1000"])
        self.assertEqual(out, "1000:1000\n1000:1000\n")

    @long
    def test_volumes_from(self):
        """--volumes-from"""
        name = self.name()
        self.cli("create", "--name", name, "-v", "/data", *self.flags([]), BUSYBOX, "sh", "-c", "echo shared > /data/x")
        self.cli("start", "--attach", name)
        self.assertEqual(self.run_("cat", "/data/x", flags=["--volumes-from", name]), "shared\n")

    def test_fresh(self):
        """a file changed on the host is seen inside at once"""
        directory = self.path("shared")
        path = self.path("shared/file", "0\n", 0o666)
        name = self.start("sleep", "1000", flags=["-v", directory + ":/shared"])
        for i in range(5):
            machine.write(path, "%d\n" % i)
            self.assertEqual(self.cli("exec", name, "cat", "/shared/file"), "%d\n" % i)

    def test_read_only(self):
        """run --read-only"""
        out = self.run_("sh", "-c", "touch /made 2>/dev/null || echo refused; touch /tmp/made && echo tmp",
                        flags=["--read-only", "--tmpfs", "/tmp"])
        self.assertEqual(out, "refused\ntmp\n")

    def test_copy(self):
        """cp, to and from what runs and what does not"""
        if self.family == "podman" and self.level == "sandbox":
            self.skipTest("podman cp writes as root of the host, whom the files of level sandbox do not know")
        name = self.start("sleep", "1000")
        path = self.path("file", "to be copied\n", 0o640)
        kept_out = self.engine.rootless and self.level == "vm"
        if kept_out:
            self.cli("cp", path, name + ":/root/copy", status=125, says="operation not permitted")
            self.cli("exec", "-i", name, "sh", "-c", "cat > /root/copy", input="to be copied\n")
        else:
            self.cli("cp", path, name + ":/root/copy")
            self.assertEqual(self.cli("exec", name, "sh", "-c", "cat /root/copy; stat -c %a /root/copy"), "to be copied\n640\n")
            self.cli("exec", name, "sh", "-c", "mkdir /made; echo inner > /made/file")
            self.cli("cp", name + ":/made", self.work)
            self.assertEqual(machine.read(self.work + "/made/file"), "inner\n")
        self.cli("kill", name)
        self.cli("wait", name)
        self.cli("cp", name + ":/root/copy", self.work + "/again")
        self.assertEqual(machine.read(self.work + "/again"), "to be copied\n")
        self.cli("cp", path, name + ":/late")
        self.cli("start", name)
        self.assertEqual(self.cli("exec", name, "cat", "/late"), "to be copied\n")
        if kept_out:
            self.skipTest("podman cp with a running container enters the PID namespace of its process, which is the host's, and an "
                          "ordinary user may not; with a stopped one it works")

    def test_copy_created(self):
        """cp into what has not been started"""
        name = self.name()
        self.cli("create", "--name", name, *self.flags([]), BUSYBOX, "cat", "/early")
        self.cli("cp", self.path("file", "before\n"), name + ":/early")
        self.assertEqual(self.cli("start", "--attach", name), "before\n")

    def test_diff(self):
        """diff"""
        name = self.start("sh", "-c", "echo x > /added; rm /etc/group; echo y >> /etc/passwd; exec sleep 1000")
        wanted = {"A /added", "D /etc/group", "C /etc/passwd"}
        self.wait_until(lambda: wanted <= set(self.cli("diff", name).splitlines()), "the changes are listed")

    def test_commit(self):
        """commit, and run of what was committed"""
        name = self.start("sh", "-c", "echo committed > /file; chown 5:6 /file; exec sleep 1000")
        self.wait_until(lambda: self.engine.call("exec", name, "test", "-e", "/file").returncode == 0, "/file is there")
        self.cli("commit", "--change", "CMD cat /file", name, "localhost/committed")
        self.addCleanup(self.cli, "rmi", "-f", "localhost/committed")
        self.assertEqual(self.run_(image="localhost/committed"), "committed\n")
        self.assertEqual(self.run_("stat", "-c", "%u:%g", "/file", image="localhost/committed"), "5:6\n")

    @long
    def test_export(self):
        """export"""
        if self.engine_name == "docker26":
            self.skipTest(table.LOCAL + "docker 26 leaves a mount behind, with any runtime")
        name = self.start("sh", "-c", "echo exported > /file; exec sleep 1000")
        self.wait_until(lambda: self.engine.call("exec", name, "test", "-e", "/file").returncode == 0, "/file is there")
        path = os.path.join(self.work, "tar")
        self.cli("export", "-o", path, name)
        with tarfile.open(path) as archive:
            self.assertEqual(archive.extractfile("file").read(), b"exported\n")

    def test_build(self):
        """build, with RUN, COPY, USER and WORKDIR"""
        context = self.path("context")
        self.path("context/file", "copied\n")
        self.path("context/Dockerfile", "FROM %s\nRUN echo built > /built && chown 1000 /built\nCOPY file /srv/file\n"
                  "WORKDIR /srv\nUSER 1000\nENV WORD=said\nRUN id -u > /tmp/user\n"
                  "CMD cat /built file /tmp/user; echo $WORD; pwd\n" % BUSYBOX)
        self.cli("build", "--network", "none", "-t", "localhost/built", context, timeout=120)
        self.addCleanup(self.cli, "rmi", "-f", "localhost/built")
        self.assertEqual(self.run_(image="localhost/built"), "built\ncopied\n1000\nsaid\n/srv\n")

    def test_build_fails(self):
        """a RUN that fails ends the build"""
        context = self.path("context")
        self.path("context/Dockerfile", "FROM %s\nRUN echo trying; exit 3\n" % BUSYBOX)
        done = self.engine.call("build", "--network", "none", "-t", "localhost/broken", context, timeout=120)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("trying", done.stdout)
        self.assertIn("3", done.stderr)
        self.engine.call("image", "prune", "--force")

    @only("podman", "rootless", why="docker has secrets in a swarm only")
    def test_secret(self):
        """secrets"""
        name = self.name("s")
        self.cli("secret", "create", name, self.path("secret", "hush"))
        self.addCleanup(self.cli, "secret", "rm", name)
        self.assertEqual(self.run_("cat", "/run/secrets/" + name, flags=["--secret", name]), "hush")
        self.assertEqual(self.run_("sh", "-c", "echo $WORD", flags=["--secret", name + ",type=env,target=WORD"]), "hush\n")

    def test_inotify(self):
        """inotify tells of a change on the host within a second"""
        directory = self.path("shared")
        self.inside(directory)
        name = self.start("/shared/inside", "watch", "/shared", flags=["-v", directory + ":/shared"])
        self.wait_logs(name, "watching")
        self.path("shared/new", "x")
        self.wait_logs(name, "new\n", 1)

    @long
    def test_archive_through(self):
        """a tar streamed through a container"""
        tree = self.path("tree")
        for i in range(200):
            self.path("tree/%d" % i, "%d\n" % i)
        packed = subprocess.run(["tar", "-C", tree, "-c", "."], stdout=subprocess.PIPE, check=True).stdout
        command = self.engine.command("run", "--rm", "-i", *self.flags([]), BUSYBOX, "sh", "-c", "mkdir /t; cd /t; tar x; ls | wc -l")
        done = subprocess.run(command, env=self.engine.environment, input=packed, stdout=subprocess.PIPE, timeout=60)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, b"200"))
