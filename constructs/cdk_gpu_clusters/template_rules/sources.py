"""The templates behind the paths that a user gives: files, or folders that CDK has written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

from cdk_gpu_clusters._untrusted import is_below, read_bytes
from cdk_gpu_clusters.template_rules.acknowledgements import Acknowledgement
from cdk_gpu_clusters.template_rules.document import UnusableTemplate
from cdk_gpu_clusters.template_rules.template import Template, read_template

#: Name of the CDK plugin; what CDK acknowledges is `<plugin>::<rule id>`.
PLUGIN = "GpuClusterRules"

# Metadata of an app has a few KB for each resource.
_MOST_BYTES = 16 * 1024 * 1024
# Stages in stages.
_MOST_STAGES = 10

_STACK = "aws:cloudformation:stack"
_NESTED = "cdk:cloud-assembly"
# Metadata that `Validations.of(construct).acknowledge(...)` writes.
_ACKNOWLEDGED = "aws:cdk:acknowledged-rules"
# Metadata that says which resource a construct is.
_LOGICAL_ID = "aws:cdk:logicalId"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A template to read.

    Attributes:
        file: Its file.
        region: The Region that it is for, if known.
        stack_name: The name of its stack, if known.
        environment: Its account and Region as CDK writes them, if known.
        acknowledgements: What its CDK app accepts.
    """

    file: File
    region: str | None = None
    stack_name: str | None = None
    environment: str = ""
    acknowledgements: tuple[Acknowledgement, ...] = ()

    def template(self, region: str | None = None) -> Template:
        """Read it; `region` is taken if its own is not known.

        Raises:
            UnusableTemplate: If it cannot be read, or is no template.
        """
        return read_template(
            self.file, region=self.region or region, stack_name=self.stack_name, environment=self.environment
        )


def sources_of(path: File) -> list[Source]:
    """The templates of a file, of a `cdk.out` folder, or of a folder with `*.template.json`.

    Raises:
        UnusableTemplate: If there is none.
    """
    if not path.is_dir():
        return [Source(file=path)]
    found = list(_assembly(path)) if (path / "manifest.json").is_file() else []
    known = {source.file for source in found}
    found += [Source(file=file) for file in sorted(path.glob("*.template.json")) if file not in known]
    if not found:
        raise UnusableTemplate("the folder holds no *.template.json: give files, or a cdk.out folder")
    return found


def nested_templates(folder: File) -> list[File]:
    """The templates of nested stacks: files beside those of the stacks, which the manifest does not name."""
    return sorted(folder.glob("*.nested.template.json"))


def _assembly(folder: File, depth: int = 0) -> Iterator[Source]:
    if depth > _MOST_STAGES:
        raise UnusableTemplate("manifest.json names folders in folders without end")
    artifacts = _mapping(_read(folder / "manifest.json").get("artifacts"))
    for name, artifact in ((name, _mapping(artifact)) for name, artifact in artifacts.items()):
        properties = _mapping(artifact.get("properties"))
        if artifact.get("type") == _NESTED and isinstance(properties.get("directoryName"), str):
            yield from _assembly(_inside(folder, properties["directoryName"]), depth + 1)
        elif artifact.get("type") == _STACK and isinstance(properties.get("templateFile"), str):
            environment = str(artifact.get("environment", ""))
            region = environment.rpartition("/")[2]
            yield Source(
                file=_inside(folder, properties["templateFile"]),
                region=None if region in ("", "unknown-region") else region,
                stack_name=str(properties.get("stackName") or name),
                environment=environment,
                acknowledgements=tuple(_acknowledged(folder, artifact)),
            )
    yield from (Source(file=file) for file in nested_templates(folder))


def _acknowledged(folder: File, artifact: dict[str, Any]) -> Iterator[Acknowledgement]:
    metadata = dict(_mapping(artifact.get("metadata")))
    if isinstance(file := artifact.get("additionalMetadataFile"), str):
        metadata |= _read(_inside(folder, file))
    logical_ids = {path: data for path, kind, data in _entries(metadata) if kind == _LOGICAL_ID}
    for path, kind, data in _entries(metadata):
        if kind == _ACKNOWLEDGED:
            below = [one for at, one in logical_ids.items() if f"{at}/".startswith(f"{path.rstrip('/')}/")]
            yield from (
                Acknowledgement(id=name.removeprefix(f"{PLUGIN}::"), reason=str(reason), resource=str(logical_id))
                for name, reason in _mapping(data).items()
                for logical_id in below
            )


def _entries(metadata: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Path of a construct, kind and content of each entry."""
    for path, entries in metadata.items():
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict):
                yield path, str(entry.get("type")), entry.get("data")


def _read(file: File) -> dict[str, Any]:
    try:
        return _mapping(json.loads(read_bytes(file, _MOST_BYTES)))
    except (OSError, ValueError, RecursionError) as fault:
        reason = getattr(fault, "strerror", None) or (str(fault).splitlines() or ["it is no JSON"])[0]
        raise UnusableTemplate(f"{file.name} cannot be read: {reason}") from None


def _inside(folder: File, name: str) -> File:
    """A file or folder that a manifest names."""
    try:
        is_inside = is_below(folder, File(name))
    except (OSError, ValueError):
        is_inside = False
    if not is_inside:
        raise UnusableTemplate(f"manifest.json names {name!r}, which is not in its folder")
    return folder / name


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
