"""`data`: stores that outlive every fleet, by name: file systems and buckets for checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Discriminator, Field, StringConstraints, Tag

from cdk_gpu_clusters.catalogue.homes import (
    EfsThroughputMode,
    HomeService,
    OpenZfsCompression,
    OpenZfsDeploymentType,
    nfs_export,
)
from cdk_gpu_clusters.catalogue.lustre import LustreDeploymentType, LustreStorageType
from cdk_gpu_clusters.rules.data_repository import DataRepository, DataRepositoryEvent
from cdk_gpu_clusters.rules.homes import EfsHomes, HomeQuota, HomeStorage, OpenZfsHomes
from cdk_gpu_clusters.rules.lustre import LustreSizing, ReadCacheMode

from ._base import AsTuple, SpecModel, Text, form_of
from .changes import NO_CHANGE, TEMPLATES, Resource, makes, replaces, updates
from .network import SubnetId

FileSystemId = Annotated[str, StringConstraints(pattern=r"^fs-([0-9a-f]{8}|[0-9a-f]{17})$")]
SECURITY_GROUP_ID = r"^sg-([0-9a-f]{8}|[0-9a-f]{17})$"
SecurityGroupId = Annotated[str, StringConstraints(pattern=SECURITY_GROUP_ID)]
#: FSx API reference, LustreFileSystemConfiguration: MountName.
MountName = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9_-]{1,8})$")]
#: A directory of an NFS server, in characters that mount(8) and /etc/fstab take without quotes.
ExportPath = Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9._/-]*$", max_length=255)]
KeyArn = Annotated[str, StringConstraints(pattern=r"^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$")]

#: Amazon S3 user guide, "General purpose bucket naming rules".
BucketName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
#: Amazon S3 user guide, "Directory bucket naming rules": <base>--<zone id>--x-s3.
ExpressBucketName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*--[a-z0-9-]+--x-s3$", max_length=63)]
#: Amazon S3 user guide, "Naming Amazon S3 objects": the characters that are safe everywhere, without those of patterns.
KeyPrefix = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*)?$", max_length=512)]
#: FSx API reference, WeeklyMaintenanceStartTime.
WeeklyTime = Annotated[str, StringConstraints(pattern=r"^[1-7]:([01][0-9]|2[0-3]):[0-5][0-9]$")]
Days = Annotated[int, Field(ge=1)]
Change = Literal["new", "changed", "deleted"]
Version = Literal["2.12", "2.15"]
ExistingVersion = Literal["2.10", "2.12", "2.15"]

_KEY = Field(
    default=None,
    description="KMS key of the data. Default: a new key with rotation. Of a file system and of a directory bucket it "
    "never changes.",
)


class LustreOptions(SpecModel):
    """The FSx for Lustre file system to make. Each key states whether a change replaces it."""

    storage_capacity_gib: Annotated[int | None, updates(Resource.FILE_SYSTEM)] = Field(
        default=None,
        description="SSD storage in GiB: 1200, 2400 or a multiple of 2400; with EFA multiples of 38400, 19200, 9600 "
        "or 4800 at 125, 250, 500 or 1000 MB/s/TiB. It can only grow.",
    )
    throughput_mb_per_s_per_tib: Annotated[int | None, replaces(Resource.FILE_SYSTEM)] = Field(
        default=None,
        description="125, 250, 500 or 1000 MB/s for each TiB of SSD. With EFA it never changes.",
    )
    efa: Annotated[
        bool,
        updates(Resource.MOUNT_RULES, Resource.LOGIN_MOUNT_RULES),
        replaces(Resource.FILE_SYSTEM, Resource.LINK_RULES),
    ] = Field(
        default=False,
        description="Whether nodes with EFA mount it over EFA. It can never be switched.",
    )
    deployment_type: Annotated[Literal["PERSISTENT_2", "SCRATCH_2"], replaces(Resource.FILE_SYSTEM)] = Field(
        default="PERSISTENT_2",
        description="PERSISTENT_2, or SCRATCH_2 for data that can be lost. It never changes.",
    )
    storage_type: Annotated[Literal["SSD", "INTELLIGENT_TIERING"], replaces(Resource.FILE_SYSTEM)] = Field(
        default="SSD", description="SSD, or Intelligent-Tiering, which is elastic. It never changes."
    )
    throughput_capacity_mb_per_s: Annotated[int | None, updates(Resource.FILE_SYSTEM)] = Field(
        default=None, description="Of Intelligent-Tiering: a multiple of 4000 MB/s. It can only grow."
    )
    read_cache: Annotated[
        Literal["NO_CACHE", "USER_PROVISIONED", "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"] | None,
        updates(Resource.FILE_SYSTEM),
    ] = Field(default=None, description="Of Intelligent-Tiering: its SSD read cache.")
    read_cache_gib: Annotated[int | None, updates(Resource.FILE_SYSTEM)] = Field(
        default=None, description="Of Intelligent-Tiering: size of a USER_PROVISIONED read cache, in GiB."
    )
    metadata_iops: Annotated[int | None, updates(Resource.FILE_SYSTEM)] = Field(
        default=None,
        description="Metadata operations a second to provision. Default: automatic, by the capacity. Only grows.",
    )
    lustre_version: Annotated[Version, replaces(Resource.FILE_SYSTEM)] = Field(
        default="2.15", description="Lustre version of the servers."
    )
    compression: Annotated[bool, updates(Resource.FILE_SYSTEM)] = Field(
        default=True, description="Whether data are compressed with LZ4."
    )
    backup_retention_days: Annotated[int, updates(Resource.FILE_SYSTEM)] = Field(
        default=0,
        description="Days for which daily backups are kept, 0 to 90. Default: 0, none; a must with repositories.",
    )
    weekly_maintenance_start_time: Annotated[WeeklyTime | None, updates(Resource.FILE_SYSTEM)] = Field(
        default=None,
        description="Weekly maintenance, day:hour:minute in UTC, Monday is 1. Default: FSx chooses.",
    )
    encryption_key_arn: Annotated[KeyArn | None, replaces(Resource.FILE_SYSTEM)] = _KEY
    subnet_id: Annotated[SubnetId | None, replaces(Resource.FILE_SYSTEM)] = Field(
        default=None,
        description="Subnet of its servers, one of the network's. Default: the network's subnet; to be given where "
        "the network has several. A change replaces the file system.",
    )

    @property
    def sizing(self) -> LustreSizing:
        """Class and size, as the library's rules take them."""
        return LustreSizing(
            storage_capacity_gib=self.storage_capacity_gib,
            throughput_mb_per_s_per_tib=self.throughput_mb_per_s_per_tib,
            deployment_type=LustreDeploymentType(self.deployment_type),
            storage_type=LustreStorageType(self.storage_type),
            throughput_capacity_mb_per_s=self.throughput_capacity_mb_per_s,
            read_cache=None if self.read_cache is None else ReadCacheMode(self.read_cache),
            read_cache_gib=self.read_cache_gib,
            metadata_iops=self.metadata_iops,
            efa=self.efa,
            version=self.lustre_version,
        )


