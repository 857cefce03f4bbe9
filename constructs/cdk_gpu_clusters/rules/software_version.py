"""How versions of drivers, kernels and libraries compare."""

from __future__ import annotations

import re


def version_of(text: str) -> tuple[int, ...]:
    """The numbers of a version; `12.8 to 13.2` counts as its newest one.

    Example:
        >>> version_of("595.64") < version_of("595.64.1") < version_of("595.71.05")
        True
    """
    return max(tuple(map(int, found.split("."))) for found in re.findall(r"\d+(?:\.\d+)*", text))
