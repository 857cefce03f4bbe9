"""The dashboard of Grafana: each query answered by a real Prometheus that has the simulated day, and by Grafana's models."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard as grafana
from grafana_foundation_sdk.models import units

from cdk_gpu_clusters import DashboardFleet, Exporter
from cdk_gpu_clusters.catalogue.prices import newest_price
from cdk_gpu_clusters.node.gpunode.metrics import names
from cdk_gpu_clusters.node.gpunode.metrics.record import record
from cdk_gpu_clusters.observability.exporter_panels import exporter_rows
from cdk_gpu_clusters.observability.grafana_dashboard import grafana_dashboard
from cdk_gpu_clusters.observability.panels import plan_prometheus_dashboard
from dashboard_picture import Points, grafana_svg
from prometheus_server import Server, load, running, scraped
from simulated_day import FLEET, MINUTES, NODES, START, simulated_day

PICTURE = Path(__file__).parents[2] / "docs" / "drawings" / "grafana.svg"
PRICE = newest_price("p5.48xlarge", "us-east-1")
TRAINERS = DashboardFleet(
    name="trainers",
    path=FLEET,
    instance_type="p5.48xlarge",
    efa=True,
    lustre=True,
    ends_at=datetime(2026, 12, 1, 11, 30, tzinfo=UTC),
    price=PRICE,
)
SPLIT = DashboardFleet(name="split", path='app/"Split"', instance_type="p5.48xlarge", whole_gpus=False, mig=True)


#: A minute of each exporter, with the names and labels of the sources that `exporter_rows` names.
EXPORTED = {
    Exporter.DCGM: """\
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-1",GPU_I_ID="1",GPU_I_PROFILE="3g.40gb",fleet="llama/Fleet"} 0.25
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-1",GPU_I_ID="2",GPU_I_PROFILE="3g.40gb",fleet="llama/Fleet"} 0.75
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-1",fleet="llama/Fleet"} 0.4
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-1",fleet="llama/Fleet"} 0.5
DCGM_FI_PROF_PCIE_TX_BYTES{gpu="0",UUID="GPU-1"} 1e9
DCGM_FI_PROF_PCIE_RX_BYTES{gpu="0",UUID="GPU-1"} 2e9
DCGM_FI_PROF_NVLINK_TX_BYTES{gpu="0",UUID="GPU-1",fleet="llama/Fleet"} 3e10
DCGM_FI_PROF_NVLINK_RX_BYTES{gpu="0",UUID="GPU-1",fleet="llama/Fleet"} 4e10""",
    Exporter.SLURMCTLD: """\
slurm_jobs_pending 3
slurm_jobs_running 5
slurm_partition_jobs_pending{partition="train"} 2
slurm_partition_jobs_pending{partition="dev"} 1
slurm_nodes_alloc 4
slurm_nodes_mixed 1
slurm_nodes_idle 2
slurm_nodes_down 0
slurm_nodes_drain 1""",
    Exporter.VLLM: """\
vllm:num_requests_running{engine="0",model_name="assistant"} 8
vllm:num_requests_waiting{engine="0",model_name="assistant"} 2
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.1",model_name="assistant"} MINUTE
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf",model_name="assistant"} MINUTE
vllm:generation_tokens_total{engine="0",model_name="assistant"} MINUTE""",
    Exporter.RAY: """\
