"""What a plan says about one node: accelerators, MIG slices, network cards, disks, and how it boots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class InterfacePlanned:
    """One network interface.

    Attributes:
        interface_type: `interface` (ENA), `efa` (ENA and EFA) or `efa-only` (EFA, no IP address).
        device_index: Device on its card, from 0.
        has_ip: Whether it takes an IPv4 address.
        is_efa: Whether it carries EFA traffic.
    """

    interface_type: str
    device_index: int
    has_ip: bool
    is_efa: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CardPlan:
    """One network card of the hardware.

    Attributes:
        index: Network card index, from 0.
        interfaces: Interfaces on it, in order of device; empty for a card that is left alone.
        interface_types: Kinds that the card takes.
        max_interfaces: Interfaces that it takes.
        efa_gbps, ena_gbps: Bandwidth of the card; None where no source gives it, or it has no such side.
    """

    index: int
    interfaces: tuple[InterfacePlanned, ...]
    interface_types: tuple[str, ...]
    max_interfaces: int
    efa_gbps: float | None
    ena_gbps: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNetwork:
    """The network side of a node.

    Attributes:
        policy: How the interfaces are laid out: `minimum-ip`, `maximum-ena-bandwidth` or `efa-per-card`.
        basis: Where the layout comes from.
        cards: Every card of the hardware, also those without an interface.
        interface_count: Interfaces of the node.
        ip_addresses: IPv4 addresses that the node takes from its subnet.
        efa_interface_count: EFA interfaces.
        hardware_efa_interfaces: EFA interfaces that the type takes; 0 without EFA.
        efa_gbps: EFA bandwidth of the plan; 0 without EFA.
        hardware_efa_gbps: EFA bandwidth of the type; 0 where it has none.
        ena_gbps: IP bandwidth of the plan. EFA and IP traffic share the cards.
        hardware_ena_gbps: IP bandwidth of the type with all interfaces documented for it.
        unknown: Fields above that are None -> why.
    """

    policy: str
    basis: str
    cards: tuple[CardPlan, ...]
    interface_count: int
    ip_addresses: int
    efa_interface_count: int
    hardware_efa_interfaces: int
    efa_gbps: float | None
    hardware_efa_gbps: float | None
    ena_gbps: float | None
    hardware_ena_gbps: float | None
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceleratorPlan:
    """The accelerators of a node, all of one model.

    Attributes:
        kind: `gpu` (NVIDIA) or `neuron` (Trainium, Inferentia).
        name: Model, such as `H100`.
        count: Devices that the operating system sees.
        share_of_gpu: Share of one GPU per device; 1.0 is a whole one.
        memory_gib_each: Memory of each in GiB.
        neuron_cores_each: NeuronCores of each; None for GPUs.
        nvlink_gbytes_per_s: NVLink of each GPU in GB/s, both directions summed; 0 without; None for Neuron.
        nvswitch: Whether NVSwitches join all GPUs of the node.
        ultraserver: UltraServer that the nodes of the fleet make up, such as `u-p6e-gb200x36`; None for others.
        unknown: Fields above that are None -> why.
    """

    kind: str
    name: str
    count: int
    share_of_gpu: float
    memory_gib_each: float
    neuron_cores_each: int | None
    nvlink_gbytes_per_s: float | None
    nvswitch: bool | None
    ultraserver: str | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MigSlice:
    """One MIG instance at a place that it can have; the driver may choose another one.

    Attributes:
        profile: Name, such as `3g.40gb`.
        profile_id: GPU instance profile id.
        start, size: First memory slice, and how many.
        compute_slices: Compute slices that it takes.
        memory_gb: Nominal memory in GB, as in the name.
        resource_name: What NVIDIA's Kubernetes device plugin calls it with the strategy "mixed".
    """

    profile: str
    profile_id: int
    start: int
    size: int
    compute_slices: int
    memory_gb: int
    resource_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MigGpuSlices:
    """One GPU: its index in `nvidia-smi -L`, its part of `MIG_PARTITION`, and its slices; none for a whole GPU."""

    index: int
    partition: str
    slices: tuple[MigSlice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMig:
    """How the GPUs of a node are split.

    Attributes:
        gpu: Key of the GPU model, such as `A100-40GB`.
        memory_slices: Length of the placement axis of each GPU.
        gpus: Each GPU in index order.
        partition: `MIG_PARTITION` of the node.
        slices: MIG instances of the node.
        resources: What Kubernetes sees on a node: resource name -> number.
        minimum_driver: First driver release that makes this layout.
        placements_verified: Whether a listing of its placements was found; else those of its relatives are taken.
    """

    gpu: str
    memory_slices: int
    gpus: tuple[MigGpuSlices, ...]
    partition: str
    slices: int
    resources: Mapping[str, int]
    minimum_driver: str
    placements_verified: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalDisks:
    """Local disks: how many, GB (decimal) each, and where they are mounted as one file system; None if they are not."""

    count: int
    size_gb_each: int
    mount_point: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RootVolumePlan:
    """The encrypted gp3 root volume."""

    size_gib: int
    iops: int
    throughput_mib_per_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """One node of a fleet.

    Attributes:
        instance_type: Its type.
        architecture: `x86_64` or `arm64`.
        vcpus: Virtual processors.
        memory_gib: Main memory in GiB.
        accelerator: Its accelerators, None without.
        mig: How its GPUs are split, None if they stay whole.
        network: Cards, interfaces and bandwidth.
        local_disks: Its local disks, None without.
        root_volume: Its root volume.
        boot_stages: What must hold before it takes work, in this order.
        boot_checks: What the stage `verification` asks of the hardware.
        sources: Where the record of the type comes from.
    """

    instance_type: str
    architecture: str
    vcpus: int
    memory_gib: float
    accelerator: AcceleratorPlan | None
    mig: NodeMig | None
    network: NodeNetwork
    local_disks: LocalDisks | None
    root_volume: RootVolumePlan
    boot_stages: tuple[str, ...]
    boot_checks: tuple[str, ...]
    sources: tuple[str, ...]
