"""Where instances hang in EC2's network (AWS EC2 user guide, "Amazon EC2 topology", stored copy of 2026).

Three or four layers of network nodes stand above an instance, by its type; instances that share the last of them are
nearest to each other. Types are g6e, g7e, p3dn, p4d, p4de, p5, p5e, p5en, p6-b200, p6-b300, p6e-gb200 and trn1 to trn2u
there; others have no answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..aws import Aws, AwsError

# DescribeInstanceTopology: at most 100 instance ids in a call.
_BATCH = 100
# The API is eventually consistent, so that an instance may come late.
_TRIES = 3
_PAUSE_SECONDS = 5.0
# What every node of a fleet is told alike, now and later: its role, its Region, its type, or its AWS CLI cannot do it.
_NEVER = re.compile(
    "Unauthorized|AccessDenied|not authorized|Unsupported|InvalidAction|UnknownOperation|InvalidParameter"
    "|invalid choice",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class NetworkNodes:
    """The network nodes above instances.

    Attributes:
        above: By instance, from the top layer to the one next to it.
        why_unknown: Why there are none; empty where there are.
    """

    above: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    why_unknown: str = ""


def network_nodes(aws: Aws, instance_ids: Sequence[str]) -> NetworkNodes:
    """Ask EC2 about all of these instances; what it knows of a part of them would be no common order.

    Args:
        aws: Calls of their Region.
        instance_ids: The instances.

    Raises:
        AwsError: If it fails for now. Another node may be answered, and must not get another order.
    """
    above: dict[str, tuple[str, ...]] = {}
    for number in range(_TRIES):
        try:
            above.update(_ask(aws, [name for name in instance_ids if name not in above]))
        except AwsError as fault:
            if _NEVER.search(str(fault)):
                return NetworkNodes(why_unknown=str(fault))
            raise
        # An instance type without topology is left out of the answer: asking again would not help.
        if len(above) == len(instance_ids) or not above:
            break
        if number + 1 < _TRIES:
            time.sleep(_PAUSE_SECONDS)
    if not above:
        return NetworkNodes(why_unknown="EC2 tells no topology of these instances")
    lost = [name for name in instance_ids if name not in above]
    if lost:
        return NetworkNodes(why_unknown=f"EC2 tells no topology of {' '.join(lost[:3])} ({len(lost)} in all)")
    return NetworkNodes(above)


def _ask(aws: Aws, instance_ids: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for start in range(0, len(instance_ids), _BATCH):
        rows = aws.call(
            "ec2", "describe-instance-topology", "--instance-ids", *instance_ids[start : start + _BATCH],
            "--query", "Instances[].[InstanceId,NetworkNodes]",
        )  # fmt: skip
        found.update({str(name): tuple(map(str, nodes)) for name, nodes in rows or [] if nodes})
    return found
