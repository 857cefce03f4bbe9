"""What a changed cluster file does to what is deployed: the model of `plan --against`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cdk_gpu_clusters.errors import Finding


class Effect(StrEnum):
    """What happens to a stack or a resource.

    Attributes:
        ADDED: It is made.
        UPDATED: It stays, and changes.
        REPLACED: Another one is made in its place, and it is deleted.
        REMOVED: It is deleted from its stack.
        LEFT: A stack that the file makes no more: it stays as it is, and bills, until somebody deletes it.
    """

    ADDED = "added"
    UPDATED = "updated"
    REPLACED = "replaced"
    REMOVED = "removed"
    LEFT = "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One resource, or a whole stack, that changes.

    Attributes:
        stack: Name of the stack.
        resource: CloudFormation type, such as `AWS::EC2::LaunchTemplate`; empty for the stack as a whole.
        effect: What happens to it.
        keys: Keys of the file that cause it, such as `training.fleets.trainers.instance_type`.
        words: What happens, in a sentence.
        nodes: What happens to running nodes; empty for nothing.
        data: What happens to data; empty for nothing.
        source: What the statement rests on.
    """

    stack: str
    resource: str
    effect: Effect
    keys: tuple[str, ...]
    words: str
    nodes: str = ""
    data: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What deploying a file does to a cluster that was deployed from another one.

    Attributes:
        changes: What changes, stack by stack, in the order of deployment.
        unchanged: Stacks whose templates stay as they are.
        refused: What the guard of stores refuses: with `-c deployed=`, `cdk synth` stops at these.
    """

    changes: tuple[Change, ...]
    unchanged: tuple[str, ...]
    refused: tuple[Finding, ...]
