# SPDX-License-Identifier: GPL-2.0-or-later
"""linux.seccomp at level plain: what a filter does to the workload, and listeners with their agents."""
import array
import errno
import fcntl
import json
import os
import select
import socket
import struct
import threading

from harness import Case, SANITIZED, at_levels, differs

# <linux/seccomp.h>
NOTIF_RECV = 0xc0502100
NOTIF_SEND = 0xc0182101
NOTIF = struct.Struct("=QII iIQ 6Q")  # id, pid, flags, nr, arch, instruction pointer, arguments
RESPONSE = struct.Struct("=QqiI")     # id, value, error, flags
CONTINUE = 1
MKDIR, MKDIRAT = 83, 258


class Agent:
    """Takes listeners at a socket and answers every call with an error, or lets it go on."""

    def __init__(self, path, answer):
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.answer = answer
        self.states = []
        self.calls = []
        self.stopped = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def stop(self):
        self.stopped = True
        self.thread.join()
        self.listener.close()

    def run(self):
        """One thread for all: none of them is left in a call on a descriptor that is another's by then."""
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        listeners = set()
        while not self.stopped:
            for fd, events in poll.poll(20):
                if fd == self.listener.fileno():
                    new = self.take()
                    listeners.add(new)
                    poll.register(new, select.POLLIN)
                elif events & select.POLLIN:
                    self.serve(fd)
                else:  # all under that filter have ended
                    poll.unregister(fd)
                    listeners.remove(fd)
                    os.close(fd)
        for fd in listeners:
            os.close(fd)

    def take(self):
        connection, _ = self.listener.accept()
        with connection:
            text, fds, _, _ = socket.recv_fds(connection, 65536, 4)
        self.states.append((json.loads(text), len(fds)))
        return fds[0]

    def serve(self, fd):
        request = array.array("B", bytes(NOTIF.size))
        try:
            fcntl.ioctl(fd, NOTIF_RECV, request)
            number, _, _, call, *_ = NOTIF.unpack(request.tobytes())
            self.calls.append(call)
            reply = (0, 0, CONTINUE) if self.answer is None else (0, -self.answer, 0)
            fcntl.ioctl(fd, NOTIF_SEND, array.array("B", RESPONSE.pack(number, *reply)))
        except FileNotFoundError:  # who called is gone
            pass


