"""A cluster of Amazon EKS that is right for GPU nodes."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters.orchestration.eks.cluster_base import EksGpuClusterBase, EksIdentity

#: What EKS itself takes where the VPC is not in 172.16.0.0/12, and what it does not take where it is.
SERVICE_IPV4_CIDR = "172.20.0.0/16"


class EksGpuCluster(EksGpuClusterBase):
    """A cluster of Amazon EKS."""

    @staticmethod
    def from_attributes(
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        cluster_name: str,
        cluster_security_group_id: str,
        kubernetes_version: str,
        service_ipv4_cidr: str = SERVICE_IPV4_CIDR,
        public_endpoint: bool = False,
        kubectl_role_arn: str | None = None,
    ) -> EksGpuClusterBase:
        """Use a cluster that exists.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            vpc: Its network.
            cluster_name: Its name.
            cluster_security_group_id: `aws eks describe-cluster` has it as `clusterSecurityGroupId`.
            kubernetes_version: Its version, such as `1.35`.
            service_ipv4_cidr: Its service addresses; 172.20.0.0/16 if left out.
            public_endpoint: Whether its API server has a public endpoint.
            kubectl_role_arn: A role that may administer it, for what applies manifests; that gets an access entry if
                left out.
        """
        cluster = EksGpuClusterBase(scope, construct_id)
        group = ec2.SecurityGroup.from_security_group_id(cluster, "Group", cluster_security_group_id)
        cluster._become(
            EksIdentity(
                cluster_name=cluster_name,
                cluster_security_group=group,
                kubernetes_version=kubernetes_version,
                service_ipv4_cidr=service_ipv4_cidr,
                vpc=vpc,
                is_public=public_endpoint,
                kubectl_role_arn=kubectl_role_arn,
            )
        )
        return cluster
