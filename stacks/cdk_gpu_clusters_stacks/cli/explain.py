"""`gpu-clusters explain`: a rule by its id, or all rules of an area."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from cdk_gpu_clusters_stacks import terminal

from . import complete, output
from .group import examples, new_app
from .rule_index import rule_index

app = new_app()


@app.command(
    epilog=examples(
        "gpu-clusters explain GPU-EFA-001",
        "gpu-clusters explain GPU-MIG",
        then="Exit status: 0; 2 for an id that no rule has.",
    )
)
def explain(
    rule: Annotated[
        str, typer.Argument(metavar="ID", help="Id of a rule, or its beginning.", autocompletion=complete.rules)
    ],
    as_json: output.Json = False,
) -> None:
    """Explain a rule: what it asks for, why, how to follow it, and the source that it rests on."""
    known = rule_index()
    wanted = rule.upper()
    if wanted in known:
        found = {wanted: _rule(wanted, known[wanted])}
    else:
        found = {one: _rule(one, facts) for one, facts in known.items() if one.startswith(wanted)}
    if not found:
        near = get_close_matches(wanted, known, n=3)
        output.refuse(f"explain: there is no rule {rule}" + (f"; did you mean {' or '.join(near)}?" if near else ""))
    if as_json:
        output.write_document({"rules": list(found.values())})
    elif wanted in found:
        output.write_headed("".join(f"{line}\n" for line in _lines(found[wanted])))
    else:
        output.write_table(("rule", "asks for"), ((one, facts["title"]) for one, facts in found.items()))


def _rule(rule_id: str, facts: Mapping[str, str]) -> dict[str, Any]:
    """What is known about a rule; more about those that check templates."""
    from cdk_gpu_clusters.template_rules.registry import every_rule

    made: dict[str, Any] = {"id": rule_id, **facts}
    one = next((one for one in every_rule() if one.id == rule_id), None)
    if one is not None:
        about = {"severity": one.severity.value, "why": one.cause, "fix": one.fix, "url": one.url}
        made |= {**about, "resource_types": list(one.on)}
    return made


def _lines(rule: Mapping[str, Any]) -> Iterator[str]:
    yield f"{rule['id']}: {rule['title']}"
    if "resource_types" in rule:
        yield from _paragraph("why", rule["why"])
        yield from _paragraph("fix", rule["fix"])
        yield from _paragraph("checks", f"templates ({rule['severity']}): {', '.join(rule['resource_types'])}")
    yield from _paragraph("area", rule["area"])
    yield from _paragraph("source", rule["source"])
    if "url" in rule:
        yield from _paragraph("read", rule["url"])


def _paragraph(name: str, text: str) -> Iterator[str]:
    head, rest = f"  {name:<8} ", " " * 11
    yield from textwrap.wrap(
        text, terminal.text_width(), initial_indent=head, subsequent_indent=rest, break_on_hyphens=False
    )
