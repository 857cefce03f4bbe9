"""Faults in capacity and placement."""

from __future__ import annotations

from mutations import drop, put
from recorded_templates import Json
from rule_mutation import RuleMutation, first

TEMPLATE = "AWS::EC2::LaunchTemplate"
GROUP = "AWS::AutoScaling::AutoScalingGroup"
PLACEMENT = "AWS::EC2::PlacementGroup"
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


MUTATIONS = (
    RuleMutation(
        rule="GPU-CAP-002",
        template="p5-capacity-block/llama-train-fleet-trainers",
        at=TEMPLATE,
        change=put("LaunchTemplateData.Placement", {"GroupName": "close"}),
    ),
    RuleMutation(
        rule="GPU-CAP-030",
        template="p4d-new-reservation/vision-fleet-trainers",
        at=TEMPLATE,
        change=put("LaunchTemplateData.InstanceMarketOptions", {"MarketType": "spot"}),
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
