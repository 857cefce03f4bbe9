"""The parts of a cluster file that the rules look at, also of a file with faults in other parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from .data import StoreSpec
from .fleet import FleetSpec
from .model import ClusterSpec
from .network import ExistingNetwork, NetworkSpec, NewNetwork


@dataclass(frozen=True, slots=True)
class FleetPart:
    """A fleet without its faulty values.

    Attributes:
        spec: The fleet; a field in `broken` has its default there, which says nothing.
        broken: Fields whose value in the file has a fault.
    """

    spec: FleetSpec
    broken: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SpecParts:
    """What of a cluster file is sound enough for the rules; None or absent where it is not.

    A store that has a fault is None, and `stores` is where it is not known which there are.
    """

    region: str | None = None
    network: NewNetwork | ExistingNetwork | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    fleets: Mapping[str, FleetPart] = field(default_factory=dict)
    stores: Mapping[str, StoreSpec | None] | None = None


def parts_of(spec: ClusterSpec) -> SpecParts:
    """All parts of a cluster."""
    fleets = {name: FleetPart(fleet) for name, fleet in spec.training.fleets.items()}
    return SpecParts(spec.region, spec.network, spec.tags, fleets, spec.data)


def sound_parts(data: Mapping[str, Any], context: Mapping[str, Path]) -> SpecParts:
    """The sound parts of a file that has faults."""
    region = data.get("region")
    training = data.get("training")
    fleets = training.get("fleets") if isinstance(training, dict) else None
    made = (
        {name: _sound_fleet(raw, context) for name, raw in fleets.items()} if isinstance(fleets, dict) else {}
    )
    return SpecParts(
        region if isinstance(region, str) and region else None,
        _network_if_sound(data.get("network")),
        _tags_if_sound(data.get("tags")),
        {name: part for name, part in made.items() if part is not None},
        _sound_stores(data.get("data", {})),
    )


def _sound_stores(raw: object) -> Mapping[str, Any] | None:
    if not isinstance(raw, dict):
        return None
    return {str(name): _store_if_sound(store) for name, store in raw.items()}


def _store_if_sound(raw: object) -> Any:
    try:
        return _STORE.validate_python(raw)
    except ValidationError:
        return None


_STORE: TypeAdapter[Any] = TypeAdapter(StoreSpec)


def _network_if_sound(raw: object) -> NewNetwork | ExistingNetwork | None:
    try:
        network: NewNetwork | ExistingNetwork = _NETWORK.validate_python(raw)
    except ValidationError:
        return None
    return network


_NETWORK: TypeAdapter[Any] = TypeAdapter(NetworkSpec)


def _tags_if_sound(raw: object) -> dict[str, str]:
    if not isinstance(raw, dict):
        return {}
    return {key: value for key, value in raw.items() if isinstance(value, str)}


#: Stands for the end of a block that the file lacks or misspells, so that the other rules about the block are asked:
#: no start is later, and it is at the time of day at which blocks end.
_ANY_END = "9999-12-31T11:30Z"


def _lacks_only_end(errors: Sequence[ErrorDetails]) -> bool:
    """Whether the end of a block is the one thing wrong with the capacity."""
    wrong = [error["loc"][2:] for error in errors if error["loc"][:1] == ("capacity",)]
    return bool(wrong) and all(loc == ("ends_at",) for loc in wrong)


def _sound_fleet(raw: object, context: Mapping[str, Path]) -> FleetPart | None:
    if not isinstance(raw, dict):
        return None
    try:
        return FleetPart(FleetSpec.model_validate(raw, context=dict(context)))
    except ValidationError as fault:
        errors = fault.errors(include_url=False)
    if _lacks_only_end(errors):
        raw = {**raw, "capacity": {**raw["capacity"], "ends_at": _ANY_END}}
        errors = [error for error in errors if error["loc"][:1] != ("capacity",)]
    broken = {str(part) for error in errors for part in error["loc"][:1]}
    meant = {near for key in broken for near in get_close_matches(key, FleetSpec.model_fields, n=1)}
    rest = {key: value for key, value in raw.items() if key not in broken}
    try:
        return FleetPart(FleetSpec.model_validate(rest, context=dict(context)), frozenset(broken | meant))
    except ValidationError:  # without an instance type there is nothing to check
        return None
