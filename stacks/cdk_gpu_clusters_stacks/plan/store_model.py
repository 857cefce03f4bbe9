"""What a plan says about a store: a file system with its readers, or buckets for checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .cost_model import StoreCost


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderPlan:
    """A fleet that mounts a file system, and what its nodes can read at most.

    Attributes:
        fleet: Key of the fleet.
        mount_point: Directory of its nodes.
        nodes: Most nodes.
        accelerators: Their devices.
        over_efa: Whether data take EFA.
        node_mb_per_s: What one node can read: its network, and what the service says of one client.
        fleet_mb_per_s: All nodes together.
        store_mb_per_s_per_node: What the file system gives each node when all of the fleet read at once.
        store_mb_per_s_per_accelerator: The same for each device; None without.
        limited_by: `file system` or `nodes`: which of the two is slower; None if unknown.
        basis: Where `node_mb_per_s` comes from.
        unknown: Fields above that are None -> why.
    """

    fleet: str
    mount_point: str
    nodes: int
    accelerators: int
    over_efa: bool
    node_mb_per_s: float | None
    fleet_mb_per_s: float | None
    store_mb_per_s_per_node: float | None
    store_mb_per_s_per_accelerator: float | None
    limited_by: str | None
    basis: str
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepositoryPlan:
    """A link between a directory of a file system and S3; `auto_import` and `auto_export` name the changes."""

    path: str
    s3_uri: str
    auto_import: tuple[str, ...]
    auto_export: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LustrePlan:
    """An FSx for Lustre file system that is made here.

    Attributes:
        deployment_type: `PERSISTENT_2` or `SCRATCH_2`.
        storage_type: `SSD` or `INTELLIGENT_TIERING`.
        storage_capacity_gib: SSD storage; None of Intelligent-Tiering, which is elastic.
        throughput_mb_per_s_per_tib: Tier; None where the class has none.
        throughput_mb_per_s: What the whole file system delivers.
        metadata_iops: Metadata operations; None without a metadata configuration.
        efa: Whether nodes with EFA mount it over EFA.
        lustre_version: Version of its servers.
        compression: Whether data are compressed with LZ4.
        backup_retention_days: Days for which daily backups are kept; 0 for none.
        object_servers, metadata_servers: Its servers.
        ip_addresses: Addresses that it takes from its subnet, one for each server.
        subnet: Key of its subnet in the network plan.
        repositories: Links to S3.
    """

    deployment_type: str
    storage_type: str
    storage_capacity_gib: int | None
    throughput_mb_per_s_per_tib: int | None
    throughput_mb_per_s: int
    metadata_iops: int | None
    efa: bool
    lustre_version: str
    compression: bool
    backup_retention_days: int
    object_servers: int
    metadata_servers: int
    ip_addresses: int
    subnet: str
    repositories: tuple[RepositoryPlan, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointsPlan:
    """Buckets for checkpoints.

    Attributes:
        bucket_name: Name of the bucket; None where CloudFormation makes it.
        express_zone_id: Zone of the directory bucket (S3 Express One Zone), None for none.
        express_bucket_name: Name of an existing directory bucket, None for none.
        versioned: Whether overwritten and deleted objects can be brought back; None of existing buckets.
        expire_after_days, archive_after_days, express_expire_after_days: Lifecycle; None for never.
    """

    bucket_name: str | None
    express_zone_id: str | None
    express_bucket_name: str | None
    versioned: bool | None
    expire_after_days: int | None
    archive_after_days: int | None
    express_expire_after_days: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlan:
    """A store of the cluster.

    Attributes:
        name: Key of the store.
        kind: `lustre`, `existing_lustre`, `checkpoints` or `existing_checkpoints`, as in the file.
        stack_name: Its stack; None of an existing store.
        resource_id: Id of an existing file system; None of others.
        lustre: A file system that is made here, None for other stores.
        efa: Whether it serves clients over EFA; None of buckets.
        checkpoints: Buckets, None of file systems.
        readers: Fleets that mount a file system.
        users: Fleets that write checkpoints to it.
        cost: What its storage costs; None of existing stores, which cost what they cost anyway.
        unknown: Fields above that are None though they have a value -> why.
    """

    name: str
    kind: str
    stack_name: str | None
    resource_id: str | None
    lustre: LustrePlan | None
    efa: bool | None
    checkpoints: CheckpointsPlan | None
    readers: tuple[ReaderPlan, ...]
    users: tuple[str, ...]
    cost: StoreCost | None
    unknown: Mapping[str, str] = field(default_factory=dict)
