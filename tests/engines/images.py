# SPDX-License-Identifier: GPL-2.0-or-later
"""Images without a registry: a tar of a root file system to import, and the same as an OCI archive."""
import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile

import bundles

BUSYBOX = "localhost/busybox:latest"
DEBIAN = "localhost/debian:latest"
ENVIRONMENT = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]


def busybox_tar(directory):
    """The path of a tar of the tests' busybox tree, with all applets."""
    tree = os.path.join(directory, "busybox")
    path = tree + ".tar"
    if not os.path.exists(path):
        bundles.busybox_rootfs(tree)
        applets = subprocess.run([tree + "/bin/busybox", "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
        for name in applets.split():
            if not os.path.lexists(tree + "/bin/" + name):
                os.symlink("busybox", tree + "/bin/" + name)
        pack(tree, path)
    return path


def debian_tar(directory, packages=bundles.DEBIAN_PACKAGES):
    """The same of a Debian tree that is kept in the cache."""
    path = os.path.join(directory, "debian-%s.tar" % hashlib.sha256(packages.encode()).hexdigest()[:8])
    if not os.path.exists(path):
        pack(bundles.debian_rootfs(packages), path)
    return path


def systemd_tar(directory):
    """The same of a Debian tree with systemd and what that needs, and without what is large beside it."""
    path = os.path.join(directory, "systemd.tar")
    if not os.path.exists(path):
        pack(bundles.debian_rootfs(bundles.SYSTEMD_PACKAGES), path, *bundles.BESIDE_SYSTEMD)
    return path


def pack(tree, path, *without):
    subprocess.run(["tar", "--numeric-owner", "-C", tree, *("--exclude=./" + w for w in without), "-cf", path, "."], check=True)


def oci_archive(layer, path, name, command=("sh",)):
    """Writes an OCI image archive of one layer, as skopeo and ctr read it."""
    with open(layer, "rb") as f:
        data = f.read()
    squeezed = gzip.compress(data, 1, mtime=0)
    blobs = {}

    def blob(content, kind):
        digest = hashlib.sha256(content).hexdigest()
        blobs["blobs/sha256/" + digest] = content
        return {"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + digest, "size": len(content)}

    config = {"architecture": "amd64", "os": "linux", "config": {"Env": ENVIRONMENT, "Cmd": list(command)},
              "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(data).hexdigest()]}}
    manifest = {"schemaVersion": 2, "config": blob(json.dumps(config).encode(), "config.v1+json"),
                "layers": [blob(squeezed, "layer.v1.tar+gzip")]}
    top = blob(json.dumps(manifest).encode(), "manifest.v1+json")
    top["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    blobs["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    blobs["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [top]}).encode()
    with tarfile.open(path, "w") as archive:
        for member, content in blobs.items():
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path
