"""The page of the survey, as Markdown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from _pages import cell
from _survey_data import Judgement, Key, Surveyed

INTRODUCTION = """\
# Survey of public templates

This page lists findings of the [template rules](template-rules.md) in CloudFormation templates that others have
published. A person checked every finding in its template, and judged it:

- *true*: the template has what the rule describes. It may be intended. The sentence beside the finding describes what
  the template contains.
- *false positive*: the rule is wrong for this template. Such a rule was corrected, and a test has a minimal example of
  the case (`tests/unit/template_rules/test_cases_of_public_templates.py`).

If a template does not contain the value that a rule needs, the result is undecidable, and neither of these. Only
paths, lines and counts of the templates are copied here. [Rules](rules.md) explains the ids.

`tools/survey.py` writes this page from `docs/survey/judgements.yml`. Do not edit it. To count again, clone the
repositories of the first table, and name each clone. The tool looks up the commits in the clones:

<!-- not run: it needs clones of the repositories -->
```sh
python tools/survey.py --check awslabs/deeplearning-cfn=../deeplearning-cfn …
```
"""


@dataclass(frozen=True, slots=True)
class Found:
    """A finding.

    Attributes:
        key: What it is about.
        line: Where it stands in its file.
        severity: Of its rule.
    """

    key: Key
    line: int
    severity: str


@dataclass(slots=True)
class Looked:
    """What was seen of one repository.

    Attributes:
        commit: Its commit.
        blobs: Git's name of the content of each template, by path.
        found: The findings.
        open: What is undecidable: file, rule and reason of each.
        unusable: Why a file cannot be looked at, by its path and place.
        unread: Parts of templates that only a transform can read, by path.
    """

    commit: str
    blobs: dict[str, str] = field(default_factory=dict)
    found: list[Found] = field(default_factory=list)
    open: list[tuple[str, str, str]] = field(default_factory=list)
    unusable: dict[str, str] = field(default_factory=dict)
    unread: dict[str, tuple[str, ...]] = field(default_factory=dict)


def render(seen: Mapping[str, Looked], survey: Surveyed) -> str:
    """The page."""
    judged = {one.key: survey.judgements[one.key] for looked in seen.values() for one in looked.found}
    parts = [
        INTRODUCTION,
        *_repositories(seen, survey, judged),
        *_mended(survey),
        *_rules(seen, judged),
        *_reasons(seen),
        *_findings(seen, judged),
        *_templates(seen, judged),
        *_not_looked_at(seen),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _repositories(seen: Mapping[str, Looked], survey: Surveyed, judged: Mapping[Key, Judgement]) -> Iterator[str]:
    yield "## Repositories\n"
    yield "| Repository | Commit | Templates | True findings | False positives | Undecidable | Unusable files |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    rows = [(name, looked.commit[:12], _counts(looked, looked.blobs, judged)) for name, looked in seen.items()]
    for name, commit, counts in rows:
        yield _row(f"[{name}](https://github.com/{name}/tree/{seen[name].commit})", f"`{commit}`", *counts)
    sums = [sum(column) for column in zip(*(counts for _, _, counts in rows), strict=True)]
    yield _row("together", "", *sums)
    blobs = [blob for looked in seen.values() for blob in looked.blobs.values()]
    copies = len(blobs) - len(set(blobs))
    yield f"\n{copies} of the templates are exact copies of another one. They are counted like the others."
    for name, why in survey.left_out.items():
        yield f"Left out: {name}, {why}."
    yield ""


def _mended(survey: Surveyed) -> Iterator[str]:
    if survey.mended:
        yield "## Corrections from the survey\n"
        yield "The numbers are findings that disappeared or appeared since the first run over the same commits.\n"
        yield "| Rule | Findings | What |"
        yield "| --- | ---: | --- |"
        yield from (_row(f"`{one.rule}`", f"{one.findings:+}", cell(one.what)) for one in survey.mended)
        yield ""
    if survey.unseen:
        yield "A person saw these problems, but no rule finds them yet:\n"
        yield from (f"- {one}" for one in survey.unseen)
        yield ""


def _counts(looked: Looked, files: Iterable[str], judged: Mapping[Key, Judgement]) -> tuple[int, ...]:
    """Templates, true findings, false positives, what is undecidable and what is unusable, of some files."""
    files = set(files)
    verdicts = [judged[one.key].is_true for one in looked.found if one.key.file in files]
    undecidable = sum(file in files for file, _, _ in looked.open)
    return len(files), sum(verdicts), len(verdicts) - sum(verdicts), undecidable, len(looked.unusable)


def _rules(seen: Mapping[str, Looked], judged: Mapping[Key, Judgement]) -> Iterator[str]:
    found = [one for looked in seen.values() for one in looked.found]
    severities = {one.key.rule: one.severity for one in found}
    true = Counter(one.key.rule for one in found if judged[one.key].is_true)
    false = Counter(one.key.rule for one in found if not judged[one.key].is_true)
    undecidable = Counter(rule for looked in seen.values() for _, rule, _ in looked.open)
    yield "## Rules\n"
    yield "| Rule | Severity | True findings | False positives | Undecidable |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for rule in sorted({*severities, *undecidable}):
        yield _row(f"`{rule}`", severities.get(rule, ""), true[rule], false[rule], undecidable[rule])
    yield ""


def _reasons(seen: Mapping[str, Looked]) -> Iterator[str]:
    reasons = Counter(_alike(reason) for looked in seen.values() for _, _, reason in looked.open)
    yield "## Why something is undecidable\n"
    yield "| Reason | Times |"
    yield "| --- | ---: |"
    yield from (_row(cell(reason), count) for reason, count in sorted(reasons.items(), key=_most_first))
    yield ""


def _most_first(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]


def _alike(reason: str) -> str:
    """A reason without the names that stand in it."""
    reason = re.sub(r"'[^']*'", "'…'", reason)
    reason = re.sub(r"\bparameter \w+", "parameter …", reason)
    return re.sub(r"a part of this text, .*, is known", "a part of this text, …, is known", reason)


def _findings(seen: Mapping[str, Looked], judged: Mapping[Key, Judgement]) -> Iterator[str]:
    yield "## Findings\n"
    for name, looked in seen.items():
        if not looked.found:
            continue
        yield f"### {name}\n"
        yield "| Rule | Judged | Why | Where |"
        yield "| --- | --- | --- | --- |"
        ordered = sorted(looked.found, key=lambda one: (one.key.rule, judged[one.key].why, one.key.file, one.line))
        for (rule, judgement), group in groupby(ordered, key=lambda one: (one.key.rule, judged[one.key])):
            verdict = "true" if judgement.is_true else "false positive"
            yield _row(f"`{rule}`", verdict, cell(judgement.why), _places(list(group)))
        yield ""


def _places(found: list[Found]) -> str:
    """Lines by file; several findings may stand in one line."""
    lines = groupby(dict.fromkeys((one.key.file, one.line) for one in found), key=lambda place: place[0])
    return "; ".join(f"`{file}` {', '.join(str(line) for _, line in group)}" for file, group in lines)


def _templates(seen: Mapping[str, Looked], judged: Mapping[Key, Judgement]) -> Iterator[str]:
    yield "## Templates with findings\n"
    for name, looked in seen.items():
        files = sorted({*(one.key.file for one in looked.found), *(file for file, _, _ in looked.open)})
        if not files:
            continue
        yield f"### In {name}\n"
        yield "| Template | True findings | False positives | Undecidable |"
        yield "| --- | ---: | ---: | ---: |"
        for file in files:
            yield _row(f"`{file}`", *_counts(looked, [file], judged)[1:4])
        yield ""


def _not_looked_at(seen: Mapping[str, Looked]) -> Iterator[str]:
    yield "## What cannot be looked at\n"
    yield "The command reports each in one line. For a file that cannot be used, its exit status is 2.\n"
    yield "| Repository | File | Why |"
    yield "| --- | --- | --- |"
    for name, looked in seen.items():
        for place, why in looked.unusable.items():
            yield _row(name, f"`{place}`", cell(why))
        for file, keys in looked.unread.items():
            shown = ", ".join(f"`{key}`" for key in keys)
            yield _row(name, f"`{file}`", f"{shown} is left out; the rest is looked at")
    yield ""


def _row(*values: object) -> str:
    return f"| {' | '.join(map(str, values))} |"
