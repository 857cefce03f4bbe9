"""An evaluator of policies, independent of the emulator's: what it does not know is an error, never an answer.

Source: IAM user guide, "Policy evaluation logic" (an explicit deny, else an allow, else denied), and "IAM JSON policy
elements": Action and Resource with `*` and `?`, condition operators.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_OPERATORS = ("StringEquals", "StringLike", "Bool")


def allows(policy: Mapping[str, Any], action: str, resource: str, context: Mapping[str, str]) -> bool:
    """Whether a policy allows a request.

    Args:
        policy: With ARNs as texts.
        action: Such as `s3:GetObject`.
        resource: Its ARN, or `*`.
        context: Condition keys; a key that is missing fails every operator.
    """
    effects = {
        statement["Effect"]
        for statement in policy["Statement"]
        if any(_like(action.lower(), one.lower()) for one in _listed(statement["Action"]))
        and any(_like(resource, one) for one in _listed(statement["Resource"]))
        and _holds(statement.get("Condition", {}), {key.lower(): value for key, value in context.items()})
    }
    return effects == {"Allow"}


def _holds(conditions: Mapping[str, Mapping[str, Any]], context: Mapping[str, str]) -> bool:
    for operator, keys in conditions.items():
        assert operator in _OPERATORS, operator
        for key, wanted in keys.items():
            value = context.get(key.lower())
            match = _like if operator == "StringLike" else str.__eq__
            if value is None or not any(match(value, str(one)) for one in _listed(wanted)):
                return False
    return True


def _like(text: str, pattern: str) -> bool:
    parts = re.escape(pattern).replace(r"\*", ".*").replace(r"\?", ".")
    return re.fullmatch(parts, text, re.DOTALL) is not None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
