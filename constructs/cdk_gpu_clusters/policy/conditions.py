"""Whether a condition of a template holds in a case.

A comparison with a parameter is decided by a choice of the parameter's value, so that conditions on the same parameter
never contradict each other, and `Ref` gives that value in the branch. Its default does not decide a condition: the
author wrote the other branch to be used. A comparison with a text made of parameters, such as an item of a list, is a
choice of its own; in the branch that the defaults do not lead to, those parameters are not their defaults.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cdk_gpu_clusters.policy.choices import Choice, Fork, Undecidable
from cdk_gpu_clusters.policy.parameters import default_of, given_value, is_parameter, possible_values
from cdk_gpu_clusters.policy.resolved import text_of

if TYPE_CHECKING:
    from cdk_gpu_clusters.policy.case import Case


def holds(case: Case, name: Any) -> bool:
    """Whether the condition of a name holds.

    Args:
        case: The case.
        name: Its name.

    Raises:
        Fork: If the case does not decide it.
        Undecidable: If there is none of that name, or it is malformed.
    """
    if not isinstance(name, str) or name not in case.template.conditions:
        raise Undecidable(f"there is no condition {name!r}")
    if name in case.asked:
        raise Undecidable(f"condition {name} needs itself: {' -> '.join((*case.asked, name))}")
    if name not in case.decided:
        case.asked.append(name)
        try:
            case.decided[name] = _holds(case, case.template.conditions[name])
        finally:
            case.asked.pop()
    return case.decided[name]


def _holds(case: Case, condition: Any) -> bool:
    match condition:
        case {"Condition": name, **rest} if not rest:
            return holds(case, name)
        case {"Fn::Not": [operand]}:
            return not _holds(case, operand)
        case {"Fn::And": [*operands]}:
            return all(_holds(case, operand) for operand in operands)
        case {"Fn::Or": [*operands]}:
            return any(_holds(case, operand) for operand in operands)
        case {"Fn::Equals": [left, right]}:
            return _equal(case, left, right)
    raise Undecidable(f"condition {case.asked[-1]} is malformed")


def _equal(case: Case, left: Any, right: Any) -> bool:
    if _is_literal(left) and _is_literal(right):
        return text_of(left) == text_of(right)
    for operand, other in ((left, right), (right, left)):
        name = operand.get("Ref") if isinstance(operand, dict) else None
        if isinstance(name, str) and is_parameter(case, name) and _is_literal(other):
            return _parameter_equals(case, name, text_of(other))
    return _free(case, left, right)


def _is_literal(value: Any) -> bool:
    return isinstance(value, str | int | float) and "{{resolve:" not in text_of(value)


def _parameter_equals(case: Case, name: str, literal: str) -> bool:
    key = case.key(name)
    choice = case.choices.get(key, Choice())
    if choice.value is not None:
        return choice.value == literal
    if literal in choice.excluded:
        return False
    if isinstance(given := given_value(case, name), str):
        return given == literal
    left = possible_values(case, name)
    if left is not None and (literal not in left or left == [literal]):
        return literal in left
    other = Choice(excluded=choice.excluded | {literal})
    raise Fork((case.choices.having(key, Choice(literal)), case.choices.having(key, other)), must_agree=False)


def _free(case: Case, left: Any, right: Any) -> bool:
    """A comparison of anything else: it holds, or does not, unless the template says which."""
    comparison = json.dumps([left, right], sort_keys=True, default=str)
    key = case.key(comparison)
    choice = case.choices.get(key)
    if choice is not None:
        return choice.value == "true"
    options = {answer: case.choices.having(key, Choice(answer)) for answer in ("true", "false")}
    texts = [case.known_text(operand) for operand in (left, right)]
    if None not in texts:
        parameters = _undecided_in(case, comparison)
        if not parameters:
            return texts[0] == texts[1]
        unusual = "false" if texts[0] == texts[1] else "true"
        for name in parameters:
            options[unusual] = options[unusual].having(case.key(name), _not_the_default(case, name))
    raise Fork(tuple(options.values()), must_agree=False)


def _undecided_in(case: Case, text: str) -> list[str]:
    """Parameters that an expression names, and whose value no choice has decided."""
    return [
        name
        for name in case.template.parameters
        if (f'"Ref": "{name}"' in text or f"${{{name}}}" in text)
        and case.choices.get(case.key(name), Choice()).value is None
        and not isinstance(given_value(case, name), str)
    ]


def _not_the_default(case: Case, name: str) -> Choice:
    excluded = case.choices.get(case.key(name), Choice()).excluded
    default = default_of(case, name)
    return Choice(excluded=excluded if default is None else excluded | {default})
