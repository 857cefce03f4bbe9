"""A managed node group of Amazon EKS: capacity, size, updates, repair and pods per node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil
from types import MappingProxyType

from cdk_gpu_clusters.catalogue.instances import AcceleratorKind, InstanceType
from cdk_gpu_clusters.catalogue.kubernetes import AmiType, ami_type
from cdk_gpu_clusters.catalogue.xids import xids
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule
from cdk_gpu_clusters.rules.capacity import CapacityDecision, CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.interfaces import InterfacePlan
from cdk_gpu_clusters.rules.kubernetes_labels import FLEET_LABEL, PREFIX, NodeTaint


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
        DEFAULT: New nodes start before old ones go: up to two in each zone, or as many as an update replaces at once.
        MINIMAL: Old nodes go first: a full reservation has room for no more.

    Source: Amazon EKS user guide, "Understand each phase of node updates", and API reference, NodegroupUpdateConfig.
    """

    DEFAULT = "DEFAULT"
    MINIMAL = "MINIMAL"


def update_strategy(decision: CapacityDecision, record: InstanceType) -> UpdateStrategy:
    """The strategy that fits the capacity and the type.

    MINIMAL where there is room for no more nodes: on a reservation, and for types that EC2 also sells as Capacity
    Blocks, of which up to two more in each zone are seldom available and always expensive. EKS names accelerators as
    its example of such constraints.

    Args:
        decision: What follows from the capacity.
        record: Type of the nodes.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms, decide_capacity
        >>> on_demand = decide_capacity(CapacityTerms(kind=CapacityKind.ON_DEMAND), efa=False)
        >>> [update_strategy(on_demand, instance_type(name)).value for name in ("p5.48xlarge", "g6e.xlarge")]
        ['MINIMAL', 'DEFAULT']
    """
    is_scarce = decision.terminates_before_launch or record.supports_capacity_block
    return UpdateStrategy.MINIMAL if is_scarce else UpdateStrategy.DEFAULT


def surge_nodes(strategy: UpdateStrategy, *, zones: int, max_unavailable: int) -> int:
    """How many nodes an update adds to a group for the time that it takes.

    They count against quotas and addresses, are paid for, and find no room in a reservation that is full.

    Args:
        strategy: How EKS replaces nodes.
        zones: Zones of the group's subnets.
        max_unavailable: Nodes that an update replaces at once.

    Source: Amazon EKS user guide, "Understand each phase of node updates", scale up phase: twice the number of zones,
    or the nodes that are replaced at once if these are more.

    Example:
        >>> surge_nodes(UpdateStrategy.DEFAULT, zones=2, max_unavailable=1)
        4
    """
    return 0 if strategy is UpdateStrategy.MINIMAL else max(2 * zones, max_unavailable)


def drained_percent(strategy: UpdateStrategy, *, minimum: int, maximum: int, max_unavailable: int) -> int:
    """The share of its full nodes that an update of a group empties at once, in percent, rounded up.

    A PodDisruptionBudget must allow it: the pods of these nodes wait for the nodes that take their place, and EKS ends
    an update with `PodEvictionFailure` if a node is not empty within 15 minutes. If old nodes go first, the share is
    that of the smallest group; otherwise new nodes take the pods of the old ones.

    Args:
        strategy: How EKS replaces nodes.
        minimum: Fewest nodes of the group.
        maximum: Most nodes of the group.
        max_unavailable: Nodes that an update replaces at once.

    Source: Amazon EKS user guide, "Understand each phase of node updates", upgrade phase.

    Example:
        >>> drained_percent(UpdateStrategy.MINIMAL, minimum=3, maximum=3, max_unavailable=1)
        34
    """
    nodes = max(1, minimum if strategy is UpdateStrategy.MINIMAL else maximum)
    return ceil(100 * min(max_unavailable, nodes) / nodes)


