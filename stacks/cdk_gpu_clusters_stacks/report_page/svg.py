"""Placed boxes as SVG. Colours stand in the style sheet of the page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from .boxes import PlacedBox, PlacedText


def svg(placed: PlacedBox, *, title: str, description: str, style: str) -> str:
    """A drawing.

    Args:
        placed: The outermost box, at 0, 0.
        title: Its name.
        description: What it shows, for who cannot see it.
        style: Class of the element.
    """
    lines = "".join(_box(one) for one in placed.walk())
    size = f"{_number(placed.width)} {_number(placed.height)}"
    return (
        f'<svg class="{style}" viewBox="0 0 {size}" role="img" aria-label="{escape(f"{title}. {description}")}">'
        f"{lines}</svg>"
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
        full = (
            ""
            if one.given.wraps or one.text == one.given.text
            else f"<title>{escape(one.given.text)}</title>"
        )
        yield (
            f'<text class="{" ".join(styles)}" x="{_number(one.x)}" y="{_number(one.y)}" '
            f'font-size="{_number(one.given.size)}">{full}{escape(one.text)}</text>'
        )


def _radius(one: PlacedBox) -> str:
    return _number(min(8, one.width / 6, one.height / 6))


def _number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
