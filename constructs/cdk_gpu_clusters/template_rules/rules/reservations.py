"""Capacity reservations, and the launches and groups that use them."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.capacity_checks import (
    FOREIGN_PLACEMENT_GROUP,
    RESERVATION_COUNT,
    RESERVATION_END,
    RESERVATION_GROUP_ARN,
    RESERVATION_ID,
    RESERVATION_PLACEMENT,
    RESERVED_SIZE,
    RESERVED_TYPE,
    check_capacity,
    check_new_reservation,
    check_reserved_use,
)
from cdk_gpu_clusters.rules.fleet import RESERVATION_ZONE, RESERVED_ONE_ZONE
from cdk_gpu_clusters.rules.placement import PlacementStrategy
from cdk_gpu_clusters.template_rules.case import Resource, Value, target_of
from cdk_gpu_clusters.template_rules.lookups.capacity import (
    PLACEMENT_GROUP,
    RESERVATIONS,
    market_type_of,
    placement_group_in_arn,
    placements_of,
    reservation_of,
    reservation_target,
    strategy_of,
)
from cdk_gpu_clusters.template_rules.lookups.groups import most_nodes_of, users_of
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of, launches
from cdk_gpu_clusters.template_rules.lookups.network import (
    is_same_zone,
    known_zone_of,
    subnets_by_user,
    subnets_outside_zone,
    zone_in,
)
from cdk_gpu_clusters.template_rules.rule import (
    Fault,
    NotApplicable,
    applicable,
    define_template_rule,
    faults_of,
    template_rule,
)


@template_rule(
    RESERVATION_ID,
    cause="that is not the id of a Capacity Reservation or Capacity Block",
    fix="give cr- and the hexadecimal digits that DescribeCapacityReservations shows",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget/CapacityReservationId",),
)
def reservation_id(resource: Resource) -> Iterator[Fault]:
    named = _named_in_target(resource, "CapacityReservationId")
    terms = CapacityTerms(kind=CapacityKind.RESERVATION, reservation_id=named.text())
    for _, record in launch_of(resource).records()[:1]:
        yield from faults_of(RESERVATION_ID, check_capacity(terms, record), named)


def _named_in_target(resource: Resource, key: str) -> Value:
    """The id of a reservation, or the ARN of a group of them, that a launch names as text."""
    named = reservation_target(launch_of(resource)).get(key)
    if not named.exists or named.reference:
        raise NotApplicable
    if not named.text():
        raise named.undecidable("it is empty until you fill it in")
    return named


@template_rule(
    RESERVATION_GROUP_ARN,
    cause="that is not the ARN of a resource group",
    fix="give the ARN of the resource group that holds the reservations",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cr-groups.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget/CapacityReservationResourceGroupArn",
    ),
)
def reservation_group_arn(resource: Resource) -> Iterator[Fault]:
    named = _named_in_target(resource, "CapacityReservationResourceGroupArn")
    terms = CapacityTerms(kind=CapacityKind.RESERVATION, reservation_group_arn=named.text())
    for _, record in launch_of(resource).records()[:1]:
        yield from faults_of(RESERVATION_GROUP_ARN, check_capacity(terms, record), named)


@template_rule(
    FOREIGN_PLACEMENT_GROUP,
    cause="the reservation was not made in that placement group, so that a part of it cannot be launched",
    fix="name the placement group of the reservation, or none",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cr-cpg.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/Placement/GroupName",
        "LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget",
        "LaunchTemplateData/InstanceMarketOptions/MarketType",
        "AWS::EC2::CapacityReservation/PlacementGroupArn",
    ),
)
def group_of_reservation(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    target = reservation_target(launch)
    if not target.exists or market_type_of(launch) == "capacity-block":
        raise NotApplicable  # a Capacity Block is in no group
    reservation = reservation_of(launch)
    named = placements_of(launch)
    if reservation is None:
        raise target.undecidable("which placement group the reservation was made in is not in the template")
    arn = reservation.get("PlacementGroupArn")
    if not arn.exists:
        for value in named:
            yield Fault(at=value, got="a placement group", allowed="none, as the reservation")
        return
    group = placement_group_in_arn(arn)
    for value in named:  # without one, the reservation alone decides the place of the nodes
        other = target_of(value, PLACEMENT_GROUP)
        if group is None or other is None:
            raise value.undecidable("this placement group is not in the template")
        if other != group:
            yield Fault(at=value, got=other.logical_id, allowed=group.logical_id)


@template_rule(
    RESERVATION_COUNT,
    cause="EC2 refuses a reservation of that many instances",
    fix="split it into several reservations",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-capacityreservation.html",
    on=RESERVATIONS,
    looks_at=("InstanceCount",),
)
def reservation_count(resource: Resource) -> Iterator[Fault]:
    count = resource.get("InstanceCount")
    findings = check_new_reservation(instance_count=count.integer() or 0, ends_at=None, unlimited=True)
    yield from faults_of(RESERVATION_COUNT, findings, count)


@template_rule(
    RESERVATION_END,
    severity=Severity.WARNING,
    cause="a reservation bills whether it is used or not, and a forgotten one bills without end",
    fix="set EndDateType to limited and give EndDate, or set it to unlimited",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-capacityreservation.html",
    on=RESERVATIONS,
    looks_at=("EndDateType", "EndDate"),
)
def reservation_end(resource: Resource) -> Iterator[Fault]:
    kind, end = resource.get("EndDateType"), resource.get("EndDate")
    end_type = kind.text()
    if end_type == "unlimited" and end.exists:
        yield Fault(at=end, got="unlimited, and an end date", allowed="one of the two")
    if end_type == "limited" and not end.exists:
        yield Fault(at=kind, got="limited, and no end date", allowed="EndDate")
    if end_type is None and not end.exists:
        yield Fault(at=kind, got="neither", allowed="EndDateType limited with EndDate, or unlimited")


@template_rule(
    RESERVATION_PLACEMENT,
    cause="a reservation can be made only in a cluster placement group",
    fix="use a cluster placement group, or none",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cr-cpg.html",
    on=RESERVATIONS,
    looks_at=("PlacementGroupArn", "AWS::EC2::PlacementGroup/Strategy"),
)
def reservation_placement(resource: Resource) -> Iterator[Fault]:
    arn = resource.get("PlacementGroupArn")
    if not arn.exists:
        raise NotApplicable
    group = placement_group_in_arn(arn)
    if group is None:
        raise arn.undecidable("this placement group is not in the template")
    strategy = strategy_of(group)
    if strategy is not PlacementStrategy.CLUSTER:
        yield Fault(at=arn, got=strategy.value, allowed=PlacementStrategy.CLUSTER.value)


@template_rule(
    RESERVED_TYPE,
    cause="the reservation holds instances of another type, so that no launch into it succeeds",
    fix="reserve the type of the nodes",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/InstanceType",
        "LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget",
        "AWS::EC2::CapacityReservation/InstanceType",
    ),
)
def reserved_type(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    reservation = reservation_of(launch)
    types = launch.instance_types()
    if reservation is None:
        raise NotApplicable
    reserved = reservation.get("InstanceType")
    for value in applicable(types):
        if not value.is_same_as(reserved):
            findings = check_reserved_use(
                reserved_type=reserved.text() or "",
                reserved_count=0,
                instance_type=value.text() or "",
                node_count=0,
            )
            yield from faults_of(RESERVED_TYPE, findings, value)


@template_rule(
    RESERVED_SIZE,
    cause="launches beyond the reservation fail",
    fix="raise InstanceCount, or lower the greatest sizes of the groups",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html",
    on=RESERVATIONS,
    looks_at=("InstanceCount", "greatest size of the resources that launch into it"),
)
def reserved_size(resource: Resource) -> Iterator[Fault]:
    into_it = [launch for launch in launches(resource.case) if reservation_of(launch) == resource]
    users = applicable([user for launch in into_it for user in users_of(launch)])
    count = resource.get("InstanceCount")
    kind = resource.get("InstanceType").text() or ""
    findings = check_reserved_use(
        reserved_type=kind,
        reserved_count=count.integer() or 0,
        instance_type=kind,
        node_count=sum(map(most_nodes_of, users)),
    )
    yield from faults_of(RESERVED_SIZE, findings, count, own_fix=True)


_POOL = "AWS::EC2::CapacityReservationPool"

_ONLY = "AWS::ResourceGroups::Generic"


@define_template_rule(
    "GPU-CAP-034",
    "a group of reservations is a pool of reservations, and takes nothing else",
    source='AWS EC2 user guide, "Capacity Reservation Resource Groups", create a group',
    cause="EC2 launches only into a resource group that is configured as a pool of reservations",
    fix="add both types to Configuration, the second with allowed-resource-types AWS::EC2::CapacityReservation",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cr-groups-create.html",
    on=("AWS::ResourceGroups::Group",),
    looks_at=("Configuration/*/Type", "LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget"),
)
def reservation_pool(resource: Resource) -> Iterator[Fault]:
    configuration = resource.get("Configuration")
    types = {item.get("Type").text() for item in configuration.items()}
    if _POOL not in types and not _is_targeted(resource):
        raise NotApplicable
    for needed in (_POOL, _ONLY):
        if needed not in types:
            yield Fault(at=configuration, got=f"no {needed}", allowed=f"{_POOL} and {_ONLY}")


def _is_targeted(group: Resource) -> bool:
    return any(
        group.is_target_of(reservation_target(launch).get("CapacityReservationResourceGroupArn"))
        for launch in launches(group.case)
    )


@define_template_rule(
    "GPU-CAP-036",
    "a reservation serves only the launches that name it, or is explicitly open to all",
    source='AWS EC2 user guide, "On-Demand Capacity Reservations", instance eligibility',
    severity=Severity.WARNING,
    cause="any matching instance of the account takes a place, and the nodes that it is for find it full",
    fix="set InstanceMatchCriteria to targeted, and name the reservation in the launch template",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-capacityreservation.html",
    on=RESERVATIONS,
    looks_at=("InstanceMatchCriteria",),
)
def targeted_reservation(resource: Resource) -> Iterator[Fault]:
    criteria = resource.get("InstanceMatchCriteria")
    if criteria.text() is None:
        yield Fault(at=criteria, got="open, by default", allowed="targeted, or an explicit open")


@template_rule(
    RESERVATION_ZONE,
    cause="no node in another zone can be launched into the reservation",
    fix="name a subnet in the zone of the reservation",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget",
        "subnets of the resources that use the launch template",
        "AWS::EC2::Subnet/AvailabilityZone",
        "AWS::EC2::CapacityReservation/AvailabilityZone",
    ),
)
def reservation_zone(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    reservation = reservation_of(launch)
    zone = None if reservation is None else zone_in(reservation)
    if zone is None:
        raise NotApplicable
    for value in (value for values in subnets_by_user(launch) for value in values):
        other = known_zone_of(value)
        if not is_same_zone(zone, other):
            yield Fault(at=value, got=other.text() or "", allowed=zone.text() or "")


@template_rule(
    RESERVED_ONE_ZONE,
    cause="a reservation is in one zone: launches into another one fail, and the group lacks nodes",
    fix="name subnets of the zone of the reservation",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget",
        "subnets of the resources that use the launch template",
        "AWS::EC2::Subnet/AvailabilityZone",
    ),
)
def reserved_one_zone(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    if not reservation_target(launch).get("CapacityReservationId").exists:
        raise NotApplicable
    for subnet, zones in subnets_outside_zone(launch):
        yield Fault(at=subnet, got=zones, allowed="subnets of one zone")
