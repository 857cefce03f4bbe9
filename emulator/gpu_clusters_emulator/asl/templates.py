"""Payload templates, paths and intrinsic functions.

Source: Step Functions developer guide, "Intrinsics for JSONPath states" and "Context object", read 2026-11-21.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..paths import PathError, is_present, lookup
from .execution import Json, StateError

_CALL = re.compile(r"States\.(\w+)\((.*)\)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a path can see: the state's data (`$`) and the context object (`$$`)."""

    data: Any
    context: Json

    def has(self, path: str) -> bool:
        """Whether a path names a value."""
        return is_present(path[1:], self.context) if path.startswith("$$") else is_present(path, self.data)

    def value(self, path: str) -> Any:
        """The value of a path or of an intrinsic function.

        Raises:
            StateError: `States.Runtime` where the path names nothing.
        """
        if path.startswith("States."):
            return intrinsic(path, self)
        try:
            return lookup(path[1:], self.context) if path.startswith("$$") else lookup(path, self.data)
        except PathError as error:
            raise StateError("States.Runtime", f"the path {error} names nothing") from None

    def filled(self, template: Any) -> Any:
        """A payload template with every `name.$` replaced by its value."""
        if isinstance(template, list):
            return [self.filled(item) for item in template]
        if not isinstance(template, dict):
            return template
        return {
            key.removesuffix(".$"): self.value(item) if key.endswith(".$") else self.filled(item)
            for key, item in template.items()
        }


def intrinsic(text: str, scope: Scope) -> Any:
    """Evaluate an intrinsic function.

    Raises:
        StateError: `States.Runtime` where the function is not emulated, or fails.
    """
    found = _CALL.fullmatch(text.strip())
    function = _FUNCTIONS.get(found[1]) if found else None
    if found is None or function is None:
        raise StateError("States.Runtime", f"the intrinsic function {text!r} is not emulated")
    try:
        return function(*(_argument(part, scope) for part in _arguments(found[2])))
    except (TypeError, ValueError, IndexError) as error:
        raise StateError("States.IntrinsicFailure", f"{text}: {error}") from error


def _arguments(text: str) -> Iterator[str]:
    """Split at the commas outside quotes and brackets."""
    depth, quoted, start = 0, False, 0
    for position, character in enumerate(text):
        if character == "'" and text[position - 1 : position] != "\\":
            quoted = not quoted
        elif not quoted and character in "([":
            depth += 1
        elif not quoted and character in ")]":
            depth -= 1
        elif not quoted and depth == 0 and character == ",":
            yield text[start:position].strip()
            start = position + 1
    if text[start:].strip():
        yield text[start:].strip()


def _argument(text: str, scope: Scope) -> Any:
    if text.startswith("'"):
        return text[1:-1].replace("\\'", "'").replace("\\{", "{").replace("\\}", "}")
    if text.startswith(("$", "States.")):
        return scope.value(text)
    return json.loads(text)


def _format(template: str, *values: Any) -> str:
    parts = template.split("{}")
    if len(parts) != len(values) + 1:
        raise ValueError(f"{len(parts) - 1} places for {len(values)} values")
    words = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return parts[0] + "".join(word + part for word, part in zip(words, parts[1:], strict=True))


def _merge(left: Json, right: Json, deep: bool) -> Json:
    if deep:
        raise ValueError("a deep merge is not supported by Step Functions")
    return {**left, **right}


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Array": lambda *items: list(items),
    "ArrayContains": lambda items, item: item in items,
    "ArrayGetItem": lambda items, index: items[index],
    "ArrayLength": len,
    "Format": _format,
    "Hash": lambda text, name: hashlib.new(name.replace("-", "").lower(), str(text).encode()).hexdigest(),
    "JsonMerge": _merge,
    "JsonToString": lambda value: json.dumps(value, separators=(",", ":")),
    "MathAdd": lambda left, right: int(left) + int(right),
    "StringSplit": lambda text, separators: [
        part for part in re.split(f"[{re.escape(separators)}]", text) if part
    ],
    "StringToJson": json.loads,
}
