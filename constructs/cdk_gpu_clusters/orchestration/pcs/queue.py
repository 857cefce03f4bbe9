"""A queue of a Slurm cluster of AWS PCS: a partition of its nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from aws_cdk import aws_pcs as pcs
from constructs import Construct

from cdk_gpu_clusters._cdk import ClusterConstruct, report, resolved_or_none
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.orchestration.pcs.node_group import PcsNodeGroup, SlurmCluster, custom_settings
from cdk_gpu_clusters.rules.pcs import check_queue


class JobNodes(Protocol):
    """Nodes that a queue gives to jobs: a `PcsNodeGroup`, or another group of the cluster by its id."""

    @property
    def node_group_id(self) -> str: ...


class PcsQueue(ClusterConstruct):
    """A queue of a cluster of AWS PCS, which is a partition of Slurm: jobs wait in it for nodes of its groups.

    Several queues may share a node group. Another name or cluster replaces the queue. Slurm then refuses jobs that name
    the old one, so end or move those that wait first.

    Source: AWS PCS user guide, "AWS PCS queues"; registry schema of AWS::PCS::Queue (2026-10-20).

    Example:
        >>> cluster = PcsCluster.from_pcs_cluster_attributes(
        ...     stack, "SlurmOfQueue", vpc=vpc, cluster_id="pcs_abc123def4", slurm_version="26.05",
        ...     security_groups=[existing_group],
        ... )
        >>> nodes = PcsNodeGroup(
        ...     stack, "QueueNodes", cluster=cluster, instance_type="g6e.12xlarge", efa=False,
        ...     min_node_count=0, max_node_count=8,
        ... )
        >>> PcsQueue(stack, "Batch", cluster=cluster, node_groups=[nodes]).queue_name
        'batch'

    Attributes:
        queue_name: Name of the queue, for `sbatch --partition`.
        cfn_queue: The CloudFormation resource, as an escape hatch.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: SlurmCluster,
        node_groups: Sequence[JobNodes],
        queue_name: str | None = None,
        slurm_settings: Mapping[str, str] | None = None,
    ) -> None:
        """Define the queue.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster: a `PcsCluster`, or an imported one.
            node_groups: Groups whose nodes run the jobs. For groups that are no `PcsNodeGroup`, a warning names the
                programs that their nodes must have (GPU-PCS-068).
            queue_name: Name, 3 to 25 letters, digits and hyphens; the construct's id in small letters if left out. A
                change replaces the queue.
            slurm_settings: Settings of the partition, such as `{"Default": "YES", "MaxTime": "7-00:00:00"}`; none if
                left out.

        Raises:
            ConfigError: GPU-PCS-018 to -020, all of them at once.
        """
        super().__init__(scope, construct_id)
        self.queue_name: str = queue_name or re.sub(r"[^a-z0-9]+", "-", construct_id.lower()).strip("-")
        report(
            self,
            check_queue(
                name=resolved_or_none(self.queue_name),
                slurm_version=resolved_or_none(cluster.slurm_version),
                slurm_settings=slurm_settings,
            )
            + _of_others(cluster, node_groups),
        )
        settings = custom_settings(slurm_settings or {})
        # A dictionary in camel case, which CDK passes on as given.
        self.cfn_queue: pcs.CfnQueue = pcs.CfnQueue(
            self,
            "Resource",
            cluster_id=cluster.cluster_id,
            name=self.queue_name,
            compute_node_group_configurations=[{"computeNodeGroupId": one.node_group_id} for one in node_groups],
            slurm_configuration=None if settings is None else {"slurmCustomSettings": settings},
        )

    @property
    def queue_id(self) -> str:
        """Id of the queue, known at deployment."""
        return self.cfn_queue.attr_id

    @property
    def queue_arn(self) -> str:
        """ARN of the queue, known at deployment."""
        return self.cfn_queue.attr_arn


def _of_others(cluster: SlurmCluster, node_groups: Sequence[JobNodes]) -> list[Finding]:
    """What nodes of other makes may lack."""
    others = [one for one in node_groups if not isinstance(one, PcsNodeGroup)]
    return cluster.check_programs() if others else []
