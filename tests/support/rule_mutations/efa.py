"""Faults in EFA interfaces and their groups."""

from __future__ import annotations

from typing import Any

from mutations import Mutation, put
from recorded_templates import Json
from rule_mutation import RuleMutation, without

TEMPLATE = "AWS::EC2::LaunchTemplate"
EVERYTHING = "everywhere/everything_on"
INTERFACES = "LaunchTemplateData.NetworkInterfaces"


def of_type(instance_type: str) -> Any:
    """Whether the properties of a launch template are for a type."""
    return lambda properties: properties["LaunchTemplateData"]["InstanceType"] == instance_type


def at_last(**values: Any) -> Mutation:
    """Change the last interface."""
    return lambda properties: properties["LaunchTemplateData"]["NetworkInterfaces"][-1].update(values)


def one_efa_more(properties: Json) -> None:
    properties["LaunchTemplateData"]["NetworkInterfaces"][0]["InterfaceType"] = "efa"


def one_efa_less(properties: Json) -> None:
    del properties["LaunchTemplateData"]["NetworkInterfaces"][-1]


def one_place_twice(properties: Json) -> None:
    interfaces = properties["LaunchTemplateData"]["NetworkInterfaces"]
    interfaces.append({**interfaces[1], "InterfaceType": "interface"})


def without_groups(properties: Json) -> None:
    del properties["LaunchTemplateData"]["NetworkInterfaces"][-1]["Groups"]


def refers_to_itself(end: str) -> Any:
    """Whether the properties of a group's rule are about the same group at both ends."""
    return lambda properties: properties.get(f"{end}SecurityGroupId") == properties["GroupId"]


def on_p4d(rule: str, change: Mutation, *also: str) -> RuleMutation:
    """A fault in the interfaces of p4d.24xlarge: 4 cards of 15 interfaces."""
    return RuleMutation(
        rule=rule, template=EVERYTHING, at=TEMPLATE, where=of_type("p4d.24xlarge"), change=change, also=also
    )


MUTATIONS = (
    on_p4d("GPU-EFA-001", put(f"{INTERFACES}.0.DeviceIndex", 2)),
    on_p4d("GPU-EFA-002", put(f"{INTERFACES}.0.InterfaceType", "efa-only"), "GPU-EFA-003", "GPU-EFA-004"),
    on_p4d("GPU-EFA-003", at_last(NetworkCardIndex=0, DeviceIndex=2)),
    # every type has as many EFAs as cards that take one
    on_p4d("GPU-EFA-004", one_efa_more, "GPU-EFA-003"),
    RuleMutation(
        rule="GPU-EFA-005",
        template="p6-b300-existing-reservation/pretrain-fleet-trainers",
        at=TEMPLATE,
        change=at_last(NetworkCardIndex=0, DeviceIndex=1),
    ),
    on_p4d("GPU-EFA-006", at_last(NetworkCardIndex=7)),
    on_p4d("GPU-EFA-009", one_place_twice),
    on_p4d("GPU-EFA-010", at_last(DeviceIndex=15)),
    RuleMutation(
        rule="GPU-EFA-011",
        template=EVERYTHING,
        at=TEMPLATE,
        where=of_type("p5.48xlarge"),
        change=put(f"{INTERFACES}.0.AssociatePublicIpAddress", True),
    ),
    on_p4d("GPU-EFA-012", at_last(Ipv6AddressCount=1)),
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
    on_p4d("GPU-EFA-032", one_efa_less),
    on_p4d("GPU-EFA-033", put("LaunchTemplateData.SecurityGroupIds", ["sg-0123456789abcdef0"])),
    on_p4d("GPU-LT-005", without_groups),
)