class RepositorySpec(SpecModel):
    """A link between a directory of the file system and a bucket, or a prefix of it."""

    path: Annotated[Text, NO_CHANGE] = Field(description="Directory of the file system.", examples=["/data"])
    bucket: Annotated[BucketName, replaces(Resource.S3_LINK)] = Field(
        description="Name of an existing bucket.", examples=["my-corpus"]
    )
    prefix: Annotated[str, replaces(Resource.S3_LINK)] = Field(
        default="", description="Prefix in the bucket. Default: all of it."
    )
    bucket_region: Annotated[Text | None, updates(Resource.S3_LINK)] = Field(
        default=None,
        description="Region of the bucket, if it is another; automatic import needs the cluster's.",
    )
    auto_import: Annotated[tuple[Change, ...], AsTuple, updates(Resource.S3_LINK)] = Field(
        default=(), description="Changes in S3 that appear in the file system by themselves."
    )
    auto_export: Annotated[tuple[Change, ...], AsTuple, updates(Resource.S3_LINK)] = Field(
        default=(), description="Changes in the file system that appear in S3 by themselves."
    )
    on_removal: Annotated[Literal["keep", "unlink"], updates(Resource.S3_LINK)] = Field(
        default="keep",
        description="What removing this entry does. `keep`: the link stays. `unlink`: it goes, and no data with it; "
        "deploy once with this word before you remove the entry.",
    )

    @property
    def imports(self) -> tuple[DataRepositoryEvent, ...]:
        """Changes to import, as the library has them."""
        return _events(self.auto_import)

    @property
    def exports(self) -> tuple[DataRepositoryEvent, ...]:
        """Changes to export, as the library has them."""
        return _events(self.auto_export)

    @property
    def uri(self) -> str:
        """The S3 side as a URI."""
        return f"s3://{self.bucket}/{self.prefix}" if self.prefix else f"s3://{self.bucket}"

    @property
    def plain(self) -> DataRepository:
        """The link as the library's rules take it."""
        return DataRepository(
            path=self.path,
            bucket=self.bucket,
            prefix=self.prefix,
            bucket_region=self.bucket_region,
            auto_import=self.imports,
            auto_export=self.exports,
        )


