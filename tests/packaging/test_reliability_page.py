"""Tests that pages name exist; docs/reliability.md and the tests of faults say the same."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from pages import PAGES, REPOSITORY, name_of, named_test_files, named_tests

TESTS = REPOSITORY / "tests"
PAGE = (REPOSITORY / "docs/reliability.md").read_text()
NAMING = [page for page in PAGES if named_tests(page) or named_test_files(page)]
LEAST_FAULTS = 25


def rows() -> list[list[str]]:
    """The cells of each row, without heads and rules."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and "::" in line]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def named() -> set[str]:
    return {found for row in rows() for found in re.findall(r"`([^`]+::[^`]+)`", row[-1])}


def functions(file: Path) -> set[str]:
    body = ast.parse(file.read_text()).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_rows_are_whole() -> None:
    assert {len(row) for row in rows()} == {4}
    assert all(re.fullmatch(r"`[^`]+::[^`]+`", row[-1]) for row in rows())


@pytest.mark.parametrize("page", NAMING, ids=name_of)
def test_every_test_of_a_page_is_there(page: Path) -> None:
    missing = [name for name in named_test_files(page) if not (REPOSITORY / name).exists()]
    for name in named_tests(page):
        file, _, function = name.partition("::")
        path = TESTS / file
        if not path.is_file() or function not in functions(path):
            missing.append(name)
    assert missing == []


def test_pages_that_name_tests_are_looked_at() -> None:
    names = {name_of(page) for page in NAMING}
    assert {"docs/reliability.md", "docs/security.md", "docs/security-controls.md"} <= names
    assert named() <= named_tests(REPOSITORY / "docs/reliability.md")


def test_every_test_of_faults_is_on_the_page() -> None:
    files = [*TESTS.glob("unit/node/test_*_faults.py"), *TESTS.glob("node/test_*_faults.py")]
    tests = {f"{file.relative_to(TESTS)}::{name}" for file in files for name in functions(file)}
    assert tests
    assert sorted(tests - named()) == []


def test_there_are_enough_of_them() -> None:
    """Rows of faults, without those that show that nothing happens where nothing is wrong."""
    faults = PAGE.partition("## Without a fault")[0]
    assert sum("::" in line for line in faults.splitlines()) >= LEAST_FAULTS
