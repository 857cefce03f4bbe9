"""Documentation of several versions, side by side."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    monkeypatch.syspath_prepend(str(REPOSITORY / "tools"))
    monkeypatch.delitem(sys.modules, "publish_docs", raising=False)
    import publish_docs

    def run(revision: str, text: str) -> None:
        site = tmp_path / "site"
        site.mkdir(exist_ok=True)
        (site / "index.html").write_text(text)
        (tmp_path / "published").mkdir(exist_ok=True)
        publish_docs.publish(site, tmp_path / "published", revision)

    return run


def listed(tmp_path: Path) -> list[str]:
    return [one["version"] for one in json.loads((tmp_path / "published" / "versions.json").read_text())]


def test_versions_stay_and_the_newest_release_is_the_start(publish, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    publish("main", "first")
    assert listed(tmp_path) == ["dev"]
    assert "./dev/" in (tmp_path / "published" / "index.html").read_text()
    for revision in ("v0.9.0", "v0.10.0", "main"):
        publish(revision, revision)
    assert listed(tmp_path) == ["0.10.0", "0.9.0", "dev"]
    assert "./0.10.0/" in (tmp_path / "published" / "index.html").read_text()
    assert (tmp_path / "published" / "0.9.0" / "index.html").read_text() == "v0.9.0"
    assert (tmp_path / "published" / "dev" / "index.html").read_text() == "main"
