"""The rules of this library, asked of what another tool deploys.

The launch templates that the tool would write are laid out as a CloudFormation template, and the rules for templates
judge it. So the old file is held against the same rules as everything else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cdk_gpu_clusters.errors import Finding

from .foreign import Part
from .group import Group, Market

#: Rules about what the file of a tool decides. The others ask for what only the deployed resources have.
_ABOUT_FILES = (
    "GPU-CAP",
    "GPU-COST-004",
    "GPU-EFA",
    "GPU-EKS-052",
    "GPU-FAB",
    "GPU-FLT-003",
    "GPU-HYP",
    "GPU-INST",
    "GPU-IP",
    "GPU-LT-00",
    "GPU-LT-010",
    "GPU-LT-012",
    "GPU-MIG",
    "GPU-NET-105",
    "GPU-PLC",
)
_TRAFFIC = "Traffic"


@dataclass(slots=True)
class Deployed:
    """What a tool deploys, as a CloudFormation template.

    Attributes:
        resources: Resources by logical id.
        origins: Where each resource, or a property of it, is in the file.
    """

    resources: dict[str, dict[str, Any]] = field(default_factory=dict)
    origins: dict[tuple[str, ...], Part] = field(default_factory=dict)

    def origin_of(self, path: Sequence[object]) -> Part | None:
        """Where a path of the template comes from."""
        names = tuple(str(one) for one in path[1:])
        while names:
            if names in self.origins:
                return self.origins[names]
            names = names[:-1]
        return None


def logical_id(name: str) -> str:
    """A name as logical ids have it."""
    return "".join(word.capitalize() for word in re.split(r"[^A-Za-z0-9]+", name)) or "Group"


def deployed_groups(
    groups: Sequence[Group], *, metadata: Mapping[str, object], default_volume_gib: int | None = None
) -> Deployed:
    """The launch templates of groups, their placement groups and the security group that they share.

    Args:
        groups: The groups.
        metadata: `MetadataOptions` of the launch templates.
        default_volume_gib: Size of a root volume where the file gives none; None for that of the image.
    """
    made = Deployed()
    made.resources[_TRAFFIC] = _resource("SecurityGroup", GroupDescription="nodes", VpcId="vpc-0123456789abcdef0")
    for kind, other in (("Ingress", "SourceSecurityGroupId"), ("Egress", "DestinationSecurityGroupId")):
        made.resources[f"{_TRAFFIC}{kind}"] = _resource(
            f"SecurityGroup{kind}", GroupId={"Ref": _TRAFFIC}, IpProtocol="-1", **{other: {"Ref": _TRAFFIC}}
        )
    for group in groups:
        name = logical_id(group.name)
        data = _launch_data(group, default_volume_gib)
        if group.placed and group.placement_group is None:
            made.resources[f"{name}Placement"] = _resource("PlacementGroup", Strategy="cluster")
            data["Placement"] = {"GroupName": {"Ref": f"{name}Placement"}}
        data["MetadataOptions"] = dict(metadata)
        made.resources[name] = _resource("LaunchTemplate", LaunchTemplateData=data)
        of = {
            "InstanceType": group.type_part,
            "NetworkInterfaces": group.efa_part,
            "BlockDeviceMappings": group.volume.part,
            "InstanceMarketOptions": group.market_part,
            "CapacityReservationSpecification": group.reservation or group.reservation_group or group.part,
        }
        made.origins[(name,)] = group.part
        made.origins |= {(name, "Properties", "LaunchTemplateData", key): part for key, part in of.items()}
    return made


def _resource(kind: str, **properties: object) -> dict[str, Any]:
    return {"Type": f"AWS::EC2::{kind}", "Properties": properties}


def _launch_data(group: Group, default_volume_gib: int | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "InstanceType": group.instance_type.name,
        "NetworkInterfaces": [{**one, "Groups": [{"Ref": _TRAFFIC}]} for one in group.interfaces],
    }
    volume = group.volume
    disk: dict[str, object] = {
        "VolumeType": volume.kind or "gp3",
        "VolumeSize": volume.size_gib or default_volume_gib,
        "Iops": volume.iops,
        "Throughput": volume.throughput_mib_per_s,
        "Encrypted": bool(volume.encrypted),
    }
    ebs = {key: value for key, value in disk.items() if value is not None}
    data["BlockDeviceMappings"] = [{"DeviceName": "/dev/xvda", "Ebs": ebs}]
    if group.market is Market.SPOT:
        data["InstanceMarketOptions"] = {"MarketType": "spot"}
    elif group.market is Market.BLOCK:
        data["InstanceMarketOptions"] = {"MarketType": "capacity-block"}
    if group.reservation is not None and isinstance(group.reservation.value, str):
        target = {"CapacityReservationId": group.reservation.value}
        data["CapacityReservationSpecification"] = {"CapacityReservationTarget": target}
    elif group.reservation_group is not None and isinstance(group.reservation_group.value, str):
        target = {"CapacityReservationResourceGroupArn": group.reservation_group.value}
        data["CapacityReservationSpecification"] = {"CapacityReservationTarget": target}
    return data


def broken_rules(deployed: Deployed, *, region: str, more: Sequence[str] = ()) -> list[Finding]:
    """The rules that what a tool deploys breaks, each at the line of the file that decides it.

    Args:
        deployed: What it deploys.
        region: The Region.
        more: Beginnings of the ids of further rules, about what only a deployed resource has.
    """
    from cdk_gpu_clusters.template_rules.engine import judge, not_compliant
    from cdk_gpu_clusters.template_rules.registry import choose_rules
    from cdk_gpu_clusters.template_rules.template import Template

    rules = choose_rules(select=(*_ABOUT_FILES, *more), ignore=())
    template = Template.of({"Resources": deployed.resources}, region=region)
    found: list[Finding] = []
    for verdict in not_compliant(judge(template, rules)):
        part = deployed.origin_of(verdict.path)
        if verdict.finding is not None and part is not None and not part.is_placeholder:
            finding = replace(verdict.finding, path=part.place)
            if finding not in found:
                found.append(finding)
    return found
