"""Templates and manifests that a stranger sends cannot hang their reader, nor make it read elsewhere."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from cdk_gpu_clusters.template_rules.document import UnusableTemplate
from cdk_gpu_clusters.template_rules.lint import Report, lint
from cdk_gpu_clusters.template_rules.registry import every_rule
from cdk_gpu_clusters.template_rules.reports import human_text
from cdk_gpu_clusters.template_rules.sources import sources_of
from cdk_gpu_clusters.template_rules.yaml_text import read_yaml_text
from deadline import ends_within

MOST_SECONDS = 2.0
RULES = list(every_rule())


def look(path: Path) -> Report:
    before = time.process_time()
    with ends_within(10 * MOST_SECONDS):
        report = lint([path], RULES)
    assert time.process_time() - before < MOST_SECONDS
    return report


@pytest.mark.parametrize("name", ["fifo", "zero", "nothing\0"])
def test_template_that_is_no_file_is_unusable_at_once(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "zero").symlink_to("/dev/zero")
    [unusable] = look(tmp_path / name).unusable
    assert "cannot be read" in str(unusable)


def test_yaml_of_too_many_values_is_refused_at_once() -> None:
    before = time.process_time()
    with pytest.raises(UnusableTemplate, match="too many values"):
        read_yaml_text("".join(f"k{number}:\n  {'- ' * 90}x\n" for number in range(4_000)))
    assert time.process_time() - before < MOST_SECONDS


def assembly(folder: Path, **properties: Any) -> Path:
    """The output of an app that a stranger wrote, beside somebody's files."""
    (folder / "secret.template.json").write_text('{"Resources": {}}')
    (folder / "secret.json").write_text(json.dumps({"$6$secret": []}))
    out = folder / "cdk.out"
    out.mkdir()
    (out / "own.template.json").write_text('{"Resources": {}}')
    stack = {"type": "aws:cloudformation:stack", "properties": {"templateFile": "own.template.json"}, **properties}
    (out / "manifest.json").write_text(json.dumps({"artifacts": {"stack": stack}}))
    return out


@pytest.mark.parametrize("path", ["../secret.template.json", "{folder}/secret.template.json", "link", "a\0b"])
def test_manifest_names_no_template_outside_its_folder(tmp_path: Path, path: str) -> None:
    out = assembly(tmp_path, properties={"templateFile": path.format(folder=tmp_path)})
    (out / "link").symlink_to(tmp_path / "secret.template.json")
    with pytest.raises(UnusableTemplate, match="which is not in its folder"):
        sources_of(out)


def test_manifest_names_no_metadata_outside_its_folder(tmp_path: Path) -> None:
    out = assembly(tmp_path, additionalMetadataFile="../secret.json")
    with pytest.raises(UnusableTemplate, match="which is not in its folder"):
        sources_of(out)


@pytest.mark.parametrize("kind", ["fifo", "large"])
def test_metadata_of_any_size_or_kind_holds_nothing_up(tmp_path: Path, kind: str) -> None:
    out = assembly(tmp_path, additionalMetadataFile=kind)
    os.mkfifo(out / "fifo")
    with (out / "large").open("wb") as file:
        file.truncate(2**32)
    [unusable] = look(out).unusable
    assert f"{kind} cannot be read" in str(unusable)


def test_stage_inside_itself_ends(tmp_path: Path) -> None:
    out = assembly(tmp_path, type="cdk:cloud-assembly", properties={"directoryName": "."})
    [unusable] = look(out).unusable
    assert "folders in folders without end" in str(unusable)


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\u202e", "\x9b2J", "x\r\n0 templates: no faults"])
def test_report_obeys_no_terminal(tmp_path: Path, hostile: str) -> None:
    template = {"Resources": {hostile: {"Type": "AWS::EC2::LaunchTemplate", "Properties": {hostile: hostile}}}}
    (tmp_path / "one.json").write_text(json.dumps(template))
    text = human_text(look(tmp_path / "one.json"))
    assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert "0 templates: no faults" not in text.splitlines()
