"""What of a fleet is sound enough for the rules, when some of its values have faults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ._shape import meant_key
from .inference import InferenceFleetSpec, LoadBalancerSpec
from .server import ServerSpec

FleetT = TypeVar("FleetT", bound=BaseModel)

#: Stands for the end of a block that the file lacks or misspells, so that the other rules about the block are asked:
#: no start is later, and it is at the time of day at which blocks end.
_ANY_END = "9999-12-31T11:30Z"
#: Stands for an image that has a fault, so that the other rules about its server are asked; no rule finds it wrong.
_ANY_IMAGE = "any:1"
#: Parts of a fleet whose keys are judged one by one.
_SECTIONS: Mapping[str, type[BaseModel]] = {"server": ServerSpec, "load_balancer": LoadBalancerSpec}

#: Names of a field, from the fleet's key on.
Field = tuple[str, ...]


def sound_fleet(
    model: type[FleetT], raw: object, context: Mapping[str, Path]
) -> tuple[FleetT, frozenset[str]] | None:
    """Read a fleet without its faulty values.

    Args:
        model: What the fleet is.
        raw: What stands in the file.
        context: Of the validation.

    Returns:
        The fleet, and the dotted names of the fields that have a fault or are meant by a misspelt key. None where
        nothing can be asked about it, such as without an instance type.
    """
    if not isinstance(raw, dict):
        return None
    try:
        return model.model_validate(raw, context=dict(context)), frozenset()
    except ValidationError as fault:
        errors = fault.errors(include_url=False)
    if _lacks_only_end(errors):
        raw = {**raw, "capacity": {**raw["capacity"], "ends_at": _ANY_END}}
        errors = [error for error in errors if error["loc"][:1] != ("capacity",)]
    wrong = {_field(error["loc"]) for error in errors}
    rest = _without(raw, wrong)
    if model is InferenceFleetSpec:
        rest["server"] = {"image": _ANY_IMAGE, **rest.get("server", {})}
    broken = frozenset(".".join(path) for path in wrong | set(_meant(model, wrong)))
    try:
        return model.model_validate(rest, context=dict(context)), broken
    except ValidationError:
        return None


def _lacks_only_end(errors: Sequence[ErrorDetails]) -> bool:
    """Whether the end of a block is the one thing wrong with the capacity."""
    wrong = [error["loc"][2:] for error in errors if error["loc"][:1] == ("capacity",)]
    return bool(wrong) and all(loc == ("ends_at",) for loc in wrong)


def _field(loc: tuple[int | str, ...]) -> Field:
    """The field that a location lies in: of a section its key, else the fleet's."""
    return tuple(str(part) for part in loc[: 2 if loc[0] in _SECTIONS else 1])


def _without(raw: Mapping[str, Any], wrong: Iterable[Field]) -> dict[str, Any]:
    rest = dict(raw)
    for path in sorted(wrong):
        if len(path) == 1:
            rest.pop(path[0], None)
        elif isinstance(rest.get(path[0]), dict):
            rest[path[0]] = {key: value for key, value in rest[path[0]].items() if key != path[1]}
    return rest


def _meant(model: type[BaseModel], wrong: Iterable[Field]) -> Iterable[Field]:
    """Fields that misspelt keys are near to."""
    for *above, name in wrong:
        near = meant_key(name, list((_SECTIONS[above[0]] if above else model).model_fields))
        if near:
            yield (*above, near)
