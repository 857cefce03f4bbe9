"""Numbers of things in words."""

from __future__ import annotations


def count(value: int, one: str, many: str = "") -> str:
    """A number of things.

    Example:
        >>> count(1, "node"), count(2, "node"), count(2, "address", "addresses")
        ('1 node', '2 nodes', '2 addresses')
    """
    return f"{value:,} {one if value == 1 else many or one + 's'}"
