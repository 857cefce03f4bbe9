"""What a cluster file takes for granted, as seeds of the emulator: reservations, blocks, groups, subnets, buckets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from cdk_gpu_clusters_stacks.spec.capacity import (
    CapacityBlock,
    NewReservation,
    Reservation,
    ReservationGroup,
    UltraServerBlock,
)
from cdk_gpu_clusters_stacks.spec.data import ExistingLustreSpec, LustreSpec
from cdk_gpu_clusters_stacks.spec.fleet import NodesSpec
from cdk_gpu_clusters_stacks.spec.inference import LoadBalancerSpec
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import ExistingNetwork
from gpu_clusters_emulator.clock import format_time, parse_time

Json = dict[str, Any]
_BEFORE = timedelta(days=1)
_MADE_UP_MEMBER = "cr-0123456789abcdef0"  # the one reservation of a resource group that a file names


def seeds_of(spec: ClusterSpec) -> Json:
    """Everything that a cluster file names and no stack makes."""
    seed: Json = {
        "reservations": [],
        "reservation_groups": {},
        "placement_groups": {},
        "buckets": {},
        "certificates": [],
        "security_groups": [],
        **_network(spec),
    }
    seed["clusters"] = _clusters(spec, list(seed["subnets"]))
    for fleet in fleets_of(spec):
        _add_capacity(seed, fleet, spec.network.availability_zone)
    for service in spec.inference.fleets.values():
        _add_load_balancer(seed, service.load_balancer, spec.region)
    for store in spec.data.values():
        if isinstance(store, LustreSpec):
            seed["buckets"] |= {one.bucket: one.bucket_region or spec.region for one in store.repositories}
        elif isinstance(store, ExistingLustreSpec):
            seed["security_groups"].append(store.existing_lustre.security_group_id)
    dates = [parse_time(str(moment)) for fleet in fleets_of(spec) for moment in _dates(fleet)]
    eve = min(dates, default=datetime.max.replace(tzinfo=UTC)) - _BEFORE
    if eve < datetime.now(UTC):  # an example stays deployable after its dates have passed
        seed["now"] = format_time(eve)
    return seed


def fleets_of(spec: ClusterSpec) -> list[NodesSpec]:
    """The fleets of a cluster, of either kind."""
    return [*spec.training.fleets.values(), *spec.inference.fleets.values()]


def _network(spec: ClusterSpec) -> Json:
    network = spec.network
    if not isinstance(network, ExistingNetwork):
        return {"vpcs": [], "subnets": {}}
    zones = dict.fromkeys(network.subnet_ids, network.availability_zone)
    by_zone = [*network.service_subnets.items(), *network.public_subnets.items()]
    return {"vpcs": [network.vpc_id], "subnets": zones | {subnet: zone for zone, subnet in by_zone}}


def _clusters(spec: ClusterSpec, subnets: list[str]) -> Json:
    existing = spec.eks.existing
    if existing is None:
        return {}
    group = existing.cluster_security_group_id
    version = existing.kubernetes_version
    return {existing.cluster_name: {"version": version, "security_group": group, "subnets": subnets}}


def _add_load_balancer(seed: Json, given: LoadBalancerSpec, region: str) -> None:
    seed["security_groups"] += [client for client in given.clients if client.startswith("sg-")]
    if given.certificate_arn:
        seed["certificates"].append(given.certificate_arn)
    if given.access_log_bucket:
        seed["buckets"][given.access_log_bucket] = region


def _dates(fleet: NodesSpec) -> list[object]:
    """The moments that must lie ahead at the first deploy."""
    capacity = fleet.capacity
    if isinstance(capacity, CapacityBlock | UltraServerBlock):
        return [capacity.starts_at or capacity.ends_at]
    if isinstance(capacity, NewReservation) and capacity.new_reservation.end_date:
        return [capacity.new_reservation.end_date]
    return []


def block_times(spec: ClusterSpec) -> tuple[str, str] | None:
    """Start and end of the first Capacity Block that starts later; None where there is none."""
    for fleet in fleets_of(spec):
        capacity = fleet.capacity
        if isinstance(capacity, CapacityBlock | UltraServerBlock) and capacity.starts_at:
            return str(capacity.starts_at), str(capacity.ends_at)
    return None


def _add_capacity(seed: Json, fleet: NodesSpec, zone: str) -> None:
    capacity = fleet.capacity
    reservation: Json = {
        "instance_type": fleet.instance_type,
        "availability_zone": zone,
        "count": fleet.maximum_nodes,
    }
    if isinstance(capacity, CapacityBlock | UltraServerBlock):
        reservation |= {
            "kind": "capacity-block",
            "starts_at": capacity.starts_at and str(capacity.starts_at),
            "ends_at": str(capacity.ends_at),
        }
    if isinstance(capacity, Reservation | ReservationGroup) and capacity.placement_group:
        reservation["placement_group"] = capacity.placement_group
        seed["placement_groups"][capacity.placement_group] = "cluster"
    match capacity:
        case CapacityBlock():
            identifier = capacity.capacity_block
        case Reservation():
            identifier = capacity.reservation
        case UltraServerBlock():
            identifier = _group(seed, capacity.ultraserver_block)
        case ReservationGroup():
            identifier = _group(seed, capacity.reservation_group)
        case _:
            return
    seed["reservations"].append({"id": identifier, **reservation})


def _group(seed: Json, arn: str) -> str:
    seed["reservation_groups"][arn.rsplit("/", 1)[-1]] = [_MADE_UP_MEMBER]
    return _MADE_UP_MEMBER
