"""`gpu-clusters lint`: the GPU rules over CloudFormation templates and `cdk.out` folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from cdk_gpu_clusters.template_rules.acknowledgements import Acknowledgement, read_acknowledgements
from cdk_gpu_clusters.template_rules.document import UnusableTemplate
from cdk_gpu_clusters.template_rules.lint import Report, Unusable
from cdk_gpu_clusters.template_rules.lint import lint as lint_files
from cdk_gpu_clusters.template_rules.registry import choose_rules
from cdk_gpu_clusters.template_rules.reports import FORMATS
from cdk_gpu_clusters.template_rules.rule import TemplateRule

from . import complete, output
from .group import examples, new_app

_Format = Literal["human", "json", "sarif", "junit"]
_Least = Literal["error", "warning", "info"]
_SEVERITIES = get_args(_Least)

app = new_app()


def _ids_option(does: str) -> Any:
    words = f"{does} rules whose ids start with it; several with commas, or again."
    return typer.Option(metavar="ID", help=words, autocompletion=complete.rules)


@app.command(
    epilog=examples(
        "gpu-clusters lint template.yaml",
        "gpu-clusters lint --format sarif cdk.out > findings.sarif",
        then="Exit status: 0 no findings, 1 findings, 2 unusable input.",
    )
)
def lint(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Templates (JSON or YAML), cdk.out folders; - for standard input."),
    ],
    form: Annotated[_Format, typer.Option("--format", help="Form of the report.")] = "human",
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    select: Annotated[list[str], _ids_option("Ask only")] = [],  # noqa: B006
    ignore: Annotated[list[str], _ids_option("Do not ask")] = [],  # noqa: B006
    acknowledgements: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="YAML or JSON: acknowledge: [{id: …, reason: …, resource: …}]"),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(
            help="Region of templates that do not say theirs, such as us-east-1.", autocompletion=complete.regions
        ),
    ] = None,
    fail_on: Annotated[_Least, typer.Option(help="Least severity of a finding that makes the exit status 1.")] = "info",
    strict: Annotated[bool, typer.Option("--strict", help="What is undecidable makes the exit status 1, too.")] = False,
) -> None:
    """Look at CloudFormation templates with the GPU rules."""
    rules = _rules(select, ignore)
    accepted = _acknowledgements(acknowledgements)
    with output.held_files(paths) as (held, hidden):
        report = lint_files(held, rules, acknowledgements=accepted, region=region)
    for unusable in report.unusable:
        output.write(f"{unusable}\n".removeprefix(hidden), stderr=True)
    chosen = "json" if json else form
    if report.files or chosen != "human":
        output.write(FORMATS[chosen](report).replace(hidden, ""))
    output.leave(_status(report, fail_on, strict=strict))


def _rules(select: list[str], ignore: list[str]) -> list[TemplateRule]:
    try:
        return list(choose_rules(select=_ids(select), ignore=_ids(ignore)))
    except ValueError as fault:
        output.refuse(f"lint: {fault}")


def _acknowledgements(file: Path | None) -> list[Acknowledgement]:
    try:
        return list(read_acknowledgements(file)) if file else []
    except UnusableTemplate as fault:
        output.write(f"{Unusable(str(file), fault)}\n", stderr=True)
        output.leave(2)


def _ids(values: list[str]) -> list[str]:
    return [prefix for value in values for prefix in value.split(",") if prefix]


def _status(report: Report, fail_on: str, *, strict: bool) -> int:
    if report.unusable:
        return 2
    failing = _SEVERITIES[: _SEVERITIES.index(fail_on) + 1]
    found = any(one.verdict.severity.value in failing for one in report.faults())
    return 1 if found or (strict and (report.undecidable() or report.unread)) else 0
