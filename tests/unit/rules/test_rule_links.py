"""Every link of a rule is recorded: when its page was last seen, and whether it was read."""

from __future__ import annotations

import csv
from datetime import date
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cdk_gpu_clusters.template_rules.registry import every_rule

RECORD = Path(__file__).resolve().parents[3] / "tools" / "rule_links.csv"
HOSTS = {"docs.aws.amazon.com", "docs.nvidia.com", "github.com", "man7.org"}

with RECORD.open(encoding="utf-8", newline="") as lines:
    ROWS = list(csv.DictReader(lines))


def test_every_link_of_a_rule_is_recorded_and_nothing_else() -> None:
    assert [row["url"] for row in ROWS] == sorted({rule.url for rule in every_rule()})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["url"])
def test_a_link_is_a_page_of_a_known_site_that_was_seen_on_a_day(row: dict[str, str]) -> None:
    address = urlsplit(row["url"])
    assert address.scheme == "https"
    assert address.netloc in HOSTS
    assert address.path.endswith((".html", ".md", "/"))
    assert address.query + address.fragment == ""
    assert date(2026, 11, 20) <= date.fromisoformat(row["seen"])
    assert row["how"] in ("read", "address")


def test_most_pages_were_read() -> None:
    assert sum(row["how"] == "read" for row in ROWS) > 0.8 * len(ROWS)
