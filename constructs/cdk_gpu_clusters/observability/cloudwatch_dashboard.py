"""A dashboard as Amazon CloudWatch takes it.

Source: CloudWatch API reference, "Dashboard Body Structure and Syntax".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cdk_gpu_clusters.observability.panels import Panel, Row, Series

_COLUMNS = 24
_WIDTH, _HEIGHT = 6, 6


def cloudwatch_body(rows: Sequence[Row], *, title: str, region: str) -> dict[str, Any]:
    """The body of a dashboard.

    Args:
        rows: What it shows.
        title: Its heading.
        region: Region of the metrics. May be a token.

    Example:
        >>> from cdk_gpu_clusters.observability.panels import DashboardFleet, plan_dashboard
        >>> fleet = DashboardFleet(name="trainers", path="app/Trainers", instance_type="p5.48xlarge")
        >>> body = cloudwatch_body(plan_dashboard([fleet]), title="llama", region="us-east-1")
        >>> body["widgets"][2]["properties"]["metrics"]
        [['GpuCluster', 'UnhealthyNodes', 'Fleet', 'app/Trainers', {'label': 'trainers', 'stat': 'Sum'}]]
    """
    widgets = [_text(f"# {title}", y=0, height=1)]
    y = 1
    for row in rows:
        heading = [
            _text("\n".join([f"## {row.title}", *(f"- {note}" for note in row.notes)]), y=y, height=_height(row))
        ]
        y += _height(row)
        panels = list(_panels(row.panels, y, region))
        y += _HEIGHT * -(-len(row.panels) * _WIDTH // _COLUMNS)
        widgets += [*heading, *panels]
    # A metric with a value a minute is added up a minute at a time: over a longer period a sum would count twice.
    return {"start": "-PT12H", "periodOverride": "inherit", "widgets": widgets}


def _height(row: Row) -> int:
    """Height of the text of a row, in units of the grid; longer texts scroll."""
    return 1 if not row.notes else min(2 + len(row.notes) // 2, 6)


def _text(markdown: str, *, y: int, height: int) -> dict[str, Any]:
    properties = {"markdown": markdown, "background": "transparent"}
    return {"type": "text", "x": 0, "y": y, "width": _COLUMNS, "height": height, "properties": properties}


def _panels(panels: Sequence[Panel], top: int, region: str) -> Iterator[dict[str, Any]]:
    each_row = _COLUMNS // _WIDTH
    for index, panel in enumerate(panels):
        yield {
            "type": "metric",
            "x": index % each_row * _WIDTH,
            "y": top + index // each_row * _HEIGHT,
            "width": _WIDTH,
            "height": _HEIGHT,
            "properties": {
                "title": panel.title,
                "view": "timeSeries",
                "stacked": False,
                "region": region,
                "period": panel.period_seconds,
                "metrics": [line for number, one in enumerate(panel.series) for line in _lines(number, one)],
                "yAxis": {"left": {"label": panel.unit, "showUnits": False, "min": 0}},
            },
        }


def _lines(number: int, series: Series) -> Iterator[list[Any]]:
    """A metric; or a metric that is not drawn, and what is computed of it."""
    path = [series.namespace, series.metric, *(part for one in series.dimensions for part in one)]
    if series.expression is None:
        yield [*path, {"label": series.label, "stat": series.statistic}]
        return
    yield [{"expression": series.expression.format(metric=f"m{number}"), "label": series.label, "id": f"e{number}"}]
    yield [*path, {"id": f"m{number}", "stat": series.statistic, "visible": False}]
