"""The log group of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import arn_of, region_of, stack_of
from cdk_gpu_clusters._template import Resource

if TYPE_CHECKING:  # takes long to load
    from aws_cdk import aws_kms as kms

BOOT_EVENTS = AcceptedFinding(
    cause="`GpuFleet`, `EksGpuNodeGroup`, `NodeUserData`: log group of the nodes",
    reason="CloudWatch Logs encrypts every log group; this one holds events, metrics and block sizes, no data.",
    nist_hipaa_pci=("CloudWatchLogGroupEncrypted",),
)
# CloudWatch Logs user guide, "Encrypt log data in CloudWatch Logs using AWS KMS".
_ACTIONS = ("kms:Encrypt*", "kms:Decrypt*", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*")
# `logs.RetentionDays` has names only, as jsii has no values of enumerations; INFINITE is no property at all.
_DAYS = {
    "ONE_DAY": 1, "THREE_DAYS": 3, "FIVE_DAYS": 5, "ONE_WEEK": 7, "TWO_WEEKS": 14, "ONE_MONTH": 30, "TWO_MONTHS": 60,
    "THREE_MONTHS": 90, "FOUR_MONTHS": 120, "FIVE_MONTHS": 150, "SIX_MONTHS": 180, "ONE_YEAR": 365,
    "THIRTEEN_MONTHS": 400, "EIGHTEEN_MONTHS": 545, "TWO_YEARS": 731, "THREE_YEARS": 1096, "FIVE_YEARS": 1827,
    "SIX_YEARS": 2192, "SEVEN_YEARS": 2557, "EIGHT_YEARS": 2922, "NINE_YEARS": 3288, "TEN_YEARS": 3653,
}  # fmt: skip


def log_group_resource(retention: logs.RetentionDays, key_arn: str | None) -> Resource:
    """The log group of nodes as a template has it.

    Args:
        retention: How long events are kept.
        key_arn: Key of the events; None for CloudWatch's own.
    """
    properties = {
        "RetentionInDays": _DAYS.get(retention.name),
        "KmsKeyId": key_arn,
    }
    return {
        "Type": "AWS::Logs::LogGroup",
        "Properties": properties,
        "UpdateReplacePolicy": "Delete",
        "DeletionPolicy": "Delete",
    }


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
    if encryption_key is not None:
        encrypt_logs(scope, encryption_key)
    return log_group(scope, retention, encryption_key)


def log_group(
    scope: Construct, retention: logs.RetentionDays, encryption_key: kms.IKey | None
) -> logs.ILogGroup:
    """The construct of `log_group_resource`."""
    made = logs.LogGroup(
        scope,
        "Logs",
        retention=retention,
        encryption_key=encryption_key,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    if encryption_key is None:
        BOOT_EVENTS.at(made)
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
