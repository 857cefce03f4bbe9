"""A report as SARIF 2.1.0, which code hosts show beside the lines.

Source: OASIS, "Static Analysis Results Interchange Format (SARIF) Version 2.1.0". `open` is its kind for what a tool
could not decide, and then the level is `none`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cdk_gpu_clusters._version import __version__
from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.policy.document import path_text
from cdk_gpu_clusters.policy.lint import Report, Said
from cdk_gpu_clusters.policy.rule import Outcome, TemplateRule

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def sarif_text(report: Report) -> str:
    """The report as one run."""
    run = {
        "tool": {
            "driver": {
                "name": "gpu-clusters",
                "version": __version__,
                "rules": [_rule(rule) for rule in report.rules],
            }
        },
        "invocations": [
            {
                "executionSuccessful": not report.unusable,
                "toolExecutionNotifications": [
                    {"level": "error", "message": {"text": str(one)}} for one in report.unusable
                ],
            }
        ],
        "results": [_result(one) for one in report.said],
    }
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(document, indent=2) + "\n"


def _rule(rule: TemplateRule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.cause},
        "help": {"text": rule.fix},
        "helpUri": rule.url,
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _result(one: Said) -> dict[str, Any]:
    verdict = one.verdict
    decided = verdict.outcome is Outcome.NOT_COMPLIANT
    fix = f"; fix: {verdict.finding.fix}" if verdict.finding and verdict.finding.fix else ""
    result: dict[str, Any] = {
        "ruleId": verdict.rule.id,
        "kind": "fail" if decided else "open",
        "level": _LEVELS[verdict.severity] if decided else "none",
        "message": {"text": f"{verdict.message}{fix}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(one.file)},
                    "region": {"startLine": one.place.line, "startColumn": one.place.column},
                },
                "logicalLocations": [{"fullyQualifiedName": path_text(verdict.path)}],
            }
        ],
    }
    if verdict.acknowledged:
        result["suppressions"] = [{"kind": "inSource", "justification": verdict.reason}]
    return result


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else path.as_posix().replace(" ", "%20")
