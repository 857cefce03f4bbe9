"""Faults that cost money."""

from __future__ import annotations

from mutations import put
from recorded_templates import Json
from rule_mutation import RuleMutation, first, without

TEMPLATE = "AWS::EC2::LaunchTemplate"
EVERYTHING = "everywhere/everything_on"
NODE = "g6-dev-node/dev-fleet-dev"
VOLUME = "LaunchTemplateData.BlockDeviceMappings.0.Ebs"


def without_tags(template: Json) -> None:
    for resource in template["Resources"].values():
        if resource["Type"] == TEMPLATE:
            del resource["Properties"]["LaunchTemplateData"]["TagSpecifications"]
        if resource["Type"] == "AWS::AutoScaling::AutoScalingGroup":
            del resource["Properties"]["Tags"]


def for_ever_and_unwatched(template: Json) -> None:
    without("AWS::CloudWatch::Alarm", lambda _: True)(template)
    reservation = first(template, "AWS::EC2::CapacityReservation")["Properties"]
    reservation["EndDateType"] = "unlimited"
    del reservation["EndDate"]


MUTATIONS = (
    RuleMutation(rule="GPU-COST-001", template=NODE, change_template=without_tags),
    RuleMutation(
        rule="GPU-COST-002",
        template="p4d-new-reservation/vision-capacity-trainers",
        change_template=for_ever_and_unwatched,
    ),
    RuleMutation(
        rule="GPU-COST-003",
        template="cluster_network/minimal",
        change_template=without(
            "AWS::EC2::VPCEndpoint", lambda properties: properties.get("VpcEndpointType") == "Gateway"
        ),
    ),
    RuleMutation(rule="GPU-COST-004", template=NODE, at=TEMPLATE, change=put(f"{VOLUME}.VolumeType", "gp2")),
    RuleMutation(
        rule="GPU-COST-005", template=NODE, at=TEMPLATE, change=put(f"{VOLUME}.DeleteOnTermination", False)
    ),
)
