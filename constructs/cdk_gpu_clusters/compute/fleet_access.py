"""What every fleet offers: connections, permissions and sessions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._cdk import ClusterConstruct, region_of, stack_of
from cdk_gpu_clusters._object_access import grant_objects
from cdk_gpu_clusters.compute.launch_template import GpuLaunchTemplate

if TYPE_CHECKING:  # takes long to load
    from aws_cdk import aws_s3 as s3


@jsii.implements(ec2.IConnectable, iam.IGrantable)
class IGpuFleet(ClusterConstruct):
    """A fleet of GPU nodes: a `GpuFleet`, an `EksGpuNodeGroup`, or an imported fleet.

    CDK accepts it as a peer (`security_group.connections.allow_from(fleet, port)`) and as a grantee
    (`bucket.grant_read(fleet)`).

    Example:
        >>> from cdk_gpu_clusters import GpuFleet
        >>> imported = GpuFleet.from_gpu_fleet_attributes(
        ...     stack, "Imported", fleet_name="trainers", security_groups=[existing_group],
        ...     role=iam.Role.from_role_name(stack, "ImportedRole", "trainers"),
        ... )
        >>> imported.connections.allow_from(ec2.Peer.ipv4("10.0.0.0/16"), ec2.Port.tcp(8080))
    """

    @cached_property
    def role(self) -> iam.IRole:
        """Role of the nodes."""
        raise NotImplementedError

    @property
    def fleet_name(self) -> str:
        """Name of the group."""
        raise NotImplementedError

    @property
    @jsii.member(jsii_name="connections")
    def connections(self) -> ec2.Connections:
        """The security groups of the nodes, to allow traffic with."""
        return self._connections

    @property
    @jsii.member(jsii_name="grantPrincipal")
    def grant_principal(self) -> iam.IPrincipal:
        """The role of the nodes, which gets permissions granted to the fleet."""
        return self.role

    @cached_property
    def _connections(self) -> ec2.Connections:
        return ec2.Connections(security_groups=self._node_security_groups)

    @property
    def _node_security_groups(self) -> list[ec2.ISecurityGroup]:
        raise NotImplementedError

    @property
    def session_command(self) -> str:
        """A shell line that opens a Systems Manager session on the first node."""
        region = region_of(stack_of(self))
        instance = (
            f"aws autoscaling describe-auto-scaling-groups --region {region} "
            f"--auto-scaling-group-names {self.fleet_name} "
            "--query 'AutoScalingGroups[0].Instances[0].InstanceId' --output text"
        )
        return f'aws ssm start-session --region {region} --target "$({instance})"'

    def grant_read(self, bucket: s3.IBucket, *, prefix: str = "") -> iam.Grant:
        """Let the nodes read a bucket.

        Args:
            bucket: The bucket.
            prefix: What the keys begin with, such as `corpus/`; every object if left out.
        """
        return grant_objects(self.role, bucket, prefix=prefix)

    def grant_read_write(self, bucket: s3.IBucket, *, prefix: str = "") -> iam.Grant:
        """Let the nodes read, write and delete objects of a bucket, but not their old versions.

        Args:
            bucket: The bucket.
            prefix: What the keys begin with, such as `trainers/`; every object if left out.
        """
        return grant_objects(self.role, bucket, prefix=prefix, write=True)


class LaunchedFleet(IGpuFleet):
    """A fleet whose launch template is defined in this app.

    Attributes:
        launch_template: The launch template construct.
    """

    launch_template: GpuLaunchTemplate

    @property
    def _node_security_groups(self) -> list[ec2.ISecurityGroup]:
        return self.launch_template.security_groups


class ImportedGpuFleet(IGpuFleet):
    """A fleet on plain EC2 that is defined elsewhere."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        fleet_name: str,
        role: iam.IRole,
        security_groups: Sequence[ec2.ISecurityGroup],
    ) -> None:
        """Refer to the fleet; `GpuFleet.from_gpu_fleet_attributes` documents the arguments."""
        super().__init__(scope, construct_id)
        self.role: iam.IRole = role
        self._fleet_name = fleet_name
        self._security_groups = list(security_groups)

    @property
    def fleet_name(self) -> str:
        """Name of the Auto Scaling group."""
        return self._fleet_name

    @property
    def _node_security_groups(self) -> list[ec2.ISecurityGroup]:
        return self._security_groups
