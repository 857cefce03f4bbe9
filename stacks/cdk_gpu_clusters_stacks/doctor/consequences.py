"""What a drift costs or breaks, and how to correct it: a table by type and property."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

#: CloudFormation API reference, CreateChangeSet: DeploymentMode REVERT_DRIFT. The CDK CLI has it as an option.
DEFAULT_FIX = "deploy the stack with cdk deploy --revert-drift, or put the change into the cluster file and deploy it"
GONE = "it was deleted outside of its stack"
_GONE_FIX = "make it again with cdk deploy --revert-drift"
_GONE_FIXES = {"AWS::FSx::FileSystem": f"{_GONE_FIX}; its data comes back from a backup or from S3 only"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequence:
    """One row of the table.

    Attributes:
        type: CloudFormation type.
        path: Property, and all below it; empty for all of the type.
        breaks: What it costs or breaks.
        fix: How to correct it.
        source: Where this is stated.
    """

    type: str
    path: str
    breaks: str
    source: str
    fix: str = DEFAULT_FIX


@cache
def consequences() -> tuple[Consequence, ...]:
    """The table."""
    rows = json.loads(files(__package__).joinpath("consequences.json").read_text("utf-8"))
    return tuple(Consequence(**row) for row in rows)


def consequence_of(kind: str, path: Sequence[str], *, gone: bool) -> tuple[str, str]:
    """What a difference breaks, and how to correct it.

    Args:
        kind: CloudFormation type.
        path: The property, as in a `Difference`.
        gone: Whether the resource no longer exists.
    """
    kind = _SAME.get(kind, kind)
    best = max(
        (row for row in consequences() if row.type == kind and _is_below(path, row.path)),
        key=lambda row: len(row.path),
        default=None,
    )
    if gone:
        rows = [row for row in consequences() if row.type == kind]
        breaks = min(rows, key=lambda row: len(row.path)).breaks if rows else GONE
        return f"{GONE}: {breaks}", _GONE_FIXES.get(kind, _GONE_FIX)
    return (best.breaks, best.fix) if best else ("the resource differs from the plan", DEFAULT_FIX)


#: Our own types that stand for one of CloudFormation's.
_SAME = {"Custom::EC2CapacityReservation": "AWS::EC2::CapacityReservation"}


def _is_below(path: Sequence[str], above: str) -> bool:
    """Whether a property is the one of a row or below it; items of lists in between are passed over."""
    names = iter(path)
    return all(any(name == one for one in names) for name in above.split(".")) if above else True
