"""Choice rules.

Source: Amazon States Language specification, "Choice State", and Step Functions developer guide, "Choice" (comparison
operators), read 2026-11-21.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from ..clock import parse_time
from .execution import Json, StateError
from .templates import Scope

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "Equals": operator.eq,
    "LessThan": operator.lt,
    "LessThanEquals": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanEquals": operator.ge,
}
_KINDS = ("String", "Numeric", "Boolean", "Timestamp")
_STRUCTURE = {"Variable", "Next", "Comment", "Assign", "Output"}


def holds(rule: Json, scope: Scope) -> bool:
    """Whether a choice rule is true.

    Raises:
        StateError: `States.Runtime` where a variable is missing or the operator is not emulated.
    """
    if "And" in rule:
        return all(holds(part, scope) for part in rule["And"])
    if "Or" in rule:
        return any(holds(part, scope) for part in rule["Or"])
    if "Not" in rule:
        return not holds(rule["Not"], scope)
    ((name, operand),) = ((key, value) for key, value in rule.items() if key not in _STRUCTURE)
    if name == "IsPresent":
        return scope.has(rule["Variable"]) is bool(operand)
    value = scope.value(rule["Variable"])
    if name.startswith("Is"):
        return _is_kind(name, value) is bool(operand)
    return _compare(name, value, operand, scope)


def _compare(name: str, value: Any, operand: Any, scope: Scope) -> bool:
    if name.endswith("Path"):
        name, operand = name.removesuffix("Path"), scope.value(operand)
    if name == "StringMatches":
        expression = ".*".join(map(re.escape, str(operand).split("*")))
        return isinstance(value, str) and re.fullmatch(expression, value) is not None
    for kind in _KINDS:
        comparison = _COMPARE.get(name.removeprefix(kind)) if name.startswith(kind) else None
        if comparison is not None:
            left, right = _typed(kind, value), _typed(kind, operand)
            return left is not None and right is not None and comparison(left, right)
    raise StateError("States.Runtime", f"the comparison {name!r} is not emulated")


def _typed(kind: str, value: Any) -> Any:
    """The value as the comparison's kind; None where it is of another kind, so that the rule is false."""
    if kind == "String":
        return value if isinstance(value, str) else None
    if kind == "Boolean":
        return value if isinstance(value, bool) else None
    if kind == "Numeric":
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None
    try:
        return parse_time(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _is_kind(name: str, value: Any) -> bool:
    return {
        "IsNull": value is None,
        "IsString": isinstance(value, str),
        "IsBoolean": isinstance(value, bool),
        "IsNumeric": _typed("Numeric", value) is not None,
        "IsTimestamp": _typed("Timestamp", value) is not None,
    }[name]
