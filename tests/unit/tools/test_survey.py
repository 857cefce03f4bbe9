"""The survey of public templates, over small repositories that the tests make."""

from __future__ import annotations

import importlib
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from cdk_gpu_clusters.template_rules.registry import every_rule

ROOT = Path(__file__).parents[3]
NAME = "someone/templates"
NODES = """\
AWSTemplateFormatVersion: "2010-09-09"
Description: a sentence of the author
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        ImageId: ami-0123456789abcdef0
        TagSpecifications: [{ResourceType: instance, Tags: [{Key: job, Value: train}]}]
        MetadataOptions: {HttpTokens: optional}
"""
KEY = "Resources/Nodes/Properties/LaunchTemplateData/MetadataOptions/HttpTokens"
BROKEN = "Resources:\n  Nodes:\n    Type: AWS::EC2::LaunchTemplate\n    Properties: {{ properties }\n"
SECRET = "Resources:\n  limits: {cpu: 1}\nkind: Deployment\n"

Run = Callable[..., int]


@pytest.fixture
def survey(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("survey")


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", *identity, "-C", str(folder), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit_of(folder: Path, **files: str) -> str:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_yaml", ".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "templates")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    git(folder, "init", "--quiet")
    return folder


def judged(path: str = KEY, verdict: str = "true finding") -> dict[str, object]:
    return {
        "rule": "GPU-LT-010",
        "verdict": verdict,
        "why": "Tokens are optional.",
        "at": {NAME: {"deep/nodes.yaml": [path]}},
    }


@pytest.fixture
def run(survey: ModuleType, clone: Path, tmp_path: Path) -> Run:
    def run_it(commit: str, *judgements: object, options: tuple[str, ...] = (), given: str = "") -> int:
        data = tmp_path / "judgements.yml"
        data.write_text(yaml.safe_dump({"repositories": {NAME: commit}, "judgements": list(judgements)}))
        page = str(tmp_path / "survey.md")
        arguments = [given or f"{NAME}={clone}", "--data", str(data), "--page", page, *options]
        status: int = survey.main(arguments)
        return status

    return run_it


def test_the_page_tells_what_was_found_and_where_and_nothing_of_the_text(run: Run, clone: Path, tmp_path: Path) -> None:
    commit = commit_of(clone, deep__nodes_yaml=NODES, deployment_yaml=SECRET)
    assert run(commit, judged()) == 0
    page = (tmp_path / "survey.md").read_text(encoding="utf-8")
    assert f"| `{commit[:12]}` | 1 | 1 | 0 |" in page
    assert "| `GPU-LT-010` | true | Tokens are optional. | `deep/nodes.yaml` 11 |" in page
    assert "sentence of the author" not in page


def test_a_false_positive_is_counted_as_one(run: Run, clone: Path, tmp_path: Path) -> None:
    commit = commit_of(clone, deep__nodes_yaml=NODES)
    assert run(commit, judged(verdict="false positive")) == 0
    page = (tmp_path / "survey.md").read_text(encoding="utf-8")
    assert "| `GPU-LT-010` | warning | 0 | 1 | 0 |" in page


def test_a_finding_that_nobody_judged_is_an_error(
    run: Run, clone: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(commit_of(clone, deep__nodes_yaml=NODES)) == 1
    assert capsys.readouterr().err == f"not judged: {NAME} deep/nodes.yaml:11 GPU-LT-010 {KEY}\n"
    assert not (tmp_path / "survey.md").exists()


def test_a_judgement_of_what_is_not_found_is_an_error(
    run: Run, clone: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit = commit_of(clone, deep__nodes_yaml=NODES)
    assert run(commit, judged(), judged("Resources/Gone")) == 1
    assert capsys.readouterr().err == f"judged, but not found: {NAME} deep/nodes.yaml GPU-LT-010 Resources/Gone\n"


def test_the_commit_is_read_whatever_is_checked_out(run: Run, clone: Path, tmp_path: Path) -> None:
    commit = commit_of(clone, deep__nodes_yaml=NODES)
    commit_of(clone, deep__nodes_yaml=NODES.replace("optional", "required"), other_yaml=NODES)
    (clone / "deep" / "nodes.yaml").write_text("changed", encoding="utf-8")
    assert run(commit, judged()) == 0
    bare = tmp_path / "bare.git"
    git(clone, "clone", "--quiet", "--bare", str(clone), str(bare))
    assert run(commit, judged(), given=f"{NAME}={bare}") == 0


def test_a_file_that_cannot_be_read_is_one_line(run: Run, clone: Path, tmp_path: Path) -> None:
    assert run(commit_of(clone, broken_yaml=BROKEN)) == 0
    page = (tmp_path / "survey.md").read_text(encoding="utf-8")
    assert f"| {NAME} | `broken.yaml:5` | this is not YAML" in page
    assert page.count("broken.yaml") == 1


def test_check_compares_and_writes_nothing(run: Run, clone: Path, tmp_path: Path) -> None:
    commit = commit_of(clone, deep__nodes_yaml=NODES)
    assert run(commit, judged(), options=("--check",)) == 1
    assert not (tmp_path / "survey.md").exists()
    assert run(commit, judged()) == 0
    assert run(commit, judged(), options=("--check",)) == 0


@pytest.mark.parametrize(
    ("commit", "given", "judgement", "said"),
    [
        ("", "other/name=.", judged(), f"{NAME} is surveyed: give {NAME}=PATH"),
        ("0" * 40, "", judged(), "not a tree object"),
        ("", f"{NAME}=/nowhere", judged(), "/nowhere"),
        ("", "", judged(verdict="maybe"), "true finding or false positive"),
    ],
    ids=["a repository is not given", "no such commit", "no such folder", "no such verdict"],
)
def test_what_cannot_be_surveyed_is_said_in_one_line(
    run: Run,
    clone: Path,
    capsys: pytest.CaptureFixture[str],
    commit: str,
    given: str,
    judgement: object,
    said: str,
) -> None:
    made = commit_of(clone, deep__nodes_yaml=NODES)
    assert run(commit or made, judgement, given=given) == 2
    error = capsys.readouterr().err
    assert error.startswith("survey: ")
    assert said in error
    assert error.count("\n") == 1


def test_the_committed_page_is_that_of_the_committed_judgements(survey: ModuleType) -> None:
    """The templates are not here; but rules, commits and the number of true findings are told by both."""
    committed = survey.read_survey(survey.DATA)
    page = survey.PAGE.read_text(encoding="utf-8")
    assert {key.rule for key in committed.judgements} <= {rule.id for rule in every_rule()}
    for name, commit in committed.commits.items():
        verdicts = [one.is_true for key, one in committed.judgements.items() if key.repository == name]
        [row] = [line for line in page.splitlines() if line.startswith(f"| [{name}](")]
        cells = [cell.strip() for cell in row.split("|")]
        assert f"/tree/{commit})" in cells[1]
        assert cells[4:6] == [str(sum(verdicts)), str(len(verdicts) - sum(verdicts))]
    for judgement in committed.judgements.values():
        assert judgement.why in page
