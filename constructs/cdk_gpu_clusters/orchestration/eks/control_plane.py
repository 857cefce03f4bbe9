"""The control plane of a cluster: CDK's `aws_eks_v2.Cluster`, closed, logged and encrypted.

Of that construct only the cluster and its role are used: no Auto Mode, no default capacity, none of the add-ons that
EKS installs by itself and nobody updates, and no `kubectl` (docs/decisions/0015).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters.compute.node_log_group import encrypt_logs

if TYPE_CHECKING:  # takes long to load
    from aws_cdk import aws_kms as kms

_CLUSTER_POLICY = AcceptedFinding(
    cause="`EksGpuCluster`: role of the control plane",
    reason="AWS keeps what the control plane needs in the managed policy `AmazonEKSClusterPolicy`.",
    aws_solutions=("IAM4",),
)
_CONTROL_PLANE_LOGS = AcceptedFinding(
    cause="`EksGpuCluster` without `log_encryption_key`: log group of the control plane",
    reason="CloudWatch Logs encrypts every log group; a key of your own is a property.",
    nist_hipaa_pci=("CloudWatchLogGroupEncrypted",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneWish:
    """What a user says of a control plane."""

    cluster_name: str
    vpc: ec2.IVpc
    subnets: Sequence[ec2.ISubnet]
    kubernetes_version: str
    service_ipv4_cidr: str
    public_access_cidrs: Sequence[str]
    secrets_encryption_key: kms.IKey
    deletion_protection: bool
    log_retention: logs.RetentionDays
    log_encryption_key: kms.IKey | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """What was made of it."""

    cluster: eks.Cluster
    cfn_cluster: eks.CfnCluster
    log_group: logs.LogGroup


def control_plane(scope: Construct, wish: ControlPlaneWish) -> ControlPlane:
    """Define a control plane.

    Args:
        scope: The cluster.
        wish: What the user says of it.
    """
    log_group = _log_group(scope, wish)
    # EKS attaches its own group, too, which admits the nodes: this one has nothing to let through.
    group = ec2.SecurityGroup(
        scope, "ControlPlane", vpc=wish.vpc, description="EKS control plane", allow_all_outbound=False
    )
    cluster = eks.Cluster(
        scope,
        "Cluster",
        cluster_name=wish.cluster_name,
        version=eks.KubernetesVersion.of(wish.kubernetes_version),
        vpc=wish.vpc,
        vpc_subnets=[ec2.SubnetSelection(subnets=wish.subnets)],
        security_group=group,
        endpoint_access=_endpoint_access(wish.public_access_cidrs),
        service_ipv4_cidr=wish.service_ipv4_cidr,
        cluster_logging=list(eks.ClusterLoggingTypes),
        secrets_encryption_key=wish.secrets_encryption_key,
        bootstrap_cluster_creator_admin_permissions=False,
        bootstrap_self_managed_addons=False,
        default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
        default_capacity=0,
        output_config_command=False,
    )
    cdk.Annotations.of(cluster).acknowledge_warning(
        "@aws-cdk/aws-eks:clusterMustManuallyTagSubnet",
        "Only a controller of load balancers asks for the tag, and may be told its subnets instead",
    )
    _CLUSTER_POLICY.at(cluster.role, "Policy::arn:<AWS::Partition>:iam::aws:policy/AmazonEKSClusterPolicy")
    resource = cluster.node.default_child
    assert isinstance(resource, eks.CfnCluster)  # noqa: S101 - CDK's own promise
    resource.deletion_protection = wish.deletion_protection
    # EKS makes the group by itself where there is none, and keeps its logs for ever.
    resource.node.add_dependency(log_group)
    return ControlPlane(cluster=cluster, cfn_cluster=resource, log_group=log_group)


def _endpoint_access(public_access_cidrs: Sequence[str]) -> eks.EndpointAccess:
    if not public_access_cidrs:
        return eks.EndpointAccess.PRIVATE
    return eks.EndpointAccess.PUBLIC_AND_PRIVATE.only_from(*public_access_cidrs)


def _log_group(scope: Construct, wish: ControlPlaneWish) -> logs.LogGroup:
    """The log group that EKS writes to, made before it would make one itself.

    Source: Amazon EKS user guide, "Send control plane logs to CloudWatch Logs": `/aws/eks/<cluster>/cluster`.
    """
    made = logs.LogGroup(
        scope,
        "Logs",
        log_group_name=f"/aws/eks/{wish.cluster_name}/cluster",
        retention=wish.log_retention,
        encryption_key=wish.log_encryption_key,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    if wish.log_encryption_key is None:
        _CONTROL_PLANE_LOGS.at(made)
    else:
        encrypt_logs(scope, wish.log_encryption_key)
    return made
