"""`gpu-clusters export`: what it writes, keeps and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.cli.main import main

_EXAMPLES = Path(__file__).parents[3] / "examples"
_RESERVED = _EXAMPLES / "p6-b300-existing-reservation.yaml"
_MADE = _EXAMPLES / "p5en-spot.yaml"
_SPLIT = _EXAMPLES / "pcs-p4d-mig.yaml"


def export(file: Path, folder: Path, *options: str) -> int:
    return main(["export", "--to", "pcluster", str(file), "-o", str(folder), *options])


def test_a_configuration_with_its_scripts_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(_RESERVED, tmp_path / "out", "--scripts", "s3://my-bucket/pretrain") == 0
    written = {path.relative_to(tmp_path / "out").parts[0] for path in (tmp_path / "out").rglob("*")}
    assert written >= {"cluster-config.yaml", "scripts"}
    printed = capsys.readouterr().out
    assert str(tmp_path / "out" / "cluster-config.yaml") in printed
    assert "s3://my-bucket/pretrain/head-node.sh" in (tmp_path / "out" / "cluster-config.yaml").read_text()


def test_a_second_run_keeps_what_was_changed(tmp_path: Path) -> None:
    assert export(_RESERVED, tmp_path) == 0
    file = tmp_path / "cluster-config.yaml"
    file.write_text(file.read_text().replace("m7i.xlarge", "m7i.4xlarge"))
    assert export(_RESERVED, tmp_path) == 0
    assert "m7i.4xlarge" in file.read_text()


def test_a_file_of_somebody_else_stays(tmp_path: Path) -> None:
    (tmp_path / "cluster-config.yaml").write_text("mine\n")
    assert export(_RESERVED, tmp_path) == 2
    assert (tmp_path / "cluster-config.yaml").read_text() == "mine\n"
    assert export(_RESERVED, tmp_path, "--force") == 0


def test_what_is_refused_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(_SPLIT, tmp_path / "out") == 2
    assert "GPU-PCL-003" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_refusals_have_their_place_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(_SPLIT, tmp_path / "out", "--json") == 2
    found = {one["id"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    line = found["GPU-PCL-003"]["line"]
    assert "mig" in _SPLIT.read_text().splitlines()[line - 1]


def test_files_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(_RESERVED, tmp_path / "out", "--json") == 0
    assert set(json.loads(capsys.readouterr().out)) == {"cluster-config.yaml"}
    assert not (tmp_path / "out").exists()


def test_ids_of_a_deployment_are_read_from_its_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(_MADE, tmp_path / "out") == 2
    assert "--outputs-file" in capsys.readouterr().err
    outputs = tmp_path / "outputs.json"
    outputs.write_text(json.dumps({"finetune-network": {"FleetSubnetId": "subnet-0123456789abcdef0"}}))
    assert export(_MADE, tmp_path / "out", "--outputs", str(outputs)) == 0
    assert "subnet-0123456789abcdef0" in (tmp_path / "out" / "cluster-config.yaml").read_text()


@pytest.mark.parametrize(
    "options",
    [
        ("--scripts", "my-bucket"),
        ("--security-group", "default"),
        ("--volume", "home"),
        ("--volume", "home=vol-1"),
        ("--outputs", "no-such-file.json"),
        ("-o", "-"),
    ],
)
def test_wrong_options_are_refused_in_words(
    tmp_path: Path, options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(_RESERVED, tmp_path / "out", *options) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1}', '{"a": {"b": 1}}', "{"])
def test_a_file_without_outputs_is_refused(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    outputs = tmp_path / "outputs.json"
    outputs.write_text(text)
    assert export(_MADE, tmp_path / "out", "--outputs", str(outputs)) == 2
    assert "holds no outputs of stacks" in capsys.readouterr().err


def test_a_tool_that_is_not_known_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--to", "terraform", str(_RESERVED)]) == 2
    assert "pcluster" in capsys.readouterr().err
