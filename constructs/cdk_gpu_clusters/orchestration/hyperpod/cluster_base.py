"""What every HyperPod cluster offers, defined here or imported: quotas, priorities and permissions to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import ClusterConstruct
from cdk_gpu_clusters.compute.fleet_jobs import grant_statements
from cdk_gpu_clusters.orchestration.hyperpod.governance import (
    HyperPodSchedulerConfig,
    HyperPodTeamQuota,
    ResourceSharing,
)
from cdk_gpu_clusters.rules.hyperpod import QuotaResource

# Service authorization reference, "Amazon SageMaker AI": actions of the access levels Read and List on a cluster.
_READS = [
    "sagemaker:DescribeCluster",
    "sagemaker:DescribeClusterNode",
    "sagemaker:ListClusterNodes",
]
_GRANTED = AcceptedFinding(
    cause="Roles: what `IHyperPodCluster.grant_read` adds",
    reason="The grant names its actions and its cluster.",
    nist_hipaa_pci=("IAMNoInlinePolicy",),
)


class IHyperPodCluster(ClusterConstruct):
    """A HyperPod cluster: a `HyperPodCluster`, or one that is defined elsewhere.

    Example:
        >>> existing = HyperPodCluster.from_cluster_arn(
        ...     stack, "ExistingHyperPod", "arn:aws:sagemaker:us-east-1:123456789012:cluster/abc123def456", is_eks=True
        ... )
        >>> existing.is_eks
        True
    """

    _arn: str
    _is_eks: bool | None

    @property
    def cluster_arn(self) -> str:
        """ARN."""
        return self._arn

    @property
    def is_eks(self) -> bool | None:
        """Whether it is on Amazon EKS; None if that is not stated."""
        return self._is_eks

    def add_team_quota(
        self,
        construct_id: str,
        *,
        team: str,
        resources: Sequence[QuotaResource],
        sharing: ResourceSharing = ResourceSharing.LEND_AND_BORROW,
        borrow_limit_percent: int | None = None,
        fair_share_weight: int | None = None,
        preempts_own_tasks: bool = True,
    ) -> HyperPodTeamQuota:
        """Define the quota of a team.

        Args:
            construct_id: Id below the cluster.
            team: Name of the team.
            resources: What it may use.
            sharing: How it shares what is idle.
            borrow_limit_percent: What it may borrow, in percent of its own quota.
            fair_share_weight: Its weight.
            preempts_own_tasks: Whether its tasks of higher priority stop those of lower priority.

        Raises:
            ConfigError: As `HyperPodTeamQuota`.
        """
        return HyperPodTeamQuota(
            self,
            construct_id,
            cluster=self,
            team=team,
            resources=resources,
            sharing=sharing,
            borrow_limit_percent=borrow_limit_percent,
            fair_share_weight=fair_share_weight,
            preempts_own_tasks=preempts_own_tasks,
        )

    def add_scheduler_config(
        self, construct_id: str, *, priorities: Mapping[str, int], fair_share: bool = True, shares_idle: bool = True
    ) -> HyperPodSchedulerConfig:
        """Define the priorities of tasks; a cluster has one such configuration.

        Args:
            construct_id: Id below the cluster.
            priorities: Weight by priority class.
            fair_share: Whether weights of teams decide who gets what is idle.
            shares_idle: Whether teams share what is idle.

        Raises:
            ConfigError: As `HyperPodSchedulerConfig`.
        """
        return HyperPodSchedulerConfig(
            self,
            construct_id,
            cluster=self,
            priorities=priorities,
            fair_share=fair_share,
            shares_idle=shares_idle,
        )

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let someone describe the cluster and its nodes. Jobs are no part of it.

        Args:
            grantee: A role, a user or a group.
        """
        statements: list[dict[str, Any]] = [{"Action": _READS, "Resource": self.cluster_arn}]
        return grant_statements(grantee, statements, accepted=_GRANTED)


class ImportedHyperPodCluster(IHyperPodCluster):
    """A cluster that is defined elsewhere."""

    def __init__(self, scope: Construct, construct_id: str, *, arn: str, is_eks: bool | None) -> None:
        """Take its ARN.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            arn: ARN of the cluster.
            is_eks: Whether it is on Amazon EKS; None if unknown.
        """
        super().__init__(scope, construct_id)
        self._arn, self._is_eks = arn, is_eks