def _events(words: Sequence[str]) -> tuple[DataRepositoryEvent, ...]:
    return tuple(DataRepositoryEvent(word.upper()) for word in words)


class LustreSpec(SpecModel):
    """An FSx for Lustre file system made here, in a data stack of its own."""

    lustre: Annotated[LustreOptions, NO_CHANGE] = Field(description="The file system to make.")
    repositories: Annotated[tuple[RepositorySpec, ...], AsTuple, makes(Resource.S3_LINK)] = Field(
        default=(), description="Links to S3, 8 at most: apart from each other on both sides."
    )


class QuotaSpec(SpecModel):
    """The most storage that one user or group may use."""

    kind: Annotated[Literal["user", "group"], updates(Resource.OPENZFS)] = Field(
        default="user", description="Whether `id` is a user or a group."
    )
    id: Annotated[int, updates(Resource.OPENZFS)] = Field(
        description="Numeric id: NFS knows no names.", examples=[2001]
    )
    storage_gib: Annotated[int, updates(Resource.OPENZFS)] = Field(
        description="Most storage in GiB; 0 means no limit.", examples=[100]
    )

    @property
    def quota(self) -> HomeQuota:
        """The quota, as the library's rules take it."""
        return (HomeQuota.user if self.kind == "user" else HomeQuota.group)(self.id, self.storage_gib)


