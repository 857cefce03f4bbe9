"""Faults in capacity and placement."""

from __future__ import annotations

from mutations import drop, put
from recorded_templates import Json
from rule_mutation import RuleMutation, first, without

TEMPLATE = "AWS::EC2::LaunchTemplate"
GROUP = "AWS::AutoScaling::AutoScalingGroup"
PLACEMENT = "AWS::EC2::PlacementGroup"
TARGET = "LaunchTemplateData.CapacityReservationSpecification.CapacityReservationTarget"
MARKET = "LaunchTemplateData.InstanceMarketOptions"
BLOCK = "p5-capacity-block/llama-train-fleet-trainers"
RACK = "p6e-gb200-ultraserver/gb200-fleet-rack"
EVERYTHING = "everywhere/everything_on"
SPREAD = "g5-single-gpu/classifier-inference-bert"
CLUSTER = "p5en-spot/finetune-fleet-trainers"


def over_zones(template: Json) -> None:
    """A group in a cluster placement group gets a second subnet in another zone."""
    template["Resources"]["Second"] = {
        "Type": "AWS::EC2::Subnet",
        "Properties": {"VpcId": "vpc-0", "CidrBlock": "10.0.128.0/20", "AvailabilityZone": "us-east-1b"},
    }
    spare = first(
        template, GROUP, lambda properties: properties["MaxSize"] == "4" and properties["MinSize"] == "0"
    )
    spare["Properties"]["VPCZoneIdentifier"].append({"Ref": "Second"})
    partitions = first(template, PLACEMENT, lambda properties: properties["Strategy"] == "partition")
    partitions["Properties"] = {"Strategy": "cluster"}


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
    RuleMutation(
        rule="GPU-CAP-020",
        template=CLUSTER,
        at=TEMPLATE,
        change=put(f"{MARKET}.SpotOptions.MaxPrice", "0"),
    ),
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
    RuleMutation(rule="GPU-PLC-001", template=SPREAD, change_template=burstable_in_cluster),
    RuleMutation(rule="GPU-PLC-002", template=EVERYTHING, at=PLACEMENT, change=put("PartitionCount", 8)),
    RuleMutation(rule="GPU-PLC-003", template=SPREAD, at=GROUP, change=put("MaxSize", "15")),
    RuleMutation(rule="GPU-PLC-004", template=CLUSTER, at=PLACEMENT, change=put("Strategy", "spread")),
    RuleMutation(rule="GPU-PLC-005", template=EVERYTHING, change_template=over_zones),
    RuleMutation(
        rule="GPU-PLC-007", template=CLUSTER, at=TEMPLATE, change=drop("LaunchTemplateData.Placement")
    ),
)
