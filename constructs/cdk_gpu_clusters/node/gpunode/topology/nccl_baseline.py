"""What a bandwidth is compared with: a published one where there is a source, and otherwise this node's own first."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import paths
from .nccl_output import Row, size_words

#: The table of sources, which comes with this package.
PUBLISHED = Path(__file__).parents[1] / "all_reduce.json"
_GIB = 1024**3


@dataclass(frozen=True)
class Expected:
    """A bandwidth to compare with.

    Attributes:
        gbytes_per_s: Bus bandwidth.
        size_bytes: Of which size.
        source: Who says so.
    """

    gbytes_per_s: float
    size_bytes: int
    source: str


def published(instance_type: str, nodes: int, rows: Sequence[Row]) -> Expected | None:
    """The bandwidth that a source gives for the largest of the sizes; None where none does.

    Args:
        instance_type: Type of the nodes.
        nodes: How many.
        rows: What was measured.
    """
    sizes = {row.size_bytes for row in rows}
    try:
        found = [
            Expected(float(row["gbytes_per_s"]), int(row["size_gib"]) * _GIB, str(row["source"]))
            for row in json.loads(paths.read_text(PUBLISHED, "[]"))
            if (row["instance_type"], row["nodes"]) == (instance_type, nodes)
            and row["size_gib"] * _GIB in sizes
        ]
    except (ValueError, KeyError, TypeError):
        return None
    return max(found, key=lambda one: one.size_bytes, default=None)


def own(nodes: int, gpus: int, largest: Row) -> Expected | None:
    """The first bandwidth that this node has recorded for so many nodes and GPUs and this size; None before it."""
    row = _read().get(_key(nodes, gpus, largest), {})
    try:
        return Expected(float(row["gbytes_per_s"]), largest.size_bytes, f"this node on {row['date']}")
    except (KeyError, ValueError, TypeError):
        return None


def record(nodes: int, gpus: int, largest: Row) -> bool:
    """Record a bandwidth as this node's own; over an older one.

    Returns:
        Whether it is recorded: only root may.
    """
    row = {"gbytes_per_s": largest.gbytes_per_s, "date": time.strftime("%Y-%m-%d", time.gmtime())}
    try:
        paths.state_folder()
        text = json.dumps({**_read(), _key(nodes, gpus, largest): row}, indent=0)
        paths.write_atomically(_file(), text + "\n")
    except OSError:
        return False
    return True


def _key(nodes: int, gpus: int, largest: Row) -> str:
    return f"{nodes} nodes, {gpus} GPUs each, {size_words(largest.size_bytes)}"


def _file() -> Path:
    return paths.below("/var/lib/gpu-cluster/nccl-baseline.json")


def _read() -> dict[str, Any]:
    try:
        found = json.loads(paths.read_text(_file(), "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
