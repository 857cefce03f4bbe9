"""The static files of a node, and how they travel: early files in its user data, all others through S3."""

from __future__ import annotations

import base64
import gzip
import io
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

from cdk_gpu_clusters.catalogue.dcgm import node_dcgm_exporters
from cdk_gpu_clusters.catalogue.nccl import node_all_reduce
from cdk_gpu_clusters.catalogue.xids import node_xids
from cdk_gpu_clusters.errors import Finding, define_rule
from cdk_gpu_clusters.node.slurm_settings import EPILOG_FOLDER, PROLOG_FOLDER

#: Folder of the package on the node. Its parent is on the module path.
GPUNODE_FOLDER = "/usr/local/lib/gpu-cluster/gpunode"

_PROGRAMS, _COMMANDS = "/usr/local/libexec/gpu-cluster", "/usr/local/bin"
_UNITS = "/etc/systemd/system"
_EXPORTERS = "/usr/local/lib/gpu-cluster/exporters"

#: Path and mode of the files that must exist before any other service starts: limits, and what fetches the rest.
EARLY_FILES: Mapping[str, tuple[str, int]] = {
    "scripts/lib.sh": (f"{_PROGRAMS}/lib.sh", 0o644),
    "scripts/fetch-software.sh": (f"{_PROGRAMS}/fetch-software", 0o755),
    "files/gpu-software.service": (f"{_UNITS}/gpu-software.service", 0o644),
    "files/90-gpu-cluster-system.conf": ("/etc/systemd/system.conf.d/90-gpu-cluster.conf", 0o644),
    "files/99-gpu-cluster-limits.conf": ("/etc/security/limits.d/99-gpu-cluster.conf", 0o644),
}
#: Further early files of a node with split GPUs.
EARLY_MIG_FILES: Mapping[str, tuple[str, int]] = {
    "scripts/mig-apply.sh": (f"{_PROGRAMS}/mig-apply", 0o755),
    "files/gpu-mig.service": (f"{_UNITS}/gpu-mig.service", 0o644),
}
#: Further early files if the orchestrator starts work by itself: the unit that holds it back must exist, and fail, even
#: if the rest cannot be fetched.
EARLY_GATE_FILES: Mapping[str, tuple[str, int]] = {
    "files/gpu-node-boot.service": (f"{_UNITS}/gpu-node-boot.service", 0o644),
}
#: Drop-ins of that unit by orchestrator: what it waits for, and what waits for it.
ORDERS: Mapping[str, str] = {
    "eks": "files/gpu-node-boot-eks.conf",
    "pcs": "files/gpu-node-boot-pcs.conf",
    # A custom action of AWS ParallelCluster runs inside cloud-final, too, and slurmd starts after it.
    "slurm": "files/gpu-node-boot-pcs.conf",
    "batch": "files/gpu-node-boot-batch.conf",
    "hyperpod-eks": "files/gpu-node-boot-hyperpod.conf",
    "hyperpod-slurm": "files/gpu-node-boot-hyperpod.conf",
}
_USUAL_ORDER = "files/gpu-node-boot-ec2.conf"
#: Files that can wait for the network, besides the package `gpunode`. Every node has all of them, so that all fleets
#: share one archive. The user data start only the requested parts.
LATE_FILES: Mapping[str, tuple[str, int]] = {
    "scripts/gpunode.sh": (f"{_COMMANDS}/gpunode", 0o755),
    "scripts/gpu-peers.sh": (f"{_COMMANDS}/gpu-peers", 0o755),
    "scripts/pinned-python.sh": (f"{_PROGRAMS}/pinned-python", 0o755),
    "scripts/storage.sh": (f"{_PROGRAMS}/storage.sh", 0o644),
    "scripts/mount-lustre.sh": (f"{_PROGRAMS}/mount-lustre", 0o755),
    "scripts/mount-nfs.sh": (f"{_PROGRAMS}/mount-nfs", 0o755),
    "scripts/scratch-raid.sh": (f"{_PROGRAMS}/scratch-raid", 0o755),
    "scripts/limit-metadata.sh": (f"{_PROGRAMS}/limit-metadata", 0o755),
    "scripts/install-exporters.sh": (f"{_PROGRAMS}/install-exporters", 0o755),
    "files/gpu-lustre.service": (f"{_UNITS}/gpu-lustre.service", 0o644),
    "files/gpu-nfs.service": (f"{_UNITS}/gpu-nfs.service", 0o644),
    "files/gpu-metadata.service": (f"{_UNITS}/gpu-metadata.service", 0o644),
    "files/gpu-scratch.service": (f"{_UNITS}/gpu-scratch.service", 0o644),
    **EARLY_GATE_FILES,
    "files/gpu-node-drain.service": (f"{_UNITS}/gpu-node-drain.service", 0o644),
    "files/gpu-node-watch.service": (f"{_UNITS}/gpu-node-watch.service", 0o644),
    "files/gpu-node-ship.service": (f"{_UNITS}/gpu-node-ship.service", 0o644),
    "files/gpu-node-ship.timer": (f"{_UNITS}/gpu-node-ship.timer", 0o644),
    "files/gpu-exporters.service": (f"{_UNITS}/gpu-exporters.service", 0o644),
    "files/dcgm-exporter.conf": (f"{_EXPORTERS}/dcgm-exporter.conf", 0o644),
    "files/dcgm-engine.conf": (f"{_EXPORTERS}/dcgm-engine.conf", 0o644),
    "files/dcgm-counters.csv": (f"{_EXPORTERS}/dcgm-counters.csv", 0o644),
    "files/node-exporter.conf": (f"{_EXPORTERS}/node-exporter.conf", 0o644),
    "files/gpu-node-jobs.service": (f"{_UNITS}/gpu-node-jobs.service", 0o644),
    "files/gpu-job@.service": (f"{_UNITS}/gpu-job@.service", 0o644),
    "scripts/ray-node.sh": (f"{_PROGRAMS}/ray-node", 0o755),
    "files/gpu-ray.service": (f"{_UNITS}/gpu-ray.service", 0o644),
    "files/gpu-job-user.conf": ("/etc/sysusers.d/gpu-job.conf", 0o644),
    "scripts/prolog.sh": (f"{PROLOG_FOLDER}/90-gpu-cluster", 0o755),
    "scripts/epilog.sh": (f"{EPILOG_FOLDER}/90-gpu-cluster", 0o755),
    "files/slurmd-limits.conf": (f"{_UNITS}/slurmd.service.d/gpu-cluster-limits.conf", 0o644),
    "files/needrestart-jobs.conf": ("/etc/needrestart/conf.d/gpu-cluster.conf", 0o644),
}

