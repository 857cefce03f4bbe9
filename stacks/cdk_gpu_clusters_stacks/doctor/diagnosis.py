"""What the doctor finds: drifts, rules that the plan breaks, and what it cannot tell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cdk_gpu_clusters_stacks.preflight.unread import Unread

from .compare import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One difference between the account and the plan.

    Attributes:
        about: The key of the cluster file that it is about.
        stack: Name of the stack.
        logical_id: Logical id of the resource; of the group for a fact of its nodes.
        type: Its CloudFormation type.
        physical_id: Its physical id; of nodes, the ids of all with this value.
        path: The property; empty for the resource itself.
        planned: Value of the plan; None if it has none.
        live: Live value; None if there is none.
        breaks: What it costs or breaks.
        fix: How to correct it.
        rules: The template rules that the account breaks because of it: id and message.
    """

    about: str
    stack: str
    logical_id: str
    type: str
    physical_id: str
    path: Path = ()
    planned: Any = None
    live: Any = None
    breaks: str = ""
    fix: str = ""
    rules: tuple[tuple[str, str], ...] = ()

    @property
    def is_gone(self) -> bool:
        """Whether the resource no longer exists."""
        return not self.path


@dataclass(slots=True, kw_only=True)
class Diagnosis:
    """What was found.

    Attributes:
        cluster: Name of the cluster.
        region: Its Region.
        account: The account.
        drifts: Differences from the plan.
        faults: Template rules that the deployed plan itself breaks: stack, logical id, rule and message.
        unread: What could not be read.
        absent: Stacks that are not deployed.
        compared: How many resources were compared.
        nodes: How many nodes were compared.
        unknown: Properties that could not be compared, since only CloudFormation knows their planned value.
    """

    cluster: str
    region: str
    account: str
    drifts: list[Drift] = field(default_factory=list)
    faults: list[tuple[str, str, str, str]] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    compared: int = 0
    nodes: int = 0
    unknown: list[str] = field(default_factory=list)

    @property
    def is_healthy(self) -> bool:
        """Whether nothing differs and no rule is broken."""
        return not self.drifts and not self.faults
