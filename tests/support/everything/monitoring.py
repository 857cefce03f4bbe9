"""A stack of what collects metrics."""

from __future__ import annotations

import aws_cdk as cdk

from cdk_gpu_clusters import MetricsWorkspace


def define_monitoring(app: cdk.App, env: cdk.Environment | None, zone: str) -> cdk.Stack:
    """A workspace with its rules."""
    stack = cdk.Stack(app, "Monitoring", env=env)
    workspace = MetricsWorkspace(stack, "Metrics")
    workspace.add_rules("Rules")
    return stack
