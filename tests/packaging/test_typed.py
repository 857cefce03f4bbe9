"""The installed wheel is typed: a user's app passes strict checking, and mistakes are found."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.packaging.conftest import CleanEnvironment

REPOSITORY = Path(__file__).resolve().parents[2]
APPS = REPOSITORY / "tests" / "typing"


def wrong_lines(path: Path) -> set[int]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, start=1) if "# wrong" in line and line.startswith(" ")}


@pytest.fixture
def apps(tmp_path: Path) -> Path:
    """The apps in a folder of their own, out of reach of this repository's sources and settings."""
    return shutil.copytree(APPS, tmp_path / "apps")


def test_pyright(clean_environment: CleanEnvironment, apps: Path) -> None:
    settings = {
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "reportUnusedExpression": False,
        "enableTypeIgnoreComments": False,
    }
    (apps / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    pyright = REPOSITORY / ".tools" / "bin" / "pyright"
    arguments = ("--outputjson", "--pythonpath", clean_environment.python)
    done = clean_environment.run(pyright, *arguments, cwd=apps)
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [entry for entry in found if entry["severity"] == "error"]
    assert {Path(entry["file"]).name for entry in errors} == {"mistakes.py"}, errors
    lines = {entry["range"]["start"]["line"] + 1 for entry in errors}
    assert lines == wrong_lines(apps / "mistakes.py"), errors


def test_public_api_is_fully_typed(clean_environment: CleanEnvironment, tmp_path: Path) -> None:
    """Every public name has a declared type that all type checkers read alike (pyright's own measure).

    The emulator is left out: what it builds on is an extra, and absent here.
    """
    pyright = REPOSITORY / ".tools" / "bin" / "pyright"
    arguments = ("--verifytypes", "cdk_gpu_clusters", "--ignoreexternal", "--outputjson")
    python = ("--pythonpath", clean_environment.python)
    done = clean_environment.run(pyright, *arguments, *python, cwd=tmp_path)
    symbols = json.loads(done.stdout)["typeCompleteness"]["symbols"]
    public = [entry for entry in symbols if entry["isExported"] and ".testing." not in entry["name"]]
    assert public
    vague = {
        f"{entry['name']}: {fault['message'].splitlines()[0]}"
        for entry in public
        if not entry["isTypeKnown"]
        for fault in entry["diagnostics"]
    }
    assert not vague, "\n".join(sorted(vague))
