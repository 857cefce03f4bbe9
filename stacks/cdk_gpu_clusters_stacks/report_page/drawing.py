"""Placed boxes and lines as SVG. Colours are in the style sheet of the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from .boxes import Box, PlacedBox, PlacedText, place
from .flows import Flow, Line, Point, lines

#: Widths that drawings are laid out for, in pixels: inside a card of a wide page, and of a telephone.
WIDE, NARROW = 1090, 340
#: Half of the width of an arrowhead, and its length, in pixels.
_HALF, _LENGTH = 3.5, 7


def drawings(box: Box, title: str, description: str, flows: Sequence[Flow] = ()) -> str:
    """A drawing for a wide page and for a telephone; the style sheet shows one of them."""
    return "".join(
        svg(place(box, width), flows, title=title, description=description, style=style)
        for width, style in ((WIDE, "wide"), (NARROW, "narrow"))
    )


def svg(
    placed: PlacedBox,
    flows: Sequence[Flow] = (),
    *,
    title: str,
    description: str,
    style: str,
    style_sheet: str = "",
) -> str:
    """A drawing: for a page with the style sheet, or with a style sheet of its own as a file."""
    boxes = "".join(_box(one) for one in placed.walk())
    # The lines come last: they run over the borders of zones and subnets.
    arrows = "".join(_line(one) for one in lines(placed, flows)) if flows else ""
    size = f"{_number(placed.width)} {_number(placed.height)}"
    file = f' xmlns="http://www.w3.org/2000/svg" width="{_number(placed.width)}"' if style_sheet else ""
    inside = f"<style>{style_sheet}</style>" if style_sheet else ""
    return (
        f'<svg class="{style}"{file} viewBox="0 0 {size}" role="img" aria-label="{escape(f"{title}. {description}")}">'
        f"{inside}{boxes}{arrows}</svg>"
    )


def _box(one: PlacedBox) -> str:
    rectangle = (
        f'<rect class="{one.box.style}" x="{_number(one.x)}" y="{_number(one.y)}" '
        f'width="{_number(one.width)}" height="{_number(one.height)}" rx="{_radius(one)}"/>'
    )
    if one.box.style == "none":
        rectangle = ""
    elif one.box.title:
        rectangle = rectangle.replace("/>", f"><title>{escape(one.box.title)}</title></rect>")
    return rectangle + "".join(_texts(one.texts))


def _texts(texts: tuple[PlacedText, ...]) -> Iterator[str]:
    for one in texts:
        styles = [one.given.style, *(["b"] if one.given.bold else []), *(["c"] if one.given.centred else [])]
        full = "" if one.given.wraps or one.text == one.given.text else f"<title>{escape(one.given.text)}</title>"
        yield (
            f'<text class="{" ".join(styles)}" x="{_number(one.x)}" y="{_number(one.y)}" '
            f'font-size="{_number(one.given.size)}">{full}{escape(one.text)}</text>'
        )


def _line(line: Line) -> str:
    points = " ".join(f"{_number(x)},{_number(y)}" for x, y in line.points)
    heads = [
        *([_head(*line.points[-2:])] if line.heads != "from" else []),
        *([_head(line.points[1], line.points[0])] if line.heads != "to" else []),
    ]
    return f'<g class="flow {line.kind}"><polyline points="{points}"/>{"".join(heads)}</g>'


def _head(begin: Point, tip: Point) -> str:
    """An arrowhead at the end of a horizontal or vertical part."""
    (x0, y0), (x, y) = begin, tip
    along_x, along_y = (x > x0) - (x < x0), (y > y0) - (y < y0)
    back_x, back_y = x - along_x * _LENGTH, y - along_y * _LENGTH
    corners = [
        (x, y),
        (back_x + along_y * _HALF, back_y + along_x * _HALF),
        (back_x - along_y * _HALF, back_y - along_x * _HALF),
    ]
    points = " ".join(f"{_number(x)},{_number(y)}" for x, y in corners)
    return f'<polygon points="{points}"/>'


def _radius(one: PlacedBox) -> str:
    return _number(min(8, one.width / 6, one.height / 6))


def _number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
