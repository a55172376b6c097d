# SPDX-License-Identifier: GPL-2.0-or-later
"""
Ordinary programs at level sandbox: what people run goes on working behind the wall. The programs come from one Debian root
file system that takes minutes to make, so all but the quick ones run with MOAT_TEST_ALL=1 (tests/run --all).
"""
import os
import subprocess
import tarfile
import unittest

import bundles
from harness import TIME_SCALE, Case, at_levels

ALL = os.environ.get("MOAT_TEST_ALL") == "1"


def hello_package(directory):
    """A Debian package made here: a file, a user made by its script, set-id bits."""
    tree = os.path.join(directory, "hello")
    os.makedirs(os.path.join(tree, "DEBIAN"))
    os.makedirs(os.path.join(tree, "usr/bin"))
    with open(os.path.join(tree, "DEBIAN/control"), "w") as f:
        f.write("Package: hello-moat\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@localhost>\n"
                "Description: test\n")
    with open(os.path.join(tree, "DEBIAN/postinst"), "w") as f:
        f.write("#!/bin/sh\nset -e\ngroupadd hello\nuseradd -g hello hello\nchown hello:hello /usr/bin/hello-moat\n"
                "chmod 4755 /usr/bin/hello-moat\n")
    with open(os.path.join(tree, "usr/bin/hello-moat"), "w") as f:
        f.write("#!/bin/sh\necho hello\n")
    for name in ("DEBIAN/postinst", "usr/bin/hello-moat"):
        os.chmod(os.path.join(tree, name), 0o755)
    path = os.path.join(directory, "hello.deb")
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, path], check=True, stdout=subprocess.DEVNULL)
    return path


class Debian(Case):
    packages = bundles.DEBIAN_PACKAGES

    def script(self, text, user=None, timeout=60, prepare=None):
        """Runs a shell script in a fresh Debian; returns what it said."""
        def change(c):
            if user is not None:
                c["process"]["user"] = {"uid": user, "gid": user}
            c["mounts"].append({"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["mode=1777"]})
            c["process"]["rlimits"] = []
        self.bundle("sh", "-ec", text, base="debian", packages=self.packages, change=change)
        if prepare:
            prepare(self.rootfs)
        # Through pipes, as engines do it: programs open /dev/stdout anew.
        done = subprocess.run(self.command("run", "--bundle", self.bundle_path, self.new_id()), capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=timeout * TIME_SCALE)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-3000:])
        return done.stdout.decode()


@at_levels("sandbox")
class Quick(Debian):
    def test_python(self):
        out = self.script("""python3 - <<'END'
import socket, threading, os, signal
a, b = socket.socketpair()
t = threading.Thread(target=lambda: a.sendall(b"thread"))
t.start(); t.join()
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen()
c = socket.create_connection(s.getsockname())
pid = os.fork()
if pid == 0:
    os._exit(7)
print(b.recv(100).decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), len(os.sched_getaffinity(0)) > 0)
END""")
        self.assertEqual(out, "thread 7 True\n")

    def test_package(self):
        """dpkg with a script that makes a user, and set-id bits."""
        out = self.script("dpkg -i /hello.deb > /dev/null; stat -c '%U %a' /usr/bin/hello-moat; hello-moat",
                          prepare=lambda rootfs: os.rename(hello_package(self.work), os.path.join(self.work, "deb"))
                          or subprocess.run(["cp", os.path.join(self.work, "deb"), rootfs + "/hello.deb"], check=True))
        self.assertEqual(out, "hello 4755\nhello\n")

    def test_dropping_privileges(self):
        out = self.script("id -u; setpriv --reuid 33 --regid 33 --clear-groups sh -c 'id -u; id -g; touch /root/x 2>/dev/null "
                          "|| echo no'")
        self.assertEqual(out, "0\n33\n33\nno\n")


