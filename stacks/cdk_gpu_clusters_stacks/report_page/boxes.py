"""A box model for drawings: boxes with text in columns, rows, grids and bars, laid out into a width in pixels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import floor
from typing import NamedTuple

from cdk_gpu_clusters_stacks.counting import count
from cdk_gpu_clusters_stacks.plan.model import UsdRange

#: Height of a line, as a multiple of the font's size.
LINE_HEIGHT = 1.4
#: Part of the font's size from the top of a line to its baseline.
_BASELINE = 1.05


class Margins(NamedTuple):
    """Free room inside a box around its texts and children, in pixels, over and above its padding."""

    left: float = 0
    above: float = 0
    right: float = 0
    below: float = 0


_NO_MARGINS = Margins()


class Direction(Enum):
    """How a box arranges its children."""

    COLUMN = "column"
    ROW = "row"
    GRID = "grid"
    BAR = "bar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text of a box.

    Attributes:
        size: Size of the font in pixels.
        wraps: Whether it takes more lines where one is too short; it is cut otherwise.
        centred: Whether it is in the middle.
    """

    text: str
    style: str = "text"
    size: float = 12
    bold: bool = False
    wraps: bool = False
    centred: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A box before it has a place.

    Attributes:
        texts: Lines at its top.
        children: Boxes below the texts.
        direction: How the children are arranged.
        key: Name by which flows refer to it; empty for a box without flows.
        padding: Room inside its border, in pixels.
        margins: Room for the lines of flows.
        gap: Room between its children, in pixels.
        row_gap: Room between rows of them; `gap` by default.
        minimum_child_width: A row whose children would be narrower becomes a column; a grid's columns are as wide.
        height: Height of its own, in pixels; as high as what it holds by default.
        middle: Whether its texts are in the middle of that height.
        start, span: Place and length in a parent's bar, in units.
        units: Length of its own bar.
        title: The text of a pointer over it.
    """

    style: str
    texts: Sequence[Text] = ()
    children: Sequence[Box] = ()
    direction: Direction = Direction.COLUMN
    key: str = ""
    padding: float = 8
    margins: Margins = _NO_MARGINS
    gap: float = 8
    row_gap: float | None = None
    minimum_child_width: float = 0
    height: float | None = None
    middle: bool = False
    start: int = 0
    span: int = 1
    units: int = 1
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedText:
    """A line with its place: `x` is its left edge, or its middle if it is centred; `y` its baseline."""

    text: str
    x: float
    y: float
    given: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedBox:
    """A box with its place."""

    box: Box
    x: float
    y: float
    width: float
    height: float
    texts: tuple[PlacedText, ...] = ()
    children: tuple[PlacedBox, ...] = field(default=())

    def walk(self) -> Iterator[PlacedBox]:
        """The box and everything in it, outer boxes first."""
        yield self
        for child in self.children:
            yield from child.walk()


def group(
    *children: Box,
    texts: Sequence[Text] = (),
    direction: Direction = Direction.COLUMN,
    minimum_child_width: float = 0,
    gap: float = 8,
    margins: Margins = _NO_MARGINS,
    key: str = "",
) -> Box:
    """Boxes that are arranged together, without a border of their own."""
    return Box(
        style="none",
        texts=texts,
        children=children,
        direction=direction,
        key=key,
        padding=0,
        margins=margins,
        gap=gap,
        minimum_child_width=minimum_child_width,
    )


def filled_up(boxes: Sequence[Box], places: int) -> list[Box]:
    """Boxes, and empty ones behind them up to so many places, so that few boxes of a row do not fill its width."""
    return [*boxes, *(group() for _ in range(places - len(boxes)))]


def place(box: Box, width: float, *, x: float = 0, y: float = 0) -> PlacedBox:
    """Give a box and all that it holds a place."""
    margins = box.margins
    left, top = x + box.padding + margins.left, y + box.padding
    inner = max(width - 2 * box.padding - margins.left - margins.right, 0)
    texts, below = _place_texts(box, left, top, inner)
    if box.middle and box.height is not None:
        down = max((box.height - 2 * box.padding - (below - top)) / 2, 0)
        texts, below = _place_texts(box, left, top + down, inner)
    if texts and box.children:
        below += box.gap / 2
    children = _place_children(box, left, below + margins.above, inner)
    bottom = max((child.y + child.height for child in children), default=below)
    height = max(bottom + margins.below + box.padding - y, box.height or 0)
    return PlacedBox(box=box, x=x, y=y, width=width, height=height, texts=tuple(texts), children=tuple(children))


def _place_texts(box: Box, x: float, y: float, width: float) -> tuple[list[PlacedText], float]:
    placed = []
    for text in box.texts:
        lines = (
            wrap_text(text.text, width, text.size, bold=text.bold)
            if text.wraps
            else [fit_text(text.text, width, text.size, bold=text.bold)]
        )
        for line in lines:
            if line:
                at = x + width / 2 if text.centred else x
                placed.append(PlacedText(text=line, x=at, y=y + text.size * _BASELINE, given=text))
            y += text.size * LINE_HEIGHT
    return placed, y


def _place_children(box: Box, x: float, y: float, width: float) -> list[PlacedBox]:
    count = len(box.children)
    if not count:
        return []
    if box.direction is Direction.BAR:
        unit = width / box.units
        return [place(one, unit * one.span, x=x + unit * one.start, y=y) for one in box.children]
    columns = {
        Direction.COLUMN: 1,
        Direction.ROW: _columns_of_row(box, width),
        Direction.GRID: min(count, _most_columns(box, width)),
    }[box.direction]
    each = (width - box.gap * (columns - 1)) / columns
    placed: list[PlacedBox] = []
    for begin in range(0, count, columns):
        row = [
            place(one, each, x=x + column * (each + box.gap), y=y)
            for column, one in enumerate(box.children[begin : begin + columns])
        ]
        highest = max(one.height for one in row)
        placed += [replace(one, height=highest) for one in row]
        y += highest + (box.gap if box.row_gap is None else box.row_gap)
    return placed


def _columns_of_row(box: Box, width: float) -> int:
    """All children side by side, or in even rows of fewer where they would be too narrow."""
    count, most = len(box.children), _most_columns(box, width)
    rows = -(-count // most)
    return -(-count // rows)


def _most_columns(box: Box, width: float) -> int:
    if not box.minimum_child_width:
        return len(box.children)
    return max(floor((width + box.gap) / (box.minimum_child_width + box.gap)), 1)


# How wide a text is drawn, without a browser: the widths of DejaVu Sans, a wide font, so that others fit as well.
#
# Measured on 2026-11-22 with a browser's `measureText`, in thousandths of the font's size, for the characters from
# the space to the tilde; any other character counts as the widest.

_NORMAL = (
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636, 636, 636, 636, 636,
    636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863,
    748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635,
    615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636,
    337, 636, 838,
)  # fmt: skip
_BOLD = (
    348, 456, 521, 838, 696, 1002, 872, 306, 457, 457, 523, 838, 380, 415, 380, 365, 696, 696, 696, 696, 696, 696, 696,
    696, 696, 696, 400, 400, 838, 838, 838, 580, 1000, 774, 762, 734, 830, 683, 683, 821, 837, 372, 372, 775, 637, 995,
    837, 850, 733, 850, 770, 720, 682, 812, 774, 1103, 771, 724, 725, 457, 365, 457, 838, 500, 500, 675, 716, 593, 716,
    678, 435, 716, 712, 343, 343, 665, 343, 1042, 712, 687, 716, 716, 493, 595, 478, 712, 652, 924, 645, 652, 582, 712,
    365, 712, 838,
)  # fmt: skip
_WIDEST = 1103
_ELLIPSIS = "…"


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Width of a text in pixels."""
    table = _BOLD if bold else _NORMAL
    return sum(table[ord(one) - 32] if " " <= one <= "~" else _WIDEST for one in text) * size / 1000


