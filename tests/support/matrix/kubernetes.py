"""Clusters of Amazon EKS for the node groups of the matrix: one that an app makes, and an existing one."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

from cdk_gpu_clusters import EfaSecurityGroup, EksGpuCluster, EksNodeRole, IEksGpuCluster
from cdk_gpu_clusters_stacks.references import publish, read
from matrix.combinations import CLUSTER_GROUP

_VERSION = "1.35"


class Kubernetes:
    """A cluster in a stack of its own."""

    def __init__(self, app: cdk.App) -> None:
        self._stack = cdk.Stack(app, "Kubernetes")
        # The subnets are existing ones.
        cdk.Annotations.of(self._stack).acknowledge_warning("@aws-cdk/aws-eks:clusterMustManuallyTagSubnet")
        vpc = ec2.Vpc.from_vpc_attributes(
            self._stack,
            "Vpc",
            vpc_id="vpc-0123456789abcdef0",
            availability_zones=["us-east-1a", "us-east-1b"],
            private_subnet_ids=["subnet-0123456789abcdef1", "subnet-0123456789abcdef2"],
            private_subnet_route_table_ids=["rtb-0123456789abcdef0", "rtb-0123456789abcdef0"],
        )
        cluster = EksGpuCluster(self._stack, "Cluster", vpc=vpc, kubernetes_version=_VERSION)
        publish(self._stack, "Name", cluster.cluster_name, description="Cluster")
        publish(self._stack, "Group", cluster.cluster_security_group.security_group_id, description="Its group")

    def attributes(self, reader: cdk.Stack) -> tuple[str, str]:
        """Name and security group, as another stack reads them."""
        return read(reader, self._stack, "Name"), read(reader, self._stack, "Group")


class Shared:
    """What the node groups of a stack share, so that they are made quickly."""

    def __init__(self, stack: cdk.Stack, vpc: ec2.IVpc, kubernetes: Kubernetes | None) -> None:
        name, group = ("research", CLUSTER_GROUP) if kubernetes is None else kubernetes.attributes(stack)
        self.cluster: IEksGpuCluster = EksGpuCluster.from_eks_gpu_cluster_attributes(
            stack,
            "Cluster",
            vpc=vpc,
            cluster_name=name,
            cluster_security_group_id=group,
            kubernetes_version=_VERSION,
        )
        self.role = EksNodeRole(stack, "Role")
        self._stack, self._vpc = stack, vpc
        self._fabrics: dict[str, EfaSecurityGroup] = {}

    def fabric_of(self, instance_type: str) -> EfaSecurityGroup:
        """The fabric of the nodes of a type: not all types can talk to each other."""
        if instance_type not in self._fabrics:
            self._fabrics[instance_type] = EfaSecurityGroup(self._stack, f"Fabric{len(self._fabrics)}", vpc=self._vpc)
        return self._fabrics[instance_type]
