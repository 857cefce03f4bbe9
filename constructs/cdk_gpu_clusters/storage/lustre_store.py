"""FSx for Lustre file systems."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import id_of_group, ipv4_block_of, path_of, report, resolved_or_none, stack_of
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.catalogue.lustre import LustreDeploymentType, LustreStorageType, LustreVersion
from cdk_gpu_clusters.compute.node_records import own_log_group
from cdk_gpu_clusters.rules.lustre import (
    LustreSizing,
    MetadataMode,
    ReadCacheMode,
    check_backups,
    check_encryption_key,
    check_lustre,
)
from cdk_gpu_clusters.storage.lustre_store_base import (
    ILustreStore,
    ImportedLustreStore,
    LustreIdentity,
)
from cdk_gpu_clusters.storage.lustre_traffic import LustreTraffic

# A size at which every tier is valid, with and without EFA; it stands in for one that only a deployment knows.
_ANY_CAPACITY = 38_400
_ANY_THROUGHPUT = 1000

_NO_DATA = AcceptedFinding(
    cause="`LustreStore` without `log_encryption_key`: log group of the links to S3",
    reason="CloudWatch Logs encrypts every log group; this one holds errors of S3 links, no data.",
    nist_hipaa_pci=("CloudWatchLogGroupEncrypted",),
)


def sizing_to_check(sizing: LustreSizing) -> LustreSizing:
    """The sizing with valid values in place of tokens, which no rule may see."""
    changes: dict[str, int | None] = {}
    if sizing.throughput_mb_per_s_per_tib is not None and resolved_or_none(sizing.throughput_mb_per_s_per_tib) is None:
        # Which capacities are valid follows from the tier.
        changes = {"throughput_mb_per_s_per_tib": _ANY_THROUGHPUT, "storage_capacity_gib": _ANY_CAPACITY}
    if sizing.storage_capacity_gib is not None and resolved_or_none(sizing.storage_capacity_gib) is None:
        changes["storage_capacity_gib"] = _ANY_CAPACITY
    if sizing.metadata_iops is not None and resolved_or_none(sizing.metadata_iops) is None:
        changes["metadata_iops"] = 12_000
    if (
        sizing.throughput_capacity_mb_per_s is not None
        and resolved_or_none(sizing.throughput_capacity_mb_per_s) is None
    ):
        changes["throughput_capacity_mb_per_s"] = 4000
    if sizing.read_cache_gib is not None and resolved_or_none(sizing.read_cache_gib) is None:
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


def log_group(scope: Construct, retention: logs.RetentionDays, encryption_key: kms.IKey | None = None) -> logs.LogGroup:
    """A log group with the name that FSx asks for. It goes with its stack, or the name could not be made again."""
    name = cdk.Names.unique_resource_name(scope, separator="-", max_length=200)
    return own_log_group(
        scope,
        "Log",
        name=f"/aws/fsx/{name}",
        retention=retention,
        encryption_key=encryption_key,
        without_key=_NO_DATA,
    )


def _log_group_arn(group: logs.ILogGroup) -> str:
    """The ARN without the `:*` that CDK's has at its end, as FSx takes it."""
    return cdk.Stack.of(group).format_arn(
        service="logs",
        resource="log-group",
        resource_name=group.log_group_name,
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )


