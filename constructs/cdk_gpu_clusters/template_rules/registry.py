"""All rules over templates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module

from cdk_gpu_clusters.template_rules.rule import TemplateRule

#: Folders of `policy.rules`; each lists its rules in `RULES`.
AREAS = (
    "batch",
    "capacity",
    "cost",
    "efa",
    "eks",
    "hyperpod",
    "inference",
    "launch",
    "mig",
    "pcs",
    "storage",
)


@cache
def every_rule() -> tuple[TemplateRule, ...]:
    """All rules, by id."""
    packages = [import_module(f"cdk_gpu_clusters.template_rules.rules.{area}") for area in AREAS]
    return tuple(sorted((rule for package in packages for rule in package.RULES), key=lambda rule: rule.id))


def choose_rules(*, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> list[TemplateRule]:
    """The rules whose ids start with one of `select` (all, if it is empty), and with none of `ignore`.

    Raises:
        ValueError: If a prefix is the beginning of no id.
    """
    rules = every_rule()
    for prefix in (*select, *ignore):
        if not any(rule.id.startswith(prefix) for rule in rules):
            raise ValueError(f"no rule has an id that starts with {prefix!r}")
    return [
        rule for rule in rules if (not select or _starts(rule.id, select)) and not _starts(rule.id, ignore)
    ]


def _starts(rule_id: str, prefixes: Iterable[str]) -> bool:
    return rule_id.startswith(tuple(prefixes))
