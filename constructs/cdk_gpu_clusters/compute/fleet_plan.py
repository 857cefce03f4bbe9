"""What is decided about a fleet before anything is made, with every fault at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters._cdk import errors_at, known, path_of, region_of, report, stack_of
from cdk_gpu_clusters.capacity.capacity import Capacity
from cdk_gpu_clusters.capacity.placement_group import strategy_of
from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.catalogue import instance_type as catalogue_type
from cdk_gpu_clusters.catalogue.images import OperatingSystem
from cdk_gpu_clusters.compute.fleet_checks import (
    check_addresses_left,
    check_reservation_zone,
    check_subnets,
)
from cdk_gpu_clusters.compute.fleet_subnets import select_subnets, zones_of
from cdk_gpu_clusters.compute.node_image import NodeImage
from cdk_gpu_clusters.errors import ConfigError, Finding
from cdk_gpu_clusters.rules.capacity import CapacityDecision, decide_capacity
from cdk_gpu_clusters.rules.capacity_checks import check_capacity
from cdk_gpu_clusters.rules.fleet import check_drain_of_block, check_public_subnet, check_size, check_timeout
from cdk_gpu_clusters.rules.interfaces import (
    InterfacePlan,
    InterfacePolicy,
    Orchestrator,
    check_efa_wish,
    plan_interfaces,
    uses_efa,
)
from cdk_gpu_clusters.rules.ip_budget import IpDemand
from cdk_gpu_clusters.rules.mig import MigLayout, MigPlan, check_mig_driver, check_mig_with_efa, plan_mig
from cdk_gpu_clusters.rules.placement import (
    ONE_PLACEMENT,
    GroupOrigin,
    PlacementChoice,
    PlacementStrategy,
    check_efa_together,
    check_group_of_reservation,
    check_placement,
    choose_placement,
)
from cdk_gpu_clusters.rules.reservations import check_reserved_use


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetWish:
    """What the user says about a fleet, as `GpuFleet` and `EksGpuNodeGroup` take it."""

    vpc: ec2.IVpc
    vpc_subnets: ec2.SubnetSelection | None
    instance_type: str | ec2.InstanceType
    node_count: int | None
    min_node_count: int | None
    max_node_count: int | None
    capacity: Capacity | None
    efa: bool | None
    interface_policy: InterfacePolicy | None
    placement: PlacementStrategy | None
    placement_group: ec2.IPlacementGroup | None
    image: NodeImage | None
    mig: MigLayout | Sequence[MigLayout] | None
    ready_timeout: cdk.Duration | None
    drain_timeout: cdk.Duration | None
    orchestrator: Orchestrator = Orchestrator.EC2


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """What was decided.

    Attributes:
        instance_type: Type of every node.
        capacity: How the nodes are bought.
        decision: What follows from the capacity.
        interfaces: Network interfaces of a node.
        subnets: Where the nodes stand.
        is_public: Whether one of the subnets is a public one.
        minimum: Least nodes of the group.
        maximum: Most nodes.
        new_placement: Strategy of a placement group to make; None to make none.
        placement_group: An existing group to use, None for none.
        mig: How the GPUs of a node are split; None if they are not split.
        operating_system: What the nodes boot, as far as the image or the user says; None if unknown.
        kernel: Kernel in the image's release note, None where none was read.
        ready_timeout_seconds: How long a node's boot may take.
        drain_timeout_seconds: How long a node may take to stop its work.
    """

    instance_type: InstanceType
    capacity: Capacity
    decision: CapacityDecision
    interfaces: InterfacePlan
    subnets: Sequence[ec2.ISubnet]
    is_public: bool
    minimum: int
    maximum: int
    new_placement: PlacementStrategy | None
    placement_group: ec2.IPlacementGroup | None
    mig: MigPlan | None
    operating_system: OperatingSystem | None
    kernel: str | None
    ready_timeout_seconds: int
    drain_timeout_seconds: int

    @property
    def efa(self) -> bool:
        """Whether the nodes exchange EFA traffic."""
        return self.interfaces.efa_count > 0


def plan_fleet(
    scope: Construct, wish: FleetWish, *, further: Callable[[FleetPlan], list[Finding]] = lambda _: []
) -> FleetPlan:
    """Decide what a fleet is made of.

    Args:
        scope: The fleet.
        wish: What the user says.
        further: Finds what else is wrong with the plan, to be told at once with the rest; nothing if left out.

    Raises:
        ConfigError: All faults of size, place, capacity, MIG and time-outs at once, under the scope's path.
    """
    name = wish.instance_type if isinstance(wish.instance_type, str) else wish.instance_type.to_string()
    with errors_at(scope):
        record = catalogue_type(name)
        interfaces = plan_interfaces(
            record,
            policy=wish.interface_policy,
            orchestrator=wish.orchestrator,
            efa=uses_efa(record, wish.efa),
        )
        mig = None if wish.mig is None else plan_mig(record, wish.mig)
    capacity = _capacity(wish)
    wish = _settle_placement(wish, capacity)
    decision = decide_capacity(capacity.terms, efa=interfaces.efa_count > 0)
    choice = _choose_placement(wish, capacity, decision)
    reserved_group = capacity.placement_group if choice.origin is GroupOrigin.RESERVATION else None
    minimum = known(wish.node_count if wish.min_node_count is None else wish.min_node_count)
    maximum = known(wish.node_count if wish.max_node_count is None else wish.max_node_count)
    selected = select_subnets(wish.vpc, wish.vpc_subnets)
    system, kernel, image_findings = _check_image(wish, record, mig)
    plan = FleetPlan(
        instance_type=record,
        capacity=capacity,
        decision=decision,
        interfaces=interfaces,
        subnets=selected.subnets,
        is_public=selected.is_public,
        minimum=0 if decision.size_changes_after_deploy else minimum or 0,
        maximum=maximum or 0,
        new_placement=choice.strategy if choice.origin is GroupOrigin.NEW else None,
        placement_group=wish.placement_group if choice.origin is GroupOrigin.GIVEN else reserved_group,
        mig=mig,
        operating_system=system,
        kernel=kernel,
        ready_timeout_seconds=_seconds(wish.ready_timeout, default=30 * 60),
        drain_timeout_seconds=_seconds(wish.drain_timeout, default=5 * 60),
    )
    report(
        scope,
        [
            *check_size(minimum, maximum),
            *check_timeout("ready_timeout", plan.ready_timeout_seconds),
            *check_timeout("drain_timeout", plan.drain_timeout_seconds),
            *check_drain_of_block(decision, plan.drain_timeout_seconds),
            *check_efa_wish(record, wish.efa),
            *check_mig_with_efa(record, wish.mig, efa=plan.efa),
            *(() if mig is None else mig.findings),
            *image_findings,
            *_check_purchase(scope, wish, plan),
            *([] if selected.is_pending_lookup else _check_place(scope, plan)),
            *further(plan),
        ],
    )
    return plan


def _check_image(
    wish: FleetWish, record: InstanceType, mig: MigPlan | None
) -> tuple[OperatingSystem | None, str | None, list[Finding]]:
    if wish.orchestrator is Orchestrator.EKS_MANAGED:  # EKS chooses it, and tells neither driver nor kernel
        return OperatingSystem.AL2023, None, []
    image = wish.image or NodeImage.latest()
    try:
        row = image.row(record)
    except ConfigError as fault:
        return None, None, list(fault.findings)
    findings = [] if mig is None else check_mig_driver(mig.gpu.model, mig.minimum_driver, row)
    if row is None:
        return image.operating_system, None, findings
    return row.operating_system, row.versions.get("kernel"), findings


def _capacity(wish: FleetWish) -> Capacity:
    capacity = wish.capacity or Capacity.on_demand()
    if wish.placement is PlacementStrategy.NONE:
        return replace(capacity, placement_group=None)
    return capacity


def _settle_placement(wish: FleetWish, capacity: Capacity) -> FleetWish:
    """A reservation's own group is a cluster group, the only kind that can hold one: `CLUSTER` asks for no other."""
    has_group = capacity.placement_group is not None
    if wish.placement is PlacementStrategy.CLUSTER and wish.placement_group is None and has_group:
        return replace(wish, placement=None)
    return wish


