"""Faults in capacity and placement."""

from __future__ import annotations

from collections.abc import Callable

from recorded_templates import Json
from rule_mutation import RuleMutation, first, without

TEMPLATE = "AWS::EC2::LaunchTemplate"
GROUP = "AWS::AutoScaling::AutoScalingGroup"
RESERVATION = "AWS::EC2::CapacityReservation"
SUBNET = "AWS::EC2::Subnet"
PLACEMENT = "AWS::EC2::PlacementGroup"
BLOCK = "p5-capacity-block/llama-train-fleet-trainers"
EVERYTHING = "everywhere/everything_on"
SPREAD = "g5-single-gpu/classifier-inference-bert"


def add_zone(template: Json, fleet: str) -> None:
    """The group of a fleet gets a second subnet, in another zone."""
    template["Resources"]["Second"] = {
        "Type": "AWS::EC2::Subnet",
        "Properties": {"VpcId": "vpc-0", "CidrBlock": "10.0.128.0/20", "AvailabilityZone": "us-east-1b"},
    }
    for name, group in template["Resources"].items():
        if group["Type"] == GROUP and name.startswith(fleet):
            group["Properties"]["VPCZoneIdentifier"].append({"Ref": "Second"})


def over_zones(template: Json) -> None:
    add_zone(template, "Spare")
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
    add_zone(template, "Block")
    launch = first(template, TEMPLATE)["Properties"]["LaunchTemplateData"]
    launch["NetworkInterfaces"] = launch["NetworkInterfaces"][:1]


def another_group_than_the_reservation(template: Json) -> None:
    launches = (
        one["Properties"]["LaunchTemplateData"] for one in template["Resources"].values() if one["Type"] == TEMPLATE
    )
    launch = next(launch for launch in launches if launch["InstanceType"] == "p4d.24xlarge")
    template["Resources"]["Another"] = {"Type": PLACEMENT, "Properties": {"Strategy": "cluster"}}
    launch["Placement"] = {"GroupName": {"Ref": "Another"}}


def burstable_in_cluster(template: Json) -> None:
    first(template, PLACEMENT)["Properties"]["Strategy"] = "cluster"
    first(template, TEMPLATE)["Properties"]["LaunchTemplateData"]["InstanceType"] = "t3.xlarge"


def mixed(template: Json) -> None:
    group = first(template, GROUP)["Properties"]
    launch = {"LaunchTemplateSpecification": group.pop("LaunchTemplate")}
    group["MixedInstancesPolicy"] = {"LaunchTemplate": launch}


def warm(template: Json) -> None:
    name = next(key for key, one in template["Resources"].items() if one["Type"] == GROUP)
    properties = {"AutoScalingGroupName": {"Ref": name}}
    template["Resources"]["Warm"] = {"Type": "AWS::AutoScaling::WarmPool", "Properties": properties}


def scaled(template: Json) -> None:
    name = next(key for key, one in template["Resources"].items() if one["Type"] == GROUP)
    properties = {"AutoScalingGroupName": {"Ref": name}, "PolicyType": "TargetTrackingScaling"}
    template["Resources"]["Scaling"] = {"Type": "AWS::AutoScaling::ScalingPolicy", "Properties": properties}


def moved_to(zone: str) -> Callable[[Json], None]:
    """The nodes and their reservation stand in another zone."""

    def change(template: Json) -> None:
        subnet = first(template, SUBNET, lambda properties: properties["CidrBlock"] == "10.0.0.0/18")
        for resource in (subnet, first(template, RESERVATION)):
            resource["Properties"]["AvailabilityZone"] = zone

    return change


MUTATIONS = (
    RuleMutation(rule="GPU-CAP-016", template=EVERYTHING, change_template=another_group_than_the_reservation),
    RuleMutation(rule="GPU-CAP-031", template=BLOCK, change_template=mixed),
    RuleMutation(rule="GPU-CAP-032", template=BLOCK, change_template=warm),
    RuleMutation(
        rule="GPU-CAP-033",
        template=BLOCK,
        change_template=without("AWS::Events::Rule", lambda _: True),
    ),
    RuleMutation(rule="GPU-FLT-022", template=BLOCK, change_template=scaled),
    RuleMutation(rule="GPU-FLT-006", template=EVERYTHING, change_template=reserved_over_zones),
    RuleMutation(rule="GPU-CAP-014", template=EVERYTHING, change_template=moved_to("ca-central-1a")),
    RuleMutation(rule="GPU-CAP-037", template=BLOCK, example=True),
    # blocks of the type are not sold there, either
    RuleMutation(
        rule="GPU-NET-105", template=EVERYTHING, change_template=moved_to("eu-west-3a"), also=("GPU-CAP-014",)
    ),
    RuleMutation(rule="GPU-PLC-001", template=SPREAD, change_template=burstable_in_cluster),
    RuleMutation(rule="GPU-PLC-005", template=EVERYTHING, change_template=over_zones),
)
