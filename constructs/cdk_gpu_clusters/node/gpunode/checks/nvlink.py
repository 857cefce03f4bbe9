"""NVLink: every link of every GPU is up.

Some links down: watched, as in awslabs/awsome-distributed-ai @ 95b939c, 2.gpu-cluster-healthcheck. A GPU without any:
reset, the first step of NVIDIA's workflow for NVLink errors. With MIG on, a GPU has no NVLink to others (NVIDIA Fabric
Manager user guide).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..command import run
from ..node import Node
from .check import Result, Severity, Untold
from .gpu_rows import gpu_rows, list_indexes, or_well

_NAME = "nvlink"
_TIMEOUT_SECONDS = 60
_GPU = re.compile(r"^GPU ([0-9]+):")
_LINK = re.compile(r"^\s+Link [0-9]+: (?:([0-9.]+) GB/s|<inactive>)")


def check_nvlink(node: Node) -> list[Result]:
    """Compare the links of every GPU with the bandwidth of the type."""
    expected = node.settings.number("nvlink")
    split = {row["index"] for row in gpu_rows(["mig.mode.current"]) if row["mig.mode.current"] == "Enabled"}
    outcome = run("nvidia-smi", "nvlink", "--status", timeout_seconds=_TIMEOUT_SECONDS)
    links = {gpu: found for gpu, found in _links(outcome.output).items() if gpu not in split}
    if not links:
        if split:
            return [
                Result(
                    _NAME, Severity.OK, f"GPU {list_indexes(list(split))} split by MIG: no NVLink to others"
                )
            ]
        raise Untold(f"nvidia-smi nvlink: {outcome.words or 'lists no links'}")
    findings = [finding for gpu, found in links.items() for finding in _of_gpu(gpu, found, expected)]
    most = max(len(found) for found in links.values())
    return or_well(_NAME, findings, f"{len(links)} GPUs with {most} links up")


def _links(output: str) -> dict[str, list[float]]:
    """GPU to the GB/s of its links, one way; 0 for one that is down."""
    found: dict[str, list[float]] = {}
    gpu = ""
    for line in output.splitlines():
        head, link = _GPU.match(line), _LINK.match(line)
        if head:
            gpu = head[1]
            found[gpu] = []
        elif link and gpu:
            found[gpu].append(float(link[1] or 0))
    return found


def _of_gpu(gpu: str, links: list[float], expected: int) -> Iterator[Result]:
    up = [link for link in links if link]
    both_ways = 2 * sum(up)
    want = f"{expected} GB/s both ways together"
    if not up:
        fix = "drain the node; restart nvidia-fabricmanager; reset the GPU; replace the node if it comes back"
        yield Result(_NAME, Severity.RESET, f"GPU {gpu}: no link is up", want, fix)
    elif len(up) < len(links) or both_ways < expected:
        found = f"GPU {gpu}: {len(up)} of {len(links)} links up, {both_ways:.0f} GB/s"
        yield Result(
            _NAME, Severity.MONITOR, found, want, "look at nvidia-smi nvlink -e, and at Xid 74 in dmesg"
        )