def _choose_placement(wish: FleetWish, capacity: Capacity, decision: CapacityDecision) -> PlacementChoice:
    return choose_placement(
        decision,
        wish=wish.placement,
        is_given=wish.placement_group is not None,
        has_reservation_group=capacity.placement_group is not None,
    )


def _check_purchase(scope: Construct, wish: FleetWish, plan: FleetPlan) -> list[Finding]:
    strategy = wish.placement
    if strategy is None and wish.placement_group is not None:
        strategy = strategy_of(wish.placement_group)
    findings = _check_reservation(plan)
    if wish.placement is not None and wish.placement_group is not None:
        findings.append(
            ONE_PLACEMENT.finding(
                cause="a placement strategy and an existing placement group exclude each other",
                got=f"placement {wish.placement.value} and a placement group",
                allowed="one of the two",
                fix="leave one of them out",
            )
        )
    findings += check_capacity(
        plan.capacity.known_terms,
        plan.instance_type,
        node_count=plan.maximum,
        region=known(region_of(stack_of(scope))),
        placement=strategy,
        has_reservation_group=wish.placement is None
        and plan.capacity.placement_group is wish.placement_group,
    )
    if plan.placement_group is not None and plan.placement_group is plan.capacity.placement_group:
        findings += check_group_of_reservation(plan.instance_type)
    findings += check_efa_together(
        efa=plan.efa,
        is_placed=plan.new_placement is not None or plan.placement_group is not None,
        is_reserved=plan.capacity.terms.kind.is_reserved,
        node_count=plan.maximum,
    )
    if strategy is None:
        return findings
    return findings + check_placement(
        plan.instance_type,
        strategy,
        node_count=plan.maximum,
        efa=plan.efa,
        zone_count=_zone_count(strategy, plan.subnets),
    )


