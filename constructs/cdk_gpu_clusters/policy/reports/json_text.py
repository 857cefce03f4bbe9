"""A report as JSON."""

from __future__ import annotations

import json
from typing import Any

from cdk_gpu_clusters._version import __version__
from cdk_gpu_clusters.policy.document import path_text
from cdk_gpu_clusters.policy.lint import Report, Said


def json_text(report: Report) -> str:
    """The report: what was found under `findings`, what was accepted under `acknowledged`."""
    found = [*report.faults(), *report.undecidable()]
    document = {
        "version": __version__,
        "templates": report.files,
        "rules": [rule.id for rule in report.rules],
        "findings": [_shown(one) for one in sorted(found, key=lambda one: (one.file, one.place))],
        "acknowledged": [{**_shown(one), "reason": one.verdict.reason} for one in report.accepted()],
        "unusable": [{"file": one.file, "message": str(one)} for one in report.unusable],
        "unread": [
            {"file": one.file, "line": one.place.line, "column": one.place.column, "key": one.key}
            for one in report.unread
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _shown(one: Said) -> dict[str, Any]:
    verdict, finding = one.verdict, one.verdict.finding
    return {
        "id": verdict.rule.id,
        "severity": verdict.severity.value,
        "verdict": verdict.outcome.value,
        "resource": verdict.resource,
        "path": path_text(verdict.path),
        "message": verdict.message,
        "fix": finding.fix if finding else "",
        "got": finding.got if finding else "",
        "allowed": finding.allowed if finding else "",
        "file": one.file,
        "line": one.place.line,
        "column": one.place.column,
        "url": verdict.rule.url,
    }
