"""`gpu-clusters check` over cluster files: output, exit codes, no traceback, no CDK; and all examples through it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters_stacks.cli.main import main
from cdk_gpu_clusters_stacks.spec import format_findings, report

DEV_NODE = Path(__file__).parents[3] / "examples" / "g6-dev-node.yaml"
EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*.yaml"))


def run(*arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        *(["-c", code] if code else ["-m", "cdk_gpu_clusters_stacks.cli.main", "check"]),
        *arguments,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_wrong_file_through_the_command(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "version: 1\nname: Demo\nregion: us-east-1\ntraining: { fleets: { a: { instance_type: p5.x, nodes: 1, max_nodes: 2 } } }\n"
    )
    done = run(str(file))
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"{file}:1:1: error GPU-SPEC-006: the file lacks the key network")
    assert lines[1] == "    fix: add network"
    assert any(line.startswith(f"{file}:2:7: error GPU-SPEC-011: name:") for line in lines)
    assert any(line.startswith(f"{file}:4:43: error GPU-INST-001: training.fleets.a.instance_type:") for line in lines)
    assert lines[-1] == "4 errors"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cluster.yaml"], "nothing is written"


def test_a_file_that_cannot_be_read_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", f"{tmp_path}/absent.yaml"]) == 2
    shown = capsys.readouterr()
    assert "error GPU-SPEC-001" in shown.err
    assert "    fix: " in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_right(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["check", str(example)])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    assert shown.out.startswith("ok: ")
    assert "error" not in shown.err


def test_the_examples_are_those_that_are_promised() -> None:
    assert {path.stem for path in EXAMPLES} >= {
        "eks-g5-dev",
        "eks-g6e-canary",
        "eks-g6e-teams",
        "eks-g6e-vllm",
        "eks-p4d-mig",
        "eks-p5-capacity-block",
        "g5-single-gpu",
        "g6-dev-node",
        "g6e-tensor-parallel",
        "inf2-neuron",
        "p4d-mig-56-slices",
        "p4d-new-reservation",
        "p4de-base-pod",
        "p5-capacity-block",
        "p5-lustre",
        "p5-mixed-mig",
        "p5en-express-preprocessing",
        "p5en-spot",
        "p6-b300-existing-reservation",
        "p6e-gb200-ultraserver",
        "train-and-serve",
        "trn1-training",
        "two-fleets",
    }


def test_good_and_wrong_files_together(tmp_path: Path) -> None:
    file = tmp_path / "empty.yaml"
    file.write_text("")
    done = run(str(DEV_NODE), str(file))
    assert done.returncode == 1
    assert done.stdout == "ok: dev, 1 fleet\n"
    assert "GPU-SPEC-003" in done.stderr


def test_checking_a_file_starts_no_node_and_imports_no_cdk() -> None:
    code = (
        "import sys; from cdk_gpu_clusters_stacks.cli.main import main; assert main(['check', *sys.argv[1:]]) == 0; "
        "loaded = {name.partition('.')[0] for name in sys.modules}; "
        "print(sorted(loaded & {'aws_cdk', 'jsii', 'constructs', 'boto3', 'botocore'}))"
    )
    done = run(str(DEV_NODE), code=code)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def finding(severity: Severity, path: str) -> Finding:
    return Finding(
        id="GPU-CAP-003",
        cause="no blocks",
        got="g6",
        allowed="spot",
        fix="use spot",
        path=path,
        severity=severity,
    )


def test_report_groups_by_severity(capsys: pytest.CaptureFixture[str]) -> None:
    found = [finding(Severity.WARNING, "c.yaml:2:1"), finding(Severity.ERROR, "c.yaml:8:9")]
    assert report(found) == 1
    assert capsys.readouterr().err.splitlines() == [
        "c.yaml:8:9: error GPU-CAP-003: no blocks, got g6",
        "    allowed: spot",
        "    fix: use spot",
        "c.yaml:2:1: warning GPU-CAP-003: no blocks, got g6",
        "    allowed: spot",
        "    fix: use spot",
        "1 error, 1 warning",
    ]


def test_report_without_errors_is_success() -> None:
    assert report([]) == 0
    assert report([finding(Severity.WARNING, "")]) == 0
    assert format_findings([]) == ""
    assert format_findings([finding(Severity.INFO, "")]).startswith("info GPU-CAP-003: no blocks")