class OpenZfsOptions(SpecModel):
    """The FSx for OpenZFS file system to make. Each key states whether a change replaces it."""

    storage_capacity_gib: Annotated[int, updates(Resource.OPENZFS)] = Field(
        default=1024, description="SSD storage, 64 to 524288 GiB. It can only grow."
    )
    throughput_mb_per_s: Annotated[int, updates(Resource.OPENZFS)] = Field(
        default=320,
        description="160, 320, 640, 1280, 2560, 3840, 5120, 7680 or 10240 MB/s; 64, 128, 256, 512, 1024, 2048, 3072 or "
        "4096 MB/s of the deployment types that end in 1.",
    )
    deployment_type: Annotated[
        Literal["SINGLE_AZ_HA_2", "SINGLE_AZ_HA_1", "SINGLE_AZ_2", "SINGLE_AZ_1"], replaces(Resource.OPENZFS)
    ] = Field(
        default="SINGLE_AZ_HA_2",
        description="The types with HA have a standby server in the same zone. It never changes.",
    )
    compression: Annotated[Literal["ZSTD", "LZ4", "NONE"], updates(Resource.OPENZFS)] = Field(
        default="ZSTD", description="How data are compressed."
    )
    record_size_kib: Annotated[int, updates(Resource.OPENZFS)] = Field(
        default=128, description="Largest block of a file: a power of two from 4 to 1024 KiB."
    )
    quotas: Annotated[tuple[QuotaSpec, ...], AsTuple, updates(Resource.OPENZFS)] = Field(
        default=(), description="Limits of users and groups, 500 at most."
    )
    backup_retention_days: Annotated[int, updates(Resource.OPENZFS)] = Field(
        default=30, description="Days for which daily backups are kept, 0 to 90; 0 means none."
    )
    weekly_maintenance_start_time: Annotated[WeeklyTime | None, updates(Resource.OPENZFS)] = Field(
        default=None,
        description="Weekly maintenance, day:hour:minute in UTC, Monday is 1. Default: FSx chooses.",
    )
    encryption_key_arn: Annotated[KeyArn | None, replaces(Resource.OPENZFS)] = _KEY
    subnet_id: Annotated[SubnetId | None, replaces(Resource.OPENZFS)] = Field(
        default=None,
        description="Subnet of its servers, one of the network's. Default: the network's subnet; to be given where "
        "the network has several. A change replaces the file system.",
    )

    @property
    def homes(self) -> OpenZfsHomes:
        """The file system, as the library's rules take it."""
        return OpenZfsHomes(
            storage_capacity_gib=self.storage_capacity_gib,
            throughput_mb_per_s=self.throughput_mb_per_s,
            deployment_type=OpenZfsDeploymentType(self.deployment_type),
            compression=OpenZfsCompression(self.compression),
            record_size_kib=self.record_size_kib,
            quotas=tuple(one.quota for one in self.quotas),
            backup_retention_days=self.backup_retention_days,
        )


class OpenZfsSpec(SpecModel):
    """Home directories on FSx for OpenZFS, made here in a data stack of their own."""

    openzfs: Annotated[OpenZfsOptions, NO_CHANGE] = Field(description="The file system to make.")


class EfsOptions(SpecModel):
    """The Amazon EFS file system to make. Each key states whether a change replaces it."""

    throughput_mode: Annotated[Literal["elastic", "bursting", "provisioned"], updates(Resource.EFS)] = Field(
        default="elastic", description="How throughput follows the load."
    )
    provisioned_mib_per_s: Annotated[int | None, updates(Resource.EFS)] = Field(
        default=None, description="Throughput of the mode `provisioned`, 1 to 3414 MiB/s."
    )
    backups: Annotated[bool, updates(Resource.EFS)] = Field(
        default=True, description="Whether AWS Backup makes daily backups."
    )
    encryption_key_arn: Annotated[KeyArn | None, replaces(Resource.EFS)] = _KEY
    subnet_id: Annotated[SubnetId | None, updates(Resource.EFS)] = Field(
        default=None,
        description="Subnet of its mount target, one of the network's. Default: the network's subnet; to be given "
        "where the network has several.",
    )

    @property
    def homes(self) -> EfsHomes:
        """The file system, as the library's rules take it."""
        return EfsHomes(
            throughput_mode=EfsThroughputMode(self.throughput_mode),
            provisioned_mib_per_s=self.provisioned_mib_per_s,
            backups=self.backups,
        )


class EfsSpec(SpecModel):
    """Home directories on Amazon EFS, made here in a data stack of their own."""

    efs: Annotated[EfsOptions, NO_CHANGE] = Field(description="The file system to make.")


#: What names an existing file system, to mount it.
_MOUNTS = (*TEMPLATES, Resource.LOGIN_TEMPLATE)
#: Rules between its servers and their clients.
_MOUNT_RULES = (Resource.MOUNT_RULES, Resource.LOGIN_MOUNT_RULES)


