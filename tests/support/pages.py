"""The pages of the documentation, and the code on them.

Every block between fences is run by a test (`RUN_BY`), or a comment above it states why it cannot run here:
`<!-- not run: REASON -->`. `<!-- run without PROGRAM, PROGRAM: REASON -->` leaves out some commands of a block, each
given by its first words. tests/packaging/test_blocks_of_pages.py is the inventory.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

REPOSITORY = Path(__file__).resolve().parents[2]
README = REPOSITORY / "README.md"
COOKBOOK = REPOSITORY / "docs" / "cookbook.md"
PAGES = (README, *sorted((REPOSITORY / "docs").rglob("*.md")))
#: Also those that the documentation site does not show.
EVERY_PAGE = sorted(
    {*PAGES, *(page for folder in (".", "examples", ".github") for page in REPOSITORY.glob(f"{folder}/*.md"))}
)
_FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)$")
_COMMENT = re.compile(r"^ *<!-- (?P<kind>not run|run without (?P<programs>[^:]+)): (?P<reason>\S.*) -->$")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code on a page.

    Attributes:
        page: Path of the page in the repository.
        line: Line of its first fence.
        language: The word behind the fence.
        text: What is between the fences, without the indentation of a list.
        comment: The line above the fence, if it states that something is not run.
    """

    page: str
    line: int
    language: str
    text: str
    comment: re.Match[str] | None

    @property
    def is_run(self) -> bool:
        """Whether no comment states that it cannot run here."""
        return self.comment is None or self.comment["kind"] != "not run"

    @property
    def left_out(self) -> tuple[str, ...]:
        """The first words of the commands that are not run."""
        programs = self.comment["programs"] if self.comment else None
        return tuple(programs.split(", ")) if programs else ()

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


#: Its blocks run in order, in a tier of their own.
TUTORIAL = "docs/tutorial.md"
_ELSEWHERE = {TUTORIAL, "README.md", "docs/cookbook.md", "docs/testing.md", "docs/develop/add-a-rule.md"}
#: Test, by its path below tests/, to the blocks that it runs or compares. Each takes them from `run_by`.
RUN_BY: dict[str, Callable[[Block], bool]] = {
    "deploy/test_code_on_pages.py": lambda one: one.language == "python" and one.page not in _ELSEWHERE,
    "deploy/test_commands_on_pages.py": lambda one: (
        (one.language in {"sh", "console"} and one.page != TUTORIAL)
        or (one.language == "json" and one.page == "docs/explain.md")
        or (one.language == "text" and one.page == "docs/cost.md")
    ),
    "deploy/test_deployed_drifts.py": lambda one: one.language == "text" and one.page == "docs/doctor.md",
    "deploy/test_deployed_status.py": lambda one: one.language == "text" and one.page == "docs/status.md",
    "deploy/test_testing_page.py": lambda one: one.language == "python" and one.page == "docs/testing.md",
    "packaging/test_wheel.py": lambda one: one.language in {"python", "yaml"} and one.page == "README.md",
    "synth/test_examples_in_python.py": lambda one: one.language == "python" and one.page == "docs/cookbook.md",
    "tutorial/test_tutorial.py": lambda one: one.page == TUTORIAL,
    "unit/cli/test_import_command.py": lambda one: one.language in {"text", "yml"} and one.page == "docs/import.md",
    "unit/jobs/test_batch_scripts_on_pages.py": lambda one: one.language == "bash",
    "unit/kubernetes/test_workloads_page.py": lambda one: one.language == "yml" and one.page == "docs/eks-workloads.md",
    "packaging/test_blocks_of_pages.py": lambda one: one.language == "text" and one.page == "CONTRIBUTING.md",
    "unit/plan/test_plan_on_pages.py": lambda one: (
        one.language == "text" and one.page in {"docs/command-line.md", "docs/eks.md", "docs/eks-day-2.md"}
    ),
    "unit/spec/test_cluster_file_page.py": lambda one: one.language in {"yaml", "ini"} and one.page not in _ELSEWHERE,
    "unit/status/test_kueue_queues.py": lambda one: one.language == "yml" and one.page == "docs/status.md",
    "unit/template_rules/test_blocks_about_rules.py": lambda one: (
        one.page == "docs/develop/add-a-rule.md" or (one.page == "docs/template-rules.md" and one.language == "yml")
    ),
}


def blocks_of(page: Path) -> list[Block]:
    """Every block between fences of a page, in order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    found = []
    number = 0
    while number < len(lines):
        if fence := _FENCE.match(lines[number]):
            end = next(at for at in range(number + 1, len(lines)) if lines[at] == fence[1] + fence[2])
            text = "".join(f"{line}\n" for line in lines[number + 1 : end])
            comment = _COMMENT.match(lines[number - 1]) if number else None
            found.append(Block(name_of(page), number + 1, fence[3], dedent(text), comment))
            number = end
        number += 1
    return found


def run_by(test: str) -> list[Block]:
    """The blocks of all pages that a test runs, given by its `__file__`."""
    runs = RUN_BY[Path(test).resolve().relative_to(REPOSITORY / "tests").as_posix()]
    return [one for page in EVERY_PAGE for one in blocks_of(page) if one.is_run and runs(one)]


def name_of(page: Path) -> str:
    """A page's path in the repository, as the name of a test."""
    return page.relative_to(REPOSITORY).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    """The blocks of a page in that language, in order."""
    return [one.text for one in blocks_of(page) if one.language == language]


def without_code(page: Path) -> str:
    """The text of a page, its blocks and its code in the line left out."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def named_tests(page: Path) -> set[str]:
    """The tests that a page names, as `folder/test_file.py::test_name` below the folder of tests."""
    return set(re.findall(r"`([\w/]+\.py::\w+)`", page.read_text(encoding="utf-8")))


def named_test_files(page: Path) -> set[str]:
    """The files and folders of tests that a page names, as `tests/...`."""
    return set(re.findall(r"`(tests/[\w/.-]+)`", page.read_text(encoding="utf-8")))
