"""An AWS managed collector that scrapes the metrics of a cluster of Amazon EKS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from cdk_gpu_clusters._cdk import (
    ClusterConstruct,
    region_of,
    report,
    resolved_or_none,
    selected_subnets,
    stack_of,
    zone_of,
)
from cdk_gpu_clusters.observability.collector import (
    WorkspaceRoles,
    check_workspace_of,
    collector_logs,
    define_collector,
)
from cdk_gpu_clusters.observability.eks_targets import EKS_POD_TARGETS, eks_scrape_configuration
from cdk_gpu_clusters.rules.scrape import MOST_SUBNETS, PodTarget, check_configuration, check_place, check_pods

if TYPE_CHECKING:
    from aws_cdk import aws_aps as aps
    from aws_cdk import aws_kms as kms

    from cdk_gpu_clusters.observability.workspace import IMetricsWorkspace
    from cdk_gpu_clusters.orchestration.eks.cluster_base import IEksGpuCluster


class EksMetricsScraper(ClusterConstruct):
    """A managed collector that finds pods and nodes of a cluster of Amazon EKS by the Kubernetes API.

    It sends what it reads to the default dataset of Amazon CloudWatch, where PromQL queries it, or to a workspace of
    Amazon Managed Service for Prometheus. It runs outside the cluster, and needs no pod in it.

    Makes one `AWS::APS::Scraper` and its log group. The collector has the security group of the cluster, as AWS asks
    for: nodes and pods of managed node groups admit it, unless a NetworkPolicy refuses it.

    Amazon Managed Service for Prometheus itself makes the access entry by which its service-linked role lists nodes and
    pods. EKS lets no one else make one for such a role. The cluster has private access to its API server, and the
    authentication mode `API` or `API_AND_CONFIG_MAP`, as every `EksGpuCluster` has. An imported cluster must have both.

    Sources: CloudFormation registry schema of AWS::APS::Scraper (the source can only be set at creation); user guide of
    Amazon Managed Service for Prometheus, "Set up managed collectors for Amazon EKS"; Amazon CloudWatch user guide,
    "Integrate Amazon EKS" (CloudWatch as a destination).

    Example:
        >>> from cdk_gpu_clusters import EksGpuCluster
        >>> cluster = EksGpuCluster.from_eks_gpu_cluster_attributes(
        ...     stack,
        ...     "OfResearch",
        ...     vpc=two_zone_vpc,
        ...     cluster_name="research",
        ...     cluster_security_group_id="sg-0123456789abcdef0",
        ...     kubernetes_version="1.35",
        ... )
        >>> scraper = EksMetricsScraper(stack, "EksScraper", cluster=cluster, fleets=["trainers"])
        >>> scraper.configuration.count("job_name")
        4

    Attributes:
        configuration: The scrape configuration of Prometheus, as it is at synthesis; it may hold tokens.
        log_group: What the collector logs: service discovery, failed scrapes, and deliveries.
        cfn_scraper: The resource, as an escape hatch.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: IEksGpuCluster,
        targets: Sequence[PodTarget] = EKS_POD_TARGETS,
        fleets: Sequence[str] = (),
        workspace: IMetricsWorkspace | None = None,
        workspace_roles: WorkspaceRoles | None = None,
        vpc_subnets: ec2.SubnetSelection | None = None,
        interval_seconds: int = 60,
        timeout_seconds: int = 10,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        log_encryption_key: kms.IKey | None = None,
    ) -> None:
        """Define the collector.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: The cluster. Another one replaces the collector.
            targets: Pods that are scraped. By default `EKS_POD_TARGETS`: NVIDIA's DCGM exporter at port 9400, model
                servers of this library (vLLM) at port 8000, and nodes of Ray at port 8080.
            fleets: Values of the label `gpu-cluster/fleet` of node groups with `NodeWatch(metrics_port=9810)`, whose
                watchdogs are scraped. None by default.
            workspace: Where the metrics go. By default to the default dataset of Amazon CloudWatch in this account and
                Region.
            workspace_roles: Roles by which it writes to a workspace of another account, or to one with a key of its
                own. By default it writes by its service-linked role.
            vpc_subnets: 2 to 5 subnets of the cluster's network in different zones, in each of which AWS makes a
                network interface. By default the first five of the control plane. A change replaces the collector.
            interval_seconds: How often each target is scraped, 30 seconds or more. 60 by default, as nodes measure once
                a minute.
            timeout_seconds: How long a scrape may take, at most the interval. 10 by default.
            log_retention: How long the log group keeps records. By default a month.
            log_encryption_key: Key of the log group. A key of this app lets CloudWatch Logs use it; the policy of an
                imported one must. By default the service's own key.

        Raises:
            ConfigError: GPU-SCR-001 to -005, -008, -009, -011.
            ValueError: If `workspace_roles` are given without `workspace`.
        """
        super().__init__(scope, construct_id)
        subnets = _subnets(cluster, vpc_subnets)
        region = resolved_or_none(region_of(stack_of(self)))
        findings = [
            *check_place([zone_of(subnet) for subnet in subnets], region=region),
            *check_workspace_of(self, workspace, workspace_roles),
            *check_pods(targets, fleets=fleets, interval_seconds=interval_seconds, timeout_seconds=timeout_seconds),
        ]
        report(self, findings)
        self.configuration: str = eks_scrape_configuration(
            targets,
            fleets=fleets,
            cluster_name=cluster.cluster_name,
            interval_seconds=interval_seconds,
            timeout_seconds=timeout_seconds,
        )
        report(self, check_configuration(self.configuration))
        self.log_group: logs.LogGroup = collector_logs(self, log_retention, log_encryption_key)
        self.cfn_scraper: aps.CfnScraper = self._scraper(cluster, subnets, workspace, workspace_roles)
        self._read_node_anew()

    def _scraper(
        self,
        cluster: IEksGpuCluster,
        subnets: Sequence[ec2.ISubnet],
        workspace: IMetricsWorkspace | None,
        roles: WorkspaceRoles | None,
    ) -> aps.CfnScraper:
        from aws_cdk import aws_aps as aps  # takes long to load

        return define_collector(
            self,
            source=aps.CfnScraper.SourceProperty(
                eks_configuration=aps.CfnScraper.EksConfigurationProperty(
                    cluster_arn=cluster.cluster_arn,
                    subnet_ids=[subnet.subnet_id for subnet in subnets],
                    security_group_ids=[cluster.cluster_security_group.security_group_id],
                )
            ),
            configuration=self.configuration,
            workspace=workspace,
            roles=roles,
            log_group=self.log_group,
        )

    def _main_resource(self) -> IConstruct | None:
        return vars(self).get("cfn_scraper")


def _subnets(cluster: IEksGpuCluster, selection: ec2.SubnetSelection | None) -> list[ec2.ISubnet]:
    if selection is None:
        return list(cluster.subnets)[:MOST_SUBNETS]
    return list(selected_subnets(cluster.vpc, selection).subnets)
