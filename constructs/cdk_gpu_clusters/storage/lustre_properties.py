"""The properties of a Lustre file system's CloudFormation resource."""

from __future__ import annotations

from dataclasses import replace

import aws_cdk as cdk
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import known
from cdk_gpu_clusters.rules.lustre import LustreSizing, MetadataMode

# A size at which every tier is valid, with and without EFA; it stands in for one that only a deployment knows.
_ANY_CAPACITY = 38_400
_ANY_THROUGHPUT = 1000

_NO_DATA = AcceptedFinding(
    cause="`LustreStore`: log group of the links to S3",
    reason="CloudWatch Logs encrypts every log group; this one holds errors of S3 links, no data.",
    nist_hipaa_pci=("CloudWatchLogGroupEncrypted",),
)


def sizing_to_check(sizing: LustreSizing) -> LustreSizing:
    """The sizing with valid values in place of tokens, which no rule may see."""
    changes: dict[str, int | None] = {}
    if sizing.throughput_mb_per_s_per_tib is not None and known(sizing.throughput_mb_per_s_per_tib) is None:
        # Which capacities are valid follows from the tier.
        changes = {"throughput_mb_per_s_per_tib": _ANY_THROUGHPUT, "storage_capacity_gib": _ANY_CAPACITY}
    if sizing.storage_capacity_gib is not None and known(sizing.storage_capacity_gib) is None:
        changes["storage_capacity_gib"] = _ANY_CAPACITY
    if sizing.metadata_iops is not None and known(sizing.metadata_iops) is None:
        changes["metadata_iops"] = 12_000
    if sizing.throughput_capacity_mb_per_s is not None and known(sizing.throughput_capacity_mb_per_s) is None:
        changes["throughput_capacity_mb_per_s"] = 4000
    if sizing.read_cache_gib is not None and known(sizing.read_cache_gib) is None:
        changes["read_cache_gib"] = 131_072
    return replace(sizing, **changes) if changes else sizing  # type: ignore[arg-type]


def lustre_configuration(
    sizing: LustreSizing,
    *,
    compression: bool,
    backup_retention_days: int,
    log_group: logs.ILogGroup | None,
    weekly_maintenance_start_time: str | None,
) -> fsx.CfnFileSystem.LustreConfigurationProperty:
    """The Lustre part of the resource. What a class does not take is left out; the rest is always explicit."""
    made = fsx.CfnFileSystem
    mode = sizing.effective_metadata_mode
    persistent = not sizing.is_scratch
    return made.LustreConfigurationProperty(
        deployment_type=sizing.deployment_type,
        per_unit_storage_throughput=sizing.throughput_mb_per_s_per_tib,
        throughput_capacity=sizing.throughput_capacity_mb_per_s,
        data_read_cache_configuration=None
        if sizing.read_cache is None
        else made.DataReadCacheConfigurationProperty(
            sizing_mode=sizing.read_cache.value, size_gib=sizing.read_cache_gib
        ),
        metadata_configuration=None
        if mode is MetadataMode.NONE
        else made.MetadataConfigurationProperty(mode=mode.value, iops=sizing.metadata_iops),
        efa_enabled=sizing.efa if persistent else None,
        data_compression_type="LZ4" if compression else "NONE",
        automatic_backup_retention_days=backup_retention_days if persistent else None,
        copy_tags_to_backups=True if persistent and backup_retention_days != 0 else None,
        weekly_maintenance_start_time=weekly_maintenance_start_time,
        log_configuration=made.LogConfigurationProperty(level="DISABLED")
        if log_group is None
        else made.LogConfigurationProperty(level="WARN_ERROR", destination=_log_group_arn(log_group)),
    )


def log_group(scope: Construct, retention: logs.RetentionDays) -> logs.LogGroup:
    """A log group with the name that FSx asks for. It goes with its stack, or the name could not be made again."""
    name = cdk.Names.unique_resource_name(scope, separator="-", max_length=200)
    group = logs.LogGroup(
        scope,
        "Log",
        log_group_name=f"/aws/fsx/{name}",
        retention=retention,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    _NO_DATA.at(group)
    return group


def _log_group_arn(group: logs.ILogGroup) -> str:
    """The ARN without the `:*` that CDK's has at its end, as FSx takes it."""
    return cdk.Stack.of(group).format_arn(
        service="logs",
        resource="log-group",
        resource_name=group.log_group_name,
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
