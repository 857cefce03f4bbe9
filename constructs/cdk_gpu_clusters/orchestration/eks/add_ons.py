"""The add-ons of a cluster of Amazon EKS, with roles of their own by EKS Pod Identity."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct, IDependable

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.catalogue.kubernetes import EksAddOn, add_on
from cdk_gpu_clusters.compute.node_records import own_log_group
from cdk_gpu_clusters.rules.eks_cluster import CONTAINER_INSIGHTS, add_on_configuration

if TYPE_CHECKING:
    from aws_cdk import aws_kms as kms

    from cdk_gpu_clusters.orchestration.eks.cluster_base import IEksGpuCluster

_POD_POLICIES = AcceptedFinding(
    cause="`EksGpuCluster`: roles of the add-ons `vpc-cni`, `aws-ebs-csi-driver` and `amazon-cloudwatch-observability`",
    reason="AWS keeps what its add-ons need in managed policies; each is with the one service account that uses it.",
    aws_solutions=("IAM4",),
)
_PLAIN_LOGS = AcceptedFinding(
    cause="`ContainerInsights` without `log_encryption_key`: log groups of containers and nodes",
    reason="CloudWatch Logs encrypts every log group; `log_encryption_key` takes a key of your own.",
    nist_hipaa_pci=("CloudWatchLogGroupEncrypted",),
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

    def __init__(self, cluster: IEksGpuCluster, *, versions: Mapping[str, str], left_out: Collection[str]) -> None:
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
            self.roles[row.name] = add_on_role(self._cluster._add_on_scope, self._cluster, row)
            roles[row.service_account] = self.roles[row.name].role_arn
        self.resources[row.name] = self._cluster._define_add_on(
            row.name,
            version=self._versions.get(row.name),
            configuration=add_on_configuration(row.name),
            service_account_roles=roles,
        )
        return self.resources[row.name]


def add_on_role(scope: Construct, cluster: IEksGpuCluster, row: EksAddOn) -> iam.Role:
    """The role of an add-on's pods, with the managed policies that AWS has for it."""
    policies = [iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in row.managed_policies]
    role = iam.Role(
        scope,
        f"{row.name}-role",
        assumed_by=pod_principal(cluster, namespace=row.namespace, service_account=row.service_account),
        managed_policies=policies,
    )
    if row.managed_policies:
        _POD_POLICIES.at(
            role, *(f"Policy::arn:<AWS::Partition>:iam::aws:policy/{name}" for name in row.managed_policies)
        )
    return role


def pod_principal(cluster: IEksGpuCluster, *, namespace: str, service_account: str | None) -> iam.IPrincipal:
    """Who takes a role by EKS Pod Identity: only the pods of one service account in one cluster.

    Source: Amazon EKS user guide, "Create IAM role with trust policy required by EKS Pod Identity"
    (awsdocs/amazon-eks-user-guide @ 2edffcb, read 2026-11-22): the tags, and the two actions.
    """
    pods = iam.ServicePrincipal(
        "pods.eks.amazonaws.com",
        conditions={
            "StringEquals": {
                "aws:RequestTag/eks-cluster-arn": cluster.cluster_arn,
                "aws:RequestTag/kubernetes-namespace": namespace,
                "aws:RequestTag/kubernetes-service-account": service_account,
            }
        },
    )
    return iam.SessionTagsPrincipal(pods)


def define_pod_role(scope: Construct, cluster: IEksGpuCluster, *, namespace: str, service_account: str) -> iam.Role:
    """A role that the pods of one service account take, with the association that EKS gives it to them by.

    EKS gives a pod its role as the pod is made: both have to exist before.

    Args:
        scope: Construct that they belong to.
        cluster: The cluster.
        namespace: Namespace of the service account.
        service_account: Its name.
    """
    principal = pod_principal(cluster, namespace=namespace, service_account=service_account)
    role = iam.Role(scope, "Role", assumed_by=principal)
    eks.CfnPodIdentityAssociation(
        scope,
        "PodIdentity",
        cluster_name=cluster.cluster_name,
        namespace=namespace,
        service_account=service_account,
        role_arn=role.role_arn,
    )
    return role


