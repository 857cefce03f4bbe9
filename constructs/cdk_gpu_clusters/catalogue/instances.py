"""What is known of one EC2 instance type.

Numbers come from recorded DescribeInstanceTypes output, or from AWS pages where a type is absent there
(`InstanceType.record_status`). What has no source is None, or is named in `InstanceType.unverified_fields`.

Units: memory in MiB, network in Gbps (decimal), EBS in Mbps, disks in GB (decimal), NVLink in GB/s per GPU
with both directions summed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from cdk_gpu_clusters.catalogue._files import read_json


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
