"""CloudWatch metrics of an FSx for Lustre file system."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch

_NAMESPACE = "AWS/FSx"
# FSx sends one data point for each storage target and minute: over a longer period a Sum counts targets many times.
_MINUTE = 1


class LustreMetrics:
    """The metrics of one file system, for constructs that have a `file_system_id`.

    Source: FSx for Lustre user guide, "Amazon FSx for Lustre metrics and dimensions" (stored copy of 2026).
    """

    @property
    def file_system_id(self) -> str:
        """Id of the file system."""
        raise NotImplementedError

    def metric(
        self, metric_name: str, *, statistic: str = "Sum", period: cdk.Duration | None = None
    ) -> cloudwatch.Metric:
        """A metric of the file system.

        Args:
            metric_name: Name in the namespace AWS/FSx, such as `DataReadOperations`.
            statistic: CloudWatch statistic; Sum adds up the storage targets.
            period: 1 minute if left out, the interval at which FSx sends them.
        """
        return cloudwatch.Metric(
            namespace=_NAMESPACE,
            metric_name=metric_name,
            dimensions_map={"FileSystemId": self.file_system_id},
            statistic=statistic,
            period=period or cdk.Duration.minutes(_MINUTE),
        )

    def metric_free_capacity(self) -> cloudwatch.Metric:
        """Free storage in bytes, over all storage targets."""
        return self.metric("FreeDataStorageCapacity")

    def metric_free_capacity_of_fullest_target(self) -> cloudwatch.Metric:
        """Free storage in bytes of the fullest storage target: writes to it fail first."""
        return self.metric("FreeDataStorageCapacity", statistic="Minimum")

    def metric_metadata_operations(self) -> cloudwatch.Metric:
        """Metadata operations, such as create, open, close and delete, in each minute."""
        return self.metric("MetadataOperations")

    def metric_throughput(self) -> cloudwatch.MathExpression:
        """Bytes read and written in each second."""
        return cloudwatch.MathExpression(
            expression="(read + written) / PERIOD(read)",
            using_metrics={"read": self.metric("DataReadBytes"), "written": self.metric("DataWriteBytes")},
            label="Lustre bytes per second",
            period=cdk.Duration.minutes(_MINUTE),
        )
