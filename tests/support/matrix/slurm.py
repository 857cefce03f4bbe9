"""An existing cluster of AWS PCS for the compute node groups of the matrix."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

from cdk_gpu_clusters import ClusterSize, EfaSecurityGroup, IPcsCluster, PcsCluster, PcsNodeRole
from matrix.combinations import CLUSTER_GROUP


class Slurm:
    """What the node groups of a stack share, so that they are made quickly."""

    def __init__(self, stack: cdk.Stack, vpc: ec2.IVpc) -> None:
        group = ec2.SecurityGroup.from_security_group_id(stack, "Controller", CLUSTER_GROUP, mutable=False)
        self.cluster: IPcsCluster = PcsCluster.from_pcs_cluster_attributes(
            stack,
            "Slurm",
            vpc=vpc,
            cluster_id="pcs_abc1234567",
            slurm_version="26.05",
            size=ClusterSize.LARGE,
            security_groups=[group],
        )
        self.role = PcsNodeRole(stack, "SlurmRole")
        self._stack, self._vpc = stack, vpc
        self._fabrics: dict[str, EfaSecurityGroup] = {}

    def fabric_of(self, instance_type: str) -> EfaSecurityGroup:
        """The fabric of the nodes of a type: not all types can talk to each other."""
        if instance_type not in self._fabrics:
            self._fabrics[instance_type] = EfaSecurityGroup(
                self._stack, f"SlurmFabric{len(self._fabrics)}", vpc=self._vpc
            )
        return self._fabrics[instance_type]
