"""The static files of a node, and archives of them: the same bytes for the same files."""

from __future__ import annotations

import base64
import gzip
import io
import tarfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources

from cdk_gpu_clusters.node.node_file import NodeFile

#: Where each file of this package goes on the node, and its mode.
INSTALLED_FILES: Mapping[str, tuple[str, int]] = {
    "scripts/lib.sh": ("usr/local/libexec/gpu-cluster/lib.sh", 0o644),
    "scripts/node-boot.sh": ("usr/local/libexec/gpu-cluster/node-boot", 0o755),
    "scripts/node-drain.sh": ("usr/local/libexec/gpu-cluster/node-drain", 0o755),
    "scripts/gpu-peers.sh": ("usr/local/bin/gpu-peers", 0o755),
    "files/gpu-node-boot.service": ("etc/systemd/system/gpu-node-boot.service", 0o644),
    "files/gpu-node-drain.service": ("etc/systemd/system/gpu-node-drain.service", 0o644),
    "files/90-gpu-cluster-system.conf": ("etc/systemd/system.conf.d/90-gpu-cluster.conf", 0o644),
    "files/99-gpu-cluster-limits.conf": ("etc/security/limits.d/99-gpu-cluster.conf", 0o644),
}
#: What a node with split GPUs gets besides.
MIG_FILES: Mapping[str, tuple[str, int]] = {
    "scripts/mig-apply.sh": ("usr/local/libexec/gpu-cluster/mig-apply", 0o755),
    "files/gpu-mig.service": ("etc/systemd/system/gpu-mig.service", 0o644),
}
_STORAGE_FILES = {"scripts/storage.sh": ("usr/local/libexec/gpu-cluster/storage.sh", 0o644)}
#: What a node that mounts Lustre gets besides.
LUSTRE_FILES: Mapping[str, tuple[str, int]] = {
    **_STORAGE_FILES,
    "scripts/mount-lustre.sh": ("usr/local/libexec/gpu-cluster/mount-lustre", 0o755),
    "files/gpu-lustre.service": ("etc/systemd/system/gpu-lustre.service", 0o644),
}
#: What a node with scratch on its local disks gets besides.
SCRATCH_FILES: Mapping[str, tuple[str, int]] = {
    **_STORAGE_FILES,
    "scripts/scratch-raid.sh": ("usr/local/libexec/gpu-cluster/scratch-raid", 0o755),
    "files/gpu-scratch.service": ("etc/systemd/system/gpu-scratch.service", 0o644),
}

#: What a node gets besides whose other files come from S3.
FETCH_FILES: Mapping[str, tuple[str, int]] = {
    "scripts/fetch-software.sh": ("usr/local/libexec/gpu-cluster/fetch-software", 0o755),
}
#: What must be there before any other service starts: limits, MIG, and what fetches the rest.
_EARLY = {
    "scripts/lib.sh",
    "files/90-gpu-cluster-system.conf",
    "files/99-gpu-cluster-limits.conf",
    *MIG_FILES,
    *FETCH_FILES,
}


def read_file(name: str) -> str:
    """Read a file of this package, such as `scripts/lib.sh`."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def installed_text(name: str) -> str:
    """The file as the node gets it: without blank lines and comment lines, which would cost 1.5 KB of user data."""
    first, *rest = read_file(name).splitlines()
    kept = [line for line in rest if line.strip() and not line.lstrip().startswith("#")]
    head = [first] if first.startswith("#!") or not first.startswith("#") else []
    return "\n".join([*head, *kept, ""])


@cache
def installed_files(
    *, mig: bool, lustre: bool, scratch: bool, peer_list: bool, fetch: bool = False
) -> tuple[NodeFile, ...]:
    """The static files of this package that a node gets.

    Args:
        mig: Whether the unit that splits GPUs is among them.
        lustre: Whether the unit that mounts Lustre is.
        scratch: Whether the unit that mounts local disks is.
        peer_list: Whether `gpu-peers` is among them.
        fetch: Whether the program that fetches what is not early is.
    """
    chosen = {
        **INSTALLED_FILES,
        **(MIG_FILES if mig else {}),
        **(LUSTRE_FILES if lustre else {}),
        **(SCRATCH_FILES if scratch else {}),
        **(FETCH_FILES if fetch else {}),
    }
    return tuple(
        NodeFile(path=f"/{path}", text=installed_text(name), mode=mode, early=name in _EARLY)
        for name, (path, mode) in chosen.items()
        if peer_list or name != "scripts/gpu-peers.sh"
    )


@cache
def inline_archive(files: tuple[NodeFile, ...]) -> str:
    """A tar.gz of files, in base64, to be unpacked at the root of the node. One for all is smaller than two."""
    return base64.b64encode(gzip.compress(archive(files), 9, mtime=0)).decode("ascii")


def archive(files: Sequence[NodeFile]) -> bytes:
    """A tar of files, to be unpacked at the root of the node.

    Not compressed: these bytes do not depend on the zlib at hand, and their digest names them.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in files:
            content = file.text.encode("ascii")
            member = tarfile.TarInfo(file.path.lstrip("/"))
            member.size, member.mode = len(content), file.mode
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()
