"""The page about the cluster file names every key and every id, and the cluster files of all pages are right."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

import pytest

from cdk_gpu_clusters.errors import defined_rules
from cdk_gpu_clusters_stacks.spec import read_cluster
from cdk_gpu_clusters_stacks.spec.schema import cluster_schema
from pages import REPOSITORY, run_by

PAGE = (REPOSITORY / "docs" / "cluster-file.md").read_text(encoding="utf-8")
BLOCKS = [(block.page, block.text) for block in run_by(__file__) if block.language == "yaml"]
SETTINGS = [block.text for block in run_by(__file__) if block.language == "ini"]
WHOLE = [(page, block) for page, block in BLOCKS if re.search(r"^version: 1$", block, re.MULTILINE)]
HEAD = "version: 1\nname: demo\nregion: us-east-1\nnetwork: { availability_zone: us-east-1a }\n"


def test_every_key_is_on_the_page() -> None:
    schema = cluster_schema()
    keys = {key for part in [schema, *schema["$defs"].values()] for key in part.get("properties", {})}
    assert len(keys) > 40
    assert {key for key in keys if not re.search(rf"\b{key}\b", PAGE)} == set()


def test_every_id_is_on_the_page() -> None:
    ids = {rule_id for rule_id in defined_rules() if rule_id.startswith("GPU-SPEC-")}
    assert ids == set(re.findall(r"\| (GPU-SPEC-\d{3}) \|", PAGE))


@pytest.mark.parametrize(("page", "text"), WHOLE)
def test_whole_cluster_files_are_right(page: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text, encoding="utf-8")
    assert [one for one in read_cluster(file).findings if one.severity.value != "info"] == []


def parts_that_start_with(key: str) -> list[tuple[str, str]]:
    """YAML examples on the pages that hold this part of a cluster file, with the name of their page."""
    return [(page, block) for page, block in BLOCKS if block.startswith(f"{key}:")]


@pytest.mark.parametrize(("page", "part"), parts_that_start_with("inference"))
def test_examples_of_inference_fleets_are_right(page: str, part: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(HEAD + part, encoding="utf-8")
    assert [one for one in read_cluster(file).findings if one.severity.value != "info"] == []


@pytest.mark.parametrize(("page", "part"), parts_that_start_with("groups"))
def test_examples_of_users_are_right(page: str, part: str, tmp_path: Path) -> None:
    (tmp_path / "users.yaml").write_text(part, encoding="utf-8")
    file = tmp_path / "cluster.yaml"
    fleet = "training: { fleets: { one-gpu: { instance_type: g6.xlarge, nodes: 1 } } }\n"
    file.write_text(f"{HEAD}orchestrator: pcs\npcs: {{ users: users.yaml }}\n{fleet}", encoding="utf-8")
    assert [one for one in read_cluster(file).findings if one.severity.value != "info"] == []


@pytest.mark.parametrize(("page", "part"), parts_that_start_with("mig"))
def test_examples_of_layouts_are_right(page: str, part: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    size = "p4d.24xlarge" if "1g.5gb" in part else "p5.48xlarge"
    fleet = f"    a:\n      instance_type: {size}\n      nodes: 1\n      capacity: spot\n      efa: false\n      {part}"
    file.write_text(f"{HEAD}training:\n  fleets:\n{fleet}", encoding="utf-8")
    assert read_cluster(file).findings == ()


def test_the_settings_of_a_node_are_a_layout(tmp_path: Path) -> None:
    """`/etc/default/mig`, which cluster files do not show."""
    (settings,) = SETTINGS
    (layout,) = re.findall(r'^MIG_PARTITION="(.*?)"', settings, re.MULTILINE)
    test_examples_of_layouts_are_right("docs/mig.md", f"mig: {layout}", tmp_path)


@pytest.mark.parametrize(("page", "part"), parts_that_start_with("nodes"))
def test_examples_of_fleets_are_right(page: str, part: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    fleet = indent(f"instance_type: p5.48xlarge\n{part}", "      ")
    file.write_text(f"{HEAD}training:\n  fleets:\n    a:\n{fleet}", encoding="utf-8")
    assert read_cluster(file).findings == ()


def test_the_pages_have_such_examples() -> None:
    inference = parts_that_start_with("inference")
    assert {page for page, _ in WHOLE} >= {"docs/cluster-file.md", "docs/eks.md", "docs/jobs.md"}
    assert {page for page, _ in inference} >= {"docs/cluster-file.md"}
    assert len(parts_that_start_with("mig")) == 2
    assert {page for page, _ in parts_that_start_with("nodes")} == {
        "docs/capacity.md",
        "docs/cluster-file.md",
    }


def test_every_example_is_looked_at() -> None:
    looked_at = [
        *WHOLE,
        *parts_that_start_with("inference"),
        *parts_that_start_with("mig"),
        *parts_that_start_with("nodes"),
        *parts_that_start_with("groups"),
    ]
    assert [one for one in BLOCKS if one not in looked_at] == []