@at_levels("plain", "vm", quick={"vm": ["test_only_what_a_start_needs", "test_too_little_is_allowed"]})
class Seccomp(Case):
    def profile(self, **seccomp):
        return lambda c: c["linux"].__setitem__("seccomp", {
            "defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_X86_64"], **seccomp})

    def mkdir(self, action, **more):
        return {"syscalls": [{"names": ["mkdir", "mkdirat"], "action": action, **more}]}

    def test_error(self):
        self.bundle("mkdir", "/x", change=self.profile(**self.mkdir("SCMP_ACT_ERRNO", errnoRet=errno.EXDEV)))
        done = self.run_container()
        self.assertEqual(done.returncode, 1)
        self.assertIn(os.strerror(errno.EXDEV).encode(), done.stderr)

    def test_killed(self):
        self.bundle("mkdir", "/x", change=self.profile(**self.mkdir("SCMP_ACT_KILL_PROCESS")))
        self.assertEqual(self.run_container().returncode, 128 + 31)

    def test_without_no_new_privileges(self):
        """The filter is loaded by privilege, which is gone afterwards."""
        def change(c):
            c["process"]["noNewPrivileges"] = False
            self.profile(**self.mkdir("SCMP_ACT_ERRNO"))(c)
        out = self.output("sh", "-c", "mkdir /x 2>/dev/null; grep -E 'Seccomp:|CapEff|NoNew' /proc/self/status", change=change)
        self.assertEqual(out, "CapEff:\t00000000a80425fb\nNoNewPrivs:\t0\nSeccomp:\t2\n")

    def test_only_what_a_start_needs(self):
        """What moat itself does after the filter is loaded must be next to nothing."""
        calls = ["execve", "capset", "prctl", "brk", "arch_prctl", "set_tid_address", "set_robust_list", "rseq", "prlimit64",
                 "readlink", "getrandom", "mprotect", "exit_group", "getuid", "geteuid", "getgid", "getegid", "uname", "fstat"]
        for privileged in (True, False):
            def change(c):
                c["process"]["noNewPrivileges"] = not privileged
                self.profile(defaultAction="SCMP_ACT_KILL_PROCESS",
                             syscalls=[{"names": calls, "action": "SCMP_ACT_ALLOW"}])(c)
            self.bundle("true", change=change)
            self.assertEqual(self.run_container().returncode, 0)

    def test_nothing_is_allowed(self):
        for action in ("SCMP_ACT_ERRNO", "SCMP_ACT_KILL_PROCESS", "SCMP_ACT_KILL", "SCMP_ACT_TRAP"):
            self.bundle("true", change=self.profile(defaultAction=action))
            self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=("linux.seccomp", "execve", "SCMP_ACT_ALLOW"))

    def too_little(self, action):
        """What moat does between the filter and execve(2), dropping a capability, is denied; and so is to tell of it."""
        def change(c):
            c["process"]["noNewPrivileges"] = False
            self.profile(defaultAction=action, syscalls=[{"names": ["execve"], "action": "SCMP_ACT_ALLOW"}])(c)
        return change

    def test_too_little_is_allowed(self):
        """The process dies under moat's hands, who has to say so: of its own it can say nothing."""
        for action, signal in ("SCMP_ACT_ERRNO", 11), ("SCMP_ACT_KILL_PROCESS", 31):
            if SANITIZED and action == "SCMP_ACT_ERRNO":
                continue  # the sanitizer has the signal first, and without system calls it cannot end the process
            self.bundle("true", change=self.too_little(action))
            self.refused("run", "--bundle", self.bundle_path, self.new_id(),
                         says=("killed by signal %d" % signal, "before its program began", "linux.seccomp"))

    @differs("vm", "the guest has the container's config.json from its creation on")
    def test_exec_where_too_little_is_allowed(self):
        self.bundle("sleep", "1000")
        for change, says in ((self.too_little("SCMP_ACT_KILL_PROCESS"), ("signal 31", "before its program began")),
                             (self.profile(defaultAction="SCMP_ACT_ERRNO"), "execve")):
            name = self.create()
            self.ok("start", name)
            change(self.config)
            with open(os.path.join(self.root, name, "config.json"), "w") as f:  # exec reads it anew
                json.dump(self.config, f)
            self.refused("exec", name, "true", says=says)
            self.ok("delete", "--force", name)

    def test_cached_filter_is_the_same(self):
        for _ in range(2):
            self.test_error()

    def test_exec_is_filtered(self):
        self.bundle("sleep", "1000", change=self.profile(**self.mkdir("SCMP_ACT_ERRNO")))
        name = self.create()
        self.ok("start", name)
        self.assertEqual(self.moat("exec", name, "mkdir", "/x").returncode, 1)
        self.ok("delete", "--force", name)
        self.assertFalse(os.path.exists(os.path.join(self.rootfs, "x")))

    def agent(self, answer):
        path = os.path.join(self.work, "agent.sock")
        agent = Agent(path, answer)
        self.addCleanup(agent.stop)
        return agent, dict(listenerPath=path, listenerMetadata="some \"words\"")

    @differs("vm", "a listener on the host cannot serve system calls of a guest: refused")
    def test_listener(self):
        agent, settings = self.agent(errno.EMLINK)
        for privileged in (False, True):
            def change(c):
                c["process"]["noNewPrivileges"] = not privileged
                self.profile(**self.mkdir("SCMP_ACT_NOTIFY"), **settings)(c)
            self.bundle("mkdir", "/x", change=change)
            name = self.new_id()
            done = self.run_container(name=name)
            self.assertIn(os.strerror(errno.EMLINK).encode(), done.stderr)
            state, count = agent.states.pop()
            self.assertEqual((state["fds"], count, state["metadata"]), (["seccompFd"], 1, "some \"words\""))
            self.assertEqual((state["state"]["id"], state["state"]["status"], state["state"]["pid"]),
                             (name, "creating", state["pid"]))
            self.assertIn(agent.calls.pop(), (MKDIR, MKDIRAT))

    @differs("vm", "a listener on the host cannot serve system calls of a guest: refused")
    def test_listener_for_every_call(self):
        """Even the first of init's own calls waits for the agent; nothing stands still."""
        agent, settings = self.agent(None)
        self.bundle("echo", "through", change=self.profile(defaultAction="SCMP_ACT_NOTIFY", syscalls=[], **settings))
        self.assertEqual(self.run_container().stdout, b"through\n")

    @differs("vm", "a listener on the host cannot serve system calls of a guest: refused")
    def test_listener_of_exec(self):
        agent, settings = self.agent(errno.EMLINK)
        self.bundle("sleep", "1000", change=self.profile(**self.mkdir("SCMP_ACT_NOTIFY"), **settings))
        name = self.create()
        self.ok("start", name)
        done = self.moat("exec", name, "mkdir", "/x")
        self.assertIn(os.strerror(errno.EMLINK).encode(), done.stderr)
        self.assertEqual([state["state"]["status"] for state, _ in agent.states], ["creating", "running"])
        self.ok("delete", "--force", name)

    @differs("vm", "a listener on the host cannot serve system calls of a guest: refused")
    def test_receiver_of_crun(self):
        """run.oci.seccomp.receiver takes the place of listenerPath, for exec as well."""
        agent, settings = self.agent(errno.EMLINK)
        path = settings["listenerPath"]
        settings["listenerPath"] = "/nowhere"

        def change(c):
            c["annotations"] = {"run.oci.seccomp.receiver": path}
            self.profile(**self.mkdir("SCMP_ACT_NOTIFY"), **settings)(c)
        self.bundle("sleep", "1000", change=change)
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=["run.oci.seccomp.receiver", "operator's file"])
        self.settings["annotations"] = ["run.oci.seccomp.receiver"]
        self.write_settings()
        name = self.create()
        self.ok("start", name)
        self.assertIn(os.strerror(errno.EMLINK).encode(), self.moat("exec", name, "mkdir", "/x").stderr)
        self.assertEqual([state["state"]["status"] for state, _ in agent.states], ["creating", "running"])
        self.ok("delete", "--force", name)

    def test_unknown_calls_can_be_an_error(self):
        """run.oci.seccomp_fail_unknown_syscall only tightens."""
        def change(value):
            def both(c):
                c["annotations"] = {"run.oci.seccomp_fail_unknown_syscall": value}
                self.profile(syscalls=[{"names": ["mkdir", "no_such_call"], "action": "SCMP_ACT_ERRNO"}])(c)
            return both
        self.bundle("true", change=change("0"))
        self.assertEqual(self.run_container().returncode, 0)
        self.bundle("true", change=change("1"))
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=["seccomp_fail_unknown_syscall", "no_such_call"])

    @differs("vm", "a listener on the host cannot serve system calls of a guest: refused")
    def test_no_agent(self):
        self.bundle("true", change=self.profile(**self.mkdir("SCMP_ACT_NOTIFY"), listenerPath=self.work + "/none"))
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says=["/none", "agent"])
        self.bundle("true", change=self.profile(**self.mkdir("SCMP_ACT_NOTIFY")))
        self.refused("create", "--bundle", self.bundle_path, self.new_id(), says="listenerPath")
