#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""
A client of the Kubernetes container runtime interface (CRI, runtime.v1), as small as the tests need it: messages are written
and read by the numbers of their fields, and a process of its own makes the call, since gRPC starts threads.

usage: tests/engines/cri.py SOCKET METHOD    the request on standard input, the answer on standard output
"""
import os
import subprocess
import sys

METHOD = "/runtime.v1.RuntimeService/"


class Refused(Exception):
    pass


def number(value):
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def encode(message):
    """A message from {field: value}: a number, text, another message, a list for a repeated field, or (pairs,) for a map."""
    out = b""
    for field, value in message.items():
        if isinstance(value, tuple):
            value = [{1: key, 2: text} for key, text in value[0].items()]
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, int):
                out += number(field << 3) + number(one)
            else:
                data = one.encode() if isinstance(one, str) else encode(one)
                out += number(field << 3 | 2) + number(len(data)) + data
    return out


def decode(data):
    """{field: the last value}: numbers, and bytes for everything else."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            found[key >> 3] = varint()
        elif key & 7 == 2:
            size = varint()
            found[key >> 3] = data[at:at + size]
            at += size
        else:
            raise ValueError("a field of wire type %d" % (key & 7))
    return found


def call(socket, method, request, timeout=120):
    """Returns the answer, decoded; Refused with what the server says."""
    done = subprocess.run(["/usr/bin/python3", os.path.abspath(__file__), socket, method], input=encode(request),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
    if done.returncode:
        raise Refused(done.stderr.decode(errors="replace").strip())
    return decode(done.stdout)


def why_not():
    done = subprocess.run(["/usr/bin/python3", "-c", "import grpc"], stderr=subprocess.DEVNULL)
    return None if done.returncode == 0 else "no python3-grpcio: run contrib/install-packages"


def main(socket, method):
    import grpc
    channel = grpc.insecure_channel("unix://" + socket)
    try:
        sys.stdout.buffer.write(channel.unary_unary(METHOD + method)(sys.stdin.buffer.read()))
    except grpc.RpcError as error:
        sys.exit(error.details())


if __name__ == "__main__":
    main(*sys.argv[1:])
