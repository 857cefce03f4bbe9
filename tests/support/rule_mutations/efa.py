"""Faults in EFA interfaces and their groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mutations import Mutation, put
from recorded_templates import Json
from rule_mutation import RuleMutation, first, without

GROUP = "AWS::AutoScaling::AutoScalingGroup"
TEMPLATE = "AWS::EC2::LaunchTemplate"
EVERYTHING = "everywhere/everything_on"
#: Rules about zones that fire together: nodes are close together, reserved and exchange EFA traffic in one zone.
OF_ZONE = ("GPU-FLT-004", "GPU-FLT-006", "GPU-PLC-005")
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


def interfaces_of(template: Json, instance_type: str) -> list[Json]:
    found = first(template, TEMPLATE, of_type(instance_type))["Properties"]["LaunchTemplateData"]
    return list(found["NetworkInterfaces"])


def one_fabric(template: Json) -> None:
    """Nodes of p5 get the group of those of p4d."""
    groups = interfaces_of(template, "p4d.24xlarge")[0]["Groups"]
    for interface in interfaces_of(template, "p5.48xlarge"):
        interface["Groups"] = groups


def names_itself(template: Json) -> None:
    """A rule of a security group with itself stands in the group."""
    name, beside = next(
        (key, one["Properties"])
        for key, one in template["Resources"].items()
        if one["Type"] == "AWS::EC2::SecurityGroupIngress" and refers_to_itself("Source")(one["Properties"])
    )
    del template["Resources"][name]
    group = template["Resources"][beside.pop("GroupId")["Fn::GetAtt"][0]]["Properties"]
    group.setdefault("SecurityGroupIngress", []).append(beside)


def reserved_group(template: Json) -> Json:
    found: Json = next(
        one["Properties"]
        for name, one in template["Resources"].items()
        if one["Type"] == GROUP and name.startswith("Reserved")
    )
    return found


def second_subnet(zone: str) -> Callable[[Json], None]:
    """A group gets a second subnet."""

    def change(template: Json) -> None:
        template["Resources"]["Second"] = {
            "Type": "AWS::EC2::Subnet",
            "Properties": {"VpcId": "vpc-0", "CidrBlock": "10.0.128.0/20", "AvailabilityZone": zone},
        }
        reserved_group(template)["VPCZoneIdentifier"].append({"Ref": "Second"})

    return change


def second_type(template: Json) -> None:
    group = reserved_group(template)
    launch = {"LaunchTemplateSpecification": group.pop("LaunchTemplate")}
    overrides = [{"InstanceType": "p4d.24xlarge"}, {"InstanceType": "p4de.24xlarge"}]
    group["MixedInstancesPolicy"] = {"LaunchTemplate": {**launch, "Overrides": overrides}}


def of_fleet_subnet(change: Mutation) -> Callable[[Json], None]:
    """Change the subnet that the nodes stand in."""
    return lambda template: change(template["Resources"]["NetworkSubnetsFleet503AB9B8"]["Properties"])


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
    RuleMutation(
        rule="GPU-EFA-035",
        template=EVERYTHING,
        change_template=names_itself,
    ),
    on_p4d("GPU-LT-005", without_groups),
    RuleMutation(rule="GPU-FAB-001", template=EVERYTHING, change_template=one_fabric),
    RuleMutation(
        rule="GPU-FAB-003",
        template=EVERYTHING,
        change_template=second_subnet("us-east-1b"),
        also=("GPU-FAB-004", *OF_ZONE),
    ),
    RuleMutation(rule="GPU-FAB-004", template=EVERYTHING, change_template=second_subnet("us-east-1a")),
    # p4de is not the type of the reservation, either
    RuleMutation(rule="GPU-FAB-005", template=EVERYTHING, change_template=second_type, also=("GPU-CAP-021",)),
    RuleMutation(
        rule="GPU-FLT-003",
        template=EVERYTHING,
        change_template=of_fleet_subnet(put("MapPublicIpOnLaunch", True)),
    ),
    RuleMutation(
        rule="GPU-IP-003",
        template=EVERYTHING,
        change_template=of_fleet_subnet(put("CidrBlock", "10.0.0.0/28")),
    ),
)
