"""The plan of a fleet: everything that follows from a request, decided once, with every finding.

Constructs, launch templates, the cluster file, `plan` and the manifests all read this one plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import TypeVar

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue import instance_type as catalogue_type
from cdk_gpu_clusters.catalogue.images import ImageParameter, OperatingSystem
from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.fleet.network import (
    check_addresses_left,
    check_reservation_zone,
    check_subnets,
    zones_of,
)
from cdk_gpu_clusters.fleet.profile import ImageChoice
from cdk_gpu_clusters.fleet.request import Field, FleetRequest, ImageRequest
from cdk_gpu_clusters.rules.capacity import (
    CapacityDecision,
    CapacityKind,
    CapacityTerms,
    CapacityWindow,
    block_drain_at,
    capacity_windows,
    decide_capacity,
)
from cdk_gpu_clusters.rules.capacity_checks import check_capacity, check_reserved_use
from cdk_gpu_clusters.rules.fleet import (
    BLOCK_DRAIN,
    check_drain_of_block,
    check_kept_size,
    check_public_subnet,
    check_size,
    check_timeout,
)
from cdk_gpu_clusters.rules.images import choose_image
from cdk_gpu_clusters.rules.interfaces import (
    InterfacePlan,
    check_efa_request,
    check_efa_unused,
    plan_interfaces,
    uses_efa,
)
from cdk_gpu_clusters.rules.ip_budget import IpDemand
from cdk_gpu_clusters.rules.mig import MigPlan, check_mig_driver, check_mig_with_efa, plan_mig
from cdk_gpu_clusters.rules.parallelcluster import plan_node_interfaces
from cdk_gpu_clusters.rules.pcs import check_join_time
from cdk_gpu_clusters.rules.placement import (
    ONE_PLACEMENT,
    GroupOrigin,
    PlacementChoice,
    PlacementStrategy,
    check_efa_together,
    check_group_of_reservation,
    check_placement,
    choose_placement,
    reservation_is_placed,
    spread_of_servers,
)

#: What is left of the two minutes of a spot notice, after it is seen and before the instance stops.
SPOT_DRAIN_SECONDS = 90
#: From the drain of a block to its forced stop, less 60 s in which the node comes to trust its clock and 60 s for its
#: jobs to end.
BLOCK_DRAIN_SECONDS = int(BLOCK_DRAIN.total_seconds()) - 120
# Time that a failed boot needs to report its reason before the orchestrator gives up.
_BOOT_MARGIN_SECONDS = 300
# EKS fails the creation of a group of which a node has not joined after 15 minutes (Amazon EKS user guide @ 4d52b4d,
# "Troubleshoot problems with Amazon EKS clusters and nodes"). Two of them are for the launch and for kubelet.
_JOIN_SECONDS = 13 * 60
# Time that a drained node needs to complete its terminating hook.
_HOOK_MARGIN_SECONDS = 60


class Topic(str, Enum):
    """What a finding is about: one group of rules over the same parts of a request."""

    TYPE = "instance type"
    SIZE = "size"
    TIMEOUTS = "time-outs"
    BLOCK_DRAIN = "drain of a block"
    EFA = "EFA"
    INTERFACES = "network interfaces"
    MIG = "MIG layout"
    MIG_WITH_EFA = "MIG with EFA"
    IMAGE = "image"
    DRIVER = "driver of the image"
    RESERVED_USE = "use of the reservation"
    ONE_PLACEMENT = "one placement"
    CAPACITY = "capacity"
    RESERVATION_GROUP = "placement group of the reservation"
    EFA_UNUSED = "EFA that is not used"
    EFA_TOGETHER = "EFA without a placement group"
    PLACEMENT = "placement"
    NETWORK = "network"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """What was decided about a fleet.

    Attributes:
        request: What was requested.
        type_or_none: Type of every node; None if the catalogue does not have it.
        interfaces_or_none: Network interfaces of a node; None if there is no such layout.
        efa: Whether the nodes exchange EFA traffic.
        decision: What follows from the capacity.
        placement: Placement group of the nodes, with the reason.
        mig: How the GPUs of a node are split; None if they are not, or cannot be.
        image: The catalogue's row of the machine image; None for your own image, and if there is none.
        operating_system: What the nodes boot; None if unknown.
        kernel: Kernel in the image's release note; None if unknown.
        found: Findings by topic.
    """

    request: FleetRequest
    type_or_none: InstanceType | None
    interfaces_or_none: InterfacePlan | None
    efa: bool
    decision: CapacityDecision
    placement: PlacementChoice
    mig: MigPlan | None
    image: ImageParameter | None
    operating_system: OperatingSystem | None
    kernel: str | None
    found: Mapping[Topic, tuple[Finding, ...]]

    @property
    def instance_type(self) -> InstanceType:
        """Type of every node.

        Raises:
            ConfigError: If the catalogue does not have it.
        """
        if self.type_or_none is None:
            raise ConfigError(self.findings)
        return self.type_or_none

    @property
    def interfaces(self) -> InterfacePlan:
        """Network interfaces of a node.

        Raises:
            ConfigError: If there is no such layout.
        """
        if self.interfaces_or_none is None:
            raise ConfigError(self.findings)
        return self.interfaces_or_none

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, in the order of their topics."""
        return tuple(finding for group in self.found.values() for finding in group)

    def about(self, *topics: Topic) -> list[Finding]:
        """The findings about some topics, in the order of the topics."""
        return [finding for topic in topics for finding in self.found.get(topic, ())]

    @property
    def terms(self) -> CapacityTerms:
        """How the nodes are bought."""
        return self.request.terms

    @property
    def minimum(self) -> int:
        """Least nodes of the group in the template: 0 if a state machine keeps it filled, or drains it at an end.

        A larger one would be written back by every deployment: over an operator's own size, and after the end.
        """
        ends = self.terms.ends_at is not None and self.request.profile.has_hooks
        return 0 if self.windows and (self.keeps_size or ends) else self.request.minimum or 0

    @property
    def fewest(self) -> int:
        """Fewest nodes while the capacity lasts: the bound of a group that scales, or those of the smallest block."""
        if not self.keeps_size:
            return self.request.minimum or 0
        return min((window.node_count for window in self.windows), default=self.maximum)

    @property
    def maximum(self) -> int:
        """Most nodes; 0 if unknown."""
        return self.request.maximum or 0

    @property
    def new_placement(self) -> PlacementStrategy | None:
        """Strategy of a placement group to make; None to make none."""
        return self.placement.strategy if self.placement.origin is GroupOrigin.NEW else None

    @property
    def addresses_per_node(self) -> int:
        """IPv4 addresses that a node takes from its subnet, with those for its first pods or containers."""
        interfaces = self.interfaces_or_none
        return (
            (1 if interfaces is None else interfaces.ip_addresses_per_node)
            + self.request.pod_addresses
            + self.request.profile.container_addresses
        )

    @property
    def local_disks(self) -> int:
        """Local disks of a node."""
        return sum(disk.count for disk in self.instance_type.local_disks)

    @property
    def runs_jobs(self) -> bool:
        """Whether users may start jobs on all nodes at once: elsewhere an orchestrator does, or model servers run."""
        return self.request.profile.runs_model_servers and not self.request.serves_models

    @property
    def keeps_size(self) -> bool:
        """Whether the group has all its nodes while it has any: on a block, or with a fixed size."""
        return self.terms.kind.is_block or self.request.minimum == self.request.maximum

    @property
    def windows(self) -> tuple[CapacityWindow, ...]:
        """When the group has nodes; none for capacity that is neither reserved nor ends."""
        if not self.terms.kind.is_reserved and self.terms.ends_at is None:
            return ()
        return capacity_windows(self.terms, self.maximum, drain_timeout_seconds=self.drain_timeout_seconds)

    @property
    def ready_timeout_seconds(self) -> int:
        """How long a node's boot may take."""
        return self.request.ready_timeout_seconds

    @property
    def drain_timeout_seconds(self) -> int:
        """How long a node may take to stop its work."""
        return self.request.drain_timeout_seconds

    @property
    def boot_deadline_seconds(self) -> int:
        """When a node has to be ready, from the kernel's start; before its time-out, to report why it is not."""
        timeout = self.ready_timeout_seconds
        deadline = max(timeout - _BOOT_MARGIN_SECONDS, timeout // 2)
        return min(deadline, _JOIN_SECONDS) if self.request.profile.has_node_group else deadline

    @property
    def drain_deadline_seconds(self) -> int:
        """How long the node itself gives its work to stop."""
        if not self.request.profile.has_hooks:
            has_notice = self.drain_at is not None and self.terms.kind is not CapacityKind.SPOT
            return BLOCK_DRAIN_SECONDS if has_notice else SPOT_DRAIN_SECONDS
        timeout = self.drain_timeout_seconds
        drain = max(timeout - _HOOK_MARGIN_SECONDS, timeout // 2)
        return min(drain, SPOT_DRAIN_SECONDS) if self.terms.kind is CapacityKind.SPOT else drain

    @property
    def drain_at(self) -> datetime | None:
        """When a node drains itself; None if its orchestrator scales it in before its capacity ends.

        Nothing but the nodes themselves drains those of AWS PCS and AWS Batch.
        """
        if self.request.profile.has_hooks:
            return None
        if self.request.profile.drains_itself and self.windows:
            return max((window.drain_at for window in self.windows if window.drain_at), default=None)
        return block_drain_at(self.terms)


def plan_fleet(request: FleetRequest) -> FleetPlan:
    """Decide what a fleet is made of. What is wrong is in the plan's findings; nothing is raised.

    Args:
        request: What is requested.

    Example:
        >>> plan = plan_fleet(FleetRequest(name="trainers", instance_type="p5.48xlarge", minimum=2, maximum=2))
        >>> plan.interfaces.efa_count, plan.placement.strategy.value
        (32, 'cluster')
    """
    faults: dict[Topic, tuple[Finding, ...]] = {}
    record = _attempt(faults, Topic.TYPE, lambda: catalogue_type(request.instance_type))
    if record is None:
        return replace(_decide(request), found=MappingProxyType(faults))
    efa, layout = uses_efa(record, request.efa), request.mig
    plan = _decide(
        request,
        record=record,
        efa=efa,
        interfaces=_attempt(
            faults,
            Topic.INTERFACES,
            lambda: _lay_out(request, record, efa=efa),
        ),
        mig=None if layout is None else _attempt(faults, Topic.MIG, lambda: plan_mig(record, layout)),
        image=_attempt(faults, Topic.IMAGE, lambda: _choose_image(request, record)),
    )
    found = {
        check.topic: (*faults.get(check.topic, ()), *check.find(plan))
        for check in _CHECKS
        if not check.reads & request.unknown
    }
    return replace(plan, found=MappingProxyType({topic: some for topic, some in found.items() if some}))


T = TypeVar("T")


def _attempt(faults: dict[Topic, tuple[Finding, ...]], topic: Topic, decide: Callable[[], T]) -> T | None:
    """What was decided; None, with the findings among the faults, if nothing could be."""
    try:
        return decide()
    except ConfigError as fault:
        faults[topic] = fault.findings
        return None


@dataclass(frozen=True, slots=True)
class _Image:
    """The image that the nodes boot, as far as it is known."""

    row: ImageParameter | None
    operating_system: OperatingSystem | None


def _lay_out(request: FleetRequest, record: InstanceType, *, efa: bool) -> InterfacePlan:
    """The network interfaces of a node, as the library or AWS ParallelCluster lays them out."""
    if request.profile.joins_parallelcluster:
        return plan_node_interfaces(record, efa=efa)
    orchestrator = request.profile.orchestrator
    return plan_interfaces(record, policy=request.interface_policy, orchestrator=orchestrator, efa=efa)


def _choose_image(request: FleetRequest, record: InstanceType) -> _Image:
    image, profile = request.image, request.profile
    if Field.IMAGE in request.unknown:
        return _Image(None, None)
    if image is None and profile.image is not ImageChoice.LIBRARY:
        return _Image(None, profile.operating_system)
    if image is not None and image.is_own:
        return _Image(None, image.operating_system)
    asked = image or ImageRequest()
    row = choose_image(
        record,
        operating_system=asked.operating_system,
        purpose=profile.image_purpose,
        variant=asked.framework,
    )
    return _Image(row, row.operating_system)


def _decide(
    request: FleetRequest,
    *,
    record: InstanceType | None = None,
    efa: bool = False,
    interfaces: InterfacePlan | None = None,
    mig: MigPlan | None = None,
    image: _Image | None = None,
) -> FleetPlan:
    decision = decide_capacity(request.terms, efa=efa)
    row = None if image is None else image.row
    return FleetPlan(
        request=request,
        type_or_none=record,
        interfaces_or_none=interfaces,
        efa=efa,
        decision=decision,
        placement=_choose_placement(request, record, decision, efa=efa),
        mig=mig,
        image=row,
        operating_system=None if image is None else image.operating_system,
        kernel=None if row is None else row.versions.get("kernel"),
        found={},
    )


def _choose_placement(
    request: FleetRequest, record: InstanceType | None, decision: CapacityDecision, *, efa: bool
) -> PlacementChoice:
    if request.profile.joins_hyperpod:
        return PlacementChoice(origin=GroupOrigin.NONE, strategy=None, reason="SageMaker HyperPod places the nodes")
    placement = _requested_placement(request)
    is_given = request.group_strategy is not None
    if placement is None and not is_given and record is not None and _spreads(request, record):
        reason = "spread placement group: each node on other hardware"
        return PlacementChoice(origin=GroupOrigin.NEW, strategy=PlacementStrategy.SPREAD, reason=reason)
    return choose_placement(
        decision,
        requested=placement,
        is_given=is_given,
        has_reservation_group=_has_reservation_group(request, efa=efa),
    )


def _spreads(request: FleetRequest, record: InstanceType) -> bool:
    """Whether the nodes are spread unless requested otherwise: nodes of model servers need no fast network."""
    if not (request.serves_models and request.profile.runs_model_servers):
        return False
    zones = _zone_count(request, PlacementStrategy.SPREAD)
    kind, nodes = request.terms.kind, request.maximum or 0
    return spread_of_servers(record, kind, node_count=nodes, zone_count=zones) is not None


def _has_reservation_group(request: FleetRequest, *, efa: bool) -> bool:
    reservation = request.reservation
    if request.placement is PlacementStrategy.NONE:
        return False
    if reservation.is_for_fleet:
        return not request.serves_models and reservation_is_placed(request.placement, efa=efa)
    return reservation.has_placement_group


def _requested_placement(request: FleetRequest) -> PlacementStrategy | None:
    """The requested strategy; a reservation's own group is a cluster group, so `CLUSTER` asks for no other."""
    has_group = request.reservation.has_placement_group or request.reservation.is_for_fleet
    if request.placement is PlacementStrategy.CLUSTER and request.group_strategy is None and has_group:
        return None
    return request.placement


def _zone_count(request: FleetRequest, strategy: PlacementStrategy) -> int:
    """Zones of the nodes; an unknown zone counts if it makes room, not if it is one too many."""
    unknown = sum(subnet.zone is None for subnet in request.subnets)
    room = unknown if strategy is PlacementStrategy.SPREAD else 0
    return len(zones_of(request.subnets)) + room or 1


def _strategy(plan: FleetPlan) -> PlacementStrategy | None:
    """Strategy of the group that was requested or given; None if the placement is left open or unknown."""
    if Field.PLACEMENT in plan.request.unknown:
        return None
    if plan.request.reservation.is_for_fleet:  # the group follows the strategy, which has to suit both
        return plan.request.placement
    if plan.placement.origin is GroupOrigin.NEW and plan.request.placement is None:
        return PlacementStrategy.SPREAD if plan.placement.strategy is PlacementStrategy.SPREAD else None
    return _requested_placement(plan.request) or plan.request.group_strategy


def _check_timeouts(plan: FleetPlan) -> list[Finding]:
    return [
        *check_timeout("ready_timeout", plan.ready_timeout_seconds),
        *(check_join_time(plan.ready_timeout_seconds) if plan.request.profile.joins_slurm else []),
        *check_timeout("drain_timeout", plan.drain_timeout_seconds),
    ]


def _check_interfaces(plan: FleetPlan) -> Iterable[Finding]:
    return () if plan.interfaces_or_none is None else plan.interfaces_or_none.findings


def _check_driver(plan: FleetPlan) -> list[Finding]:
    if plan.mig is None or plan.operating_system is None:
        return []
    if plan.image is None and plan.request.image is None:  # the orchestrator's image, whose driver is unknown
        return []
    return check_mig_driver(plan.mig.gpu.model, plan.mig.minimum_driver, plan.image)


def _check_reserved_use(plan: FleetPlan) -> list[Finding]:
    reservation = plan.request.reservation
    is_kept = plan.windows and (plan.keeps_size or plan.request.profile.has_hooks)
    found = [*check_kept_size(plan.maximum)] if is_kept else []
    if reservation.instance_type is None or reservation.instance_count is None:
        return found
    return found + check_reserved_use(
        reserved_type=reservation.instance_type,
        reserved_count=reservation.instance_count,
        instance_type=plan.instance_type.name,
        node_count=plan.maximum,
    )


def _check_one_placement(plan: FleetPlan) -> list[Finding]:
    request = plan.request
    if request.placement is None or request.group_strategy is None:
        return []
    return [
        ONE_PLACEMENT.finding(
            cause="a placement strategy and an existing placement group exclude each other",
            got=f"placement {request.placement.value} and a placement group",
            allowed="one of the two",
            fix="leave one of them out",
        )
    ]


def _check_capacity(plan: FleetPlan) -> list[Finding]:
    request = plan.request
    if request.profile.joins_hyperpod:  # its nodes are bought from SageMaker, which has rules of its own
        return []
    return check_capacity(
        request.terms,
        plan.instance_type,
        node_count=None if Field.NODES in request.unknown else request.maximum,
        region=request.region,
        placement=_strategy(plan),
        has_reservation_group=request.reservation.is_for_fleet
        or (request.placement is None and request.is_reservation_group),
    )


def _check_reservation_group(plan: FleetPlan) -> list[Finding]:
    uses_group = plan.placement.origin is GroupOrigin.RESERVATION or plan.request.is_reservation_group
    if not uses_group or plan.request.reservation.is_for_fleet:
        return []
    return check_group_of_reservation(plan.instance_type)


def _check_efa_unused(plan: FleetPlan) -> list[Finding]:
    if plan.terms.kind.is_block:
        return []
    placement = plan.request.group_strategy or plan.placement.strategy
    return check_efa_unused(plan.instance_type, efa=plan.efa, placement=placement)


def _check_efa_together(plan: FleetPlan) -> list[Finding]:
    return check_efa_together(
        efa=plan.efa,
        is_placed=plan.placement.origin is not GroupOrigin.NONE or plan.request.profile.joins_hyperpod,
        is_reserved=plan.terms.kind.is_reserved,
        node_count=plan.maximum,
    )


def _check_placement(plan: FleetPlan) -> list[Finding]:
    strategy, request = _strategy(plan), plan.request
    if strategy is None:
        return []
    return check_placement(
        plan.instance_type,
        strategy,
        node_count=None if Field.NODES in request.unknown else request.maximum,
        efa=plan.efa,
        zone_count=_zone_count(request, strategy),
    )


def _check_network(plan: FleetPlan) -> list[Finding]:
    request, interfaces = plan.request, plan.interfaces_or_none
    if interfaces is None:
        return []
    each = interfaces.ip_addresses_per_node + request.profile.container_addresses
    demand = IpDemand(nodes=plan.maximum, addresses_per_node=each, name=request.name)
    return [
        *check_subnets(request.subnets, plan.instance_type, one_zone=request.terms.kind.is_reserved, efa=plan.efa),
        *check_public_subnet(interface_count=len(interfaces.interfaces), public=request.is_public),
        *check_reservation_zone(request.reservation.availability_zone, request.subnets),
        *check_addresses_left(request.subnets, demand),
    ]


@dataclass(frozen=True, slots=True)
class _Check:
    """One group of rules, and the parts of the request that it reads."""

    topic: Topic
    reads: frozenset[Field]
    find: Callable[[FleetPlan], Iterable[Finding]]


def _check(topic: Topic, reads: set[Field], find: Callable[[FleetPlan], Iterable[Finding]]) -> _Check:
    return _Check(topic, frozenset(reads), find)


_CHECKS = (
    _check(Topic.SIZE, {Field.NODES}, lambda plan: check_size(plan.request.minimum, plan.request.maximum)),
    _check(Topic.TIMEOUTS, {Field.TIMEOUTS}, _check_timeouts),
    _check(
        Topic.BLOCK_DRAIN,
        {Field.TIMEOUTS, Field.CAPACITY},
        lambda plan: check_drain_of_block(plan.decision, plan.drain_timeout_seconds),
    ),
    _check(Topic.EFA, {Field.EFA}, lambda plan: check_efa_request(plan.instance_type, plan.request.efa)),
    _check(Topic.INTERFACES, {Field.EFA, Field.INTERFACES}, _check_interfaces),
    _check(
        Topic.MIG_WITH_EFA,
        {Field.MIG, Field.EFA},
        lambda plan: check_mig_with_efa(plan.instance_type, plan.request.mig, efa=plan.efa),
    ),
    _check(Topic.MIG, {Field.MIG}, lambda plan: () if plan.mig is None else plan.mig.findings),
    _check(Topic.IMAGE, {Field.IMAGE}, lambda _: ()),
    _check(Topic.DRIVER, {Field.MIG, Field.IMAGE}, _check_driver),
    _check(Topic.RESERVED_USE, {Field.NODES, Field.CAPACITY}, _check_reserved_use),
    _check(Topic.ONE_PLACEMENT, {Field.PLACEMENT}, _check_one_placement),
    _check(Topic.CAPACITY, {Field.CAPACITY}, _check_capacity),
    _check(Topic.RESERVATION_GROUP, {Field.CAPACITY}, _check_reservation_group),
    _check(Topic.EFA_UNUSED, {Field.PLACEMENT, Field.EFA, Field.CAPACITY}, _check_efa_unused),
    _check(Topic.EFA_TOGETHER, {Field.PLACEMENT, Field.EFA, Field.CAPACITY}, _check_efa_together),
    _check(Topic.PLACEMENT, {Field.PLACEMENT, Field.EFA, Field.CAPACITY}, _check_placement),
    _check(Topic.NETWORK, {Field.NETWORK}, _check_network),
)
