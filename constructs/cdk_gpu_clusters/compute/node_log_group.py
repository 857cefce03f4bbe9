"""Where nodes log."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding

_BOOT_EVENTS = AcceptedFinding(
    cause="`GpuFleet`, `NodeUserData`: log group of the nodes",
    reason="CloudWatch Logs encrypts every log group; this one holds boot events and block sizes, no data.",
    nist_hipaa_pci=("CloudWatchLogGroupEncrypted",),
)


def node_log_group(scope: Construct, retention: logs.RetentionDays) -> logs.ILogGroup:
    """A log group for the events of nodes, one stream per instance.

    Args:
        scope: Construct of the nodes.
        retention: How long events are kept.
    """
    group = logs.LogGroup(scope, "Logs", retention=retention, removal_policy=cdk.RemovalPolicy.DESTROY)
    _BOOT_EVENTS.at(group)
    return group
