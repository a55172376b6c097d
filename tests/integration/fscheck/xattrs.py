# SPDX-License-Identifier: GPL-2.0-or-later
"""Extended attributes, file capabilities and ACLs."""
import os
import struct

from .core import check

ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32
NOBODY = 0xffffffff
CAPABILITY = "security.capability"
NET_RAW = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)


def acl(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)


def acl_of(path, name):
    data = os.getxattr(path, name)
    return [struct.unpack("<HHI", data[i:i + 8]) for i in range(4, len(data), 8)]


@check
def user_attributes(t):
    t.write("f")
    os.mkdir(t.at("d"))
    for name in ("f", "d"):
        path = t.at(name)
        t.see(f"{name} none", os.listxattr, path)
        t.see(f"{name} missing", os.getxattr, path, "user.a")
        t.do(f"{name} set", os.setxattr, path, "user.a", b"value\0with\xffbytes")
        t.see(f"{name} get", os.getxattr, path, "user.a")
        t.do(f"{name} empty value", os.setxattr, path, "user.empty", b"")
        t.see(f"{name} get empty", os.getxattr, path, "user.empty")
        t.do(f"{name} create, there", os.setxattr, path, "user.a", b"x", os.XATTR_CREATE)
        t.do(f"{name} replace, missing", os.setxattr, path, "user.b", b"x", os.XATTR_REPLACE)
        t.do(f"{name} replace", os.setxattr, path, "user.a", b"y", os.XATTR_REPLACE)
        t.see(f"{name} replaced", os.getxattr, path, "user.a")
        t.see(f"{name} list", lambda p=path: set(os.listxattr(p)))
        t.do(f"{name} remove", os.removexattr, path, "user.a")
        t.do(f"{name} remove, missing", os.removexattr, path, "user.a")
        t.do(f"{name} long name", os.setxattr, path, "user." + "n" * 250, b"x")
        t.do(f"{name} too long a name", os.setxattr, path, "user." + "n" * 251, b"x")
        t.do(f"{name} 3000 bytes", os.setxattr, path, "user.big", b"b" * 3000)
        t.see(f"{name} got", os.getxattr, path, "user.big")
        t.do(f"{name} 65537 bytes", os.setxattr, path, "user.huge", b"b" * 65537)
        t.do(f"{name} no name space", os.setxattr, path, "plain", b"x")
        t.do(f"{name} only a name space", os.setxattr, path, "user.", b"x")
        t.do(f"{name} unknown name space", os.setxattr, path, "system.unknown", b"x")
    os.symlink("f", t.at("l"))
    t.do("on a symlink", os.setxattr, t.at("l"), "user.a", b"x", follow_symlinks=False)
    t.see("list of a symlink", os.listxattr, t.at("l"), follow_symlinks=False)
    os.mkfifo(t.at("p"))
    t.do("on a FIFO", os.setxattr, t.at("p"), "user.a", b"x")
    os.chmod(t.at("f"), 0o644)
    t.do("by another", t.as_user, 1000, 1000, [], os.setxattr, t.at("f"), "user.z", b"x")
    t.see("read by another", t.as_user, 1000, 1000, [], os.getxattr, t.at("f"), "user.empty")


@check
def capabilities(t):
    def again():
        t.write("f", b"x")
        os.chmod(t.at("f"), 0o777)
        os.setxattr(t.at("f"), CAPABILITY, NET_RAW)

    def append():
        fd = os.open(t.at("f"), os.O_WRONLY | os.O_APPEND)
        os.write(fd, b"x")
        os.close(fd)
    t.write("f", b"x")
    t.do("set", os.setxattr, t.at("f"), CAPABILITY, NET_RAW)
    t.see("get", os.getxattr, t.at("f"), CAPABILITY)
    t.see("list", os.listxattr, t.at("f"))
    t.do("by an ordinary user", t.as_user, 1000, 1000, [], os.setxattr, t.at("f"), CAPABILITY,
         NET_RAW)
    for what, action in (("write", append), ("truncate", lambda: os.truncate(t.at("f"), 0)),
                         ("chown", lambda: os.chown(t.at("f"), 5, 5)),
                         ("chmod", lambda: os.chmod(t.at("f"), 0o700))):
        again()
        t.do(what, action)
        t.see(f"after {what}", os.getxattr, t.at("f"), CAPABILITY)


