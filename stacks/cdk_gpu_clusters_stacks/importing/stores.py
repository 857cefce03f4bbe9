"""Shared file systems of a ParallelCluster file, and the stores of the cluster file that they become."""

from __future__ import annotations

import re

from .draft import Change, Draft, Note
from .foreign import Part
from .group import fleet_name, was

_FILE_SYSTEM = re.compile(r"fs-([0-9a-f]{8}|[0-9a-f]{17})")
_DNS = re.compile(r"(fs-(?:[0-9a-f]{17}|[0-9a-f]{8}))\.fsx\.")
_MOUNT_NAME = re.compile(r"[A-Za-z0-9_-]{1,8}", re.ASCII)
_GROUP = "sg-0123456789abcdef0"
_NEW = "a new and empty file system: copy your data"
# aws-parallelcluster 3.16.1, pcluster/config/cluster_config.py, SharedFsxLustre.
_DEFAULT_DEPLOYMENT = "SCRATCH_2"


def write_stores(draft: Draft, shared: Part) -> dict[str, str]:
    """Write the stores.

    Args:
        draft: The cluster file.
        shared: `SharedStorage` of the file.

    Returns:
        Mount point -> name of the store.
    """
    mounts: dict[str, str] = {}
    for part in shared.items():
        kind = part["StorageType"].text() or ""
        point = part["MountDir"].text() or ""
        point = point if point.startswith("/") else f"/{point}"  # cluster_validators.py, line 956
        name = _free(fleet_name(part["Name"].text() or kind or "store"), draft.data.get("data"))
        write = _KINDS.get(kind)
        if write is None:
            draft.note(Change.LOST, f"no store of the cluster file is of the type {kind}", part)
            continue
        write(draft, name, part)
        mounts[point] = name
    return mounts


def _free(name: str, taken: object) -> str:
    names = taken if isinstance(taken, dict) else {}
    return next(one for one in (name, *(f"{name[:36]}-{number}" for number in range(2, 999))) if one not in names)


def _existing(draft: Draft, key: tuple[str, ...], part: Part) -> None:
    """What names an existing file system: its id, and the security group that no ParallelCluster file has."""
    text = None if isinstance(part.value, dict) else part.text()
    if _FILE_SYSTEM.fullmatch(text or ""):
        draft.put(*key, "file_system_id", value=text, of=part)
        draft.note(Change.REPLACED, "the file system stays, with its data, and the new nodes mount it", part)
    else:
        part.skip()
        draft.fill(
            *key, "file_system_id", value="fs-0123456789abcdef0", why=was(part, "the id of your file system"), of=part
        )
    draft.fill(*key, "security_group_id", value=_GROUP, why="the security group of its servers", of=part)


def _write_lustre(draft: Draft, name: str, existing: Part) -> None:
    key = ("data", name, "existing_lustre")
    _existing(draft, key, existing)
    draft.fill(*key, "mount_name", value="abcdefgh", why="its mount name", of=existing)


def _lustre(draft: Draft, name: str, part: Part) -> None:
    settings = part["FsxLustreSettings"]
    existing = settings["FileSystemId"]
    if existing.exists:
        _write_lustre(draft, name, existing)
        return
    key = ("data", name, "lustre")
    draft.put(*key, value={}, of=part)
    deployment = settings["DeploymentType"].text() or _DEFAULT_DEPLOYMENT
    if deployment in ("SCRATCH_1", "PERSISTENT_1"):
        newer = deployment.replace("1", "2")
        draft.note(Change.REPLACED, f"{deployment} becomes {newer}, its successor", settings["DeploymentType"])
        deployment = newer
    draft.put(*key, "deployment_type", value=deployment, of=settings["DeploymentType"])
    if (size := settings["StorageCapacity"].number()) is not None:
        draft.put(*key, "storage_capacity_gib", value=size, of=settings["StorageCapacity"])
    throughput = settings["PerUnitStorageThroughput"].number()
    if throughput is not None and deployment == "PERSISTENT_2":
        wanted = min((one for one in (125, 250, 500, 1000) if one >= throughput), default=1000)
        if wanted != throughput:
            text = f"{throughput} MB/s for each TiB become {wanted}, the next step of {deployment}"
            draft.note(Change.REPLACED, text, settings["PerUnitStorageThroughput"])
        draft.put(*key, "throughput_mb_per_s_per_tib", value=wanted, of=settings["PerUnitStorageThroughput"])
    elif throughput is not None:
        draft.note(Change.LOST, f"{deployment} has one throughput only", settings["PerUnitStorageThroughput"])
    days = settings["AutomaticBackupRetentionDays"]
    if (kept := days.number()) is not None:
        draft.put(*key, "backup_retention_days", value=kept, of=days)
    draft.note(Change.REPLACED, _NEW, part["FsxLustreSettings"]["StorageCapacity"])
    _repository(draft, name, settings)


