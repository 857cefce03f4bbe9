"""Task governance of HyperPod on Amazon EKS: quotas of teams, and priorities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import ClusterConstruct, report, resolved_or_none
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.fleet.instance_group import KNOWN_FAMILIES
from cdk_gpu_clusters.rules.hyperpod import (
    QuotaResource,
    check_governance,
    check_team_quota,
    ml_name,
)

_NEW_TYPE = AcceptedFinding(
    cause="`HyperPodTeamQuota`: its resource type",
    reason="AWS::SageMaker::ComputeQuota is newer than the schemas that CDK 2.275 brings.",
    cloudformation=("F3006",),
)


class ResourceSharing(str, Enum):
    """How a team shares what it does not use.

    Attributes:
        LEND: Others may use what is idle.
        DONT_LEND: No one else uses it.
        LEND_AND_BORROW: Others may use what is idle, and the team uses what others leave idle.
    """

    LEND = "Lend"
    DONT_LEND = "DontLend"
    LEND_AND_BORROW = "LendAndBorrow"


class GovernedCluster(Protocol):
    """A cluster that has quotas. An `IHyperPodCluster` is one."""

    @property
    def cluster_arn(self) -> str: ...
    @property
    def is_eks(self) -> bool | None: ...


class HyperPodTeamQuota(ClusterConstruct):
    """What a team may use of a HyperPod cluster on Amazon EKS.

    SageMaker makes the namespace `hyperpod-ns-<team>` with a queue. The cluster needs the add-on
    `amazon-sagemaker-hyperpod-taskgovernance`: make the quota depend on it. Another team or cluster replaces the quota.

    Source: CloudFormation registry schema of AWS::SageMaker::ComputeQuota (2026-10-20).

    Example:
        >>> cluster = HyperPodCluster.from_cluster_arn(
        ...     stack, "OfQuota", "arn:aws:sagemaker:us-east-1:123456789012:cluster/abc123def456", is_eks=True
        ... )
        >>> quota = HyperPodTeamQuota(
        ...     stack, "Vision", cluster=cluster, team="vision",
        ...     resources=[QuotaResource(instance_type="p5.48xlarge", accelerators=16)],
        ... )
        >>> quota.namespace
        'hyperpod-ns-vision'

    Attributes:
        namespace: Namespace of the team.
        cfn_compute_quota: The CloudFormation resource, as an escape hatch.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: GovernedCluster,
        team: str,
        resources: Sequence[QuotaResource],
        sharing: ResourceSharing = ResourceSharing.LEND_AND_BORROW,
        borrow_limit_percent: int | None = None,
        fair_share_weight: int | None = None,
        preempts_own_tasks: bool = True,
        quota_name: str | None = None,
    ) -> None:
        """Define the quota.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: A cluster on Amazon EKS.
            team: Name of the team, 1 to 40 small letters, digits and hyphens. A change replaces the quota.
            resources: What it may use, of up to 15 types.
            sharing: How it shares what is idle; it lends and borrows if left out.
            borrow_limit_percent: What it may borrow, 1 to 500 percent of its own quota; 50 if left out.
            fair_share_weight: Its weight, 0 to 100; 0 if left out.
            preempts_own_tasks: Whether its tasks of higher priority stop those of lower priority.
            quota_name: Name, 1 to 63 letters, digits and hyphens; it follows from the path if left out. A change
                replaces the quota.

        Raises:
            ConfigError: GPU-HYP-001, -020 and -021, all of them at once.
        """
        super().__init__(scope, construct_id)
        report(
            self,
            check_governance(is_eks=cluster.is_eks)
            + check_team_quota(
                team=resolved_or_none(team),
                resources=resources,
                families=KNOWN_FAMILIES,
                fair_share_weight=fair_share_weight,
                borrow_limit_percent=borrow_limit_percent,
            ),
        )
        self.namespace: str = f"hyperpod-ns-{team}"
        limit = {} if borrow_limit_percent is None else {"BorrowLimit": borrow_limit_percent}
        weight = {} if fair_share_weight is None else {"FairShareWeight": fair_share_weight}
        # CDK 2.275 has no class for it.
        self.cfn_compute_quota: cdk.CfnResource = cdk.CfnResource(
            self,
            "Resource",
            type="AWS::SageMaker::ComputeQuota",
            properties={
                "Name": quota_name or cdk.Names.unique_resource_name(self, max_length=63),
                "ClusterArn": cluster.cluster_arn,
                "ComputeQuotaTarget": {"TeamName": team, **weight},
                "ComputeQuotaConfig": {
                    "ComputeQuotaResources": [_resource(one) for one in resources],
                    "ResourceSharingConfig": {"Strategy": sharing.value, **limit},
                    "PreemptTeamTasks": "LowerPriority" if preempts_own_tasks else "Never",
                },
            },
        )
        _NEW_TYPE.at(self.cfn_compute_quota)


