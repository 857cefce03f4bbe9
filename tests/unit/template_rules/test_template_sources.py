"""Folders that CDK has written: their stacks, Regions, nested assemblies, and what the app acknowledged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.template_rules.lint import Report, lint
from cdk_gpu_clusters.template_rules.registry import choose_rules

NODES = {
    "Type": "AWS::EC2::LaunchTemplate",
    "Properties": {"LaunchTemplateData": {"InstanceType": "p5.48xlarge"}},
}


def write(file: Path, data: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(data))


def stack(template: str, **more: Any) -> dict[str, Any]:
    properties = {"templateFile": template}
    environment = "aws://unknown-account/eu-west-1"
    return {"type": "aws:cloudformation:stack", "environment": environment, "properties": properties, **more}


def found(folder: Path) -> Report:
    return lint([folder], choose_rules(select=["GPU-LT-010"]))


def test_stacks_of_the_manifest_and_of_assemblies_in_it_are_read(tmp_path: Path) -> None:
    nested = {"type": "cdk:cloud-assembly", "properties": {"directoryName": "assembly-Stage"}}
    write(tmp_path / "manifest.json", {"artifacts": {"A": stack("A.template.json"), "Stage": nested}})
    write(tmp_path / "assembly-Stage" / "manifest.json", {"artifacts": {"B": stack("B.template.json")}})
    write(tmp_path / "A.template.json", {"Resources": {"Nodes": NODES}})
    write(tmp_path / "assembly-Stage" / "B.template.json", {"Resources": {"Nodes": NODES}})
    write(tmp_path / "N.nested.template.json", {"Resources": {"Nodes": NODES}})
    report = found(tmp_path)
    assert [Path(file).name for file in report.files] == [
        *("A.template.json", "B.template.json", "N.nested.template.json")
    ]
    assert len(report.faults()) == 3


@pytest.mark.parametrize(
    ("path", "accepted"),
    [
        ("/App/Stack/Nodes", True),
        ("/App", True),
        ("/", True),
        ("/App/Stack/Node", False),
        ("/App/Stack/Nodes/Other", False),
    ],
)
@pytest.mark.parametrize("in_file", [True, False])
def test_what_a_cdk_app_acknowledges_is_accepted(tmp_path: Path, path: str, accepted: bool, in_file: bool) -> None:
    metadata = {
        "/App/Stack/Nodes/Resource": [{"type": "aws:cdk:logicalId", "data": "Nodes"}],
        path: [{"type": "aws:cdk:acknowledged-rules", "data": {"GpuClusterRules::GPU-LT-010": "an old agent"}}],
    }
    more: dict[str, Any] = {"metadata": metadata}
    if in_file:
        more = {"additionalMetadataFile": "A.metadata.json"}
        write(tmp_path / "A.metadata.json", metadata)
    write(tmp_path / "manifest.json", {"artifacts": {"A": stack("A.template.json", **more)}})
    write(tmp_path / "A.template.json", {"Resources": {"Nodes": NODES}})
    report = found(tmp_path)
    assert len(report.accepted()) == accepted
    assert len(report.faults()) == (not accepted)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"artifacts": {"A": 1}}', '{"artifacts": {"A": {"properties": 7}}}'])
def test_a_broken_manifest_is_no_crash(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    report = found(tmp_path)
    assert len(report.unusable) == 1


def test_a_stack_whose_file_is_gone_is_said(tmp_path: Path) -> None:
    write(tmp_path / "manifest.json", {"artifacts": {"A": stack("A.template.json")}})
    [unusable] = found(tmp_path).unusable
    assert "A.template.json: cannot be read" in str(unusable)


def test_a_template_that_is_given_twice_is_read_once(tmp_path: Path) -> None:
    file = tmp_path / "A.template.json"
    write(file, {"Resources": {"Nodes": NODES}})
    report = lint([file, tmp_path, file], choose_rules())
    assert report.files == [str(file)]