def _zone_count(strategy: PlacementStrategy, subnets: Sequence[ec2.ISubnet]) -> int:
    """Zones of subnets; one that only the deployment knows counts where it makes room, not where it is too many."""
    unknown = sum(known(subnet.availability_zone) is None for subnet in subnets)
    return len(zones_of(subnets)) + (unknown if strategy is PlacementStrategy.SPREAD else 0) or 1


def _check_place(scope: Construct, plan: FleetPlan) -> list[Finding]:
    demand = IpDemand(
        nodes=plan.maximum,
        addresses_per_node=plan.interfaces.ip_addresses_per_node,
        name=path_of(scope),
    )
    return [
        *check_subnets(
            plan.subnets,
            plan.instance_type,
            one_zone=plan.capacity.terms.kind.is_reserved,
            efa=plan.efa,
        ),
        *check_public_subnet(interface_count=len(plan.interfaces.interfaces), public=plan.is_public),
        *check_reservation_zone(plan.capacity.availability_zone, plan.subnets),
        *check_addresses_left(plan.subnets, demand),
    ]


def _check_reservation(plan: FleetPlan) -> list[Finding]:
    capacity = plan.capacity
    if capacity.reserved_type is None or capacity.reserved_count is None:
        return []
    return check_reserved_use(
        reserved_type=capacity.reserved_type,
        reserved_count=capacity.reserved_count,
        instance_type=plan.instance_type.name,
        node_count=plan.maximum,
    )


def _seconds(given: cdk.Duration | None, *, default: int) -> int:
    return default if given is None else int(given.to_seconds())
