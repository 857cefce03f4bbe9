"""Mistakes that newcomers make in cluster files: each is located, its cause comes first, and its fix works.

A case spoils a right file by one edit (`wrong`), or is a whole file (`text`). `found` has all errors and warnings with
their places, `says` what the first one tells to do, and `fix` is the edit that this asks for. A case may have other
files beside the cluster file: `beside` has them as they are wrong, `mended` as they are right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters_stacks.spec import read_cluster
from cdk_gpu_clusters_stacks.spec.load import format_findings

FOLDER = Path(__file__).parents[2] / "fixtures" / "wrong_files"
BASES: Mapping[str, str] = yaml.safe_load((FOLDER / "bases.yaml").read_text(encoding="utf-8"))
#: A line of a message, with all that it quotes.
LONGEST_LINE = 1_200


@dataclass(frozen=True)
class Case:
    """A mistake."""

    found: list[str]
    says: str
    base: str = ""
    wrong: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None
    fix: Mapping[str, str] = field(default_factory=dict)
    #: Word -> how many characters stand in its place.
    repeat: Mapping[str, int] = field(default_factory=dict)
    #: Name -> text of a file beside the cluster file, wrong and right.
    beside: Mapping[str, str] = field(default_factory=dict)
    mended: Mapping[str, str] = field(default_factory=dict)

    @property
    def spoilt(self) -> str:
        """The wrong file, with the words of `repeat`."""
        return edited(BASES[self.base], self.wrong) if self.text is None else self.text


def edited(text: str, edits: Mapping[str, str]) -> str:
    for old, new in edits.items():
        assert text.count(old) == 1, f"{old!r} is in the file {text.count(old)} times"
        text = text.replace(old, new)
    return text


def cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for file in sorted(FOLDER.glob("*.yaml")):
        if file.stem != "bases":
            rows: dict[str, dict[str, Any]] = yaml.safe_load(file.read_text(encoding="utf-8"))
            for name, row in rows.items():
                found[f"{file.stem}: {name}"] = Case(base=row.pop("in", "plain"), **row)
    return found


CASES = cases()


def reading(folder: Path, text: str, beside: Mapping[str, str] | None = None) -> list[Finding]:
    for name, other in (beside or {}).items():
        (folder / name).write_text(other, encoding="utf-8")
    file = folder / "cluster.yaml"
    file.write_text(text, encoding="utf-8", newline="")
    return [one for one in read_cluster(file).findings if one.severity is not Severity.INFO]


def place(finding: Finding) -> str:
    return f"{':'.join(finding.path.split(':')[-2:])} {finding.id}"


def test_there_are_more_mistakes_than_anyone_makes_in_a_day() -> None:
    assert len(CASES) >= 200


@pytest.mark.parametrize("base", BASES)
def test_the_files_are_right_before_they_are_spoilt(base: str, tmp_path: Path) -> None:
    assert reading(tmp_path, BASES[base]) == []


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_mistake_is_located_and_explained(case: Case, tmp_path: Path) -> None:
    text = case.spoilt
    for word, length in case.repeat.items():
        text = text.replace(word, "x" * length)
    findings = reading(tmp_path, text, case.beside)
    assert [place(one) for one in findings] == case.found
    assert findings[0].fix == case.says
    assert all(len(line) < LONGEST_LINE for line in format_findings(findings).splitlines())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_fix_works(case: Case, tmp_path: Path) -> None:
    fixed = edited(case.spoilt, case.fix) if case.fix or case.mended else BASES["plain"]
    findings = reading(tmp_path, fixed, {**case.beside, **case.mended})
    assert [place(one) for one in findings if one.severity is Severity.ERROR] == []


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(
    "as_saved", [lambda text: "\ufeff" + text, lambda text: text.replace("\n", "\r\n")], ids=["BOM", "CRLF"]
)
def test_what_editors_of_windows_write_is_read(base: str, as_saved: Any, tmp_path: Path) -> None:
    assert reading(tmp_path, as_saved(BASES[base])) == []
