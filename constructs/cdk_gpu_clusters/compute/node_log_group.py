"""The log group of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import arn_of, region_of, stack_of

if TYPE_CHECKING:  # takes long to load
    from aws_cdk import aws_kms as kms

_BOOT_EVENTS = AcceptedFinding(
    cause="`GpuFleet`, `EksGpuNodeGroup`, `NodeUserData`: log group of the nodes",
    reason="CloudWatch Logs encrypts every log group; this one holds events, metrics and block sizes, no data.",
    nist_hipaa_pci=("CloudWatchLogGroupEncrypted",),
)
# CloudWatch Logs user guide, "Encrypt log data in CloudWatch Logs using AWS KMS".
_ACTIONS = ("kms:Encrypt*", "kms:Decrypt*", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*")


def node_log_group(
    scope: Construct, retention: logs.RetentionDays, encryption_key: kms.IKey | None = None
) -> logs.ILogGroup:
    """Make the log group that nodes write their events and metrics to, one stream each.

    Args:
        scope: Their construct.
        retention: How long events are kept.
        encryption_key: Key of the events, which CloudWatch Logs then may use for log groups of this account and
            Region; None for CloudWatch's own.
    """
    made = logs.LogGroup(
        scope,
        "Logs",
        retention=retention,
        encryption_key=encryption_key,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    if encryption_key is None:
        _BOOT_EVENTS.at(made)
    else:
        encrypt_logs(scope, encryption_key)
    return made


def encrypt_logs(scope: Construct, encryption_key: kms.IKey) -> None:
    """Let CloudWatch Logs use a key for the log groups of this account and Region.

    Args:
        scope: Construct of a log group.
        encryption_key: The key; an imported one takes no statement.
    """
    # Not the ARN of one group: the group needs the key, and the key's policy would need the group.
    groups = arn_of(scope, "logs", "log-group:*")
    encryption_key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal(f"logs.{region_of(stack_of(scope))}.amazonaws.com")],
            actions=list(_ACTIONS),
            resources=["*"],
            conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
        )
    )
