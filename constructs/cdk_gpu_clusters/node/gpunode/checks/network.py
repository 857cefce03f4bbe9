"""Checks of the network: EFA devices, the NCCL plugin for EFA, and mounts of Lustre and NFS."""

from __future__ import annotations

import os
import re

from .. import paths
from ..command import NOT_FOUND, Background
from ..devices import efa_devices, efa_provider
from ..lustre import interfaces, network_transport, remembered_transport
from ..node import Node
from .check import Result, Severity

# A node with too few EFA devices is replaced, and a missing libfabric provider is watched:
# awslabs/awsome-distributed-ai @ 95b939c, 2.gpu-cluster-healthcheck. On P5en, devices may appear late.


def check_efa(node: Node) -> list[Result]:
    """Compare the number of EFA devices with the launch."""
    wanted, seen = node.settings.number("efa_count"), len(efa_devices())
    found, expected = f"{seen} EFA devices", f"{wanted} EFA devices"
    if seen < wanted:
        fix = "look again in a minute; if it stays so, replace the node"
        return [Result("efa", Severity.REPLACE, found, expected, fix)]
    return [Result("efa", Severity.OK, found, expected)]


def check_efa_provider(_: Node) -> list[Result]:
    """Compare the number of EFA devices with libfabric's provider. It opens all of them, so it is not watched."""
    return [_efa_provider(len(efa_devices()))]


def _efa_provider(seen: int) -> Result:
    outcome = efa_provider()
    if outcome.status == NOT_FOUND:
        return Result("efa-provider", Severity.UNKNOWN, "fi_info is not installed")
    domains = set(re.findall(r"^\s*domain:\s*(\S+)-rdm$", outcome.output, re.MULTILINE))
    found = f"libfabric's provider efa has {len(domains)} devices"
    if len(domains) >= seen:
        return Result("efa-provider", Severity.OK, found)
    if not domains:
        found = f"libfabric has no provider efa: {outcome.words}"
    fix = "install the EFA software of the image again"
    return Result("efa-provider", Severity.MONITOR, found, f"{seen} devices", fix)


# The EFA installer's folder and that of older images (aws/aws-ofi-nccl; AWS DLAMI release notes, read 2026-11).
_PLUGIN_FOLDERS = ("/opt/amazon/ofi-nccl", "/opt/amazon/aws-ofi-nccl", "/opt/aws-ofi-nccl")


def check_nccl_plugin(_: Node) -> list[Result]:
    """Find the library of aws-ofi-nccl, without which NCCL uses TCP. It is watched: containers may bring their own."""
    for folder in _PLUGIN_FOLDERS:
        libraries = sorted(paths.below(folder).rglob("libnccl-net*.so*"))
        if libraries:
            return [Result("nccl-plugin", Severity.OK, f"/{libraries[0].relative_to(paths.root())}")]
    fix = "use an image with EFA's software, or containers that bring the plugin"
    expected = f"libnccl-net*.so below {', '.join(_PLUGIN_FOLDERS)}"
    return [Result("nccl-plugin", Severity.MONITOR, "no aws-ofi-nccl plugin on the node", expected, fix)]


# Mounts are only watched: a file system that is down is down for the entire fleet, and another node would not help.

_MOUNT_SECONDS = 30


def check_lustre(_: Node) -> list[Result]:
    """Check that every mount of `/etc/gpu-cluster/mounts` is mounted, answers in time, and uses EFA if requested."""
    transport = [_lustre_transport()] if _mounts_over_efa() else []
    return [*(_mount_state(words[0]) for words in _listed("mounts")), *transport]


def lustre_is_over_efa() -> bool | None:
    """Whether Lustre's data use EFA; None if no mount requests it, or it is undetermined."""
    if not _mounts_over_efa() or not interfaces():
        return None
    return {Severity.OK: True, Severity.MONITOR: False}.get(_lustre_transport().severity)


def check_nfs(_: Node) -> list[Result]:
    """Check that every mount of `/etc/gpu-cluster/nfs-mounts` is mounted from its source, and answers in time."""
    return [_nfs_state(words[0], words[1]) for words in _listed("nfs-mounts")]


def _mounts_over_efa() -> list[str]:
    return [words[0] for words in _listed("mounts") if words[-1] == "efa"]


def _listed(name: str) -> list[list[str]]:
    lines = paths.read_text(paths.below(f"/etc/gpu-cluster/{name}")).splitlines()
    return [line.split() for line in lines if line.strip()]


def _lustre_transport() -> Result:
    """The measurement of the boot, and whether the network has changed since. Nothing is written while jobs run."""
    at_boot, now = remembered_transport(), network_transport(interfaces())
    if not now.is_efa or at_boot.is_efa is False:
        seen = at_boot if now.is_efa else now
        fix = "see the journal of gpu-lustre; do both security groups allow all traffic to and from each other?"
        return Result("lustre-efa", Severity.MONITOR, f"data take TCP: {seen.words}", "EFA", fix)
    if at_boot.is_efa is None:
        return Result("lustre-efa", Severity.UNKNOWN, at_boot.words, "EFA")
    return Result("lustre-efa", Severity.OK, now.words)


def _mount_state(point: str) -> Result:
    _, kind = _mounts().get(str(paths.below(point)), ("", ""))
    if kind != "lustre":
        found = f"{point} is {kind or 'not mounted'}"
        return Result("lustre", Severity.MONITOR, found, "lustre", "systemctl restart gpu-lustre, and see its journal")
    return _answer("lustre", point, "TCP 988 and 1018-1023")


def _nfs_state(point: str, source: str) -> Result:
    found, kind = _mounts().get(str(paths.below(point)), ("", ""))
    if found != source or not kind.startswith("nfs"):
        words = f"{point} is {found} ({kind})" if kind else f"{point} is not mounted"
        return Result("nfs", Severity.MONITOR, words, source, "systemctl restart gpu-nfs, and see its journal")
    return _answer("nfs", point, "TCP 2049")


def _answer(name: str, point: str, ports: str) -> Result:
    fault = _fault_of(str(paths.below(point)))
    if fault == "":
        return Result(name, Severity.OK, f"{point} answers")
    fix = f"check the file system's health, and the security groups ({ports})"
    words = f"no answer within {_MOUNT_SECONDS} s" if fault is None else fault
    return Result(name, Severity.MONITOR, f"{point}: {words}", "an answer", fix)


# Calls that a file system has not answered, by mount point. A second one would only hang beside the first.
_asking: dict[str, Background[str]] = {}


def _fault_of(point: str) -> str | None:
    """Ask a file system for its free space, in a thread that it may hold.

    Returns:
        Why it fails; empty if it answers, None if it has not within its time.
    """
    asking = _asking.setdefault(point, Background())
    if not asking.busy:
        asking.start(lambda: _statvfs(point), 0.0)
    return asking.take(_MOUNT_SECONDS)


def _statvfs(point: str) -> str:
    try:
        os.statvfs(point)
    except OSError as fault:
        return fault.strerror or str(fault)
    return ""


def _mounts() -> dict[str, tuple[str, str]]:
    """Mount point to source and type; the last mount at a point is the visible one."""
    rows = (line.split() for line in paths.read_text(paths.below("/proc/mounts")).splitlines())
    return {row[1]: (row[0], row[2]) for row in rows if len(row) > 2}