def desired_size(*, keeps_size: bool, minimum: int, maximum: int) -> int:
    """The `DesiredSize` of the template, which gives all sizes, as EKS asks for, or none.

    All nodes of a group that keeps its size, also before its block: launches fail until it starts, and an update that
    writes the size back during the block ends no node. The least nodes of a group that scales.

    Source: Amazon EKS API reference, NodegroupScalingConfig: "When creating a node group, you must specify all or none
    of the properties"; a minimum above the present size is refused (aws/containers-roadmap issue 1637).
    """
    return maximum if keeps_size else minimum


#: From the moment in which EKS empties a group on a block, 40 minutes before its end, to that in which EC2 begins to
#: terminate, 30 minutes before it: ten minutes, of which the rest is for kubelet and the drain itself.
_BLOCK_GRACE_SECONDS = 480
_GRACE_SECONDS = 90


def grace_period_seconds(decision: CapacityDecision) -> int:
    """How long the pods of jobs have after SIGTERM: for a last checkpoint at the end of a block, else 90 seconds.

    Spot nodes have two minutes in all. On other capacity a longer time would only keep a hung rank from a restart.

    Source: Amazon EKS user guide, "Create a managed node group with Capacity Blocks for ML"; Amazon EC2 user guide,
    "Capacity Blocks for ML" and "Spot Instance interruption notices".
    """
    return _BLOCK_GRACE_SECONDS if decision.market_type == "capacity-block" else _GRACE_SECONDS


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
        if xids()[code].nvidia == "RESTART_APP"
    )


# What Amazon EKS would refuse, or take for something else, in a managed node group.

_BLOCKS = (
    'Amazon EKS user guide, "Manage compute for AI/ML workloads on Amazon EKS with node groups" and "Use P6e-GB200 '
    'UltraServers with Amazon EKS": a block by its id; AWS EC2 user guide, "Launch instances using Capacity Blocks": '
    "UltraServer blocks, too"
)
_REPAIR = 'Amazon EKS user guide, "Automatically repair nodes in EKS clusters"'

ULTRASERVER = define_rule(
    "GPU-EKS-040",
    "a managed node group names its Capacity Block by the block's id",
    source=_BLOCKS,
)
SPOT_PRICE = define_rule(
    "GPU-EKS-041",
    "EKS buys spot nodes at up to the on-demand price",
    source='Amazon EKS user guide, "Customize managed nodes with launch templates": no spot options in the template',
)
NO_AMI_TYPE = define_rule(
    "GPU-EKS-042",
    "EKS has an Amazon Linux 2023 image for the processors and accelerators of the type",
    source="botocore 1.44.5, eks service model: AMITypes",
)
OWN_LABEL = define_rule(
    "GPU-EKS-043",
    "a node group does not set labels that this library or EKS sets",
    source='Amazon EKS user guide, "Understand each phase of node updates": labels that EKS applies',
)
TAINTS = define_rule(
    "GPU-EKS-044",
    "a node group has at most 50 taints, each key and effect once",
    source='Amazon EKS user guide, "Place taints on nodes in managed node groups"; Kubernetes: one taint for each key '
    "and effect",
)
UNAVAILABLE = define_rule(
    "GPU-EKS-045",
    "an update takes 1 to 100 nodes at once",
    source="Amazon EKS NodegroupUpdateConfig reference",
)
REPAIR = define_rule(
    "GPU-EKS-046",
    "limits of node repair are a share of 1 to 100 percent and a count of 1 or more",
    source=_REPAIR,
)
RELEASE = define_rule(
    "GPU-EKS-047",
    "a release version of the image is one of the cluster's Kubernetes version",
    source='Amazon EKS user guide, "Retrieve Amazon Linux AMI version information"',
)
BLOCK_UPGRADE = define_rule(
    "GPU-EKS-048",
    "a node group on a Capacity Block is updated at size 0, not by deployments",
    source='Amazon EKS user guide, "Create a managed node group with Capacity Blocks for ML" @ f600414: desired size 0 '
    "when a group is upgraded",
)
SURGE = define_rule(
    "GPU-EKS-049",
    "nodes of reserved capacity are updated old nodes first",
    source='Amazon EKS user guide, "Understand each phase of node updates" @ 0bfeeaf: the default strategy launches '
    "nodes before it ends old ones",
)

