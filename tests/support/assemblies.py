"""Whole apps as synthesized: templates, and what policy packs and CDK's own validation say of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cdk_nag

from cdk_gpu_clusters import GpuClusterRules

Json = dict[str, Any]
# CDK's own name for it; `Validations.of(...).acknowledge(...)` writes it.
_ACKNOWLEDGED = "aws:cdk:acknowledged-rules"
# What constructs say to their users, such as advice on capacity: no policy.
_ADVICE = "Construct Annotations"


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A finding that was accepted: where, its full id, and why."""

    path: str
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class Assembly:
    """One app, synthesized with packs.

    Attributes:
        name: Name of the app in the tests.
        templates: Templates by stack.
        regions: Region of each stack, None where only a deployment knows it.
        findings: What was found and not accepted: `rule at path: description`.
        accepted: What was found and accepted, with the path of the construct that it was found at.
        acknowledged: What was to be accepted, whether found or not.
        packs: The packs that found something.
        faults: Packs that failed, with their error.
    """

    name: str
    templates: dict[str, Json]
    regions: dict[str, str | None]
    findings: list[str]
    accepted: set[tuple[Acknowledgement, str]]
    acknowledged: set[Acknowledgement]
    packs: set[str]
    faults: list[str]

    def resources(self) -> Iterator[tuple[str, Json]]:
        """Every resource with its name: app, stack and logical id."""
        for stack, template in self.templates.items():
            for logical_id, resource in template["Resources"].items():
                yield f"{self.name}: {stack}/{logical_id}", resource


class Packs:
    """The packs of cdk-nag, CloudFormation Validate and our own rules, made once: each of them takes seconds to start."""

    def __init__(self) -> None:
        self.cloudformation = cdk.CloudFormationValidatePlugin()
        self._plugins: list[cdk.IPolicyValidationPlugin] = [
            self.cloudformation,
            cdk_nag.AwsSolutionsChecks(),
            cdk_nag.NIST80053R5Checks(),
            cdk_nag.HIPAASecurityChecks(),
            cdk_nag.PCIDSS321Checks(),
            cdk_nag.ServerlessChecks(),
            GpuClusterRules(),
        ]

    def assemble(self, name: str, app: cdk.App, define: Callable[[cdk.App], object]) -> Assembly:
        """Define an app, synthesize it with all packs, and read what came out.

        Args:
            name: Name of the app in the tests.
            app: A new app, whose synthesis does not fail on findings (`REPORT_ONLY`).
            define: What defines its stacks.
        """
        cdk.Validations.of(app).add_plugins(*self._plugins)
        define(app)
        app.synth()
        return read_assembly(name, app)


#: Context of an app that reports findings without failing.
REPORT_ONLY: Json = {"@aws-cdk/core:failSynthOnValidationErrors": False}


def read_assembly(name: str, app: cdk.App) -> Assembly:
    """Read what an app has synthesized."""
    folder = Path(app.outdir)
    stacks = {
        key: artifact
        for key, artifact in _read(folder / "manifest.json")["artifacts"].items()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    reports = _read(folder / "validation-report.json")["pluginReports"]
    packs = [report for report in reports if report["pluginName"] != _ADVICE]
    files = [folder / artifact["additionalMetadataFile"] for artifact in stacks.values()]
    acknowledged = {one for file in files for one in _acknowledged(_read(file))}
    of_app = {app.node.path: [{"type": entry.type, "data": entry.data} for entry in app.node.metadata]}
    return Assembly(
        name=name,
        templates={key: _read(folder / one["properties"]["templateFile"]) for key, one in stacks.items()},
        regions={key: _region(artifact["environment"]) for key, artifact in stacks.items()},
        findings=[found for report in packs for found in _findings(report)],
        accepted={one for report in packs for one in _accepted(report)},
        acknowledged=acknowledged | set(_acknowledged(of_app)),
        packs={report["pluginName"] for report in packs},
        faults=[f"{r['pluginName']}: {r['metadata']['error']}" for r in packs if "metadata" in r],
    )


def _read(file: Path) -> Json:
    found: Json = json.loads(file.read_text(encoding="utf-8"))
    return found


def _region(environment: str) -> str | None:
    region = environment.rpartition("/")[2]
    return None if region == "unknown-region" else region


def _acknowledged(metadata: Json) -> Iterator[Acknowledgement]:
    for path, entries in metadata.items():
        for entry in entries:
            if entry["type"] == _ACKNOWLEDGED:
                for rule, reason in entry["data"].items():
                    yield Acknowledgement(path.removeprefix("/"), rule, reason)


def _findings(report: Json) -> Iterator[str]:
    for violation in report["violations"]:
        for one in violation["violatingConstructs"]:
            yield f"{violation['ruleName']} at {one['constructPath']}: {violation['description']}"


def _accepted(report: Json) -> Iterator[tuple[Acknowledgement, str]]:
    for violation in report.get("suppressedViolations", []):
        one = Acknowledgement(violation.get("acknowledgedAt", ""), violation["acknowledgedId"], violation["reason"])
        for construct in violation["violatingConstructs"]:
            yield one, construct["constructPath"]
