"""The accelerators of a small node: one mark each, slices as parts of a mark, tensor-parallel groups as groups."""

from __future__ import annotations

from cdk_gpu_clusters_stacks.plan.model import FleetReport, MigGpuSlices

from .boxes import Box, Direction, group

#: Heights of a mark in pixels: of a whole accelerator, and of one with slices.
_HEIGHT, _SLICED = 7, 11


def server_groups(fleet: FleetReport) -> list[tuple[int, ...]]:
    """The devices of each model server that takes several; none where each takes one or a part of one."""
    servers = fleet.servers
    if servers is None or servers.device_kind == "mig":
        return []
    return [one for one in servers.servers if len(one) > 1]


def accelerator_marks(fleet: FleetReport) -> list[Box]:
    """The marks of the accelerators of a node, in a box, or nothing for a node without."""
    accelerator = fleet.node.accelerator
    if accelerator is None:
        return []
    style = "train-mark" if fleet.purpose == "training" else "infer-mark"
    split = {gpu.index: gpu for gpu in fleet.node.mig.gpus} if fleet.node.mig else {}
    units = fleet.node.mig.memory_slices if fleet.node.mig else 1
    marks = [_mark(style, split.get(index), units) for index in range(accelerator.count)]
    groups = server_groups(fleet)
    if not groups:
        return [_row(marks, 20 if split else 3)]
    grouped = {index for one in groups for index in one}
    boxes = [
        Box(style="group", children=[_row([marks[index] for index in one])], padding=2.5, title=f"model server {place}")
        for place, one in enumerate(groups)
    ]
    rest = [mark for index, mark in enumerate(marks) if index not in grouped]
    return [group(*boxes, *rest, gap=3, direction=Direction.ROW, minimum_child_width=18)]


def _row(marks: list[Box], least: float = 3) -> Box:
    return group(*marks, gap=2, direction=Direction.ROW, minimum_child_width=least)


def _mark(style: str, split: MigGpuSlices | None, units: int) -> Box:
    if split is None or not split.slices:
        return Box(style=style, padding=0, height=_HEIGHT)
    slices = [
        Box(style="slice-mark", padding=0, height=_SLICED, start=one.start, span=one.size) for one in split.slices
    ]
    return Box(style="free-mark", padding=0, children=slices, direction=Direction.BAR, units=units, height=_SLICED)
