"""Real Helm reads the values of every release as they were written: through YAML, and through the JSON of CDK."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from cdk_gpu_clusters.kubernetes.software import ChartRelease
from chart_renderings import cases

RELEASES = [*cases()["every kind of node"], *cases()["Slurm"]]


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chart of one object that holds the values it was given."""
    chart = tmp_path_factory.mktemp("echo")
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: echo\nversion: 1.0.0\n")
    (chart / "values.yaml").write_text("{}\n")
    (chart / "templates").mkdir()
    (chart / "templates" / "echo.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: echo\n"
        "data:\n  values: {{ .Values | mustToJson | quote }}\n"
    )
    return chart


@pytest.mark.parametrize("release", RELEASES, ids=[one.name for one in RELEASES])
@pytest.mark.parametrize("form", ["YAML", "JSON"])
def test_values_arrive_as_they_were_written(helm: Path, echo: Path, release: ChartRelease, form: str) -> None:
    values = dict(release.values)
    text = yaml.safe_dump(values) if form == "YAML" else json.dumps(values)
    done = subprocess.run(
        [helm, "template", release.name, echo, "--namespace", release.namespace, "--values", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert json.loads(yaml.safe_load(done.stdout)["data"]["values"]) == values
