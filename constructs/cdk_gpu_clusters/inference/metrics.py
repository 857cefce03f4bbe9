"""The metrics of a fleet of model servers."""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_elasticloadbalancingv2 as elbv2

from cdk_gpu_clusters.inference.load_balancer import InferenceLoadBalancer


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
