"""File systems for home directories and shared software."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_efs as efs
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_kms as kms
from constructs import Construct

from cdk_gpu_clusters._accepted import SILENT_ALARM, AcceptedFinding
from cdk_gpu_clusters._cdk import id_of_group, path_of, report, resolved_or_none, stack_of, zone_of
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.catalogue.homes import HomeService
from cdk_gpu_clusters.rules.homes import EfsHomes, HomeStorage, OpenZfsHomes, check_home_places, check_homes
from cdk_gpu_clusters.storage.home_store_base import HomeIdentity, IHomeStore, ImportedHomeStore

_RETAIN = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
# Nodes make the directories of users as root, which a squashed root could not do
# (awslabs/awsome-distributed-ai @ 95b939c: the export of /home in all its Slurm clusters). `crossmnt` shows snapshots
# (botocore 1.44.5, fsx: OpenZFSClientConfiguration).
_EXPORT = ("rw", "crossmnt", "no_root_squash")


_BACKED_UP = AcceptedFinding(
    cause="`HomeStore` on EFS: backups",
    reason="BackupPolicy puts the file system into the automatic backup plan of EFS, which no template has.",
    nist_hipaa=("EFSInBackupPlan",),
)


class HomeStore(IHomeStore):
    """A file system for home directories and shared software, mounted at the same place on every node.

    One construct for both services: what a fleet, a node group or a login node does with it is the same, and
    `storage` names the service together with the values that only this service has. `OpenZfsHomes` answers small
    files in less than a millisecond, and has quotas. `EfsHomes` grows by itself, is billed for what it holds, and is
    reached from every zone.

    Makes the file system (encrypted), a KMS key with rotation, a security group that admits NFS from the groups of the
    clients only, and an alarm for free space where the service has a capacity. The file system and its key outlive
    the stack and any replacement; only `aws fsx delete-file-system` or `aws efs delete-file-system` ends them.

    Root of a node is root of the file system (`no_root_squash`; EFS squashes no user): nodes make the directories of
    their users. Whoever is root on a node can read every home directory.

    Traffic to FSx for OpenZFS is encrypted by the network between Nitro instances and the servers in supported
    Regions. EFS is mounted with NFS 4.1 without TLS: `amazon-efs-utils` has no package for Ubuntu.

    Source: FSx for OpenZFS and Amazon EFS user guides; CloudFormation schemas of AWS::FSx::FileSystem,
    AWS::EFS::FileSystem and AWS::EFS::MountTarget (cfn-lint 1.58.0).

    Example:
        >>> from cdk_gpu_clusters import HomeQuota, HomeStore, OpenZfsHomes
        >>> homes = HomeStore(
        ...     stack, "Homes", vpc=vpc, subnets=[gpu_subnet],
        ...     storage=OpenZfsHomes(storage_capacity_gib=2048, quotas=(HomeQuota.user(2001, 100),)),
        ... )
        >>> homes.export_path
        '/fsx'

    Attributes:
        storage: The service and its values.
        encryption_key: Key of the data.
        free_space_alarm: Alarm for free space, None where it is off or the service has no capacity.
        cfn_file_system: The CloudFormation resource, as an escape hatch.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        subnets: Sequence[ec2.ISubnet],
        storage: HomeStorage | None = None,
        client_security_group: ec2.ISecurityGroup | None = None,
        client_security_groups: Sequence[ec2.ISecurityGroup] = (),
        export_to: Sequence[str] | None = None,
        encryption_key: kms.IKey | None = None,
        weekly_maintenance_start_time: str | None = None,
        free_space_alarm: bool = True,
    ) -> None:
        """Define the file system.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope. A change replaces the file system; the old one stays, without a stack.
            vpc: Network.
            subnets: One subnet for FSx for OpenZFS, that of the nodes; one for each zone of the nodes for EFS. A change
                replaces FSx for OpenZFS; with EFS it adds and removes mount targets.
            storage: `OpenZfsHomes` or `EfsHomes`; FSx for OpenZFS with 1024 GiB and a standby server if left out.
            client_security_group: Group of the nodes that mount it; see also `allow_clients`.
            client_security_groups: Several of them.
            export_to: CIDR blocks to which FSx for OpenZFS exports; that of the VPC if left out, or all addresses if
                CDK does not know it: the security group then decides alone. Give all blocks of a VPC that has several.
            encryption_key: Key of the data; a new one with rotation if left out. A change replaces the file system.
            weekly_maintenance_start_time: `d:HH:MM` in UTC for FSx, 1 is Monday; FSx chooses if left out.
            free_space_alarm: Whether to define an alarm for less than 10 % free space.

        Raises:
            ConfigError: GPU-HOM-001 to -008, all of them at once.
        """
        super().__init__(scope, construct_id)
        self.storage: HomeStorage = storage or OpenZfsHomes()
        report(
            self,
            check_homes(_storage_to_check(self.storage))
            + check_home_places(self.storage.service, [zone_of(subnet) for subnet in subnets]),
        )
        self.encryption_key: kms.IKey = encryption_key or kms.Key(
            self, "Key", description=f"Data of {path_of(self)}", enable_key_rotation=True, removal_policy=_RETAIN
        )
        group = ec2.SecurityGroup(
            self, "Servers", vpc=vpc, description="Servers of home directories", allow_all_outbound=False
        )
        group.apply_removal_policy(_RETAIN)
        self.cfn_file_system: fsx.CfnFileSystem | efs.CfnFileSystem
        if isinstance(self.storage, OpenZfsHomes):
            blocks = [_block_of(vpc)] if export_to is None else list(export_to)
            self.cfn_file_system = self._openzfs(self.storage, subnets[0], group, blocks, weekly_maintenance_start_time)
            dns_name = self.cfn_file_system.attr_dns_name
        else:
            self.cfn_file_system = self._efs(self.storage, subnets, group)
            dns_name = _dns_name(self, HomeService.EFS, self.cfn_file_system.ref)
        self.cfn_file_system.apply_removal_policy(_RETAIN)
        self.node.default_child = self.cfn_file_system
        self._identity = HomeIdentity(
            service=self.storage.service,
            file_system_id=self.cfn_file_system.ref,
            dns_name=dns_name,
            security_group=group,
            availability_zones=tuple(subnet.availability_zone for subnet in subnets),
        )
        for client in [*([client_security_group] if client_security_group else []), *client_security_groups]:
            self.allow_clients(client)
        has_alarm = free_space_alarm and self.storage.service is HomeService.OPENZFS
        self.free_space_alarm: cloudwatch.Alarm | None = self.add_free_space_alarm() if has_alarm else None

    @property
    def ip_addresses(self) -> int:
        """Addresses that its servers or mount targets take from each subnet, for `IpDemand(other=...)`."""
        return self.storage.ip_addresses

    def add_free_space_alarm(
        self, *, threshold_percent: float = 10, construct_id: str = "FreeSpace"
    ) -> cloudwatch.Alarm:
        """Define an alarm for little free space: below the threshold for five minutes.

        Args:
            threshold_percent: Of the storage capacity.
            construct_id: Id, for a second alarm.

        Raises:
            ValueError: If the file system is on EFS, which has no capacity.
        """
        alarm = cloudwatch.Alarm(
            self,
            construct_id,
            metric=self.metric_used_percent(),
            threshold=100 - threshold_percent,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=5,
            treat_missing_data=cloudwatch.TreatMissingData.IGNORE,
            alarm_description=f"Less than {threshold_percent:g} % of {path_of(self)} is free",
        )
        SILENT_ALARM.at(alarm)
        return alarm

    def _openzfs(
        self,
        storage: OpenZfsHomes,
        subnet: ec2.ISubnet,
        group: ec2.SecurityGroup,
        blocks: Sequence[str],
        maintenance: str | None,
    ) -> fsx.CfnFileSystem:
        made = fsx.CfnFileSystem
        return made(
            self,
            "Resource",
            file_system_type="OPENZFS",
            subnet_ids=[subnet.subnet_id],
            security_group_ids=[id_of_group(group)],
            storage_type="SSD",
            storage_capacity=storage.storage_capacity_gib,
            kms_key_id=self.encryption_key.key_arn,
            open_zfs_configuration=made.OpenZFSConfigurationProperty(
                deployment_type=storage.deployment_type.value,
                throughput_capacity=storage.throughput_mb_per_s,
                automatic_backup_retention_days=storage.backup_retention_days,
                copy_tags_to_backups=True,
                copy_tags_to_volumes=True,
                weekly_maintenance_start_time=maintenance,
                root_volume_configuration=made.RootVolumeConfigurationProperty(
                    data_compression_type=storage.compression.value,
                    record_size_kib=storage.record_size_kib,
                    nfs_exports=[
                        made.NfsExportsProperty(
                            client_configurations=[
                                made.ClientConfigurationsProperty(clients=block, options=list(_EXPORT))
                                for block in blocks
                            ]
                        )
                    ],
                    user_and_group_quotas=[
                        made.UserAndGroupQuotasProperty(
                            type=quota.type.value, id=quota.id, storage_capacity_quota_gib=quota.storage_gib
                        )
                        for quota in storage.quotas
                    ]
                    or None,
                ),
            ),
            tags=[cdk.CfnTag(key="Name", value=path_of(self))],
        )

    def _efs(self, storage: EfsHomes, subnets: Sequence[ec2.ISubnet], group: ec2.SecurityGroup) -> efs.CfnFileSystem:
        made = efs.CfnFileSystem
        file_system = made(
            self,
            "FileSystem",
            encrypted=True,
            kms_key_id=self.encryption_key.key_arn,
            performance_mode="generalPurpose",
            throughput_mode=storage.throughput_mode.value,
            provisioned_throughput_in_mibps=storage.provisioned_mib_per_s,
            backup_policy=made.BackupPolicyProperty(status="ENABLED" if storage.backups else "DISABLED"),
            file_system_tags=[made.ElasticFileSystemTagProperty(key="Name", value=path_of(self))],
        )
        if storage.backups:
            _BACKED_UP.at(file_system)
        for number, subnet in enumerate(subnets):
            # The zone names it, so that another order replaces none. Where it is unknown, the position does.
            target = efs.CfnMountTarget(
                self,
                f"Target.{zone_of(subnet) or number}",
                file_system_id=file_system.ref,
                subnet_id=subnet.subnet_id,
                security_groups=[id_of_group(group)],
            )
            # Homes that nobody can mount help nobody: the targets stay with the file system.
            target.apply_removal_policy(_RETAIN)
        return file_system

    @staticmethod
    def from_home_store_attributes(
        scope: Construct,
        construct_id: str,
        *,
        service: HomeService,
        file_system_id: str,
        security_group: ec2.ISecurityGroup,
        dns_name: str | None = None,
        export_path: str | None = None,
        availability_zones: Sequence[str] = (),
    ) -> IHomeStore:
        """Import a file system.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            service: FSx for OpenZFS or EFS.
            file_system_id: `fs-…`.
            security_group: Group of its servers or mount targets, for `allow_clients`.
            dns_name: `<id>.fsx.<Region>.<suffix>` or `<id>.efs.<Region>.<suffix>` if left out.
            export_path: Directory to mount, such as `/fsx/home`; `/fsx` or `/` if left out.
            availability_zones: Zones of the mount targets of EFS, for checks of clients; unchecked if left out.
        """
        identity = HomeIdentity(
            service=service,
            file_system_id=file_system_id,
            dns_name=dns_name or _dns_name(scope, service, file_system_id),
            security_group=security_group,
            availability_zones=tuple(availability_zones),
            export_path=export_path or "",
        )
        return ImportedHomeStore(scope, construct_id, identity)


def _dns_name(scope: Construct, service: HomeService, file_system_id: str) -> str:
    stack = stack_of(scope)
    return service.dns_name(file_system_id, stack.region, stack.url_suffix)


def _block_of(vpc: ec2.IVpc) -> str:
    """The block of a VPC, or every address where an imported VPC came without it."""
    try:
        return vpc.vpc_cidr_block
    except RuntimeError:
        return "*"


def _storage_to_check(storage: HomeStorage) -> HomeStorage:
    """The values with valid ones in place of tokens, which no rule may see."""
    if isinstance(storage, EfsHomes):
        rate = storage.provisioned_mib_per_s
        is_hidden = rate is not None and resolved_or_none(rate) is None
        return replace(storage, provisioned_mib_per_s=1) if is_hidden else storage
    usual = OpenZfsHomes(deployment_type=storage.deployment_type)
    names = ("storage_capacity_gib", "throughput_mb_per_s", "record_size_kib", "backup_retention_days")
    hidden = [name for name in names if resolved_or_none(getattr(storage, name)) is None]
    return replace(storage, **{name: getattr(usual, name) for name in hidden})
