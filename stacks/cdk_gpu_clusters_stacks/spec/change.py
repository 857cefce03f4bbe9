"""What a changed cluster file would do to stores that are deployed: nothing may replace them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pydantic import BaseModel

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.rules.data_repository import normal_path
from cdk_gpu_clusters.rules.lustre_change import check_lustre_change

from ._document import Fault, Key, dotted, faults_at
from ._rules import STORE_CHANGE
from .data import CheckpointOptions, CheckpointsSpec, LustreOptions, LustreSpec, RepositorySpec
from .model import ClusterSpec
from .network import ExistingNetwork

_NEW_STORE = "keep the old value; or add a store under another name, copy the data, and remove this one later"

#: Keys whose change replaces the resource or is refused by its service.
_LUSTRE_KEYS = ("encryption_key_arn",)
_BUCKET_KEYS = ("bucket_name",)
_EXPRESS_KEYS = ("express_zone_id", "express_base_name")


def check_change(deployed: ClusterSpec, wanted: ClusterSpec) -> list[Fault]:
    """Find changes that would replace a store of a deployed cluster, or that its service refuses.

    A store that is added or removed is no such change: the stack of a removed one stays until you delete it.

    Args:
        deployed: The cluster file as it was deployed.
        wanted: The file that is to be deployed.

    Returns:
        Faults at keys of the new file.
    """
    if not deployed.data:
        return []
    faults = [*_check_cluster(deployed, wanted)]
    for name, before in deployed.data.items():
        after, key = wanted.data.get(name), ("data", name)
        if after is None:
            continue
        if type(before) is not type(after):
            faults += _changed(key, "the kind of the store", _kind(before), _kind(after))
        elif isinstance(before, LustreSpec) and isinstance(after, LustreSpec):
            faults += _check_lustre((*key, "lustre"), before.lustre, after.lustre)
            faults += _check_links((*key, "repositories"), before.repositories, after.repositories)
            faults += _check_place((*key, "lustre", "subnet_id"), name, deployed, wanted)
        elif isinstance(before, CheckpointsSpec) and isinstance(after, CheckpointsSpec):
            faults += _check_buckets((*key, "checkpoints"), before.checkpoints, after.checkpoints)
    return faults


def check_change_of(deployed: ClusterSpec, wanted: ClusterSpec) -> list[Finding]:
    """As `check_change`; the findings' paths are dotted keys, such as `data.corpus.lustre.efa`."""
    return [replace(fault.finding, path=dotted(fault.key)) for fault in check_change(deployed, wanted)]


def _check_cluster(deployed: ClusterSpec, wanted: ClusterSpec) -> Iterator[Fault]:
    """Stacks are named after the cluster, and stand in its account and Region: another is another cluster."""
    for name in ("name", "region", "account"):
        before, after = getattr(deployed, name), getattr(wanted, name)
        if before != after and not (name == "account" and None in (before, after)):
            yield from _changed((name,), f"{name}, by which every store is made anew", before, after)


def _check_lustre(key: Key, before: LustreOptions, after: LustreOptions) -> list[Fault]:
    faults: list[Fault] = []
    for finding in check_lustre_change(before.sizing, after.sizing):
        named = [field for field in LustreOptions.model_fields if finding.cause.startswith(f"{field} ")]
        other = "lustre_version" if finding.cause.startswith("an older version") else _RATE
        faults += faults_at((*key, named[0] if named else other), [finding])
    return faults + _check_keys(key, before, after, _LUSTRE_KEYS)


def _check_links(key: Key, before: Sequence[RepositorySpec], after: Sequence[RepositorySpec]) -> Iterator[Fault]:
    """Find a directory that would be linked to another prefix: the new link is refused while the old one exists."""
    linked = {normal_path(one.path): one for one in before}
    for index, one in enumerate(after):
        old = linked.get(normal_path(one.path))
        if old is None or _target(old) == _target(one):
            continue
        finding = STORE_CHANGE.finding(
            cause="a directory cannot be linked anew while it is linked",
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
    given = store.lustre.subnet_id if isinstance(store, LustreSpec) else None
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
    before: LustreOptions | CheckpointOptions,
    after: LustreOptions | CheckpointOptions,
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