class ExistingHomesOptions(SpecModel):
    """How existing home directories are reached."""

    file_system_id: Annotated[FileSystemId, updates(*_MOUNTS)] = Field(
        description="Id of the file system.", examples=["fs-0123456789abcdef0"]
    )
    security_group_id: Annotated[SecurityGroupId, updates(*_MOUNT_RULES), replaces(Resource.LINK_RULES)] = Field(
        description="Security group of its servers or mount targets; rules for the nodes that mount it are added to "
        "it.",
        examples=["sg-0123456789abcdef0"],
    )
    dns_name: Annotated[Text | None, updates(*_MOUNTS)] = Field(
        default=None, description="Its DNS name. Default: made of id and Region."
    )
    export_path: Annotated[ExportPath | None, updates(*_MOUNTS)] = Field(
        default=None,
        description="Directory of the file system that is mounted. Default: `/fsx` of OpenZFS, `/` of EFS.",
        examples=["/fsx/home"],
    )


class ExistingOpenZfsOptions(ExistingHomesOptions):
    """An FSx for OpenZFS file system, as `aws fsx describe-file-systems` shows it."""


class ExistingOpenZfsSpec(SpecModel):
    """Home directories on an FSx for OpenZFS file system that exists already; no stack is made for it."""

    existing_openzfs: Annotated[ExistingOpenZfsOptions, NO_CHANGE] = Field(description="The file system.")


class ExistingEfsOptions(ExistingHomesOptions):
    """An Amazon EFS file system, as `aws efs describe-mount-targets` shows it."""

    availability_zones: Annotated[tuple[Text, ...], AsTuple, NO_CHANGE] = Field(
        default=(),
        description="Zones of its mount targets, written as the network's. Default: unknown, and not checked.",
        examples=[["us-east-1a"]],
    )


class ExistingEfsSpec(SpecModel):
    """Home directories on an Amazon EFS file system that exists already; no stack is made for it."""

    existing_efs: Annotated[ExistingEfsOptions, NO_CHANGE] = Field(description="The file system.")


class ExistingLustreOptions(SpecModel):
    """How an existing file system is reached, as `aws fsx describe-file-systems` shows it."""

    file_system_id: Annotated[FileSystemId, updates(*_MOUNTS)] = Field(
        description="Id of the file system.", examples=["fs-0123456789abcdef0"]
    )
    mount_name: Annotated[MountName, updates(*_MOUNTS)] = Field(description="Its mount name.", examples=["abcdefgh"])
    security_group_id: Annotated[SecurityGroupId, updates(*_MOUNT_RULES), replaces(Resource.LINK_RULES)] = Field(
        description="Security group of its servers; rules for the fleets that mount it are added to it.",
        examples=["sg-0123456789abcdef0"],
    )
    dns_name: Annotated[Text | None, updates(*_MOUNTS)] = Field(
        default=None, description="Its DNS name. Default: made of id and Region."
    )
    efa: Annotated[bool, updates(*_MOUNTS, *_MOUNT_RULES), replaces(Resource.LINK_RULES)] = Field(
        default=False, description="Whether it serves clients over EFA."
    )
    lustre_version: Annotated[ExistingVersion | None, NO_CHANGE] = Field(
        default=None, description="Lustre version of its servers. Default: unknown, and not checked."
    )
    availability_zone: Annotated[Text | None, NO_CHANGE] = Field(
        default=None,
        description="Zone of its servers, written as the network's. Default: unknown, and not checked.",
    )


class ExistingLustreSpec(SpecModel):
    """An FSx for Lustre file system that exists already; no stack is made for it."""

    existing_lustre: Annotated[ExistingLustreOptions, NO_CHANGE] = Field(description="The file system.")


class ObjectLockOptions(SpecModel):
    """How long no version of a checkpoint can be deleted or overwritten."""

    mode: Annotated[Literal["governance", "compliance"], updates(Resource.BUCKET)] = Field(
        description="`governance`: principals with s3:BypassGovernanceRetention may delete a version. `compliance`: "
        "no one may, the root user included."
    )
    days: Annotated[Days, updates(Resource.BUCKET)] = Field(
        description="Days for which each new version is kept, and is paid for.", examples=[7]
    )


