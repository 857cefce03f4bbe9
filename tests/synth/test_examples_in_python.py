"""The examples that are Python apps, run as a user runs them, with CDK's own validation on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
APPS = sorted((REPOSITORY / "examples").glob("*/app.py"))


@pytest.mark.validation
@pytest.mark.parametrize("app", APPS, ids=lambda path: path.parent.name)
def test_an_example_app_synthesizes(app: Path, tmp_path: Path) -> None:
    context = json.loads((REPOSITORY / "cdk.json").read_text())["context"]
    done = subprocess.run(
        [sys.executable, str(app)],
        env={
            **os.environ,
            "CDK_VALIDATION": "true",
            "CDK_OUTDIR": str(tmp_path),
            "CDK_CONTEXT_JSON": json.dumps(context),
            "PYTHONPATH": os.pathsep.join(str(REPOSITORY / root) for root in ("constructs", "stacks")),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (template,) = tmp_path.glob("*.template.json")
    types = {resource["Type"] for resource in json.loads(template.read_text())["Resources"].values()}
    assert {"AWS::AutoScaling::AutoScalingGroup", "AWS::EC2::CapacityReservation"} <= types
    assert "validation" not in done.stderr.lower() or "0 violations" in done.stderr


def test_there_is_an_example_of_an_own_app() -> None:
    assert APPS