def _repository(draft: Draft, name: str, settings: Part) -> None:
    """The bucket, as a data repository association: the form that PERSISTENT_2 and SCRATCH_2 share."""
    link = settings["ImportPath"]
    match = (
        re.fullmatch(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(.*))?", link.text() or "") if link.exists else None
    )
    if match is None:
        if link.exists:
            draft.note(Change.LOST, "write the bucket as `repositories` of the store", link)
        return
    entry = {"path": "/", "bucket": match[1], **({"prefix": match[2]} if match[2] else {})}
    draft.put("data", name, "repositories", value=[entry], of=link)


def _efs(draft: Draft, name: str, part: Part) -> None:
    settings = part["EfsSettings"]
    existing = settings["FileSystemId"]
    if existing.exists:
        _existing(draft, ("data", name, "existing_efs"), existing)
        return
    key = ("data", name, "efs")
    draft.put(*key, value={}, of=part)
    mode, provisioned = settings["ThroughputMode"], settings["ProvisionedThroughput"]
    # aws-parallelcluster 3.16.1, pcluster/config/cluster_config.py, SharedEfs.
    draft.put(*key, "throughput_mode", value=mode.text() or "bursting", of=mode)
    if (amount := provisioned.number()) is not None:
        draft.put(*key, "provisioned_mib_per_s", value=amount, of=provisioned)
    draft.note(Change.REPLACED, _NEW, part["MountDir"])


def _openzfs(draft: Draft, name: str, part: Part) -> None:
    volume = part["FsxOpenZfsSettings"]["VolumeId"]
    key = ("data", name, "existing_openzfs")
    draft.fill(*key, "file_system_id", value="fs-0123456789abcdef0", why=was(volume, "the file system of the volume"))
    draft.fill(*key, "security_group_id", value=_GROUP, why="the security group of its servers")
    draft.fill(*key, "export_path", value="/fsx", why="the path of the volume", of=volume)
    draft.note(Change.REPLACED, "the volume stays, with its data, and the new nodes mount it", volume)


def _ebs(draft: Draft, name: str, part: Part) -> None:
    draft.put("data", name, "efs", value={}, of=part)
    draft.note(
        Change.REPLACED,
        "no store is a volume that the head node shares: Amazon EFS takes its place, at the same directory; copy your "
        "data, and delete the volume then",
        part,
    )


def write_lustre_by_name(draft: Draft, dns: Part, mount: Part) -> str:
    """Write an existing FSx for Lustre file system that a file gives by its DNS and mount names.

    Args:
        draft: The cluster file.
        dns: Its DNS name.
        mount: Its mount name.

    Returns:
        Name of the store, one for each DNS name.
    """
    name, key = _named(draft, "fsx", "existing_lustre", dns)
    text = mount.text() or ""
    if _MOUNT_NAME.fullmatch(text):
        draft.put(*key, "mount_name", value=text, of=mount)
    else:
        draft.fill(*key, "mount_name", value="abcdefgh", why=was(mount, "its mount name"), of=mount)
    return name


def write_lustre_by_id(draft: Draft, existing: Part) -> str:
    """Write an existing FSx for Lustre file system that a file gives by its id, and give the store's name."""
    name = _free("fsx", draft.data.get("data"))
    _write_lustre(draft, name, existing)
    return name


def write_openzfs_by_name(draft: Draft, dns: Part) -> str:
    """Write an existing FSx for OpenZFS file system that a file gives by its DNS name, and give the store's name."""
    return _named(draft, "openzfs", "existing_openzfs", dns)[0]


def _named(draft: Draft, kind: str, form: str, dns: Part) -> tuple[str, tuple[str, ...]]:
    """The store of a DNS name, and its path: a new one, unless another group of nodes mounts it, too."""
    for path, part in draft.origins.items():
        if path[0] == "data" and path[2:] == (form, "file_system_id") and part.value == dns.value:
            dns.skip()
            return str(path[1]), ("data", str(path[1]), form)
    name = _free(kind, draft.data.get("data"))
    key = ("data", name, form)
    match = _DNS.match(dns.text() or "")
    if match is not None:
        draft.put(*key, "file_system_id", value=match[1], of=dns)
    else:
        draft.fill(*key, "file_system_id", value="fs-0123456789abcdef0", why=was(dns, "its id"), of=dns)
    draft.fill(*key, "security_group_id", value=_GROUP, why="the security group of its servers", of=dns)
    draft.notes.append(
        Note(Change.REPLACED, dns.name, "the file system stays, with its data, and the new nodes mount it", dns.place)
    )
    return name, key


_KINDS = {"FsxLustre": _lustre, "Efs": _efs, "FsxOpenZfs": _openzfs, "Ebs": _ebs}
