"""What every part of the cluster file has in common: frozen, strict, closed models, and the named text types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, StringConstraints

from cdk_gpu_clusters.node.settings import USER_PATTERN

#: Lower-case name that can stand in a CloudFormation stack name (AWS CloudFormation user guide, "Stack name":
#: letters, digits and hyphens, a letter first, at most 128 characters; two of these fit with room to spare).
NAME_PATTERN = r"^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$"

Name = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]
Text = Annotated[str, StringConstraints(min_length=1)]
Tags = dict[str, str]
VariableName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
#: One line of printable ASCII: user data can carry no other text.
Line = Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]*$")]
UserName = Annotated[str, StringConstraints(pattern=USER_PATTERN)]
Environment = dict[VariableName, Line]


class SpecModel(BaseModel):
    """A part of the cluster file: unknown keys are refused, nothing is converted silently, nothing changes later."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=False,
        validate_default=False,
    )


def form_tag(key: str) -> str:
    """The tag under which pydantic reports the faults of a form, by the form's leading key."""
    return f"<{key}>"


def form_of(value: object, keys: Iterable[str]) -> str | None:
    """The tag of the form that a mapping or a model has, by the one leading key in it; None if there is not one."""
    names: object = type(value).model_fields if isinstance(value, BaseModel) else value
    found = [key for key in keys if key in names] if isinstance(names, Mapping) else []
    return form_tag(found[0]) if len(found) == 1 else None


def _tuple(value: object) -> object:
    """A YAML list as a tuple, since frozen models hold no lists."""
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


AsTuple = BeforeValidator(_tuple)

JsonSchema = dict[str, Any]
