"""What every cluster of AWS PCS offers, defined here or imported: node groups, queues, login nodes and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import ClusterConstruct, arn_of, region_of
from cdk_gpu_clusters.compute.fleet_jobs import grant_statements
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.orchestration.pcs.login import LOGIN_INSTANCE_TYPE, PcsLoginNodes
from cdk_gpu_clusters.orchestration.pcs.node_group import PcsNodeGroup, PcsNodeGroupProps
from cdk_gpu_clusters.orchestration.pcs.queue import JobNodes, PcsQueue
from cdk_gpu_clusters.rules.pcs import ClusterSize, check_cluster_size
from cdk_gpu_clusters.rules.pcs_programs import check_node_programs

if TYPE_CHECKING:  # takes long to load
    from aws_cdk import aws_cloudwatch as cloudwatch

#: AWS PCS user guide, "Security groups in AWS PCS": where nodes reach slurmctld, and the controller slurmd.
SLURMCTLD_PORT, SLURMD_PORT = 6817, 6818
# Service authorization reference, "AWS Parallel Computing Service": actions of the access levels Read and List.
_READS = ["pcs:GetCluster", "pcs:ListComputeNodeGroups", "pcs:ListQueues"]
_READS_BELOW = ["pcs:GetComputeNodeGroup", "pcs:GetQueue"]
_GRANTED = AcceptedFinding(
    cause="Roles: what `IPcsCluster.grant_read` adds",
    reason="The grant names its actions and its cluster; `*` means the node groups and queues of that cluster.",
    aws_solutions=("IAM5",),
    nist_hipaa_pci=("IAMNoInlinePolicy",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PcsIdentity:
    """What nodes and users need to know about a cluster."""

    cluster_id: str
    slurm_version: str
    security_groups: Sequence[ec2.ISecurityGroup]
    vpc: ec2.IVpc
    size: ClusterSize | None = None
    slurm_settings: Mapping[str, str] = field(default_factory=dict)


@jsii.implements(ec2.IConnectable)
class IPcsCluster(ClusterConstruct):
    """A Slurm cluster of AWS PCS: a `PcsCluster`, or one that is defined elsewhere.

    CDK accepts it as a peer: `scraper.connections.allow_to(cluster, ec2.Port.tcp(6817))`.

    Example:
        >>> from cdk_gpu_clusters import PcsCluster
        >>> existing = PcsCluster.from_pcs_cluster_attributes(
        ...     stack,
        ...     "ExistingSlurm",
        ...     vpc=vpc,
        ...     cluster_id="pcs_abc123def4",
        ...     slurm_version="26.05",
        ...     security_groups=[existing_group],
        ... )
        >>> existing.slurm_version
        '26.05'
    """

    _identity: PcsIdentity

    def __init__(self, scope: Construct, construct_id: str) -> None:
        """Define the construct; whoever makes it sets its identity."""
        super().__init__(scope, construct_id)
        self._node_count = 0

    @property
    def cluster_id(self) -> str:
        """Id, such as `pcs_abc123def4`."""
        return self._identity.cluster_id

    @cached_property
    def cluster_arn(self) -> str:
        """ARN."""
        return arn_of(self, "pcs", f"cluster/{self.cluster_id}")

    @property
    def slurm_version(self) -> str:
        """Major version of Slurm, such as `26.05`."""
        return self._identity.slurm_version

    @property
    def size(self) -> ClusterSize | None:
        """Size; None for an imported cluster of which it is not stated."""
        return self._identity.size

    @property
    def security_groups(self) -> Sequence[ec2.ISecurityGroup]:
        """Groups of the controller and of every node; they admit all traffic among their members."""
        return self._identity.security_groups

    @property
    def vpc(self) -> ec2.IVpc:
        """Network."""
        return self._identity.vpc

    @property
    @jsii.member(jsii_name="connections")
    def connections(self) -> ec2.Connections:
        """The security groups, for CDK's `allow_...` methods; slurmctld listens on port 6817."""
        return self._connections

    @cached_property
    def _connections(self) -> ec2.Connections:
        return ec2.Connections(security_groups=list(self.security_groups), default_port=ec2.Port.tcp(SLURMCTLD_PORT))

    @property
    def auth_key_secret_name(self) -> str:
        """Name of the secret with which Slurm's parts trust each other; whoever reads it is root in the cluster.

        Source: AWS PCS user guide, "Find the cluster secret".
        """
        return f"pcs!slurm-secret-{self.cluster_id}"

    @property
    def endpoints_command(self) -> str:
        """A shell line that shows addresses and ports of slurmctld, slurmdbd and slurmrestd.

        A template cannot name them: CloudFormation returns the endpoints as a list of objects.
        """
        region = region_of(self._stack)
        return f"aws pcs get-cluster --region {region} --cluster-identifier {self.cluster_id} --query cluster.endpoints"

    def add_gpu_node_group(
        self,
        construct_id: str,
        *,
        instance_type: str | ec2.InstanceType,
        **options: Unpack[PcsNodeGroupProps],
    ) -> PcsNodeGroup:
        """Define a group of GPU nodes in this cluster. Jobs come by a queue, see `add_queue`.

        Args:
            construct_id: Id below the cluster.
            instance_type: Type of every node, such as `p5.48xlarge`. A change replaces the group.
            options: Those of `PcsNodeGroupProps`; all but the size may be left out.

        Raises:
            ConfigError: As `PcsNodeGroup`.
        """
        return PcsNodeGroup(self, construct_id, cluster=self, instance_type=instance_type, **options)

    def add_queue(
        self,
        construct_id: str,
        *,
        node_groups: Sequence[JobNodes],
        queue_name: str | None = None,
        slurm_settings: Mapping[str, str] | None = None,
    ) -> PcsQueue:
        """Define a queue of this cluster.

        Args:
            construct_id: Id below the cluster.
            node_groups: Groups whose nodes run the jobs.
            queue_name: Name of the partition; the construct's id in small letters if left out. A change replaces the
                queue.
            slurm_settings: Settings of the partition, such as `{"Default": "YES"}`; none if left out.

        Raises:
            ConfigError: As `PcsQueue`.
        """
        return PcsQueue(
            self,
            construct_id,
            cluster=self,
            node_groups=node_groups,
            queue_name=queue_name,
            slurm_settings=slurm_settings,
        )

    def add_login_nodes(
        self,
        construct_id: str,
        *,
        instance_type: str | ec2.InstanceType = LOGIN_INSTANCE_TYPE,
        key_pair: ec2.IKeyPair | None = None,
        ssh_from: Sequence[ec2.IPeer] = (),
        **options: Unpack[PcsNodeGroupProps],
    ) -> PcsLoginNodes:
        """Define nodes on which people log in.

        Args:
            construct_id: Id below the cluster.
            instance_type: Type of the nodes; m7i.xlarge if left out. A change replaces the group.
            key_pair: Key with which the image's own user logs in by SSH; no key if left out.
            ssh_from: Who may connect to port 22; no one if left out.
            options: Those of `PcsNodeGroupProps`; one node without EFA if they say nothing else.

        Raises:
            ConfigError: As `PcsNodeGroup`.
        """
        return PcsLoginNodes(
            self,
            construct_id,
            cluster=self,
            instance_type=instance_type,
            key_pair=key_pair,
            ssh_from=ssh_from,
            **options,
        )

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let someone describe the cluster, its node groups and its queues. Jobs are no part of it.

        Args:
            grantee: A role, a user or a group.
        """
        below = [f"{self.cluster_arn}/{kind}/*" for kind in ("computenodegroup", "queue")]
        statements: list[dict[str, Any]] = [
            {"Action": _READS, "Resource": self.cluster_arn},
            {"Action": _READS_BELOW, "Resource": [self.cluster_arn, *below]},
        ]
        return grant_statements(grantee, statements, accepted=_GRANTED)

    def metric(
        self, metric_name: str, *, statistic: str = "Average", period: cdk.Duration | None = None
    ) -> cloudwatch.Metric:
        """A metric that AWS PCS publishes of the cluster.

        Source: AWS PCS user guide, "Monitoring AWS PCS metrics using CloudWatch".

        Args:
            metric_name: Name in the namespace AWS/PCS, such as `DesiredCapacity`.
            statistic: CloudWatch statistic.
            period: 1 minute if left out.
        """
        from aws_cdk import aws_cloudwatch as cloudwatch  # takes long to load

        return cloudwatch.Metric(
            namespace="AWS/PCS",
            metric_name=metric_name,
            dimensions_map={"ClusterId": self.cluster_id},
            statistic=statistic,
            period=period or cdk.Duration.minutes(1),
        )

    def metric_actual_capacity(self) -> cloudwatch.Metric:
        """Nodes that run, busy or idle."""
        return self.metric("ActualCapacity")

    def metric_idle_capacity(self) -> cloudwatch.Metric:
        """Nodes that run without a job."""
        return self.metric("IdleCapacity")

    def metric_capacity_utilization(self) -> cloudwatch.Metric:
        """Share of the running nodes that have a job, 0 to 1."""
        return self.metric("CapacityUtilization")

    def check_programs(self) -> list[Finding]:
        """Find programs of the cluster's Prolog and Epilog that nodes of other makes may lack."""
        return check_node_programs(self._identity.slurm_settings, "")

    def check_nodes(self, node_count: int) -> list[Finding]:
        """Count nodes of a new group, and find more than a cluster of this size holds.

        Args:
            node_count: The most nodes of the group.
        """
        self._node_count += node_count
        return [] if self.size is None else check_cluster_size(self.size.value, self._node_count)
