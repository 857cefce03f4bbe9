"""A report as JUnit XML: a suite for each template, a case for each fault; what is undecidable is skipped."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from cdk_gpu_clusters.policy.document import path_text
from cdk_gpu_clusters.policy.lint import Report, Said
from cdk_gpu_clusters.policy.rule import Outcome


def junit_text(report: Report) -> str:
    """The report; a template without faults has one case that passes."""
    root = ET.Element("testsuites", name="gpu-clusters")
    for file in report.files:
        said = [one for one in report.said if one.file == file and not one.verdict.acknowledged]
        failures = [one for one in said if one.verdict.outcome is Outcome.NOT_COMPLIANT]
        suite = ET.SubElement(
            root,
            "testsuite",
            name=_printable(file),
            tests=str(max(1, len(said))),
            failures=str(len(failures)),
            skipped=str(len(said) - len(failures)),
            errors="0",
        )
        for one in said:
            _add_case(suite, one)
        if not said:
            ET.SubElement(suite, "testcase", classname=_printable(file), name="rules")
    for fault in report.unusable:
        suite = ET.SubElement(
            root, "testsuite", name=_printable(fault.file), tests="1", failures="0", skipped="0", errors="1"
        )
        case = ET.SubElement(suite, "testcase", classname=_printable(fault.file), name="reading")
        ET.SubElement(case, "error", message=_printable(str(fault)))
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_case(suite: ET.Element, one: Said) -> None:
    verdict = one.verdict
    place = f"{one.file}:{one.place.line}:{one.place.column}"
    case = ET.SubElement(
        suite,
        "testcase",
        classname=_printable(one.file),
        name=_printable(f"{verdict.rule.id} {path_text(verdict.path)}"),
    )
    if verdict.outcome is Outcome.NOT_COMPLIANT:
        failure = ET.SubElement(
            case, "failure", type=verdict.severity.value, message=_printable(verdict.message)
        )
        failure.text = _printable(f"{place}: fix: {verdict.finding.fix if verdict.finding else ''}")
    else:
        ET.SubElement(case, "skipped", message=_printable(f"{place}: {verdict.message}"))


def _printable(text: str) -> str:
    """A text without the characters that XML cannot hold."""
    return "".join(char if char.isprintable() else " " for char in text)
