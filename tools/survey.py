"""Run the rules over the templates of public repositories, and write docs/survey.md from what they say.

    python tools/survey.py OWNER/NAME=PATH …            write the page
    python tools/survey.py --list FILE                  the same; FILE has a line OWNER/NAME=PATH for each repository
    python tools/survey.py --check OWNER/NAME=PATH …    exit 1 if the page is not current

PATH is a checkout or a git directory; the commit that docs/survey/judgements.yml names is read from its objects, so
that the counts are the same whatever is checked out. Every repository of that file is to be named. No network is used.
A finding that nobody has judged, and a judgement of what is not found, is an error: exit status 1, one line for each.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from _pages import ROOT
from _survey_data import DataError, Key, Surveyed, read_survey
from _survey_git import GitError, TemplateFile, templates_of
from _survey_page import Found, Looked, render
from cdk_gpu_clusters.template_rules.document import UnusableTemplate, path_text
from cdk_gpu_clusters.template_rules.engine import judge
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.rule import Outcome
from cdk_gpu_clusters.template_rules.template import read_template

DATA = ROOT / "docs" / "survey" / "judgements.yml"
PAGE = ROOT / "docs" / "survey.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    options = _parser().parse_args(arguments)
    try:
        survey = read_survey(options.data)
        seen = look_at(survey, _given([*options.repository, *_listed(options.list)], survey))
    except (DataError, GitError, OSError) as fault:
        print(f"survey: {fault}", file=sys.stderr)
        return 2
    if faults := list(unjudged(seen, survey)):
        print("\n".join(faults), file=sys.stderr)
        return 1
    text = render(seen, survey)
    if not options.check:
        options.page.write_text(text, encoding="utf-8")
        return 0
    if options.page.exists() and options.page.read_text(encoding="utf-8") == text:
        return 0
    print(f"{options.page} is not current: run python tools/survey.py", file=sys.stderr)
    return 1


def look_at(survey: Surveyed, paths: Mapping[str, Path]) -> dict[str, Looked]:
    """Judge the templates of every repository, in the order of the file.

    Raises:
        GitError: If a repository cannot be read.
    """
    seen = {}
    with TemporaryDirectory() as folder:
        copy = Path(folder, "template")
        for name, commit in survey.commits.items():
            looked = seen[name] = Looked(commit)
            for file in templates_of(paths[name], commit):
                copy.write_bytes(file.content)
                _look_at(looked, name, file, copy)
    return seen


def _look_at(looked: Looked, repository: str, file: TemplateFile, copy: Path) -> None:
    try:
        template = read_template(copy)
    except UnusableTemplate as fault:
        place = f"{file.path}:{fault.place.line}" if fault.place else file.path
        looked.unusable[place] = fault.cause
        return
    looked.blobs[file.path] = file.blob
    if template.unread:
        looked.unread[file.path] = template.unread
    for verdict in judge(template, every_rule()):
        if verdict.outcome is Outcome.UNDECIDABLE:
            looked.open.append((file.path, verdict.rule.id, verdict.reason))
        elif verdict.outcome is Outcome.NOT_COMPLIANT:
            key = Key(repository, file.path, verdict.rule.id, path_text(verdict.path))
            looked.found.append(Found(key, template.place(verdict.path).line, verdict.severity.value))


def unjudged(seen: Mapping[str, Looked], survey: Surveyed) -> Iterator[str]:
    """A line for each finding without a judgement, and for each judgement without a finding."""
    found = {one.key: one for looked in seen.values() for one in looked.found}
    for key, one in found.items():
        if key not in survey.judgements:
            yield f"not judged: {key.repository} {key.file}:{one.line} {key.rule} {key.path}"
    for key in survey.judgements:
        if key not in found:
            yield f"judged, but not found: {' '.join(key)}"


def _given(pairs: Sequence[str], survey: Surveyed) -> dict[str, Path]:
    paths = {name: Path(path) for name, _, path in (pair.partition("=") for pair in pairs)}
    for name in survey.commits:
        if name not in paths:
            raise DataError(f"{name} is surveyed: give {name}=PATH")
    for name in paths:
        if name not in survey.commits:
            raise DataError(f"{name} is not surveyed: add it with its commit to the file of judgements")
    return paths


def _listed(file: Path | None) -> list[str]:
    return [] if file is None else [line for line in file.read_text(encoding="utf-8").splitlines() if line]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", nargs="*", help="OWNER/NAME=PATH", metavar="OWNER/NAME=PATH")
    parser.add_argument("--list", type=Path, help="a file with such a line for each")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is not current")
    parser.add_argument("--data", type=Path, default=DATA, help="the file of judgements")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page")
    return parser


if __name__ == "__main__":
    sys.exit(main())
