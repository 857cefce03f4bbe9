"""Every pattern of the cluster file has words for a value that does not match it: none ends in a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from cdk_gpu_clusters_stacks.spec._messages import PATTERNS
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec


def patterns_of(schema: Any) -> Iterator[str]:
    """The patterns that pydantic's own core checks, wherever they are."""
    if isinstance(schema, dict):
        if schema.get("type") == "str" and "pattern" in schema:
            yield str(getattr(schema["pattern"], "pattern", schema["pattern"]))
        for value in schema.values():
            yield from patterns_of(value)
    elif isinstance(schema, list | tuple):
        for value in schema:
            yield from patterns_of(value)


def test_every_pattern_has_words() -> None:
    assert issubclass(ClusterSpec, BaseModel)
    found = set(patterns_of(ClusterSpec.__pydantic_core_schema__))
    assert len(found) >= 25
    assert found - PATTERNS.keys() == set()
    assert PATTERNS.keys() - found == set()
