"""The page of known traps names rules over templates, and a reason where it names none of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cdk_gpu_clusters.errors import defined_rules
from cdk_gpu_clusters.template_rules.registry import every_rule

PAGE = Path(__file__).resolve().parents[3] / "docs" / "known-traps.md"
LINES = PAGE.read_text(encoding="utf-8").splitlines()
ROWS = [line for line in LINES if line.startswith("| ") and not line.startswith(("| ---", "| Trap", "| Vali"))]
OVER_TEMPLATES = {rule.id for rule in every_rule()}
#: Rules of the constructs alone, named as what looks at a trap that no template shows.
OF_CONSTRUCTS = {"GPU-AMI-101", "GPU-DRA-006", "GPU-MIG-009", "GPU-PCS-038"}


def ids_in(text: str) -> list[str]:
    return re.findall(r"GPU-[A-Z0-9]+-\d{3}", text)


def test_the_lists_are_complete() -> None:
    traps = [row for row in ROWS if row.count(" | ") == 2]
    assert len(traps) == 72
    assert len(ROWS) - len(traps) == 28


@pytest.mark.parametrize("row", ROWS)
def test_a_row_names_rules_that_exist_or_says_why_there_is_none(row: str) -> None:
    rules = row.split(" | ")[1].rstrip(" |")
    assert set(ids_in(rules)) <= OVER_TEMPLATES | OF_CONSTRUCTS
    assert rules.startswith("none: ") or set(ids_in(rules)) & OVER_TEMPLATES
    if rules.startswith("none: "):
        assert len(rules) > len("none: no")


def test_rules_of_constructs_are_defined_where_the_page_of_rules_says() -> None:
    listed = ids_in((PAGE.parent / "rules.md").read_text(encoding="utf-8"))
    assert set(listed) >= OF_CONSTRUCTS
    assert not OF_CONSTRUCTS & OVER_TEMPLATES
    assert set(defined_rules()) >= OVER_TEMPLATES


def test_most_traps_are_caught_in_templates() -> None:
    caught = [row for row in ROWS if row.count(" | ") == 2 and not row.split(" | ")[1].startswith("none: ")]
    assert len(caught) >= 40
