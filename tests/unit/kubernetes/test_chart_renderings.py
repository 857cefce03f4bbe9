"""What records the charts: it finds values that a chart does not know, and every registry that an object names."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.kubernetes.software import ChartRelease
from chart_renderings import cases, registries, render, rendering, summary, unknown_values

VALUES = "image: { repository: a, tag: b }\nnodeSelector: {}\nreplicas: 1\nnames: []\n"
TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata: { name: one, namespace: {{ .Release.Namespace }} }
data: { extra: "{{ .Values.extra.text }}", replicas: "{{ .Values.replicas }}" }
"""


def write_chart(folder: Path, name: str, *, parts: str = "") -> Path:
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(f"apiVersion: v2\nname: {name}\nversion: 1.0.0\n{parts}")
    (folder / "values.yaml").write_text(VALUES)
    (folder / "templates" / "one.yaml").write_text(TEMPLATE)
    return folder


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A chart with a chart in it, once as a folder, once as an archive."""
    parts = "dependencies:\n- { name: inner, alias: nfd, version: 1.0.0 }\n- { name: packed, version: 1.0.0 }\n"
    outer = write_chart(tmp_path / "outer", "outer", parts=parts)
    write_chart(outer / "charts" / "inner", "inner")
    packed = write_chart(tmp_path / "packed", "packed")
    with tarfile.open(outer / "charts" / "packed-1.0.0.tgz", "w:gz") as archive:
        archive.add(packed, "packed")
    return outer


@pytest.mark.parametrize(
    ("values", "unknown"),
    [
        ({"image": {"tag": "c"}, "replicas": 2}, []),
        ({"image": {"digest": "c"}}, ["image.digest"]),
        ({"tolerations": []}, ["tolerations"]),
        ({"nodeSelector": {"any": "key"}}, []),
        ({"extra": {"text": "of a template only"}}, []),
        ({"extra": {"other": "of none"}}, ["extra.other"]),
        ({"nfd": {"image": {"tag": "c"}, "worker": {}}}, ["nfd.worker"]),
        ({"packed": {"replicas": 3, "image": {"digest": "c"}}}, ["packed.image.digest"]),
    ],
)
def test_a_value_that_the_chart_does_not_know_is_told(
    chart: Path, values: Mapping[str, Any], unknown: list[str]
) -> None:
    assert unknown_values(chart, values) == unknown


def made(values: Mapping[str, Any]) -> ChartRelease:
    return ChartRelease(
        name="one",
        namespace="somewhere",
        chart="chart",
        version="1.0.0",
        repository="",
        values=values,
        images=(),
    )


def test_helm_renders_a_release_in_its_namespace_and_says_what_it_cannot(helm: Path, tmp_path: Path) -> None:
    chart = write_chart(tmp_path / "chart", "chart")
    (found,) = render(helm, chart, made({"extra": {"text": "true"}}), "1.35")
    assert found["metadata"]["namespace"] == "somewhere"
    assert found["data"] == {"extra": "true", "replicas": "1"}
    with pytest.raises(ValueError, match="nil pointer evaluating"):
        render(helm, chart, made({}), "1.35")


def test_registries_are_told_wherever_a_text_names_one() -> None:
    found = registries(
        {
            "a": ["image: nvcr.io/nvidia/x:1", {"b": "oci://registry.k8s.io/kueue/charts"}],
            "c": '--image="111122223333.dkr.ecr.eu-west-1.amazonaws.com/x"',
            "d": "eks.amazonaws.com/nodegroup kueue.x-k8s.io/queue-name topology.k8s.aws/zone-id",
            "e": 1,
        }
    )
    assert found == {"nvcr.io", "registry.k8s.io", "111122223333.dkr.ecr.eu-west-1.amazonaws.com"}


def test_a_summary_keeps_what_decides_where_pods_run() -> None:
    pod = {
        "containers": [{"image": "quay.io/a/b:1", "env": [{"name": "NODE_LABEL", "value": "x"}]}],
        "nodeSelector": {"a": "b"},
        "hostNetwork": True,
    }
    told = summary([{"kind": "DaemonSet", "metadata": {"name": "n"}, "spec": {"template": {"spec": pod}}}])
    assert told["registries"] == ["quay.io"]
    assert told["workloads"] == [
        {
            "kind": "DaemonSet",
            "name": "n",
            "resources": {},
            "images": ["quay.io/a/b:1"],
            "variables": {"NODE_LABEL": "x"},
            "nodeSelector": {"a": "b"},
        }
    ]


def test_values_that_were_not_rendered_are_told() -> None:
    release = cases()["every kind of node"][0]
    with pytest.raises(AssertionError, match="not rendered with these values"):
        rendering(made({**release.values, "failOnInitError": True}))
