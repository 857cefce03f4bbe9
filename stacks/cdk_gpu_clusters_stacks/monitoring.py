"""The dashboard and the budget of a cluster, in a stack of its own that is deployed after the fleets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import aws_cdk as cdk

from cdk_gpu_clusters.observability.budget import ClusterBudget
from cdk_gpu_clusters.observability.dashboard import ClusterDashboard
from cdk_gpu_clusters.observability.panels import DashboardFileSystem, DashboardFleet
from cdk_gpu_clusters_stacks.data import ExistingLustre, LustreStack
from cdk_gpu_clusters_stacks.fleets import NodesStack, Site
from cdk_gpu_clusters_stacks.plan._dashboard import dashboard_fleet
from cdk_gpu_clusters_stacks.references import publish, read
from cdk_gpu_clusters_stacks.spec.monitoring import BudgetSpec
from cdk_gpu_clusters_stacks.stack_names import monitoring_stack


class MonitoringStack(cdk.Stack):
    """The dashboard and the budget of a cluster, whichever its file has."""

    def __init__(self, site: Site, fleets: Sequence[NodesStack]) -> None:
        """Define the stack.

        Args:
            site: What the stacks of the cluster have in common.
            fleets: Stacks of all fleets.
        """
        name = monitoring_stack(site.spec.name)
        super().__init__(site.app, name, env=site.env, description="Dashboard and budget of a GPU cluster")
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
            self._budget(site.spec.name, spec.budget)

    def _fleet(self, site: Site, fleet: NodesStack) -> DashboardFleet:
        """A fleet with the names that its stacks have."""
        planned = dashboard_fleet(fleet.planned, site.spec)
        made = () if fleet.capacity is None else (read(self, fleet.capacity, "ReservationId"),)
        return replace(
            planned,
            path=fleet.nodes.fleet_path,
            group_name=read(self, fleet, "FleetName") if planned.group_name is not None else None,
            reservation_ids=(*planned.reservation_ids, *made),
        )

    def _budget(self, cluster: str, budget: BudgetSpec) -> None:
        topic = None
        if budget.topic_arn is not None:
            from aws_cdk import aws_sns as sns  # takes long to load

            topic = sns.Topic.from_topic_arn(self, "Recipients", budget.topic_arn)
        ClusterBudget(
            self,
            "Budget",
            cluster=cluster,
            usd_per_month=budget.usd_per_month,
            emails=budget.emails,
            topic=topic,
            actual_percent=budget.actual_percent,
            forecast_percent=budget.forecast_percent,
        )
