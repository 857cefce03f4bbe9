"""Placement groups."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules import placement
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import (
    PLACEMENT_GROUP,
    placements_of,
    reservation_target,
    strategies_of,
)
from cdk_gpu_clusters.template_rules.lookups.groups import most_nodes_of, users_of
from cdk_gpu_clusters.template_rules.lookups.launches import INSTANCE, LAUNCHES, efa_launch, launch_of
from cdk_gpu_clusters.template_rules.lookups.network import subnets_of, subnets_outside_zone
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, applicable, faults_of, template_rule


@template_rule(
    placement.STRATEGY_OF_TYPE,
    cause="EC2 refuses to launch the type into such a placement group",
    fix="choose a supported strategy, or none",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/Placement/GroupName",
        "AWS::EC2::PlacementGroup/Strategy",
        "LaunchTemplateData/InstanceType",
    ),
)
def placement_strategy(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    for value, strategy in strategies_of(launch):
        for _, record in launch.records():
            yield from faults_of(placement.STRATEGY_OF_TYPE, placement.check_placement(record, strategy), value)


@template_rule(
    placement.PARTITION_COUNT,
    cause="EC2 refuses a partition placement group with that many partitions",
    fix="choose a number from 1 to 7",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html",
    on=(PLACEMENT_GROUP,),
    looks_at=("PartitionCount",),
)
def partition_count(resource: Resource) -> Iterator[Fault]:
    count = resource.get("PartitionCount")
    yield from faults_of(placement.PARTITION_COUNT, placement.check_partition_count(applicable(count.integer())), count)


@template_rule(
    placement.SPREAD_SIZE,
    cause="EC2 runs no more than 7 instances of a spread group in a zone, and launches no others",
    fix="use a partition group, more zones, or no placement group",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/Placement/GroupName",
        "AWS::EC2::PlacementGroup/Strategy",
        "greatest size and subnets of the resources that use the launch template",
    ),
)
def spread_size(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    spread = applicable(
        [value for value, strategy in strategies_of(launch) if strategy is placement.PlacementStrategy.SPREAD]
    )
    for user in users_of(launch):
        zones = max(1, len(subnets_of(user)))  # not fewer than there are
        nodes = most_nodes_of(user)
        for _, record in launch.records():
            findings = placement.check_placement(
                record, placement.PlacementStrategy.SPREAD, node_count=nodes, zone_count=zones
            )
            yield from faults_of(placement.SPREAD_SIZE, findings, spread[0])


@template_rule(
    placement.EFA_APART,
    severity=Severity.WARNING,
    cause="this strategy puts nodes apart that exchange EFA traffic",
    fix="use the strategy cluster",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/Placement/GroupName",
        "AWS::EC2::PlacementGroup/Strategy",
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
    ),
)
def efa_apart(resource: Resource) -> Iterator[Fault]:
    launch = efa_launch(resource)
    for value, strategy in strategies_of(launch):
        for _, record in launch.records():
            findings = placement.check_placement(record, strategy, efa=True)
            yield from faults_of(placement.EFA_APART, findings, value, own_fix=True)


@template_rule(
    placement.CLUSTER_ZONES,
    cause="a cluster placement group cannot span zones: launches into the second one fail",
    fix="name subnets of one zone, or use another strategy",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/Placement/GroupName",
        "AWS::EC2::PlacementGroup/Strategy",
        "subnets of the resources that use the launch template",
        "AWS::EC2::Subnet/AvailabilityZone",
    ),
)
def cluster_zone(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    if all(strategy is not placement.PlacementStrategy.CLUSTER for _, strategy in strategies_of(launch)):
        raise NotApplicable
    for subnet, zones in subnets_outside_zone(launch):
        yield Fault(at=subnet, got=zones, allowed="subnets of one zone")


@template_rule(
    placement.EFA_TOGETHER,
    severity=Severity.WARNING,
    cause="nodes that exchange EFA traffic may land far apart in the zone, which slows every collective operation",
    fix="add an AWS::EC2::PlacementGroup of strategy cluster and name it in Placement/GroupName",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/Placement",
        "LaunchTemplateData/CapacityReservationSpecification",
        "LaunchTemplateData/NetworkInterfaces/*/InterfaceType",
        "AWS::AutoScaling::AutoScalingGroup/PlacementGroup",
    ),
)
def efa_together(resource: Resource) -> Iterator[Fault]:
    launch = efa_launch(resource)
    if resource.type == INSTANCE:
        raise NotApplicable  # a single node has no other node to be close to
    if placements_of(launch) or reservation_target(launch).exists:
        return
    users = users_of(launch)
    if not users:
        raise launch.data.undecidable("what launches from it, maybe into a group, is not in the template")
    if any(most_nodes_of(user) > 1 for user in users):
        yield Fault(at=launch.data.get("Placement"), got="no placement group", allowed="a group of strategy cluster")
