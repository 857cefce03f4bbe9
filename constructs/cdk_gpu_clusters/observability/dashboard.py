"""The dashboard of a cluster in Amazon CloudWatch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from constructs import Construct, IConstruct

from cdk_gpu_clusters._cdk import ClusterConstruct, errors_at, region_of, stack_of
from cdk_gpu_clusters.observability.cloudwatch_dashboard import cloudwatch_body
from cdk_gpu_clusters.observability.panels import DashboardFileSystem, DashboardFleet, Row, plan_dashboard

if TYPE_CHECKING:
    from aws_cdk import aws_cloudwatch as cloudwatch


class ClusterDashboard(ClusterConstruct):
    """A dashboard of fleets and file systems: nodes, GPUs, EFA, Lustre, capacity and price.

    Makes one `AWS::CloudWatch::Dashboard`. It has only panels for which something sends data.

    Source: CloudWatch API reference, "Dashboard Body Structure and Syntax".

    Example:
        >>> from cdk_gpu_clusters import DashboardFleet
        >>> trainers = GpuFleet(stack, "Shown", vpc=vpc, instance_type="p5.48xlarge", node_count=2)
        >>> dashboard = ClusterDashboard(
        ...     stack, "Dashboard",
        ...     fleets=[
        ...         DashboardFleet(
        ...             name="trainers",
        ...             path=trainers.fleet_path,
        ...             group_name=trainers.fleet_name,
        ...             instance_type="p5.48xlarge",
        ...             efa=True,
        ...         )
        ...     ],
        ... )
        >>> [row.title for row in dashboard.rows]
        ['Nodes', 'GPUs', 'EFA', 'Cost']

    Attributes:
        rows: What it shows.
        cfn_dashboard: The resource, as an escape hatch.
        dashboard_name: Its name, known at deployment.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        fleets: Sequence[DashboardFleet],
        file_systems: Sequence[DashboardFileSystem] = (),
        title: str | None = None,
        dashboard_name: str | None = None,
    ) -> None:
        """Define the dashboard.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            fleets: Fleets and node groups that it shows.
            file_systems: File systems of FSx for Lustre that it shows. None by default.
            title: Its heading. `GPU cluster` by default.
            dashboard_name: Its name, unique in the account. Letters, digits, `-` and `_`. CloudFormation makes one by
                default. A change replaces the dashboard.

        Raises:
            ConfigError: GPU-DASH-001 for more metrics than CloudWatch shows; GPU-INST-001 or -002 for an unknown type;
                GPU-CAP-015 for an end without a time zone.
        """
        from aws_cdk import aws_cloudwatch as cloudwatch  # takes long to load

        super().__init__(scope, construct_id)
        with errors_at(self):
            self.rows: tuple[Row, ...] = plan_dashboard(fleets, file_systems)
        stack = stack_of(self)
        body = cloudwatch_body(self.rows, title=title or "GPU cluster", region=region_of(stack))
        self.cfn_dashboard: cloudwatch.CfnDashboard = cloudwatch.CfnDashboard(
            self, "Resource", dashboard_body=stack.to_json_string(body), dashboard_name=dashboard_name
        )
        self._read_node_anew()
        self.dashboard_name: str = self.cfn_dashboard.ref

    def _main_resource(self) -> IConstruct | None:
        return vars(self).get("cfn_dashboard")
