"""One group of nodes in the templates: what its launch template says, and the resources that it leads to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from matrix.cloud import Cloud, Json, Place, Properties, walk
from matrix.hardware import Hardware
from matrix.scenario import Asked

#: CloudFormation user guide, "Resource identifiers": a name made by CloudFormation ends in a dash and 12 or 13 characters.
_RANDOM_SUFFIX = 14


@dataclass(frozen=True, slots=True)
class Interface:
    """One entry of `NetworkInterfaces`, with what EC2 assumes where it says nothing."""

    entry: Mapping[str, Json]

    @property
    def card(self) -> int:
        """Network card; 0 where none is given."""
        return int(self.entry.get("NetworkCardIndex", 0))

    @property
    def device(self) -> int:
        """Device on the card."""
        return int(self.entry.get("DeviceIndex", 0))

    @property
    def kind(self) -> str:
        """`interface` where nothing is given."""
        return str(self.entry.get("InterfaceType", "interface"))

    @property
    def is_efa(self) -> bool:
        """Whether it carries EFA traffic."""
        return self.kind in ("efa", "efa-only")

    def __str__(self) -> str:
        return f"{self.kind} at card {self.card} device {self.device}"


class Nodes:
    """A launch template with its group, its security groups and so on, found by following references."""

    def __init__(self, cloud: Cloud, template: Place, asked: Asked) -> None:
        self.cloud = cloud
        self.template = template
        self.asked = asked

    @property
    def stack(self) -> str:
        """Stack of the launch template."""
        return self.template.stack

    @property
    def hardware(self) -> Hardware:
        """What EC2 publishes about the type."""
        return self.asked.hardware

    @cached_property
    def data(self) -> Mapping[str, Json]:
        """`LaunchTemplateData`."""
        data: Mapping[str, Json] = self.cloud.properties(self.template)["LaunchTemplateData"]
        return data

    @cached_property
    def interfaces(self) -> Sequence[Interface]:
        """The network interfaces."""
        return [Interface(entry) for entry in self.data.get("NetworkInterfaces", ())]

    def has_efa(self) -> bool:
        """Whether the template gives the nodes EFA interfaces."""
        return any(interface.is_efa for interface in self.interfaces)

    @cached_property
    def group_place(self) -> Place | None:
        """The Auto Scaling group that launches from the template."""
        for place, properties in self.cloud.of_type("AWS::AutoScaling::AutoScalingGroup").items():
            launch = _launch_template(properties)
            if launch is not None and self.cloud.find(place.stack, launch) == self.template:
                return place
        return None

    @property
    def group(self) -> Properties | None:
        """Its properties, None where the orchestrator has a group of its own kind."""
        return None if self.group_place is None else self.cloud.properties(self.group_place)

    @cached_property
    def node_group_place(self) -> Place | None:
        """The managed node group of Amazon EKS that launches from the template."""
        for place, properties in self.cloud.of_type("AWS::EKS::Nodegroup").items():
            if self.cloud.find(place.stack, properties.get("LaunchTemplate", {}).get("Id")) == self.template:
                return place
        return None

    @property
    def node_group(self) -> Properties | None:
        """Its properties, None where EKS manages no such group."""
        return None if self.node_group_place is None else self.cloud.properties(self.node_group_place)

    @cached_property
    def compute_node_group_place(self) -> Place | None:
        """The compute node group of AWS PCS that launches from the template."""
        for place, properties in self.cloud.of_type("AWS::PCS::ComputeNodeGroup").items():
            named = properties.get("CustomLaunchTemplate", {}).get("TemplateId")
            if self.cloud.find(place.stack, named) == self.template:
                return place
        return None

    @property
    def compute_node_group(self) -> Properties | None:
        """Its properties, None where AWS PCS has no such group."""
        place = self.compute_node_group_place
        return None if place is None else self.cloud.properties(place)

    @property
    def launcher_place(self) -> Place | None:
        """What launches from the template: one of the three, None where that is in no template."""
        return self.group_place or self.node_group_place or self.compute_node_group_place

    @property
    def launcher(self) -> Properties | None:
        """Its properties."""
        return self.group or self.node_group or self.compute_node_group

    @property
    def subnets(self) -> Sequence[Json]:
        """The subnets of the group."""
        group = self.launcher or {}
        names = ("VPCZoneIdentifier", "Subnets", "SubnetIds")
        subnets: Sequence[Json] = next((group[name] for name in names if name in group), [])
        return subnets

    @property
    def bounds(self) -> tuple[int, int]:
        """Least and most nodes of the group."""
        group = self.launcher or {}
        if "ScalingConfiguration" in group:
            counts = group["ScalingConfiguration"]
            return int(counts["MinInstanceCount"]), int(counts["MaxInstanceCount"])
        sizes = group.get("ScalingConfig", group)
        return int(sizes["MinSize"]), int(sizes["MaxSize"])

    @cached_property
    def placement_group(self) -> Properties | str | None:
        """The placement group: its properties if the app makes it, else its name, or None for none."""
        name = self.data.get("Placement", {}).get("GroupName")
        return None if name is None else self._made_or_named(name)

    @cached_property
    def reservation(self) -> Properties | str | None:
        """The target reservation: its properties if the app makes it, else id or ARN, or None for none."""
        if self.reservation_place is not None:
            return self.cloud.properties(self.reservation_place)
        stack, value = self._targeted
        return None if value is None else str(self.cloud.literal(stack, value))

    @cached_property
    def reservation_place(self) -> Place | None:
        """The target reservation if the app makes it."""
        stack, value = self._targeted
        return self.cloud.find(stack, value)

    @cached_property
    def _targeted(self) -> tuple[str, Json]:
        """What names the target reservation, and in which stack: the template, or a group that holds it alone."""
        target = self.data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
        value = next(iter(target.values()), None)
        place = self.cloud.find(self.stack, value)
        if place is None or place not in self.cloud.of_type("AWS::ResourceGroups::Group"):
            return self.stack, value
        (member,) = self.cloud.properties(place)["Resources"]
        # An ARN that ends in the id: "…:capacity-reservation/" and the id, or both in one text.
        end = member["Fn::Join"][1][-1] if isinstance(member, dict) else member
        return place.stack, end.rpartition("/")[2] if isinstance(end, str) else end

    def _made_or_named(self, value: Json) -> Properties | str:
        place = self.cloud.find(self.stack, value)
        return str(self.cloud.literal(self.stack, value)) if place is None else self.cloud.properties(place)

    @cached_property
    def security_groups(self) -> Sequence[Place]:
        """Security groups on the interfaces that the app makes."""
        found = [
            self.cloud.find(self.stack, group)
            for interface in self.interfaces
            for group in interface.entry.get("Groups", ())
        ]
        made = self.cloud.of_type("AWS::EC2::SecurityGroup")
        return list(dict.fromkeys(place for place in found if place is not None and place in made))

    def rules(self, group: Place | str, direction: str) -> Iterator[tuple[str, Properties]]:
        """The rules of a security group, inline ones and resources of their own, each with its stack.

        Args:
            group: The security group, made by the app or by its id.
            direction: `Ingress` or `Egress`.
        """
        if isinstance(group, Place):
            for rule in self.cloud.properties(group).get(f"SecurityGroup{direction}", ()):
                yield group.stack, rule
        for place, rule in self.cloud.of_type(f"AWS::EC2::SecurityGroup{direction}").items():
            if self.cloud.identity(place.stack, rule["GroupId"]) == group:
                yield place.stack, rule

    @cached_property
    def role(self) -> Place | None:
        """Role of the nodes."""
        if self.node_group_place is not None and self.node_group is not None:
            return self.cloud.find(self.node_group_place.stack, self.node_group["NodeRole"])
        by_group = (self.compute_node_group or {}).get("IamInstanceProfileArn")
        profile = self.cloud.find(self.stack, by_group or self.data.get("IamInstanceProfile", {}).get("Arn"))
        if profile is None:
            return None
        (role,) = self.cloud.properties(profile)["Roles"]
        return self.cloud.find(profile.stack, role)

    def statements(self, role: Place) -> Iterator[tuple[str, Mapping[str, Json]]]:
        """The statements of a role's policies, each with its stack."""
        for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            for place, policy in self.cloud.of_type(kind).items():
                if self._holds(role, place) or any(
                    self.cloud.find(place.stack, name) == role for name in policy.get("Roles", ())
                ):
                    for statement in policy["PolicyDocument"]["Statement"]:
                        yield place.stack, statement

    def _holds(self, role: Place, policy: Place) -> bool:
        arns = self.cloud.properties(role).get("ManagedPolicyArns", ())
        return any(self.cloud.find(role.stack, arn) == policy for arn in arns)

    def mentions(self, stack: str, value: Json, wanted: Place) -> bool:
        """Whether a value refers to a resource somewhere inside."""
        return any(self.cloud.find(stack, inner) == wanted for inner in walk(value))

    @cached_property
    def file_servers(self) -> Sequence[Place | str]:
        """The security groups of the file systems that the nodes mount."""
        mounted = {self.cloud.find(self.stack, value) for value in walk(self.data.get("UserData"))}
        made = [
            self.cloud.identity(place.stack, group)
            for place, system in self.cloud.of_type("AWS::FSx::FileSystem").items()
            if place in mounted
            for group in system["SecurityGroupIds"]
        ]
        return [*(group for group in made if group is not None), *self.asked.server_groups]

    @cached_property
    def user_data(self) -> str:
        """User data before base64, with every reference replaced by a text of the greatest length that it can have."""
        value = self.data.get("UserData", "")
        parts = value.get("Fn::Base64", value) if isinstance(value, dict) else value
        return self._text(parts)

    def _text(self, value: Json) -> str:
        value = self.cloud.literal(self.stack, value)
        if isinstance(value, str):
            return value
        if isinstance(value, dict) and "Fn::Join" in value:
            separator, pieces = value["Fn::Join"]
            return str(separator).join(self._text(piece) for piece in pieces)
        place = self.cloud.find(self.stack, value)
        # Attributes are names of DNS, mount names, bucket names: none is longer than what S3 and FSx allow.
        return "x" * (63 if place is None else len(place.stack) + 1 + len(place.logical_id) + _RANDOM_SUFFIX)

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """The assignments in the user data, such as `GPU_EFA_COUNT`, without quotes."""
        found = re.findall(r"^ *(?:export )?([A-Z][A-Z0-9_]*)=(.*)$", self.user_data, re.MULTILINE)
        return {name: value.strip("'\"") for name, value in found}


def _launch_template(properties: Properties) -> Json | None:
    mixed = properties.get("MixedInstancesPolicy", {}).get("LaunchTemplate", {})
    launch = properties.get("LaunchTemplate") or mixed.get("LaunchTemplateSpecification") or {}
    return launch.get("LaunchTemplateId")
