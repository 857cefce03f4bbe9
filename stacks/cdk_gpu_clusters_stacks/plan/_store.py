"""A store of the plan: a file system against its readers, or buckets."""

from __future__ import annotations

from collections.abc import Sequence

from cdk_gpu_clusters.rules.homes import HomeStorage, OpenZfsHomes
from cdk_gpu_clusters.rules.lustre_clients import node_reading_rate
from cdk_gpu_clusters_stacks.spec.data import (
    CheckpointsSpec,
    ExistingCheckpointsSpec,
    ExistingLustreSpec,
    LustreSpec,
    StoreSpec,
    existing_homes,
    home_storage,
    homes_service,
    serves_efa,
)
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet
from cdk_gpu_clusters_stacks.stack_names import data_stack

from ._cost import home_cost, store_cost
from ._network import FLEET_SUBNET
from ._node import device_count
from .model import CheckpointsPlan, HomesPlan, LustrePlan, ReaderPlan, RepositoryPlan, StorePlan

_EXISTING = "the file does not say how fast an existing file system is"
_EXISTING_HOMES = "the file names only how existing home directories are reached"
_NFS_RATE = "no source states what one node reads over NFS"
_EFS_RATE = "the throughput of EFS follows the load"


def plan_store(name: str, store: StoreSpec, spec: ClusterSpec, views: Sequence[PlannedFleet]) -> StorePlan:
    """Describe one store."""
    homes = home_storage(store)
    made_here = homes is not None or isinstance(store, LustreSpec | CheckpointsSpec)
    is_existing_lustre, given_homes = isinstance(store, ExistingLustreSpec), existing_homes(store)
    existing = store.existing_lustre if isinstance(store, ExistingLustreSpec) else given_homes
    return StorePlan(
        name=name,
        kind=next(iter(type(store).model_fields)),
        stack_name=data_stack(spec.name, name) if made_here else None,
        resource_id=None if existing is None else existing.file_system_id,
        lustre=_lustre(store) if isinstance(store, LustreSpec) else None,
        homes=_homes(homes),
        efa=serves_efa(store),
        checkpoints=_checkpoints(store),
        readers=tuple(_readers(name, store, views)),
        users=tuple(view.name for view in views if isinstance(view.spec, FleetSpec) and view.spec.checkpoints == name),
        cost=store_cost(store.lustre.sizing, spec.region) if isinstance(store, LustreSpec) else home_cost(homes),
        unknown={"lustre": _EXISTING} if is_existing_lustre else {"homes": _EXISTING_HOMES} if given_homes else {},
    )


def _lustre(store: LustreSpec) -> LustrePlan:
    options, sizing = store.lustre, store.lustre.sizing
    return LustrePlan(
        deployment_type=options.deployment_type,
        storage_type=options.storage_type,
        storage_capacity_gib=options.storage_capacity_gib,
        throughput_mb_per_s_per_tib=options.throughput_mb_per_s_per_tib,
        throughput_mb_per_s=sizing.throughput_mb_per_s,
        metadata_iops=sizing.effective_metadata_iops,
        efa=options.efa,
        lustre_version=options.lustre_version,
        compression=options.compression,
        backup_retention_days=options.backup_retention_days,
        object_servers=sizing.object_servers,
        metadata_servers=sizing.metadata_servers,
        ip_addresses=sizing.ip_addresses,
        subnet=FLEET_SUBNET,
        repositories=tuple(
            RepositoryPlan(path=one.path, s3_uri=one.uri, auto_import=one.auto_import, auto_export=one.auto_export)
            for one in store.repositories
        ),
    )


def _homes(storage: HomeStorage | None) -> HomesPlan | None:
    if storage is None:
        return None
    if isinstance(storage, OpenZfsHomes):
        return HomesPlan(
            service=storage.service.value,
            deployment_type=storage.deployment_type.value,
            storage_capacity_gib=storage.storage_capacity_gib,
            throughput_mb_per_s=storage.throughput_mb_per_s,
            compression=storage.compression.value,
            quotas=len(storage.quotas),
            backup_retention_days=storage.backup_retention_days,
            subnet=FLEET_SUBNET,
        )
    return HomesPlan(
        service=storage.service.value,
        throughput_mode=storage.throughput_mode.value,
        provisioned_mib_per_s=storage.provisioned_mib_per_s,
        aws_backup=storage.backups,
        subnet=FLEET_SUBNET,
    )