@check
def access_acl(t):
    t.write("f", b"text", 0o600)
    wanted = acl((USER_OBJ, 6, NOBODY), (USER, 4, 1000), (GROUP_OBJ, 0, NOBODY), (MASK, 4, NOBODY),
                 (OTHER, 0, NOBODY))
    t.see("none", os.getxattr, t.at("f"), ACCESS)
    t.see("Alice reads before", t.as_user, 1000, 1000, [], t.read, "f")
    t.do("set", os.setxattr, t.at("f"), ACCESS, wanted)
    t.see("get", acl_of, t.at("f"), ACCESS)
    t.see("mode shows the mask", t.stat, "f")
    t.see("Alice reads", t.as_user, 1000, 1000, [], t.read, "f")
    t.see("Bob reads", t.as_user, 1001, 1001, [], t.read, "f")
    t.do("Alice writes", t.as_user, 1000, 1000, [], t.write, "f", b"no")
    os.chmod(t.at("f"), 0o600)
    t.see("chmod changes the mask", acl_of, t.at("f"), ACCESS)
    t.see("Alice reads after it", t.as_user, 1000, 1000, [], t.read, "f")
    os.chmod(t.at("f"), 0o660)
    t.see("and again", t.as_user, 1000, 1000, [], t.read, "f")
    t.do("by another", t.as_user, 1001, 1001, [], os.setxattr, t.at("f"), ACCESS, wanted)
    t.do("nonsense", os.setxattr, t.at("f"), ACCESS, b"\x02\0\0\0garbage!")
    t.do("remove", os.removexattr, t.at("f"), ACCESS)
    t.see("gone", os.getxattr, t.at("f"), ACCESS)
    t.do("minimal", os.setxattr, t.at("f"), ACCESS,
         acl((USER_OBJ, 7, NOBODY), (GROUP_OBJ, 5, NOBODY), (OTHER, 1, NOBODY)))
    t.see("becomes a mode", t.stat, "f")
    t.do("group entry", os.setxattr, t.at("f"), ACCESS,
         acl((USER_OBJ, 6, NOBODY), (GROUP_OBJ, 0, NOBODY), (GROUP, 6, 5000), (MASK, 6, NOBODY),
             (OTHER, 0, NOBODY)))
    t.see("a member reads", t.as_user, 1002, 1002, [5000], t.read, "f")
    t.see("no member reads", t.as_user, 1002, 1002, [5001], t.read, "f")


@check
def default_acl(t):
    os.mkdir(t.at("d"))
    t.do("set", os.setxattr, t.at("d"), DEFAULT,
         acl((USER_OBJ, 7, NOBODY), (USER, 6, 1000), (GROUP_OBJ, 5, NOBODY), (MASK, 7, NOBODY),
             (OTHER, 0, NOBODY)))
    t.see("get", acl_of, t.at("d"), DEFAULT)
    for mask in (0o022, 0o077):
        os.umask(mask)
        os.close(os.open(t.at(f"d/f{mask:o}"), os.O_CREAT | os.O_WRONLY, 0o666))
        os.mkdir(t.at(f"d/s{mask:o}"), 0o777)
        os.mkfifo(t.at(f"d/p{mask:o}"), 0o666)
        for kind in "fsp":
            name = f"d/{kind}{mask:o}"
            t.see(f"{name} mode", t.stat, name)
            t.see(f"{name} acl", acl_of, t.at(name), ACCESS)
            t.see(f"{name} default", acl_of, t.at(name), DEFAULT)
    os.umask(0o022)
    t.write("f")
    t.do("on a file", os.setxattr, t.at("f"), DEFAULT, acl((USER_OBJ, 7, NOBODY)))
    t.do("remove", os.removexattr, t.at("d"), DEFAULT)
    os.close(os.open(t.at("d/after"), os.O_CREAT | os.O_WRONLY, 0o666))
    t.see("then the umask counts", t.stat, "d/after")


@check
def acl_and_set_group_id(t):
    t.write("f")
    os.chown(t.at("f"), 1000, 5000)
    os.chmod(t.at("f"), 0o2770)
    entries = acl((USER_OBJ, 7, NOBODY), (GROUP_OBJ, 7, NOBODY), (OTHER, 0, NOBODY))
    t.do("owner, no member", t.as_user, 1000, 1000, [], os.setxattr, t.at("f"), ACCESS, entries)
    t.see("loses the bit", t.stat, "f")
    os.chmod(t.at("f"), 0o2770)
    t.do("owner, member", t.as_user, 1000, 1000, [5000], os.setxattr, t.at("f"), ACCESS, entries)
    t.see("keeps the bit", t.stat, "f")