class LustreStore(ILustreStore):
    """An FSx for Lustre file system: fast shared storage for data sets and checkpoints.

    Makes the file system (encrypted, LZ4, Lustre 2.15), a KMS key with rotation, a security group with the ports among
    servers and clients (all traffic with EFA), a log group, and an alarm for free space. The file system and its key
    outlive the stack and any replacement; only `aws fsx delete-file-system` ends them.

    Nothing that would replace the file system is decided by a default that may move: class, EFA, key, subnet and
    groups are what you set here. `check_lustre_change` checks later changes. PERSISTENT_1 and
    SCRATCH_1 are not offered: they are slower, and take neither EFA nor metadata IOPS.

    Source: FSx for Lustre user guide; CloudFormation schema of AWS::FSx::FileSystem (cfn-lint 1.58.0).

    Example:
        >>> from cdk_gpu_clusters import DataRepositoryEvent, LustreStore
        >>> fabric = EfaSecurityGroup(stack, "Fabric", vpc=vpc)
        >>> corpus = LustreStore(
        ...     stack, "Corpus", vpc=vpc, subnet=gpu_subnet, client_security_group=fabric,
        ...     storage_capacity_gib=38_400, throughput_mb_per_s_per_tib=250, efa=True,
        ... )
        >>> link = corpus.add_data_repository(
        ...     "/data", s3_uri="s3://my-corpus/tokens/", auto_import=[DataRepositoryEvent.NEW]
        ... )
        >>> corpus.sizing.throughput_mb_per_s, link.data_repository_path
        (9600, 's3://my-corpus/tokens/')

    Attributes:
        sizing: Class and size, with the numbers that follow: throughput, servers, addresses.
        encryption_key: Key of the data, None with SCRATCH_2.
        log_group: Errors and warnings of data repositories, None without logging.
        free_space_alarm: Alarm for free space, None where it is off or the capacity is unknown.
        cfn_file_system: The CloudFormation resource, as an escape hatch.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        storage_capacity_gib: int | None = None,
        throughput_mb_per_s_per_tib: int | None = None,
        deployment_type: LustreDeploymentType = LustreDeploymentType.PERSISTENT_2,
        storage_type: LustreStorageType = LustreStorageType.SSD,
        throughput_capacity_mb_per_s: int | None = None,
        read_cache: ReadCacheMode | None = None,
        read_cache_gib: int | None = None,
        efa: bool = False,
        metadata_iops: int | None = None,
        metadata_mode: MetadataMode | None = None,
        lustre_version: LustreVersion = LustreVersion.V2_15,
        client_security_group: ec2.ISecurityGroup | None = None,
        client_security_groups: Sequence[ec2.ISecurityGroup] = (),
        encryption_key: kms.IKey | None = None,
        compression: bool = True,
        backup_retention_days: int = 0,
        logging: bool = True,
        log_retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH,
        log_encryption_key: kms.IKey | None = None,
        weekly_maintenance_start_time: str | None = None,
        free_space_alarm: bool = True,
    ) -> None:
        """Define the file system.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope. A change replaces the file system; the old one stays, without a stack.
            vpc: Network.
            subnet: The one subnet of its servers: that of the nodes. A change replaces it.
            storage_capacity_gib: SSD storage in GiB: 1200, 2400 or multiples of 2400; with EFA multiples of 38400,
                19200, 9600 or 4800 at 125, 250, 500 or 1000 MB/s/TiB. It can grow in place.
            throughput_mb_per_s_per_tib: 125, 250, 500 or 1000 MB/s for each TiB with PERSISTENT_2 SSD. It can
                change in place, but not with EFA.
            deployment_type: PERSISTENT_2, or SCRATCH_2 for data that can be lost. A change replaces it.
            storage_type: SSD, or Intelligent-Tiering, which is elastic and cannot be linked to S3. A change
                replaces it.
            throughput_capacity_mb_per_s: Of Intelligent-Tiering: multiples of 4000 MB/s.
            read_cache: Read cache of Intelligent-Tiering, which requires it.
            read_cache_gib: Of Intelligent-Tiering with a USER_PROVISIONED cache.
            efa: Whether clients mount over EFA; they are in the same zone then. It can never be switched, so that
                it is off unless you say so.
            metadata_iops: Metadata operations to provision; automatic if left out, where the class has that. They
                can only grow.
            metadata_mode: Follows from the class and `metadata_iops` if left out.
            lustre_version: 2.15 if left out.
            client_security_group: Group of the nodes that mount it; see also `allow_clients`.
            client_security_groups: Several of them.
            encryption_key: Key of the data; a new one with rotation if left out. A change replaces the file system.
                SCRATCH_2 takes none.
            compression: Whether data are compressed with LZ4.
            backup_retention_days: Days of daily backups, 0 to 90. 0 means none, and is required with data repositories.
            logging: Whether errors and warnings of data repositories go to CloudWatch Logs.
            log_retention: How long they are kept; one month if left out.
            log_encryption_key: Key of these logs, which CloudWatch Logs then may use; CloudWatch's own if left out.
            weekly_maintenance_start_time: `d:HH:MM` in UTC, 1 is Monday; FSx chooses if left out.
            free_space_alarm: Whether to define an alarm for less than 10 % free space, where the capacity is known.

        Raises:
            ConfigError: GPU-LUS-001 to -016, all of them at once.
        """
        super().__init__(scope, construct_id)
        self.sizing: LustreSizing = LustreSizing(
            storage_capacity_gib=storage_capacity_gib,
            throughput_mb_per_s_per_tib=throughput_mb_per_s_per_tib,
            deployment_type=deployment_type,
            storage_type=storage_type,
            throughput_capacity_mb_per_s=throughput_capacity_mb_per_s,
            read_cache=read_cache,
            read_cache_gib=read_cache_gib,
            metadata_iops=metadata_iops,
            metadata_mode=metadata_mode,
            efa=efa,
            version=lustre_version,
        )
        retention = resolved_or_none(backup_retention_days)
        report(
            self,
            check_lustre(sizing_to_check(self.sizing))
            + ([] if retention is None else check_backups(self.sizing, retention))
            + check_encryption_key(self.sizing, given=encryption_key is not None),
        )
        self.encryption_key: kms.IKey | None = self._key(encryption_key)
        # The group and the rules among the servers stay with the file system: it cannot work without them.
        # What a failed first deployment made goes again: it holds no data, and the next one makes another
        # (CloudFormation user guide, "DeletionPolicy attribute": RetainExceptOnCreate).
        group = ec2.SecurityGroup(
            self, "Servers", vpc=vpc, description="Servers of FSx for Lustre", allow_all_outbound=False
        )
        group.apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        among = LustreTraffic(self, "AmongServers", servers=group, peer=group, efa=efa, retain=True)
        self.log_group: logs.LogGroup | None = log_group(self, log_retention, log_encryption_key) if logging else None
        self.cfn_file_system: fsx.CfnFileSystem = fsx.CfnFileSystem(
            self,
            "Resource",
            file_system_type="LUSTRE",
            file_system_type_version=lustre_version.value,
            subnet_ids=[subnet.subnet_id],
            security_group_ids=[id_of_group(group)],
            storage_type=storage_type.value,
            storage_capacity=storage_capacity_gib,
            kms_key_id=None if self.encryption_key is None else self.encryption_key.key_arn,
            lustre_configuration=lustre_configuration(
                self.sizing,
                compression=compression,
                backup_retention_days=backup_retention_days,
                log_group=self.log_group,
                weekly_maintenance_start_time=weekly_maintenance_start_time,
            ),
            tags=[cdk.CfnTag(key="Name", value=path_of(self))],
        )
        self.cfn_file_system.apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        self.cfn_file_system.node.add_dependency(among)
        self.node.default_child = self.cfn_file_system
        self._servers = self.cfn_file_system
        self._identity = LustreIdentity(
            file_system_id=self.cfn_file_system.ref,
            dns_name=self.cfn_file_system.attr_dns_name,
            mount_name=self.cfn_file_system.attr_lustre_mount_name,
            security_group=group,
            efa=efa,
            version=lustre_version.value,
            availability_zone=subnet.availability_zone,
            cidr_block=ipv4_block_of(subnet),
            storage_capacity_gib=resolved_or_none(storage_capacity_gib),
            sizing=self.sizing,
            backup_retention_days=backup_retention_days,
        )
        for client in [*([client_security_group] if client_security_group else []), *client_security_groups]:
            self.allow_clients(client)
        has_alarm = free_space_alarm and resolved_or_none(storage_capacity_gib) is not None
        self.free_space_alarm: cloudwatch.Alarm | None = self.add_free_space_alarm() if has_alarm else None

    @property
    def ip_addresses(self) -> int:
        """Addresses that the servers take from the subnet, for `IpDemand(other=...)`."""
        return sizing_to_check(self.sizing).ip_addresses

    def _key(self, given: kms.IKey | None) -> kms.IKey | None:
        if given is not None or self.sizing.is_scratch:
            return given
        return kms.Key(
            self,
            "Key",
            description=f"Data of {path_of(self)}",
            enable_key_rotation=True,
            removal_policy=cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
        )

    @staticmethod
    def from_lustre_store_attributes(
        scope: Construct,
        construct_id: str,
        *,
        file_system_id: str,
        mount_name: str,
        security_group: ec2.ISecurityGroup,
        dns_name: str | None = None,
        efa: bool = False,
        lustre_version: LustreVersion | None = None,
        availability_zone: str | None = None,
        storage_capacity_gib: int | None = None,
    ) -> ILustreStore:
        """Import a file system.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            file_system_id: `fs-…`.
            mount_name: From `aws fsx describe-file-systems`.
            security_group: Group of its servers, for `allow_clients`.
            dns_name: `<id>.fsx.<Region>.<suffix>` if left out.
            efa: Whether it serves clients over EFA.
            lustre_version: Version of its servers, for checks of clients; unchecked if left out.
            availability_zone: Zone of its servers, for checks of clients; unchecked if left out.
            storage_capacity_gib: Its storage, for `add_free_space_alarm`.
        """
        stack = stack_of(scope)
        identity = LustreIdentity(
            file_system_id=file_system_id,
            dns_name=dns_name or f"{file_system_id}.fsx.{stack.region}.{stack.url_suffix}",
            mount_name=mount_name,
            security_group=security_group,
            efa=efa,
            version=None if lustre_version is None else lustre_version.value,
            availability_zone=availability_zone,
            storage_capacity_gib=storage_capacity_gib,
        )
        return ImportedLustreStore(scope, construct_id, identity)