ray_tasks{Name="train",State="RUNNING",IsRetry="0"} 7
ray_actors{Name="Worker",State="ALIVE"} 4""",
}


def exported() -> Iterator[str]:
    for text in EXPORTED.values():
        for line in text.splitlines():
            for minute in range(10):
                yield f"{line.replace('MINUTE', str(60 * minute))} {START + 60 * minute}"


def model_of(*fleets: DashboardFleet) -> dict[str, Any]:
    return grafana_dashboard(plan_prometheus_dashboard(fleets), title="llama")


def graphs(model: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["title"]: one for one in model["panels"] if one["type"] == "timeseries"}


@pytest.fixture(scope="module")
def server(promtool: str, prometheus: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder, day = tmp_path_factory.mktemp("day"), simulated_day()
    split = {names.MIG_DEVICES_IN_USE: [5], names.MIG_MEMORY_USED_PERCENT: [40, 60], names.XIDS: [1, 1]}
    with patch("time.time", return_value=START + 3600):
        day.read(record(split, fleet=SPLIT.path, instance_id="i-split"))
    load(promtool, folder, chain(scraped(day), exported()))
    with running(prometheus, folder, {}, "--storage.tsdb.retention.time=100y") as made:
        yield made


def answers(
    server: Server, *, fleet: str = ".*", instance: str = ".*"
) -> Callable[[Mapping[str, Any]], dict[str, Points]]:
    """The lines of a panel, with the variables as a reader chose them."""

    def of(panel: Mapping[str, Any]) -> dict[str, Points]:
        found: dict[str, Points] = {}
        for target in panel["targets"]:
            query = target["expr"].replace("$fleet", fleet).replace("$instance", instance)
            last = START + 60 * (MINUTES - 1)
            for line in server.ask("query_range", query=query, start=str(START), end=str(last), step="60")["result"]:
                legend = re.sub(r"{{(\w+)}}", lambda label: line["metric"].get(label[1], ""), target["legendFormat"])  # noqa: B023
                found[legend] = [(int(second), float(value)) for second, value in line["values"]]
        return found

    return of


@pytest.fixture(scope="module")
def drawn(server: Server) -> dict[str, dict[str, Points]]:
    """The lines of every panel of the fleet that has the simulated day."""
    ask = answers(server, fleet=FLEET)
    return {title: ask(panel) for title, panel in graphs(model_of(TRAINERS)).items()}


def test_every_query_of_every_panel_has_data(drawn: Mapping[str, Mapping[str, Points]]) -> None:
    for title, panel in graphs(model_of(TRAINERS)).items():
        assert len(drawn[title]) == len(panel["targets"]) > 0, title
        assert all(drawn[title].values()), title


def test_every_query_of_a_fleet_with_mig_has_data(server: Server) -> None:
    ask = answers(server)
    found = {title: ask(graphs(model_of(SPLIT))[title]) for title in ("MIG devices in use", "GPU memory")}
    assert found["MIG devices in use"][SPLIT.path][0] == (START + 3600, 5)
    assert found["GPU memory"][f"{SPLIT.path} MIG device"][0] == (START + 3600, 60)


def test_every_query_of_every_exporter_has_data(server: Server) -> None:
    ask, rows = answers(server), exporter_rows(EXPORTED)
    assert [row.title for row in rows] == ["GPU engines", "Slurm", "Model servers", "Ray"]
    found = {}
    for title, panel in graphs(grafana_dashboard(rows, title="llama")).items():
        for target in panel["targets"]:
            lines = ask({"targets": [target]})
            assert any(lines.values()), (title, target["expr"])
        found[title] = {label: dict(points)[START + 300] for label, points in ask(panel).items()}
    assert found["GPU engine active"] == {f"{FLEET} average": 50, f"{FLEET} minimum": 25}
    assert found["NVLink traffic"] == {f"{FLEET} transmitted": 3e10, f"{FLEET} received": 4e10}
    assert found["Jobs"] == {"pending": 3, "running": 5}
    assert found["Pending jobs of partitions"] == {"train": 2, "dev": 1}
    assert found["Requests"] == {"assistant running": 8, "assistant waiting": 2}
    assert found["Generated tokens"]["assistant"] == pytest.approx(1)
    assert found["Time to first token"]["assistant 0.5"] == pytest.approx(0.05)
    assert found["Ray tasks"] == {"RUNNING": 7}
    assert exporter_rows([Exporter.GPUNODE, Exporter.NODE]) == ()


def test_a_fleet_is_chosen_where_exporters_name_it(server: Server) -> None:
    panels = graphs(grafana_dashboard(exporter_rows(EXPORTED), title="llama"))
    assert answers(server, fleet=FLEET)(panels["GPU engine active"])
    assert answers(server, fleet=FLEET)(panels["PCIe traffic"]) == {}


def test_the_day_tells_the_story_that_cloudwatch_has(drawn: Mapping[str, Mapping[str, Points]]) -> None:
    def of(title: str, line: str = FLEET) -> list[float]:
        return [value for _, value in drawn[title][line]]

    assert max(of("Unhealthy nodes")) == 1
    assert max(of("Required action")) == 4
    assert round(max(of("Xids"))) == 1
    assert set(of("Nodes that measure")) == {NODES}
    assert of("Time to the end")[0] == 5 * 24 + 11.5
    assert PRICE is not None
    assert of("Price of nodes that measure")[0] == pytest.approx(float(PRICE.usd) * NODES)
    assert 85 < of("GPU utilization", f"{FLEET} minimum")[0] < of("GPU utilization", f"{FLEET} average")[0] < 100


def test_variables_choose_fleets_and_instances(server: Server) -> None:
    panels = graphs(model_of(TRAINERS, SPLIT))
    measured = panels["Nodes that measure"]
    assert set(answers(server)(measured)) == {FLEET, SPLIT.path}
    assert set(answers(server, fleet=FLEET)(measured)) == {FLEET}
    one = answers(server, instance="(i-00000000000000000|i-00000000000000001)")(measured)
    assert {value for _, value in one[FLEET]} == {2}
    assert answers(server, fleet="app/.*")(panels["Time to the end"]) == {}


def test_choices_are_labels_that_prometheus_has(server: Server) -> None:
    source, fleet, instance = model_of(TRAINERS)["templating"]["list"]
    assert (source["type"], source["query"]) == ("datasource", "prometheus")
    for variable, expected in ((fleet, {FLEET, SPLIT.path}), (instance, {f"i-{node:017x}" for node in range(NODES)})):
        match = re.fullmatch(r"label_values\((.+), ([a-z_]+)\)", variable["query"]["query"])
        assert match is not None
        selector = match[1].replace("$fleet", FLEET)
        values = server.ask(
            f"label/{match[2]}/values", **{"match[]": selector, "start": str(START), "end": str(START + 86400)}
        )
        assert set(values) == expected


def test_a_path_in_quotes_is_one_string(server: Server) -> None:
    priced = replace(SPLIT, price=PRICE)
    assert set(answers(server)(graphs(model_of(priced))["Price of nodes that measure"])) == {SPLIT.path}


def test_the_picture_of_the_docs_is_of_this_model(server: Server) -> None:
    assert grafana_svg(model_of(TRAINERS), answers(server, fleet=FLEET)) == PICTURE.read_text(encoding="utf-8")


# Grafana's own models: a field that they do not know, or that is another type, does not come back.


def lost(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """What differs from what the models read and wrote, beside defaults that they add."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from lost(value, theirs[key], f"{path}.{key}") if key in theirs else [f"{path}.{key}"]
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from lost(one, other, f"{path}[{index}]")
    elif ours != theirs:
        yield path


