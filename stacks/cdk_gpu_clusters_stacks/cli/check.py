"""`gpu-clusters check`: cluster files and CloudFormation templates, by our rules and cfn-lint's, in one gate."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from cdk_gpu_clusters.errors import Finding, Severity
from cdk_gpu_clusters_stacks import terminal
from cdk_gpu_clusters_stacks.counting import count

from . import complete, output
from .group import examples, new_app

if TYPE_CHECKING:
    from cdk_gpu_clusters.template_rules.lint import PlacedVerdict, Report
    from cdk_gpu_clusters_stacks.spec import ClusterSpec

_Least = Literal["error", "warning", "info"]
_SEVERITIES = get_args(_Least)
#: A key that every template has, and no cluster file.
_TEMPLATE = re.compile(r"""(?m)^\s*["']?(Resources|AWSTemplateFormatVersion|Fn::Transform)["']?\s*:""")
_UNREADABLE = "GPU-SPEC-001"
_CFN_LINT = "cfn-lint"
_LEVELS = {"error": Severity.ERROR, "warning": Severity.WARNING, "informational": Severity.INFO}

app = new_app()


@dataclass(slots=True)
class Gate:
    """What was checked, and found.

    Attributes:
        clusters: Name and number of fleets of each valid cluster file, by file.
        templates: The templates that were checked.
        findings: Faults; their paths are `file:line:column`.
        undecidable: How many questions only a deployment answers.
        unusable: Files that could not be checked, each in a line.
    """

    clusters: dict[str, str] = field(default_factory=dict)
    templates: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    undecidable: int = 0
    unusable: list[str] = field(default_factory=list)

    def has(self, least: str) -> bool:
        """Whether a finding is at least that bad."""
        failing = _SEVERITIES[: _SEVERITIES.index(least) + 1]
        return any(one.severity.value in failing for one in self.findings)


@app.command(
    epilog=examples(
        "gpu-clusters check cluster.yaml",
        "gpu-clusters check cluster.yaml cdk.out",
        "gpu-clusters check --json - < cluster.yaml",
        then="Exit status: 0 no fault, 1 faults, 2 a file that cannot be read.",
    )
)
def check(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Cluster files, templates, cdk.out folders; - for standard input."),
    ],
    deployed: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The cluster file as it was deployed: a change that would replace a store is a fault."
        ),
    ] = None,
    region: Annotated[
        str | None, typer.Option(help="Region of templates that do not name theirs.", autocompletion=complete.regions)
    ] = None,
    cfn_lint: Annotated[
        bool | None,
        typer.Option("--cfn-lint/--no-cfn-lint", help="Run cfn-lint over templates. Default: if it is installed."),
    ] = None,
    fail_on: Annotated[_Least, typer.Option(help="Least severity that makes the exit status 1.")] = "error",
    strict: Annotated[bool, typer.Option("--strict", help="What is undecidable makes the exit status 1, too.")] = False,
    as_json: output.Json = False,
) -> None:
    """Check cluster files and CloudFormation templates: every fault at once, each with its place and its fix.

    Templates are checked with the GPU rules and with cfn-lint. Nothing is looked up in an account.
    """
    with output.held_files(files) as (held, hidden):
        gate = _look_at(held, hidden, deployed=deployed, region=region, cfn_lint=cfn_lint)
    if as_json:
        output.write_document(_document(gate))
    else:
        _print(gate)
    if gate.unusable:
        output.leave(2)
    output.leave(1 if gate.has(fail_on) or (strict and gate.undecidable) else 0)


def _look_at(
    files: Sequence[Path], hidden: str, *, deployed: Path | None, region: str | None, cfn_lint: bool | None
) -> Gate:
    before = None if deployed is None else output.read(deployed)
    gate = Gate()
    templates: list[Path] = []
    for file in files:
        if _is_template(file):
            templates.append(file)
        else:
            is_held = bool(hidden) and str(file).startswith(hidden)
            _check_cluster(gate, file, shown=file.name if is_held else "", deployed=before)
    if templates:
        _check_templates(gate, templates, region=region, cfn_lint=cfn_lint)
    gate.findings = [_shown_at(one, hidden) for one in gate.findings]
    gate.templates = [name.removeprefix(hidden) for name in gate.templates]
    return gate