END_OF_SCALING = define_rule(
    "GPU-EKS-051",
    "a managed node group whose capacity has an end has a fixed size",
    source="Kubernetes Cluster Autoscaler documentation, AWS provider: it sets the desired size of the group",
)

AUTOSCALED = define_rule(
    "GPU-EKS-068",
    "the Cluster Autoscaler sets the size of groups with bounds only",
    source="Kubernetes Cluster Autoscaler documentation, AWS provider: it sets the desired size of the group",
)

_MOST_TAINTS = 50
_MOST_UNAVAILABLE = 100
_EKS_LABELS = "eks.amazonaws.com/"


@check
def check_block_of_group(terms: CapacityTerms, *, keeps_size: bool = True) -> Iterator[Finding]:
    """Find capacity that a managed node group cannot take.

    Args:
        terms: How its nodes are bought.
        keeps_size: Whether it has all its nodes while it has any; otherwise an autoscaler sets its size.
    """
    if terms.ends_at is not None and not keeps_size:
        yield END_OF_SCALING.finding(
            cause="an autoscaler of the cluster sets the size of the group, and nothing drains it at the end",
            got=f"ends_at {terms.ends_at:%Y-%m-%dT%H:%MZ} of a node group with bounds",
            allowed="ends_at with a number of nodes, or bounds without ends_at",
            fix="give the number of nodes, or leave ends_at out",
            path="capacity",
        )
    if terms.kind is CapacityKind.ULTRASERVER_BLOCK and terms.reservation_id is None:
        yield ULTRASERVER.finding(
            cause="EKS launches into a block by its id, and this UltraServer block has only its resource group",
            got="an UltraServer block without its id",
            allowed="the id of the block's reservation, such as cr-0123456789abcdef0, known at synthesis",
            fix="give the id, too: Capacity.ultraserver_block(..., reservation_id=...), in a cluster file reservation:",
            path="capacity",
        )
    if terms.blocks:
        yield ULTRASERVER.finding(
            cause="a managed node group has one launch template, and EKS takes a block by its id",
            got=f"{len(terms.blocks)} Capacity Blocks",
            allowed="Capacity.capacity_block(...)",
            fix="make a node group for each block",
            path="capacity",
        )
    if terms.segment:
        yield ULTRASERVER.finding(
            cause="EKS makes the Auto Scaling group of a managed node group, and sets no distribution segments",
            got="several types of reservations",
            allowed="Capacity.from_reservation_group_arn(...) or Capacity.capacity_block(...)",
            fix="make a node group for each type of reservation",
            path="capacity",
        )
    if terms.kind is CapacityKind.SPOT and terms.max_price_usd_per_hour is not None:
        yield SPOT_PRICE.finding(
            cause="a managed node group takes no price limit",
            got=f"{terms.max_price_usd_per_hour} USD per hour",
            allowed="Capacity.spot()",
            fix="leave max_price_usd_per_hour out",
            path="capacity",
        )


@check
def check_autoscaled(groups: Mapping[str, bool]) -> Iterator[Finding]:
    """Find groups of which the Cluster Autoscaler would end nodes that are kept, and maybe paid for; and no groups.

    Args:
        groups: Of each group by name, whether it has all its nodes while it has any.
    """
    if not groups:
        yield AUTOSCALED.finding(
            cause="it would have nothing to do",
            got="no groups",
            allowed="one group at least",
            fix="name groups",
            path="groups",
        )
    for name, keeps_size in groups.items():
        if keeps_size:
            yield AUTOSCALED.finding(
                cause="it would end empty nodes of a group that keeps its size",
                got=name,
                allowed="groups with min_node_count and max_node_count",
                fix="give the group bounds, or leave it out of groups",
                path="groups",
            )


