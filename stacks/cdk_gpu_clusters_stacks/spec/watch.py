"""`watch`: what the watchdog of a node may do."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cdk_gpu_clusters.node.node_watch import FaultSeverity, NodeWatch, WatchMode

from ._base import SpecModel

_USUAL = NodeWatch()


class WatchSpec(SpecModel):
    """How the nodes are watched; what is left out is as the library has it."""

    mode: Literal["on", "dry-run", "off"] = Field(
        default=_USUAL.mode.value,
        description="Whether the watchdog acts, only says what it would do, or is off.",
    )
    acts_from: Literal["reset", "reboot", "replace"] = Field(
        default=_USUAL.acts_from.value, description="Least severe fault that takes a node out of service."
    )
    actions_per_hour: int = Field(
        default=_USUAL.actions_per_hour,
        ge=1,
        le=1000,
        description="Nodes of the fleet that may be out of service for their health within an hour.",
    )
    interval_seconds: int = Field(
        default=_USUAL.interval_seconds, ge=1, le=30, description="Time from one poll to the next."
    )
    drain_on_rebalance: bool = Field(
        default=_USUAL.drain_on_rebalance,
        description="Whether a rebalance recommendation drains a Spot node, which may stay all the same.",
    )
    job_seconds: int = Field(
        default=_USUAL.job_seconds,
        ge=1,
        le=120,
        description="Time that jobs have from SIGTERM to the node's end.",
    )

    @property
    def settings(self) -> NodeWatch:
        """The same as the library takes it."""
        given = self.model_dump() | {"mode": WatchMode(self.mode), "acts_from": FaultSeverity(self.acts_from)}
        return NodeWatch(**given)