def fit_text(text: str, width: float, size: float, *, bold: bool = False) -> str:
    """A text, cut with an ellipsis where it is wider than a width; empty where not even that has room."""
    if text_width(text, size, bold=bold) <= width:
        return text
    kept = text
    while kept and text_width(kept + _ELLIPSIS, size, bold=bold) > width:
        kept = kept[:-1]
    return kept + _ELLIPSIS if kept else ""


def wrap_text(text: str, width: float, size: float, *, bold: bool = False) -> list[str]:
    """The lines of a text; a word that is wider than a line is cut."""
    lines: list[str] = []
    for word in text.split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and text_width(longer, size, bold=bold) <= width:
            lines[-1] = longer
        else:
            lines.append(fit_text(word, width, size, bold=bold))
    return [line for line in lines if line]


# Numbers as the page shows them.

UNKNOWN = "unknown"


def number(value: float) -> str:
    """A number with commas, without needless decimals."""
    return f"{value:,.1f}".removesuffix(".0")


def range_text(low: float, high: float) -> str:
    """`32`, or `16 to 32`."""
    return number(high) if low == high else f"{number(low)} to {number(high)}"


def usd(amount: UsdRange | None) -> str:
    """An amount or a range of US dollars; unknown for none."""
    if amount is None:
        return UNKNOWN
    low, high = _dollars(amount.low), _dollars(amount.high)
    return low if low == high else f"{low} to {high}"


def _dollars(value: float) -> str:
    return f"${value:,.0f}" if value >= 1000 else f"${value:,.2f}"


def gbps(value: float | None) -> str:
    """Bandwidth; unknown for none."""
    if value is None:
        return UNKNOWN
    return f"{number(value / 1000)} Tbps" if value >= 1000 else f"{number(value)} Gbps"


def nodes_text(least: int, most: int) -> str:
    """`4 nodes`, or `1 to 8 nodes`."""
    return count(most, "node") if least == most else f"{least:,} to {most:,} nodes"


def zones_text(zones: Sequence[str]) -> str:
    """Zones, or that only the deployment knows them."""
    return ", ".join(zones) or "zones of the account"
