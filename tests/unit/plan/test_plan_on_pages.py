"""The plans that pages show beside their blocks of commands are what the command prints, line by line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cdk_gpu_clusters_stacks.cli.main import main
from pages import run_by

SHOWN = {block.page: block.text.splitlines() for block in run_by(__file__)}
ON_EKS = "examples/eks-p5-capacity-block.yaml"
RESERVED = "examples/p4d-new-reservation.yaml"


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[str]:
    assert main(["plan", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def assert_in_order(shown: list[str], lines: list[str]) -> None:
    assert len(shown) > 10
    rest = iter(lines)
    for line in filter(None, shown):
        if line == "...":
            continue
        assert line in rest, line


def test_the_comparison_on_the_page_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.yaml"
    text = Path(RESERVED).read_text(encoding="utf-8")
    file.write_text(re.sub(r"instance_type: \S+", "instance_type: p4de.24xlarge", text), encoding="utf-8")
    assert_in_order(SHOWN["docs/command-line.md"], printed([str(file), "--against", RESERVED], capsys))


def test_what_the_word_eks_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deployed = tmp_path / "deployed.yaml"
    text = Path(ON_EKS).read_text(encoding="utf-8")
    deployed.write_text(text.replace("orchestrator: eks", "orchestrator: ec2"), encoding="utf-8")
    assert_in_order(SHOWN["docs/eks.md"], printed([ON_EKS, "--against", str(deployed)], capsys))


def test_what_another_version_of_kubernetes_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = tmp_path / "deployed.yaml", tmp_path / "cluster.yaml"
    text = Path(ON_EKS).read_text(encoding="utf-8")
    for file, version in ((before, "1.34"), (after, "1.35")):
        file.write_text(text.replace("\neks:\n", f'\neks:\n  kubernetes_version: "{version}"\n'), encoding="utf-8")
    assert_in_order(SHOWN["docs/eks-day-2.md"], printed([str(after), "--against", str(before)], capsys))
