"""A stack of what collects metrics."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2

from cdk_gpu_clusters import (
    AlarmTopic,
    ClusterSize,
    EksGpuCluster,
    EksMetricsScraper,
    Exporter,
    GpuFleet,
    GrafanaAuthentication,
    GrafanaWorkspace,
    MetricsScraper,
    MetricsWorkspace,
    NodeWatch,
    PcsCluster,
    ScrapedFleet,
    ScrapedNodeGroup,
)


def define_monitoring(app: cdk.App, env: cdk.Environment | None, zone: str) -> cdk.Stack:
    """A workspace with its rules, and collectors of a fleet, of Slurm and of Kubernetes."""
    stack = cdk.Stack(app, "Monitoring", env=env)
    vpc = ec2.Vpc.from_vpc_attributes(
        stack,
        "Vpc",
        vpc_id="vpc-0123456789abcdef0",
        availability_zones=[zone, f"{zone[:-1]}b"],
        private_subnet_ids=["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
        private_subnet_route_table_ids=["rtb-0123456789abcdef0", "rtb-0123456789abcdef1"],
    )
    workspace = MetricsWorkspace(stack, "Metrics")
    workspace.add_rules("Rules")
    GrafanaWorkspace(stack, "Grafana", authentication=[GrafanaAuthentication.IDENTITY_CENTER], metrics=[workspace])
    workspace.add_alert_topic(AlarmTopic(stack, "Operators", emails=["operators@example.org"]).topic)
    fleet = GpuFleet(
        stack,
        "Trainers",
        vpc=vpc,
        vpc_subnets=ec2.SubnetSelection(subnets=[vpc.private_subnets[0]]),
        instance_type="g6.xlarge",
        node_count=1,
        watch=NodeWatch(metrics_port=9810),
    )
    scraped = ScrapedFleet(name="trainers", fleet=fleet, exporters=[Exporter.GPUNODE, Exporter.DCGM])
    MetricsScraper(stack, "Scraper", vpc=vpc, fleets=[scraped], workspace=workspace)
    cluster = PcsCluster(stack, "Cluster", vpc=vpc, subnet=vpc.private_subnets[0], size=ClusterSize.SMALL, metrics=True)
    nodes = ScrapedNodeGroup(name="batch", cluster=cluster, node_group_id="pcs_abc123def4", fleet_path="Slurm/Batch")
    MetricsScraper(stack, "OfSlurm", vpc=vpc, slurm_clusters={"slurm": cluster}, node_groups=[nodes])
    kubernetes = EksGpuCluster.from_eks_gpu_cluster_attributes(
        stack,
        "Kubernetes",
        vpc=vpc,
        cluster_name="research",
        cluster_security_group_id="sg-0123456789abcdef0",
        kubernetes_version="1.35",
    )
    EksMetricsScraper(stack, "OfKubernetes", cluster=kubernetes, fleets=["trainers"])
    return stack
