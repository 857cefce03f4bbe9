"""The list of accepted findings is the one of the code, and all of it is needed."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from assemblies import Assembly
from cdk_gpu_clusters.catalogue.kubernetes import images

TOOL = Path(__file__).parents[2] / "tools" / "write_security_page.py"


@pytest.fixture
def reasons(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The reasons on the page, each of which belongs to one accepted finding."""
    monkeypatch.syspath_prepend(TOOL.parent)
    found = [row.reason for row in runpy.run_path(str(TOOL))["accepted_findings"]()]
    assert len(found) == len(set(found)) > 20
    return set(found)


def test_the_page_is_current() -> None:
    done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_accepted_is_what_the_page_says(assemblies: dict[str, Assembly], reasons: set[str]) -> None:
    suppressing = {one.reason for made in assemblies.values() for one, _ in made.accepted}
    assert suppressing == reasons


def test_the_page_counts_the_images_without_a_digest() -> None:
    known = images()
    open_ones = [image for image in known if image.digest is None]
    text = (TOOL.parents[1] / "docs/security.md").read_text(encoding="utf-8")
    assert f"{len(open_ones)} of {len(known)} container images by tag" in text