@at_levels("sandbox")
@unittest.skipUnless(ALL, "takes minutes: MOAT_TEST_ALL=1 runs it")
class Services(Debian):
    packages = bundles.SERVICE_PACKAGES

    def test_apt(self):
        """apt-get from a local directory: it forks, drops to a user of its own, and checks what it reads."""
        def prepare(rootfs):
            os.makedirs(rootfs + "/repo")
            package = hello_package(self.work)
            subprocess.run(["cp", package, rootfs + "/repo/hello-moat_1_all.deb"], check=True)
            with open(rootfs + "/repo/Packages", "w") as f:
                subprocess.run(["apt-ftparchive" if os.path.exists("/usr/bin/apt-ftparchive") else "dpkg-scanpackages",
                                *(["packages"] if os.path.exists("/usr/bin/apt-ftparchive") else []), "."],
                               cwd=rootfs + "/repo", stdout=f, check=True, stderr=subprocess.DEVNULL)
            with open(rootfs + "/etc/apt/sources.list", "w") as f:
                f.write("deb [trusted=yes] file:/repo ./\n")
        out = self.script("apt-get update -qq >&2; apt-get install -y hello-moat >&2; hello-moat", prepare=prepare)
        self.assertEqual(out, "hello\n")

    def test_postgresql(self):
        out = self.script("""
            bin=$(echo /usr/lib/postgresql/*/bin)
            mkdir -p /run/postgresql && chown postgres: /run/postgresql
            as() { setpriv --reuid postgres --regid postgres --init-groups "$@"; }
            cd /tmp
            as $bin/initdb -D /tmp/data -A trust > /dev/null
            as $bin/pg_ctl -D /tmp/data -w -l /tmp/log start > /dev/null || { cat /tmp/log >&2; exit 1; }
            as psql -qAt -c 'create table t (n int); insert into t select generate_series(1, 1000); select sum(n) from t;'
            as $bin/pg_ctl -D /tmp/data -m fast stop > /dev/null""", timeout=120)
        self.assertEqual(out, "500500\n")

    def test_nginx(self):
        """The master is root and listens on port 80, workers are www-data, the log is standard output."""
        out = self.script("""
            echo served > /var/www/html/index.html
            ln -sf /dev/stdout /var/log/nginx/access.log
            nginx
            python3 -c 'import urllib.request; print(urllib.request.urlopen("http://127.0.0.1/index.html").read().decode().strip())'
            ps -o user= -C nginx | sort -u
            nginx -s reload
            nginx -s stop""")
        lines = out.splitlines()
        self.assertIn("served", lines)
        self.assertIn("root", lines)
        self.assertIn("www-data", lines)

    def test_node_and_npm(self):
        def prepare(rootfs):
            os.makedirs(rootfs + "/package")
            with open(rootfs + "/package/package.json", "w") as f:
                f.write('{"name": "hello-moat", "version": "1.0.0", "main": "index.js"}')
            with open(rootfs + "/package/index.js", "w") as f:
                f.write('module.exports = () => "from a package";')
        out = self.script("""
            mkdir /app && cd /app && echo '{"name":"app","version":"1.0.0"}' > package.json
            npm install --offline --no-audit --no-fund /package >&2
            cat > main.js <<'END'
const http = require("http"), fs = require("fs"), { Worker } = require("worker_threads"), { execSync } = require("child_process");
const server = http.createServer((q, a) => a.end("answer")).listen(0, "127.0.0.1", async () => {
  const text = await new Promise(done => http.get({ port: server.address().port, host: "127.0.0.1" }, r => r.on("data", d => done(d.toString()))));
  const worker = await new Promise(done => new Worker("require('worker_threads').parentPort.postMessage('worker')", { eval: true }).on("message", done));
  console.log(text, worker, execSync("echo child").toString().trim(), await fs.promises.readFile("package.json").then(b => b.length > 0), require("hello-moat")());
  server.close();
});
END
            node main.js""", timeout=120, prepare=prepare)
        self.assertEqual(out, "answer worker child true from a package\n")

    def test_pip(self):
        def prepare(rootfs):
            os.makedirs(rootfs + "/package/hello_moat")
            with open(rootfs + "/package/setup.py", "w") as f:
                f.write("from setuptools import setup\nsetup(name='hello-moat', version='1', packages=['hello_moat'])\n")
            with open(rootfs + "/package/hello_moat/__init__.py", "w") as f:
                f.write("text = 'from a package'\n")
            with tarfile.open(rootfs + "/hello-moat-1.tar.gz", "w:gz") as archive:
                archive.add(rootfs + "/package", "hello-moat-1")
        out = self.script("pip install --no-index --no-build-isolation --break-system-packages /hello-moat-1.tar.gz >&2; "
                          "python3 -c 'import hello_moat; print(hello_moat.text)'", timeout=120, prepare=prepare)
        self.assertEqual(out, "from a package\n")

    def test_go(self):
        """gron is written in Go: threads by clone without clone3, futexes, epoll, timers."""
        out = self.script("echo '{\"a\": [1, {\"b\": true}]}' | gron")
        self.assertEqual(out.splitlines(), ["json = {};", "json.a = [];", "json.a[0] = 1;", "json.a[1] = {};",
                                            "json.a[1].b = true;"])