class CheckpointOptions(SpecModel):
    """The bucket to make, and on request a directory bucket of S3 Express One Zone beside it."""

    bucket_name: Annotated[BucketName | None, replaces(Resource.BUCKET)] = Field(
        default=None, description="Name of the bucket. Default: made by CloudFormation. It never changes."
    )
    versioned: Annotated[bool, updates(Resource.BUCKET)] = Field(
        default=True, description="Whether overwritten and deleted checkpoints can be brought back."
    )
    keep_deleted_days: Annotated[Days, updates(Resource.BUCKET)] = Field(
        default=1, description="Days for which they can be brought back, and are paid for."
    )
    object_lock: Annotated[ObjectLockOptions | None, updates(Resource.BUCKET)] = Field(
        default=None,
        description="S3 Object Lock for the bucket. Default: none. It can never be switched off again.",
    )
    expire_after_days: Annotated[Days | None, updates(Resource.BUCKET)] = Field(
        default=None, description="Days after which checkpoints are deleted. Default: never."
    )
    archive_after_days: Annotated[Days | None, updates(Resource.BUCKET)] = Field(
        default=None,
        description="Days after which checkpoints move to S3 Glacier Instant Retrieval. Default: never.",
    )
    encryption_key_arn: Annotated[KeyArn | None, updates(Resource.BUCKET, Resource.DIRECTORY_BUCKET)] = _KEY
    express_zone_id: Annotated[
        Text | None,
        updates(*TEMPLATES, Resource.JOB_DEFINITION),
        replaces(Resource.DIRECTORY_BUCKET),
        makes(Resource.MORE_ENDPOINTS),
    ] = Field(
        default=None,
        description="Zone id of the fleets, for a directory bucket there. Default: none. A change replaces it.",
        examples=["use1-az4"],
    )
    express_base_name: Annotated[Text | None, replaces(Resource.DIRECTORY_BUCKET)] = Field(
        default=None,
        description="First part of the directory bucket's name. Default: made by CloudFormation. It never changes.",
    )
    express_expire_after_days: Annotated[Days | None, updates(Resource.DIRECTORY_BUCKET)] = Field(
        default=None, description="Days after which its objects are deleted. Default: never."
    )


class CheckpointsSpec(SpecModel):
    """Buckets for checkpoints made here, in a data stack of their own."""

    checkpoints: Annotated[CheckpointOptions, NO_CHANGE] = Field(
        description="The buckets to make; `{}` for one with defaults."
    )


class ExistingCheckpointsOptions(SpecModel):
    """Buckets that exist already, and their key."""

    bucket_name: Annotated[BucketName, updates(*TEMPLATES, Resource.JOB_DEFINITION)] = Field(
        description="Name of the bucket.", examples=["my-checkpoints"]
    )
    encryption_key_arn: Annotated[KeyArn | None, updates(*TEMPLATES)] = Field(
        default=None,
        description="Customer managed KMS key of the buckets, which the nodes may use then. Default: they have none.",
    )
    express_bucket_name: Annotated[
        ExpressBucketName | None, updates(*TEMPLATES, Resource.JOB_DEFINITION), makes(Resource.MORE_ENDPOINTS)
    ] = Field(
        default=None,
        description="Name of a directory bucket of S3 Express One Zone in the fleets' zone. Default: none.",
        examples=["llama--use1-az4--x-s3"],
    )


class ExistingCheckpointsSpec(SpecModel):
    """Buckets for checkpoints that exist already; no stack is made for them."""

    existing_checkpoints: Annotated[ExistingCheckpointsOptions, NO_CHANGE] = Field(description="The buckets.")


def has_directory_bucket(store: object) -> bool:
    """Whether a store has a directory bucket of S3 Express One Zone."""
    if isinstance(store, CheckpointsSpec):
        return store.checkpoints.express_zone_id is not None
    return isinstance(store, ExistingCheckpointsSpec) and store.existing_checkpoints.express_bucket_name is not None


def _form(value: object) -> str | None:
    return form_of(value, _FORMS)


