"""What a fleet of model servers scales on."""

from __future__ import annotations

from typing import TypeAlias

from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch

from cdk_gpu_clusters.inference.load_balancer import InferenceLoadBalancer

_Policy = autoscaling.CfnScalingPolicy
Tracking: TypeAlias = autoscaling.CfnScalingPolicy.TargetTrackingConfigurationProperty


def request_tracking(balancer: InferenceLoadBalancer, requests_per_minute_per_node: float) -> Tracking:
    """Keep the requests of each target of a load balancer near a number.

    Args:
        balancer: The load balancer.
        requests_per_minute_per_node: Requests per target and minute.
    """
    name = balancer.load_balancer.load_balancer_full_name
    return Tracking(
        target_value=requests_per_minute_per_node,
        predefined_metric_specification=_Policy.PredefinedMetricSpecificationProperty(
            predefined_metric_type="ALBRequestCountPerTarget",
            resource_label=f"{name}/{balancer.target_group.target_group_full_name}",
        ),
    )


def metric_tracking(metric: cloudwatch.Metric, target_value: float) -> Tracking:
    """Keep a metric near a value.

    Args:
        metric: A metric that falls when nodes are added.
        target_value: What to keep it near.
    """
    return Tracking(
        target_value=target_value,
        customized_metric_specification=_Policy.CustomizedMetricSpecificationProperty(
            namespace=metric.namespace,
            metric_name=metric.metric_name,
            statistic=metric.statistic,
            dimensions=[
                _Policy.MetricDimensionProperty(name=name, value=str(value))
                for name, value in sorted((metric.dimensions or {}).items())
            ],
        ),
    )
