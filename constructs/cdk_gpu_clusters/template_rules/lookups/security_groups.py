"""Security groups, with the rules that stand in them and beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cdk_gpu_clusters.template_rules.case import Resource, Value, target_of
from cdk_gpu_clusters.template_rules.choices import Undecidable

SECURITY_GROUP = "AWS::EC2::SecurityGroup"
INGRESS = "AWS::EC2::SecurityGroupIngress"
EGRESS = "AWS::EC2::SecurityGroupEgress"

_EVERY_PROTOCOL = ("-1", "all")


@dataclass(frozen=True, slots=True)
class GroupRule:
    """One rule of a security group.

    Attributes:
        value: Its properties.
        peer: The security group at the other end; absent where the rule is about addresses or prefix lists.
    """

    value: Value
    peer: Value

    @property
    def is_all_traffic(self) -> bool:
        """Whether it allows every protocol and port."""
        return self.value.get("IpProtocol").text() in _EVERY_PROTOCOL

    def allows_tcp(self, first: int, last: int) -> bool:
        """Whether it allows a range of TCP ports."""
        if self.is_all_traffic:
            return True
        if self.value.get("IpProtocol").text() not in ("tcp", "6"):
            return False
        lowest, highest = self.value.get("FromPort").integer(), self.value.get("ToPort").integer()
        return lowest is not None and highest is not None and lowest <= first and last <= highest


def ingress_rules(group: Resource) -> list[GroupRule]:
    """The rules for traffic into a group of the template."""
    own = group.get("SecurityGroupIngress").items()
    return [*_rules(own, "Source"), *group.once(_ingress_beside)]


def egress_rules(group: Resource) -> list[GroupRule]:
    """The rules for traffic out of a group of the template."""
    own = group.get("SecurityGroupEgress").items()
    return [*_rules(own, "Destination"), *group.once(_egress_beside)]


def allows_itself(group: Resource, rules: list[GroupRule]) -> bool:
    """Whether one of a group's rules allows all traffic with the same group.

    Raises:
        Undecidable: If none surely does, and one might.
    """
    unclear: Undecidable | None = None
    for rule in rules:
        try:
            if rule.peer.exists and group.is_target_of(rule.peer) and rule.is_all_traffic:
                return True
            if not rule.peer.is_known and rule.peer.exists and rule.peer.reference is None:
                rule.peer.text()
        except Undecidable as found:
            unclear = found
    if unclear:
        raise unclear
    return False


def group_of(value: Value) -> Resource | None:
    """The security group of the template that a value names; None if it is another one."""
    target = target_of(value)
    return target if target is not None and target.type == SECURITY_GROUP else None


def _rules(values: list[Value], end: str) -> Iterator[GroupRule]:
    for value in values:
        peers = (f"{end}SecurityGroupId", f"{end}SecurityGroupName")
        named = next((key for key in peers if value.get(key).exists), peers[0])
        yield GroupRule(value, value.get(named))


def _ingress_beside(group: Resource) -> list[GroupRule]:
    return _beside(group, INGRESS, "Source")


def _egress_beside(group: Resource) -> list[GroupRule]:
    return _beside(group, EGRESS, "Destination")


def _beside(group: Resource, resource_type: str, end: str) -> list[GroupRule]:
    """The rules of a group that are resources of their own."""
    rules = group.case.resources_naming(group, resource_type)
    own = [rule.properties for rule in rules if group.is_target_of(rule.get("GroupId"))]
    return list(_rules(own, end))