def read_by_grafana(model: Mapping[str, Any]) -> Any:
    register_default_plugins()
    return json.loads(JSONEncoder(sort_keys=True).encode(grafana.Dashboard.from_json(deepcopy(dict(model)))))


def test_grafanas_models_know_every_field() -> None:
    model = grafana_dashboard((*plan_prometheus_dashboard([TRAINERS, SPLIT]), *exporter_rows(EXPORTED)), title="llama")
    assert list(lost(model, read_by_grafana(model))) == []
    assert {one["type"] for one in read_by_grafana(model)["panels"]} == {"row", "text", "timeseries"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"targets": [{"refId": "A", "expression": "up"}]},
        {"fieldConfig": {"defaults": {"units": "percent"}, "overrides": []}},
        {"fieldConfig": {"defaults": {"custom": {"lineWidths": 1}}, "overrides": []}},
        {"options": {"legends": {}}},
    ],
)
def test_grafanas_models_drop_a_field_that_does_not_exist(wrong: Mapping[str, Any]) -> None:
    model = model_of(TRAINERS)
    model["panels"][1] = {**model["panels"][1], **wrong}
    assert list(lost(model, read_by_grafana(model)))


def test_units_are_those_of_grafana() -> None:
    known = {value for value in vars(units).values() if isinstance(value, str)}
    used = {one["fieldConfig"]["defaults"].get("unit") for one in graphs(model_of(TRAINERS, SPLIT)).values()} - {None}
    assert {"percent", "Bps", "celsius", "currencyUSD"} <= used <= known
