"""What changes in the stacks of the network, of stores, of fabrics and of ways to stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cdk_gpu_clusters.rules.endpoints import endpoints_for
from cdk_gpu_clusters_stacks.spec.data import (
    CheckpointsSpec,
    LustreOptions,
    LustreSpec,
)
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import ExistingNetwork, NewNetwork

from ._compare import Words, compare
from ._sides import SCHEMA, servers_of
from .change_model import Change

_VPC, _SUBNET = "AWS::EC2::VPC", "AWS::EC2::Subnet"
_SECURITY_GROUP = "AWS::EC2::SecurityGroup"
_FILE_SYSTEM, _ASSOCIATION = "AWS::FSx::FileSystem", "AWS::FSx::DataRepositoryAssociation"
_BUCKET, _EXPRESS = "AWS::S3::Bucket", "AWS::S3Express::DirectoryBucket"
_NO_ROOM = (
    "CloudFormation makes the new subnet before it deletes the old one, whose addresses are in use: the deployment "
    "fails. Make a network beside it, under another cluster name"
)
_STAYS = "the data stay, and clients keep them mounted"
_OLD_STAYS = "the old one would stay, with its data, and nothing would use it (UpdateReplacePolicy: Retain)"


def network_changes(stack: str, before: ClusterSpec, after: ClusterSpec) -> Iterator[Change]:
    """What changes in the stack of a network that both files make."""
    old, new = before.network, after.network
    if not isinstance(old, NewNetwork) or not isinstance(new, NewNetwork):
        return
    sides = ((old, before), (new, after))
    yield from compare(
        stack,
        _VPC,
        ({"network.cidr": one.cidr} for one, spec in sides),
        Words(
            replaced="another VPC is made",
            nodes="nodes of the old VPC cannot move",
            source=SCHEMA.format(_VPC),
        ),
        replacing=frozenset(["network.cidr"]),
    )
    yield from compare(
        stack,
        _SUBNET,
        (
            {
                "network.cidr": one.cidr,
                "network.availability_zone": one.availability_zone,
                "network.fleet_subnet_prefix": one.fleet_subnet_prefix,
            }
            for one, spec in sides
        ),
        Words(
            replaced=_NO_ROOM,
            nodes="running nodes stay in the old subnet",
            source=SCHEMA.format(_SUBNET),
        ),
        replacing=frozenset(["network.cidr", "network.availability_zone", "network.fleet_subnet_prefix"]),
    )
    yield from _zones(stack, old, new)
    yield from _egress(stack, old, new)
    yield from _endpoints(stack, before, after)
    yield from compare(
        stack,
        "AWS::EC2::FlowLog",
        ({"network.flow_logs": True} if one.flow_logs else None for one in (old, new)),
        Words(
            added="traffic is recorded from now on",
            removed="traffic is recorded no more",
            data="the log group goes with its stack's rules",
        ),
    )


def _zones(stack: str, old: NewNetwork, new: NewNetwork) -> Iterator[Change]:
    """Subnets of load balancers and endpoints come and go with their zones."""
    key = "network.control_availability_zones"
    for zone in sorted({*old.control_zones, *new.control_zones}):
        yield from compare(
            stack,
            _SUBNET,
            ({key: zone} if zone in one.control_zones else None for one in (old, new)),
            Words(
                added=f"control and load-balancer subnets in {zone}",
                removed=f"control and load-balancer subnets in {zone} go; those with load balancers or nodes in use "
                "cannot, and the deployment fails",
            ),
        )


def _egress(stack: str, old: NewNetwork, new: NewNetwork) -> Iterator[Change]:
    """What of the ways out comes and goes: NAT gateway with its subnet, or endpoints with their group."""
    key = "network.egress"
    nat = [{key: one.egress} if one.egress == "nat" else None for one in (old, new)]
    closed = [{key: one.egress} if one.egress == "closed" else None for one in (old, new)]
    yield from compare(
        stack,
        "AWS::EC2::NatGateway",
        nat,
        Words(
            added="nodes reach the internet through a NAT gateway",
            removed="nodes reach the internet no more",
            nodes="running nodes keep their addresses",
        ),
    )
    yield from compare(stack, _SUBNET, nat, Words(added="its public subnet", removed="its public subnet"))
    yield from compare(
        stack,
        "AWS::EC2::VPCEndpoint",
        closed,
        Words(
            added="AWS services are reached through interface endpoints",
            removed="AWS services are reached through the NAT gateway",
        ),
    )
    yield from compare(
        stack,
        _SECURITY_GROUP,
        closed,
        Words(added="group of the endpoints", removed="group of the endpoints"),
    )


def _endpoints(stack: str, before: ClusterSpec, after: ClusterSpec) -> Iterator[Change]:
    """Endpoints that one orchestrator or its software needs and the other does not, in a network that stays closed."""
    old, new = before.network, after.network
    if not all(isinstance(one, NewNetwork) and one.egress == "closed" for one in (old, new)):
        return
    services = [set(endpoints_for(one.features)) for one in (before, after)]
    key = "eks.software" if before.orchestrator == after.orchestrator else "orchestrator"
    for service in sorted(services[0] ^ services[1]):
        yield from compare(
            stack,
            "AWS::EC2::VPCEndpoint",
            ({key: True} if service in side else None for side in services),
            Words(added=f"endpoint of {service}", removed=f"the endpoint of {service} goes"),
        )


def data_changes(stack: str, name: str, before: ClusterSpec, after: ClusterSpec) -> Iterator[Change]:
    """What changes in the stack of a store that both files make; what the guard refuses is told there."""
    old, new = before.data[name], after.data[name]
    if isinstance(old, LustreSpec) and isinstance(new, LustreSpec):
        yield from _lustre(stack, f"data.{name}", (before, old), (after, new))
    elif isinstance(old, CheckpointsSpec) and isinstance(new, CheckpointsSpec):
        yield from _checkpoints(stack, f"data.{name}.checkpoints", (before, old), (after, new))


#: Options whose change replaces the file system; the guard refuses each (`spec.change`, `rules.lustre_change`).
_REPLACING = (
    "deployment_type", "storage_type", "efa", "lustre_version", "throughput_mb_per_s_per_tib", "subnet_id",
    "encryption_key_arn",
)  # fmt: skip


def _lustre(
    stack: str, key: str, old: tuple[ClusterSpec, LustreSpec], new: tuple[ClusterSpec, LustreSpec]
) -> Iterator[Change]:
    sides = [
        {
            **{f"{key}.lustre.{field}": getattr(one.lustre, field) for field in LustreOptions.model_fields},
            "network": _subnet(spec, one),
        }
        for spec, one in (old, new)
    ]
    yield from compare(
        stack,
        _FILE_SYSTEM,
        sides,
        Words(
            updated="FSx changes the file system in place",
            replaced="CloudFormation would make another, empty file system: refused",
            data=_STAYS,
            data_replaced=_OLD_STAYS,
            source="rules GPU-LUS-030 to -033 and GPU-SPEC-024",
        ),
        replacing=frozenset([*(f"{key}.lustre.{field}" for field in _REPLACING), "network"]),
    )
    links = [{link.path: link for link in one.repositories} for _, one in (old, new)]
    where = f"{key}.repositories"
    for path in sorted({*links[0], *links[1]}):
        found = [side.get(path) for side in links]
        yield from compare(
            stack,
            _ASSOCIATION,
            (None if link is None else {where: link, f"{where}.bucket": link.uri} for link in found),
            Words(
                updated=f"the link of {path} changes in place",
                replaced=f"{path} would be linked to another bucket or prefix while it is linked: refused",
                added=f"{path} is linked to S3",
                removed=f"the link of {path} leaves its stack: it stays at FSx, unless it had on_removal: unlink",
                data="no file and no object goes",
                source="rule GPU-SPEC-024; " + SCHEMA.format(_ASSOCIATION),
            ),
            replacing=frozenset([f"{where}.bucket"]),
        )


def _subnet(spec: ClusterSpec, store: LustreSpec) -> Any:
    network = spec.network
    if isinstance(network, ExistingNetwork):
        return store.lustre.subnet_id or network.subnet_ids[0]
    return None


def _checkpoints(
    stack: str, key: str, old: tuple[ClusterSpec, CheckpointsSpec], new: tuple[ClusterSpec, CheckpointsSpec]
) -> Iterator[Change]:
    own = ("bucket_name", "versioned", "keep_deleted_days", "expire_after_days", "archive_after_days")
    sides = ((spec, one.checkpoints) for spec, one in (old, new))
    (first, before), (second, after) = sides
    yield from compare(
        stack,
        _BUCKET,
        (
            {
                **{f"{key}.{field}": getattr(one, field) for field in (*own, "encryption_key_arn")},
            }
            for spec, one in ((first, before), (second, after))
        ),
        Words(
            updated="the bucket changes in place",
            replaced="CloudFormation would make another, empty bucket: refused",
            data_replaced=_OLD_STAYS,
            data="objects stay; new lifecycle rules hold for those that are there, too",
            source="Amazon S3 user guide, lifecycle configuration; rule GPU-SPEC-024",
        ),
        replacing=frozenset([f"{key}.bucket_name"]),
    )
    express = ("express_zone_id", "express_base_name", "express_expire_after_days", "encryption_key_arn")
    yield from compare(
        stack,
        _EXPRESS,
        (
            {f"{key}.{field}": getattr(one, field) for field in express} if one.express_zone_id else None
            for one in (before, after)
        ),
        Words(
            updated="the directory bucket changes in place",
            added="a directory bucket is made",
            removed="the directory bucket leaves its stack and stays, with its objects",
            replaced="CloudFormation would make another, empty directory bucket: refused",
            data="objects stay",
            data_replaced=_OLD_STAYS,
            source="rule GPU-SPEC-024",
        ),
        replacing=frozenset(f"{key}.{field}" for field in ("express_zone_id", "express_base_name")),
    )


def fabric_changes(stack: str, before: ClusterSpec, after: ClusterSpec) -> Iterator[Change]:
    """What changes in the stack of a fabric."""
    yield from compare(
        stack,
        _SECURITY_GROUP,
        ({"network.vpc_id": getattr(spec.network, "vpc_id", None)} for spec in (before, after)),
        Words(
            replaced="another group is made in the other VPC",
            nodes="running nodes keep the old group, which cannot go before them",
            source=SCHEMA.format(_SECURITY_GROUP),
        ),
        replacing=frozenset(["network.vpc_id"]),
    )


def link_changes(stack: str, name: str, before: ClusterSpec, after: ClusterSpec) -> Iterator[Change]:
    """What changes in the stack with the rules between a store and a fabric."""
    yield from compare(
        stack,
        "AWS::EC2::SecurityGroupIngress",
        ({f"data.{name}": servers_of(spec, name)} for spec in (before, after)),
        Words(
            replaced="the rules between the fabric and the store's servers are made anew",
            nodes="mounts may hang for the moment between",
            source=SCHEMA.format("AWS::EC2::SecurityGroupIngress"),
        ),
        replacing=frozenset([f"data.{name}"]),
    )
