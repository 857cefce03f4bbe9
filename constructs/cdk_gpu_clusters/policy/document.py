"""A template's text as plain values, and where each of them stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

#: Keys and list indexes from the root of a template.
Path = tuple[str | int, ...]

#: Nesting that no template needs; deeper values are refused before anything recurses into them.
MAX_DEPTH = 100
#: "Template body size in an Amazon S3 object" (CloudFormation user guide, quotas).
MAX_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A place in a text, counted from 1."""

    line: int
    column: int


class UnusableTemplate(Exception):
    """The text is no template that can be looked at: one line that says why, and where."""

    def __init__(self, cause: str, place: Place | None = None, path: Path = ()) -> None:
        self.cause = cause
        self.place = place
        self.path = path
        super().__init__(cause)


@dataclass(frozen=True, slots=True)
class Document:
    """Values of a text.

    Attributes:
        data: The values, with short tags such as `!Ref` written out as `{"Ref": …}`.
        locate: Gives the place of a path, or of its longest part that stands in the text.
    """

    data: Any
    locate: Callable[[Path], Place]


def no_places(path: Path) -> Place:  # noqa: ARG001 - the signature of `Document.locate`
    """Place of every path of values that come from no text."""
    return Place(1, 1)


def path_text(path: Path) -> str:
    """A path as it is shown: `Resources/Nodes/Properties/ImageId`."""
    return "/".join(str(part) for part in path)
