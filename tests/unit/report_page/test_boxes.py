"""Drawings: no boxes overlap, no child and no text leaves its box, whatever is drawn, at every width."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdk_gpu_clusters_stacks.plan import ClusterPlan, plan_cluster
from cdk_gpu_clusters_stacks.report_page.anatomy import anatomy
from cdk_gpu_clusters_stacks.report_page.boxes import (
    LINE_HEIGHT,
    Box,
    Direction,
    PlacedBox,
    Text,
    fit_text,
    place,
    text_width,
    wrap_text,
)
from cdk_gpu_clusters_stacks.report_page.drawing import NARROW, WIDE
from cdk_gpu_clusters_stacks.report_page.topology import topology
from cdk_gpu_clusters_stacks.spec import load_cluster

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))
#: Rounding of floating-point numbers, in pixels.
NEARLY = 0.01


def faults(placed: PlacedBox) -> list[str]:
    """What overlaps, or leaves its box."""
    found: list[str] = []
    for box in placed.walk():
        told = [*overlapping(box), *leaving(box), *misplaced_texts(box)]
        found += [f"{box.box.style} at {box.x:.0f},{box.y:.0f}: {one}" for one in told]
    return found


def overlapping(box: PlacedBox) -> Iterator[str]:
    for one, other in combinations(box.children, 2):
        beside = one.x + one.width <= other.x + NEARLY or other.x + other.width <= one.x + NEARLY
        above = one.y + one.height <= other.y + NEARLY or other.y + other.height <= one.y + NEARLY
        if not (beside or above):
            yield f"{one.box.style} and {other.box.style} overlap"


def leaving(box: PlacedBox) -> Iterator[str]:
    for child in box.children:
        left, top = child.x - box.x, child.y - box.y
        right, bottom = left + child.width - box.width, top + child.height - box.height
        if min(left, top) < -NEARLY or max(right, bottom) > NEARLY:
            yield f"{child.box.style} leaves it"


def misplaced_texts(box: PlacedBox) -> Iterator[str]:
    for line in box.texts:
        width = text_width(line.text, line.given.size, bold=line.given.bold)
        left = line.x - width / 2 if line.given.centred else line.x
        beyond = max(box.x - left, left + width - box.x - box.width)
        below = line.y + line.given.size * (LINE_HEIGHT - 1.05) - box.y - box.height
        if max(beyond, below) > NEARLY:
            yield f"{line.text!r} leaves it"
        if any(line.y > child.y + NEARLY for child in box.children):
            yield f"{line.text!r} over a child"
    for upper, lower in combinations(box.texts, 2):
        if upper.y + NEARLY > lower.y - lower.given.size * 0.8:
            yield f"lines {upper.text!r} and {lower.text!r} overlap"


def test_the_checks_above_see_faults() -> None:
    inner = place(Box(style="a", texts=[Text(text="a long text of a narrow box")]), 400)
    squeezed = PlacedBox(box=inner.box, x=0, y=0, width=40, height=5, texts=inner.texts, children=(inner, inner))
    told = " ".join(faults(squeezed))
    assert "overlap" in told
    assert "leaves it" in told


@pytest.mark.parametrize("width", [NARROW, 700, WIDE])
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_drawings_of_the_examples(file: Path, width: int) -> None:
    plan = plan_cluster(load_cluster(file))
    for drawing in (topology(plan).box, *map(anatomy, plan.fleets)):
        placed = place(drawing, width)
        assert faults(placed) == []
        assert placed.width == width
        assert sum(1 for _ in placed.walk()) > 3


def large(tmp_path: Path, nodes: int, instance_type: str = "p5.48xlarge") -> ClusterPlan:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "version: 1\nname: large\nregion: us-east-1\nnetwork: { availability_zone: us-east-1a }\ntraining:\n"
        f"  fleets:\n    trainers:\n      instance_type: {instance_type}\n      nodes: {nodes}\n"
        "      capacity: { reservation: cr-0123456789abcdef0 }\n"
    )
    return plan_cluster(load_cluster(file))


@pytest.mark.parametrize("nodes", [1, 32, 33, 512, 1000, 4000])
def test_large_fleets_are_drawn_as_racks_that_add_up(nodes: int, tmp_path: Path) -> None:
    placed = place(topology(large(tmp_path, nodes)).box, WIDE)
    assert faults(placed) == []
    drawn = [box for box in placed.walk() if box.box.style == "node"]
    assert len(drawn) <= 32
    racks = [int(box.texts[0].text) for box in drawn if box.texts and box.texts[0].text.isdigit()]
    assert sum(racks) == nodes if nodes > 32 else len(drawn) == nodes


# ----- any boxes at all

texts = st.builds(
    Text,
    text=st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=60),
    size=st.sampled_from([8, 11, 13]),
    bold=st.booleans(),
    wraps=st.booleans(),
    centred=st.booleans(),
)


def trees(children: st.SearchStrategy[Box]) -> st.SearchStrategy[Box]:
    return st.builds(
        Box,
        style=st.just("box"),
        texts=st.lists(texts, max_size=3),
        children=st.lists(children, max_size=5),
        direction=st.sampled_from([Direction.COLUMN, Direction.ROW, Direction.GRID]),
        padding=st.sampled_from([0, 3, 8]),
        gap=st.sampled_from([2, 8]),
        minimum_child_width=st.sampled_from([40, 90, 200]),
        height=st.sampled_from([None, 20, 60]),
    )


leaves = st.builds(Box, style=st.just("leaf"), texts=st.lists(texts, max_size=3), height=st.none())


@settings(max_examples=200, deadline=None)
@given(st.recursive(leaves, trees, max_leaves=12), st.sampled_from([NARROW, WIDE]))
def test_no_boxes_overlap_and_no_text_leaves_its_box(box: Box, width: int) -> None:
    assert faults(place(box, width)) == []


@given(st.text(max_size=80), st.floats(0, 300), st.booleans())
def test_cut_and_wrapped_texts_fit(text: str, width: float, bold: bool) -> None:
    for line in (fit_text(text, width, 11, bold=bold), *wrap_text(text, width, 11, bold=bold)):
        assert text_width(line, 11, bold=bold) <= width or line == ""


def test_a_text_that_fits_is_whole() -> None:
    assert fit_text("p5.48xlarge", 200, 12) == "p5.48xlarge"
    assert " ".join(wrap_text("one two three four", 60, 11)) == "one two three four"
