"""Node ranges of a multi-node parallel job: which nodes run which container."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from cdk_gpu_clusters.errors import Finding, check, define_rule

NODE_RANGES = define_rule(
    "GPU-BAT-003",
    "the node ranges of a multi-node job name every node, from 0 on",
    source="AWS Batch API reference, NodeRangeProperty, targetNodes",
)
_RANGE = re.compile(r"(?P<one>\d+)|(?P<first>\d*):(?P<last>\d*)")


@check
def check_node_ranges(node_count: int, ranges: Sequence[str]) -> Iterator[Finding]:
    """Find nodes of a job that no range names, and ranges that name none.

    Args:
        node_count: Nodes of the job.
        ranges: Such as `0:3`, `4:`, `:7`, `2`; an open end is the first or the last node. They may overlap.

    Example:
        >>> check_node_ranges(8, ["0:3", "4:"])
        []
        >>> [finding.got for finding in check_node_ranges(8, ["0:3"])]
        ['0:3 for 8 nodes: no range for nodes 4 to 7']
    """
    named: set[int] = set()
    wrong = []
    for text in ranges:
        nodes = _nodes(text, node_count)
        named.update(nodes)
        if not nodes or nodes[0] < 0 or nodes[-1] >= node_count:
            wrong.append(text)
    missing = sorted(set(range(node_count)) - named)
    told = f"no range for nodes {missing[0]} to {missing[-1]}" if missing else f"{', '.join(wrong)} names other nodes"
    if missing or wrong:
        yield NODE_RANGES.finding(
            cause="Batch refuses a job whose ranges do not name exactly its nodes",
            got=f"{', '.join(ranges) or 'none'} for {node_count} nodes: {told}",
            allowed=f"ranges that cover 0 to {node_count - 1}",
            fix=f"use 0:{node_count - 1}, or several ranges that cover it",
        )


def _nodes(text: str, node_count: int) -> range:
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        return range(0)
    if found["one"]:
        return range(int(found["one"]), int(found["one"]) + 1)
    last = int(found["last"]) if found["last"] else node_count - 1
    return range(int(found["first"] or 0), last + 1)
