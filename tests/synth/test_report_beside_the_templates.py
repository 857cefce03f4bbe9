"""`cdk synth -c report=true` writes the page beside the templates; without it nothing is written or loaded for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "g5-single-gpu.yaml"


@pytest.mark.parametrize("wanted", [True, False])
def test_the_page_stands_beside_the_templates_on_request(wanted: bool, tmp_path: Path) -> None:
    program = (
        "import sys; from cdk_gpu_clusters_stacks.app import main; main(); "
        "print('cdk_gpu_clusters_stacks.report_page' in sys.modules)"
    )
    context = {"cluster": str(EXAMPLE), **({"report": "true"} if wanted else {})}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "CDK_OUTDIR": str(tmp_path), "CDK_CONTEXT_JSON": json.dumps(context)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == str(wanted)
    assert (tmp_path / "manifest.json").exists()
    page = tmp_path / "report.html"
    assert page.exists() is wanted
    if wanted:
        assert "classifier" in page.read_text("utf-8")
