"""The page of the examples and the cookbook name every example, and links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pages import PAGES, REPOSITORY, name_of

EXAMPLES = {
    path.relative_to(REPOSITORY / "examples").as_posix()
    for pattern in ("*.yaml", "*/app.py")
    for path in (REPOSITORY / "examples").glob(pattern)
}


def test_the_page_of_the_examples_has_a_row_for_each() -> None:
    page = (REPOSITORY / "examples" / "README.md").read_text("utf-8")
    rows = re.findall(r"^\| \[`(\S+\.(?:yaml|py))`\]\(\1\) \| \S.* \|$", page, re.MULTILINE)
    assert sorted(rows) == sorted(EXAMPLES)


def test_the_page_of_the_examples_names_all_that_its_prices_leave_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "tools"))
    from _examples import cluster_files

    page = " ".join((REPOSITORY / "examples" / "README.md").read_text("utf-8").split())
    listed = {
        "root volumes": "root volumes",
        "load balancers": "load balancers",
        "network: endpoints or NAT gateway, flow logs": "the network",
        "data transfer, metrics and logs": "data transfer, logs",
        "objects in S3": "stored objects",
    }
    for one in cluster_files():
        for name in one.plan.cost.missing:
            assert name in one.unpriced or listed[name] in page


def test_the_cookbook_says_how_to_use_each_example() -> None:
    cookbook = (REPOSITORY / "docs" / "cookbook.md").read_text("utf-8")
    links = re.findall(r"\(\.\./examples/(\S+\.(?:yaml|py))\)", cookbook)
    assert set(links) == EXAMPLES


@pytest.mark.parametrize("page", sorted({*PAGES, *REPOSITORY.glob("*.md")}), ids=name_of)
def test_links_to_files_of_the_repository_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8"))
    files = [target for target in targets if "://" not in target]
    assert [target for target in files if not (page.parent / target).exists()] == []
