"""Which commits are surveyed, and what was judged of each finding, by eye: `docs/survey/judgements.yml`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml


class Key(NamedTuple):
    """What a judgement is about: a rule at a place of a template."""

    repository: str
    file: str
    rule: str
    path: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was judged.

    Attributes:
        is_true: Whether the template says what the rule is about; otherwise it is a false positive.
        why: One sentence.
    """

    is_true: bool
    why: str


class Mended(NamedTuple):
    """What was mended because of the survey."""

    rule: str
    findings: int
    what: str


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What the survey is made of.

    Attributes:
        commits: The commit of each repository, by its name.
        left_out: Repositories that were looked at and left out, with why.
        judgements: What was judged.
        mended: What was wrong with rules.
        unseen: Faults that were seen in templates, and that no rule tells.
    """

    commits: dict[str, str]
    left_out: dict[str, str]
    judgements: dict[Key, Judgement]
    mended: list[Mended]
    unseen: list[str]


class DataError(Exception):
    """The file of judgements is wrong: one line that says what."""


_VERDICTS = {"true finding": True, "false positive": False}


def read_survey(file: Path) -> Surveyed:
    """Read the file.

    Raises:
        DataError: If a verdict is none of the two, a reason is missing, or a finding is judged twice.
    """
    data = yaml.safe_load(file.read_text(encoding="utf-8"))
    judgements: dict[Key, Judgement] = {}
    for group in data["judgements"]:
        if group.get("verdict") not in _VERDICTS or not group.get("why"):
            raise DataError(f"{file}: every group needs a verdict ({' or '.join(_VERDICTS)}) and why: {group}")
        judgement = Judgement(_VERDICTS[group["verdict"]], group["why"])
        for key in _keys(group):
            if key in judgements:
                raise DataError(f"{file}: judged twice: {' '.join(key)}")
            judgements[key] = judgement
    mended = [Mended(**one) for one in data.get("mended") or []]
    return Surveyed(data["repositories"], data.get("left_out") or {}, judgements, mended, data.get("unseen") or [])


def _keys(group: dict[str, Any]) -> Iterator[Key]:
    for repository, files in group["at"].items():
        for file, paths in files.items():
            yield from (Key(repository, file, group["rule"], path) for path in paths)
