"""The site's page about each rule: `rules/GPU-EFA-030/`. The addresses are stable, as the ids are."""

from __future__ import annotations

import re
from functools import cache

from _template_rules import plain, sentence, template_part
from write_rules_page import AREAS, Row, every_rule

#: Where the pages seem to stand in the repository; they are made when the site is built.
FOLDER = "docs/rules"
_ROW = re.compile(r"^\| `(GPU-[A-Z0-9]+-\d+)` \|", re.MULTILINE)
_AREAS = re.compile(r"(?:^- .+\n)+", re.MULTILINE)
_AREA = re.compile(r"^- `(GPU-[A-Z0-9]+)`", re.MULTILINE)


@cache
def rows() -> dict[str, Row]:
    """All rules by id."""
    return {row.id: row for row in every_rule()}


def rule_page(rule_id: str) -> str:
    """The page about a rule."""
    row = rows()[rule_id]
    return f"""\
# {row.id}

{sentence(row.title)}

- Area: {AREAS[row.area]}
- Source: {plain(row.source)}
- Decided in: `{row.file}`
{template_part(rule_id)}
[All rules](../rules.md)
"""


def with_links(table: str) -> str:
    """The page of all rules as the site has it: each id links to its page, and each area to its first rule."""
    first = {row.area: row.id for row in reversed(rows().values())}

    def linked(found: re.Match[str]) -> str:
        row = rows()[found[1]]
        anchor = f"{{#gpu-{row.area.lower()}}}" if first[row.area] == row.id else ""
        return f"| [`{row.id}`](rules/{row.id}.md){anchor} |"

    text = _AREA.sub(lambda found: f"- [`{found[1]}`](#{found[1].lower()})", _ROW.sub(linked, table))
    return _AREAS.sub(r'<div class="columns" markdown>\n\n\g<0>\n</div>\n', text)
