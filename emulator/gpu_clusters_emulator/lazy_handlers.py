"""Handlers of resource types, made when the engine first asks for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Handler = dict[str, Any]


class LazyHandlers(dict[str, Handler]):
    """Handlers by type, as a dictionary that fills itself.

    Args:
        make: Gives the handler of a type; None for a type that does not exist.
    """

    def __init__(self, make: Callable[[str], Handler | None]) -> None:
        super().__init__()
        self._make = make

    def __contains__(self, type_name: object) -> bool:
        return isinstance(type_name, str) and self.get(type_name) is not None

    def __missing__(self, type_name: str) -> Handler:
        found: Handler | None = self.get(type_name)
        if found is None:
            raise KeyError(type_name)
        return found

    def get(self, type_name: str, default: Any = None) -> Any:
        if not dict.__contains__(self, type_name):
            made = self._make(type_name)
            if made is None:
                return default
            self[type_name] = made
        return dict.__getitem__(self, type_name)
