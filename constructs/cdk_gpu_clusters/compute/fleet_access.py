"""Who and what reaches the nodes of a fleet, and what they may reach."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

from cdk_gpu_clusters._accepted import accept_bucket_grant
from cdk_gpu_clusters._cdk import region_of, stack_of
from cdk_gpu_clusters.compute.launch_template import GpuLaunchTemplate

if TYPE_CHECKING:  # takes long to load
    from aws_cdk import aws_s3 as s3


class FleetAccess:
    """Connections, sessions and grants of a fleet.

    Attributes:
        role: Role of the nodes.
        launch_template: The launch template construct.
    """

    role: iam.IRole
    launch_template: GpuLaunchTemplate

    @property
    def fleet_name(self) -> str:
        """Name of the group."""
        raise NotImplementedError

    @cached_property
    def connections(self) -> ec2.Connections:
        """The security groups of the nodes, to allow traffic with."""
        return ec2.Connections(security_groups=self.launch_template.security_groups)

    @property
    def session_command(self) -> str:
        """A shell line that opens a Systems Manager session on the first node."""
        region = region_of(stack_of(self.launch_template))
        instance = (
            f"aws autoscaling describe-auto-scaling-groups --region {region} "
            f"--auto-scaling-group-names {self.fleet_name} "
            "--query 'AutoScalingGroups[0].Instances[0].InstanceId' --output text"
        )
        return f'aws ssm start-session --region {region} --target "$({instance})"'

    def grant_read(self, bucket: s3.IBucket) -> iam.Grant:
        """Let the nodes read a bucket."""
        accept_bucket_grant(self.role, bucket)
        return bucket.grant_read(self.role)

    def grant_read_write(self, bucket: s3.IBucket) -> iam.Grant:
        """Let the nodes read and write a bucket, such as one for checkpoints."""
        accept_bucket_grant(self.role, bucket, write=True)
        return bucket.grant_read_write(self.role)
