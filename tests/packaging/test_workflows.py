"""Workflows of GitHub: least permissions, and no token for PyPI. `make lint-workflows` checks the rest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdk_gpu_clusters._version import REPOSITORY_URL

GITHUB = Path(__file__).resolve().parents[2] / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))


def read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return found


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job.get("steps", [])]


def test_there_are_workflows_for_tests_documentation_and_releases() -> None:
    assert [file.stem for file in WORKFLOWS] == ["docs", "release", "test"]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_pinned_actions_name_their_version(file: Path) -> None:
    """Dependabot updates the comment; zizmor requires the pin (`make lint-workflows`)."""
    uses = re.findall(r"uses: (\S+)(.*)", file.read_text(encoding="utf-8"))
    assert uses
    for action, comment in uses:
        if not action.startswith("./"):
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.stem)
def test_no_job_has_rights_that_it_does_not_name(file: Path) -> None:
    workflow = read(file)
    assert workflow["permissions"] in ({}, {"contents": "read"})
    assert "secrets." not in file.read_text(encoding="utf-8")


def test_only_the_publishing_job_can_prove_who_it_is_and_it_runs_nothing_else() -> None:
    jobs = read(GITHUB / "workflows" / "release.yml")["jobs"]
    with_token = [name for name, job in jobs.items() if "id-token" in job.get("permissions", {})]
    assert with_token == ["publish"]
    publish = jobs["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"]["name"].startswith("pypi-")
    assert not [step for step in publish["steps"] if "checkout" in step.get("uses", "")]
    first, second = (one["distribution"] for one in publish["strategy"]["matrix"]["include"])
    assert (first, second) == ("gpu-clusters", "cdk-gpu-clusters")


def test_workflows_run_targets_that_exist() -> None:
    makefile = (GITHUB.parent / "Makefile").read_text(encoding="utf-8")
    commands = [step["run"] for file in WORKFLOWS for step in steps(read(file)) if "run" in step]
    targets = {target for command in commands for target in re.findall(r"\bmake ([a-z-]+)", command)}
    assert targets == {"docs", "lint", "test", "wheel"}
    assert [target for target in targets if not re.search(rf"(?m)^{target}: ", makefile)] == []


def test_templates_name_this_repository() -> None:
    config = read(GITHUB / "ISSUE_TEMPLATE" / "config.yml")
    assert config["contact_links"][0]["url"] == f"{REPOSITORY_URL}/security/advisories/new"
    for file in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml"):
        assert read(file)
