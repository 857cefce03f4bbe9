"""The page about the cluster file names every key and every id, and its example is right."""

from __future__ import annotations

import re
from pathlib import Path

from cdk_gpu_clusters.errors import defined_rules
from cdk_gpu_clusters_stacks.spec import load_cluster
from cdk_gpu_clusters_stacks.spec.schema import cluster_schema

PAGE = (Path(__file__).parents[3] / "docs" / "cluster-file.md").read_text(encoding="utf-8")


def test_every_key_is_on_the_page() -> None:
    schema = cluster_schema()
    keys = {key for part in [schema, *schema["$defs"].values()] for key in part.get("properties", {})}
    assert len(keys) > 40
    assert {key for key in keys if not re.search(rf"\b{key}\b", PAGE)} == set()


def test_every_id_is_on_the_page() -> None:
    ids = {rule_id for rule_id in defined_rules() if rule_id.startswith("GPU-SPEC-")}
    assert ids == set(re.findall(r"\| (GPU-SPEC-\d{3}) \|", PAGE))


def test_the_example_is_right(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert example
    file = tmp_path / "cluster.yaml"
    file.write_text(example[1], encoding="utf-8")
    assert load_cluster(file).name == "llama-train"
