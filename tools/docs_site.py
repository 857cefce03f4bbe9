"""Build the documentation site.

    python tools/docs_site.py                    into build/docs/site
    python tools/docs_site.py --folder FOLDER    into FOLDER/site

The pages are the repository's own files (tools/_docs_pages.py), laid out as a project of Zensical, their links turned
into links of the site (tools/_docs_links.py). The reference is read from the docstrings without importing anything. A
warning is a failure. Nothing is fetched, neither here nor by the site's readers.
"""

from __future__ import annotations

import argparse
import os
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

from _docs_gallery import gallery_files
from _docs_links import LinkError, relink
from _docs_pages import every_page, navigation, rule_pages
from _pages import ROOT
from _template_rules import FIXTURES

FOLDER = ROOT / "build" / "docs"
SETTINGS = ROOT / "docs" / "site" / "zensical.toml"
#: What stands beside the pages, and is copied as it is.
BESIDE = ("docs/drawings/*.svg", "docs/site/*.css", "docs/site/*.js")
#: What the settings refer to.
SOURCES = ("constructs", "emulator", "stacks", "tools")
#: The last entry of the navigation.
_REPOSITORY = "* [Repository](https://github.com/cdk-gpu-clusters/cdk-gpu-clusters)"
ALL_WELL = "No issues found"
TERMINAL_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def lay_out(folder: Path) -> None:
    """Make the Zensical project: its settings, its pages, and ways to the sources that it documents.

    Raises:
        LinkError: If a page links to a file that the site does not show.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shown = [*every_page(), *rule_pages()]
    beside = [path.relative_to(ROOT).as_posix() for pattern in BESIDE for path in sorted(ROOT.glob(pattern))]
    places = {page.source: page.target for page in shown}
    places |= {source: posixpath.relpath(source, "docs") for source in beside}
    # A fixture is an example of its rule, and shown on the rule's page.
    places |= {f"{FIXTURES}/{page.title}.yaml": page.target for page in rule_pages()}
    gallery = dict(gallery_files())
    places |= {target: target for target in gallery}
    # A link to a folder leads to its README, as it does where the repository is browsed.
    folders = {source: target for source, target in places.items() if source.endswith("/README.md")}
    places |= {posixpath.dirname(source): target for source, target in folders.items()}
    for page in shown:
        _write(folder / "pages" / page.target, relink(page.text(), page.source, page.target, places))
    for source in beside:
        _write(folder / "pages" / places[source], (ROOT / source).read_text(encoding="utf-8"))
    for target, text in gallery.items():
        _write(folder / "pages" / target, text)
    _write(folder / "pages" / "NAVIGATION.md", "\n".join([*navigation(), _REPOSITORY]) + "\n")
    shutil.copyfile(SETTINGS, folder / SETTINGS.name)
    for name in SOURCES:
        (folder / name).symlink_to(ROOT / name)


def build(folder: Path) -> str:
    """Run Zensical on a project, and return what it complains of, or nothing."""
    zensical = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    done = subprocess.run(zensical, cwd=folder, env=_environment(), capture_output=True, text=True, check=False)
    said = TERMINAL_COLOURS.sub("", done.stderr).strip()
    # Strict or not, Zensical does not count the warnings of what reads the docstrings.
    return said if done.returncode or said != ALL_WELL else ""


def main() -> int:
    """Build; the exit status is 1 if anything was complained of."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="made anew; what is in it is removed")
    folder = parser.parse_args().folder.resolve()
    try:
        lay_out(folder)
    except LinkError as error:
        print(error, file=sys.stderr)
        return 1
    if complaint := build(folder):
        print(complaint, file=sys.stderr)
        return 1
    print(folder / "site" / "index.html")
    return 0


def _environment() -> dict[str, str]:
    """Ours, with the environment's own programs first: signatures are laid out by its ruff."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {**os.environ, "PATH": path}


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