class ContainerInsights(Construct):
    """CloudWatch Container Insights of a cluster: its metrics and container logs in CloudWatch, by the EKS add-on.

    Makes the add-on `amazon-cloudwatch-observability` with a role for the pods of its one service account, and the log
    groups it writes to. The add-on would make these itself, without an end and without a key. It runs the CloudWatch
    agent, Fluent Bit, and NVIDIA's DCGM exporter or the Neuron monitor on the nodes. Application Signals, which changes
    the pods of applications, stays off.

    Source: Amazon CloudWatch user guide, "Install the CloudWatch agent with the Amazon CloudWatch Observability EKS
    add-on": the settings, the managed policy, and Pod Identity from version 3.1.0 of the add-on on.
    aws-observability/helm-charts @ 71a298f (chart 6.4.0), values.yaml: service account and log groups of Fluent Bit.
    aws/amazon-cloudwatch-agent, translator of `awsemf`: log group of the metrics (read 2026-11-27).

    Example:
        >>> from cdk_gpu_clusters import ContainerInsights, EksGpuCluster
        >>> cluster = EksGpuCluster(stack, "Watched", vpc=two_zone_vpc)
        >>> insights = ContainerInsights(stack, "Insights", cluster=cluster)
        >>> sorted(insights.log_groups)
        ['application', 'dataplane', 'host', 'performance']

    Attributes:
        cfn_addon: The CloudFormation resource of the add-on.
        role: Role of its pods.
        log_groups: Log groups by what they hold: `performance` has the metrics, `application` the logs of containers,
            `dataplane` those of kubelet and the container runtime, `host` those of the operating system.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: IEksGpuCluster,
        version: str | None = None,
        accelerator_metrics: bool = True,
        container_logs: bool = True,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        log_encryption_key: kms.IKey | None = None,
    ) -> None:
        """Define the add-on of a cluster; a cluster has it once.

        Args:
            scope: Parent construct.
            construct_id: Id below it.
            cluster: The cluster, defined here or imported.
            version: Version of the add-on, 3.1.0 or later, such as `v6.2.0-eksbuild.1`; the default one of the
                cluster's Kubernetes version if left out.
            accelerator_metrics: Whether it also collects metrics of GPUs, Neuron devices and EFA; yes if left out. One
                process of a node reads the profiling counters of its GPUs at a time: leave out the release
                `dcgm-exporter` of `cluster_software` then, or give False.
            container_logs: Whether the logs of containers and nodes are sent too; yes if left out.
            log_retention: How long the log groups keep events; one month if left out.
            log_encryption_key: Key of the log groups; CloudWatch's own if left out.

        Raises:
            ConfigError: A value is of another type (GPU-ARG-001).
        """
        super().__init__(scope, construct_id)
        kinds = ("performance", *(_CONTAINER_LOGS if container_logs else ()))
        self.log_groups: Mapping[str, logs.LogGroup] = {
            kind: own_log_group(
                self,
                kind.capitalize(),
                name=f"/aws/containerinsights/{cluster.cluster_name}/{kind}",
                retention=log_retention,
                encryption_key=log_encryption_key,
                without_key=_PLAIN_LOGS,
            )
            for kind in kinds
        }
        row = add_on(CONTAINER_INSIGHTS)
        assert row.service_account is not None  # noqa: S101 - the catalogue names it
        self.role: iam.Role = add_on_role(self, cluster, row)
        kubernetes = {"enhanced_container_insights": True, "accelerated_compute_metrics": accelerator_metrics}
        self.cfn_addon: eks.CfnAddon = cluster._define_add_on(
            CONTAINER_INSIGHTS,
            scope=self,
            version=version,
            configuration={
                # The agent's configuration replaces the default one, and so leaves Application Signals out.
                "agent": {"config": {"logs": {"metrics_collected": {"kubernetes": kubernetes}}}},
                "containerLogs": {"enabled": container_logs},
            },
            service_account_roles={row.service_account: self.role.role_arn},
        )
        # The add-on makes log groups that it does not find.
        self.cfn_addon.node.add_dependency(*self.log_groups.values(), *cluster.workload_prerequisites)


# Log groups of Fluent Bit, by the last part of their names.
_CONTAINER_LOGS = ("application", "dataplane", "host")
