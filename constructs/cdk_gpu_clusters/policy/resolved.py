"""What a value of a template can turn out to be.

A plain value (text, number, truth value, list, mapping) as it is; `ABSENT`; a `Reference` to another resource; a
`Joined` text that is known in parts; or `Unknown`, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: Any of the above.
Resolved = Any


@dataclass(frozen=True, slots=True)
class Reference:
    """A resource of the template (`Ref`), or one of its attributes (`Fn::GetAtt`)."""

    logical_id: str
    attribute: str = ""

    def __str__(self) -> str:
        return f"{self.logical_id}.{self.attribute}" if self.attribute else self.logical_id


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that only a deployment knows.

    Attributes:
        reason: Why, in a user's words.
        key: The same for values that are the same.
    """

    reason: str
    key: str

    def __str__(self) -> str:
        return self.key.removeprefix("Ref:")


@dataclass(frozen=True, slots=True)
class Joined:
    """A text of parts, some of which only a deployment knows."""

    parts: tuple[str | Reference | Unknown, ...]

    def __str__(self) -> str:
        return "".join(part if isinstance(part, str) else f"${{{part}}}" for part in self.parts)


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


#: No value: the key is not there, is null, or is `AWS::NoValue`.
ABSENT = _Absent()


def text_of(value: Any) -> str:
    """A plain value as CloudFormation writes it into texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def join(parts: list[Resolved]) -> str | Joined | Unknown:
    """Texts put together; unknown if a part is no text."""
    flat: list[str | Reference | Unknown] = []
    for part in parts:
        if isinstance(part, Joined):
            flat += part.parts
        elif isinstance(part, Reference | Unknown):
            flat.append(part)
        elif isinstance(part, str | int | float):
            flat.append(text_of(part))
        elif part is not ABSENT:
            return Unknown("a list or mapping stands where a text belongs", repr(part))
    if all(isinstance(part, str) for part in flat):
        return "".join(map(str, flat))
    return flat[0] if len(flat) == 1 and isinstance(flat[0], Unknown) else Joined(tuple(flat))