_PACKAGE = Path(__file__).with_name("gpunode")

FILE = define_rule(
    "GPU-UD-006",
    "A file for the node has an absolute path of its own and ASCII text without CDK tokens",
    source="the files travel in a compressed archive, where CloudFormation resolves nothing",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFile:
    r"""A static file on the node; it is shipped compressed.

    Attributes:
        path: Absolute path on the node.
        text: ASCII text, known at synthesis: a CDK token would be lost in the compression.
        mode: Permissions.
        early: Whether it must exist before any other service starts, and so is part of the user data. Other files come
            from S3, just before the scripts of the user.

    Example:
        >>> NodeFile(path="/etc/gpu-cluster/on-drain", text="#!/bin/sh\nsync\n", mode=0o755).path
        '/etc/gpu-cluster/on-drain'
    """

    path: str
    text: str
    mode: int = 0o644
    early: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftwareObject:
    """The object in S3 that holds the files that are not early.

    Attributes:
        bucket_name: Its bucket; may be a CDK token.
        object_key: Its key; may be a CDK token.
        sha256: Digest of its bytes in hex; the node accepts no others.
    """

    bucket_name: str
    object_key: str
    sha256: str

    def environment(self) -> dict[str, str]:
        """The settings by which the node finds it."""
        return {
            "GPU_SOFTWARE_BUCKET": self.bucket_name,
            "GPU_SOFTWARE_KEY": self.object_key,
            "GPU_SOFTWARE_SHA256": self.sha256,
        }


def software_files(files: Sequence[NodeFile] = ()) -> tuple[NodeFile, ...]:
    """The static files that come from S3: the software of every node, and the user's files that are not early.

    Args:
        files: The user's files.
    """
    return (*late_files(), *(file for file in files if not file.early))


def software_archive(files: Sequence[NodeFile] = ()) -> bytes:
    """The files that come from S3 as a tar: the same bytes for the same files, so one object for most fleets.

    Args:
        files: The user's files.

    Example:
        >>> software_archive() == software_archive([NodeFile(path="/etc/motd", text="hello")])
        True
    """
    own = tuple(file for file in files if not file.early)
    return archive(software_files(own)) if own else _common_archive()


@cache
def _common_archive() -> bytes:
    return archive(software_files())


@cache
def early_files(*, mig: bool, orchestrator: str | None = None) -> tuple[NodeFile, ...]:
    """The files of this package that the user data carry.

    Args:
        mig: Whether the unit that splits GPUs is among them.
        orchestrator: The orchestrator, as in `NodeSettings`.
    """
    order = ORDERS.get(orchestrator or "", _USUAL_ORDER)
    chosen = {
        **EARLY_FILES,
        order: (f"{_UNITS}/gpu-node-boot.service.d/order.conf", 0o644),
        **(EARLY_GATE_FILES if orchestrator in ORDERS else {}),
        **(EARLY_MIG_FILES if mig else {}),
    }
    return tuple(NodeFile(path=path, text=installed_text(name), mode=mode) for name, (path, mode) in chosen.items())


@cache
def late_files() -> tuple[NodeFile, ...]:
    """The files of this package that come from S3, the same for every node.

    The modules come first: no command may exist before what it imports, since `mig-apply` runs beside the unpacking.
    """
    own = (
        NodeFile(path=path, text=read_file(name), mode=mode, early=False) for name, (path, mode) in LATE_FILES.items()
    )
    versions = NodeFile(path=f"{_EXPORTERS}/dcgm-versions", text=node_dcgm_exporters(), early=False)
    return (*gpunode_files(), versions, *own)


@cache
def gpunode_files() -> tuple[NodeFile, ...]:
    """Every module of the package `gpunode`, and the tables that it reads, in the order of their paths.

    Example:
        >>> gpunode_files()[0].path
        '/usr/local/lib/gpu-cluster/gpunode/__init__.py'
    """
    texts = {file.relative_to(_PACKAGE).as_posix(): file.read_text(encoding="ascii") for file in _PACKAGE.rglob("*.py")}
    texts["xids.json"] = node_xids()
    texts["all_reduce.json"] = node_all_reduce()
    return tuple(
        NodeFile(path=f"{GPUNODE_FOLDER}/{name}", text=text, early=False) for name, text in sorted(texts.items())
    )


def read_file(name: str) -> str:
    """Read a file of this package, such as `scripts/lib.sh`."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def installed_text(name: str) -> str:
    """A file as it is in the user data: without blank lines and comments, which would cost 1.5 KB."""
    first, *rest = read_file(name).splitlines()
    kept = [line for line in rest if line.strip() and not line.lstrip().startswith("#")]
    head = [first] if first.startswith("#!") or not first.startswith("#") else []
    return "\n".join([*head, *kept, ""])


@cache
def inline_archive(files: tuple[NodeFile, ...]) -> str:
    """A tar.gz of files, in base64, to be unpacked at the root of the node. One archive is smaller than two."""
    return base64.b64encode(gzip.compress(archive(files), 9, mtime=0)).decode("ascii")


def archive(files: Sequence[NodeFile]) -> bytes:
    """A tar of files, to be unpacked at the root of the node.

    Not compressed: the bytes must not depend on the version of zlib, since their digest names them.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in files:
            content = file.text.encode("ascii")
            member = tarfile.TarInfo(file.path.lstrip("/"))
            member.size, member.mode = len(content), file.mode
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def check_files(files: Sequence[NodeFile]) -> list[Finding]:
    """Find files that cannot be put on a node."""
    findings = []
    for index, file in enumerate(files):
        path = f"files[{index}]"
        if not file.path.startswith("/") or ".." in file.path.split("/") or not file.path.isascii():
            findings.append(
                FILE.finding(cause="not an absolute path", got=file.path, allowed="such as /etc/x", path=path)
            )
        if [other.path for other in files].index(file.path) != index:
            findings.append(FILE.finding(cause="two files have this path", got=file.path, path=path))
        if not file.text.isascii() or "${Token[" in file.text:
            findings.append(
                FILE.finding(
                    cause="the text holds a CDK token or a character beyond ASCII",
                    got=file.path,
                    fix="write what is known only at deployment in a user part",
                    path=path,
                )
            )
    return findings
