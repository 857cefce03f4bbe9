"""GPUs: as many as the type has, all of its model.

A GPU that fell off the bus keeps its row in nvidia-smi, and the exit status stays 0: it is not counted. A node with
too few GPUs is replaced: awslabs/awsome-distributed-ai @ 95b939c, 2.gpu-cluster-healthcheck (severity ISOLATE), and
AWS re:Post, "Xid errors" (stop and start it).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from .. import nvidia_smi
from ..node import Node
from .check import Result, Severity, Untold
from .gpu_rows import list_indexes, or_well

_NAME = "gpus"


def check_gpus(node: Node) -> list[Result]:
    """Count the GPUs that answer, and compare their model and memory."""
    wanted, model = node.settings.number("accelerator_count"), node.settings.text("model")
    answer = nvidia_smi.query(["name", "uuid", "memory.total"])
    # Output that was cut short counts no GPU out: only a whole answer does, or a GPU that says that it is lost.
    if not answer.lost and (not answer.rows or (len(answer.rows) < wanted and not answer.outcome.ok)):
        raise Untold(f"nvidia-smi: {answer.outcome.words or 'lists no GPU'}")
    kinds = sorted({f"{row['name']}, {row['memory.total']} MiB" for row in answer.rows})
    words = f"{len(answer.rows)} GPUs: {'; '.join(kinds) or 'none'}"
    findings = [*_count(len(answer.rows), answer.lost, wanted), *_models(answer.rows, model)]
    if len({row["memory.total"] for row in answer.rows}) > 1:
        findings.append(
            Result(_NAME, Severity.MONITOR, words, "GPUs of the same memory", "ask AWS about the host")
        )
    return or_well(_NAME, findings, words)


def _count(seen: int, lost: Sequence[str], wanted: int) -> Iterator[Result]:
    if seen < wanted or lost:
        words = f"{seen} GPUs answer" + (f"; lost: {'; '.join(lost)}" if lost else "")
        yield Result(
            _NAME, Severity.REPLACE, words, f"{wanted} GPUs", "replace the node: its host has lost a GPU"
        )
    elif wanted and seen > wanted:
        yield Result(
            _NAME, Severity.MONITOR, f"{seen} GPUs answer", f"{wanted} GPUs", "is it the fleet's type?"
        )


def _models(rows: Sequence[Mapping[str, str]], model: str) -> Iterator[Result]:
    """GPUs of another model. EC2's `RTX PRO Server 6000` is nvidia-smi's `RTX PRO 6000 Blackwell Server Edition`."""
    if not model:
        return
    others = [row for row in rows if not _words(model) <= _words(row["name"])]
    if others:
        found = f"GPU {list_indexes([row['index'] for row in others])}: {others[0]['name']}"
        yield Result(_NAME, Severity.MONITOR, found, model, "is the instance of the fleet's type?")


def _words(name: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", name.lower()))
