"""`gpu-clusters lint`: what it prints, in each format, and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters_stacks.cli.main import main

FAULTY = """\
Parameters:
  Zone: {Type: String}
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        MetadataOptions: {HttpTokens: optional}
  Others:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.49xlarge
        MetadataOptions: {HttpTokens: !Ref Zone}
"""
CLEAN = "Resources:\n  Topic: {Type: 'AWS::SNS::Topic'}\n"


@pytest.fixture
def faulty(tmp_path: Path) -> Path:
    file = tmp_path / "faulty.yaml"
    file.write_text(FAULTY)
    return file


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    file = tmp_path / "clean.yaml"
    file.write_text(CLEAN)
    return file


def run(*arguments: object) -> int:
    return main(["lint", *map(str, arguments)])


def findings(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["findings"]
    return found


def test_a_clean_template_exits_0(clean: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(clean) == 0
    assert capsys.readouterr().out == f"1 template, {len(every_rule())} rules: no faults\n"


def test_findings_exit_1_with_path_line_and_fix(faulty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(faulty, "--select", "GPU-LT-010,GPU-INST") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{faulty}:9:27: warning: GPU-LT-010: without tokens")
    assert lines[0].endswith("got optional; allowed: required")
    assert lines[1] == "    at Resources/Nodes/Properties/LaunchTemplateData/MetadataOptions/HttpTokens"
    assert lines[2] == "    fix: set MetadataOptions/HttpTokens to required"
    assert f"{faulty}:14:9: error: GPU-INST-001:" in lines[3]
    assert lines[6] == f"{faulty}:15:27: undecidable: GPU-LT-010: parameter Zone has no default"
    assert lines[-1] == "1 template, 2 rules: 1 error, 1 warning, 1 undecidable"


def test_json_lists_findings(faulty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(faulty, "--format", "json", "--select", "GPU-LT-010") == 1
    first, second = findings(capsys)
    assert {key: first[key] for key in ("id", "severity", "verdict", "resource", "path", "fix", "line", "column")} == {
        "id": "GPU-LT-010",
        "severity": "warning",
        "verdict": "not compliant",
        "resource": "Nodes",
        "path": "Resources/Nodes/Properties/LaunchTemplateData/MetadataOptions/HttpTokens",
        "fix": "set MetadataOptions/HttpTokens to required",
        "line": 9,
        "column": 27,
    }
    assert "got optional" in first["message"]
    assert (second["verdict"], second["resource"]) == ("undecidable", "Others")
    assert "parameter Zone has no default" in second["message"]


def test_sarif_has_the_rules_and_what_is_open(faulty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(faulty, "--format", "sarif", "--select", "GPU-LT-010") == 1
    document = json.loads(capsys.readouterr().out)
    [sarif_run] = document["runs"]
    assert document["version"] == "2.1.0"
    assert [rule["id"] for rule in sarif_run["tool"]["driver"]["rules"]] == ["GPU-LT-010"]
    first, second = sarif_run["results"]
    assert (first["kind"], first["level"]) == ("fail", "warning")
    assert (second["kind"], second["level"]) == ("open", "none")
    assert first["locations"][0]["physicalLocation"]["region"] == {"startLine": 9, "startColumn": 27}


def test_junit_counts_failures(faulty: Path, clean: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(faulty, clean, "--format", "junit", "--select", "GPU-LT-010") == 1
    suites = ET.fromstring(capsys.readouterr().out).findall("testsuite")  # noqa: S314 - written by us
    assert [(s.get("tests"), s.get("failures"), s.get("skipped")) for s in suites] == [
        ("2", "1", "1"),
        ("1", "0", "0"),
    ]
    failure = suites[0].find("testcase/failure")
    assert failure is not None
    assert "9:27" in str(failure.text)


def test_rules_are_chosen_by_id_and_by_prefix(faulty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(faulty, "--format", "json", "--select", "GPU-LT,GPU-INST", "--ignore", "GPU-INST-001") == 1
    assert {one["id"] for one in findings(capsys) if one["verdict"] == "not compliant"} == {"GPU-LT-010"}


def test_an_id_that_is_none_is_refused(clean: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(clean, "--select", "GPU-NONE") == 2
    assert "no rule has an id that starts with 'GPU-NONE'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (("--select", "GPU-LT-010"), 1),
        (("--select", "GPU-LT-010", "--fail-on", "warning"), 1),
        (("--select", "GPU-LT-010", "--fail-on", "error"), 0),
        (("--select", "GPU-LT-010", "--fail-on", "error", "--strict"), 1),
        (("--select", "GPU-INST-001", "--fail-on", "error"), 1),
    ],
)
def test_the_exit_status_is_the_users_choice(faulty: Path, options: tuple[str, ...], status: int) -> None:
    assert run(faulty, *options) == status


def test_one_unusable_file_does_not_hide_the_others(
    faulty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"Resources"')
    assert run(broken, faulty, "--format", "json") == 2
    out, error = capsys.readouterr()
    assert error.startswith(f"{broken}:1:13: this is not JSON")
    assert json.loads(out)["findings"]
    assert json.loads(out)["unusable"][0]["file"] == str(broken)


def test_a_loop_that_is_not_expanded_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its nodes are not looked at: with --strict, the template does not pass."""
    loop = tmp_path / "loop.yaml"
    loop.write_text(CLEAN + "  Fn::ForEach::Fleets: [Name, [a, b], {'${Name}': {Type: 'AWS::EC2::LaunchTemplate'}}]\n")
    assert run(loop) == 0
    told = f"{loop}:3:3: not looked at: Fn::ForEach::Fleets, which only CloudFormation expands\n"
    assert told in capsys.readouterr().out
    assert run(loop, "--strict", "--format", "json") == 1
    assert json.loads(capsys.readouterr().out)["unread"] == [
        {"file": str(loop), "line": 3, "column": 3, "key": "Fn::ForEach::Fleets"}
    ]


