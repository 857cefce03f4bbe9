"""Faults in EFA interfaces and their groups."""

from __future__ import annotations

from typing import Any

from mutations import put
from recorded_templates import Json
from rule_mutation import RuleMutation, without

TEMPLATE = "AWS::EC2::LaunchTemplate"
EVERYTHING = "everywhere/everything_on"
INTERFACES = "LaunchTemplateData.NetworkInterfaces"


def of_type(instance_type: str) -> Any:
    """Whether the properties of a launch template are for a type."""
    return lambda properties: properties["LaunchTemplateData"]["InstanceType"] == instance_type


def on_missing_card(properties: Json) -> None:
    properties["LaunchTemplateData"]["NetworkInterfaces"][-1]["NetworkCardIndex"] = 7


def one_efa_more(properties: Json) -> None:
    interfaces = properties["LaunchTemplateData"]["NetworkInterfaces"]
    interfaces[0]["InterfaceType"] = "efa"


def refers_to_itself(end: str) -> Any:
    """Whether the properties of a group's rule are about the same group at both ends."""
    return lambda properties: properties.get(f"{end}SecurityGroupId") == properties["GroupId"]


MUTATIONS = (
    RuleMutation(
        rule="GPU-EFA-004",
        template=EVERYTHING,
        at=TEMPLATE,
        where=of_type("p4d.24xlarge"),
        change=one_efa_more,
        also=("GPU-EFA-003",),  # every type has as many EFAs as cards that take one
    ),
    RuleMutation(
        rule="GPU-EFA-006",
        template=EVERYTHING,
        at=TEMPLATE,
        where=of_type("p4d.24xlarge"),
        change=on_missing_card,
    ),
    RuleMutation(
        rule="GPU-EFA-011",
        template=EVERYTHING,
        at=TEMPLATE,
        where=of_type("p5.48xlarge"),
        change=put(f"{INTERFACES}.0.AssociatePublicIpAddress", True),
    ),
    RuleMutation(
        rule="GPU-EFA-030",
        template=EVERYTHING,
        change_template=without("AWS::EC2::SecurityGroupIngress", refers_to_itself("Source")),
    ),
    RuleMutation(
        rule="GPU-EFA-031",
        template=EVERYTHING,
        change_template=without("AWS::EC2::SecurityGroupEgress", refers_to_itself("Destination")),
    ),
)
