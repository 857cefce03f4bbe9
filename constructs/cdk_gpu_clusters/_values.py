"""Keywords of constructs that get a text or a number in place of a value: taken if it has one meaning, else refused."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import wraps
from typing import Any, TypeVar, cast

from cdk_gpu_clusters.errors import Finding, define_rule, raise_for

_Init = TypeVar("_Init", bound=Callable[..., None])

KEYWORD_VALUE = define_rule(
    "GPU-ARG-001",
    "A keyword gets a value of its type",
    source="the annotations of the construct; cluster files refuse the same",
)

#: Parts of an annotation -> what they take, in words.
_WORDS = {"int": "a whole number", "float": "a number", "bool": "True or False"}
#: Annotations that take any text.
_TAKE_TEXT = re.compile(r"(?:str|Any|object|Literal\[.*|Path|datetime)$")
_TOKEN = "${Token["  # noqa: S105 - of CDK


def values_of(annotations: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[dict[str, Any], list[Finding]]:
    """Read values by their annotations.

    Args:
        annotations: Annotations of the keywords, as texts.
        given: The values.

    Returns:
        The values, texts that have one meaning replaced by it, and what is wrong with the others.

    Example:
        >>> values_of({"node_count": "int | None"}, {"node_count": "4"})[1][0].fix
        'write node_count=4'
    """
    values, findings = dict(given), []
    for name, value in given.items():
        parts = list(_parts(getattr(annotations.get(name), "__forward_arg__", annotations.get(name))))
        try:
            values[name] = _read(parts, value)
        except ValueError:
            findings.append(_refused(name, parts, value))
    return values, findings


def takes_values(init: _Init) -> _Init:
    """Let the constructor of a construct read its keywords by their annotations.

    It raises `ConfigError` (GPU-ARG-001) with every fault, at the construct's path.
    """

    @wraps(init)
    def checked(self: object, *arguments: Any, **keywords: Any) -> None:
        values, findings = values_of(init.__annotations__, keywords)
        if findings:
            raise_for(findings, path=_path_of(*arguments))
        init(self, *arguments, **values)

    return cast("_Init", checked)


def _path_of(scope: object = None, construct_id: object = "", *_: object) -> str:
    above = getattr(getattr(scope, "node", None), "path", "")
    return f"{above}/{construct_id}" if above else str(construct_id)


def _parts(annotation: object) -> Iterator[str]:
    """The alternatives of an annotation, without None; none of one that is no text."""
    depth, start, text = 0, 0, annotation if isinstance(annotation, str) else ""
    for index, sign in enumerate(f"{text}|"):
        depth += {"[": 1, "]": -1}.get(sign, 0)
        if sign == "|" and depth == 0:
            part, start = text[start:index].strip(), index + 1
            if part not in ("", "None"):
                yield part


def _read(parts: Sequence[str], value: Any) -> Any:
    """The value that is meant.

    Raises:
        ValueError: If none is.
    """
    if not parts or isinstance(value, Enum):
        return value
    if isinstance(value, str):
        if _TOKEN in value or any(_takes_text(part) for part in parts):
            return value
        return _meant(parts, value)
    if isinstance(value, bool):
        wrong = "bool" not in parts and not {"Any", "object"} & set(parts)
    elif isinstance(value, int | float):
        wrong = not {"int", "float", "Any", "object"} & set(parts)
    elif isinstance(value, list | tuple):
        return _read_items(parts, value)
    else:
        wrong = False
    if wrong:
        raise ValueError
    return value


def _takes_text(part: str) -> bool:
    """Whether a text may be right; an alias such as `ControlPlaneTier` may represent texts."""
    return bool(_TAKE_TEXT.match(part)) or (part.isidentifier() and part not in _WORDS and _public(part) is None)


def _public(name: str) -> Any:
    """What the library exports under a name; None for nothing."""
    return getattr(sys.modules[__package__], name, None) if name.isidentifier() else None


def _read_items(parts: Sequence[str], values: Sequence[Any]) -> Sequence[Any]:
    item = next((part[len("Sequence[") : -1] for part in parts if part.startswith("Sequence[")), None)
    return values if item is None else [_read([item], value) for value in values]


def _meant(parts: Sequence[str], text: str) -> Any:
    word = text.strip().lower().replace("_", "-")
    for part in parts:
        kind = _public(part)
        if isinstance(kind, type) and issubclass(kind, Enum):
            for member in kind:
                if word in (str(member.value).lower().replace("_", "-"), member.name.lower().replace("_", "-")):
                    return member
        elif kind is not None and hasattr(kind, "from_text"):
            return kind.from_text(text)
    raise ValueError


def _refused(name: str, parts: Sequence[str], value: object) -> Finding:
    allowed = [words for part in parts for words in _allowed(part)]
    fix = f"write {name}=…, with {allowed[0]}"
    if isinstance(value, str) and value.strip().isdecimal() and "int" in parts:
        fix = f"write {name}={int(value)}"
    elif isinstance(value, str) and value.lower() in ("true", "false", "yes", "no") and "bool" in parts:
        fix = f"write {name}={value.lower() in ('true', 'yes')}"
    elif isinstance(value, str) and any(part.startswith("Sequence[str") for part in parts):
        fix = f"write {name}=[{value!r}]"
    return KEYWORD_VALUE.finding(
        cause=f"this keyword takes no {'text' if isinstance(value, str) else type(value).__name__} like this",
        got=repr(value),
        allowed=" or ".join(allowed),
        fix=fix,
        path=name,
    )


def _allowed(part: str) -> list[str]:
    kind = _public(part)
    if part in _WORDS:
        return [_WORDS[part]]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return [f"{part}.{member.name}" for member in kind]
    if kind is not None and hasattr(kind, "TEXTS"):
        return list(kind.TEXTS)
    if part == "cdk.Duration":
        return ["a cdk.Duration, such as cdk.Duration.minutes(30)"]
    for start, words in (("Sequence[", "a list of "), ("Mapping[", "a mapping of ")):
        if part.startswith(start):
            return [words + part[len(start) : -1].replace(", ", " to ")]
    return [f"an object of {part}"]
