"""Capacity: market types, Capacity Blocks, and the groups and fleets that launch into them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from cdk_gpu_clusters.catalogue import InstanceType
from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters.rules.capacity import CapacityKind, CapacityTerms
from cdk_gpu_clusters.rules.capacity_checks import (
    BLOCK_REGION,
    BLOCK_SIZE,
    BLOCK_WITH_PLACEMENT_GROUP,
    ONLY_ULTRASERVER,
    SPOT_PRICE,
    TYPE_WITHOUT_BLOCKS,
    ULTRASERVER_NODES,
    check_capacity,
)
from cdk_gpu_clusters.rules.zones import TYPE_OFFERED, ZONE_FORM, check_zone, read_zone
from cdk_gpu_clusters.template_rules.case import Resource, Value
from cdk_gpu_clusters.template_rules.lookups.capacity import (
    RESERVATIONS,
    block_launch,
    capacity_kind_of,
    market_type_of,
    placements_of,
    reservation_of,
    reservation_target,
)
from cdk_gpu_clusters.template_rules.lookups.groups import (
    AUTO_SCALING_GROUP,
    SCALING_POLICY,
    SCHEDULED_ACTION,
    WARM_POOL,
    automation_of,
    launch_of_group,
    most_nodes_of,
    related_to,
    users_of,
)
from cdk_gpu_clusters.template_rules.lookups.launches import (
    LAUNCHES,
    Launch,
    accelerated_launch,
    launch_named_by,
    launch_of,
    values_at,
)
from cdk_gpu_clusters.template_rules.lookups.network import SUBNET, known_zone_of, subnets_used, zone_in
from cdk_gpu_clusters.template_rules.rule import (
    Fault,
    NotApplicable,
    applicable,
    define_template_rule,
    faults_of,
    template_rule,
)


def _findings(
    launch: Launch, record: InstanceType, *, node_count: int | None = None, region: str | None = None
) -> list[Finding]:
    """What `check_capacity` finds in the terms of a launch."""
    terms = CapacityTerms(kind=capacity_kind_of(launch, record))
    return check_capacity(terms, record, node_count=node_count, region=region)


_SIZE_OF_BLOCK = (
    "LaunchTemplateData/InstanceMarketOptions/MarketType",
    "LaunchTemplateData/InstanceType",
    "greatest size of the resources that use the launch template",
)


@template_rule(
    BLOCK_WITH_PLACEMENT_GROUP,
    cause="a launch into a Capacity Block may not name a placement group",
    fix="leave the placement group out: the block's instances are already close together",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/InstanceMarketOptions/MarketType",
        "LaunchTemplateData/Placement/GroupName",
        "LaunchTemplateData/Placement/GroupId",
        "AWS::AutoScaling::AutoScalingGroup/PlacementGroup",
    ),
)
def block_placement(resource: Resource) -> Iterator[Fault]:
    for named in placements_of(block_launch(resource)):
        yield Fault(at=named, got=named.shown(), allowed="none")


@template_rule(
    TYPE_WITHOUT_BLOCKS,
    cause="there is no Capacity Block of this type to launch into",
    fix="use a type that is sold as blocks, or leave the market type out",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/InstanceType", "LaunchTemplateData/InstanceMarketOptions/MarketType"),
)
def sold_as_blocks(resource: Resource) -> Iterator[Fault]:
    launch = block_launch(resource)
    for value, record in launch.records():
        yield from faults_of(TYPE_WITHOUT_BLOCKS, _findings(launch, record), value)


@template_rule(
    ONLY_ULTRASERVER,
    cause="the type is sold only as UltraServer Capacity Block: it cannot be launched otherwise",
    fix="set MarketType to capacity-block, and name the resource group of the block",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/InstanceType", "LaunchTemplateData/InstanceMarketOptions/MarketType"),
)
def ultraserver_block(resource: Resource) -> Iterator[Fault]:
    launch = accelerated_launch(resource)
    rack_types = [(value, record) for value, record in launch.records() if record.ultraservers]
    for value, record in applicable(rack_types):
        findings, allowed = _findings(launch, record), "MarketType capacity-block"
        yield from faults_of(ONLY_ULTRASERVER, findings, value, allowed=allowed, own_fix=True)


@template_rule(
    ULTRASERVER_NODES,
    severity=Severity.WARNING,
    cause="an UltraServer block is sold in complete UltraServers: instances that are not launched are billed, too",
    fix="set the maximum size to the number of instances of the UltraServers in the block",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html",
    on=LAUNCHES,
    looks_at=_SIZE_OF_BLOCK,
)
def ultraserver_size(resource: Resource) -> Iterator[Fault]:
    launch = block_launch(resource)
    records = [record for _, record in launch.records() if record.ultraservers]
    for user, record in applicable(list(product(users_of(launch), records))):
        findings = _findings(launch, record, node_count=most_nodes_of(user))
        # not the cause of the finding: launches of a part of the block succeed
        yield from faults_of(ULTRASERVER_NODES, findings, user, own_cause=True, own_fix=True)


@template_rule(
    BLOCK_SIZE,
    cause="one group takes one Capacity Block, and launches beyond its 64 instances fail",
    fix="make one group for each block",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html",
    on=LAUNCHES,
    looks_at=_SIZE_OF_BLOCK,
)
def block_size(resource: Resource) -> Iterator[Fault]:
    launch = block_launch(resource)
    if reservation_target(launch).get("CapacityReservationResourceGroupArn").exists:
        raise NotApplicable  # a resource group holds several blocks
    records = [record for _, record in launch.records() if not record.ultraservers]
    for user, record in applicable(list(product(users_of(launch), records))):
        findings = _findings(launch, record, node_count=most_nodes_of(user))
        yield from faults_of(BLOCK_SIZE, findings, user, own_fix=True)


@template_rule(
    BLOCK_REGION,
    severity=Severity.WARNING,
    cause="there may be no Capacity Block of this type to launch into",
    fix="check the Region; the list is of mid-2026 and may have grown",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/InstanceMarketOptions/MarketType",
        "LaunchTemplateData/InstanceType",
        "subnets of the resources that use the launch template",
        "AWS::EC2::Subnet/AvailabilityZone",
    ),
)
def block_region(resource: Resource) -> Iterator[Fault]:
    launch = block_launch(resource)
    for value in subnets_used(launch):
        zone = read_zone(known_zone_of(value).text() or "")
        for _, record in launch.records():
            findings = _findings(launch, record, region=zone.region if zone else None)
            yield from faults_of(BLOCK_REGION, findings, value)


@template_rule(
    SPOT_PRICE,
    cause="EC2 refuses a spot price limit of 0.001 US dollars or less",
    fix="leave the limit out to pay at most the on-demand price",
    url="https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_SpotMarketOptions.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/InstanceMarketOptions/SpotOptions/MaxPrice",),
)
def spot_price(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    limit = launch.data.get("InstanceMarketOptions", "SpotOptions", "MaxPrice")
    terms = CapacityTerms(kind=CapacityKind.SPOT, max_price_usd_per_hour=applicable(limit.number()))
    for _, record in launch.records()[:1]:
        yield from faults_of(SPOT_PRICE, check_capacity(terms, record), limit)


@define_template_rule(
    "GPU-CAP-030",
    "the market type fits the reservation that the launch uses",
    source='AWS EC2 user guide, "Launch instances using Capacity Blocks"; awslabs/awsome-distributed-ai 1258',
    cause="EC2 refuses a launch whose market type is not that of the reservation",
    fix="use capacity-block with the id of a Capacity Block, and no market type with an On-Demand Capacity Reservation",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-launch.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/InstanceMarketOptions/MarketType",
        "LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget",
    ),
)
def market_type(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    market = launch.data.get("InstanceMarketOptions", "MarketType")
    target = reservation_target(launch)
    if not (market.exists or target.exists):
        raise NotApplicable
    market_type = market.text()
    if market_type == "capacity-block" and not target.exists:
        yield Fault(
            at=market,
            got="capacity-block without a reservation",
            allowed="CapacityReservationTarget with the id of the block",
            cause="a launch into a Capacity Block names the block",
            fix="add CapacityReservationSpecification/CapacityReservationTarget/CapacityReservationId",
        )
    if market_type == "spot" and target.exists:
        yield Fault(
            at=market,
            got="spot with a reservation",
            allowed="one of the two",
            cause="spot instances are not launched into a reservation",
            fix="remove InstanceMarketOptions, or the reservation",
        )
    reservation = reservation_of(launch)
    if market_type == "capacity-block" and reservation is not None:
        yield Fault(
            at=market,
            got=f"capacity-block with {reservation.logical_id}, an On-Demand Capacity Reservation",
            allowed="no market type",
            cause="CloudFormation makes no Capacity Blocks: this reservation is launched into without a market type",
            fix="remove InstanceMarketOptions",
        )


@define_template_rule(
    "GPU-CAP-031",
    "a group on a Capacity Block has no mixed instances policy",
    source='EC2 Auto Scaling guide, "Use Capacity Blocks for machine learning workloads"',
    cause="EC2 Auto Scaling refuses a mixed instances policy with a Capacity Block",
    fix="name the launch template in LaunchTemplate, without a policy",
    url="https://docs.aws.amazon.com/autoscaling/ec2/userguide/launch-template-capacity-blocks.html",
    on=(AUTO_SCALING_GROUP,),
    looks_at=("MixedInstancesPolicy", "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceMarketOptions/MarketType"),
)
def block_without_mix(resource: Resource) -> Iterator[Fault]:
    if market_type_of(launch_of_group(resource)) != "capacity-block":
        raise NotApplicable
    mix = resource.get("MixedInstancesPolicy")
    segments = mix.get("InstancesDistribution", "DistributionSegments")  # the newer way, with its own rules
    if mix.exists and not segments.exists:
        yield Fault(at=mix, got="MixedInstancesPolicy", allowed="LaunchTemplate")


_DISTRIBUTION = ("MixedInstancesPolicy", "InstancesDistribution")


@define_template_rule(
    "GPU-CAP-032",
    "a group on a Capacity Block or on spot, with weights or with distribution segments has no warm pool",
    source='EC2 Auto Scaling guide, warm pools, "Limitations"; "Use Capacity Blocks for machine learning '
    'workloads"; "Use Distribution Segments"',
    cause="EC2 Auto Scaling refuses a warm pool for such a group",
    fix="remove the warm pool",
    url="https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-warm-pools.html",
    on=(AUTO_SCALING_GROUP,),
    looks_at=(
        "MixedInstancesPolicy",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceMarketOptions/MarketType",
        "AWS::AutoScaling::WarmPool/AutoScalingGroupName",
    ),
)
def no_warm_pool(resource: Resource) -> Iterator[Fault]:
    reason = _reason(resource)
    if not reason:
        raise NotApplicable
    for pool in related_to(resource, WARM_POOL):
        yield Fault(at=pool, got=f"a warm pool of a group with {reason}", allowed="none")


def _reason(group: Resource) -> str:
    """What keeps a group from having a warm pool; empty if nothing does. Several types alone do not."""
    if group.get(*_DISTRIBUTION, "DistributionSegments").exists:
        return "distribution segments"
    if values_at(group.properties, "MixedInstancesPolicy/LaunchTemplate/Overrides/*/WeightedCapacity"):
        return "weights of instance types"
    on_demand = group.get(*_DISTRIBUTION, "OnDemandPercentageAboveBaseCapacity").integer()
    if on_demand is not None and on_demand < 100:  # 100 by default
        return "spot instances in its mixed instances policy"
    market = market_type_of(launch_of_group(group))
    return {"spot": "spot instances", "capacity-block": "a Capacity Block"}.get(market or "", "")


@define_template_rule(
    "GPU-CAP-033",
    "a group on a Capacity Block goes to zero before the block ends",
    source='EC2 Auto Scaling guide, "Use Capacity Blocks": scale to zero more than 30 minutes before the end',
    severity=Severity.WARNING,
    cause="EC2 terminates the nodes and their jobs 30 minutes before the end, and the group tries to replace them",
    fix="add an AWS::AutoScaling::ScheduledAction that sets the size to 0, 40 minutes before the end",
    url="https://docs.aws.amazon.com/autoscaling/ec2/userguide/launch-template-capacity-blocks.html",
    on=(AUTO_SCALING_GROUP,),
    looks_at=(
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceMarketOptions/MarketType",
        "AWS::AutoScaling::ScheduledAction",
        "state machines, schedules and functions that name the group",
    ),
)
def drained_block(resource: Resource) -> Iterator[Fault]:
    if market_type_of(launch_of_group(resource)) != "capacity-block":
        raise NotApplicable
    if automation_of(resource) or any(_empties(action) for action in related_to(resource, SCHEDULED_ACTION)):
        return
    yield Fault(at=resource, got="nothing that sets its size to 0", allowed="a scheduled action, or a state machine")


def _empties(action: Resource) -> bool:
    return any(action.get(key).integer() == 0 for key in ("DesiredCapacity", "MaxSize"))


# They name the types themselves; EKS, PCS and EC2 Auto Scaling ask for that of the launch template even so.
_NAME_TYPES = ("AWS::Batch::ComputeEnvironment", "AWS::EC2::EC2Fleet", "AWS::EC2::Instance")


@define_template_rule(
    "GPU-CAP-035",
    "a launch template for a Capacity Block names the instance type",
    source='AWS EC2 user guide, "Launch instances using Capacity Blocks"; EKS user guide, "Capacity Blocks for ML"',
    cause="a launch into a Capacity Block is refused if the launch template leaves the instance type open",
    fix="set InstanceType to the type of the block",
    url="https://docs.aws.amazon.com/autoscaling/ec2/userguide/launch-template-capacity-blocks.html",
    on=LAUNCHES,
    looks_at=("LaunchTemplateData/InstanceType", "LaunchTemplateData/InstanceMarketOptions/MarketType"),
)
def block_names_type(resource: Resource) -> Iterator[Fault]:
    launch = block_launch(resource)
    if any(use.resource.type in _NAME_TYPES and use.instance_types for use in launch.uses()):
        raise NotApplicable
    own = launch.data.get("InstanceType")
    if not own.exists:
        yield Fault(at=own, got="no InstanceType", allowed="the type of the block")


_OTHER_TARGETS = ("OnDemandTargetCapacity", "SpotTargetCapacity")
_RESERVED = "reserved-capacity"


@define_template_rule(
    "GPU-CAP-037",
    "an EC2 Fleet on a Capacity Block is of type instant, and its target is a block or reserved capacity",
    source='AWS EC2 user guide, "Tutorial: Configure your EC2 Fleet to launch instances into Capacity Blocks"; EC2 API '
    "reference, ReservedCapacityOptionsRequest (botocore 1.44.5)",
    cause="EC2 refuses a fleet that launches into a Capacity Block in any other way",
    fix="set Type to instant, and DefaultTargetCapacityType to capacity-block with launch templates of one block only, "
    "or to reserved-capacity with ReservedCapacityOptions that name the types of reservation",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/"
    "ec2-fleet-launch-instances-capacity-blocks-walkthrough.html",
    on=("AWS::EC2::EC2Fleet",),
    looks_at=(
        "Type",
        "TargetCapacitySpecification",
        "ReservedCapacityOptions",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/InstanceMarketOptions/MarketType",
    ),
)
def fleet_on_block(resource: Resource) -> Iterator[Fault]:
    kind = resource.get("TargetCapacitySpecification", "DefaultTargetCapacityType")
    markets = {market or "no market type" for market in _markets_of(resource)}
    options = resource.get("ReservedCapacityOptions")
    if "capacity-block" not in {kind.text(), *markets} and kind.text() != _RESERVED and not options.exists:
        raise NotApplicable
    fleet_type = resource.get("Type")
    if fleet_type.text() != "instant":
        yield Fault(at=fleet_type, got=fleet_type.text() or "maintain, by default", allowed="instant")
    if kind.text() == _RESERVED or options.exists:
        yield from _wrong_reserved_capacity(kind, options, markets)
    else:
        yield from _wrong_block_target(resource, kind, markets)


def _wrong_block_target(fleet: Resource, kind: Value, markets: set[str]) -> Iterator[Fault]:
    if markets - {"capacity-block"}:
        at, got = fleet.get("LaunchTemplateConfigs"), f"launch templates with {' and '.join(sorted(markets))}"
        yield Fault(at=at, got=got, allowed="capacity-block")
    if kind.text() != "capacity-block":
        yield Fault(at=kind, got=kind.text() or "on-demand, by default", allowed=f"capacity-block or {_RESERVED}")
    for name in _OTHER_TARGETS:
        target = fleet.get("TargetCapacitySpecification", name)
        if target.integer():
            yield Fault(at=target, got=name, allowed="TotalTargetCapacity alone")


def _wrong_reserved_capacity(kind: Value, options: Value, markets: set[str]) -> Iterator[Fault]:
    if kind.text() != _RESERVED:
        got = f"ReservedCapacityOptions beside {kind.text() or 'on-demand, by default'}"
        yield Fault(at=kind, got=got, allowed=_RESERVED)
    types = options.get("ReservationTypes")
    named = [one.text() for one in types.items()]
    if types.exists and "capacity-block" in markets and "capacity-block" not in [*named, None]:
        yield Fault(at=types, got=" and ".join(map(str, named)), allowed="capacity-block among them")
    target = options.get("CapacityReservationTarget")
    if all(target.get(key).exists for key in ("CapacityReservationIds", "CapacityReservationResourceGroupArns")):
        yield Fault(at=target, got="ids and groups of reservations", allowed="one of the two")


def _markets_of(fleet: Resource) -> Iterator[str | None]:
    for specification in values_at(fleet.properties, "LaunchTemplateConfigs/*/LaunchTemplateSpecification"):
        yield market_type_of(launch_named_by(specification))


@define_template_rule(
    "GPU-FLT-008",
    "a group whose size is set by a policy, a schedule or a state machine has no desired size in the template",
    source="AWS::AutoScaling::AutoScalingGroup reference, DesiredCapacity: CloudFormation sets the value of the "
    "template",
    severity=Severity.WARNING,
    cause="the next change of the group in the template sets this size again, and ends jobs or pays for nodes",
    fix="leave DesiredCapacity out, or set IgnoreUnmodifiedGroupSizeProperties in the update policy",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-autoscaling-autoscalinggroup.html",
    on=(AUTO_SCALING_GROUP,),
    looks_at=(
        "DesiredCapacity",
        "AWS::AutoScaling::ScalingPolicy",
        "AWS::AutoScaling::ScheduledAction",
        "state machines, schedules and functions that name the group",
    ),
)
def desired_size(resource: Resource) -> Iterator[Fault]:
    related = (*related_to(resource, SCALING_POLICY), *related_to(resource, SCHEDULED_ACTION))
    sizers = applicable([*related, *automation_of(resource)])
    kept = resource.attribute("UpdatePolicy").get("AutoScalingScheduledAction", "IgnoreUnmodifiedGroupSizeProperties")
    desired = resource.get("DesiredCapacity")
    if desired.exists and not kept.flag():
        yield Fault(at=desired, got=f"{desired.shown()} beside {sizers[0].logical_id}", allowed="none")


@define_template_rule(
    "GPU-FLT-009",
    "a group in reserved capacity terminates a node before it launches another in its place",
    source='EC2 Auto Scaling guide, "Instance maintenance policies"; CloudFormation guide, "UpdatePolicy attribute"',
    severity=Severity.WARNING,
    cause="a full reservation has no room for a new node beside the one that it replaces: updates wait, then fail",
    fix="set MaxHealthyPercentage to 100, and update by AutoScalingRollingUpdate",
    url="https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-instance-maintenance-policy.html",
    on=(AUTO_SCALING_GROUP,),
    looks_at=(
        "InstanceMaintenancePolicy/MaxHealthyPercentage",
        "UpdatePolicy/AutoScalingReplacingUpdate",
        "AWS::EC2::LaunchTemplate/LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget",
    ),
)
def terminate_first(resource: Resource) -> Iterator[Fault]:
    if not reservation_target(launch_of_group(resource)).exists:
        raise NotApplicable
    most = resource.get("InstanceMaintenancePolicy", "MaxHealthyPercentage")
    percent = most.integer()
    if percent is not None and percent > 100:
        yield Fault(at=most, got=f"{percent} percent", allowed="100")
    replace = resource.attribute("UpdatePolicy").get("AutoScalingReplacingUpdate", "WillReplace")
    if replace.flag():
        yield Fault(at=replace, got="a second group for each update", allowed="AutoScalingRollingUpdate")


@template_rule(
    ZONE_FORM,
    cause="there is no such zone, so the resource cannot be created",
    fix="give the zone by its name or by its id",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-regions-availability-zones.html",
    on=(SUBNET, *RESERVATIONS),
    looks_at=("AvailabilityZone", "AvailabilityZoneId"),
)
def zone_form(resource: Resource) -> Iterator[Fault]:
    zone = zone_in(resource)
    if zone is None or not zone.is_known:
        raise NotApplicable
    yield from faults_of(ZONE_FORM, check_zone(resource.case.template.region, zone.text() or ""), zone)


@template_rule(
    TYPE_OFFERED,
    severity=Severity.WARNING,
    cause="launches fail in a zone without the type",
    fix="ask EC2 (DescribeInstanceTypeOfferings) from the account of the deployment",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-discovery.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/InstanceType",
        "subnets of the resources that use the launch template",
        "AWS::EC2::Subnet/AvailabilityZone",
    ),
)
def type_offered(resource: Resource) -> Iterator[Fault]:
    launch = accelerated_launch(resource)
    for value in subnets_used(launch):
        zone = known_zone_of(value).text() or ""
        for _, record in launch.records():
            yield from faults_of(TYPE_OFFERED, check_zone(None, zone, record), value)
