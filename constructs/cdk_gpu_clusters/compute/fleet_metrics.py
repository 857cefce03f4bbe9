"""The metrics of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aws_cdk as cdk

if TYPE_CHECKING:
    from aws_cdk import aws_cloudwatch as cloudwatch


class FleetMetrics:
    """Metrics of an Auto Scaling group and its nodes."""

    @property
    def fleet_name(self) -> str:
        """Name of the group."""
        raise NotImplementedError

    def metric(
        self, metric_name: str, *, statistic: str = "Average", period: cdk.Duration | None = None
    ) -> cloudwatch.Metric:
        """A metric of the group.

        Args:
            metric_name: Name in the namespace AWS/AutoScaling, such as `GroupInServiceInstances`.
            statistic: CloudWatch statistic.
            period: 1 minute if left out.
        """
        return self._metric("AWS/AutoScaling", metric_name, statistic, period)

    def metric_in_service_nodes(self) -> cloudwatch.Metric:
        """Nodes that passed their boot checks and take work."""
        return self.metric("GroupInServiceInstances")

    def metric_desired_nodes(self) -> cloudwatch.Metric:
        """Nodes that the group wants to have."""
        return self.metric("GroupDesiredCapacity")

    def metric_cpu_utilization(self) -> cloudwatch.Metric:
        """CPU use over all nodes, in percent."""
        return self._metric("AWS/EC2", "CPUUtilization", "Average", None)

    def _metric(
        self, namespace: str, name: str, statistic: str, period: cdk.Duration | None
    ) -> cloudwatch.Metric:
        from aws_cdk import aws_cloudwatch as cloudwatch  # takes long to load

        return cloudwatch.Metric(
            namespace=namespace,
            metric_name=name,
            dimensions_map={"AutoScalingGroupName": self.fleet_name},
            statistic=statistic,
            period=period or cdk.Duration.minutes(1),
        )
