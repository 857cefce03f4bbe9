"""The text of a first cluster file: short, commented, and valid except for what is marked CHANGE."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from cdk_gpu_clusters.catalogue.instances import instance_type
from cdk_gpu_clusters.catalogue.pcs import size_limits

_SCHEMA = "# Editors: gpu-clusters schema > cluster.schema.json\n# yaml-language-server: $schema=cluster.schema.json"


#: Of the home directories of a Slurm cluster: what `openzfs: {}` makes.
_HOMES_GIB = 1024


class Purpose(StrEnum):
    """What the cluster does."""

    TRAIN = "train"
    SERVE = "serve"


class StarterOrchestrator(StrEnum):
    """What the nodes join."""

    EC2 = "ec2"
    EKS = "eks"
    PCS = "pcs"


class StarterCapacity(StrEnum):
    """Where the nodes come from."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVATION = "reservation"
    CAPACITY_BLOCK = "capacity-block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Starter:
    """The content of a first cluster file.

    Attributes:
        purpose: Training or serving.
        orchestrator: What the nodes join: nothing, a Kubernetes cluster of Amazon EKS, or a Slurm cluster of AWS PCS.
        capacity: Where the nodes come from.
        availability_zone: Zone of the nodes; by default the first one that is known to offer the type.
        lustre_gib: Size of a shared file system in GiB; none by default.
        devices_per_server: GPUs, or MIG instances, that one model server gets.
        mig: MIG layout of each GPU, as `MIG_PARTITION` has it; no split by default.
    """

    name: str
    region: str
    instance_type: str
    nodes: int = 1
    purpose: Purpose = Purpose.TRAIN
    orchestrator: StarterOrchestrator = StarterOrchestrator.EC2
    capacity: StarterCapacity = StarterCapacity.ON_DEMAND
    availability_zone: str | None = None
    lustre_gib: int | None = None
    devices_per_server: int = 1
    mig: str | None = None

    @property
    def zone(self) -> str:
        """The zone of the nodes."""
        return self.availability_zone or self.zones[0]

    @property
    def is_ultraserver(self) -> bool:
        """Whether the nodes come as a block of UltraServers."""
        of_block = self.capacity is StarterCapacity.CAPACITY_BLOCK
        return of_block and bool(instance_type(self.instance_type).ultraservers)

    @property
    def homes_gib(self) -> int | None:
        """Size of the file system for home directories, which a Slurm cluster needs; None where FSx has none.

        FSx offers no file systems in the Local Zones of UltraServers.
        """
        is_slurm = self.orchestrator is StarterOrchestrator.PCS
        return _HOMES_GIB if is_slurm and not self.is_ultraserver else None

    @property
    def cluster_size(self) -> str:
        """The smallest size of a cluster of AWS PCS that holds the nodes and a login node; else the largest.

        The size of a cluster never changes.
        """
        sizes = [one.name for one in size_limits().values() if one.nodes > self.nodes]
        return sizes[0] if sizes else list(size_limits())[-1]

    @property
    def zone_is_guessed(self) -> bool:
        """Whether the zone must be that of a reservation, and was not given."""
        reserved = (StarterCapacity.RESERVATION, StarterCapacity.CAPACITY_BLOCK)
        return self.availability_zone is None and self.capacity in reserved

    @property
    def zones(self) -> tuple[str, ...]:
        """Zones of the Region that are known to offer the type, by id; zone names where none is known."""
        kind = instance_type(self.instance_type)
        local = tuple(zone for zone in kind.capacity_block_local_zones if zone.startswith(f"{self.region}-"))
        if self.is_ultraserver and local:
            return local
        known = kind.availability_zone_ids.get(self.region, ())
        return known if len(known) > 1 else (*known, f"{self.region}a", f"{self.region}b")[-2:]


def starter_text(starter: Starter) -> str:
    """Write a first cluster file.

    Example:
        >>> print(starter_text(Starter(name="dev", region="us-east-1", instance_type="g6.xlarge")).splitlines()[3])
        name: dev
    """
    return "\n".join([_SCHEMA, *_lines(starter)]) + "\n"


def _lines(starter: Starter) -> Iterator[str]:
    yield "version: 1"
    yield f"name: {_scalar(starter.name)}"
    yield f"region: {_scalar(starter.region)}"
    if starter.orchestrator is not StarterOrchestrator.EC2:
        yield f"orchestrator: {starter.orchestrator}"
    yield f"network: {{ {_network(starter)} }}{_ZONE_MARK if starter.zone_is_guessed else ''}"
    yield from _stores(starter)
    yield "training:" if starter.purpose is Purpose.TRAIN else "inference:"
    yield "  fleets:"
    yield "    workers:" if starter.purpose is Purpose.TRAIN else "    servers:"
    yield from (f"      {line}" for line in _fleet(starter))


