"""What a fleet of model servers scales on, and its metrics."""

from __future__ import annotations

from typing import TypeAlias

from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from constructs import Construct

from cdk_gpu_clusters._cdk import report
from cdk_gpu_clusters.compute.fleet import GpuFleet
from cdk_gpu_clusters.inference.load_balancer import InferenceLoadBalancer
from cdk_gpu_clusters.rules.inference import check_counts, check_room_to_scale

_Policy = autoscaling.CfnScalingPolicy
Tracking: TypeAlias = autoscaling.CfnScalingPolicy.TargetTrackingConfigurationProperty


class InferenceScaling(Construct):
    """A construct whose fleet scales.

    Attributes:
        fleet: The nodes.
        load_balancer: The load balancer with its listener and target group.
    """

    fleet: GpuFleet
    load_balancer: InferenceLoadBalancer

    def scale_on_requests(self, requests_per_minute_per_node: float) -> autoscaling.CfnScalingPolicy:
        """Keep the requests of each node near a number.

        A node with many servers is one target: multiply what one server does by their number.

        Args:
            requests_per_minute_per_node: Requests per node and minute.

        Raises:
            ConfigError: GPU-INF-016, GPU-INF-019.
        """
        report(self, check_counts(requests_per_minute_per_node=requests_per_minute_per_node))
        return self._policy("ScaleOnRequests", request_tracking(self.load_balancer, requests_per_minute_per_node))

    def add_scaling(
        self, construct_id: str, *, metric: cloudwatch.Metric, target_value: float
    ) -> autoscaling.CfnScalingPolicy:
        """Keep any metric near a value, such as the activity of the GPUs.

        Args:
            construct_id: Id of the policy.
            metric: A metric that falls when nodes are added.
            target_value: What to keep it near.

        Raises:
            ConfigError: GPU-INF-016.
        """
        return self._policy(construct_id, metric_tracking(metric, target_value))

    def _policy(self, construct_id: str, tracking: Tracking) -> autoscaling.CfnScalingPolicy:
        plan = self.fleet.plan
        report(self, check_room_to_scale(plan.fewest, plan.maximum, size_is_set=plan.terms.kind.is_block))
        policy = autoscaling.CfnScalingPolicy(
            self,
            construct_id,
            auto_scaling_group_name=self.fleet.fleet_name,
            policy_type="TargetTrackingScaling",
            target_tracking_configuration=tracking,
        )
        policy.node.add_dependency(self.load_balancer.listener)
        return policy


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


# The metrics of a fleet of model servers.


class InferenceMetrics:
    """Metrics of a load balancer and its nodes."""

    load_balancer: InferenceLoadBalancer

    def metric_requests(self) -> cloudwatch.IMetric:
        """Requests of all clients."""
        return self.load_balancer.load_balancer.metrics.request_count()

    def metric_requests_per_node(self) -> cloudwatch.IMetric:
        """Requests that each node got."""
        return self.load_balancer.target_group.metrics.request_count_per_target()

    def metric_response_time(self) -> cloudwatch.IMetric:
        """Seconds until the headers of an answer came: with streams, until its first token."""
        return self.load_balancer.target_group.metrics.target_response_time()

    def metric_healthy_nodes(self) -> cloudwatch.IMetric:
        """Nodes with enough servers up."""
        return self.load_balancer.target_group.metrics.healthy_host_count()

    def metric_server_errors(self) -> cloudwatch.IMetric:
        """Answers of the nodes with a status of 500 to 599."""
        return self.load_balancer.target_group.metrics.http_code_target(elbv2.HttpCodeTarget.TARGET_5XX_COUNT)
