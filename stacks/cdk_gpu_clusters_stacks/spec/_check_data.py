"""Checks of the stores: sizes, links to S3, places."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pydantic import BaseModel

from cdk_gpu_clusters.errors import ConfigError, Finding, Severity
from cdk_gpu_clusters.rules.checkpoints import (
    BASE_NAME,
    check_bucket_name,
    check_directory_bucket,
    check_object_lock,
    check_order,
    read_directory_bucket_name,
)
from cdk_gpu_clusters.rules.data_repository import (
    BACKUPS,
    CLASS,
    COUNT,
    IMPORT_REGION,
    PATH_FORM,
    PATH_OVERLAP,
    PREFIX_OVERLAP,
    check_data_repositories,
    check_path,
    normal_path,
    read_s3_uri,
)
from cdk_gpu_clusters.rules.homes import check_homes, check_homes_change
from cdk_gpu_clusters.rules.lustre import (
    CAPACITY,
    DEPLOYMENT,
    EFA_CAPACITY,
    EFA_CLASS,
    EFA_POSSIBLE,
    KEY,
    METADATA,
    METADATA_MODE,
    READ_CACHE,
    RETENTION,
    STORAGE_QUOTA,
    STORAGE_TYPE,
    THROUGHPUT,
    TIERING_QUOTA,
    TIERING_THROUGHPUT,
    VERSION,
    check_backups,
    check_encryption_key,
    check_lustre,
)
from cdk_gpu_clusters.rules.lustre_change import check_lustre_change
from cdk_gpu_clusters.rules.zones import check_zone, is_zone_id

from ._check_eks import check_new_version
from ._check_nodes import check_block_sizes
from ._document import Fault, Key, dotted, faults_at
from ._parts import SpecParts
from ._rules import EXPRESS_ZONE, STORE_CHANGE, STORE_SUBNET
from .data import (
    CheckpointOptions,
    CheckpointsSpec,
    EfsOptions,
    ExistingCheckpointsOptions,
    ExistingCheckpointsSpec,
    LustreOptions,
    LustreSpec,
    OpenZfsOptions,
    RepositorySpec,
    home_options,
)
from .model import ClusterSpec
from .network import ExistingNetwork, NewNetwork

# Checks of the stores: sizes, links to S3, places.

#: Rule -> the key of `lustre` that has to change.
_LUSTRE_KEYS = {
    CAPACITY.id: "storage_capacity_gib",
    EFA_CAPACITY.id: "storage_capacity_gib",
    STORAGE_QUOTA.id: "storage_capacity_gib",
    THROUGHPUT.id: "throughput_mb_per_s_per_tib",
    EFA_CLASS.id: "efa",
    EFA_POSSIBLE.id: "efa",
    DEPLOYMENT.id: "deployment_type",
    STORAGE_TYPE.id: "storage_type",
    TIERING_THROUGHPUT.id: "throughput_capacity_mb_per_s",
    TIERING_QUOTA.id: "throughput_capacity_mb_per_s",
    READ_CACHE.id: "read_cache",
    METADATA.id: "metadata_iops",
    METADATA_MODE.id: "metadata_iops",
    VERSION.id: "lustre_version",
    RETENTION.id: "backup_retention_days",
    KEY.id: "encryption_key_arn",
}
#: Rule -> the key of a repository that has to change; rules about all of them have none.
_REPOSITORY_KEYS = {
    PATH_FORM.id: "path",
    PATH_OVERLAP.id: "path",
    PREFIX_OVERLAP.id: "prefix",
    IMPORT_REGION.id: "auto_import",
}
_ABOUT_ALL = (COUNT.id, CLASS.id, BACKUPS.id)


def check_stores(parts: SpecParts) -> list[Fault]:
    """Find what is wrong with the stores, by themselves and in the cluster's network."""
    faults = [fault for key, path in parts.paths.items() for fault in faults_at(key, check_path(path))]
    for name, store in (parts.stores or {}).items():
        key = ("data", name)
        if isinstance(store, LustreSpec):
            faults += _check_lustre((*key, "lustre"), store.lustre, parts.network)
            faults += _check_repositories((*key, "repositories"), store, parts.region)
        elif (homes := home_options(store)) is not None:
            faults += _check_homes((*key, homes.homes.service.value), homes, parts.network)
        elif isinstance(store, CheckpointsSpec):
            faults += _check_checkpoints((*key, "checkpoints"), store.checkpoints, parts)
        elif isinstance(store, ExistingCheckpointsSpec):
            options = store.existing_checkpoints
            faults += _check_existing_checkpoints((*key, "existing_checkpoints"), options, parts)
    return faults


