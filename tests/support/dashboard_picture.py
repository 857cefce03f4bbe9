"""Dashboards of CloudWatch and of Grafana drawn as SVG, with values of the simulated day."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from xml.sax.saxutils import escape

from simulated_day import MINUTES, START, Metrics

Points = list[tuple[int, float]]
_UNIT, _GAP, _FOOT = 50, 8, 44
_GRAFANA_UNIT, _TITLE = 34, 44
_COLOURS = ("#1f77b4", "#d95f02", "#2ca02c", "#d62728", "#9467bd", "#8c564b")
_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def lines_of(widget: Mapping[str, Any], metrics: Metrics) -> dict[str, Points]:
    """The lines that a metric widget draws, by label. Expressions are those of the library."""
    properties = widget["properties"]
    found: dict[str, Points] = {}
    by_id: dict[str, Points] = {}
    expressions: dict[str, str] = {}
    for *path, options in properties["metrics"]:
        if not path:
            expressions[options["label"]] = options["expression"]
            continue
        namespace, name, *rest = path
        dimensions = tuple(zip(rest[::2], rest[1::2], strict=True))
        points = metrics.statistic((namespace, name, dimensions), options["stat"], properties["period"])
        by_id[options.get("id", "")] = points
        if options.get("visible", True):
            found[options["label"]] = points
    for label, expression in expressions.items():
        found[label] = _computed(expression, by_id)
    return found


def _computed(expression: str, by_id: Mapping[str, Points]) -> Points:
    if match := re.fullmatch(r"([0-9.]+) \* (m[0-9]+)", expression):
        return [(second, float(match[1]) * value) for second, value in by_id[match[2]]]
    match = re.fullmatch(r"\(([0-9]+) - EPOCH\((m[0-9]+)\)\) / 3600", expression)
    assert match is not None, expression
    return [(second, (int(match[1]) - second) / 3600) for second, _ in by_id[match[2]]]


def dashboard_svg(body: Mapping[str, Any], metrics: Metrics) -> str:
    """The dashboard of CloudWatch as a picture, 24 columns wide."""
    widgets = body["widgets"]
    height = max(one["y"] + one["height"] for one in widgets) * _UNIT
    return _picture(height, (part for one in widgets for part in _widget(one, metrics)))


def _picture(height: int, drawn: Iterator[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {24 * _UNIT} {height}" width="{24 * _UNIT}" '
        f'height="{height}" font-family="sans-serif" font-size="12" fill="#222">'
        f'<rect width="100%" height="100%" fill="#f4f5f7"/>{"".join(drawn)}</svg>\n'
    )


def _widget(widget: Mapping[str, Any], metrics: Metrics) -> Iterator[str]:
    x, y = widget["x"] * _UNIT + _GAP, widget["y"] * _UNIT + _GAP
    width, height = widget["width"] * _UNIT - 2 * _GAP, widget["height"] * _UNIT - 2 * _GAP
    properties = widget["properties"]
    yield f'<g transform="translate({x} {y})">'
    if widget["type"] == "text":
        yield from _markdown(properties["markdown"])
    else:
        yield f'<rect width="{width}" height="{height}" rx="6" fill="#fff" stroke="#d5dbe3"/>'
        unit = properties["yAxis"]["left"]["label"]
        yield from _graph(properties["title"], unit, lines_of(widget, metrics), width, height)
    yield "</g>"


def grafana_svg(model: Mapping[str, Any], answers: Callable[[Mapping[str, Any]], Mapping[str, Points]]) -> str:
    """The dashboard of Grafana as a picture: each panel with the lines that are its answer."""
    panels = model["panels"]
    height = _TITLE + max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in panels) * _GRAFANA_UNIT
    title = f'<g transform="translate({_GAP} {_GAP})">{"".join(_markdown("# " + model["title"]))}</g>'
    parts = (part for one in panels for part in _grafana_panel(one, answers))
    return _picture(height, iter([title, *parts]))


def _grafana_panel(
    panel: Mapping[str, Any], answers: Callable[[Mapping[str, Any]], Mapping[str, Points]]
) -> Iterator[str]:
    place = panel["gridPos"]
    x, y = place["x"] * _UNIT + _GAP, _TITLE + place["y"] * _GRAFANA_UNIT + _GAP // 2
    width, height = place["w"] * _UNIT - 2 * _GAP, place["h"] * _GRAFANA_UNIT - _GAP
    yield f'<g transform="translate({x} {y})">'
    if panel["type"] == "row":
        yield from _markdown(f"## {panel['title']}")
    elif panel["type"] == "text":
        yield from _markdown(panel["options"]["content"])
    else:
        yield f'<rect width="{width}" height="{height}" rx="6" fill="#fff" stroke="#d5dbe3"/>'
        field = panel["fieldConfig"]["defaults"]
        names = [
            f"{value} {one['text']}" for group in field.get("mappings", ()) for value, one in group["options"].items()
        ]
        unit = ", ".join(names) or field.get("unit") or field["custom"].get("axisLabel", "")
        limits = [step["value"] for step in field["thresholds"]["steps"] if step["value"] is not None]
        yield from _graph(panel["title"], unit, answers(panel), width, height, limits)
    yield "</g>"


def _markdown(text: str) -> Iterator[str]:
    for index, line in enumerate(text.split("\n")):
        words = line.lstrip("#- ")
        size, weight = {"# ": (20, "bold"), "##": (16, "bold")}.get(line[:2], (13, "normal"))
        yield f'<text y="{18 + 22 * index}" font-size="{size}" font-weight="{weight}">{escape(words)}</text>'


def _graph(
    title: str, unit: str, lines: Mapping[str, Points], width: int, height: int, limits: Sequence[float] = ()
) -> Iterator[str]:
    left, top, right, bottom = 56, 44, width - 12, height - _FOOT
    values = [value for points in lines.values() for _, value in points]
    most = max([*values, *limits, 0]) or 1
    first, last = START, START + 60 * MINUTES

    def place(second: float, value: float) -> str:
        across = left + (second - first) / (last - first) * (right - left)
        return f"{across:.1f},{bottom - value / most * (bottom - top):.1f}"

    yield f'<text x="10" y="20" font-size="14" font-weight="bold">{escape(title)}</text>'
    yield f'<text x="10" y="36" fill="#5a6675">{escape(unit)}</text>'
    for part in (0, 0.5, 1):
        y = bottom - part * (bottom - top)
        yield f'<path d="M{left} {y}H{right}" stroke="#e4e8ee"/>'
        yield f'<text x="{left - 6}" y="{y + 4}" text-anchor="end" fill="#5a6675">{_short(most * part)}</text>'
    for part, anchor in ((0, "start"), (0.5, "middle"), (1, "end")):
        at = datetime.fromtimestamp(first + (last - first) * part, tz=UTC)
        yield f'<text x="{left + (right - left) * part}" y="{bottom + 15}" text-anchor="{anchor}" fill="#5a6675">{at:%H:%M}</text>'
    for limit in limits:
        y = bottom - limit / most * (bottom - top)
        yield f'<path d="M{left} {y:.1f}H{right}" stroke="#c00" stroke-dasharray="4 3"/>'
    if not values:
        yield f'<text x="{width / 2}" y="{height / 2}" text-anchor="middle" fill="#c00">no data</text>'
    across = 10.0
    for index, (label, points) in enumerate(lines.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        path = " ".join(place(*point) for point in _thinned(points))
        if len(points) == 1:
            x_at, _, y_at = path.partition(",")
            yield f'<circle cx="{x_at}" cy="{y_at}" r="4" fill="{colour}"/>'
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        yield f'<rect x="{across}" y="{height - 18}" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{across + 14}" y="{height - 9}">{escape(label)}</text>'
        across += 24 + 6.4 * len(label)


def _thinned(points: Sequence[tuple[int, float]]) -> Iterator[tuple[int, float]]:
    """The points where a line bends by what a reader can see: every tenth, and the peaks between them."""
    for start in range(0, len(points), 10):
        part = points[start : start + 10]
        yield from dict.fromkeys([part[0], max(part, key=lambda one: one[1])])


def _short(value: float) -> str:
    for size, prefix in _PREFIXES:
        if value >= size:
            return f"{value / size:.3g}{prefix}"
    return f"{value:.3g}"
