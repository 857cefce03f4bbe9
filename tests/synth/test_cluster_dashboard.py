"""What a dashboard shows, its body as CDK's own widgets write it, and a day on which every panel has data."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_cloudwatch as cloudwatch

from cdk_gpu_clusters import ClusterDashboard, ConfigError, DashboardFileSystem, DashboardFleet, Exporter, GpuFleet
from cdk_gpu_clusters.catalogue.prices import newest_price
from cdk_gpu_clusters.node.gpunode.metrics.names import METRICS, NAMESPACE
from cdk_gpu_clusters.observability.cloudwatch_dashboard import cloudwatch_body
from cdk_gpu_clusters.observability.exporter_panels import exporter_rows
from cdk_gpu_clusters.observability.grafana_dashboard import grafana_dashboard
from cdk_gpu_clusters.observability.panels import MOST_METRICS, Panel, plan_dashboard, plan_prometheus_dashboard
from dashboard_picture import dashboard_svg, lines_of
from simulated_day import FILE_SYSTEM, FLEET, GROUP, NODES, RESERVATION, Metrics, simulated_day
from stack_fixtures import Site

PICTURE = Path(__file__).parents[2] / "docs" / "drawings" / "dashboard.svg"
PAGE = Path(__file__).parents[2] / "docs" / "dashboards.md"
PRICE = newest_price("p5.48xlarge", "us-east-1")
TRAINERS = DashboardFleet(
    name="trainers",
    path=FLEET,
    group_name=GROUP,
    instance_type="p5.48xlarge",
    efa=True,
    lustre=True,
    reservation_ids=(RESERVATION,),
    ends_at=datetime(2026, 12, 1, 11, 30, tzinfo=UTC),
    price=PRICE,
)
CORPUS = DashboardFileSystem(name="corpus", file_system_id=FILE_SYSTEM)


def body_of(*fleets: DashboardFleet, stores: tuple[DashboardFileSystem, ...] = (CORPUS,)) -> dict[str, Any]:
    return cloudwatch_body(plan_dashboard(fleets, stores), title="llama", region="us-east-1")


def panels_of(*fleets: DashboardFleet) -> dict[str, Panel]:
    return {panel.title: panel for row in plan_dashboard(fleets) for panel in row.panels}


def graphs(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in body["widgets"] if one["type"] == "metric"]


@pytest.fixture(scope="module")
def day() -> Metrics:
    return simulated_day()


def test_every_line_has_data_on_the_day(day: Metrics) -> None:
    for graph in graphs(body_of(TRAINERS)):
        for label, points in lines_of(graph, day).items():
            assert points, (graph["properties"]["title"], label)


def test_every_metric_that_nodes_send_without_mig_is_on_the_dashboard(day: Metrics) -> None:
    shown = {line[1] for one in graphs(body_of(TRAINERS)) for line in one["properties"]["metrics"] if line[1:]}
    sent = {name for namespace, name, _ in day.values if namespace == NAMESPACE}
    assert sent - shown == {"GpuMemoryUsed"}  # its share is shown
    assert sent <= {metric.name for metric in METRICS}


def test_the_day_tells_its_story(day: Metrics) -> None:
    by_title = {one["properties"]["title"]: lines_of(one, day) for one in graphs(body_of(TRAINERS))}
    assert max(value for _, value in by_title["Unhealthy nodes"]["trainers"]) == 1
    assert max(value for _, value in by_title["Required action"]["trainers"]) == 4
    assert sum(value for _, value in by_title["Boot failures and Xids"]["trainers Xids"]) == 1
    hours = by_title["Time to the end"]["trainers"]
    assert hours[0][1] == 5 * 24 + 11.5
    assert hours[0][1] - hours[-1][1] == pytest.approx(24 - 1 / 60)
    assert PRICE is not None
    assert by_title["Price of nodes in service"]["trainers"][0][1] == pytest.approx(float(PRICE.usd) * NODES)


def test_the_picture_of_the_docs_is_of_this_body(day: Metrics) -> None:
    assert dashboard_svg(body_of(TRAINERS), day) == PICTURE.read_text(encoding="utf-8")


def test_the_page_explains_every_panel() -> None:
    page = PAGE.read_text(encoding="utf-8")
    fleets = [TRAINERS, replace(TRAINERS, efa=False, mig=True)]
    found: dict[str, list[str]] = {}
    for where, rows in (
        ("CloudWatch", plan_dashboard(fleets, [CORPUS])),
        ("Grafana", (*plan_prometheus_dashboard(fleets), *exporter_rows(list(Exporter)))),
    ):
        for row in rows:
            for panel in row.panels:
                line = f"| {row.title} | {panel.title} | {panel.unit} | {panel.meaning} |"
                found.setdefault(line, []).append(where)
    written = [line for line in page.splitlines() if line.endswith(("| CloudWatch |", "| Grafana |", "| both |"))]
    assert set(written) == {f"{line} {where[0] if len(where) == 1 else 'both'} |" for line, where in found.items()}


def test_a_panel_without_data_is_drawn_as_such() -> None:
    assert "no data" in dashboard_svg(body_of(TRAINERS), Metrics())


def test_widgets_lie_in_the_grid_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for one in body_of(TRAINERS)["widgets"]:
        assert one["x"] + one["width"] <= 24
        cells = {(one["x"] + i, one["y"] + j) for i in range(one["width"]) for j in range(one["height"])}
        assert not taken & cells
        taken |= cells


def test_a_graph_is_written_as_the_widget_of_cdk_writes_it(app_factory: Any) -> None:
    (ours,) = [one for one in graphs(body_of(TRAINERS)) if one["properties"]["title"] == "Unhealthy nodes"]
    stack = cdk.Stack(app_factory(), "Theirs")
    theirs = cloudwatch.GraphWidget(
        title="Unhealthy nodes",
        region="us-east-1",
        width=6,
        height=6,
        period=cdk.Duration.minutes(1),
        view=cloudwatch.GraphWidgetView.TIME_SERIES,
        left_y_axis=cloudwatch.YAxisProps(label="nodes", show_units=False, min=0),
        left=[
            cloudwatch.Metric(
                namespace="GpuCluster",
                metric_name="UnhealthyNodes",
                dimensions_map={"Fleet": FLEET},
                statistic="Sum",
                label="trainers",
                period=cdk.Duration.minutes(1),
            )
        ],
    )
    dashboard = cloudwatch.Dashboard(
        stack, "Dashboard", period_override=cloudwatch.PeriodOverride.INHERIT, start="-PT12H"
    )
    dashboard.add_widgets(theirs)
    (found,) = cdk.assertions.Template.from_stack(stack).find_resources("AWS::CloudWatch::Dashboard").values()
    written = json.loads(found["Properties"]["DashboardBody"])
    (widget,) = written.pop("widgets")
    assert written == {key: value for key, value in body_of(TRAINERS).items() if key != "widgets"}
    properties = dict(ours["properties"])
    assert properties.pop("stacked") is False  # its default, which CDK leaves out
    line = widget["properties"]["metrics"][0]
    line[-1].pop("period", None)  # beside the same one of the graph
    assert {**widget, "x": 0, "y": 0} == {**ours, "x": 0, "y": 0, "properties": properties}


def test_only_panels_with_data() -> None:
    plain = replace(TRAINERS, group_name=None, efa=False, lustre=False, reservation_ids=(), ends_at=None)
    assert [row.title for row in plan_dashboard([plain])] == ["Nodes", "GPUs"]
    assert "Nodes in service and desired" not in panels_of(plain)
    assert {"EFA traffic", "Lustre traffic"} <= set(panels_of(TRAINERS))
    cpu = replace(plain, instance_type="c6i.large")
    assert [row.title for row in plan_dashboard([cpu])] == ["Nodes"]
    assert "GPU utilization" not in panels_of(replace(plain, instance_type="trn1.32xlarge"))


def test_mig_is_seen_by_its_devices() -> None:
    split = panels_of(replace(TRAINERS, efa=False, mig=True, whole_gpus=False))
    assert "GPU utilization" not in split
    assert {one.metric for one in split["GPU memory"].series} == {"MigMemoryUsedPercent"}
    both = panels_of(replace(TRAINERS, efa=False, mig=True))
    assert {"GPU utilization", "MIG devices in use"} <= set(both)
    assert "MIG devices in use" not in panels_of(TRAINERS)


def test_prometheus_has_only_panels_with_queries() -> None:
    plain = replace(TRAINERS, efa=False, lustre=False, ends_at=None)
    titles = [row.title for row in plan_prometheus_dashboard([plain])]
    assert titles == ["Nodes", "GPUs", "Cost"]
    cpu = replace(plain, instance_type="c6i.large", price=None)
    assert [row.title for row in plan_prometheus_dashboard([cpu])] == ["Nodes", "Cost"]
    for row in plan_prometheus_dashboard([TRAINERS, replace(TRAINERS, name="other", mig=True)]):
        for panel in row.panels:
            # Two fleets are one query, which draws a line for each.
            own = [one for one in panel.queries if 'fleet="' not in one.expression]
            assert len({one.expression for one in own}) == len(own)


def test_prometheus_needs_paths_that_are_known() -> None:
    unknown = replace(TRAINERS, path="${Token[Path.7]}")
    with pytest.raises(ConfigError, match=r"GPU-DASH-002.*Token"):
        plan_prometheus_dashboard([unknown])
    assert plan_dashboard([unknown])


def test_the_threshold_of_idle_time_is_that_of_the_alert() -> None:
    def steps(idle_minutes: int | None) -> list[float | None]:
        model = grafana_dashboard(plan_prometheus_dashboard([TRAINERS]), title="llama", idle_minutes=idle_minutes)
        (panel,) = [one for one in model["panels"] if one.get("title") == "Idle time"]
        return [step["value"] for step in panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]

    assert steps(30) == [None, 1800]
    assert steps(None) == [None]


def test_queries_of_many_fleets_have_names_of_their_own() -> None:
    fleets = [replace(TRAINERS, path=f"llama/Fleet{number}") for number in range(60)]
    model = grafana_dashboard(plan_prometheus_dashboard(fleets), title="llama")
    for panel in model["panels"]:
        names = [target["refId"] for target in panel.get("targets", ())]
        assert len(set(names)) == len(names)
        assert len(names) in (
            {60} if panel.get("title") in {"Time to the end", "Price of nodes that measure"} else {0, 1, 2}
        )


def test_panels_of_grafana_lie_in_its_grid_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    model = grafana_dashboard(plan_prometheus_dashboard([TRAINERS, replace(TRAINERS, mig=True)]), title="llama")
    assert [panel["id"] for panel in model["panels"]] == list(range(1, len(model["panels"]) + 1))
    for panel in model["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])}
        assert not taken & cells
        taken |= cells


def test_prices_are_dated_unknown_or_paid_before() -> None:
    def note(fleet: DashboardFleet) -> str:
        (row,) = [row for row in plan_dashboard([fleet]) if row.title == "Cost"]
        return row.notes[0]

    assert PRICE is not None
    assert note(TRAINERS).endswith(f"list price as of {PRICE.as_of}.")
    assert note(replace(TRAINERS, price=None)) == "trainers: price unknown."
    assert note(replace(TRAINERS, prepaid=True)) == "trainers: paid before use."
    assert "Price of nodes in service" not in panels_of(replace(TRAINERS, prepaid=True))
    assert "Price of nodes in service" not in panels_of(replace(TRAINERS, price=None))
    odd = replace(TRAINERS, price=replace(PRICE, usd=Decimal("0.1")))
    assert panels_of(odd)["Price of nodes in service"].series[0].expression == "0.1 * {metric}"


def test_more_metrics_than_cloudwatch_shows() -> None:
    each = sum(1 if one.expression is None else 2 for panel in panels_of(TRAINERS).values() for one in panel.series)
    most = MOST_METRICS // each
    assert plan_dashboard([TRAINERS] * most)
    with pytest.raises(ConfigError, match=r"GPU-DASH-001.*several dashboards"):
        plan_dashboard([TRAINERS] * (most + 1))


def test_the_construct_takes_tokens(site: Site) -> None:
    fleet = GpuFleet(site.stack, "Fleet", vpc=site.vpc, instance_type="g6.xlarge", node_count=2)
    shown = DashboardFleet(
        name="servers", path=fleet.fleet_path, group_name=fleet.fleet_name, instance_type="g6.xlarge"
    )
    made = ClusterDashboard(site.stack, "Dashboard", fleets=[shown], dashboard_name="llama")
    assert made.node.default_child is made.cfn_dashboard
    found = {name: one for name, one in site.resources().items() if one["Type"] == "AWS::CloudWatch::Dashboard"}
    ((logical_id, resource),) = found.items()
    assert logical_id == "Dashboard9E4231ED"
    assert resource["Properties"]["DashboardName"] == "llama"
    parts = resource["Properties"]["DashboardBody"]["Fn::Join"][1]
    (group,) = [name for name, one in site.resources().items() if one["Type"] == "AWS::AutoScaling::AutoScalingGroup"]
    assert {"Ref": group} in parts
    assert {"Ref": "AWS::Region"} in parts
    body = json.loads("".join(one if isinstance(one, str) else "token" for one in parts))
    assert [one["properties"]["title"] for one in graphs(body)][:2] == [
        "Nodes in service and desired",
        "Unhealthy nodes",
    ]


def test_all_faults_at_once() -> None:
    unknown = replace(TRAINERS, instance_type="p5.unknown")
    local = replace(TRAINERS, ends_at=datetime(2026, 12, 1, 11, 30))  # noqa: DTZ001
    with pytest.raises(ConfigError) as fault:
        plan_dashboard([unknown, TRAINERS, local])
    assert [one.id for one in fault.value.findings] == ["GPU-INST-001", "GPU-CAP-015"]


def test_an_end_in_another_zone_is_shown_in_utc() -> None:
    tokyo = replace(TRAINERS, ends_at=datetime(2026, 12, 1, 20, 30, tzinfo=timezone(timedelta(hours=9))))
    assert plan_dashboard([tokyo]) == plan_dashboard([TRAINERS])


def test_what_a_type_does_not_have_is_left_out() -> None:
    small = DashboardFleet(name="small", path="app/Small", instance_type="g6.xlarge", efa=True, mig=True)
    assert plan_dashboard([small]) == plan_dashboard([replace(small, efa=False, mig=False)])


def test_a_fault_names_the_construct(site: Site) -> None:
    unknown = DashboardFleet(name="servers", path="app/Fleet", instance_type="g6.unknown")
    with pytest.raises(ConfigError, match="Faulty"):
        ClusterDashboard(site.stack, "Faulty", fleets=[unknown])
