"""The metrics of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aws_cdk as cdk

from cdk_gpu_clusters.compute.node_metrics import NodeMetrics

if TYPE_CHECKING:
    from aws_cdk import aws_cloudwatch as cloudwatch


class FleetMetrics(NodeMetrics):
    """Metrics of an Auto Scaling group and its nodes.

    What nodes measure themselves has a value for each GPU, device or mount, once a minute: `Average`, `Minimum` and
    `Maximum` are over all of them. Names, units and sources: `docs/metrics.md`.

    Example:
        >>> trainers = GpuFleet(stack, "Measured", vpc=vpc, instance_type="p5.48xlarge", node_count=2)
        >>> trainers.metric_gpu_utilization(statistic="Minimum").metric_name
        'GpuUtilization'
        >>> trainers.metric_xids().statistic
        'Sum'
        >>> trainers.metric_of_node("i-0123456789abcdef0", "GpuPowerDrawWatts").dimensions["InstanceId"]
        'i-0123456789abcdef0'
    """

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
        return self._metric("AWS/AutoScaling", metric_name, statistic, period, self._of_group)

    def metric_in_service_nodes(self) -> cloudwatch.Metric:
        """Nodes that passed their boot checks and take work."""
        return self.metric("GroupInServiceInstances")

    def metric_desired_nodes(self) -> cloudwatch.Metric:
        """Nodes that the group wants to have."""
        return self.metric("GroupDesiredCapacity")

    def metric_cpu_utilization(self) -> cloudwatch.Metric:
        """CPU use over all nodes, in percent."""
        return self._metric("AWS/EC2", "CPUUtilization", "Average", None, self._of_group)

    @property
    def _of_group(self) -> dict[str, str]:
        return {"AutoScalingGroupName": self.fleet_name}