def _check_lustre(key: Key, options: LustreOptions, network: NewNetwork | ExistingNetwork | None) -> list[Fault]:
    findings = [
        *check_lustre(options.sizing),
        *check_backups(options.sizing, options.backup_retention_days),
        *check_encryption_key(options.sizing, given=options.encryption_key_arn is not None),
    ]
    faults = [fault for one in findings for fault in faults_at((*key, _LUSTRE_KEYS[one.id]), [one])]
    return faults + faults_at((*key, "subnet_id"), _check_subnet(options, network))


def _check_homes(
    key: Key, options: OpenZfsOptions | EfsOptions, network: NewNetwork | ExistingNetwork | None
) -> list[Fault]:
    faults = [
        fault
        for one in check_homes(options.homes)
        for fault in faults_at((*key, *_key_of(one.path)), [replace(one, path="")])
    ]
    return faults + faults_at((*key, "subnet_id"), _check_subnet(options, network))


def _key_of(path: str) -> Key:
    """The key of a finding's path: `quotas[2].id` is `quotas`, 2, `id`."""
    return tuple(int(part) if part.isdigit() else part for part in re.findall(r"\w+", path))


def _check_subnet(
    options: LustreOptions | OpenZfsOptions | EfsOptions, network: NewNetwork | ExistingNetwork | None
) -> list[Finding]:
    if network is None:
        return []
    given = options.subnet_id
    known = network.subnet_ids if isinstance(network, ExistingNetwork) else ()
    if given is None and len(set(known)) <= 1:
        return []
    if given is not None and given in known:
        return []
    if given is None:
        cause, got, fix = "the network has several subnets", "no subnet_id", f"add subnet_id: {known[0]}"
    elif known:
        cause, got, fix = "this subnet is not one of the network's", given, f"use one of {', '.join(known)}"
    else:
        cause, got, fix = "the network is made here, and has one subnet", given, "remove subnet_id"
    return [
        STORE_SUBNET.finding(
            cause=cause, got=got, allowed=", ".join(known) or "no subnet_id with a new network", fix=fix
        )
    ]


def _check_repositories(key: Key, store: LustreSpec, region: str | None) -> list[Fault]:
    """Ask the rules about ever more of the links, so that a fault between two is reported at the second."""
    faults: list[Fault] = []
    seen: list[Finding] = []
    for index, repository in enumerate(store.repositories):
        found = check_data_repositories(
            [one.plain for one in store.repositories[: index + 1]],
            region=region,
            sizing=store.lustre.sizing,
            backup_retention_days=store.lustre.backup_retention_days,
        )
        fresh = [one for one in found if one not in seen and one.id not in _ids(seen, COUNT.id)]
        seen += fresh
        for one in fresh:
            field = _REPOSITORY_KEYS.get(one.id)
            faults += faults_at(key if field is None else (*key, index, field), [one])
        faults += _check_uri((*key, index), repository)
    return faults


def _ids(findings: Sequence[Finding], only: str) -> set[str]:
    return {one.id for one in findings if one.id == only}


def _check_uri(key: Key, repository: RepositorySpec) -> list[Fault]:
    try:
        read_s3_uri(repository.uri)
    except ConfigError as fault:
        return faults_at((*key, "prefix" if repository.prefix else "bucket"), fault.findings)
    return []


def _check_checkpoints(key: Key, options: CheckpointOptions, parts: SpecParts) -> list[Fault]:
    zone, base = options.express_zone_id, options.express_base_name
    faults = [] if options.bucket_name is None else _check_bucket_name(key, options.bucket_name)
    if options.object_lock is not None:
        found = check_object_lock(options.object_lock.days, versioned=options.versioned)
        faults += faults_at((*key, "object_lock"), found)
    found = check_order(options.archive_after_days, options.expire_after_days)
    faults += faults_at((*key, "expire_after_days"), found)
    if zone is None:
        if base is None and options.express_expire_after_days is None:
            return faults
        finding = EXPRESS_ZONE.finding(
            cause="there is no directory bucket without its zone",
            got="no express_zone_id",
            allowed="a zone id such as use1-az4",
            fix="add express_zone_id, or remove the other express keys",
        )
        return faults + faults_at(key, [finding], at_key=True)
    for finding in check_directory_bucket(zone, base):
        field = "express_base_name" if finding.id == BASE_NAME.id else "express_zone_id"
        faults += faults_at((*key, field), [finding])
    return faults + faults_at((*key, "express_zone_id"), _check_express_place(zone, parts))


