"""The part of docs/rules.md about the rules over templates: what each looks at, and examples of both kinds."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cdk_gpu_clusters.template_rules.rule import TemplateRule

#: When each page that a rule links was last seen, and whether it was read then or its address found in other sources.
LINKS = Path(__file__).with_name("rule_links.csv")

INTRODUCTION = """\

## Over templates

These rules look at any CloudFormation template, too: [template rules](template-rules.md) says how to run them. Their
sources stand above. With each link stands when its page was last read; where only its address was seen, in other pages,
that is said, and the rule rests on its source.
"""


def template_rules() -> Iterator[str]:
    """The part, line by line."""
    from cdk_gpu_clusters.template_rules.registry import every_rule

    yield INTRODUCTION
    for rule in every_rule():
        yield from _rule(rule)


def _rule(rule: TemplateRule) -> Iterator[str]:
    yield f"### {rule.id}: {_text(rule.title)}\n"
    yield f"- Severity: {rule.severity.value}"
    yield f"- Cause: {_text(rule.cause)}"
    yield f"- Fix: {_text(rule.fix)}"
    yield f"- Asked about: {', '.join(f'`{kind}`' for kind in rule.on)}"
    yield f"- Looks at: {', '.join(_path(path) for path in rule.looks_at)}"
    yield f"- More: [{rule.url.removeprefix('https://')}]({rule.url}), {_seen()[rule.url]}\n"
    for title, example in (("It finds a fault in", rule.bad), ("and none in", rule.good)):
        yield f"{title}\n\n```yml\n{example.strip()}\n```\n"


@cache
def _seen() -> dict[str, str]:
    """What is known of each link."""
    with LINKS.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    words = {"read": "read on {}", "address": "address seen on {}, page not read"}
    return {row["url"]: words[row["how"]].format(row["seen"]) for row in rows}


def _text(text: str) -> str:
    return text.replace("<", "&lt;").replace("*", "\\*")


def _path(path: str) -> str:
    """A path as code; some are words."""
    return path if " " in path else f"`{path}`"
