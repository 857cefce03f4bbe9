"""A report as text for people, and as JSON, SARIF and JUnit for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from cdk_gpu_clusters._untrusted import printable_line
from cdk_gpu_clusters._version import __version__
from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.template_rules.document import path_text
from cdk_gpu_clusters.template_rules.lint import PlacedVerdict, Report
from cdk_gpu_clusters.template_rules.rule import Outcome, TemplateRule


def human_text(report: Report) -> str:
    """The report as text."""
    lines = [*_faults(report), *_undecidable(report), *map(str, report.unread), _summary(report)]
    return "".join(f"{printable_line(line)}\n" for line in lines)


def _faults(report: Report) -> Iterator[str]:
    for one in report.faults():
        verdict = one.verdict
        yield f"{one.where}: {verdict.severity.value}: {verdict.rule.id}: {verdict.message}"
        yield f"    at {path_text(verdict.path)}"
        if verdict.finding and verdict.finding.fix:
            yield f"    fix: {verdict.finding.fix}"


def _undecidable(report: Report) -> Iterator[str]:
    """What several rules cannot decide for the same reason, in one line."""
    rules: dict[tuple[str, str, str], list[str]] = {}
    for one in report.undecidable():
        reason = f"{one.verdict.reason} (when {one.verdict.when})" if one.verdict.when else one.verdict.reason
        rules.setdefault((one.where, path_text(one.verdict.path), reason), []).append(one.verdict.rule.id)
    for (where, path, reason), ids in rules.items():
        yield f"{where}: undecidable: {', '.join(dict.fromkeys(ids))}: {reason}"
        yield f"    at {path}"


def _summary(report: Report) -> str:
    severities = Counter(one.verdict.severity.value for one in report.faults())
    parts = [_count(severities[name], name) for name in ("error", "warning", "info") if severities[name]]
    undecidable, accepted = len(report.undecidable()), len(report.accepted())
    parts = parts or ["no faults"]
    parts += [f"{undecidable} undecidable"] if undecidable else []
    parts += [f"{accepted} acknowledged"] if accepted else []
    return f"{_count(len(report.files), 'template')}, {_count(len(report.rules), 'rule')}: {', '.join(parts)}"


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"


def json_text(report: Report) -> str:
    """The report: what was found under `findings`, what was accepted under `acknowledged`."""
    found = [*report.faults(), *report.undecidable()]
    document = {
        "version": __version__,
        "templates": report.files,
        "rules": [rule.id for rule in report.rules],
        "findings": [_finding(one) for one in sorted(found, key=lambda one: (one.file, one.place))],
        "acknowledged": [{**_finding(one), "reason": one.verdict.reason} for one in report.accepted()],
        "unusable": [{"file": one.file, "message": str(one)} for one in report.unusable],
        "unread": [
            {"file": one.file, "line": one.place.line, "column": one.place.column, "key": one.key}
            for one in report.unread
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def _finding(one: PlacedVerdict) -> dict[str, Any]:
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


_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def sarif_text(report: Report) -> str:
    """The report as one run."""
    run = {
        "tool": {
            "driver": {
                "name": "gpu-clusters",
                "version": __version__,
                "rules": [_sarif_rule(rule) for rule in report.rules],
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
        "results": [_sarif_result(one) for one in report.verdicts],
    }
    document = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [run],
    }
    return json.dumps(document, indent=2) + "\n"


def _sarif_rule(rule: TemplateRule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.cause},
        "help": {"text": rule.fix},
        "helpUri": rule.url,
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _sarif_result(one: PlacedVerdict) -> dict[str, Any]:
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


def junit_text(report: Report) -> str:
    """The report; a template without faults has one case that passes."""
    root = ET.Element("testsuites", name="gpu-clusters")
    for file in report.files:
        verdicts = [one for one in report.verdicts if one.file == file and not one.verdict.acknowledged]
        failures = [one for one in verdicts if one.verdict.outcome is Outcome.NOT_COMPLIANT]
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_printable(file),
            tests=str(max(1, len(verdicts))),
            failures=str(len(failures)),
            skipped=str(len(verdicts) - len(failures)),
            errors="0",
        )
        for one in verdicts:
            _add_case(suite, one)
        if not verdicts:
            ET.SubElement(suite, "testcase", classname=_printable(file), name="rules")
    for fault in report.unusable:
        suite = ET.SubElement(
            root, "testsuite", name=_printable(fault.file), tests="1", failures="0", skipped="0", errors="1"
        )
        case = ET.SubElement(suite, "testcase", classname=_printable(fault.file), name="reading")
        ET.SubElement(case, "error", message=_printable(str(fault)))
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_case(suite: ET.Element, one: PlacedVerdict) -> None:
    verdict = one.verdict
    case = ET.SubElement(
        suite,
        "testcase",
        classname=_printable(one.file),
        name=_printable(f"{verdict.rule.id} {path_text(verdict.path)}"),
    )
    if verdict.outcome is Outcome.NOT_COMPLIANT:
        failure = ET.SubElement(case, "failure", type=verdict.severity.value, message=_printable(verdict.message))
        failure.text = _printable(f"{one.where}: fix: {verdict.finding.fix if verdict.finding else ''}")
    else:
        ET.SubElement(case, "skipped", message=_printable(f"{one.where}: {verdict.message}"))


def _printable(text: str) -> str:
    """A text without the characters that XML cannot hold."""
    return "".join(char if char.isprintable() else " " for char in text)


#: By the name of the format.
FORMATS: dict[str, Callable[[Report], str]] = {
    "human": human_text,
    "json": json_text,
    "sarif": sarif_text,
    "junit": junit_text,
}
