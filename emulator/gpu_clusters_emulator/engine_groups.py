"""Security groups in the engine's EC2, as far as models make them: rules of their own, and the group of an EKS cluster.

Written against ministack 1.5.33. Source of the group: Amazon EKS user guide (awsdocs/amazon-eks-user-guide @ 4d52b4d),
"View Amazon EKS security group requirements for clusters" (name, rules, tags), read 2026-11-22.
"""

from __future__ import annotations

from typing import Any

from .world import CLUSTER, Json, Resource, World

_RULE_SIDES = {
    "AWS::EC2::SecurityGroupIngress": "IpPermissions",
    "AWS::EC2::SecurityGroupEgress": "IpPermissionsEgress",
}
_ANY: dict[str, list[Any]] = {"IpRanges": [], "Ipv6Ranges": [], "PrefixListIds": [], "UserIdGroupPairs": []}


class EngineGroups:
    """The engine's security groups.

    Args:
        ec2: The engine's EC2.
        provisioners: The engine's CloudFormation handlers.
    """

    def __init__(self, ec2: Any, provisioners: Any) -> None:
        self._ec2 = ec2
        self._provisioners = provisioners

    def add(self, world: World, resource: Resource) -> None:
        """Show what a model made."""
        if resource.type == CLUSTER:
            self._add_cluster(world, resource)
        store, permissions = self._rule_store(resource)
        store.extend(permissions)

    def remove(self, resource: Resource) -> None:
        """Take away what a model made."""
        if resource.type == CLUSTER:
            self._ec2._security_groups.pop(resource.attributes["ClusterSecurityGroupId"], None)
        self.withdraw(resource)

    def withdraw(self, resource: Resource) -> None:
        """Take a rule away; a group stays."""
        store, permissions = self._rule_store(resource)
        for permission in permissions:
            if permission in store:
                store.remove(permission)

    def _rule_store(self, resource: Resource) -> tuple[list[Json], list[Json]]:
        """The engine's permissions of a rule's group, and the rule in the engine's shape."""
        group = self._ec2._security_groups.get(resource.properties.get("GroupId"))
        if resource.type not in _RULE_SIDES or group is None:
            return [], []
        return group[_RULE_SIDES[resource.type]], self._provisioners._ec2_sg_permissions(
            [resource.properties]
        )

    def _add_cluster(self, world: World, cluster: Resource) -> None:
        identifier = cluster.attributes["ClusterSecurityGroupId"]
        if identifier in self._ec2._security_groups:
            return
        itself = {"GroupId": identifier, "UserId": world.account}
        self._ec2._security_groups[identifier] = {
            "GroupId": identifier,
            "GroupName": f"eks-cluster-sg-{cluster.physical_id}-{int(identifier[-8:], 16)}",
            "Description": "EKS created security group",
            "VpcId": world.vpc_of_subnet(cluster.properties["ResourcesVpcConfig"]["SubnetIds"][0]) or "",
            "OwnerId": world.account,
            "IpPermissions": [{"IpProtocol": "-1", **_ANY, "UserIdGroupPairs": [itself]}],
            "IpPermissionsEgress": [{"IpProtocol": "-1", **_ANY, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
        }