def _check_existing_checkpoints(key: Key, options: ExistingCheckpointsOptions, parts: SpecParts) -> list[Fault]:
    faults = _check_bucket_name(key, options.bucket_name)
    if options.express_bucket_name is None:
        return faults
    base, zone = read_directory_bucket_name(options.express_bucket_name)
    found = check_directory_bucket(zone, base) or _check_express_place(zone, parts)
    fix = "name a directory bucket in the zone of the fleets, or remove the key"
    found = [replace(one, fix=fix) if one.severity is Severity.ERROR else one for one in found]
    return faults + faults_at((*key, "express_bucket_name"), found)


def _check_bucket_name(key: Key, name: str) -> list[Fault]:
    return faults_at((*key, "bucket_name"), check_bucket_name(name))


def _check_express_place(zone: str, parts: SpecParts) -> list[Finding]:
    network = parts.network
    if not is_zone_id(zone):
        return []
    foreign = check_zone(parts.region, zone)
    if foreign or network is None:
        return foreign
    here = network.availability_zone
    if is_zone_id(here) and here != zone:
        return [
            EXPRESS_ZONE.finding(
                cause="the directory bucket is in another zone than the fleets",
                got=zone,
                allowed=here,
                fix=f"write express_zone_id: {here}",
            )
        ]
    return []


# What a changed cluster file would do to stores that are deployed: nothing may replace them.

_NEW_STORE = "keep the old value; or add a store under another name, copy the data, and remove this one later"

#: Keys whose change replaces the resource or is refused by its service.
_FIXED_LUSTRE_KEYS = ("encryption_key_arn",)
_BUCKET_KEYS = ("bucket_name",)
_EXPRESS_KEYS = ("express_zone_id", "express_base_name")


def check_change(deployed: ClusterSpec, wanted: ClusterSpec) -> list[Fault]:
    """Find changes that would replace a store of a deployed cluster, or that AWS refuses; blocks that shrink.

    A store that is added or removed is no such change: the stack of a removed one stays until you delete it.

    Returns:
        Faults at keys of the new file.
    """
    faults = [*check_block_sizes(deployed, wanted), *check_new_version(deployed, wanted)]
    if not deployed.data:
        return faults
    faults += _check_cluster(deployed, wanted)
    for name, before in deployed.data.items():
        after, key = wanted.data.get(name), ("data", name)
        if after is None:
            continue
        if type(before) is not type(after):
            faults += _changed(key, "the kind of the store", _kind(before), _kind(after))
        elif isinstance(before, LustreSpec) and isinstance(after, LustreSpec):
            faults += _check_changed_lustre((*key, "lustre"), before.lustre, after.lustre)
            faults += _check_links((*key, "repositories"), before.repositories, after.repositories)
            faults += _check_place((*key, "lustre", "subnet_id"), name, deployed, wanted)
        elif (old := home_options(before)) is not None and (new := home_options(after)) is not None:
            faults += _check_changed_homes((*key, old.homes.service.value), old, new)
            if isinstance(old, OpenZfsOptions):
                faults += _check_place((*key, "openzfs", "subnet_id"), name, deployed, wanted)
        elif isinstance(before, CheckpointsSpec) and isinstance(after, CheckpointsSpec):
            faults += _check_buckets((*key, "checkpoints"), before.checkpoints, after.checkpoints)
    return faults


def check_change_of(deployed: ClusterSpec, wanted: ClusterSpec) -> list[Finding]:
    """As `check_change`; the findings' paths are dotted keys, such as `data.corpus.lustre.efa`."""
    return [replace(fault.finding, path=dotted(fault.key)) for fault in check_change(deployed, wanted)]


