"""Flows between the boxes of a topology: which there are, and the lines that show them.

Lines run in the margins beside and between boxes. Requests come from above and use the margin on the left. Data go down
and use the margin on the right. So no line crosses a text or a node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .boxes import PlacedBox

#: Distance between two lines that run side by side, and between a line and a box, in pixels.
LANE, CLEAR = 8, 7

Point: TypeAlias = "tuple[float, float]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """What goes from one box to another.

    Attributes:
        kind: `request`, `api`, `slurm`, `efa`, `tcp`, `s3` or `internet`: its colour and its line of the legend.
        source, target: Keys of the boxes.
        heads: Where it goes: `to` its target, `from` it, or `both`.
    """

    kind: str
    source: str
    target: str
    heads: str = "to"

    @property
    def from_above(self) -> bool:
        """Whether it comes from above, in the margin on the left."""
        return self.kind in ("request", "api", "slurm")

    @property
    def lane(self) -> tuple[str, str]:
        """Flows of one lane share a line: those of one kind that end, or begin, at the same place."""
        return self.kind, self.source if self.from_above else self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A flow as a line of horizontal and vertical parts, with the arrowheads of `heads`."""

    kind: str
    points: tuple[Point, ...]
    heads: str


def lanes(flows: Sequence[Flow], *, from_above: bool) -> list[tuple[str, str]]:
    """The lanes of one margin, the innermost first."""
    return list(dict.fromkeys(one.lane for one in flows if one.from_above is from_above))


def margin(flows: Sequence[Flow], *, from_above: bool) -> float:
    """Width of a margin that has room for its lanes."""
    number = len(lanes(flows, from_above=from_above))
    return CLEAR * 2 + LANE * (number - 1) if number else 0


def lines(placed: PlacedBox, flows: Sequence[Flow]) -> list[Line]:
    """The lines of the flows of a drawing.

    Args:
        placed: The drawing. It has boxes `vpc`, `zones` and, if there is anything below the VPC, `outside`. Boxes with
            the style `zone` have the margins.
        flows: Flows between boxes of the drawing.
    """
    return [*_Routes(placed, flows).lines()]


class _Routes:
    """The ways of the lines in one drawing."""

    def __init__(self, placed: PlacedBox, flows: Sequence[Flow]) -> None:
        boxes = list(placed.walk())
        self._at = {one.box.key: one for one in boxes if one.box.key}
        self._zones = [one for one in boxes if one.box.style == "zone"]
        self._flows = flows
        self._down, self._up = (lanes(flows, from_above=one) for one in (True, False))

    def lines(self) -> Iterator[Line]:
        for flow in self._flows:
            points = self._request(flow) if flow.from_above else self._data(flow)
            yield Line(kind=flow.kind, points=tuple(_without_repeats(points)), heads=flow.heads)

    # Requests: from the left edge of what is above, down the left margin, to the left edge.

    def _request(self, flow: Flow) -> list[Point]:
        source, target, vpc, zones = (self._at[key] for key in (flow.source, flow.target, "vpc", "zones"))
        place = self._down.index(flow.lane)
        trunk = vpc.x + CLEAR + LANE * place
        begin: list[Point]
        if source.y + source.height <= vpc.y:
            begin = [(trunk, source.y + source.height)]
        else:
            y = self._port(source, flow, left=True)
            begin = [(source.x, y), (trunk, y)]
        y = self._port(target, flow, left=True)
        zone = self._zone(target)
        if zone is None:
            return [*begin, (trunk, y), (target.x, y)]
        channel = zones.y + CLEAR + LANE * place
        lane = zone.x + CLEAR + LANE * place
        return [*begin, (trunk, channel), (lane, channel), (lane, y), (target.x, y)]

    # Data: from the right edge into the right margin, then to the right edge or, below the VPC, to the top.

    def _data(self, flow: Flow) -> list[Point]:
        source, target = self._at[flow.source], self._at[flow.target]
        place = self._up.index(flow.lane)
        out = self._port(source, flow, left=False)
        lane = self._lane(source, place)
        begin: list[Point] = [(_right(source), out), (lane, out)]
        zone = self._zone(target)
        if zone is None:
            return [*begin, *self._outside(target, flow, lane, place)]
        into = self._port(target, flow, left=False)
        other = self._lane(target, place)
        zones = self._at["zones"]
        channel = zones.y + zones.height - zones.box.margins.below + CLEAR + LANE * place
        across: list[Point] = [] if other == lane else [(lane, channel), (other, channel)]
        return [*begin, *across, (other, into), (_right(target), into)]

    def _outside(self, target: PlacedBox, flow: Flow, lane: float, place: int) -> list[Point]:
        group = self._at["outside"]
        channel = group.y + CLEAR + LANE * place
        if target.y == group.children[0].y:
            x = self._top_port(target, flow)
            return [(lane, channel), (x, channel), (x, target.y)]
        beside, into = _right(target) + CLEAR + LANE * place, self._port(target, flow, left=False)
        return [(lane, channel), (beside, channel), (beside, into), (_right(target), into)]

    def _zone(self, box: PlacedBox) -> PlacedBox | None:
        return next((one for one in self._zones if _contains(one, box)), None)

    def _lane(self, box: PlacedBox, place: int) -> float:
        zone = self._zone(box)
        if zone is None:
            return _right(box) + CLEAR + LANE * place
        return _right(zone) - zone.box.padding - zone.box.margins.right + CLEAR + LANE * place

    def _port(self, box: PlacedBox, flow: Flow, *, left: bool) -> float:
        """Where a flow meets an edge: the lanes of an edge share its height."""
        ports = list(
            dict.fromkeys(
                one.lane for one in self._flows if one.from_above is left and box.box.key in (one.source, one.target)
            )
        )
        return box.y + box.height * (ports.index(flow.lane) + 1) / (len(ports) + 1)

    def _top_port(self, box: PlacedBox, flow: Flow) -> float:
        ports = list(dict.fromkeys(one.lane for one in self._flows if one.target == box.box.key))
        return box.x + box.width / 2 + LANE * 2 * (ports.index(flow.lane) - (len(ports) - 1) / 2)


def _contains(outer: PlacedBox, box: PlacedBox) -> bool:
    return outer.x <= box.x and _right(box) <= _right(outer) and outer.y <= box.y <= outer.y + outer.height


def _right(box: PlacedBox) -> float:
    return box.x + box.width


def _without_repeats(points: Sequence[Point]) -> Iterator[Point]:
    for index, one in enumerate(points):
        if not index or one != points[index - 1]:
            yield one