def _shown_at(finding: Finding, hidden: str) -> Finding:
    from dataclasses import replace

    return replace(finding, path=finding.path.removeprefix(hidden))


def _is_template(file: Path) -> bool:
    """Whether a file is a template or a folder of them; a file that cannot be read is taken for a cluster file."""
    try:
        if file.is_dir() or file.suffix in (".json", ".template"):
            return True
        return _TEMPLATE.search(file.read_text("utf-8", "replace")) is not None
    except (OSError, ValueError):
        return False


def _check_cluster(gate: Gate, file: Path, *, shown: str, deployed: ClusterSpec | None) -> None:
    from cdk_gpu_clusters_stacks.spec import read_cluster

    if shown:
        reading = read_cluster(shown, deployed=deployed, content=file.read_bytes())
    else:
        reading = read_cluster(file, deployed=deployed)
    gate.findings += reading.findings
    if any(one.id == _UNREADABLE for one in reading.findings):
        gate.unusable.append(shown or str(file))
    if reading.spec is not None:
        fleets = len(reading.spec.training.fleets) + len(reading.spec.inference.fleets)
        gate.clusters[shown or str(file)] = f"{reading.spec.name}, {count(fleets, 'fleet')}"


# Templates.


def _check_templates(gate: Gate, paths: Sequence[Path], *, region: str | None, cfn_lint: bool | None) -> None:
    from cdk_gpu_clusters.template_rules.lint import lint
    from cdk_gpu_clusters.template_rules.registry import every_rule

    report = lint(paths, list(every_rule()), region=region)
    gate.templates += report.files
    gate.findings += [_finding(one) for one in report.faults()]
    gate.undecidable += len(report.undecidable()) + len(report.unread)
    for unusable in report.unusable:
        output.write(f"{unusable}\n", stderr=True)
        gate.unusable.append(unusable.file)
    installed = find_spec("cfnlint") is not None
    if cfn_lint and not installed:
        output.refuse("check: cfn-lint is not installed: pip install 'gpu-clusters[lint]'")
    if installed and cfn_lint is not False:
        gate.findings += _cfn_lint(report, region)
    elif cfn_lint is None:
        output.write(
            "cfn-lint is not installed, only the GPU rules ran: pip install 'gpu-clusters[lint]'\n", stderr=True
        )


def _finding(one: PlacedVerdict) -> Finding:
    verdict, found = one.verdict, one.verdict.finding
    return Finding(
        id=verdict.rule.id,
        cause=verdict.message,
        allowed=found.allowed if found else "",
        fix=found.fix if found else "",
        path=one.where,
        severity=verdict.severity,
    )


def _cfn_lint(report: Report, region: str | None) -> Iterator[Finding]:
    """What cfn-lint finds, in the Region of each template if it is known."""
    from cfnlint.api import lint_file
    from cfnlint.config import ManualArgs

    with terminal.progress("cfn-lint") as on_done:
        for done, name in enumerate(report.files):
            on_done(done, len(report.files))
            options: Any = {"regions": [region]} if region else {}
            for match in lint_file(Path(name), config=ManualArgs(**options)):
                yield Finding(
                    id=f"{_CFN_LINT} {match.rule.id}",
                    cause=match.message,
                    path=f"{name}:{match.linenumber}:{match.columnnumber}",
                    severity=_LEVELS.get(match.rule.severity, Severity.ERROR),
                )


# What it says.


def _print(gate: Gate) -> None:
    for file, what in gate.clusters.items():
        output.write(f"ok: {what}\n" if len(gate.clusters) == 1 else f"{file}: ok: {what}\n")
    output.report(gate.findings)
    if gate.templates:
        found = Counter(one.severity.value for one in gate.findings)
        words = [count(found[name], name) for name in _SEVERITIES if found[name]] or ["no faults"]
        words += [f"{gate.undecidable} undecidable"] if gate.undecidable else []
        output.write(f"{count(len(gate.templates), 'template')}: {', '.join(words)}\n")


def _document(gate: Gate) -> dict[str, Any]:
    return {
        "clusters": gate.clusters,
        "templates": gate.templates,
        "findings": [output.as_json_finding(one) for one in gate.findings],
        "undecidable": gate.undecidable,
        "unusable": gate.unusable,
    }
