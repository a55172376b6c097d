# SPDX-License-Identifier: GPL-2.0-or-later
"""What people run: services and tools of Debian's packages, with real data, under podman at each level."""
import os
import subprocess
import urllib.request

import bundles
import images
import machine
from base import ALL, EngineCase, on

PACKAGES = bundles.SERVICE_PACKAGES + ",gcc,git,libc6-dev,make,openjdk-17-jre-headless,python3-numpy,redis-server,rhino,systemd-sysv"
IMAGE = "localhost/services:latest"
POSTGRESQL = """
export PATH=$(echo /usr/lib/postgresql/*/bin):$PATH D=/data/pg
as() { setpriv --reuid postgres --regid postgres --clear-groups env HOME=/tmp "$@"; }
serve() { as pg_ctl -D $D -w -t 300 -l /tmp/log -o '-k /tmp -h ""' start > /dev/null; }
ask() { as psql -h /tmp -Atc "$1" postgres; }
"""


@on("podman", versions=False)
class Workloads(EngineCase):
    long_for = ("podman",)
    packages = PACKAGES

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not ALL:
            return
        if cls.level == "vm":  # as it is, without a copy of a GiB: the emulated machine is small
            tree = os.path.join(machine.CACHE, os.path.relpath(bundles.debian_rootfs(PACKAGES), bundles.CACHE))
            cls.image, cls.how = tree + ":O", ("--memory", "768m", "--rootfs")
        else:
            cls.image, cls.how = IMAGE, ()
            cls.engine.must("import", "--change", "CMD sh", images.debian_tar(machine.HOME, PACKAGES), IMAGE, timeout=600)

    def debian(self, script, *flags, timeout=120):
        return self.run_("bash", "-euc", script, flags=[*flags, *self.how], image=self.image, timeout=timeout)

    def fetch(self, url):
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read()

    def published(self, port, *args, flags=()):
        """A service in the background whose port 8080 is ours; returns the address."""
        self.start(*args, image=self.image, flags=["--network", "podman", "-p", "127.0.0.1:%d:8080" % port, *flags, *self.how])
        url = "http://127.0.0.1:%d/" % port

        def answers():
            try:
                return self.fetch(url) is not None
            except OSError:
                return False
        self.wait_until(answers, "the service answers", 30)
        return url

    def test_postgresql(self):
        """PostgreSQL with pgbench"""
        volume = self.name("data")
        self.cli("volume", "create", volume)

        def remove():
            self.engine.remove_all()
            self.cli("volume", "rm", volume)
        self.addCleanup(remove)
        name = self.start("bash", "-euc", POSTGRESQL + """
mkdir $D; chown postgres: $D
as initdb -D $D > /dev/null
serve
as pgbench -h /tmp -i -s 2 -q postgres 2> /dev/null
as pgbench -h /tmp -c 4 -j 2 -t 250 postgres 2>&1 | grep -E 'transactions actually|failed'
ask 'select count(*) from pgbench_history'
as pgbench -h /tmp -n -c 4 -j 2 -T 100000 -P 1 postgres 2>&1
""", image=self.image, flags=["-v", volume + ":/data", *self.how])
        follow, out = self.popen("logs", "-f", name, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True), []
        for line in follow.stdout:  # asking again and again would take the emulated processor from what is waited for
            out.append(line.rstrip())
            if sum(text.startswith("progress") for text in out) == 2:
                break
        self.assertTrue(out and out[-1].startswith("progress"), out)
        self.assertIn("1000/1000", out[0])
        self.assertEqual(out[2], "1000")
        # In the midst of it, with all that it runs on: what is in the volume is whole, and what it had said is there.
        self.cli("kill", name)
        out = self.debian(POSTGRESQL + """
rm $D/postmaster.pid
serve
grep -o 'was not properly shut down' /tmp/log
ask 'select count(*) > 1000 from pgbench_history'
ask 'select sum(delta) from pgbench_history'
for t in account teller branche; do ask "select sum(${t:0:1}balance) from pgbench_${t}s"; done
as pg_ctl -D $D -w -m fast stop > /dev/null
""", "-v", volume + ":/data", timeout=300).split("\n")
        self.assertEqual(out[:2], ["was not properly shut down", "t"])
        self.assertEqual(out[2:], [out[2]] * 4 + [""])

    def test_nginx(self):
        """nginx with 1,000 files"""
        site = self.path("site")
        self.path("site/index.html", "index\n")
        for i in range(1000):
            self.path("site/%d" % i, "file %d\n" % i * (i + 1))
        config = self.path("nginx.conf", "daemon off; pid /tmp/pid; error_log stderr; events {}\n"
                           "http { access_log off; server { listen 8080; root /site; } }\n")
        url = self.published(21001, "nginx", "-c", "/nginx.conf", flags=["-v", site + ":/site:ro", "-v", config + ":/nginx.conf:ro"])
        for i in range(1000):
            self.assertEqual(self.fetch(url + str(i)), b"file %d\n" % i * (i + 1))

    def test_redis(self):
        """Redis, with its own benchmark"""
        out = self.debian("redis-server --port 6380 --daemonize yes --dir /tmp > /dev/null; "
                          "until redis-cli -p 6380 ping > /dev/null 2>&1; do sleep 0.1; done; "
                          "redis-benchmark -p 6380 -n 2000 -t set,incr -q > /dev/null; redis-cli -p 6380 incr counted; "
                          "redis-cli -p 6380 save; redis-cli -p 6380 shutdown nosave; test -s /tmp/dump.rdb && echo saved")
        self.assertEqual(out.split(), ["1", "OK", "saved"])

    def test_numpy(self):
        """Python with numpy"""
        out = self.debian("python3 -c \"import numpy as n; n.random.seed(1); a = n.random.rand(300, 300); "
                          "print(bool(n.allclose(a @ n.linalg.inv(a), n.eye(300))))\"")
        self.assertEqual(out, "True\n")

    def test_node(self):
        """a Node server"""
        url = self.published(21002, "node", "-e", "require('http').createServer((q, s) => s.end('node ' + q.url)).listen(8080)")
        self.assertEqual(self.fetch(url + "path"), b"node /path")

    def test_gcc(self):
        """gcc and make build a C project"""
        out = self.debian(r"""
mkdir /p; cd /p
for i in $(seq 20); do echo "int f$i(void) { return $i; }" > f$i.c; done
{ for i in $(seq 20); do echo "int f$i(void);"; done; echo '#include <stdio.h>'
echo 'int main(void) { int s = 0;'; for i in $(seq 20); do echo "s += f$i();"; done; echo 'printf("%d\n", s); return 0; }'; } > main.c
printf 'p: $(patsubst %%.c,%%.o,$(wildcard *.c))\n\t$(CC) -o $@ $^\n' > Makefile
make -j4 p > /dev/null; ./p
""")
        self.assertEqual(out, "210\n")

    def test_git(self):
        """git: commits, a clone, fsck"""
        out = self.debian("""
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git init -q /r; cd /r
for c in $(seq 10); do for i in $(seq 30); do echo "$c $i" > $i; done; git add .; git commit -qm $c; done
git gc -q; git clone -q /r /s; cd /s; git fsck --no-progress; git log --oneline | wc -l; git status --short | wc -l
""")
        self.assertEqual(out.split(), ["10", "0"])

    def test_apt(self):
        """apt-get install from a local repository"""
        repository = self.path("repository")
        tree = self.path("tree")
        os.makedirs(tree + "/DEBIAN")
        os.makedirs(tree + "/usr/bin")
        machine.write(tree + "/DEBIAN/control", "Package: hello-moat\nVersion: 1\nArchitecture: all\nMaintainer: n <n@localhost>\n"
                      "Description: test\n")
        machine.write(tree + "/usr/bin/hello-moat", "#!/bin/sh\necho hello from a package\n")
        for name in ("", "/DEBIAN", "/usr", "/usr/bin", "/usr/bin/hello-moat"):
            os.chmod(tree + name, 0o755)
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, repository + "/hello.deb"], check=True,
                       stdout=subprocess.DEVNULL)
        with open(repository + "/Packages", "w") as f:
            subprocess.run(["apt-ftparchive", "packages", "."], cwd=repository, stdout=f, check=True)
        out = self.debian("echo 'deb [trusted=yes] file:/repository ./' > /etc/apt/sources.list; rm -f /etc/apt/sources.list.d/*; "
                          "apt-get -qq update; apt-get -qq install -y hello-moat > /dev/null; hello-moat",
                          "-v", repository + ":/repository:ro")
        self.assertEqual(out, "hello from a package\n")

    def test_java(self):
        """a program on a Java virtual machine"""
        script = self.path("primes.js", "var n = 200000, sieve = new java.util.BitSet(n), t = [], sum = new java.util.concurrent.atomic.AtomicLong();"
                           "for (var i = 2; i < n; i++) { if (!sieve.get(i)) { for (var j = i * 2; j < n; j += i) sieve.set(j); } }"
                           "for (var k = 0; k < 4; k++) { (function (k) { t.push(new java.lang.Thread(function () {"
                           " for (var i = 2 + k; i < n; i += 4) if (!sieve.get(i)) sum.addAndGet(i); })); t[k].start(); })(k); }"
                           "for (k in t) t[k].join(); java.lang.System.out.println(sum.get() + ' ' + java.lang.System.getProperty('java.vm.name'));")
        out = self.debian("java -Xmx96m -jar /usr/share/java/js.jar /primes.js", "-v", script + ":/primes.js:ro", timeout=300)
        self.assertRegex(out, r"^1709600813 OpenJDK 64-Bit Server VM\n$")
