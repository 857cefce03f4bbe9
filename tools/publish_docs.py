"""Put the built documentation of one version beside those that are published.

python tools/publish_docs.py build/docs/site PUBLISHED_FOLDER main|v0.1.0

A version has a folder of its own name, `dev` for the main branch. `versions.json` lists them, newest first, in the form
that the version switch of Material for MkDocs and of Zensical reads. `index.html` leads to the newest release.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

DEVELOPMENT = "dev"
_REDIRECT = """<!doctype html>
<meta charset="utf-8">
<title>Documentation</title>
<meta http-equiv="refresh" content="0; url=./{folder}/">
<a href="./{folder}/">Documentation</a>
"""


def publish(site: Path, published: Path, revision: str) -> None:
    """Replace the folder of one version, and list all."""
    name = folder_of(revision)
    shutil.rmtree(published / name, ignore_errors=True)
    shutil.copytree(site, published / name)
    folders = sorted(
        (one.name for one in published.iterdir() if (one / "index.html").is_file()), key=_order, reverse=True
    )
    releases = [one for one in folders if one != DEVELOPMENT]
    newest = releases[0] if releases else DEVELOPMENT
    versions = [{"version": one, "title": one, "aliases": ["latest"] if one == newest else []} for one in folders]
    (published / "versions.json").write_text(json.dumps(versions, indent=2) + "\n", encoding="utf-8")
    (published / "index.html").write_text(_REDIRECT.format(folder=newest), encoding="utf-8")
    (published / ".nojekyll").touch()


def folder_of(revision: str) -> str:
    """The folder of a branch or tag: `0.1.0` for `v0.1.0`, `dev` for everything that is no release."""
    return revision.removeprefix("v") if revision.startswith("v") and revision[1:2].isdigit() else DEVELOPMENT


def _order(folder: str) -> tuple[int, ...]:
    return () if folder == DEVELOPMENT else tuple(int(part) if part.isdigit() else -1 for part in folder.split("."))


if __name__ == "__main__":
    publish(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
