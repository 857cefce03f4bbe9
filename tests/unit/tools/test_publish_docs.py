"""Sites of several versions beside each other, listed as the site's select reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "publish_docs.py"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    made = tmp_path / "site"
    made.mkdir()
    (made / "index.html").write_text("<h1>built</h1>", "utf-8")
    return made


def publish(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), str(site.parent / "all"), *arguments, "--site", str(site)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def versions(site: Path) -> list[tuple[str, list[str]]]:
    listed = json.loads((site.parent / "all" / "versions.json").read_text("utf-8"))
    return [(one["version"], one["aliases"]) for one in listed]


def test_versions_are_listed_the_newest_first_with_one_latest(site: Path) -> None:
    for arguments in (["0.9"], ["0.10", "--latest"], ["0.11rc1"], ["0.10.1", "--latest"], ["0.9"]):
        assert publish(site, *arguments).returncode == 0
    assert versions(site) == [("0.11rc1", []), ("0.10.1", ["latest"]), ("0.10", []), ("0.9", [])]
    everything = site.parent / "all"
    assert "url=0.10.1/index.html" in (everything / "index.html").read_text("utf-8")
    assert "url=../0.10.1/index.html" in (everything / "latest" / "index.html").read_text("utf-8")


def test_a_version_that_is_published_again_is_replaced_and_stays_the_latest(site: Path) -> None:
    assert publish(site, "0.1", "--latest").returncode == 0
    (site / "index.html").rename(site / "old.html")
    (site / "index.html").write_text("<h1>again</h1>", "utf-8")
    (site / "old.html").unlink()
    assert publish(site, "0.1").returncode == 0
    assert versions(site) == [("0.1", ["latest"])]
    assert (site.parent / "all" / "0.1" / "index.html").read_text("utf-8") == "<h1>again</h1>"


@pytest.mark.parametrize("version", ["main", "../0.1", ""])
def test_what_is_no_version_is_refused(site: Path, version: str) -> None:
    done = publish(site, version)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert not (site.parent / "all" / "versions.json").exists()


def test_a_site_that_was_not_built_is_refused(site: Path) -> None:
    (site / "index.html").unlink()
    done = publish(site, "0.1")
    assert done.returncode == 1
    assert "run make docs" in done.stderr
