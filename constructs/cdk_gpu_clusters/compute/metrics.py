"""The metrics of nodes and of the groups that launch them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aws_cdk as cdk

from cdk_gpu_clusters.node.gpunode.metrics import names

if TYPE_CHECKING:
    from aws_cdk import aws_cloudwatch as cloudwatch


class NodeMetrics:
    """Metrics of the nodes of a fleet or node group.

    They have a value for each GPU, device or mount, once a minute: `Average`, `Minimum` and `Maximum` are over all of
    them. Names, units and sources: `docs/metrics.md`.
    """

    @property
    def fleet_path(self) -> str:
        """Path of the fleet in the app: its name in the metrics of its nodes."""
        raise NotImplementedError

    def metric_of_nodes(
        self, metric_name: str, *, statistic: str = "Average", period: cdk.Duration | None = None
    ) -> cloudwatch.Metric:
        """A metric that the nodes send, over all of them.

        Args:
            metric_name: Name in the namespace GpuCluster, such as `GpuUtilization`.
            statistic: CloudWatch statistic.
            period: 1 minute if left out.
        """
        return self._metric(names.NAMESPACE, metric_name, statistic, period, {names.FLEET: self.fleet_path})

    def metric_of_node(
        self,
        instance_id: str,
        metric_name: str,
        *,
        statistic: str = "Average",
        period: cdk.Duration | None = None,
    ) -> cloudwatch.Metric:
        """A metric that one node sends.

        Args:
            instance_id: The node.
            metric_name: Name in the namespace GpuCluster, such as `GpuUtilization`.
            statistic: CloudWatch statistic.
            period: 1 minute if left out.
        """
        dimensions = {names.FLEET: self.fleet_path, names.INSTANCE: instance_id}
        return self._metric(names.NAMESPACE, metric_name, statistic, period, dimensions)

    def metric_gpu_utilization(self, *, statistic: str = "Average") -> cloudwatch.Metric:
        """Share of time in which a kernel ran on a GPU, in percent; no such metric exists for GPUs split with MIG."""
        return self.metric_of_nodes(names.GPU_UTILIZATION.name, statistic=statistic)

    def metric_gpu_memory_used_percent(self, *, statistic: str = "Average") -> cloudwatch.Metric:
        """Share of the GPUs' memory in use, in percent."""
        return self.metric_of_nodes(names.GPU_MEMORY_USED_PERCENT.name, statistic=statistic)

    def metric_gpu_power_draw(self, *, statistic: str = "Average") -> cloudwatch.Metric:
        """Power that each GPU draws, in watts."""
        return self.metric_of_nodes(names.GPU_POWER_DRAW_WATTS.name, statistic=statistic)

    def metric_gpu_temperature(self, *, statistic: str = "Maximum") -> cloudwatch.Metric:
        """Temperature of the hottest GPU, in degrees Celsius."""
        return self.metric_of_nodes(names.GPU_TEMPERATURE_CELSIUS.name, statistic=statistic)

    def metric_mig_memory_used_percent(self, *, statistic: str = "Average") -> cloudwatch.Metric:
        """Share of the MIG devices' memory in use, in percent."""
        return self.metric_of_nodes(names.MIG_MEMORY_USED_PERCENT.name, statistic=statistic)

    def metric_mig_devices_in_use(self, *, statistic: str = "Sum") -> cloudwatch.Metric:
        """MIG devices on which a process runs."""
        return self.metric_of_nodes(names.MIG_DEVICES_IN_USE.name, statistic=statistic)

    def metric_idle_seconds(self, *, statistic: str = "Minimum") -> cloudwatch.Metric:
        """Seconds since any GPU of the fleet was active; `Maximum` is of the node that is idle for the longest."""
        return self.metric_of_nodes(names.IDLE_SECONDS.name, statistic=statistic)

    def metric_efa_received(self, *, statistic: str = "Average") -> cloudwatch.Metric:
        """Bytes per second that each EFA device received."""
        return self.metric_of_nodes(names.EFA_RECEIVED.name, statistic=statistic)

    def metric_efa_transmitted(self, *, statistic: str = "Average") -> cloudwatch.Metric:
        """Bytes per second that each EFA device transmitted."""
        return self.metric_of_nodes(names.EFA_TRANSMITTED.name, statistic=statistic)

    def metric_efa_retransmitted(self, *, statistic: str = "Maximum") -> cloudwatch.Metric:
        """Packets per second that an EFA device had to send again."""
        return self.metric_of_nodes(names.EFA_RETRANSMITTED.name, statistic=statistic)

    def metric_lustre_read(self, *, statistic: str = "Sum") -> cloudwatch.Metric:
        """Bytes per second that the nodes read from Lustre."""
        return self.metric_of_nodes(names.LUSTRE_READ.name, statistic=statistic)

    def metric_lustre_written(self, *, statistic: str = "Sum") -> cloudwatch.Metric:
        """Bytes per second that the nodes wrote to Lustre."""
        return self.metric_of_nodes(names.LUSTRE_WRITTEN.name, statistic=statistic)

    def metric_node_severity(self, *, statistic: str = "Maximum") -> cloudwatch.Metric:
        """What the worst finding on any node asks for, 0 (nothing) to 5 (replace the node)."""
        return self.metric_of_nodes(names.NODE_SEVERITY.name, statistic=statistic)

    def metric_unhealthy_nodes(self) -> cloudwatch.Metric:
        """Nodes whose watchdog asks for a reset of a GPU, a reboot or another node."""
        return self.metric_of_nodes(names.UNHEALTHY_NODES.name, statistic="Sum")

    def metric_xids(self, *, period: cdk.Duration | None = None) -> cloudwatch.Metric:
        """Xids that ask for a reset of a GPU, a reboot or another node.

        Args:
            period: 1 minute if left out.
        """
        return self.metric_of_nodes(names.XIDS.name, statistic="Sum", period=period)

    def metric_boot_failures(self, *, period: cdk.Duration | None = None) -> cloudwatch.Metric:
        """Boots that failed.

        Args:
            period: 1 minute if left out.
        """
        return self.metric_of_nodes(names.BOOT_FAILURES.name, statistic="Sum", period=period)

    @staticmethod
    def _metric(
        namespace: str,
        name: str,
        statistic: str,
        period: cdk.Duration | None,
        dimensions: dict[str, str],
    ) -> cloudwatch.Metric:
        from aws_cdk import aws_cloudwatch as cloudwatch  # takes long to load

        return cloudwatch.Metric(
            namespace=namespace,
            metric_name=name,
            dimensions_map=dimensions,
            statistic=statistic,
            period=period or cdk.Duration.minutes(1),
        )


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
