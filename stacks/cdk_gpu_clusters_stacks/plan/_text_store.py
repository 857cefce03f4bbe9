"""A store as text."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters_stacks.counting import count

from ._layout import Footnotes, Row, Section, known, number, usd
from .store_model import CheckpointsPlan, LustrePlan, ReaderPlan, StorePlan

_KINDS = {
    "lustre": "FSx for Lustre",
    "existing_lustre": "existing FSx for Lustre",
    "checkpoints": "buckets for checkpoints",
    "existing_checkpoints": "existing buckets for checkpoints",
}


def store_section(store: StorePlan, notes: Footnotes) -> Section:
    """One store."""
    where = f", stack {store.stack_name}, which outlives the fleets" if store.stack_name else ""
    return Section(f"Store {store.name} ({_KINDS[store.kind]}{where})", list(_rows(store, notes)))


def _rows(store: StorePlan, notes: Footnotes) -> Iterator[Row]:
    if store.resource_id is not None:
        yield Row("id", [f"{store.resource_id}, {'with' if store.efa else 'without'} EFA"])
    if store.lustre is not None:
        yield from _lustre(store.lustre)
    for reader in store.readers:
        yield Row("read by", list(_reader(reader)))
    if store.checkpoints is not None:
        yield from _checkpoints(store.checkpoints)
    if store.users:
        yield Row("written by", [", ".join(store.users)])
    if store.cost is not None:
        yield Row("cost", [_cost(store, notes)])


def _lustre(lustre: LustrePlan) -> Iterator[Row]:
    size = "elastic" if lustre.storage_capacity_gib is None else f"{number(lustre.storage_capacity_gib)} GiB"
    tier = lustre.throughput_mb_per_s_per_tib
    words = [
        f"{size}, {lustre.deployment_type} {lustre.storage_type}, Lustre {lustre.lustre_version}",
        "with EFA" if lustre.efa else "without EFA",
        "LZ4" if lustre.compression else "not compressed",
        f"backups for {count(lustre.backup_retention_days, 'day')}"
        if lustre.backup_retention_days
        else "no backups",
    ]
    yield Row("file system", [", ".join(words)])
    rate = f"{number(lustre.throughput_mb_per_s)} MB/s in all"
    metadata = known(
        lustre.metadata_iops, "metadata operations a second", "the class has no metadata configuration"
    )
    servers = f"{count(lustre.object_servers, 'object server')} and {count(lustre.metadata_servers, 'metadata server')}"
    yield Row(
        "throughput",
        [f"{rate}{f' ({number(tier)} MB/s for each TiB)' if tier else ''}, {metadata}; {servers}"],
    )
    for link in lustre.repositories:
        ways = [
            f"{word} {', '.join(changes)}"
            for word, changes in (("imports", link.auto_import), ("exports", link.auto_export))
            if changes
        ]
        yield Row("linked", [f"{link.path} = {link.s3_uri}; {'; '.join(ways) or 'nothing by itself'}"])


def _reader(reader: ReaderPlan) -> Iterator[str]:
    way = "EFA" if reader.over_efa else "TCP"
    yield f"{reader.fleet} at {reader.mount_point} over {way}, {count(reader.nodes, 'node')}"
    if reader.store_mb_per_s_per_node is not None:
        each = f"{number(reader.store_mb_per_s_per_node)} MB/s for each node"
        if reader.store_mb_per_s_per_accelerator is not None:
            each += f", {number(reader.store_mb_per_s_per_accelerator)} MB/s for each accelerator"
        yield f"gives {each}, when all read at once"
    else:
        yield f"gives: unknown ({reader.unknown['store_mb_per_s_per_node']})"
    if reader.node_mb_per_s is None or reader.fleet_mb_per_s is None:
        yield f"nodes could read: unknown ({reader.unknown['node_mb_per_s']})"
        return
    slower = {"file system": "the file system is the limit", "nodes": "the nodes are the limit"}
    end = f": {slower[reader.limited_by]}" if reader.limited_by else ""
    yield (
        f"nodes could read {number(reader.fleet_mb_per_s)} MB/s, {number(reader.node_mb_per_s)} each "
        f"({reader.basis}){end}"
    )


def _checkpoints(buckets: CheckpointsPlan) -> Iterator[Row]:
    words = [buckets.bucket_name or "named by CloudFormation"]
    if buckets.versioned is not None:
        words.append("versioned" if buckets.versioned else "not versioned")
    if buckets.archive_after_days is not None:
        words.append(f"archived after {count(buckets.archive_after_days, 'day')}")
    if buckets.expire_after_days is not None:
        words.append(f"deleted after {count(buckets.expire_after_days, 'day')}")
    yield Row("bucket", [", ".join(words)])
    if buckets.express_zone_id is not None or buckets.express_bucket_name is not None:
        words = [buckets.express_bucket_name or f"in {buckets.express_zone_id}"]
        if buckets.express_expire_after_days is not None:
            words.append(f"deleted after {count(buckets.express_expire_after_days, 'day')}")
        yield Row("S3 Express", [", ".join(words)])


def _cost(store: StorePlan, notes: Footnotes) -> str:
    cost = store.cost
    if cost is None or cost.usd_per_month is None or cost.usd_per_hour is None or cost.usd_per_day is None:
        return "unknown" if cost is None else f"unknown: {cost.unknown['usd_per_month']}"
    mark = notes.mark(cost.prices)
    return (
        f"{usd(cost.usd_per_month)} a month for its storage{mark}; {usd(cost.usd_per_hour)} an hour, "
        f"{usd(cost.usd_per_day)} a day"
    )
