"""`gpu-clusters dashboard`: what it writes, when it refuses, and the names that its queries choose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters import GpuFleet
from cdk_gpu_clusters_stacks.app import build_cluster
from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.plan import scraped_fleets
from cdk_gpu_clusters_stacks.spec import load_cluster

REPOSITORY = Path(__file__).resolve().parents[3]
CLUSTER = """\
version: 1
name: lab
region: us-east-1
network: { availability_zone: us-east-1a }
training:
  fleets:
    trainers: { instance_type: p5.48xlarge, nodes: 2, capacity: { capacity_block: cr-0123456789abcdef0, ends_at: "2036-12-01T11:30:00Z" } }
    unwatched: { instance_type: g6.xlarge, nodes: 1, capacity: on_demand, watch: { mode: "off" } }
"""
SCRAPED = f"{CLUSTER}monitoring: {{ metrics: {{}} }}\n"


def written(folder: Path, text: str, *options: str) -> int:
    file = folder / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    return main(["dashboard", str(file), "-o", str(folder / "grafana.json"), *options])


def test_the_file_has_the_fleets_that_are_scraped(tmp_path: Path) -> None:
    assert written(tmp_path, SCRAPED) == 0
    text = (tmp_path / "grafana.json").read_text("utf-8")
    model = json.loads(text)
    assert (model["title"], model["uid"]) == ("lab", "lab")
    titles = [panel.get("title") for panel in model["panels"]]
    assert {"GPU utilization", "EFA traffic", "Time to the end"} <= set(titles)
    assert "lab-fleet-trainers/Fleet" in text
    assert "unwatched" not in text


def test_rows_of_exporters_are_there_only_with_them(tmp_path: Path) -> None:
    def rows(name: str, exporters: str) -> list[str]:
        folder = tmp_path / name
        folder.mkdir()
        assert written(folder, f"{CLUSTER}monitoring: {{ metrics: {{ exporters: {exporters} }} }}\n") == 0
        model = json.loads((folder / "grafana.json").read_text("utf-8"))
        return [panel["title"] for panel in model["panels"] if panel["type"] == "row"]

    assert rows("none", "[]") == rows("node", "[node]")
    assert rows("dcgm", "[dcgm]") == [*rows("again", "[]"), "GPU engines"]


def test_nodes_and_slurm_are_shown_on_pcs(tmp_path: Path) -> None:
    text = SCRAPED.replace("us-east-1a }", "us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }")
    assert written(tmp_path, f"{text}orchestrator: pcs\npcs: {{ metrics: true }}\n") == 0
    model = json.loads((tmp_path / "grafana.json").read_text("utf-8"))
    rows = [panel["title"] for panel in model["panels"] if panel["type"] == "row"]
    assert rows == ["Nodes", "GPUs", "EFA", "Capacity", "Cost", "Slurm"]
    assert "lab-fleet-trainers/Nodes" in json.dumps(model["panels"])


def test_standard_output_is_the_same_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert written(tmp_path, SCRAPED) == 0
    capsys.readouterr()
    assert main(["dashboard", str(tmp_path / "cluster.yaml"), "-o", "-"]) == 0
    assert capsys.readouterr().out == (tmp_path / "grafana.json").read_text("utf-8")


def test_on_eks_fleets_and_the_dcgm_exporter_are_shown(tmp_path: Path) -> None:
    text = SCRAPED.replace("us-east-1a }", "us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }")
    assert written(tmp_path, f"{text}orchestrator: eks\n") == 0
    model = json.loads((tmp_path / "grafana.json").read_text("utf-8"))
    rows = [panel["title"] for panel in model["panels"] if panel["type"] == "row"]
    assert rows[:2] == ["Nodes", "GPUs"]
    assert rows[-1] == "GPU engines"
    assert "lab-fleet-trainers/Nodes" in json.dumps(model["panels"])


@pytest.mark.parametrize("text", [CLUSTER, f"{CLUSTER}orchestrator: eks\n"])
def test_a_cluster_that_is_not_scraped_has_none(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        written(
            tmp_path, text.replace("us-east-1a }", "us-east-1a, control_availability_zones: [us-east-1a, us-east-1b] }")
        )
        == 2
    )
    assert "nothing is scraped for Prometheus" in capsys.readouterr().err
    assert not (tmp_path / "grafana.json").exists()


def test_a_file_that_is_there_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "grafana.json").write_text("mine\n")
    assert written(tmp_path, SCRAPED) == 2
    assert "--force" in capsys.readouterr().err
    assert (tmp_path / "grafana.json").read_text() == "mine\n"
    assert written(tmp_path, SCRAPED, "--force") == 0
    assert (tmp_path / "grafana.json").read_text() != "mine\n"


def test_the_cluster_file_stays(tmp_path: Path) -> None:
    assert written(tmp_path, SCRAPED) == 0
    file = tmp_path / "cluster.yaml"
    assert main(["dashboard", str(file), "-o", str(file), "--force"]) == 2
    assert file.read_text("utf-8") == SCRAPED


def test_paths_are_those_of_the_constructs(tmp_path: Path, app_factory: Any) -> None:
    text = (REPOSITORY / "examples" / "train-and-serve.yaml").read_text("utf-8")
    file = tmp_path / "cluster.yaml"
    file.write_text(text.replace("monitoring:\n", "monitoring:\n  metrics: {}\n"), encoding="utf-8")
    cluster, app = load_cluster(file), app_factory()
    build_cluster(app, cluster)
    made = {one.fleet_path for one in app.node.find_all() if isinstance(one, GpuFleet)}
    paths = {fleet.path for fleet in scraped_fleets(cluster)}
    assert len(paths) == 2
    assert paths <= made
