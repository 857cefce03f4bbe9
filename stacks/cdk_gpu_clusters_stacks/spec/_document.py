"""A text as plain values, with the place of each."""

from __future__ import annotations

from dataclasses import dataclass, field

from cdk_gpu_clusters.errors import Finding

#: Path of a value from the root: keys of mappings and indexes of lists.
Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column, counted from 1."""

    line: int
    column: int


@dataclass(slots=True)
class Document:
    """Plain values of a YAML text, and the places of its keys and values.

    Attributes:
        data: Mappings, lists, text, numbers, booleans and None.
        keys: Place of each mapping key, by its path from the root.
        values: Place of each value, by its path from the root; mappings and lists stand at their key.
        faults: What is wrong with the text, each fault with its place.
        unread: Paths of values that could not be read; they are None in `data`.
    """

    data: object = None
    keys: dict[Key, Place] = field(default_factory=dict)
    values: dict[Key, Place] = field(default_factory=dict)
    faults: list[tuple[Place, Finding]] = field(default_factory=list)
    unread: set[Key] = field(default_factory=set)

    def place_of(self, key: Key, *, at_key: bool = False) -> Place:
        """Place of a value (or of its key), or of the nearest thing around it that is in the text."""
        while key:
            place = (self.keys if at_key else self.values).get(key) or self.keys.get(key)
            if place is not None:
                return place
            key, at_key = key[:-1], True
        return Place(1, 1)


def dotted(path: Key) -> str:
    """A path as text, such as `training.fleets.trainers.nodes` or `network.subnet_ids[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
