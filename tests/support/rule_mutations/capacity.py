"""Faults in capacity and placement."""

from __future__ import annotations

from collections.abc import Callable

from mutations import drop, put
from recorded_templates import Json
from rule_mutation import RuleMutation, first, without

TEMPLATE = "AWS::EC2::LaunchTemplate"
GROUP = "AWS::AutoScaling::AutoScalingGroup"
RESERVATION = "AWS::EC2::CapacityReservation"
SUBNET = "AWS::EC2::Subnet"
PLACEMENT = "AWS::EC2::PlacementGroup"
TARGET = "LaunchTemplateData.CapacityReservationSpecification.CapacityReservationTarget"
MARKET = "LaunchTemplateData.InstanceMarketOptions"
BLOCK = "p5-capacity-block/llama-train-fleet-trainers"
RACK = "p6e-gb200-ultraserver/gb200-fleet-rack"
EVERYTHING = "everywhere/everything_on"
RESERVED = "p4d-new-reservation/vision-capacity-trainers"
SPREAD = "g5-single-gpu/classifier-inference-bert"
CLUSTER = "p5en-spot/finetune-fleet-trainers"


def add_zone(template: Json, maximum: str) -> None:
    """A group gets a second subnet, in another zone."""
    template["Resources"]["Second"] = {
        "Type": "AWS::EC2::Subnet",
        "Properties": {"VpcId": "vpc-0", "CidrBlock": "10.0.128.0/20", "AvailabilityZone": "us-east-1b"},
    }
    for group in (one for one in template["Resources"].values() if one["Type"] == GROUP):
        if group["Properties"]["MaxSize"] == maximum and group["Properties"]["MinSize"] == "0":
            group["Properties"]["VPCZoneIdentifier"].append({"Ref": "Second"})


def over_zones(template: Json) -> None:
    add_zone(template, "4")
    partitions = first(template, PLACEMENT, lambda properties: properties["Strategy"] == "partition")
    partitions["Properties"] = {"Strategy": "cluster"}
    spare = first(
        template,
        TEMPLATE,
        lambda properties: properties["LaunchTemplateData"]["InstanceType"] == "g6.12xlarge",
    )
    spare["Properties"]["LaunchTemplateData"]["InstanceType"] = "g6.xlarge"  # without EFA


def reserved_over_zones(template: Json) -> None:
    """The group on the block, whose nodes have no EFA any more: that has rules of its own about zones."""
    add_zone(template, "16")
    launch = first(template, TEMPLATE)["Properties"]["LaunchTemplateData"]
    launch["NetworkInterfaces"] = launch["NetworkInterfaces"][:1]


def another_group_than_the_reservation(template: Json) -> None:
    launches = (
        one["Properties"]["LaunchTemplateData"]
        for one in template["Resources"].values()
        if one["Type"] == TEMPLATE
    )
    launch = next(launch for launch in launches if launch["InstanceType"] == "p4d.24xlarge")
    template["Resources"]["Another"] = {"Type": PLACEMENT, "Properties": {"Strategy": "cluster"}}
    launch["Placement"] = {"GroupName": {"Ref": "Another"}}


def burstable_in_cluster(template: Json) -> None:
    first(template, PLACEMENT)["Properties"]["Strategy"] = "cluster"
    first(template, TEMPLATE)["Properties"]["LaunchTemplateData"]["InstanceType"] = "t3.xlarge"


def without_blocks(properties: Json) -> None:
    launch = properties["LaunchTemplateData"]
    launch.update(InstanceType="g6e.12xlarge", NetworkInterfaces=launch["NetworkInterfaces"][:1])


def mixed(template: Json) -> None:
    group = first(template, GROUP)["Properties"]
    launch = {"LaunchTemplateSpecification": group.pop("LaunchTemplate")}
    group["MixedInstancesPolicy"] = {"LaunchTemplate": launch}


def warm(template: Json) -> None:
    name = next(key for key, one in template["Resources"].items() if one["Type"] == GROUP)
    properties = {"AutoScalingGroupName": {"Ref": name}}
    template["Resources"]["Warm"] = {"Type": "AWS::AutoScaling::WarmPool", "Properties": properties}


def moved_to(zone: str) -> Callable[[Json], None]:
    """The nodes and their reservation stand in another zone."""

    def change(template: Json) -> None:
        subnet = first(template, SUBNET, lambda properties: properties["CidrBlock"] == "10.0.0.0/18")
        for resource in (subnet, first(template, RESERVATION)):
            resource["Properties"]["AvailabilityZone"] = zone

    return change