_FORMS = (
    "lustre",
    "existing_lustre",
    "openzfs",
    "existing_openzfs",
    "efs",
    "existing_efs",
    "checkpoints",
    "existing_checkpoints",
)


StoreSpec = Annotated[
    Annotated[LustreSpec, Tag("<lustre>")]
    | Annotated[ExistingLustreSpec, Tag("<existing_lustre>")]
    | Annotated[OpenZfsSpec, Tag("<openzfs>")]
    | Annotated[ExistingOpenZfsSpec, Tag("<existing_openzfs>")]
    | Annotated[EfsSpec, Tag("<efs>")]
    | Annotated[ExistingEfsSpec, Tag("<existing_efs>")]
    | Annotated[CheckpointsSpec, Tag("<checkpoints>")]
    | Annotated[ExistingCheckpointsSpec, Tag("<existing_checkpoints>")],
    Discriminator(_form),
]


#: Stores that nodes mount.
LUSTRE = (LustreSpec, ExistingLustreSpec)
FILE_SYSTEMS = (*LUSTRE, OpenZfsSpec, ExistingOpenZfsSpec, EfsSpec, ExistingEfsSpec)
#: File systems that are made here.
NEW_FILE_SYSTEMS = (LustreSpec, OpenZfsSpec, EfsSpec)


def home_storage(store: StoreSpec | None) -> HomeStorage | None:
    """The file system of home directories, as the library's rules take it; None of other stores."""
    options = home_options(store)
    return None if options is None else options.homes


def home_options(store: object) -> OpenZfsOptions | EfsOptions | None:
    """The options of home directories that are made here; None of other stores."""
    if isinstance(store, OpenZfsSpec):
        return store.openzfs
    return store.efs if isinstance(store, EfsSpec) else None


def existing_homes(store: object) -> ExistingOpenZfsOptions | ExistingEfsOptions | None:
    """The options of home directories that exist already; None of other stores."""
    if isinstance(store, ExistingOpenZfsSpec):
        return store.existing_openzfs
    return store.existing_efs if isinstance(store, ExistingEfsSpec) else None


def homes_service(store: object) -> HomeService | None:
    """The service of home directories, new or existing; None of other stores."""
    if isinstance(store, OpenZfsSpec | ExistingOpenZfsSpec):
        return HomeService.OPENZFS
    return HomeService.EFS if isinstance(store, EfsSpec | ExistingEfsSpec) else None


def homes_export(store: object, service: HomeService) -> str:
    """The directory of home directories that nodes mount."""
    existing = existing_homes(store)
    return (existing.export_path if existing is not None else None) or nfs_export(service)


def serves_efa(store: StoreSpec | None) -> bool | None:
    """Whether a file system serves clients over EFA; None for other stores, and for one that has a fault."""
    if homes_service(store) is not None:
        return False
    if isinstance(store, LustreSpec):
        return store.lustre.efa
    return store.existing_lustre.efa if isinstance(store, ExistingLustreSpec) else None


def named_checkpoints(store: object) -> tuple[str, str | None] | None:
    """The names of buckets for checkpoints, of the Region and of the directory, as far as the file has them.

    Args:
        store: A store of the file.

    Returns:
        None for other stores, and if CloudFormation or the store itself makes a name.

    Example:
        >>> named_checkpoints(CheckpointsSpec(checkpoints=CheckpointOptions(bucket_name="llama")))
        ('llama', None)
    """
    if isinstance(store, ExistingCheckpointsSpec):
        existing = store.existing_checkpoints
        return existing.bucket_name, existing.express_bucket_name
    if not isinstance(store, CheckpointsSpec) or store.checkpoints.bucket_name is None:
        return None
    options, zone = store.checkpoints, store.checkpoints.express_zone_id
    if zone is None:
        return store.checkpoints.bucket_name, None
    if options.express_base_name is None:
        return None
    return store.checkpoints.bucket_name, f"{options.express_base_name}--{zone}--x-s3"
