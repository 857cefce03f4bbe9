"""Lustre: every file system of the settings is mounted, answers in time, and takes EFA where it should.

It is watched only: a file system that is down is down for the whole fleet, and no other node would help.
"""

from __future__ import annotations

from .. import paths
from ..command import run
from ..lustre.lnet import interfaces
from ..lustre.transport import look_at_network, remembered
from ..node import Node
from .check import Result, Severity

_NAME, _EFA = "lustre", "lustre-efa"
_TIMEOUT_SECONDS = 30


def check_lustre(_: Node) -> list[Result]:
    """Look at every mount of `/etc/gpu-cluster/mounts`."""
    lines = paths.read_text(paths.below("/etc/gpu-cluster/mounts")).splitlines()
    mounts = [line.split() for line in lines if line.strip()]
    over_efa = [words[0] for words in mounts if words[-1] == "efa"]
    return [*(_of_mount(words[0]) for words in mounts), *([_transport()] if over_efa else [])]


def _transport() -> Result:
    """What the boot has measured, and whether the network is still so; nothing is written in the midst of jobs."""
    at_boot, now = remembered(), look_at_network(interfaces())
    if not now.is_efa or at_boot.is_efa is False:
        seen = at_boot if now.is_efa else now
        fix = (
            "see the journal of gpu-lustre; do both security groups allow all traffic to and from each other?"
        )
        return Result(_EFA, Severity.MONITOR, f"data take TCP: {seen.words}", "EFA", fix)
    if at_boot.is_efa is None:
        return Result(_EFA, Severity.UNKNOWN, at_boot.words, "EFA")
    return Result(_EFA, Severity.OK, now.words)


def _of_mount(point: str) -> Result:
    kind = _kinds().get(str(paths.below(point)), "")
    if kind != "lustre":
        found = f"{point} is {kind or 'not mounted'}"
        return Result(
            _NAME, Severity.MONITOR, found, "lustre", "systemctl restart gpu-lustre, and see its journal"
        )
    outcome = run("stat", "--file-system", str(paths.below(point)), timeout_seconds=_TIMEOUT_SECONDS)
    if outcome.ok:
        return Result(_NAME, Severity.OK, f"{point} answers")
    fix = "look at the file system's health, and at the security groups (TCP 988 and 1018-1023)"
    words = f"no answer within {_TIMEOUT_SECONDS} s" if outcome.hung else outcome.words
    return Result(_NAME, Severity.MONITOR, f"{point}: {words}", "an answer", fix)


def _kinds() -> dict[str, str]:
    """Mount point to type; the last mount at a point is the one that is seen."""
    rows = (line.split() for line in paths.read_text(paths.below("/proc/mounts")).splitlines())
    return {row[1]: row[2] for row in rows if len(row) > 2}