def _readers(name: str, store: StoreSpec, views: Sequence[PlannedFleet]) -> list[ReaderPlan]:
    found = []
    for view in views:
        for point, mounted in view.spec.mounts.items():
            if mounted == name:
                found.append(_reader(view, point, store))
    return found


def _home_reader(view: PlannedFleet, point: str, storage: HomeStorage | None) -> ReaderPlan:
    nodes = view.spec.maximum_nodes
    devices = nodes * device_count(view.plan.instance_type)
    given = float(storage.throughput_mb_per_s) if isinstance(storage, OpenZfsHomes) else None
    unknown = dict.fromkeys(("node_mb_per_s", "fleet_mb_per_s", "limited_by"), _NFS_RATE)
    if given is None:
        why = _EXISTING if storage is None else _EFS_RATE
        unknown |= dict.fromkeys(("store_mb_per_s_per_node", "store_mb_per_s_per_accelerator"), why)
    return ReaderPlan(
        fleet=view.name,
        mount_point=point,
        nodes=nodes,
        accelerators=devices,
        over_efa=False,
        node_mb_per_s=None,
        fleet_mb_per_s=None,
        store_mb_per_s_per_node=None if given is None else given / nodes,
        store_mb_per_s_per_accelerator=None if given is None or not devices else given / devices,
        limited_by=None,
        basis=_NFS_RATE,
        unknown=unknown,
    )


def _reader(view: PlannedFleet, point: str, store: StoreSpec) -> ReaderPlan:
    if homes_service(store) is not None:
        return _home_reader(view, point, home_storage(store))
    nodes, devices = view.spec.maximum_nodes, device_count(view.plan.instance_type)
    over_efa = view.mounts_over_efa(store)
    sizing = store.lustre.sizing if isinstance(store, LustreSpec) else None
    rate = node_reading_rate(
        view.plan.instance_type,
        over_efa=over_efa,
        node_count=nodes,
        object_servers=None if sizing is None else sizing.object_servers,
    )
    fleet = None if rate.mb_per_s is None else rate.mb_per_s * nodes
    given = None if sizing is None else float(sizing.throughput_mb_per_s)
    unknown: dict[str, str] = {}
    if rate.mb_per_s is None:
        unknown |= dict.fromkeys(("node_mb_per_s", "fleet_mb_per_s", "limited_by"), rate.basis)
    if given is None:
        names = ("store_mb_per_s_per_node", "store_mb_per_s_per_accelerator", "limited_by")
        unknown |= dict.fromkeys(names, _EXISTING)
    limit = None
    if fleet is not None and given is not None:
        limit = "file system" if given < fleet else "nodes"
    return ReaderPlan(
        fleet=view.name,
        mount_point=point,
        nodes=nodes,
        accelerators=nodes * devices,
        over_efa=over_efa,
        node_mb_per_s=rate.mb_per_s,
        fleet_mb_per_s=fleet,
        store_mb_per_s_per_node=None if given is None else given / nodes,
        store_mb_per_s_per_accelerator=None if given is None or not devices else given / (nodes * devices),
        limited_by=limit,
        basis=rate.basis,
        unknown=unknown,
    )


def _checkpoints(store: StoreSpec) -> CheckpointsPlan | None:
    if isinstance(store, CheckpointsSpec):
        made = store.checkpoints
        return CheckpointsPlan(
            bucket_name=made.bucket_name,
            express_zone_id=made.express_zone_id,
            versioned=made.versioned,
            expire_after_days=made.expire_after_days,
            archive_after_days=made.archive_after_days,
            express_expire_after_days=made.express_expire_after_days,
        )
    if isinstance(store, ExistingCheckpointsSpec):
        given = store.existing_checkpoints
        return CheckpointsPlan(bucket_name=given.bucket_name, express_bucket_name=given.express_bucket_name)
    return None
