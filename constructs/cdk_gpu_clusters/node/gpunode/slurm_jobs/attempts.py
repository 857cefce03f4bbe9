"""The attempts of a Slurm job: which nodes each had, which of them failed, and how the next one avoids those.

They are in a file beside the job's checkpoints, on storage that all nodes share: what a job knows must outlive its
nodes. A node that failed in two attempts is excluded from the next ones, even if it has come back by then.

Slurm puts a job back into the queue when a node of it fails (slurm.conf(5), `JobRequeue`; sbatch(1), `--requeue`). It
does not tell the next attempt which one did, so each attempt looks at the nodes of the one before.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .. import paths
from ..actions.orchestrator import SIGNATURE
from .commands import SlurmCommands, is_set

#: Failures of a node from which on a job avoids it.
MOST_FAILURES = 2
# scontrol(1), "NODE STATE CODES": the node is gone, or does not answer.
_GONE = {"DOWN", "FAIL", "FAILING", "NOT_RESPONDING", "POWERING_DOWN", "POWERED_DOWN"}
_DRAINS = {"DRAIN", "DRAINING", "DRAINED"}
# A drain by an operator is no failure of the node.
_FAULTS = (SIGNATURE, "Prolog error", "Epilog error", "Kill task failed")
_LONGEST_BYTES = 1024 * 1024


class Attempts:
    """The attempts of a job.

    Attributes:
        rows: One for each attempt: `nodes`, `at` (seconds since 1970), `failed`, and `end`, empty while it runs.
    """

    def __init__(self, folder: Path, job: str) -> None:
        self._file = folder / f".gpunode-attempts-{job}.json"
        self.rows: list[dict[str, Any]] = _read(self._file)

    def begin(self, nodes: Sequence[str]) -> None:
        """Record the start of an attempt."""
        self.rows.append({"nodes": list(nodes), "at": time.time(), "failed": [], "end": ""})
        self._write()

    def end(self, how: str, failed: Iterable[str] = ()) -> None:
        """Record the end of the last attempt, once."""
        if self.rows and not self.rows[-1]["end"]:
            self.rows[-1].update(end=how, failed=sorted(failed))
            self._write()

    @property
    def is_open(self) -> bool:
        """Whether the last attempt was cut short, without a record of its end."""
        return bool(self.rows) and not self.rows[-1]["end"]

    def failed_often(self) -> list[str]:
        """The nodes that failed in two attempts or more."""
        counts = Counter(node for row in self.rows for node in row["failed"])
        return sorted(node for node, count in counts.items() if count >= MOST_FAILURES)

    def _write(self) -> None:
        # A full file system must not keep the job from running.
        with suppress(OSError):
            paths.write_atomically(self._file, json.dumps({"attempts": self.rows}) + "\n")


def failed_nodes(slurm: SlurmCommands, attempt: Mapping[str, Any], job: Mapping[str, str]) -> set[str]:
    """The nodes of an attempt that failed: gone, drained for a fault, or booted since it began.

    Args:
        attempt: A row of `Attempts`.
        job: Fields of the job, of which `FailedNode` counts, too, where this version of Slurm has it.
    """
    named = {is_set(job, "FailedNode")} & set(attempt["nodes"])
    shown = slurm.nodes(",".join(attempt["nodes"])) if attempt["nodes"] else []
    return named | {node["NodeName"] for node in shown if _has_failed(node, float(attempt["at"]))}


def _has_failed(node: Mapping[str, str], since: float) -> bool:
    states = {word.rstrip("*~#!%$@^-") for word in node.get("State", "").split("+")}
    if node.get("State", "").endswith("*") or states & _GONE:
        return True
    if states & _DRAINS and node.get("Reason", "").startswith(_FAULTS):
        return True
    return _moment(node.get("BootTime", "")) > since


def exclude(slurm: SlurmCommands, job_id: str, nodes: Sequence[str]) -> bool:
    """Keep a waiting job off nodes, besides those that its user excluded; returns whether Slurm took it."""
    before = is_set(slurm.job(job_id), "ExcNodeList")
    names = sorted({*slurm.names(before), *nodes} if before else nodes)
    return slurm.run("scontrol", "update", f"JobId={job_id}", f"ExcNodeList={','.join(names)}").ok


def _moment(text: str) -> float:
    """A time of scontrol, in the node's own time zone; 0 for none."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return 0.0


def _read(file: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(paths.read_regular(file, _LONGEST_BYTES))["attempts"]
        return [
            {
                "nodes": [str(node) for node in row["nodes"]],
                "at": float(row["at"]),
                "failed": [str(node) for node in row["failed"]],
                "end": str(row["end"]),
            }
            for row in rows
        ]
    except (ValueError, KeyError, TypeError):
        return []
