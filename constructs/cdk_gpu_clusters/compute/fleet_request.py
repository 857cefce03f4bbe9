"""The request of a fleet from a construct's options: tokens and CDK's objects become plain values, asked for once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters._cdk import ipv4_block_of, path_of, region_of, report, resolved_or_none, stack_of, zone_of
from cdk_gpu_clusters.capacity.capacity import Capacity
from cdk_gpu_clusters.capacity.placement_group import strategy_of
from cdk_gpu_clusters.compute.fleet_mounts import node_mounts
from cdk_gpu_clusters.compute.fleet_network import FleetSubnets, select_subnets
from cdk_gpu_clusters.compute.fleet_props import FleetProps, GpuFleetProps, NodeUserDataProps
from cdk_gpu_clusters.compute.node_image import NodeImage
from cdk_gpu_clusters.fleet.node import NodeRequest
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
from cdk_gpu_clusters.node.kubernetes_node import NodeConfig
from cdk_gpu_clusters.node.mig import FabricManagerOrder
from cdk_gpu_clusters.node.ray import check_ray_nodes, ray_part, watch_with_ray
from cdk_gpu_clusters.node.settings import NodeWatch
from cdk_gpu_clusters.rules.placement import GroupOrigin


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
    options: FleetProps | None = None,
    image: NodeImage | None = None,
    drain_timeout: cdk.Duration | None = None,
    serves_models: bool = False,
) -> ResolvedFleet:
    """Resolve the options of a construct, and decide what its fleet is made of.

    Args:
        scope: The construct.
        name: Name of the fleet; the construct's path if left out.
        instance_type: Type of every node.
        profile: The orchestrator that launches the nodes.
        vpc: Network; None if the subnets are unknown here.
        options: The options of the construct.
        image: The requested machine image.
        drain_timeout: How long a drain may take.
        serves_models: Whether the nodes run model servers.
    """
    given = options or FleetProps()
    bought = given.get("capacity") or Capacity.on_demand()
    node_count, group = given.get("node_count"), given.get("placement_group")
    minimum, maximum = given.get("min_node_count"), given.get("max_node_count")
    selected = None if vpc is None else select_subnets(vpc, given.get("vpc_subnets"))
    is_located = selected is not None and not selected.is_pending_lookup
    plan = plan_fleet(
        FleetRequest(
            name=name or path_of(scope),
            instance_type=instance_type if isinstance(instance_type, str) else instance_type.to_string(),
            profile=profile,
            minimum=resolved_or_none(node_count if minimum is None else minimum),
            maximum=resolved_or_none(node_count if maximum is None else maximum),
            terms=bought.known_terms,
            reservation=ReservationFacts(
                has_placement_group=bought.placement_group is not None,
                availability_zone=resolved_or_none(bought.availability_zone),
                instance_type=bought.reserved_type,
                instance_count=bought.reserved_count,
            ),
            region=resolved_or_none(region_of(stack_of(scope))),
            efa=given.get("efa"),
            interface_policy=given.get("interface_policy"),
            placement=given.get("placement"),
            group_strategy=None if group is None else strategy_of(group),
            is_reservation_group=group is not None and group is bought.placement_group,
            image=None if image is None else image_request(image),
            mig=given.get("mig"),
            subnets=() if selected is None else _subnet_facts(selected),
            is_public=selected is not None and selected.is_public,
            serves_models=serves_models,
            ready_timeout_seconds=_seconds(given.get("ready_timeout"), default=DEFAULT_READY_TIMEOUT_SECONDS),
            drain_timeout_seconds=_seconds(drain_timeout, default=DEFAULT_DRAIN_TIMEOUT_SECONDS),
            unknown=frozenset() if is_located else frozenset({Field.NETWORK}),
        )
    )
    groups = {GroupOrigin.GIVEN: group, GroupOrigin.RESERVATION: bought.placement_group}
    return ResolvedFleet(
        plan=plan,
        capacity=bought,
        subnets=() if selected is None else selected.subnets,
        is_public=selected is not None and selected.is_public,
        placement_group=groups.get(plan.placement.origin),
        image=image,
    )


def node_request(
    options: FleetProps | NodeUserDataProps,
    *,
    log_group_name: str,
    evidence_uri: str | None,
    node_config: NodeConfig | None = None,
    slurm_version: str | None = None,
    inspection_seconds: int = 0,
    metadata_users: Sequence[str] = ("*",),
) -> NodeRequest:
    """What the options of a construct request of its nodes.

    Args:
        options: The options of the construct.
        log_group_name: Log group of the nodes.
        evidence_uri: Where they leave evidence; None for nowhere.
        node_config: How EKS nodes are set up; None on others.
        slurm_version: Version of Slurm on PCS nodes; None on others.
        inspection_seconds: How long a node is kept if it failed its boot and launches are suspended.
        metadata_users: Users who reach the instance metadata service, beside root; `*` for all.
    """
    return NodeRequest(
        environment=options.get("environment") or {},
        user_parts=tuple(options.get("user_data_parts", ())),
        files=tuple(options.get("node_files", ())),
        fabric_manager_order=options.get("fabric_manager_order", FabricManagerOrder.AFTER),
        mounts=node_mounts(options.get("mounts") or {}, options.get("read_only_mounts", ())),
        scratch=options.get("scratch", True),
        watch=options.get("watch") or NodeWatch(),
        exporters=options.get("exporters"),
        log_group_name=log_group_name,
        evidence_uri=evidence_uri,
        node_config=node_config,
        slurm_version=slurm_version,
        metadata_users=tuple(metadata_users),
        inspection_seconds=inspection_seconds,
    )


def with_ray(scope: Construct, options: GpuFleetProps) -> GpuFleetProps:
    """The options of a fleet; where its nodes run Ray, with the part that starts it, last, and its unit as a job.

    Args:
        scope: The fleet.
        options: Its options.

    Raises:
        ConfigError: GPU-RAY-012, -013.
    """
    ray = options.get("ray")
    if ray is None:
        return options
    report(
        scope,
        check_ray_nodes(
            ray,
            is_split=options.get("mig") is not None,
            head_is_known=not cdk.Token.is_unresolved(ray.head),
        ),
    )
    parts = [*options.get("user_data_parts", ()), ray_part(ray)]
    return {**options, "user_data_parts": parts, "watch": watch_with_ray(options.get("watch") or NodeWatch())}


def image_request(image: NodeImage) -> ImageRequest:
    """An image as plain values."""
    is_own = image.image_id is not None or image.parameter is not None
    return ImageRequest(operating_system=image.operating_system, framework=image.framework, is_own=is_own)


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
