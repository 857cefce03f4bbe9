"""One node of a fleet: accelerators with their MIG slices, what joins them, and the network cards."""

from __future__ import annotations

from collections.abc import Sequence

from cdk_gpu_clusters_stacks.counting import count
from cdk_gpu_clusters_stacks.plan.model import AcceleratorPlan, CardPlan, FleetReport, MigGpuSlices, NodeReport

from .boxes import Box, Direction, Text, filled_up, gbps, group, number
from .marks import server_groups

_GPU_WIDTH = 96
_CARD_WIDTH = 30
#: A drawing keeps so many places in a row, so that few things are not drawn wide.
_LEAST_GPU_PLACES, _LEAST_CARD_PLACES = 4, 16


def anatomy(fleet: FleetReport) -> Box:
    """One node of a fleet."""
    node = fleet.node
    parts: list[Box] = []
    if node.accelerator:
        parts += [_accelerators(fleet, node.accelerator), _link(node, node.accelerator)]
    parts.append(_cards(node))
    parts.append(_disks(node))
    return Box(style="machine", children=parts, padding=12, gap=10)


def _accelerators(fleet: FleetReport, accelerator: AcceleratorPlan) -> Box:
    """The accelerators; those of a model server that takes several are in one box."""
    boxes = [_accelerator(fleet, accelerator, index) for index in range(accelerator.count)]
    groups = server_groups(fleet)
    if not groups:
        return group(*filled_up(boxes, _LEAST_GPU_PLACES), direction=Direction.ROW, minimum_child_width=_GPU_WIDTH)
    servers = [_server(place, [boxes[index] for index in one]) for place, one in enumerate(groups)]
    grouped = {index for one in groups for index in one}
    rest = [box for index, box in enumerate(boxes) if index not in grouped]
    return group(*servers, *rest, direction=Direction.ROW, minimum_child_width=300)


def _server(place: int, boxes: Sequence[Box]) -> Box:
    words = Text(text=f"model server {place}: tensor-parallel group of {len(boxes)}", bold=True, size=11, wraps=True)
    return Box(
        style="group",
        texts=[words],
        children=[group(*boxes, direction=Direction.ROW, minimum_child_width=_GPU_WIDTH)],
        padding=8,
    )


def _accelerator(fleet: FleetReport, accelerator: AcceleratorPlan, index: int) -> Box:
    mig = fleet.node.mig
    split = next((gpu for gpu in mig.gpus if gpu.index == index and gpu.slices), None) if mig else None
    kind = "GPU" if accelerator.kind == "gpu" else "Neuron"
    inside = _slices(split, mig.memory_slices) if mig and split else _whole(fleet, accelerator)
    return Box(
        style="train" if fleet.purpose == "training" else "infer",
        texts=[
            Text(text=f"{kind} {index}", bold=True),
            Text(text=f"{accelerator.name}, {number(accelerator.memory_gib_each)} GiB", style="note", size=11),
        ],
        children=[inside],
        padding=8,
        title=f"{kind} {index}: {accelerator.name}" + (f", {split.partition}" if split else ""),
    )


def _whole(fleet: FleetReport, accelerator: AcceleratorPlan) -> Box:
    words = fleet.purpose if accelerator.share_of_gpu == 1 else f"{accelerator.share_of_gpu:.3g} of a GPU"
    return Box(
        style="train-mark" if fleet.purpose == "training" else "infer-mark",
        texts=[Text(text=words, style="on", size=11, centred=True)],
        height=44,
        padding=4,
        middle=True,
    )


def _slices(split: MigGpuSlices, memory_slices: int) -> Box:
    """The slices at their places; what is left between them stays free."""
    boxes = [
        Box(
            style="slice" if number_ % 2 == 0 else "slice-2",
            texts=[Text(text=one.profile.partition(".")[0], style="on", size=8, centred=True)],
            start=one.start,
            span=one.size,
            padding=0.5,
            height=44,
            middle=True,
            title=f"{one.profile} at memory slice {one.start}, {one.resource_name}",
        )
        for number_, one in enumerate(split.slices)
    ]
    return Box(
        style="free",
        padding=0,
        children=boxes,
        direction=Direction.BAR,
        units=memory_slices,
        height=44,
    )


def _link(node: NodeReport, accelerator: AcceleratorPlan) -> Box:
    if node.mig:
        words = "no NVLink between MIG slices"
    elif accelerator.kind != "gpu":
        words = "NeuronLink: not in the catalogue"
    elif accelerator.nvlink_gbytes_per_s is None:
        words = "NVLink: unknown"
    elif not accelerator.nvlink_gbytes_per_s:
        words = "no NVLink: the GPUs talk over PCIe" if accelerator.count > 1 else "no NVLink"
    else:
        switch = "NVSwitch, every GPU to every GPU" if accelerator.nvswitch else "NVLink"
        words = f"{switch}: {number(accelerator.nvlink_gbytes_per_s)} GB/s per GPU"
    return Box(style="link", texts=[Text(text=words, centred=True, wraps=True)], padding=6)


def _cards(node: NodeReport) -> Box:
    network = node.network
    cards = group(
        *filled_up([_card(one) for one in network.cards], _LEAST_CARD_PLACES),
        gap=4,
        direction=Direction.ROW,
        minimum_child_width=_CARD_WIDTH,
    )
    efa = (
        f"EFA {gbps(network.efa_gbps)} of {gbps(network.hardware_efa_gbps)}"
        if network.efa_interface_count
        else "no EFA"
    )
    addresses = f"{network.ip_addresses} IP address{'' if network.ip_addresses == 1 else 'es'}"
    words = (
        f"{count(len(network.cards), 'network card')}, {count(network.interface_count, 'interface')}, {addresses}; "
        f"{efa}; IP {gbps(network.ena_gbps)}"
    )
    return group(cards, texts=[Text(text=words, style="note", size=11, wraps=True)])


def _card(card: CardPlan) -> Box:
    kinds = [one.interface_type for one in card.interfaces]
    marks: Sequence[Box] = [_mark(kind) for kind in kinds]
    return Box(
        style="card",
        texts=[Text(text=str(card.index), size=9, style="note", centred=True)],
        children=marks,
        padding=3,
        gap=2,
        height=44,
        title=f"network card {card.index}: {', '.join(kinds) or 'left alone'}",
    )


def _mark(kind: str) -> Box:
    style, short = ("ena", "IP") if kind == "interface" else ("efa", "EFA" if kind == "efa-only" else "E+IP")
    return Box(style=style, texts=[Text(text=short, style="on", size=7, centred=True)], padding=1.5, height=12)


def _disks(node: NodeReport) -> Box:
    disks = node.local_disks
    root = (
        "root volume of SageMaker" if node.root_volume is None else f"root gp3 {number(node.root_volume.size_gib)} GiB"
    )
    local = "no local disks"
    if disks:
        at = f"at {disks.mount_point}" if disks.mount_point else "left alone"
        local = f"{disks.count} x {number(disks.size_gb_each)} GB local disks, {at}"
    words = f"{number(node.vcpus)} vCPUs, {number(node.memory_gib)} GiB of memory, {node.architecture}; {root}; {local}"
    return group(texts=[Text(text=words, style="note", size=11, wraps=True)])
