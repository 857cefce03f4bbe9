"""`gpu-clusters check` and `explain`: one gate for cluster files and templates, and every rule by its id."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters._version import __version__
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.cli.rule_index import rule_index

REPOSITORY = Path(__file__).resolve().parents[3]
GOOD = REPOSITORY / "examples" / "g5-single-gpu.yaml"


@pytest.fixture
def wrong_cluster(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.yaml"
    file.write_text(GOOD.read_text().replace("g5.2xlarge", "g5.2xlage"))
    return file


@pytest.fixture
def wrong_template(tmp_path: Path) -> Path:
    """A fault that only our rules know, and one that only cfn-lint knows."""
    file = tmp_path / "template.yaml"
    file.write_text(
        "Resources:\n"
        "  Nodes:\n"
        "    Type: AWS::EC2::LaunchTemplate\n"
        "    Properties: { LaunchTemplateData: { InstanceType: p5.49xlarge } }\n"
        "  Bucket:\n"
        "    Type: AWS::S3::Bucket\n"
        "    Properties: { NoSuchProperty: 1 }\n"
    )
    return file


def document(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_one_gate_takes_cluster_files_and_templates(
    wrong_cluster: Path, wrong_template: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--json", str(GOOD), str(wrong_cluster), str(wrong_template)]) == 1
    found = document(capsys)
    assert found["version"] == __version__
    assert found["clusters"] == {str(GOOD): "classifier, 1 fleet"}
    assert found["templates"] == [str(wrong_template)]
    faults = {(Path(one["file"]).name, one["id"]) for one in found["findings"] if one["severity"] == "error"}
    assert {("cluster.yaml", "GPU-INST-001"), ("template.yaml", "GPU-INST-001")} <= faults
    assert ("template.yaml", "cfn-lint E3002") in faults
    assert all(one["line"] > 0 and one["column"] > 0 for one in found["findings"])


def test_text_has_every_fault_with_its_place(
    wrong_cluster: Path, wrong_template: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(wrong_cluster), str(wrong_template)]) == 1
    printed = capsys.readouterr()
    assert f"{wrong_cluster}:" in printed.err
    assert f"{wrong_template}:4:" in printed.err
    assert "error GPU-INST-001: " in printed.err
    assert "error cfn-lint E3002: " in printed.err
    assert printed.out.startswith("1 template: ")


def test_cfn_lint_can_be_left_out(wrong_template: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--no-cfn-lint", "--json", str(wrong_template)]) == 1
    ids = {one["id"] for one in document(capsys)["findings"]}
    assert "GPU-INST-001" in ids
    assert all(one.startswith("GPU-") for one in ids)


def test_without_cfn_lint_it_says_what_did_not_run(
    wrong_template: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cdk_gpu_clusters_stacks.cli.check.find_spec", lambda _name: None)
    assert main(["check", str(wrong_template)]) == 1
    assert "pip install 'gpu-clusters[lint]'" in capsys.readouterr().err
    assert main(["check", "--cfn-lint", str(wrong_template)]) == 2


def test_a_valid_file_is_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(GOOD)]) == 0
    assert capsys.readouterr().out == "ok: classifier, 1 fleet\n"


def test_severities_choose_the_status(tmp_path: Path) -> None:
    """A warning alone is a fault only if it is asked for."""
    file = REPOSITORY / "examples" / "train-and-serve.yaml"
    assert main(["check", str(file)]) == 0
    assert main(["check", "--fail-on", "info", str(file)]) == 1


def test_a_file_that_is_missing_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(GOOD), str(tmp_path / "absent.yaml")]) == 2
    assert "absent.yaml:1:1: error GPU-SPEC-001" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "absent.json")]) == 2


def standard_input(text: str) -> io.TextIOWrapper:
    """Standard input with a text."""
    return io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")


@pytest.mark.parametrize("command", ["check", "plan", "report"])
def test_a_dash_is_standard_input(
    command: str, wrong_cluster: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", standard_input(wrong_cluster.read_text()))
    assert main([command, "-"]) == (1 if command == "check" else 2)
    assert "<stdin>:" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", standard_input(GOOD.read_text()))
    options = ["-o", "-"] if command == "report" else []
    assert main([command, "-", *options]) == 0


def test_a_template_may_come_from_standard_input(
    wrong_template: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", standard_input(wrong_template.read_text()))
    assert main(["check", "--no-cfn-lint", "--json", "-"]) == 1
    found = document(capsys)
    assert found["templates"] == ["<stdin>"]
    assert {one["file"] for one in found["findings"]} == {"<stdin>"}


# Faults as JSON.


@pytest.mark.parametrize("command", ["plan", "preflight", "manifests"])
def test_json_of_a_wrong_file_has_the_faults(
    command: str, wrong_cluster: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--json", str(wrong_cluster)]) == 2
    found = document(capsys)
    assert found["version"] == __version__
    (fault,) = (one for one in found["findings"] if one["severity"] == "error")
    assert fault["id"] == "GPU-INST-001"
    assert fault["file"] == str(wrong_cluster)
    assert fault["fix"]


# Rules.


@pytest.mark.parametrize("rule", [*rule_index()][::40])
def test_a_rule_is_explained(rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", rule.lower()]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{rule}: ")
    assert "  source " in printed


def test_a_rule_over_templates_has_its_reason_and_its_fix(capsys: pytest.CaptureFixture[str]) -> None:
    one = every_rule()[0]
    assert main(["explain", one.id, "--json"]) == 0
    (found,) = document(capsys)["rules"]
    assert (found["why"], found["fix"], found["severity"]) == (one.cause, one.fix, one.severity.value)


def test_every_rule_over_templates_is_in_the_index() -> None:
    assert {one.id for one in every_rule()} <= set(rule_index())


def test_an_area_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "GPU-MIG"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert len(lines) == sum(one.startswith("GPU-MIG-") for one in rule_index())


def test_a_wrong_id_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "GPU-EFX-001"]) == 2
    assert "did you mean GPU-EF" in capsys.readouterr().err


# Streams.


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cdk_gpu_clusters_stacks.cli.main", *arguments]
    return subprocess.run(command, text=True, check=False, **options)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_fault(closed: str) -> None:
    command = f'"{sys.executable}" -m cdk_gpu_clusters_stacks.cli.main plan "{GOOD}" {closed}'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602 - our words
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_an_error_of_the_system_names_the_file_without_its_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", "somewhere.yaml")

    monkeypatch.setattr("cdk_gpu_clusters_stacks.plan.plan_cluster", fail)
    assert main(["plan", str(GOOD)]) == 2
    assert capsys.readouterr().err == "gpu-clusters: somewhere.yaml: No such file or directory\n"


@pytest.mark.parametrize("words", [["-h"], ["plan", "-h"], ["capacity", "search", "-h"], ["check", "-h"]])
def test_h_is_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("Usage: gpu-clusters")


@pytest.mark.parametrize(("wrong", "meant"), [("lnt", "lint"), ("chekc", "check"), ("prefligt", "preflight")])
def test_a_misspelt_command_names_the_one_that_was_meant(
    wrong: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([wrong]) == 2
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


def test_a_misspelt_option_names_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--jsn", str(GOOD)]) == 2
    assert "--json" in capsys.readouterr().err


# Colours and width.


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.mark.parametrize("no_color", [False, True])
def test_colours_on_a_terminal_and_never_under_no_color(
    no_color: bool, wrong_cluster: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_terminal(monkeypatch)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    main(["plan", str(GOOD)])
    main(["catalogue", "list", "--family", "p5"])
    main(["check", str(wrong_cluster)])
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        assert ("\x1b[" in text) is not no_color
    assert ("\x1b[1;31merror\x1b[0m GPU-INST-001" in printed.err) is not no_color


def test_columns_are_the_width_in_a_pipe_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    widths = {}
    for columns in ("", "80", "100"):
        monkeypatch.setenv("COLUMNS", columns)
        main(["plan", str(REPOSITORY / "examples" / "p5-lustre.yaml")])
        main(["catalogue", "list", "--family", "p5"])
        widths[columns] = max(len(line) for line in capsys.readouterr().out.splitlines() if len(line.split()) > 2)
    assert widths["80"] <= 80 < widths["100"] <= 100 < widths[""]


# Completion.


@pytest.mark.parametrize(
    ("words", "incomplete", "expected"),
    [
        (["init", "--type"], "p5.", "p5.48xlarge"),
        (["init", "--region"], "eu-w", "eu-west-1"),
        (["init", "--example"], "p5-l", "p5-lustre"),
        (["capacity", "search", "--type"], "p6-b3", "p6-b300.48xlarge"),
        (["explain"], "GPU-EFA-00", "GPU-EFA-001"),
        (["check", "--region"], "ap-s", "ap-south-1"),
    ],
)
def test_the_shell_completes_values(words: list[str], incomplete: str, expected: str) -> None:
    line = " ".join(["gpu-clusters", *words, incomplete])
    environment = {"_GPU_CLUSTERS_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line, "PATH": ""}
    done = run(capture_output=True, env=environment)
    assert expected in done.stdout
