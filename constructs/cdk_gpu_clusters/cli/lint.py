"""`gpu-clusters lint`: the GPU rules over CloudFormation templates and `cdk.out` folders."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.policy.acknowledgements import read_acknowledgements
from cdk_gpu_clusters.policy.document import UnusableTemplate
from cdk_gpu_clusters.policy.lint import Report, Unusable, lint
from cdk_gpu_clusters.policy.registry import choose_rules
from cdk_gpu_clusters.policy.reports import FORMATS

_SEVERITIES = [severity.value for severity in (Severity.ERROR, Severity.WARNING, Severity.INFO)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the sub-command."""
    parser.epilog = "exit status: 0 no findings, 1 findings, 2 unusable input"
    parser.add_argument(
        "paths", metavar="FILE", nargs="+", type=Path, help="template (JSON or YAML), or cdk.out folder"
    )
    parser.add_argument("--format", choices=list(FORMATS), default="human", help="form of the report")
    for name, what in (("select", "ask only"), ("ignore", "do not ask")):
        parser.add_argument(
            f"--{name}",
            metavar="ID",
            action="append",
            default=[],
            help=f"{what} rules whose ids start with it; several with commas, or again",
        )
    parser.add_argument(
        "--acknowledgements",
        metavar="FILE",
        type=Path,
        help="YAML or JSON: acknowledge: [{id: …, reason: …, resource: …}]",
    )
    parser.add_argument("--region", help="Region of templates that do not say theirs, such as us-east-1")
    parser.add_argument(
        "--fail-on",
        choices=_SEVERITIES,
        default=_SEVERITIES[-1],
        help="least severity of a finding that makes the exit status 1 (default: any)",
    )
    parser.add_argument(
        "--strict", action="store_true", help="what is undecidable makes the exit status 1, too"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; the exit status."""
    try:
        rules = choose_rules(select=_ids(arguments.select), ignore=_ids(arguments.ignore))
    except ValueError as fault:
        print(f"gpu-clusters lint: {fault}", file=sys.stderr)
        return 2
    file = arguments.acknowledgements
    try:
        acknowledgements = read_acknowledgements(file) if file else []
    except UnusableTemplate as fault:
        print(Unusable(str(file), fault), file=sys.stderr)
        return 2
    report = lint(arguments.paths, rules, acknowledgements=acknowledgements, region=arguments.region)
    for unusable in report.unusable:
        _write(f"{unusable}\n", sys.stderr)
    if report.files or arguments.format != "human":
        _write(FORMATS[arguments.format](report), sys.stdout)
    return _status(report, arguments.fail_on, strict=arguments.strict)


def _ids(values: list[str]) -> list[str]:
    return [prefix for value in values for prefix in value.split(",") if prefix]


def _write(text: str, stream: object) -> None:
    """Write what the stream's encoding has no character for as an escape."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), end="", file=stream)  # type: ignore[call-overload]


def _status(report: Report, fail_on: str, *, strict: bool) -> int:
    if report.unusable:
        return 2
    failing = _SEVERITIES[: _SEVERITIES.index(fail_on) + 1]
    found = any(one.verdict.rule.severity.value in failing for one in report.faults())
    return 1 if found or (strict and report.undecidable()) else 0
