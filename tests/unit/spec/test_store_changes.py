"""Changes of a deployed cluster file: what would replace a store is refused at its line, before anything is deployed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.spec import load_cluster, read_cluster
from cluster_files.store_edits import CLUSTER, HARMFUL, HARMLESS, edited


@pytest.fixture
def deployed(tmp_path: Path) -> Path:
    file = tmp_path / "deployed.yaml"
    file.write_text(CLUSTER, encoding="utf-8")
    return file


def errors(text: str, deployed: Path) -> list[str]:
    file = deployed.with_name("cluster.yaml")
    file.write_text(text, encoding="utf-8")
    found = read_cluster(file, deployed=load_cluster(deployed)).findings
    wrong = [one for one in found if one.severity.value == "error"]
    assert all(one.fix for one in wrong)
    return [f"{one.path.removeprefix(f'{file}:')} {one.id}" for one in wrong]


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_edit_is_accepted(name: str, deployed: Path) -> None:
    assert errors(edited(*HARMLESS[name]), deployed) == []


@pytest.mark.parametrize("name", HARMFUL)
def test_an_edit_that_would_replace_a_store_is_refused(name: str, deployed: Path) -> None:
    before, after, found = HARMFUL[name]
    assert ", ".join(errors(edited(before, after), deployed)) == found


def test_the_command_refuses_it_and_says_what_to_do(deployed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = deployed.with_name("cluster.yaml")
    file.write_text(edited(", efa: true }", ", efa: false }"), encoding="utf-8")
    assert main(["check", str(file)]) == 0
    capsys.readouterr()
    assert main(["check", "--deployed", str(deployed), str(file)]) == 1
    shown = capsys.readouterr().err
    assert f"{file}:11:83: error GPU-LUS-030: data.fast.lustre.efa: efa would replace the file system" in shown
    assert "define a second file system beside it" in shown


def test_a_deployed_file_that_cannot_be_read_is_an_error(deployed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--deployed", str(deployed.with_name("absent.yaml")), str(deployed)]) == 2
    assert "GPU-SPEC-001" in capsys.readouterr().err


def test_a_cluster_without_stores_may_change_in_any_way(deployed: Path) -> None:
    start, end = CLUSTER.index("data:"), CLUSTER.index("training:")
    bare = re.sub(r", (checkpoints: checkpoints|mounts: {[^}]*})", "", CLUSTER[:start] + CLUSTER[end:])
    deployed.write_text(bare, encoding="utf-8")
    assert errors(bare.replace("us-east-1", "us-west-2").replace("name: lab", "name: other"), deployed) == []
