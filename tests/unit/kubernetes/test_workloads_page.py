"""The manifests on the page about jobs and model servers are parts of what its Python writes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from kubernetes_pools import check_everywhere
from pages import REPOSITORY, blocks, run_by

PAGE = REPOSITORY / "docs" / "eks-workloads.md"
PARTS = [yaml.safe_load(block.text) for block in run_by(__file__)]


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What the page's Python prints."""
    exec(compile("\n".join(blocks(PAGE, "python")), PAGE.name, "exec"), {})  # noqa: S102 - our own page
    text = capsys.readouterr().out
    # Each call prints a file of its own.
    return [one for one in yaml.safe_load_all(text.replace("\n\napiVersion", "\n---\napiVersion")) if one]


def is_part(part: Any, whole: Any) -> bool:
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(key in whole and is_part(part[key], whole[key]) for key in part)
    if isinstance(part, list):
        return isinstance(whole, list) and all(any(is_part(one, other) for other in whole) for one in part)
    return bool(part == whole)


def test_every_manifest_on_the_page_is_part_of_one_that_is_written(written: list[dict[str, Any]]) -> None:
    check_everywhere(written)
    assert len(PARTS) >= 10
    assert [part for part in PARTS if not any(is_part(part, whole) for whole in written)] == []


def test_the_page_shows_a_manifest_of_each_function(written: list[dict[str, Any]]) -> None:
    shown = {part["kind"] for part in PARTS}
    assert shown >= {
        "ClusterQueue",
        "JobSet",
        "Job",
        "Workflow",
        "Deployment",
        "LeaderWorkerSet",
        "PersistentVolume",
        "RayJob",
    }
    assert shown <= {one["kind"] for one in written}
