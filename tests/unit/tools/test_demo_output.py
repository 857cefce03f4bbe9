"""What the demonstration makes of `cdk diff` and of a cloud assembly."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOOLS = Path(__file__).parents[3] / "tools"
LONG = "x" * 200
DIFF = f"""\
start: Building network Template
Stack network (aws://123456789012/us-east-1)
There were no differences

Stack fleet (aws://123456789012/us-east-1)
Resources
[~] AWS::AutoScaling::AutoScalingGroup Fleet Fleet30813DF3 may be replaced
 ├─ [~] MaxSize
 │   ├─ [-] 4
 │   └─ [+] 6
 └─ [+] Cooldown
[~] AWS::EC2::LaunchTemplate Template
 └─ [~] LaunchTemplateData
     └─ [~] .UserData:
         └─ @@ -1,2 +1,2 @@
            [ ]   "same"
            [-]   "{LONG}SLOTS=56{LONG}"
            [+]   "{LONG}SLOTS=16{LONG}"
[-] AWS::Logs::LogGroup Old destroy

✨  Number of stacks with differences: 1
"""


@pytest.fixture(name="load")
def _load(monkeypatch: pytest.MonkeyPatch) -> Any:
    def load(name: str) -> ModuleType:
        monkeypatch.syspath_prepend(str(TOOLS))
        return importlib.import_module(name)

    return load


def test_a_diff_is_cut_to_what_differs(load: Any) -> None:
    lines = list(load("_demo_diff").changes(DIFF))
    assert lines[0] == "stack fleet", "stacks without differences are left out"
    assert [line.strip() for line in lines[2:5]] == ["├─ [~] MaxSize", "[-] 4", "[+] 6"]
    assert "SLOTS=56" in lines[-3]
    assert "SLOTS=16" in lines[-2]
    assert lines[-1].strip() == "[-] AWS::Logs::LogGroup Old destroy"
    assert max(map(len, lines)) < 120


def test_what_data_stand_in_is_kept_with_them(load: Any, tmp_path: Path) -> None:
    def stack(name: str, *dependencies: str, protected: bool = False, kind: str = "AWS::S3::Bucket") -> dict[str, Any]:
        kept = {"Type": kind, "DeletionPolicy": "Retain"}
        (tmp_path / f"{name}.json").write_text(json.dumps({"Resources": {"Kept": kept, "Gone": {}}}))
        return {
            "type": "aws:cloudformation:stack",
            "dependencies": [*dependencies, f"{name}.assets"],
            "properties": {"templateFile": f"{name}.json", "terminationProtection": protected},
        }

    artifacts = {
        "vpc": stack("vpc"),
        "subnets": stack("subnets", "vpc"),
        "data": stack("data", "subnets", protected=True),
        "fleet": stack("fleet", "subnets", "data"),
        "reserved": stack("reserved", protected=True, kind="AWS::EC2::CapacityReservation"),
        "fleet.assets": {"type": "cdk:asset-manifest"},
    }
    (tmp_path / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    found = load("_demo_destroy").read_assembly(tmp_path)
    assert found.protected == {"data"}
    assert found.needed == {"vpc", "subnets"}
    assert found.paid == {"reserved"}
    assert found.others == ["fleet", "reserved"]
    assert ("fleet", "Kept") in found.retained
    assert ("fleet", "Gone") not in found.retained