def _stores(starter: Starter) -> Iterator[str]:
    if starter.lustre_gib or starter.homes_gib:
        yield "data:"
    if starter.homes_gib:
        yield "  home: # outlives every fleet; every node sees the same files in it"
        yield f"    openzfs: {{ storage_capacity_gib: {starter.homes_gib} }}"
    if starter.lustre_gib:
        yield "  scratch: # outlives every fleet; add repositories to read from and write to S3"
        yield f"    lustre: {{ storage_capacity_gib: {starter.lustre_gib}, throughput_mb_per_s_per_tib: 250 }}"
    if starter.orchestrator is StarterOrchestrator.PCS:
        yield "pcs: # add `users: users.yaml` for the accounts of your people"
        if starter.cluster_size != "SMALL":
            yield f"  size: {starter.cluster_size.lower()} # for {starter.nodes} nodes; it never changes"
        yield f"  login: {{ nodes: 1{_mounts(starter, ', mounts')} }}"


def _mounts(starter: Starter, key: str) -> str:
    """The mounts of a node, which are the same on all nodes."""
    points = {
        **({"/home": "home"} if starter.homes_gib else {}),
        **({"/scratch-shared": "scratch"} if starter.lustre_gib else {}),
    }
    return f"{key}: {{ {', '.join(f'{point}: {store}' for point, store in points.items())} }}" if points else ""


_ZONE_MARK = " # CHANGE: the zone of your reservation or block"


def _scalar(text: str) -> str:
    """Text as YAML: plain where nothing in it has a meaning of its own, in quotes otherwise."""
    return text if re.fullmatch(r"[A-Za-z][\w.+-]*|[0-9]g\.[\w.,+-]+", text, re.ASCII) else json.dumps(text)


def _network(starter: Starter) -> str:
    zone = f"availability_zone: {_scalar(starter.zone)}"
    if starter.purpose is Purpose.TRAIN or starter.availability_zone:
        return zone
    return f"{zone}, control_availability_zones: [{', '.join(map(_scalar, starter.zones[:2]))}]"


def _fleet(starter: Starter) -> Iterator[str]:
    yield f"instance_type: {starter.instance_type}"
    yield f"nodes: {starter.nodes}"
    if starter.is_ultraserver:
        group, *times = (line.format(region=starter.region) for line in _ULTRASERVER)
        yield from ("capacity:", group)
        if starter.orchestrator is StarterOrchestrator.EKS:
            yield "  reservation: cr-0123456789abcdef0 # CHANGE: the block in it, by whose id EKS launches"
        yield from times
    else:
        yield from _CAPACITY[starter.capacity]
    if starter.mig and instance_type(starter.instance_type).supports_efa:
        yield "efa: false # GPUs that are split have no NVLink, and train on no fabric"
    if starter.mig:
        yield f"mig: {_scalar(starter.mig)} # of each GPU, at every boot"
    if mounts := _mounts(starter, "mounts"):
        yield mounts
    if starter.purpose is Purpose.SERVE:
        yield from _server(starter)


#: The lines of each kind of capacity.
_CAPACITY = {
    StarterCapacity.ON_DEMAND: ("# on demand; large GPU types are rarely available this way",),
    StarterCapacity.SPOT: ("capacity: { spot: {} } # EC2 can take a node with two minutes' notice",),
    StarterCapacity.RESERVATION: (
        "capacity: { reservation: cr-0123456789abcdef0 } # CHANGE: your reservation, in this zone",
    ),
    StarterCapacity.CAPACITY_BLOCK: (
        "capacity:",
        "  capacity_block: cr-0123456789abcdef0 # CHANGE: as `gpu-clusters capacity buy` prints it",
        "  starts_at: 2030-01-01T11:30Z # CHANGE",
        "  ends_at: 2030-01-15T11:30Z # CHANGE",
    ),
}


_ULTRASERVER = (
    "  ultraserver_block: arn:aws:resource-groups:{region}:111122223333:group/my-block # CHANGE: your resource group",
    "  starts_at: 2030-01-01T11:30Z # CHANGE",
    "  ends_at: 2030-01-15T11:30Z # CHANGE",
)


def _server(starter: Starter) -> Iterator[str]:
    if starter.devices_per_server > 1:
        yield f"devices_per_server: {starter.devices_per_server} # GPUs that share one model"
    yield "server:"
    yield "  image: vllm/vllm-openai:v0.11.0 # CHANGE: your server, with its model or `weights` from S3"
    parallel = f", --tensor-parallel-size, '{starter.devices_per_server}'" if starter.devices_per_server > 1 else ""
    yield f"  command: [--model, your-organisation/your-model{parallel}] # CHANGE"
    yield "load_balancer: { plain_http: true, clients: [10.0.0.0/16] } # inside the network; TLS: certificate_arn"
