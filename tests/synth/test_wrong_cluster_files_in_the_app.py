"""A wrong cluster file through the app itself: located messages, an exit code, no traceback, nothing written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOOD_HEAD = "version: 1\nname: lab\nregion: us-east-1\nnetwork: { availability_zone: us-east-1a }\n"


def run(path: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """The app as the CDK CLI starts it, in an empty folder."""
    return subprocess.run(
        [sys.executable, "-m", "cdk_gpu_clusters_stacks"],
        cwd=folder,
        env={
            **os.environ,
            "CDK_OUTDIR": str(folder / "cdk.out"),
            "CDK_CONTEXT_JSON": json.dumps({"cluster": str(path)}),
            "PYTHONPATH": os.pathsep.join(str(ROOT / root) for root in ("constructs", "emulator", "stacks")),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            GOOD_HEAD + "training:\n  fleets:\n    a: { instance_type: p5.47xlarge, nodes: 0 }\n",
            ["cluster.yaml:7:", "GPU-INST-001"],
        ),
        (
            GOOD_HEAD + "training:\n  fleets:\n    a:\n      instance_type: p5.48xlarge\n      nodes: 2\n"
            "      placement: cluster\n      capacity: { capacity_block: cr-0123456789abcdef0, ends_at: 2026-12-15T11:30Z }\n"
            "    b: { instance_type: p5.48xlarge, nodes: 2, capacity: { capacity_block: cr-0123456789abcdef0 } }\n",
            ["cluster.yaml:10:", "GPU-CAP-002", "cluster.yaml:12:", "GPU-CAP-001"],
        ),
        ("version: 1\n  name: [", ["cluster.yaml:2:", "GPU-SPEC-002"]),
        ("", ["cluster.yaml:1:", "GPU-SPEC-003"]),
    ],
    ids=["unknown type", "block without end, with group", "bad YAML", "empty"],
)
def test_the_app_writes_nothing(text: str, expected: list[str], tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(text)
    folder = tmp_path / "empty"
    folder.mkdir()
    done = run(path, folder)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    for part in expected:
        assert part in done.stderr
    assert not list(folder.iterdir())


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    done = run(tmp_path / "none.yaml", tmp_path)
    assert done.returncode == 1
    assert "none.yaml" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_good_file_is_synthesized(tmp_path: Path) -> None:
    done = run(ROOT / "examples" / "g6-dev-node.yaml", tmp_path)
    assert done.returncode == 0, done.stderr
    assert list((tmp_path / "cdk.out").glob("*.template.json"))
