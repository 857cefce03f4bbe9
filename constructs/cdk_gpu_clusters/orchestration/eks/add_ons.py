"""The add-ons of a cluster, with roles of their own by EKS Pod Identity."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import IDependable

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters.catalogue.kubernetes import EksAddOn, add_on
from cdk_gpu_clusters.orchestration.eks.cluster_base import IEksGpuCluster
from cdk_gpu_clusters.rules.eks_cluster import add_on_configuration

_POD_POLICIES = AcceptedFinding(
    cause="`EksGpuCluster`: roles of the add-ons `vpc-cni` and `aws-ebs-csi-driver`",
    reason="AWS keeps what its add-ons need in managed policies; each is with the one service account that uses it.",
    aws_solutions=("IAM4",),
)
# The one add-on whose managed policy is left out: it may make and delete file systems, and volumes of existing ones are
# mounted without it (catalogue/data/kubernetes.json).
_WITHOUT_PERMISSIONS = ("aws-fsx-csi-driver",)


class ClusterAddOns:
    """The add-ons that a cluster has from the start.

    Attributes:
        resources: The CloudFormation resources by name.
        roles: Roles of their pods by name, where they have one.
    """

    def __init__(
        self, cluster: IEksGpuCluster, *, versions: Mapping[str, str], left_out: Collection[str]
    ) -> None:
        """Remember what is asked of them.

        Args:
            cluster: The cluster.
            versions: Versions by name; the default one of the cluster's Kubernetes version where left out.
            left_out: Those not to define.
        """
        self._cluster = cluster
        self._versions = versions
        self._left_out = left_out
        self.resources: dict[str, eks.CfnAddon] = {}
        self.roles: dict[str, iam.Role] = {}

    def define(self, names: Iterable[str], *, after: Sequence[IDependable] = ()) -> list[eks.CfnAddon]:
        """Define some of them.

        Args:
            names: Which.
            after: What has to be there before.
        """
        made = [self._define(add_on(name)) for name in names if name not in self._left_out]
        for one in made:
            one.node.add_dependency(*after)
        return made

    def _define(self, row: EksAddOn) -> eks.CfnAddon:
        roles: dict[str, str] = {}
        if row.needs_permissions and row.service_account is not None and row.name not in _WITHOUT_PERMISSIONS:
            self.roles[row.name] = _role(self._cluster, row)
            roles[row.service_account] = self.roles[row.name].role_arn
        self.resources[row.name] = self._cluster._define_add_on(
            row.name,
            version=self._versions.get(row.name),
            configuration=add_on_configuration(row.name),
            service_account_roles=roles,
        )
        return self.resources[row.name]


def _role(cluster: IEksGpuCluster, row: EksAddOn) -> iam.Role:
    """A role that only the pods of one service account in one cluster take.

    Source: Amazon EKS user guide, "Create IAM role with trust policy required by EKS Pod Identity"
    (awsdocs/amazon-eks-user-guide @ 2edffcb, read 2026-11-22): the tags, and the two actions.
    """
    pods = iam.ServicePrincipal(
        "pods.eks.amazonaws.com",
        conditions={
            "StringEquals": {
                "aws:RequestTag/eks-cluster-arn": cluster.cluster_arn,
                "aws:RequestTag/kubernetes-namespace": row.namespace,
                "aws:RequestTag/kubernetes-service-account": row.service_account,
            }
        },
    )
    role = iam.Role(
        cluster._add_on_scope,
        f"{row.name}-role",
        assumed_by=iam.SessionTagsPrincipal(pods),
        managed_policies=[
            iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in row.managed_policies
        ],
    )
    if row.managed_policies:
        _POD_POLICIES.at(
            role, *(f"Policy::arn:<AWS::Partition>:iam::aws:policy/{name}" for name in row.managed_policies)
        )
    return role