def _resource(one: QuotaResource) -> dict[str, Any]:
    found = {
        "Count": one.node_count,
        "Accelerators": one.accelerators,
        "VCpu": one.vcpus,
        "MemoryInGiB": one.memory_gib,
        "AcceleratorPartition": None
        if one.mig_profile is None
        else {"Type": f"mig-{one.mig_profile}", "Count": one.mig_count},
    }
    given = {name: value for name, value in found.items() if value is not None}
    return {"InstanceType": ml_name(one.instance_type), **given}


class HyperPodSchedulerConfig(ClusterConstruct):
    """Priorities of the tasks of a HyperPod cluster on Amazon EKS, and how teams share what is idle.

    The cluster needs the add-on `amazon-sagemaker-hyperpod-taskgovernance`: make the configuration depend on it.

    A task names its class as `<name>-priority` (Amazon SageMaker AI developer guide, "Task governance").

    Source: CloudFormation registry schema of AWS::SageMaker::ClusterSchedulerConfig (2026-10-20).

    Example:
        >>> cluster = HyperPodCluster.from_cluster_arn(
        ...     stack, "OfPriorities", "arn:aws:sagemaker:us-east-1:123456789012:cluster/abc123def456", is_eks=True
        ... )
        >>> config = HyperPodSchedulerConfig(
        ...     stack, "Priorities", cluster=cluster, priorities={"training": 80, "research": 20}
        ... )

    Attributes:
        cfn_cluster_scheduler_config: The CloudFormation resource, as an escape hatch.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: GovernedCluster,
        priorities: Mapping[str, int],
        fair_share: bool = True,
        shares_idle: bool = True,
        config_name: str | None = None,
    ) -> None:
        """Define the configuration.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: A cluster on Amazon EKS.
            priorities: Weight of 0 to 100 by priority class, up to 10.
            fair_share: Whether weights of teams decide who gets what is idle.
            shares_idle: Whether teams share what is idle.
            config_name: Name; it follows from the path if left out. A change replaces the configuration.

        Raises:
            ConfigError: GPU-HYP-021 and -022, all of them at once.
        """
        super().__init__(scope, construct_id)
        report(self, check_governance(is_eks=cluster.is_eks, priorities=priorities))
        # A dictionary in camel case, which CDK passes on as given.
        self.cfn_cluster_scheduler_config: sagemaker.CfnClusterSchedulerConfig = sagemaker.CfnClusterSchedulerConfig(
            self,
            "Resource",
            name=config_name or cdk.Names.unique_resource_name(self, max_length=63),
            cluster_arn=cluster.cluster_arn,
            scheduler_config={
                "priorityClasses": [{"name": name, "weight": weight} for name, weight in priorities.items()],
                "fairShare": _switch(fair_share),
                "idleResourceSharing": _switch(shares_idle),
            },
        )


def _switch(on: bool) -> str:
    return "Enabled" if on else "Disabled"
