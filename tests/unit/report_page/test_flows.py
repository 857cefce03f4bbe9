"""Arrows of the topology: each flow of the plan has one, and none crosses a text or a node."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.plan import ClusterPlan, plan_cluster
from cdk_gpu_clusters_stacks.report_page.boxes import PlacedBox, PlacedText, place, text_width
from cdk_gpu_clusters_stacks.report_page.drawing import NARROW, WIDE
from cdk_gpu_clusters_stacks.report_page.flows import Flow, Line, lines
from cdk_gpu_clusters_stacks.report_page.topology import topology
from cdk_gpu_clusters_stacks.spec import load_cluster

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
#: Two fleets of each kind, six stores, and shares of everything.
MANY_FLOWS = Path(__file__).parents[2] / "fixtures" / "report" / "many-flows.yaml"
#: Boxes that lines may run through: they only hold others.
_FRAMES = {"none", "vpc", "zone", "subnet"}


def example(name: str) -> ClusterPlan:
    return plan_cluster(load_cluster(EXAMPLES[0].parent / f"{name}.yaml"))


def drawn(plan: ClusterPlan, width: float) -> tuple[PlacedBox, list[Line]]:
    made = topology(plan)
    placed = place(made.box, width)
    return placed, lines(placed, made.flows)


def crossed(placed: PlacedBox, found: list[Line]) -> list[str]:
    """Texts and nodes that a line runs over."""
    areas = [
        (box.box.style, box.x, box.y, box.x + box.width, box.y + box.height)
        for box in placed.walk()
        if box.box.style not in _FRAMES
    ]
    areas += [_area(text) for box in placed.walk() for text in box.texts]
    faults = []
    for line in found:
        for (x0, y0), (x1, y1) in pairwise(line.points):
            for name, left, top, right, bottom in areas:
                beside = max(x0, x1) <= left + 0.01 or min(x0, x1) >= right - 0.01
                above = max(y0, y1) <= top + 0.01 or min(y0, y1) >= bottom - 0.01
                if not (beside or above):
                    faults.append(f"{line.kind} over {name}")
    return faults


def _area(line: PlacedText) -> tuple[str, float, float, float, float]:
    given = line.given
    width = text_width(line.text, given.size, bold=given.bold)
    left = line.x - width / 2 if given.centred else line.x
    return line.text, left, line.y - given.size * 0.7, left + width, line.y


@pytest.mark.parametrize("width", [NARROW, 700, WIDE])
@pytest.mark.parametrize("file", [*EXAMPLES, MANY_FLOWS], ids=lambda file: file.stem)
def test_no_line_crosses_a_text_or_a_node(file: Path, width: int) -> None:
    placed, found = drawn(plan_cluster(load_cluster(file)), width)
    assert crossed(placed, found) == []
    for line in found:
        for before, after in pairwise(line.points):
            assert before[0] == after[0] or before[1] == after[1]
            assert 0 <= after[0] <= placed.width
            assert 0 <= after[1] <= placed.height


def test_the_check_above_sees_a_crossing() -> None:
    placed, _ = drawn(example("p5-lustre"), WIDE)
    line = Line(kind="tcp", points=((0, placed.height / 3), (placed.width, placed.height / 3)), heads="to")
    assert crossed(placed, [line])


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_mount_bucket_and_balancer_has_its_arrow(file: Path) -> None:
    plan = plan_cluster(load_cluster(file))
    flows = topology(plan).flows
    for fleet in plan.fleets:
        parts = {f"fleet/{fleet.name}/{subnet}" for subnet in fleet.subnets}
        for mount in fleet.mounts:
            kind = "efa" if mount.over_efa else "tcp"
            assert {one.source for one in flows if (one.kind, one.target) == (kind, f"store/{mount.store}")} >= parts
        if fleet.checkpoints:
            assert {one.source for one in flows if one.target == f"store/{fleet.checkpoints}"} >= parts
        if fleet.load_balancer:
            assert {one.target for one in flows if one.source == f"balancer/{fleet.name}"} == parts


def test_arrows_lead_where_the_data_go() -> None:
    heads = {one.target: one.heads for one in topology(example("p5-lustre")).flows}
    assert heads["s3://my-corpus/tokens/"] == "from"  # imported
    assert heads["s3://my-results"] == "to"  # exported
    assert heads["store/checkpoints"] == "both"
    assert Flow(kind="s3", source="store/corpus", target="s3://my-results") in topology(example("p5-lustre")).flows


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_nothing_is_drawn_twice(file: Path) -> None:
    plan = plan_cluster(load_cluster(file))
    boxes = [one.box for one in place(topology(plan).box, WIDE).walk()]
    keys = Counter(one.key for one in boxes if one.key)
    assert [key for key, times in keys.items() if times > 1] == []
    zones = [one.texts[0].text for one in boxes if one.style == "zone"]
    assert len(zones) == len(set(zones))
    nodes = [one.title for one in boxes if one.style in ("node", "spare") and one.title]
    assert len(nodes) == len(set(nodes))
    # All nodes of the plan, each in one subnet.
    assert len(nodes) == plan.totals.maximum_nodes


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_subnets_hold_their_nodes_and_file_systems(width: int) -> None:
    placed, _ = drawn(example("train-and-serve"), width)
    held = {}
    for box in placed.walk():
        if box.box.style == "subnet":
            inside = [one.box.key for one in box.walk() if one.box.key]
            held[" ".join(line.text for line in box.texts)] = inside
    assert held == {
        "subnet fleet, 10.0.0.0/18": ["fleet/trainers/fleet", "store/models"],
        "subnet load-balancer use1-az4, 10.0.220.0/22": ["fleet/servers/load-balancer use1-az4"],
        "subnet load-balancer use1-az6, 10.0.236.0/22": ["fleet/servers/load-balancer use1-az6"],
        "subnet nat-gateway, 10.0.248.0/22": ["nat-gateway"],
    }
