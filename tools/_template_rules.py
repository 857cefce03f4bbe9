"""The rules over templates, for the page of all rules and for the site's page about each."""

from __future__ import annotations

import csv
from functools import cache
from typing import TYPE_CHECKING

from _pages import ROOT

if TYPE_CHECKING:
    from cdk_gpu_clusters.template_rules.rule import TemplateRule

#: The examples of each rule; a page of the site is made of each of these files.
FIXTURES = "tests/fixtures/template_rules"
#: The date on which each linked page was last seen, and whether it was read then or only its address was found.
LINKS = ROOT / "tools" / "rule_links.csv"
_SEEN = {"read": "read on {}", "address": "address seen on {}, page not read"}


@cache
def template_rules() -> dict[str, TemplateRule]:
    """All rules over templates, by id; none in a checkout without them."""
    if not (ROOT / FIXTURES).exists():
        return {}
    from cdk_gpu_clusters.template_rules.registry import every_rule

    return {rule.id: rule for rule in every_rule()}


def template_cell(rule_id: str) -> str:
    """The severity of a rule over templates, with a link to its examples; empty for another rule."""
    rule = template_rules().get(rule_id)
    return f"[{rule.severity.value}](../{FIXTURES}/{rule_id}.yaml)" if rule else ""


def template_part(rule_id: str) -> str:
    """What the page about a rule says of templates; empty for a rule that is not asked of them."""
    rule = template_rules().get(rule_id)
    if rule is None:
        return ""
    bad, changes, *_ = (ROOT / FIXTURES / f"{rule_id}.yaml").read_text(encoding="utf-8").split("\n---\n")
    return f"""\
- Severity in templates: {rule.severity.value}
- Why: {sentence(rule.cause)}
- Fix: {sentence(rule.fix)}
- Checks: {", ".join(f"`{kind}`" for kind in rule.on)}
- Reads: {", ".join(_path(path) for path in rule.looks_at)}
- More: [{rule.url.removeprefix("https://")}]({rule.url}), {_seen()[rule.url]}

How to run the rules, and how to accept a finding: [rules for any template](../template-rules.md).

## A template with the fault

```yaml
{bad.strip()}
```

## The changes that make it valid

Each path has its new value; `null` removes a value.

```yaml
{changes.strip()}
```
"""


@cache
def _seen() -> dict[str, str]:
    """When the page behind each link was seen."""
    with LINKS.open(encoding="utf-8", newline="") as lines:
        return {row["url"]: _SEEN[row["how"]].format(row["seen"]) for row in csv.DictReader(lines)}


def sentence(text: str) -> str:
    """A text of a rule as a sentence of Markdown."""
    return f"{text[0].upper()}{plain(text[1:])}."


def plain(text: str) -> str:
    """A text without meaning for Markdown."""
    return text.replace("<", "&lt;").replace("*", "\\*")


def _path(path: str) -> str:
    """A path as code; some are words."""
    return path if " " in path else f"`{path}`"
