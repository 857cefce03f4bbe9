"""Dashboard, budget and metrics of a cluster, in a stack of its own that is deployed after the fleets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters.compute.fleet import GpuFleet
from cdk_gpu_clusters.compute.fleet_access import IGpuFleet
from cdk_gpu_clusters.inference.inference_fleet import InferenceFleet
from cdk_gpu_clusters.observability.brake import FleetBrake
from cdk_gpu_clusters.observability.budget import ClusterBudget
from cdk_gpu_clusters.observability.dashboard import ClusterDashboard
from cdk_gpu_clusters.observability.eks_scraper import EksMetricsScraper
from cdk_gpu_clusters.observability.grafana_workspace import GrafanaAuthentication, GrafanaWorkspace
from cdk_gpu_clusters.observability.panels import DashboardFileSystem, DashboardFleet
from cdk_gpu_clusters.observability.scraper import MetricsScraper, ScrapedFleet, ScrapedNodeGroup
from cdk_gpu_clusters.observability.workspace import MetricsWorkspace
from cdk_gpu_clusters.rules.scrape import MOST_SUBNETS, ZONE_SUFFIX
from cdk_gpu_clusters_stacks.data import ExistingLustre, LustreStack
from cdk_gpu_clusters_stacks.fleets import MonitoredFleet, Nodes, NodesStack, Site
from cdk_gpu_clusters_stacks.plan._dashboard import (
    dashboard_fleet,
    scraped_pods,
    scraped_ports,
    scrapes_controller,
)
from cdk_gpu_clusters_stacks.references import publish, read
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.monitoring import SLURM_LABEL, BrakeSpec, BudgetSpec, MetricsSpec
from cdk_gpu_clusters_stacks.stack_names import monitoring_stack

if TYPE_CHECKING:  # takes long to load
    from aws_cdk import aws_route53 as route53

    from cdk_gpu_clusters_stacks.eks import EksStack, ExistingEks
    from cdk_gpu_clusters_stacks.slurm import ExistingSlurm, SlurmStack


_SIGN_IN = {
    "identity-center": GrafanaAuthentication.IDENTITY_CENTER,
    "saml": GrafanaAuthentication.SAML,
}


class MonitoringStack(cdk.Stack):
    """The dashboard, the budget, the collector of metrics and Grafana of a cluster, whichever its file has."""

    def __init__(
        self,
        site: Site,
        fleets: Sequence[MonitoredFleet],
        *,
        slurm: SlurmStack | ExistingSlurm | None = None,
        kubernetes: EksStack | ExistingEks | None = None,
    ) -> None:
        """Define the stack.

        Args:
            site: What the stacks of the cluster have in common.
            fleets: All fleets.
            slurm: Cluster of AWS PCS that the fleets are in; None if they are in none.
            kubernetes: Cluster of Amazon EKS that the fleets are in; None if they are in none.
        """
        name = monitoring_stack(site.spec.name)
        super().__init__(site.app, name, env=site.env, description="Monitoring of a GPU cluster")
        spec = site.spec.monitoring
        if spec.dashboard:
            dashboard = ClusterDashboard(
                self,
                "Dashboard",
                title=site.spec.name,
                fleets=[self._fleet(site, fleet) for fleet in sorted(fleets, key=lambda one: one.planned.name)],
                file_systems=[
                    DashboardFileSystem(name=name, file_system_id=store.import_into(self).file_system_id)
                    for name, store in sorted(site.stores.items())
                    if isinstance(store, LustreStack | ExistingLustre)
                ],
            )
            publish(self, "DashboardName", dashboard.dashboard_name, description="Dashboard in Amazon CloudWatch")
        if spec.budget is not None:
            made = self._budget(site.spec.name, spec.budget)
            if spec.brake is not None:
                by_name = {one.planned.name: one for one in fleets if isinstance(one, NodesStack)}
                self._brake(made, spec.brake, [by_name[name] for name in spec.brake.fleets])
        workspace = None
        if spec.metrics is not None:
            serving = [one for one in fleets if isinstance(one, NodesStack) and one.planned.serves_metrics]
            workspace = self._workspace(site.spec.name, spec.metrics)
            if kubernetes is not None:
                self._scrape_pods(site, serving, kubernetes, workspace)
            else:
                self._scrape_nodes(site, spec.metrics, serving, slurm, workspace)

        if spec.grafana is not None:
            ways = [_SIGN_IN[one] for one in spec.grafana.authentication]
            metrics = [] if workspace is None else [workspace]
            shown = GrafanaWorkspace(self, "Grafana", authentication=ways, metrics=metrics, name=site.spec.name)
            publish(self, "GrafanaEndpoint", shown.endpoint, description="Host name of the workspace of Grafana")

    def _fleet(self, site: Site, fleet: MonitoredFleet) -> DashboardFleet:
        """A fleet with the names that its stacks have."""
        planned = dashboard_fleet(fleet.planned, site.spec)
        has_group = planned.group_name is not None
        made = () if fleet.capacity is None else (read(self, fleet.capacity, "ReservationId"),)
        return replace(
            planned,
            path=fleet.nodes.fleet_path,
            group_name=read(self, fleet, "FleetName") if has_group and isinstance(fleet, NodesStack) else None,
            reservation_ids=(*planned.reservation_ids, *made),
        )

    def _budget(self, cluster: str, budget: BudgetSpec) -> ClusterBudget:
        topic = None
        if budget.topic_arn is not None:
            from aws_cdk import aws_sns as sns  # takes long to load

            topic = sns.Topic.from_topic_arn(self, "Recipients", budget.topic_arn)
        return ClusterBudget(
            self,
            "Budget",
            cluster=cluster,
            usd_per_month=budget.usd_per_month,
            emails=budget.emails,
            topic=topic,
            actual_percent=budget.actual_percent,
            forecast_percent=budget.forecast_percent,
        )

    def _brake(self, budget: ClusterBudget, brake: BrakeSpec, fleets: Sequence[NodesStack]) -> None:
        made = FleetBrake(
            self,
            "Brake",
            budget_name=budget.budget_name,
            fleets=[_of_nodes(one.nodes) for one in fleets],
            percent=brake.percent,
            _group_names=[read(self, one, "FleetName") for one in fleets],
        )
        made.alarms.add_topic(budget.topic)

    def _workspace(self, cluster: str, spec: MetricsSpec) -> MetricsWorkspace | None:
        """The workspace that metrics go to, with its rules; None for Amazon CloudWatch."""
        if spec.destination != "workspace":
            return None
        workspace = MetricsWorkspace(self, "Workspace", alias=cluster, retention_days=spec.retention_days)
        workspace.add_rules("Rules")
        publish(self, "WorkspaceArn", workspace.workspace_arn, description="Workspace with the metrics")
        # Readers cannot split the value of another stack.
        workspace_id = cdk.Fn.select(1, cdk.Fn.split("/", workspace.workspace_arn))
        publish(self, "WorkspaceId", workspace_id, description="Id of the workspace with the metrics")
        return workspace

    def _scrape_pods(
        self,
        site: Site,
        fleets: Sequence[NodesStack],
        kubernetes: EksStack | ExistingEks,
        workspace: MetricsWorkspace | None,
    ) -> None:
        """The collector of the metrics of nodes and pods of Amazon EKS."""
        EksMetricsScraper(
            self,
            "Scraper",
            cluster=kubernetes.import_into(self, site.place.vpc(self)),
            vpc_subnets=ec2.SubnetSelection(subnets=site.place.service_subnets(self)[:MOST_SUBNETS]),
            fleets=sorted(fleet.planned.name for fleet in fleets),
            targets=scraped_pods(site.spec),
            workspace=workspace,
        )

    def _scrape_nodes(
        self,
        site: Site,
        spec: MetricsSpec,
        fleets: Sequence[NodesStack],
        slurm: SlurmStack | ExistingSlurm | None,
        workspace: MetricsWorkspace | None,
    ) -> None:
        """The collector of the metrics of nodes and of Slurm."""
        fleets = sorted(fleets, key=lambda one: one.planned.name)
        vpc = site.place.vpc(self)
        cluster = None if slurm is None else slurm.import_into(self, vpc)
        zone_name = f"{site.spec.name}.{ZONE_SUFFIX}"
        zone = None if spec.zone_id is None else self._zone(spec.zone_id, zone_name)
        MetricsScraper(
            self,
            "Scraper",
            vpc=vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=site.place.service_subnets(self)[:MOST_SUBNETS]),
            zone_name=zone_name if zone is None else None,
            zone=zone,
            fleets=[] if cluster is not None else [self._scraped(fleet, site.spec) for fleet in fleets],
            slurm_clusters={} if cluster is None or not scrapes_controller(site.spec) else {SLURM_LABEL: cluster},
            node_groups=[]
            if cluster is None
            else [
                ScrapedNodeGroup(
                    name=fleet.planned.name,
                    cluster=cluster,
                    node_group_id=read(self, fleet, "NodeGroupId"),
                    fleet_path=fleet.nodes.fleet_path,
                    exporters=scraped_ports(fleet.planned, site.spec),
                )
                for fleet in fleets
            ],
            workspace=workspace,
        )

    def _zone(self, zone_id: str, name: str) -> route53.IPrivateHostedZone:
        from aws_cdk import aws_route53 as route53  # takes long to load

        return route53.PrivateHostedZone.from_hosted_zone_attributes(
            self, "Zone", hosted_zone_id=zone_id, zone_name=name
        )

    def _scraped(self, fleet: NodesStack, spec: ClusterSpec) -> ScrapedFleet:
        name = fleet.planned.name
        parent = Construct(self, f"Scraped-{name}")
        group = ec2.SecurityGroup.from_security_group_id(parent, "Group", read(self, fleet, "NodeSecurityGroupId"))
        imported = GpuFleet.from_gpu_fleet_attributes(
            parent,
            "Fleet",
            fleet_name=read(self, fleet, "FleetName"),
            role=fleet.nodes.role,
            security_groups=[group],
        )
        return ScrapedFleet(
            name=name,
            fleet=imported,
            exporters=scraped_ports(fleet.planned, spec),
            fleet_path=fleet.nodes.fleet_path,
        )


def _of_nodes(nodes: Nodes) -> IGpuFleet:
    """The fleet of some nodes; the brake refuses those that are not on plain EC2."""
    return nodes.fleet if isinstance(nodes, InferenceFleet) else cast("IGpuFleet", nodes)