MUTATIONS = (
    RuleMutation(
        rule="GPU-CAP-002",
        template="p5-capacity-block/llama-train-fleet-trainers",
        at=TEMPLATE,
        change=put("LaunchTemplateData.Placement", {"GroupName": "close"}),
    ),
    RuleMutation(
        rule="GPU-CAP-003",
        template=BLOCK,
        at=TEMPLATE,
        change=without_blocks,
    ),
    RuleMutation(rule="GPU-CAP-005", template=RACK, at=TEMPLATE, change=drop(MARKET)),
    RuleMutation(
        rule="GPU-CAP-006",
        template="p6-b300-existing-reservation/pretrain-fleet-trainers",
        at=TEMPLATE,
        change=put(f"{TARGET}.CapacityReservationId", "pretrain"),
    ),
    RuleMutation(
        rule="GPU-CAP-007",
        template=RACK,
        at=TEMPLATE,
        change=put(f"{TARGET}.CapacityReservationResourceGroupArn", "rack"),
    ),
    RuleMutation(rule="GPU-CAP-008", template=RACK, at=GROUP, change=put("MaxSize", "10")),
    RuleMutation(rule="GPU-CAP-013", template=BLOCK, at=GROUP, change=put("MaxSize", "65")),
    RuleMutation(rule="GPU-CAP-016", template=EVERYTHING, change_template=another_group_than_the_reservation),
    RuleMutation(rule="GPU-CAP-017", template=RESERVED, at=RESERVATION, change=put("InstanceCount", 1001)),
    RuleMutation(rule="GPU-CAP-018", template=RESERVED, at=RESERVATION, change=drop("EndDate")),
    RuleMutation(rule="GPU-CAP-019", template=RESERVED, at=PLACEMENT, change=put("Strategy", "spread")),
    RuleMutation(
        rule="GPU-CAP-020",
        template=CLUSTER,
        at=TEMPLATE,
        change=put(f"{MARKET}.SpotOptions.MaxPrice", "0"),
    ),
    RuleMutation(
        rule="GPU-CAP-021", template=EVERYTHING, at=RESERVATION, change=put("InstanceType", "p4de.24xlarge")
    ),
    RuleMutation(rule="GPU-CAP-022", template=EVERYTHING, at=RESERVATION, change=put("InstanceCount", 3)),
    RuleMutation(
        rule="GPU-CAP-030",
        template="p4d-new-reservation/vision-fleet-trainers",
        at=TEMPLATE,
        change=put("LaunchTemplateData.InstanceMarketOptions", {"MarketType": "spot"}),
    ),
    RuleMutation(rule="GPU-CAP-031", template=BLOCK, change_template=mixed),
    RuleMutation(rule="GPU-CAP-032", template=BLOCK, change_template=warm),
    RuleMutation(
        rule="GPU-CAP-033",
        template=BLOCK,
        change_template=without("AWS::Events::Rule", lambda _: True),
    ),
    RuleMutation(
        rule="GPU-CAP-034",
        template=EVERYTHING,
        at="AWS::ResourceGroups::Group",
        change=lambda properties: properties["Configuration"].pop(1),
    ),
    RuleMutation(rule="GPU-CAP-036", template=RESERVED, at=RESERVATION, change=drop("InstanceMatchCriteria")),
    RuleMutation(
        rule="GPU-FLT-004",
        template=EVERYTHING,
        at=RESERVATION,
        change=put("AvailabilityZone", "us-east-1b"),
    ),
    RuleMutation(rule="GPU-FLT-006", template=EVERYTHING, change_template=reserved_over_zones),
    RuleMutation(rule="GPU-FLT-008", template=SPREAD, at=GROUP, change=put("DesiredCapacity", "4")),
    RuleMutation(rule="GPU-CAP-014", template=EVERYTHING, change_template=moved_to("ca-central-1a")),
    RuleMutation(
        rule="GPU-CAP-035", template=BLOCK, at=TEMPLATE, change=drop("LaunchTemplateData.InstanceType")
    ),
    RuleMutation(rule="GPU-CAP-037", template=BLOCK, example=True),
    RuleMutation(
        rule="GPU-FLT-009",
        template=BLOCK,
        at=GROUP,
        change=put("InstanceMaintenancePolicy.MaxHealthyPercentage", 125),
    ),
    RuleMutation(
        rule="GPU-NET-103",
        template="p4d-new-reservation/vision-capacity-trainers",
        at=RESERVATION,
        change=put("AvailabilityZone", "us-west-b2"),
    ),
    # blocks of the type are not sold there, either
    RuleMutation(
        rule="GPU-NET-105", template=EVERYTHING, change_template=moved_to("eu-west-3a"), also=("GPU-CAP-014",)
    ),
    RuleMutation(rule="GPU-PLC-001", template=SPREAD, change_template=burstable_in_cluster),
    RuleMutation(rule="GPU-PLC-002", template=EVERYTHING, at=PLACEMENT, change=put("PartitionCount", 8)),
    RuleMutation(rule="GPU-PLC-003", template=SPREAD, at=GROUP, change=put("MaxSize", "15")),
    RuleMutation(rule="GPU-PLC-004", template=CLUSTER, at=PLACEMENT, change=put("Strategy", "spread")),
    RuleMutation(rule="GPU-PLC-005", template=EVERYTHING, change_template=over_zones),
    RuleMutation(
        rule="GPU-PLC-007", template=CLUSTER, at=TEMPLATE, change=drop("LaunchTemplateData.Placement")
    ),
)
