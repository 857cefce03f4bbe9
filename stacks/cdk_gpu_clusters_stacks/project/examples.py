"""The complete clusters of `examples/`, which ship in the wheel."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_SCHEMA_LINE = re.compile(r"(?m)^# yaml-language-server: \$schema=.*$")


@dataclass(frozen=True, slots=True)
class Example:
    """One example.

    Attributes:
        name: Its name, such as `p5-lustre`.
        file: The cluster file.
    """

    name: str
    file: Path

    @property
    def summary(self) -> str:
        """The first sentence of its head."""
        head = (line.removeprefix("#").strip() for line in self._text.splitlines()[2:] if line.startswith("#"))
        return " ".join(head).partition(". ")[0].rstrip(".")

    def files(self) -> dict[str, str]:
        """The text of `cluster.yaml`, and of every file beside it that it names."""
        text = _SCHEMA_LINE.sub("# yaml-language-server: $schema=cluster.schema.json", self._text)
        beside = (one for one in sorted(self.file.parent.iterdir()) if one.is_file() and one.suffix != ".yaml")
        named = {one.name: one.read_text("utf-8") for one in beside if re.search(rf"\b{re.escape(one.name)}\b", text)}
        return {"cluster.yaml": text, **named}

    @property
    def _text(self) -> str:
        return self.file.read_text("utf-8")


def examples() -> dict[str, Example]:
    """All examples by name.

    Example:
        >>> examples()["p5-lustre"].summary
        '16 x p5.48xlarge with an FSx for Lustre file system over EFA, linked to S3 twice, and a bucket for checkpoints'
    """
    return {file.stem: Example(file.stem, file) for file in sorted(_folder().glob("*.yaml"))}


def example(name: str) -> Example | None:
    """The example of that name, if there is one."""
    return examples().get(name.removesuffix(".yaml"))


def nearest(name: str) -> list[str]:
    """Names that resemble a wrong one."""
    return difflib.get_close_matches(name, examples(), n=3, cutoff=0.5)


def _folder() -> Path:
    """In the wheel beside the modules; in a checkout at its root."""
    shipped = _PACKAGE / "examples"
    return shipped if shipped.is_dir() else _PACKAGE.parents[1] / "examples"
