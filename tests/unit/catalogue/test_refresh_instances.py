"""The refresh tool: a diff per type and field, and data files that only it writes."""

import gzip
import importlib
import json
import shutil
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any

import moto
import pytest

from cdk_gpu_clusters.catalogue._files import DATA

TOOLS = Path(__file__).parents[3] / "tools"
RECORDED = json.loads(
    gzip.decompress((Path(moto.__file__).parent / "ec2" / "resources" / "instance_types.json.gz").read_bytes())
)


@pytest.fixture(name="tool")
def _tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("refresh_instances")


@pytest.fixture(name="data")
def _data(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA, tmp_path / "data"))


def saved(folder: Path, *elements: dict[str, Any]) -> str:
    file = folder / "saved.json"
    file.write_text(json.dumps({"InstanceTypes": elements}), encoding="utf-8")
    return str(file)


def rows(data: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((data / "ec2_instance_types.json").read_text(encoding="utf-8"))
    return content


def test_the_catalogue_is_what_moto_recorded(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["--check"]) == 0
    assert capsys.readouterr().out.startswith("0 differences")


def test_a_changed_value_is_told_by_type_and_field(
    tool: ModuleType, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = deepcopy(RECORDED["p5.48xlarge"])
    changed["VCpuInfo"]["DefaultVCpus"] = 193
    changed["NetworkInfo"]["MaximumNetworkInterfaces"] = 65
    file = saved(tmp_path, changed, RECORDED["p4d.24xlarge"])
    before = rows(data)

    assert tool.main(["--data", str(data), "--file", file, "--check"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[:2] == [
        "~ p5.48xlarge network.max_interfaces: 64 -> 65",
        "~ p5.48xlarge vcpus: 192 -> 193",
    ]
    assert rows(data) == before, "--check writes nothing"

    assert tool.main(["--data", str(data), "--file", file]) == 0
    after = rows(data)
    assert after["types"]["p5.48xlarge"]["vcpus"] == 193
    assert "saved.json" in after["source"]
    assert after["types"].keys() == before["types"].keys(), "one Region's output removes nothing"
    assert tool.main(["--data", str(data), "--file", file, "--check"]) == 0


def test_one_odd_card_among_equal_ones_is_told(tool: ModuleType, data: Path, tmp_path: Path) -> None:
    changed = deepcopy(RECORDED["p5.48xlarge"])
    changed["NetworkInfo"]["NetworkCards"][7]["InterfaceTypes"] = ["interface"]
    tool.main(["--data", str(data), "--file", saved(tmp_path, changed)])
    cards = rows(data)["types"]["p5.48xlarge"]["network"]["cards"]
    assert [(card["from"], card["to"]) for card in cards] == [(0, 6), (7, 7), (8, 31)]
    assert cards[1]["interface_types"] == ["interface"]


def test_a_new_size_comes_in_and_a_foreign_family_stays_out(
    tool: ModuleType, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new_size = {**deepcopy(RECORDED["p5.48xlarge"]), "InstanceType": "p5.24xlarge"}
    metal = {**deepcopy(RECORDED["m7i.48xlarge"]), "InstanceType": "m7i.metal-48xl", "BareMetal": True}
    foreign = {**deepcopy(RECORDED["p5.48xlarge"]), "InstanceType": "p9.48xlarge"}
    tool.main(["--data", str(data), "--file", saved(tmp_path, new_size, metal, foreign)])
    out = capsys.readouterr().out
    assert "+ p5.24xlarge" in out
    assert "? p9.48xlarge is accelerated and its family is not in scope.json" in out
    assert not {"m7i.metal-48xl", "p9.48xlarge"} & rows(data)["types"].keys()


def test_a_documented_type_that_gets_api_output_is_pointed_out(
    tool: ModuleType, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now_recorded = {**deepcopy(RECORDED["p5.48xlarge"]), "InstanceType": "p6e-gb200.36xlarge"}
    tool.main(["--data", str(data), "--file", saved(tmp_path, now_recorded), "--check"])
    assert "? p6e-gb200.36xlarge has API output now" in capsys.readouterr().out


def test_moto_s_complete_output_removes_what_is_gone_and_restores_what_was_edited(
    tool: ModuleType, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = data / "ec2_instance_types.json"
    original = file.read_text(encoding="utf-8")
    edited = json.loads(original)
    edited["types"]["p5.47xlarge"] = edited["types"]["p5.48xlarge"]
    edited["types"]["p4d.24xlarge"] = {**edited["types"]["p4d.24xlarge"], "vcpus": 1}
    file.write_text(json.dumps(edited), encoding="utf-8")
    assert tool.main(["--data", str(data)]) == 0
    out = capsys.readouterr().out
    assert "- p5.47xlarge" in out
    assert "~ p4d.24xlarge vcpus: 1 -> 96" in out
    assert file.read_text(encoding="utf-8") == original, "the file is written exactly as it is kept"


def test_changed_offerings_are_told(tool: ModuleType, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = data / "ec2_offerings.json"
    original = file.read_text(encoding="utf-8")
    edited = json.loads(original)
    edited["types"]["p5.48xlarge"]["us-east-1"] = "1 2"
    file.write_text(json.dumps(edited), encoding="utf-8")
    assert tool.main(["--data", str(data)]) == 0
    assert "~ p5.48xlarge us-east-1: 1 2 -> 1 2 3 4 5 6 (offering)" in capsys.readouterr().out
    assert file.read_text(encoding="utf-8") == original


def test_a_live_account_is_asked_in_pages(
    tool: ModuleType, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    scope = json.loads((data / "scope.json").read_text(encoding="utf-8"))
    scope["cpu"] = ["c7i", "m7i", "r7i"]  # moto renders slowly: just over one page of a hundred
    (data / "scope.json").write_text(json.dumps(scope), encoding="utf-8")
    with moto.mock_aws():
        assert tool.main(["--data", str(data), "--live", "--region", "us-east-1", "--check"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("0 differences")
    assert last.endswith("DescribeInstanceTypes in us-east-1")
    assert int(last.split()[2]) > 100, "every page was read"


@pytest.mark.parametrize(
    "wrong", [["--live"], ["--region", "us-east-1"], ["--live", "--region", "us-east-1", "--file", "x.json"]]
)
def test_options_that_do_not_go_together(tool: ModuleType, wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        tool.main(wrong)
