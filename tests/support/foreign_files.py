"""Public files of other tools, with the placeholders that are filled in before they are imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from cdk_gpu_clusters_stacks.importing import Imported, Place, import_file

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "imports"


@dataclass(frozen=True, slots=True)
class ForeignFile:
    """One of the files in `sources.yaml`."""

    name: str
    fill: Mapping[str, str]

    @property
    def text(self) -> str:
        """The file with its placeholders filled in."""
        found = (FOLDER / self.name).read_text("utf-8")
        for placeholder, value in self.fill.items():
            found = found.replace(placeholder, value)
        return found

    @property
    def values(self) -> Any:
        """The file as PyYAML reads it, which is not the reader of the import."""
        return yaml.safe_load(self.text)


def sources() -> dict[str, dict[str, Any]]:
    """Where each file comes from."""
    found: dict[str, dict[str, Any]] = yaml.safe_load((FOLDER / "sources.yaml").read_text("utf-8"))
    return found


def foreign_files(folder: str = "") -> Iterator[ForeignFile]:
    """The files of a tool, or of all."""
    for name, source in sources().items():
        if name.startswith(folder) and "/" in name:
            yield ForeignFile(name, source.get("set", {}))


@cache
def imported(name: str, orchestrator: str | None = None) -> Imported:
    """What a file becomes."""
    file = next(one for one in foreign_files() if one.name == name)
    return import_file(
        FOLDER / name, Place(name=""), target=Path("cluster.yaml"), fill=file.fill, orchestrator=orchestrator
    )


def import_text(text: str, *, orchestrator: str | None = None, **place: str) -> Imported:
    """What a text becomes."""
    return import_file(
        Path("theirs.yaml"),
        Place(name="", **place),
        target=Path("cluster.yaml"),
        content=text.encode("utf-8"),
        orchestrator=orchestrator,
    )
