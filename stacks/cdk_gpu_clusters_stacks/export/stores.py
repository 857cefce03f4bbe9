"""The stores of a cluster file as shared storage of AWS ParallelCluster, which all nodes mount in the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from cdk_gpu_clusters.catalogue.homes import HomeService
from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.rules.parallelcluster import MOUNT
from cdk_gpu_clusters_stacks.export.deployed import DeployedIds
from cdk_gpu_clusters_stacks.spec._document import Fault, Key, faults_at
from cdk_gpu_clusters_stacks.spec.data import (
    ExistingLustreSpec,
    LustreSpec,
    StoreSpec,
    existing_homes,
    homes_service,
)
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.stack_names import data_stack

_ID = "FileSystemId"


def shared_storage(
    spec: ClusterSpec, mounts: Mapping[str, tuple[str, Key]], ids: DeployedIds, volumes: Mapping[str, str]
) -> tuple[list[dict[str, Any]], list[Fault]]:
    """Shared storage for each mount point, and what ParallelCluster cannot mount.

    Args:
        spec: The cluster.
        mounts: Mount point -> name of the store, and its key in the file.
        ids: Ids of the stores that are made here.
        volumes: Ids of volumes of FSx for OpenZFS by store.
    """
    storage, faults, names = [], list[Fault](), Counter[str]()
    for point, (name, key) in mounts.items():
        store = spec.data[name]
        settings = (
            _lustre(spec, name, store, ids) or _efs(spec, name, store, ids) or _openzfs(spec, name, store, ids, volumes)
        )
        if settings is None:
            faults += faults_at(key, [_no_volume(name)])
        else:
            # A store at two directories is shared storage twice, and no two have one name.
            names[name] += 1
            number = f"-{names[name]}" if names[name] > 1 else ""
            storage.append({"MountDir": point, "Name": f"{name}{number}", **settings})
    return storage, faults


def _lustre(spec: ClusterSpec, name: str, store: StoreSpec, ids: DeployedIds) -> dict[str, Any] | None:
    if isinstance(store, ExistingLustreSpec):
        file_system_id = store.existing_lustre.file_system_id
    elif isinstance(store, LustreSpec):
        file_system_id = ids.of(data_stack(spec.name, name), _ID, key=("data", name))
    else:
        return None
    return {"StorageType": "FsxLustre", "FsxLustreSettings": {"FileSystemId": file_system_id}}


def _efs(spec: ClusterSpec, name: str, store: StoreSpec, ids: DeployedIds) -> dict[str, Any] | None:
    if homes_service(store) is not HomeService.EFS:
        return None
    existing = existing_homes(store)
    file_system_id = (
        existing.file_system_id if existing else ids.of(data_stack(spec.name, name), _ID, key=("data", name))
    )
    return {"StorageType": "Efs", "EfsSettings": {"FileSystemId": file_system_id, "EncryptionInTransit": True}}


def _openzfs(
    spec: ClusterSpec, name: str, store: StoreSpec, ids: DeployedIds, volumes: Mapping[str, str]
) -> dict[str, Any] | None:
    if homes_service(store) is not HomeService.OPENZFS or (name not in volumes and existing_homes(store) is not None):
        return None
    volume_id = volumes.get(name) or ids.of(data_stack(spec.name, name), "VolumeId", key=("data", name))
    return {"StorageType": "FsxOpenZfs", "FsxOpenZfsSettings": {"VolumeId": volume_id}}


def _no_volume(name: str) -> Finding:
    return MOUNT.finding(
        cause="ParallelCluster mounts a volume of FSx for OpenZFS by its id, which the cluster file does not have",
        got=name,
        allowed="fsvol-...",
        fix=f"give --volume {name}=fsvol-..., as aws fsx describe-volumes shows it",
    )
