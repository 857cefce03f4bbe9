"""All rules over templates, found in the modules of `template_rules.rules`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from cdk_gpu_clusters.template_rules import rules as areas
from cdk_gpu_clusters.template_rules.rule import TemplateRule


@cache
def every_rule() -> tuple[TemplateRule, ...]:
    """All rules, by id."""
    modules = [import_module(f"{areas.__name__}.{module.name}") for module in iter_modules(areas.__path__)]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, TemplateRule)]
    return tuple(sorted(found, key=lambda rule: rule.id))


def choose_rules(*, select: Sequence[str] = (), ignore: Sequence[str] = ()) -> list[TemplateRule]:
    """The rules whose ids start with one of `select` (all, if it is empty), and with none of `ignore`.

    Raises:
        ValueError: If a prefix is the beginning of no id.
    """
    rules = every_rule()
    for prefix in (*select, *ignore):
        if not any(rule.id.startswith(prefix) for rule in rules):
            raise ValueError(f"no rule has an id that starts with {prefix!r}")
    return [rule for rule in rules if (not select or _starts(rule.id, select)) and not _starts(rule.id, ignore)]


def _starts(rule_id: str, prefixes: Iterable[str]) -> bool:
    return rule_id.startswith(tuple(prefixes))
