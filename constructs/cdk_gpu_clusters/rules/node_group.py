"""What a managed node group of Amazon EKS says of its capacity, its size, its updates and its repair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from cdk_gpu_clusters.catalogue.instances import AcceleratorKind, InstanceType
from cdk_gpu_clusters.catalogue.xids import XidClass, xids
from cdk_gpu_clusters.rules.capacity import CapacityDecision, CapacityKind


class EksCapacityType(str, Enum):
    """How EKS buys the nodes of a group: `CapacityType`, which no update changes."""

    ON_DEMAND = "ON_DEMAND"
    SPOT = "SPOT"
    CAPACITY_BLOCK = "CAPACITY_BLOCK"


#: Source: Amazon EKS user guide, "Create a managed node group with Capacity Blocks for ML"; a reservation is an
#: on-demand purchase whose target stands in the launch template. UltraServer blocks: `node_group_checks`.
CAPACITY_TYPES: Mapping[CapacityKind, EksCapacityType] = MappingProxyType(
    {
        CapacityKind.ON_DEMAND: EksCapacityType.ON_DEMAND,
        CapacityKind.RESERVATION: EksCapacityType.ON_DEMAND,
        CapacityKind.SPOT: EksCapacityType.SPOT,
        CapacityKind.CAPACITY_BLOCK: EksCapacityType.CAPACITY_BLOCK,
        CapacityKind.ULTRASERVER_BLOCK: EksCapacityType.CAPACITY_BLOCK,
    }
)


class UpdateStrategy(str, Enum):
    """How EKS replaces nodes when it updates them.

    Attributes:
        DEFAULT: New nodes start before old ones go.
        MINIMAL: Old nodes go first: a full reservation has room for no more.

    Source: Amazon EKS user guide, "Understand each phase of node updates" (read 2026-11-22).
    """

    DEFAULT = "DEFAULT"
    MINIMAL = "MINIMAL"


def update_strategy(decision: CapacityDecision) -> UpdateStrategy:
    """The strategy that fits the capacity."""
    return UpdateStrategy.MINIMAL if decision.terminates_before_launch else UpdateStrategy.DEFAULT


def desired_size(decision: CapacityDecision, *, minimum: int, maximum: int) -> int | None:
    """The `DesiredSize` of the template: that of a group of a fixed size; None where others move it.

    EKS refuses a minimum above the present size (aws/containers-roadmap issue 1637), so a fixed size is said in full.
    A group that follows a block or that scales says none: an update would write it back. That EKS takes requests
    without it is what crossplane-contrib/provider-aws pull request 502 tried; how many nodes a new group then starts
    with, no source says.

    Args:
        decision: What follows from the capacity.
        minimum: Least nodes.
        maximum: Most nodes.
    """
    return None if decision.size_changes_after_deploy or minimum != maximum else maximum


class RepairAction(str, Enum):
    """What EKS does with a node that has a condition."""

    REPLACE = "Replace"
    REBOOT = "Reboot"
    NO_ACTION = "NoAction"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOverride:
    """Another action than EKS's own for one condition and reason.

    Attributes:
        condition: Such as `AcceleratedHardwareReady`.
        reason: Such as `NvidiaXID31Error`.
        action: What EKS does.
        wait_minutes: How long the condition holds first.
    """

    condition: str
    reason: str
    action: RepairAction
    wait_minutes: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRepair:
    """How EKS repairs nodes of a group by itself.

    EKS acts on the conditions of its node monitoring agent, and is the only one that reboots or replaces a node. The
    node's own watchdog keeps new pods away at once, and never ends a node on EKS.

    Attributes:
        enabled: Whether it does.
        max_unhealthy_percentage: Above this share of unhealthy nodes it stops; EKS's own rule if None (more than five
            nodes, more than 20 percent).
        max_parallel_count: Most nodes at once; EKS's own rule if None.
        overrides: Other actions; those of `application_xids` if None.

    Source: Amazon EKS user guide, "Automatically repair nodes in EKS clusters" (read 2026-11-22).

    Example:
        >>> NodeRepair(max_parallel_count=1).enabled
        True
    """

    enabled: bool = True
    max_unhealthy_percentage: int | None = None
    max_parallel_count: int | None = None
    overrides: tuple[RepairOverride, ...] | None = None

    def overrides_for(self, record: InstanceType) -> tuple[RepairOverride, ...]:
        """The overrides of nodes of a type."""
        return application_xids(record) if self.overrides is None else self.overrides


# Amazon EKS user guide @ 518e553, "Detect node health issues", table of Xids (read 2026-11-22): it reboots a node for
# these. The agent's source names other ones (catalogue, `Xid.eks`).
_DOCUMENTED_REBOOTS = (13, 31, 48, 63, 64, 94, 95)


def application_xids(record: InstanceType) -> tuple[RepairOverride, ...]:
    """No repair for the Xids that EKS documents a reboot for, and that an application causes by itself.

    A reboot would end the jobs of a healthy node. EKS's own example overrides Xid 31 in this way.

    Args:
        record: Type of the node.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> [one.reason for one in application_xids(instance_type("p5.48xlarge"))]
        ['NvidiaXID13Error', 'NvidiaXID31Error', 'NvidiaXID94Error']
    """
    if record.accelerator is None or record.accelerator.kind is not AcceleratorKind.GPU:
        return ()
    return tuple(
        RepairOverride(
            condition="AcceleratedHardwareReady",
            reason=f"NvidiaXID{code}Error",
            action=RepairAction.NO_ACTION,
        )
        for code in _DOCUMENTED_REBOOTS
        if xids()[code].xid_class is XidClass.MONITOR
    )
