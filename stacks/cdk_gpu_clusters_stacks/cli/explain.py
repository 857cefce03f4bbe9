"""`gpu-clusters explain`: a rule by its id, all rules of an area, or why the nodes of a cluster are not there."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdk_gpu_clusters_stacks import terminal

from . import complete, files, output
from .account import Profile, account_of
from .group import examples, new_app
from .rule_index import rule_index

if TYPE_CHECKING:
    from cdk_gpu_clusters_stacks.failures import Reading
    from cdk_gpu_clusters_stacks.spec import ClusterSpec

# EC2 Auto Scaling keeps activities for six weeks.
_WEEK_HOURS, _MOST_HOURS = 7 * 24, 6 * 7 * 24

app = new_app()


@app.command(
    epilog=examples(
        "gpu-clusters explain GPU-EFA-001",
        "gpu-clusters explain cluster.yaml",
        "gpu-clusters explain --saved events.json",
        then="Exit status: 0, for a file: 0 no failure found, 1 failures found; 2 for what cannot be used.",
    )
)
def explain(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="ID|FILE",
            help="Id of a rule, or its beginning; or a cluster file, whose account is asked why nodes are missing.",
            autocompletion=complete.rules_and_cluster_files,
        ),
    ] = None,
    saved: Annotated[
        Path | None,
        typer.Option(
            "--saved",
            metavar="FILE",
            help="Explain what was saved: by --save, the AWS CLI or a log; - is standard input.",
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Also write the account's answers to a new file.")
    ] = None,
    hours: Annotated[
        float, typer.Option(min=1, max=_MOST_HOURS, help="How many hours to look back in an account.")
    ] = _WEEK_HOURS,
    profile: Profile = None,
    print_policy: Annotated[
        bool, typer.Option("--print-policy", help="Print the IAM policy that the reading needs, and ask nothing.")
    ] = False,
    force: files.Force = False,
    as_json: output.Json = False,
) -> None:
    """Explain a rule: what it asks for, why, how to follow it, and the source that it rests on.

    With a cluster file: why its nodes are not there. The account is only read.
    """
    if saved is not None:
        if what is not None or save is not None or print_policy:
            output.refuse("explain: --saved takes no id, no cluster file, and neither --save nor --print-policy")
        _explain_failures(_saved(saved), as_json=as_json)
    elif what is None:
        output.refuse("explain: give the id of a rule, a cluster file, or --saved FILE")
    elif _is_file(what):
        _explain_cluster(
            Path(what), save, hours=hours, profile=profile, print_policy=print_policy, force=force, as_json=as_json
        )
    elif save is not None or print_policy:
        output.refuse("explain: --save and --print-policy need a cluster file")
    else:
        _explain_rule(what, as_json=as_json)


def _is_file(what: str) -> bool:
    """Whether it is a cluster file, rather than the id of a rule."""
    return what == output.STREAM or Path(what).suffix in (".yaml", ".yml", ".json") or Path(what).is_file()


# Why nodes are not there.


def _explain_cluster(
    file: Path,
    save: Path | None,
    *,
    hours: float,
    profile: str | None,
    print_policy: bool,
    force: bool,
    as_json: bool,
) -> None:
    from cdk_gpu_clusters_stacks import failures

    spec = output.read(file, as_json=as_json)
    if print_policy:
        output.write_json(failures.policy_to_explain(spec))
        return
    if save is not None and save.exists() and not force:
        output.refuse(f"{save} exists; --force writes over it")
    reading = _ask(spec, profile, hours)
    if save is not None:
        files.write_new(save, failures.saved_text(reading), force=force)
    _explain_failures(reading, as_json=as_json)


def _ask(spec: ClusterSpec, profile: str | None, hours: float) -> Reading:
    from cdk_gpu_clusters_stacks.failures import read_account

    with account_of(spec, profile, command="explain") as account, terminal.steps(f"asking {spec.region}"):
        return read_account(spec, account, now=datetime.now(UTC), hours=hours)


def _saved(file: Path) -> Reading:
    from cdk_gpu_clusters_stacks.failures import NothingKnown, read_saved

    try:
        return read_saved(output.read_text(file))
    except NothingKnown as fault:
        output.refuse(f"explain: {file} is nothing that failures are read from: {fault}")


def _explain_failures(reading: Reading, *, as_json: bool) -> None:
    from cdk_gpu_clusters_stacks import failures

    found = failures.failures_of(reading)
    if as_json:
        output.write_document(failures.as_json(reading, found))
    else:
        titles = {rule: facts["title"] for rule, facts in rule_index().items()}
        lines = failures.format_failures(reading, found, rule_titles=titles)
        output.write_headed("".join(f"{line}\n" for line in lines))
    output.leave(1 if found else 0)


# A rule.


def _explain_rule(rule: str, *, as_json: bool) -> None:
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
