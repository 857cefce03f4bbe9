"""What EC2 refuses in security groups and their rules.

Source: EC2 API, AuthorizeSecurityGroupIngress (InvalidGroup.NotFound) and DeleteSecurityGroup (DependencyViolation
while another group's rule refers to it).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..faults import Fault

if TYPE_CHECKING:
    from ..world import World

_PEERS = ("SourceSecurityGroupId", "DestinationSecurityGroupId")
_RULES = ("AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress")


def rule_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EC2::SecurityGroupIngress` or `...Egress`."""
    for name in ("GroupId", *_PEERS):
        group = properties.get(name)
        if group and not world.has_security_group(group):
            yield Fault(
                check="security-group-missing",
                message=f"the security group {group!r} does not exist",
                path=name,
            )


def security_group_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::EC2::SecurityGroup` with inline rules."""
    for side in ("SecurityGroupIngress", "SecurityGroupEgress"):
        for rule in properties.get(side, []):
            yield from rule_faults(rule, world)


def security_group_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::EC2::SecurityGroup`."""
    for type_name in _RULES:
        for rule in world.of_type(type_name):
            owner = rule.properties.get("GroupId")
            if owner != physical_id and physical_id in (rule.properties.get(name) for name in _PEERS):
                yield Fault(
                    check="security-group-in-use",
                    message=f"a rule of {owner} still refers to the security group {physical_id}",
                )
