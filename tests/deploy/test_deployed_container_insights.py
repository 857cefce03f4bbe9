"""Container Insights deployed in the emulator: the add-on comes to the cluster, and each log group ends and has the key."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk.assertions import Template

from cdk_gpu_clusters import ContainerInsights, EksGpuCluster
from cdk_gpu_clusters.testing import InProcessEmulator


def template(app: cdk.App) -> dict[str, Any]:
    stack = cdk.Stack(app, "Kubernetes", env=cdk.Environment(account="111122223333", region="us-east-1"))
    zones = ["us-east-1a", "us-east-1b"]
    # The emulator runs no function of CDK, which empties the default group.
    vpc = ec2.Vpc(stack, "Vpc", availability_zones=zones, nat_gateways=1, restrict_default_security_group=False)
    cluster = EksGpuCluster(stack, "Kube", vpc=vpc, cluster_name="lab")
    ContainerInsights(stack, "Insights", cluster=cluster, log_encryption_key=kms.Key(stack, "Key"))
    return dict(Template.from_stack(stack).to_json())


def test_the_add_on_and_its_log_groups_are_made(app_factory: Any) -> None:
    with InProcessEmulator() as account:
        account.deploy(template(app_factory()))
        add_ons = account.client("eks").list_addons(clusterName="lab")["addons"]
        groups = account.client("logs").describe_log_groups(logGroupNamePrefix="/aws/containerinsights/lab/")
    assert "amazon-cloudwatch-observability" in add_ons
    kept = {one["logGroupName"].rpartition("/")[2]: one["retentionInDays"] for one in groups["logGroups"]}
    assert kept == dict.fromkeys(("application", "dataplane", "host", "performance"), 30)
    assert all(":key/" in one["kmsKeyId"] for one in groups["logGroups"])
