"""Values of parameters: what a parent stack gives, or a default; else all allowed values must lead to one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdk_gpu_clusters.policy.choices import Choice, Fork
from cdk_gpu_clusters.policy.resolved import ABSENT, Joined, Resolved, Unknown, split, text_of

if TYPE_CHECKING:
    from cdk_gpu_clusters.policy.case import Case

# More allowed values than that (all zones, all types) are not gone through.
_MOST_ALLOWED_VALUES = 24


def is_parameter(case: Case, name: str) -> bool:
    """Whether a name is that of a parameter, or of a pseudo parameter such as `AWS::Region`."""
    return name in case.template.parameters or name.startswith("AWS::")


def parameter_value(case: Case, name: str) -> Resolved:
    """The value of a parameter in a case.

    Raises:
        Fork: If it has allowed values only.
    """
    key, kind = case.key(name), _kind(case, name)
    choice = case.choices.get(key, Choice())
    if choice.value is not None:
        return _typed(kind, choice.value)
    if kind.startswith("AWS::SSM::Parameter::Value"):
        return Unknown(
            f"parameter {name} is read from Systems Manager at deployment", f"Ref:{name}", case.template
        )
    if (given := given_value(case, name)) is not None:
        return _typed(kind, given)
    default = default_of(case, name)
    if default is not None and default not in choice.excluded:
        return _typed(kind, default)
    left = possible_values(case, name)
    if left is not None and len(left) == 1:
        return _typed(kind, left[0])
    if left is not None and 1 < len(left) <= _MOST_ALLOWED_VALUES:
        raise Fork(tuple(case.choices.having(key, Choice(value)) for value in left), must_agree=True)
    said = "is not its default here" if default is not None else "has no default"
    return Unknown(f"parameter {name} {said}", f"Ref:{name}", case.template)


def default_of(case: Case, name: str) -> str | None:
    """The default of a parameter, as text; None if it has none."""
    definition = case.template.parameters.get(name)
    default = definition.get("Default") if isinstance(definition, dict) else None
    return None if default is None else text_of(default)


def possible_values(case: Case, name: str) -> list[str] | None:
    """Allowed values of a parameter that are not ruled out; None if any value is allowed."""
    definition = case.template.parameters.get(name)
    allowed = definition.get("AllowedValues") if isinstance(definition, dict) else None
    if not isinstance(allowed, list):
        return None
    excluded = case.choices.get(case.key(name), Choice()).excluded
    return [text for value in allowed if (text := text_of(value)) not in excluded]


def _kind(case: Case, name: str) -> str:
    definition = case.template.parameters.get(name)
    return str(definition.get("Type", "String")) if isinstance(definition, dict) else "String"


def given_value(case: Case, name: str) -> Resolved | None:
    """The value that a pseudo parameter has, or that a parent stack gives; None if there is no such value."""
    if name.startswith("AWS::"):
        return _pseudo(case, name)
    value = case.given(name)
    if isinstance(value, list | dict) or value is ABSENT:
        return Unknown(f"parameter {name} is given no text", f"Ref:{name}", case.template)
    return text_of(value) if isinstance(value, bool | int | float) else value


def _pseudo(case: Case, name: str) -> Resolved:
    if name == "AWS::Region" and case.template.region:
        return case.template.region
    if name == "AWS::StackName" and case.template.stack_name:
        return case.template.stack_name
    own = name.startswith(("AWS::Stack", "AWS::Notification"))
    return Unknown(f"{name} is known at deployment only", f"Ref:{name}", case.template if own else None)


def _typed(kind: str, value: Resolved) -> Resolved:
    if isinstance(value, str | Joined) and (kind.startswith("List<") or kind == "CommaDelimitedList"):
        pieces = split(value, ",") if value else []
        return [piece.strip() if isinstance(piece, str) else piece for piece in pieces]
    return value
