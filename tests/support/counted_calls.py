"""How often functions are called, through whatever name a caller knows them by."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import unwrap
from types import FrameType
from typing import Any


@contextmanager
def counted_calls(*functions: Callable[..., Any]) -> Iterator[Counter[str]]:
    """Count the calls of functions by their names, until the block ends."""
    names = {unwrap(function).__code__: function.__name__ for function in functions}
    calls: Counter[str] = Counter(dict.fromkeys(names.values(), 0))
    frames: set[FrameType] = set()  # a generator is called once, however often it goes on

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in names and frame not in frames:
            frames.add(frame)
            calls[names[frame.f_code]] += 1

    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(None)
