# SPDX-License-Identifier: GPL-2.0-or-later
"""
Checks and how they are run. A check is a function that gets a Look at an empty directory of its own
and notes what it sees; an error of the file system is something seen, under its errno's name.
"""
import ctypes
import errno
import json
import os
import pickle
import shutil
import stat
import traceback
import zlib

CHECKS = []
libc = ctypes.CDLL(None, use_errno=True)


def check(function):
    """Registers a check under its module's and its own name."""
    CHECKS.append((function.__module__.rsplit(".", 1)[-1] + "." + function.__name__, function))
    return function


def call(name, *args):
    """A function of the C library; -1 becomes an OSError. Numbers are passed as 64 bits."""
    wrapped = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    function = getattr(libc, name)
    function.restype = ctypes.c_long
    result = function(*wrapped)
    if ctypes.c_int(result).value == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def plain(value):
    """A value as JSON has it: bytes shortened, sets sorted."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = bytes(value)
        return value.decode("latin-1") if len(value) < 200 else f"{len(value)} bytes, {zlib.crc32(value)}"
    if isinstance(value, (set, frozenset)):
        return sorted(plain(v) for v in value)
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return value


class Look:
    """A directory to look at, and the notes."""

    def __init__(self, path):
        self.path = path
        self.notes = {}

    def at(self, *names):
        return os.path.join(self.path, *names)

    def see(self, what, function, *args, **kwargs):
        """Notes what function(*args) gives or fails with; returns it too (None on failure)."""
        try:
            value = function(*args, **kwargs)
            self.note(what, value)
            return value
        except OSError as e:
            self.note(what, errno.errorcode.get(e.errno, str(e.errno)))
        except BufferError as e:
            self.note(what, str(e))
        return None

    def do(self, what, function, *args, **kwargs):
        """The same where only success matters: a descriptor's number is no answer to compare."""
        try:
            value = function(*args, **kwargs)
            self.note(what, "ok")
            return value
        except OSError as e:
            self.note(what, errno.errorcode.get(e.errno, str(e.errno)))
        return None

    def note(self, what, value):
        if what in self.notes:
            raise AssertionError(f"noted twice: {what}")
        self.notes[what] = plain(value)

    def write(self, name, data=b"", mode=None):
        path = self.at(name)
        with open(path, "wb") as f:
            f.write(data)
        if mode is not None:
            os.chmod(path, mode)
        return path

    def read(self, name):
        with open(self.at(name), "rb") as f:
            return f.read()

    def stat(self, name):
        """The attributes that do not depend on the place and the hour."""
        s = os.lstat(self.at(name))
        return {"mode": oct(s.st_mode), "uid": s.st_uid, "gid": s.st_gid,
                "nlink": 0 if stat.S_ISDIR(s.st_mode) else s.st_nlink,
                "size": 0 if stat.S_ISDIR(s.st_mode) else s.st_size}

    def names(self, name="."):
        return sorted(os.listdir(self.at(name)))

    def as_user(self, uid, gid, groups, function, *args):
        """function(*args) in a child of that user; its value, or its OSError raised here."""
        readable, writable = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(readable)
                os.setgroups(groups)
                os.setresgid(gid, gid, gid)
                os.setresuid(uid, uid, uid)
                try:
                    answer = (True, plain(function(*args)))
                except OSError as e:
                    answer = (False, e.errno)
                with os.fdopen(writable, "wb") as f:
                    pickle.dump(answer, f)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(writable)
        with os.fdopen(readable, "rb") as f:
            data = f.read()
        os.waitpid(pid, 0)
        good, value = pickle.loads(data)
        if good:
            return value
        raise OSError(value, os.strerror(value))


def run(top, only=""):
    """Runs all checks below the directory; returns what was noted: {"module.check: what": value}."""
    seen = {}
    os.umask(0o022)
    for number, (name, function) in enumerate(CHECKS):
        if not name.startswith(only):
            continue
        look = Look(os.path.join(top, f"c{number}"))
        os.mkdir(look.path, 0o755)
        os.chmod(look.path, 0o755)
        try:
            function(look)
        except Exception as e:  # a check that cannot go on is a result, too
            look.notes["!stopped"] = f"{type(e).__name__}: {e}".replace(look.path, "DIR")
        for what, value in look.notes.items():
            seen[f"{name}: {what}"] = value
        os.umask(0o022)
        os.closerange(3, 1024)  # what the check opened only to see whether it could
        shutil.rmtree(look.path)
        seen[f"{name}: gone afterwards"] = not os.path.lexists(look.path)
    return seen


def main(argv):
    print(json.dumps(run(argv[0], *argv[1:]), indent=0, sort_keys=True))