def choose_ami_type(record: InstanceType) -> tuple[AmiType | None, list[Finding]]:
    """The image that EKS chooses for nodes of a type; with what is wrong where it has none."""
    kind = None if record.accelerator is None else record.accelerator.kind
    row = ami_type(accelerator=kind, architecture=record.architecture)
    if row is not None:
        return row, []
    needs = f"{'no' if kind is None else kind.value} accelerators on {record.architecture.value}"
    return None, [
        NO_AMI_TYPE.finding(
            cause=f"EKS has no image for {record.name}",
            got=needs,
            allowed="GPUs or none on x86_64 and arm64, Neuron on x86_64",
            fix="choose another type",
            path="instance_type",
        )
    ]


def check_group_labels(labels: Mapping[str, str]) -> list[Finding]:
    """Find labels of the user that others set."""
    return [
        OWN_LABEL.finding(
            cause="this label is not the user's",
            got=name,
            allowed=f"{FLEET_LABEL}, and labels outside {PREFIX} and {_EKS_LABELS}",
            fix="choose another name",
            path=f"labels.{name}",
        )
        for name in labels
        if name.startswith((PREFIX, _EKS_LABELS)) and name != FLEET_LABEL
    ]


@check
def check_group_taints(taints: Sequence[NodeTaint]) -> Iterator[Finding]:
    """Find taints that EKS or Kubernetes would refuse."""
    if len(taints) > _MOST_TAINTS:
        yield TAINTS.finding(
            cause="too many taints",
            got=str(len(taints)),
            allowed="at most 50",
            fix="leave some out",
            path="taints",
        )
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        key = (taint.key, taint.effect)
        if key in seen:
            yield TAINTS.finding(
                cause="two taints have this key and effect",
                got=f"{taint.key}={taint.value}:{taint.effect}",
                allowed="each key and effect once",
                fix="leave one of them out",
                path=f"taints[{index}]",
            )
        seen.add(key)


@check
def check_updates(max_unavailable: int, maximum: int) -> Iterator[Finding]:
    """Find a number of nodes that an update cannot take at once."""
    if not 1 <= max_unavailable <= _MOST_UNAVAILABLE:
        yield UNAVAILABLE.finding(
            cause="EKS replaces no such number of nodes at once",
            got=str(max_unavailable),
            allowed=f"1 to {min(_MOST_UNAVAILABLE, max(maximum, 1))}",
            fix="change max_unavailable",
            path="max_unavailable",
        )


@check
def check_replacement(terms: CapacityTerms, strategy: UpdateStrategy | None, *, rolls: bool) -> Iterator[Finding]:
    """Find updates for which reserved capacity has no room.

    Args:
        terms: How the nodes are bought.
        strategy: The requested strategy, None if it is left open.
        rolls: Whether a deployment with another launch template or version of Kubernetes updates the nodes.
    """
    if rolls and terms.kind is CapacityKind.CAPACITY_BLOCK:
        yield BLOCK_UPGRADE.finding(
            cause="EKS asks for size 0 before a group on a Capacity Block is updated, and the group is full while its "
            "block runs",
            got="rolling",
            allowed="never",
            fix="leave it at never; the next block is another node group. To update this one, tag it "
            "gpu-clusters:size=manual and set its size to 0 first",
            path="update_policy",
        )
    if strategy is UpdateStrategy.DEFAULT and terms.kind.is_reserved:
        yield SURGE.finding(
            cause="the default strategy launches nodes before it ends old ones, and fails if the reservation is full",
            got="DEFAULT",
            allowed="MINIMAL",
            fix="leave update_strategy out, unless the reservation has at least two more instances for each zone",
            path="update_strategy",
            severity=Severity.WARNING,
        )


