"""What is known of one EC2 instance type.

Numbers come from recorded DescribeInstanceTypes output, or from AWS pages where a type is absent there
(`InstanceType.record_status`). What has no source is None, or is named in `InstanceType.unverified_fields`.

Units: memory in MiB, network in Gbps (decimal), EBS in Mbps, disks in GB (decimal), NVLink in GB/s per GPU
with both directions summed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any

from cdk_gpu_clusters.catalogue._files import read_json, record
from cdk_gpu_clusters.errors import ConfigError, Finding, define_rule


class Architecture(StrEnum):
    """Processor architecture, in EC2's own words."""

    X86_64 = "x86_64"
    ARM64 = "arm64"


class AcceleratorKind(StrEnum):
    """Which driver stack an accelerator needs."""

    GPU = "gpu"
    NEURON = "neuron"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkCard:
    """One network card of an instance type.

    Attributes:
        index: Network card index, from 0.
        max_interfaces: Interfaces that the card takes, of every kind. On a type that is known from
            documentation only, what the documented layouts use (see `InstanceType.unverified_fields`).
        interface_types: Which of `interface`, `efa` and `efa-only` the card accepts.
        baseline_gbps: Sustained bandwidth as the API states it; some types repeat the instance's on each.
        peak_gbps: Burst bandwidth as the API states it.
        efa_gbps: EFA bandwidth of the card, or None where no source gives one.
        ena_gbps: ENA (IP) bandwidth of the card, or None where no source gives one.
    """

    index: int
    max_interfaces: int
    interface_types: frozenset[str]
    baseline_gbps: float | None
    peak_gbps: float | None
    efa_gbps: float | None
    ena_gbps: float | None = None

    @property
    def supports_efa(self) -> bool:
        """Whether the card takes an EFA, with or without an IP address."""
        return not self.interface_types.isdisjoint(("efa", "efa-only"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Efa:
    """The Elastic Fabric Adapter side of a type.

    Attributes:
        max_interfaces: EFA interfaces per instance.
        ceiling_gbps: EFA bandwidth of the instance, or None where sources are missing or disagree.
        rdma_read: Whether RDMA read works; None is unknown.
        rdma_write: Whether RDMA write works; None is unknown.
        gpudirect_rdma: Whether the aws-ofi-nccl plugin requires GPUDirect RDMA; False is "do not rely on it".
        generation: Such as `EFAv3`, from slides and announcements; never decide on it.
        recommended_cards: Cards that carry one `efa-only` each in the minimum-IP layout.
        recommended_layout_basis: Where that layout comes from.
    """

    max_interfaces: int
    ceiling_gbps: float | None
    rdma_read: bool | None
    rdma_write: bool | None
    gpudirect_rdma: bool | None
    generation: str | None
    recommended_cards: tuple[int, ...]
    recommended_layout_basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Network cards and limits of a type.

    Attributes:
        cards: Every card, in index order.
        max_interfaces: Interfaces per instance, over all cards.
        ipv4_per_interface: Private IPv4 addresses per interface.
        ipv6_per_interface: IPv6 addresses per interface.
        efa: EFA limits, or None where the type has no EFA.
        ena_express: Whether ENA Express works; None is unknown.
        extra_ena_cards: Cards with an `interface` at device 1 for the most ENA bandwidth; None is unknown.
        maximum_ena_gbps: ENA bandwidth with those interfaces, or None.
        primary_ena_gbps: ENA bandwidth of the primary interface alone, or None.
        performance: The API's own words, such as `3200 Gigabit`.
    """

    cards: tuple[NetworkCard, ...]
    max_interfaces: int
    ipv4_per_interface: int
    ipv6_per_interface: int
    efa: Efa | None
    ena_express: bool | None
    extra_ena_cards: tuple[int, ...] | None
    maximum_ena_gbps: float | None
    primary_ena_gbps: float | None
    performance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """The accelerators of a type, all of one model.

    Attributes:
        kind: GPU (NVIDIA) or Neuron (Trainium, Inferentia).
        manufacturer: `NVIDIA` or `AWS`.
        name: The model in the API's words, such as `H100`.
        marketing_name: Another name in use, such as `GB200`, or None.
        count: Complete accelerators; 0 on types that hold a share of one GPU.
        logical_count: Devices that the operating system sees.
        partition_fraction: Share of one GPU per device; 1.0 is a complete GPU.
        memory_mib_each: Memory per device, in MiB, as the API states it.
        memory_mib_for_sizing: Memory per device to size models with; differs where the API is disputed.
        nvidia_architecture: Such as `Hopper`; None for Neuron.
        cuda_compute_capability: Such as `9.0`; general knowledge, unverified; None for Neuron.
        mig_capable: Whether the GPU can be split with MIG on this type.
        mig_profile_key: Key of its MIG profile table, or None.
        nvlink_gbytes_per_s_per_gpu: GB/s, both directions summed; 0 without NVLink; None for Neuron.
        nvswitch: Whether NVSwitches join the GPUs of a node; False without NVLink; None if unknown.
        neuron_cores_each: NeuronCores per device, or None for GPUs.
    """

    kind: AcceleratorKind
    manufacturer: str
    name: str
    marketing_name: str | None
    count: int
    logical_count: int
    partition_fraction: float
    memory_mib_each: int
    memory_mib_for_sizing: int
    nvidia_architecture: str | None
    cuda_compute_capability: str | None
    mig_capable: bool
    mig_profile_key: str | None
    nvlink_gbytes_per_s_per_gpu: float | None
    nvswitch: bool | None
    neuron_cores_each: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDisk:
    """Local (instance store) disks of one size: how many, GB (decimal) each, and their kind (`ssd`)."""

    count: int
    size_gb: int
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UltraServer:
    """An UltraServer that the type is sold in: its name, instances and accelerators in it."""

    name: str
    instance_count: int
    accelerator_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One EC2 instance type.

    Attributes:
        name: Such as `p5.48xlarge`.
        family: Such as `p5`.
        size: Such as `48xlarge`.
        architecture: Processor architecture.
        vcpus: Virtual processors at the default threads per core.
        cores: Physical cores at the default.
        threads_per_core: Threads per core at the default.
        memory_mib: Main memory in MiB.
        bare_metal: Whether it is a bare-metal size.
        hypervisor: Such as `nitro`; None on bare metal and some older types.
        current_generation: The API's flag. It is false for every g5 size: never filter on it.
        cpu_manufacturer: Such as `Intel`.
        cpu_model: Such as `AMD EPYC 7R13`, or None.
        accelerator: Its accelerators, or None for a plain CPU type.
        local_disks: Local disks, or empty.
        network: Cards, interfaces, EFA.
        ebs_baseline_mbps: Sustained EBS bandwidth in Mbps; None is unknown.
        ebs_maximum_mbps: Burst EBS bandwidth in Mbps; None is unknown.
        ebs_maximum_iops: Burst EBS operations per second; None is unknown.
        ebs_max_attachments: EBS volumes that can be attached; None is unknown.
        usage_classes: Of `on-demand`, `spot`, `capacity-block`.
        placement_strategies: Of `cluster`, `partition`, `spread`; None is unknown.
        boot_modes: Of `legacy-bios`, `uefi`; None is unknown.
        dedicated_hosts: Whether Dedicated Hosts exist for it.
        ultraservers: UltraServers it is part of, or empty.
        ultraserver_only: Whether it is sold in UltraServers alone.
        regions: Regions that offer it, as one recorded account saw them.
        availability_zone_ids: Zone ids that offer it, by Region, as one recorded account saw them.
        capacity_block_regions: Regions with Capacity Blocks for it, from AWS documentation.
        capacity_block_local_zones: Local Zones with Capacity Blocks for it, from AWS documentation.
        record_status: `api` (recorded API output) or `documentation` (AWS pages only).
        unverified_fields: Paths of fields without a source that was read, or not yet seen on hardware.
        disagreements: Where sources differ, and what this record follows.
        sources: Where the record comes from, with date.
    """

    name: str
    family: str
    size: str
    architecture: Architecture
    vcpus: int
    cores: int
    threads_per_core: int
    memory_mib: int
    bare_metal: bool
    hypervisor: str | None
    current_generation: bool | None
    cpu_manufacturer: str
    cpu_model: str | None
    accelerator: Accelerator | None
    local_disks: tuple[LocalDisk, ...]
    network: Network
    ebs_baseline_mbps: int | None
    ebs_maximum_mbps: int | None
    ebs_maximum_iops: int | None
    ebs_max_attachments: int | None
    usage_classes: frozenset[str]
    placement_strategies: frozenset[str] | None
    boot_modes: frozenset[str] | None
    dedicated_hosts: bool
    ultraservers: tuple[UltraServer, ...]
    ultraserver_only: bool
    regions: tuple[str, ...]
    availability_zone_ids: Mapping[str, tuple[str, ...]]
    capacity_block_regions: tuple[str, ...]
    capacity_block_local_zones: tuple[str, ...]
    record_status: str
    unverified_fields: tuple[str, ...]
    disagreements: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def supports_capacity_block(self) -> bool:
        """Whether EC2 sells Capacity Blocks for it."""
        return "capacity-block" in self.usage_classes

    @property
    def supports_efa(self) -> bool:
        """Whether any card takes an EFA."""
        return self.network.efa is not None


# Where EC2 reports the network distance between nodes, and the labels in which EKS repeats it.

_FILE = "network_topology.json"


def network_layers(instance_type: InstanceType) -> int:
    """Layers of the network above a node that EC2 names; 0 where it names none for the type.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> [network_layers(instance_type(name)) for name in ("p5.48xlarge", "p6-b200.48xlarge", "g6.48xlarge")]
        [3, 4, 0]
    """
    if instance_type.name in read_json(_FILE)["excluded_sizes"]["types"]:
        return 0
    return _layers().get(instance_type.family, 0)


def has_topology(region: str) -> bool:
    """Whether EC2 reports the network topology of nodes in a Region.

    Example:
        >>> has_topology("us-east-1"), has_topology("cn-north-1")
        (True, False)
    """
    return region in read_json(_FILE)["regions"]["codes"]


def topology_labels(instance_type: InstanceType) -> tuple[str, ...]:
    """The labels of the layers that every node of a type has on EKS, from the top layer down.

    Types whose nodes may become ready without them count as having none.

    Example:
        >>> from cdk_gpu_clusters.catalogue import instance_type
        >>> topology_labels(instance_type("p5.48xlarge"))[-1]
        'topology.k8s.aws/network-node-layer-3'
    """
    facts = read_json(_FILE)
    if instance_type.family in facts["labels_may_be_missing"]["families"]:
        return ()
    count, prefix = network_layers(instance_type), facts["label"]["prefix"]
    return tuple(f"{prefix}{layer}" for layer in range(1, count + 1))


@cache
def _layers() -> dict[str, int]:
    return {family: row["count"] for row in read_json(_FILE)["layers"] for family in row["families"]}


# Find an instance type by name: API records and hand-sourced facts joined into an `InstanceType`.

Row = Mapping[str, Any]


def build_instance_type(
    name: str, row: Row, facts: Row, tables: Row, zones: Mapping[str, tuple[str, ...]]
) -> InstanceType:
    """The record of one type.

    Args:
        name: Instance type name.
        row: Its row in an EC2 data file.
        facts: Its hand-sourced facts, the family's and its own merged.
        tables: `sources` and `layout_bases` of the facts file, and the row's `origin` and `record_status`.
        zones: Zone ids that offer it, by Region.
    """
    family, _, size = name.partition(".")
    absent = {"ultraserver_only": False, "capacity_block_regions": (), "capacity_block_local_zones": ()}
    return record(
        InstanceType,
        {
            **absent,
            "disagreements": (),
            **facts,
            **row,
            **{f"ebs_{key}": value for key, value in row["ebs"].items()},
        },
        name=name,
        family=family,
        size=size,
        accelerator=_accelerator(row.get("accelerator") or facts.get("accelerator"), facts),
        local_disks=tuple(LocalDisk(count=c, size_gb=s, kind=k) for c, s, k in row.get("disks", ())),
        network=_network(row["network"], facts, tables["layout_bases"]),
        ultraservers=tuple(
            UltraServer(name=n, instance_count=i, accelerator_count=a) for n, i, a in facts.get("ultraservers", ())
        ),
        regions=tuple(zones),
        availability_zone_ids=MappingProxyType(dict(zones)),
        record_status=tables["record_status"],
        unverified_fields=tuple(facts.get("unverified", ())),
        sources=_sources(facts, tables),
    )


def _sources(facts: Row, tables: Row) -> tuple[str, ...]:
    named = (tables["sources"][key] for key in facts.get("sources", ()))
    return (*tables["origin"], *(f"{source['title']} ({source['date']})" for source in named))


def _accelerator(row: Row | None, facts: Row) -> Accelerator | None:
    if row is None:
        return None
    absent = {
        "logical_count": row["count"],
        "partition_fraction": 1.0,
        "memory_mib_for_sizing": row["memory_mib_each"],
        "nvswitch": False if facts.get("nvlink_gbytes_per_s_per_gpu") == 0 else None,
    }
    return record(Accelerator, {**absent, **facts, **row}, mig_capable=facts.get("mig_profile_key") is not None)


def _network(row: Row, facts: Row, layout_bases: Row) -> Network:
    cards = _cards(row["cards"], facts)
    # On one card the instance and the card are the same thing, so the card's own limit is the answer.
    only_card_gbps = cards[0].peak_gbps if len(cards) == 1 else None
    extra = facts.get("extra_ena_cards", () if len(cards) == 1 else None)
    return record(
        Network,
        row,
        cards=cards,
        efa=_efa(row, cards, facts, layout_bases),
        extra_ena_cards=None if extra is None else tuple(extra),
        maximum_ena_gbps=facts.get("maximum_ena_gbps", only_card_gbps),
        primary_ena_gbps=facts.get("primary_ena_gbps", only_card_gbps),
    )


def _cards(rows: list[Row], facts: Row) -> tuple[NetworkCard, ...]:
    efa_gbps = _by_card(facts.get("card_efa_gbps", ()))
    ena_gbps = _by_card(facts.get("card_ena_gbps", ()))
    if len(rows) == 1 and rows[0]["to"] == 0:
        # The one card is the instance: its limit holds for either traffic, unless a fact says otherwise.
        peak = rows[0].get("peak_gbps")
        ena_gbps[0] = facts.get("primary_ena_gbps", peak)
        if "efa" in rows[0]["interface_types"]:
            efa_gbps[0] = facts.get("efa_gbps", peak)
    return tuple(
        record(NetworkCard, row, index=index, efa_gbps=efa_gbps.get(index), ena_gbps=ena_gbps.get(index))
        for row in rows
        for index in range(row["from"], row["to"] + 1)
    )


def _by_card(ranges: Iterable[tuple[int, int, int, float]]) -> dict[int, float | None]:
    """Expand `[from, to, step, gbps]` ranges."""
    return {card: gbps for first, last, step, gbps in ranges for card in range(first, last + 1, step)}


def _efa(row: Row, cards: tuple[NetworkCard, ...], facts: Row, layout_bases: Row) -> Efa | None:
    if not row.get("efa_interfaces"):
        return None
    capable = tuple(card.index for card in cards if card.supports_efa)
    one_card = len(cards) == 1
    layout = facts.get("layout", "single" if one_card else "generic")
    return record(
        Efa,
        facts,
        max_interfaces=row["efa_interfaces"],
        ceiling_gbps=facts.get("efa_gbps", cards[0].peak_gbps if one_card else None),
        generation=facts.get("efa_generation"),
        recommended_cards=tuple(facts.get("recommended_cards", capable)),
        recommended_layout_basis=layout_bases[layout],
    )


# One file per origin: AWS pages for types that the recording lacks, and recorded API output, which wins.
_EC2_FILES = (
    ("documented_instance_types.json", "documentation"),
    ("ec2_instance_types.json", "api"),
)

UNKNOWN_TYPE = define_rule(
    "GPU-INST-001",
    "the instance type is in the catalogue",
    source="the catalogue's data files: recorded DescribeInstanceTypes output and AWS specification pages",
)
NAME_ONLY_TYPE = define_rule(
    "GPU-INST-002",
    "the instance type has published numbers",
    source="the catalogue's list of names that AWS pages mention without specifications",
)


def instance_type(name: str) -> InstanceType:
    """The record of one instance type.

    Args:
        name: Such as `p5.48xlarge`, in EC2's own spelling.

    Raises:
        ConfigError: GPU-INST-001 if the type is unknown, with the nearest names; GPU-INST-002 if only its
            name is known, with what is missing.

    Example:
        >>> instance_type("p5.48xlarge").network.efa.max_interfaces
        32
    """
    if name in name_only_types():
        raise ConfigError([_name_only(name)])
    if name not in _rows():
        raise ConfigError([_unknown(name)])
    return _record(name)


def instance_types() -> Mapping[str, InstanceType]:
    """Every instance type of the catalogue by name, accelerated and plain, in name order."""
    return _all_records()


def instance_type_names() -> frozenset[str]:
    """The names of every instance type of the catalogue, without their records."""
    return _names()


def name_only_types() -> Mapping[str, str]:
    """Types that sources name without giving numbers, each with the reason why it cannot be used yet."""
    names: dict[str, str] = read_json("instance_facts.json")["name_only_types"]
    return MappingProxyType(names)


@cache
def _names() -> frozenset[str]:
    return frozenset(_rows())


@cache
def _all_records() -> Mapping[str, InstanceType]:
    return MappingProxyType({name: _record(name) for name in sorted(_rows())})


@cache
def _record(name: str) -> InstanceType:
    file, record_status = _rows()[name]
    ec2, facts = read_json(file), read_json("instance_facts.json")
    family = name.partition(".")[0]
    own = {**facts["families"].get(family, {}), **facts["types"].get(name, {})}
    zones = _zones(name)
    origin = [ec2["source"], *([read_json("ec2_offerings.json")["source"]] if zones else [])]
    tables = {**facts, "origin": origin, "record_status": record_status}
    return build_instance_type(name, ec2["types"][name], own, tables, zones)


@cache
def _rows() -> Mapping[str, tuple[str, str]]:
    return {name: (file, status) for file, status in _EC2_FILES for name in read_json(file)["types"]}


def _zones(name: str) -> dict[str, tuple[str, ...]]:
    """Zone ids that offer the type; the file keeps numbers only, as `"us-east-1": "1 2 6"`."""
    offerings: dict[str, Any] = read_json("ec2_offerings.json")
    prefixes = offerings["zone_id_prefixes"]
    return {
        region: tuple(f"{prefixes[region]}-az{number}" for number in numbers.split())
        for region, numbers in offerings["types"].get(name, {}).items()
    }


def _unknown(name: str) -> Finding:
    from difflib import get_close_matches  # only a wrong name pays for it

    wanted, known = name.strip().lower(), list(_rows())
    similar = get_close_matches(wanted, known, n=4)
    family = [other for other in known if other.partition(".")[0] == wanted.partition(".")[0]]
    nearest = dict.fromkeys((*similar, *family))
    return UNKNOWN_TYPE.finding(
        cause="the instance type is not in the catalogue",
        got=repr(name),
        allowed=f"nearest: {', '.join(nearest)}" if nearest else "such as g6.xlarge, p4d.24xlarge, p5.48xlarge",
        fix="correct the name; for a type newer than this release, update the library",
    )


def _name_only(name: str) -> Finding:
    return NAME_ONLY_TYPE.finding(
        cause=f"only the name of this instance type is known: {name_only_types()[name]}",
        got=repr(name),
        fix="use a type with published specifications, or update the library once AWS publishes them",
    )
