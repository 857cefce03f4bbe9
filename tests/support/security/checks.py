"""What must hold for every resource, and is seen by no policy pack; each check with faults that it must catch."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Check:
    """A property of one type of resource.

    Attributes:
        title: What holds.
        kind: Type of resource.
        holds: Whether it does.
        faults: Dotted paths in a good resource, and values that break it.
    """

    title: str
    kind: str
    holds: Callable[[Json], bool]
    faults: tuple[tuple[str, Any], ...]

    def break_it(self, resource: Json, path: str, value: Any) -> Json:
        """The resource with one fault."""
        broken = deepcopy(resource)
        *parents, last = path.split(".")
        place: Any = broken
        for key in parents:
            place = place[int(key)] if isinstance(place, list) else place.setdefault(key, {})
        place[int(last) if isinstance(place, list) else last] = value
        return broken
