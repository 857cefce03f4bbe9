"""The request of a fleet from a construct's options: tokens and CDK's objects become plain values, asked for once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters._cdk import known, path_of, region_of, stack_of
from cdk_gpu_clusters.capacity.capacity import Capacity
from cdk_gpu_clusters.capacity.placement_group import strategy_of
from cdk_gpu_clusters.compute.fleet_subnets import FleetSubnets, ipv4_block_of, select_subnets, zone_of
from cdk_gpu_clusters.compute.node_image import NodeImage
from cdk_gpu_clusters.fleet.plan import FleetPlan, plan_fleet
from cdk_gpu_clusters.fleet.profile import EC2, OrchestratorProfile
from cdk_gpu_clusters.fleet.request import (
    DEFAULT_DRAIN_TIMEOUT_SECONDS,
    DEFAULT_READY_TIMEOUT_SECONDS,
    Field,
    FleetRequest,
    ImageRequest,
    ReservationFacts,
    SubnetFacts,
)
from cdk_gpu_clusters.rules.interfaces import InterfacePolicy
from cdk_gpu_clusters.rules.mig import MigLayout
from cdk_gpu_clusters.rules.placement import GroupOrigin, PlacementStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedFleet:
    """The plan of a fleet with CDK's objects that its resources need.

    Attributes:
        plan: What was decided.
        capacity: How the nodes are bought; its ids may be tokens.
        subnets: Subnets of the nodes.
        is_public: Whether one of them is a public subnet.
        placement_group: An existing placement group to use; None if one is made, or none is used.
        image: The requested machine image.
    """

    plan: FleetPlan
    capacity: Capacity
    subnets: Sequence[ec2.ISubnet]
    is_public: bool
    placement_group: ec2.IPlacementGroup | None
    image: NodeImage | None


def resolve_fleet(
    scope: Construct,
    *,
    name: str | None = None,
    instance_type: str | ec2.InstanceType,
    profile: OrchestratorProfile = EC2,
    vpc: ec2.IVpc | None = None,
    vpc_subnets: ec2.SubnetSelection | None = None,
    node_count: int | None = None,
    min_node_count: int | None = None,
    max_node_count: int | None = None,
    capacity: Capacity | None = None,
    efa: bool | None = None,
    interface_policy: InterfacePolicy | None = None,
    placement: PlacementStrategy | None = None,
    placement_group: ec2.IPlacementGroup | None = None,
    image: NodeImage | None = None,
    mig: MigLayout | Sequence[MigLayout] | None = None,
    ready_timeout: cdk.Duration | None = None,
    drain_timeout: cdk.Duration | None = None,
    serves_models: bool = False,
) -> ResolvedFleet:
    """Resolve the options of a construct, and decide what its fleet is made of.

    Args:
        scope: The construct.
        name: Name of the fleet; the construct's path if left out.
        instance_type: As in `GpuFleet`, like all options that are not listed here.
        profile: The orchestrator that launches the nodes.
        vpc: Network; None if the subnets are unknown here.
        vpc_subnets: Subnets.
        node_count: Fixed size.
        min_node_count: Least nodes.
        max_node_count: Most nodes.
        capacity: Capacity.
        efa: EFA.
        interface_policy: Layout of the interfaces.
        placement: Strategy.
        placement_group: Existing group.
        image: Image.
        mig: MIG layout.
        ready_timeout: How long a boot may take.
        drain_timeout: How long a drain may take.
        serves_models: Whether the nodes run model servers.
    """
    bought = capacity or Capacity.on_demand()
    selected = None if vpc is None else select_subnets(vpc, vpc_subnets)
    minimum = node_count if min_node_count is None else min_node_count
    maximum = node_count if max_node_count is None else max_node_count
    is_located = selected is not None and not selected.is_pending_lookup
    plan = plan_fleet(
        FleetRequest(
            name=name or path_of(scope),
            instance_type=instance_type if isinstance(instance_type, str) else instance_type.to_string(),
            profile=profile,
            minimum=known(minimum),
            maximum=known(maximum),
            terms=bought.known_terms,
            reservation=ReservationFacts(
                has_placement_group=bought.placement_group is not None,
                availability_zone=known(bought.availability_zone),
                instance_type=bought.reserved_type,
                instance_count=bought.reserved_count,
            ),
            region=known(region_of(stack_of(scope))),
            efa=efa,
            interface_policy=interface_policy,
            placement=placement,
            group_strategy=None if placement_group is None else strategy_of(placement_group),
            is_reservation_group=placement_group is not None and placement_group is bought.placement_group,
            image=None if image is None else image_request(image),
            mig=mig,
            subnets=() if selected is None else _subnet_facts(selected),
            is_public=selected is not None and selected.is_public,
            serves_models=serves_models,
            ready_timeout_seconds=_seconds(ready_timeout, default=DEFAULT_READY_TIMEOUT_SECONDS),
            drain_timeout_seconds=_seconds(drain_timeout, default=DEFAULT_DRAIN_TIMEOUT_SECONDS),
            unknown=frozenset() if is_located else frozenset({Field.NETWORK}),
        )
    )
    groups = {GroupOrigin.GIVEN: placement_group, GroupOrigin.RESERVATION: bought.placement_group}
    return ResolvedFleet(
        plan=plan,
        capacity=bought,
        subnets=() if selected is None else selected.subnets,
        is_public=selected is not None and selected.is_public,
        placement_group=groups.get(plan.placement.origin),
        image=image,
    )


def image_request(image: NodeImage) -> ImageRequest:
    """An image as plain values."""
    is_own = image.image_id is not None or image.parameter is not None
    return ImageRequest(operating_system=image.operating_system, is_own=is_own)


def _subnet_facts(selected: FleetSubnets) -> tuple[SubnetFacts, ...]:
    is_single = len(selected.subnets) == 1
    return tuple(
        SubnetFacts(
            name=path_of(subnet),
            zone=zone_of(subnet),
            ipv4_block=ipv4_block_of(subnet) if is_single else None,
        )
        for subnet in selected.subnets
    )


def _seconds(given: cdk.Duration | None, *, default: int) -> int:
    return default if given is None else int(given.to_seconds())
