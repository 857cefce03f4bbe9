"""A dashboard as Grafana imports it, with queries of Prometheus.

Source: Grafana 10.4 documentation, "Dashboard JSON model", and the kinds of dashboard, timeseries, text and
dataquery of its sources, of which grafana-foundation-sdk holds the models.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from cdk_gpu_clusters.errors import raise_for
from cdk_gpu_clusters.node.alerts import RUNBOOK_URL, NodeAlert, prometheus_alerts, runbook_of
from cdk_gpu_clusters.node.gpunode.metrics.exposition import MEASURED_AT
from cdk_gpu_clusters.observability.panels import Panel, Row
from cdk_gpu_clusters.rules.metrics_workspace import check_runbooks

_COLUMNS: Final = 24
_HEIGHT, _MOST_IN_LINE = 8, 4
#: Kind of query of a variable, as Grafana 10.4 itself exports it.
_LABEL_VALUES: Final = 1
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
#: Units of Grafana (packages/grafana-data/src/valueFormats/categories.ts). Other values are counts.
_UNITS: Final = {
    "percent": "percent",
    "watts": "watt",
    "degrees Celsius": "celsius",
    "seconds": "s",
    "hours": "h",
    "bytes per second": "Bps",
    "packets per second": "pps",
    "US dollars an hour": "currencyUSD",
}


def grafana_dashboard(
    rows: Sequence[Row],
    *,
    title: str,
    uid: str | None = None,
    idle_minutes: int | None = 60,
    runbook_url: str = RUNBOOK_URL,
) -> dict[str, Any]:
    """The JSON model of a dashboard for Grafana 10.4 or later. The reader chooses data source, fleets and instances.

    Args:
        rows: What it shows. `plan_prometheus_dashboard` makes them.
        title: Its title.
        uid: Its id, by which a later import replaces it, of at most 40 letters, digits, `-` and `_`. By default Grafana
            makes one.
        idle_minutes: Threshold of the alert `Idle`, as in `prometheus_rules`; None for no such line.
        runbook_url: As in `prometheus_rules`.

    Raises:
        ConfigError: GPU-ALM-001, GPU-AMP-006.

    Example:
        >>> from cdk_gpu_clusters.observability.panels import DashboardFleet, plan_prometheus_dashboard
        >>> fleet = DashboardFleet(name="trainers", path="app/Trainers", instance_type="p5.48xlarge")
        >>> model = grafana_dashboard(plan_prometheus_dashboard([fleet]), title="llama")
        >>> [panel["title"] for panel in model["panels"] if "title" in panel][:3]
        ['Nodes', 'Nodes that measure', 'Unhealthy nodes']
    """
    raise_for(check_runbooks(runbook_url))
    panels = enumerate(_panels(rows, prometheus_alerts(idle_minutes), runbook_url), start=1)
    found: dict[str, Any] = {
        "title": title,
        "tags": ["gpu-cluster"],
        "timezone": "utc",
        "editable": True,
        "graphTooltip": 1,  # one crosshair in all panels
        "time": {"from": "now-12h", "to": "now"},
        "refresh": "1m",
        "schemaVersion": 39,  # of Grafana 10.4
        "templating": {"list": list(_variables())},
        "annotations": {"list": []},
        "panels": [{**panel, "id": number} for number, panel in panels],
    }
    return found if uid is None else {**found, "uid": uid}


def _variables() -> Iterator[dict[str, Any]]:
    yield {"type": "datasource", "name": "datasource", "label": "Data source", "query": "prometheus"}
    yield _choice("fleet", "Fleet", f"label_values({MEASURED_AT}, fleet)")
    yield _choice("instance", "Instance", f'label_values({MEASURED_AT}{{fleet=~"$fleet"}}, instance_id)')


def _choice(name: str, label: str, query: str) -> dict[str, Any]:
    """A variable of the values of a label. All of them are one short expression, however many there are."""
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": _SOURCE,
        "query": {"qryType": _LABEL_VALUES, "query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "refresh": 2,  # when the time range changes: nodes come and go
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",  # also of what has no such label
        "current": {"text": ["All"], "value": ["$__all"], "selected": True},
    }


def _panels(rows: Sequence[Row], alerts: Sequence[NodeAlert], runbook_url: str) -> Iterator[dict[str, Any]]:
    y = 0
    for row in rows:
        heading = {"x": 0, "y": y, "w": _COLUMNS, "h": 1}
        yield {"type": "row", "title": row.title, "collapsed": False, "panels": [], "gridPos": heading}
        graphs = [_graph(panel, alerts, runbook_url) for panel in row.panels]
        cells = [*([_text(row.notes)] if row.notes else []), *graphs]
        # Up to four cells share a line; more go in threes.
        across = max(len(cells), 2) if len(cells) <= _MOST_IN_LINE else 3
        width = _COLUMNS // across
        for index, cell in enumerate(cells):
            place = {"x": index % across * width, "y": y + 1 + index // across * _HEIGHT, "w": width, "h": _HEIGHT}
            yield {**cell, "gridPos": place}
        y += 1 + _HEIGHT * -(-len(cells) // across)


def _text(notes: Sequence[str]) -> dict[str, Any]:
    content = "\n".join(f"- {note}" for note in notes)
    return {"type": "text", "transparent": True, "options": {"mode": "markdown", "content": content}}


def _graph(panel: Panel, alerts: Sequence[NodeAlert], runbook_url: str) -> dict[str, Any]:
    drawn = [query.metric for query in panel.queries]
    its_alerts = [alert for alert in alerts if alert.metric in drawn]
    runbooks = [f"Runbook: {runbook_of(alert.name, runbook_url)}" for alert in its_alerts]
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": " ".join([panel.meaning, *runbooks]),
        "datasource": _SOURCE,
        "interval": "1m",  # nodes measure once a minute
        "targets": [
            {
                "refId": _name(number),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
                "range": True,
            }
            for number, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _defaults(panel, its_alerts), "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def _name(number: int) -> str:
    """Names of queries as Grafana gives them, A to Z; then A1, B1 and so on."""
    return f"{chr(ord('A') + number % 26)}{number // 26 or ''}"


def _defaults(panel: Panel, alerts: Sequence[NodeAlert]) -> dict[str, Any]:
    unit = _UNITS.get(panel.unit)
    steps = [{"value": None, "color": "green"}, *({"value": one.threshold, "color": "red"} for one in alerts)]
    defaults: dict[str, Any] = {
        "min": 0,
        "thresholds": {"mode": "absolute", "steps": steps},
        "custom": {"lineWidth": 1, "fillOpacity": 10 if not alerts else 0, "showPoints": "auto", "spanNulls": False},
    }
    if alerts:
        defaults["custom"]["thresholdsStyle"] = {"mode": "line"}
    if panel.value_names:
        names = {str(value): {"text": name, "index": index} for index, (value, name) in enumerate(panel.value_names)}
        defaults["mappings"] = [{"type": "value", "options": names}]
        defaults["max"] = panel.value_names[-1][0]
        defaults["decimals"] = 0
        defaults["custom"]["lineInterpolation"] = "stepAfter"
    elif unit is None:
        defaults["decimals"] = 0
        defaults["custom"]["axisLabel"] = panel.unit
    else:
        defaults["unit"] = unit
    return defaults
