"""The EFA security group that several fleets of a cluster share."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters.network.efa_security_group import EfaSecurityGroup
from cdk_gpu_clusters_stacks.network import ClusterPlace
from cdk_gpu_clusters_stacks.references import publish, read


class FabricStack(cdk.Stack):
    """One fabric: an `EfaSecurityGroup`, in a stack of its own so that fleets come and go beside it."""

    def __init__(
        self, scope: Construct, construct_id: str, *, place: ClusterPlace, env: cdk.Environment
    ) -> None:
        """Define the stack.

        Args:
            scope: The app.
            construct_id: Id, and name of the stack.
            place: Network of the cluster.
            env: Account and Region.
        """
        super().__init__(scope, construct_id, env=env, description="EFA fabric of a GPU cluster")
        vpc = ec2.Vpc.from_vpc_attributes(
            self, "Vpc", vpc_id=place.vpc_id(self), availability_zones=[place.availability_zone]
        )
        group = EfaSecurityGroup(self, "Fabric", vpc=vpc)
        publish(
            self, "FabricGroupId", group.security_group_id, description="EFA security group of the fabric"
        )

    def within(self, reader: cdk.Stack) -> ec2.ISecurityGroup:
        """The group, imported into a stack."""
        return ec2.SecurityGroup.from_security_group_id(
            reader, "Fabric", read(reader, self, "FabricGroupId"), mutable=False
        )
