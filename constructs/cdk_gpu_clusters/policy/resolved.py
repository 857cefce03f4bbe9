"""What a value of a template can turn out to be.

A plain value (text, number, truth value, list, mapping) as it is; `ABSENT`; a `Reference` to another resource; a
`Joined` text that is known in parts; or `Unknown`, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdk_gpu_clusters.policy.template import Template

#: Any of the above.
Resolved = Any


@dataclass(frozen=True, slots=True)
class Reference:
    """A resource of a template (`Ref`), or one of its attributes (`Fn::GetAtt`).

    Attributes:
        template: The template in which the resource stands: of several that are linked, it may be another one.
        logical_id: The resource.
        attribute: The attribute; empty for the resource itself.
    """

    template: Template
    logical_id: str
    attribute: str = ""

    def __str__(self) -> str:
        return ".".join(filter(None, (self.template.label, self.logical_id, self.attribute)))


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that only a deployment knows.

    Attributes:
        reason: Why, in a user's words.
        key: The same for values that are the same.
        template: The template that knows what the key means; None if it means the same in all that are linked.
    """

    reason: str = field(compare=False)
    key: str
    template: Template | None = None

    @property
    def parameter(self) -> str:
        """The name of the parameter that it is; another text if it is none."""
        return self.key.removeprefix("Ref:")

    def __str__(self) -> str:
        return ".".join(filter(None, (self.template.label if self.template else "", self.parameter)))


#: A part of a text.
Part = str | Reference | Unknown


@dataclass(frozen=True, slots=True)
class Joined:
    """A text of parts, some of which only a deployment knows."""

    parts: tuple[Part, ...]

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
    flat: list[Part] = []
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


def split(text: str | Joined, delimiter: str) -> list[str | Reference | Unknown | Joined]:
    """A text in pieces; a part that only a deployment knows is taken for one without the delimiter."""
    pieces: list[list[Part]] = [[]]
    for part in text.parts if isinstance(text, Joined) else (text,):
        first, *rest = part.split(delimiter) if isinstance(part, str) else (part,)
        pieces[-1].append(first)
        pieces += [[one] for one in rest]
    return [_together([part for part in piece if part != ""]) for piece in pieces]


def _together(parts: list[Part]) -> str | Reference | Unknown | Joined:
    return parts[0] if len(parts) == 1 else join(list(parts))