def _check_cluster(deployed: ClusterSpec, wanted: ClusterSpec) -> Iterator[Fault]:
    """Stacks are named after the cluster, and are in its account and Region: another is another cluster."""
    for name in ("name", "region", "account"):
        before, after = getattr(deployed, name), getattr(wanted, name)
        if before != after and not (name == "account" and None in (before, after)):
            yield from _changed((name,), f"{name}, by which every store is made again", before, after)


def _check_changed_lustre(key: Key, before: LustreOptions, after: LustreOptions) -> list[Fault]:
    faults: list[Fault] = []
    for finding in check_lustre_change(before.sizing, after.sizing):
        named = [field for field in LustreOptions.model_fields if finding.cause.startswith(f"{field} ")]
        other = "lustre_version" if finding.cause.startswith("an older version") else _RATE
        faults += faults_at((*key, named[0] if named else other), [finding])
    return faults + _check_keys(key, before, after, _FIXED_LUSTRE_KEYS)


def _check_changed_homes(
    key: Key, before: OpenZfsOptions | EfsOptions, after: OpenZfsOptions | EfsOptions
) -> list[Fault]:
    faults = [
        fault
        for one in check_homes_change(before.homes, after.homes)
        for fault in faults_at((*key, *_key_of(one.path)), [replace(one, path="")])
    ]
    return faults + _check_keys(key, before, after, ("encryption_key_arn",))


def _check_links(key: Key, before: Sequence[RepositorySpec], after: Sequence[RepositorySpec]) -> Iterator[Fault]:
    """Find a directory that would be linked to another prefix: the new link is refused while the old one exists."""
    linked = {normal_path(one.path): one for one in before}
    for index, one in enumerate(after):
        old = linked.get(normal_path(one.path))
        if old is None or _target(old) == _target(one):
            continue
        finding = STORE_CHANGE.finding(
            cause="a directory cannot be linked again while it is linked",
            got=one.uri,
            allowed=old.uri,
            fix="deploy once with the old link and on_removal: unlink, then once without it, then add the new one",
        )
        yield from faults_at((*key, index, "prefix" if one.bucket == old.bucket else "bucket"), [finding])


def _target(repository: RepositorySpec) -> tuple[str, str]:
    return repository.bucket, repository.prefix.removesuffix("/")


_RATE = "throughput_mb_per_s_per_tib"


def _check_place(key: Key, name: str, deployed: ClusterSpec, wanted: ClusterSpec) -> list[Fault]:
    """Find a file system that would move to another subnet."""
    before, after = _subnet(deployed, name), _subnet(wanted, name)
    return [] if before == after else _changed(key, "its subnet", before, after)


def _subnet(spec: ClusterSpec, name: str) -> str:
    network, store = spec.network, spec.data[name]
    options = store.lustre if isinstance(store, LustreSpec) else home_options(store)
    given = None if options is None else options.subnet_id
    if isinstance(network, ExistingNetwork):
        return given or network.subnet_ids[0]
    return f"{network.availability_zone}, {network.cidr}, /{network.fleet_subnet_prefix or 'default'}"


def _check_buckets(key: Key, before: CheckpointOptions, after: CheckpointOptions) -> list[Fault]:
    had_express = before.express_zone_id is not None
    stays = had_express and after.express_zone_id is not None
    key_of_express = ("encryption_key_arn",) if had_express else ()
    return _check_keys(key, before, after, (*_BUCKET_KEYS, *(_EXPRESS_KEYS if stays else ()), *key_of_express))


def _check_keys(
    key: Key,
    before: BaseModel,
    after: BaseModel,
    names: tuple[str, ...],
) -> list[Fault]:
    return [
        fault
        for name in names
        if getattr(before, name) != getattr(after, name)
        for fault in _changed((*key, name), name, getattr(before, name), getattr(after, name))
    ]


def _changed(key: Key, what: str, before: object, after: object) -> list[Fault]:
    finding: Finding = STORE_CHANGE.finding(
        cause=f"this change would replace a store that is deployed: {what}",
        got=_word(after),
        allowed=_word(before),
        fix=_NEW_STORE,
    )
    return faults_at(key, [finding])


def _word(value: object) -> str:
    return "nothing" if value is None else str(value)


def _kind(store: BaseModel) -> str:
    return next(iter(type(store).model_fields))