def check_repair(repair: NodeRepair) -> list[Finding]:
    """Find limits of node repair that EKS would refuse."""
    limits = {
        "max_unhealthy_percentage": (repair.max_unhealthy_percentage, 100),
        "max_parallel_count": (repair.max_parallel_count, None),
    }
    findings = [
        REPAIR.finding(
            cause=f"{name} is no such limit",
            got=str(value),
            allowed="1 or more" if most is None else f"1 to {most}",
            fix=f"change {name}",
            path=f"node_repair.{name}",
        )
        for name, (value, most) in limits.items()
        if value is not None and not (value >= 1 and (most is None or value <= most))
    ]
    return findings + [
        REPAIR.finding(
            cause="EKS waits a minute at least before it repairs a node",
            got=f"{one.wait_minutes} minutes for {one.reason}",
            allowed="1 or more",
            fix="change wait_minutes",
            path=f"node_repair.overrides[{index}]",
        )
        for index, one in enumerate(repair.overrides or ())
        if one.wait_minutes < 1
    ]


@check
def check_release(release_version: str | None, kubernetes_version: str | None) -> Iterator[Finding]:
    """Find an image of another version of Kubernetes than the cluster's.

    Args:
        release_version: Such as `1.34.1-20260709`, None if EKS chooses.
        kubernetes_version: The cluster's, such as `1.34`; None if only the deployment knows it.
    """
    if release_version is None or kubernetes_version is None:
        return
    if not release_version.startswith(f"{kubernetes_version}."):
        yield RELEASE.finding(
            cause=f"this is no image of Kubernetes {kubernetes_version}",
            got=release_version,
            allowed=f"{kubernetes_version}.<patch>-<date>",
            fix="leave release_version out, or give one of the cluster's version",
            path="release_version",
        )


# How many pods a node of Amazon EKS takes, where every pod has an IP address of the VPC.
#
# Sources: awslabs/amazon-eks-ami @ 81fec2e, nodeadm/internal/kubelet/eni_max_pods.go (interfaces of the default network
# card x (addresses of each - 1) + 2) and templates/al2/runtime/max-pods-calculator.sh (prefixes, and the limits of 110
# and 250); aws/karpenter-provider-aws, designs/efa-for-static-capacity.md (an EFA-only interface on card 0 takes the
# place of one with addresses). Read 2026-11-22.

#: Pods of the host's network that every node has: the VPC CNI and kube-proxy.
_HOST_PODS = 2
#: Addresses in a prefix, /28.
_PREFIX = 16
_FEW_VCPUS = 30
_LIMIT_FEW_VCPUS, _LIMIT = 110, 250


def max_pods(record: InstanceType, interfaces: InterfacePlan, *, prefix_delegation: bool = False) -> int:
    """The number of pods for which a node has addresses, at most what EKS recommends.

    Pods get addresses from network card 0 alone. EKS's own number counts every interface that card 0 takes, also those
    that `efa-only` interfaces occupy, which have no addresses: pods above ours would wait for an address forever.

    Args:
        record: Type of the node.
        interfaces: Its network interfaces.
        prefix_delegation: Whether the VPC CNI takes prefixes instead of single addresses.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> from cdk_gpu_clusters.rules.interfaces import plan_interfaces
        >>> p5 = instance_type("p5.48xlarge")
        >>> max_pods(p5, plan_interfaces(p5)), max_pods(p5, plan_interfaces(p5, efa=False))
        (51, 100)
    """
    without_address = sum(
        not interface.has_ip for interface in interfaces.interfaces if interface.network_card_index == 0
    )
    usable = record.network.cards[0].max_interfaces - without_address
    each = (record.network.ipv4_per_interface - 1) * (_PREFIX if prefix_delegation else 1)
    return min(usable * each + _HOST_PODS, recommended_limit(record))


def recommended_limit(record: InstanceType) -> int:
    """What EKS recommends at most, and enforces in managed node groups: 110 below 30 vCPUs, 250 from there."""
    return _LIMIT_FEW_VCPUS if record.vcpus < _FEW_VCPUS else _LIMIT
