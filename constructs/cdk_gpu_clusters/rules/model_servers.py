"""How many model servers a node runs, and which devices and which port each gets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from cdk_gpu_clusters.catalogue import AcceleratorKind, InstanceType
from cdk_gpu_clusters.catalogue import instance_type as look_up
from cdk_gpu_clusters.errors import Finding, Severity, define_rule, raise_for
from cdk_gpu_clusters.rules.server_ports import check_ports

#: Instances that one GPU can be cut into at most (NVIDIA Multi-Instance GPU user guide, "Concepts").
MAX_MIG_SLICES_PER_GPU = 7

GROUP_DIVIDES = define_rule(
    "GPU-INF-001",
    "a tensor-parallel group divides the accelerators of the node",
    source="one server per group of equal size, no accelerator shared or idle",
)
SLOTS_FIT = define_rule(
    "GPU-INF-002",
    "model servers run on accelerators, and on MIG slices only where the GPU has MIG",
    source="EC2 DescribeInstanceTypes; NVIDIA Multi-Instance GPU user guide, supported GPUs",
)
SLICE_COUNT = define_rule(
    "GPU-INF-003",
    "a node has at least one MIG slice, and at most 7 per GPU",
    source='NVIDIA Multi-Instance GPU user guide, "Concepts"',
)
NO_NVLINK = define_rule(
    "GPU-INF-010",
    "GPUs of a tensor-parallel group exchange data at every layer: NVLink is faster than PCIe",
    source="NVIDIA data sheets of the GPUs (catalogue, nvlink_gbytes_per_s_per_gpu)",
)

SLICES_MATCH = define_rule(
    "GPU-INF-022",
    "every slice of the fleet's MIG layout has a server, and no GPU stays idle",
    source="a GPU that is split takes no whole-GPU server, and the servers of a node get one kind of device",
)


class DeviceKind(str, Enum):
    """What a model server is given."""

    GPU = "gpu"
    MIG_SLICE = "mig"
    NEURON = "neuron"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSlots:
    """How the accelerators of a node are shared out; make one with a class method.

    Attributes:
        devices_per_server: Whole GPUs or Neuron devices of each server.
        mig_slices_per_node: MIG slices of a node, each with a server of its own; None without MIG.

    Example:
        >>> ServerSlots.tensor_parallel(4).devices_per_server
        4
    """

    devices_per_server: int = 1
    mig_slices_per_node: int | None = None

    @classmethod
    def per_accelerator(cls) -> ServerSlots:
        """One server on each GPU or Neuron device."""
        return cls()

    @classmethod
    def tensor_parallel(cls, size: int) -> ServerSlots:
        """One server on each group of GPUs or Neuron devices.

        Args:
            size: Accelerators of a group; it divides the accelerators of the node.
        """
        return cls(devices_per_server=size)

    @classmethod
    def per_mig_slice(cls, slices_per_node: int) -> ServerSlots:
        """One server on each MIG slice.

        Args:
            slices_per_node: Slices of all GPUs of a node, as the fleet's MIG layout makes them.
        """
        return cls(mig_slices_per_node=slices_per_node)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlan:
    """The model servers of one node.

    Attributes:
        kind: What each server is given.
        devices: Per server the indices of its devices: of GPUs, of Neuron devices, or of one MIG slice in the order
            in which `nvidia-smi -L` lists them.
        port: Where the node's balancer listens.
        stats_port: Where the balancer shows its state, on loopback.
        first_server_port: Port of the first server on loopback; the others follow.
        findings: What is worth knowing and stops nothing.
    """

    kind: DeviceKind
    devices: tuple[tuple[int, ...], ...]
    port: int
    stats_port: int
    first_server_port: int
    findings: tuple[Finding, ...] = ()

    @property
    def server_count(self) -> int:
        """Servers of the node."""
        return len(self.devices)

    @property
    def server_ports(self) -> tuple[int, ...]:
        """Port of each server on loopback."""
        return tuple(self.first_server_port + index for index in range(self.server_count))


def plan_servers(
    instance_type: InstanceType | str,
    slots: ServerSlots | None = None,
    *,
    port: int = 8080,
    stats_port: int = 8404,
    first_server_port: int = 9000,
) -> ServerPlan:
    """Share the accelerators of a node out among model servers.

    Args:
        instance_type: The type, or its name.
        slots: How to share; one server per accelerator if left out.
        port: Where the node's balancer listens.
        stats_port: Where the balancer shows its state, on loopback.
        first_server_port: Port of the first server on loopback.

    Raises:
        ConfigError: GPU-INF-001 to -004, all at once.

    Example:
        >>> plan_servers("p4d.24xlarge", ServerSlots.per_mig_slice(56)).server_ports[-1]
        9055
        >>> plan_servers("g6e.48xlarge", ServerSlots.tensor_parallel(4)).devices
        ((0, 1, 2, 3), (4, 5, 6, 7))
    """
    record = look_up(instance_type) if isinstance(instance_type, str) else instance_type
    slots = slots or ServerSlots()
    findings = check_slots(record, slots)
    devices = () if any(found.severity is Severity.ERROR for found in findings) else _devices(record, slots)
    plan = ServerPlan(
        kind=_kind(record, slots),
        devices=devices,
        port=port,
        stats_port=stats_port,
        first_server_port=first_server_port,
        findings=tuple(findings),
    )
    raise_for(
        [
            *findings,
            *check_ports(
                port=[port],
                stats_port=[stats_port],
                first_server_port=list(plan.server_ports) or [first_server_port],
            ),
        ]
    )
    return plan


def check_slots(instance_type: InstanceType, slots: ServerSlots) -> list[Finding]:
    """Find what is wrong with sharing out the accelerators of a type.

    Args:
        instance_type: Type of the nodes.
        slots: How to share.
    """
    if instance_type.accelerator is None:
        return [
            SLOTS_FIT.finding(
                cause="the type has no accelerator to run a model server on",
                got=instance_type.name,
                allowed="a type with GPUs or Neuron devices",
                fix="choose another instance type",
            )
        ]
    if slots.mig_slices_per_node is None:
        return _check_groups(instance_type, slots.devices_per_server)
    return _check_slices(instance_type, slots.mig_slices_per_node)


def check_mig_slots(slots: ServerSlots | None, slices_per_node: int, *, whole_gpus: int) -> list[Finding]:
    """Find slots that do not go with the fleet's MIG layout.

    Args:
        slots: How the accelerators are shared out, None for one server per slice.
        slices_per_node: Slices that the layout makes on a node.
        whole_gpus: GPUs that it leaves whole.
    """
    findings = []
    if slots is not None and slots.mig_slices_per_node != slices_per_node:
        findings.append(
            SLICES_MATCH.finding(
                cause="the slots are not those of the fleet's MIG layout",
                got="whole GPUs" if slots.mig_slices_per_node is None else str(slots.mig_slices_per_node),
                allowed=f"per_mig_slice({slices_per_node})",
                fix="leave slots out: mig says it all",
            )
        )
    if whole_gpus:
        findings.append(
            SLICES_MATCH.finding(
                cause="GPUs that are not split run no server beside those that are",
                got=f"{whole_gpus} whole GPUs",
                allowed="a layout for every GPU",
                fix="split them too, if only into one slice, such as 7g.40gb",
            )
        )
    return findings


def _check_groups(instance_type: InstanceType, size: int) -> list[Finding]:
    count = _accelerators(instance_type)
    if size < 1 or count % size:
        sizes = ", ".join(str(n) for n in range(1, count + 1) if count % n == 0)
        return [
            GROUP_DIVIDES.finding(
                cause=f"groups of that size do not share out the {count} accelerators of {instance_type.name}",
                got=str(size),
                allowed=sizes,
                fix="choose a size that divides the number of accelerators, or another type",
            )
        ]
    accelerator = instance_type.accelerator
    if size > 1 and accelerator is not None and accelerator.nvlink_gbytes_per_s_per_gpu == 0:
        return [
            NO_NVLINK.finding(
                cause=f"the GPUs of {instance_type.name} have no NVLink: a group of {size} talks over PCIe",
                got=f"tensor_parallel({size})",
                fix="keep groups as small as the model allows, or choose a P type",
                severity=Severity.INFO,
            )
        ]
    return []


def _check_slices(instance_type: InstanceType, slices: int) -> list[Finding]:
    accelerator = instance_type.accelerator
    if accelerator is None or not accelerator.mig_capable:
        return [
            SLOTS_FIT.finding(
                cause=f"the accelerators of {instance_type.name} cannot be cut into MIG slices",
                got=f"per_mig_slice({slices})",
                allowed="a type with A100, H100, H200, B200 or other MIG-capable GPUs",
                fix="use one server per accelerator, or a P type",
            )
        ]
    most = MAX_MIG_SLICES_PER_GPU * _accelerators(instance_type)
    if 1 <= slices <= most:
        return []
    return [
        SLICE_COUNT.finding(
            cause=f"{instance_type.name} cannot have that many MIG slices",
            got=str(slices),
            allowed=f"1 to {most}",
            fix="give the number of slices that the fleet's MIG layout makes on one node",
        )
    ]


def _accelerators(instance_type: InstanceType) -> int:
    accelerator = instance_type.accelerator
    # A fraction of a GPU counts 0 whole ones, and is one device on the node.
    return 0 if accelerator is None else accelerator.count or accelerator.logical_count


def _kind(instance_type: InstanceType, slots: ServerSlots) -> DeviceKind:
    accelerator = instance_type.accelerator
    if accelerator is not None and accelerator.kind is AcceleratorKind.NEURON:
        return DeviceKind.NEURON
    return DeviceKind.GPU if slots.mig_slices_per_node is None else DeviceKind.MIG_SLICE


def _devices(instance_type: InstanceType, slots: ServerSlots) -> tuple[tuple[int, ...], ...]:
    if slots.mig_slices_per_node is not None:
        return tuple((index,) for index in range(slots.mig_slices_per_node))
    size = slots.devices_per_server
    return tuple(tuple(range(first, first + size)) for first in range(0, _accelerators(instance_type), size))