def acknowledged(text: str) -> str:
    """The faulty template, accepting what the text says at its first resource."""
    at = "    Type: AWS::EC2::LaunchTemplate\n"
    return FAULTY.replace(at, f"{at}    Metadata: {{cdk_gpu_clusters: {{acknowledge: [{text}]}}}}\n", 1)


def test_metadata_accepts_a_fault_with_a_reason(faulty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    faulty.write_text(acknowledged("{id: GPU-LT-010, reason: an old agent}"))
    assert run(faulty, "--format", "json", "--select", "GPU-LT-010") == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["verdict"] for one in document["findings"]] == ["undecidable"]
    [accepted] = document["acknowledged"]
    assert (accepted["resource"], accepted["reason"]) == ("Nodes", "an old agent")


@pytest.mark.parametrize("text", ["{id: GPU-LT-010}", "{id: GPU-LT-010, reason: ''}", "GPU-LT-010", "{reason: x}"])
def test_nothing_is_accepted_without_a_reason(faulty: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    faulty.write_text(acknowledged(text))
    assert run(faulty) == 2
    assert f"{faulty}:6:" in (error := capsys.readouterr().err)
    assert "needs an id and a reason" in error


def test_a_file_accepts_faults(faulty: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    accepted = tmp_path / "accepted.yaml"
    accepted.write_text("acknowledge: [{id: GPU-LT-010, resource: Nodes, reason: an old agent}]\n")
    assert run(faulty, "--select", "GPU-LT-010", "--acknowledgements", accepted) == 0
    assert "1 acknowledged" in capsys.readouterr().out
    accepted.write_text("acknowledge: [{id: GPU-LT-010, resource: Others, reason: an old agent}]\n")
    assert run(faulty, "--select", "GPU-LT-010", "--acknowledgements", accepted) == 1


@pytest.mark.parametrize("text", ["", "a: 1", "acknowledge: x", "acknowledge: [{id: GPU-LT-010}]"])
def test_a_file_that_accepts_without_reasons_is_unusable(
    clean: Path, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    accepted = tmp_path / "accepted.yaml"
    accepted.write_text(text)
    assert run(clean, "--acknowledgements", accepted) == 2
    assert capsys.readouterr().err.startswith(str(accepted))


def test_the_command_runs_as_a_process_without_cdk_and_node(faulty: Path) -> None:
    program = (
        "import sys; from cdk_gpu_clusters_stacks.cli.main import main; status = main(); "
        "heavy = {'aws_cdk', 'boto3', 'cfnlint', 'jsii', 'pydantic'} & set(sys.modules); "
        "assert not heavy, heavy; sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "lint", str(faulty)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "GPU-LT-010" in done.stdout


def test_unknown_commands_and_none_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["lintt"], ["lint"]):
        assert main(arguments) == 2
    assert "Usage: gpu-clusters" in capsys.readouterr().err
