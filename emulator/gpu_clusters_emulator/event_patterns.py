"""EventBridge event patterns.

Source: EventBridge user guide, "Comparison operators for use in event patterns" (exact, prefix, suffix, anything-but,
exists, equals-ignore-case, numeric, wildcard), read 2026-11-21.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping
from typing import Any

_NUMERIC = {"=": operator.eq, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def matches(pattern: Mapping[str, Any], event: Any) -> bool:
    """Whether an event matches a pattern: every field of the pattern, any entry of each list.

    Raises:
        ValueError: If the pattern uses an operator that is not emulated.
    """
    if "$or" in pattern:
        rest = {key: value for key, value in pattern.items() if key != "$or"}
        return any(matches({**rest, **branch}, event) for branch in pattern["$or"])
    for key, wanted in pattern.items():
        present = isinstance(event, Mapping) and key in event
        value = event[key] if present else None
        if isinstance(wanted, Mapping):
            if not matches(wanted, value if present else {}):
                return False
        elif not any(_entry_matches(entry, value, present) for entry in wanted):
            return False
    return True


def _entry_matches(entry: Any, value: Any, present: bool) -> bool:
    if isinstance(entry, Mapping) and "exists" in entry:
        return bool(entry["exists"]) == present
    if not present:
        return False
    values = value if isinstance(value, list) else [value]
    return any(_value_matches(entry, one) for one in values)


def _value_matches(entry: Any, value: Any) -> bool:
    if not isinstance(entry, Mapping):
        return type(entry) is type(value) and bool(entry == value)
    ((name, operand),) = entry.items()
    if name == "numeric":
        pairs = zip(operand[::2], operand[1::2], strict=True)
        return isinstance(value, int | float) and all(_NUMERIC[sign](value, bound) for sign, bound in pairs)
    if name == "anything-but":
        barred = operand if isinstance(operand, list) else [operand]
        return not any(_value_matches(one, value) for one in barred)
    if not isinstance(value, str):
        return False
    if name == "prefix":
        return value.startswith(operand)
    if name == "suffix":
        return value.endswith(operand)
    if name == "equals-ignore-case":
        return value.lower() == str(operand).lower()
    if name == "wildcard":
        return re.fullmatch(".*".join(map(re.escape, str(operand).split("*"))), value) is not None
    raise ValueError(f"the event pattern operator {name!r} is not emulated")
