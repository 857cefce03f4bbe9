"""Limits of AWS on tags."""

from __future__ import annotations

from collections.abc import Mapping

from ._document import Key
from ._fault import Fault, faults_at
from ._rules import TAGS

_MOST = 50
#: Tags that the constructs and stacks add themselves.
_OURS = ("Name", "gpu-cluster")


def check_tags(key: Key, tags: Mapping[str, str], *, above: Mapping[str, str] | None = None) -> list[Fault]:
    """Find tags that AWS refuses.

    Args:
        key: Where the tags stand.
        tags: The tags there.
        above: Tags that the same resources get from elsewhere in the file.
    """
    faults: list[Fault] = []
    count = len({*tags, *(above or {}), *_OURS})
    if count > _MOST and tags:
        finding = TAGS.finding(
            cause="a resource would get too many tags",
            got=f"{count} (cluster, fleet, and {', '.join(_OURS)})",
            allowed=f"at most {_MOST}",
            fix=f"remove {count - _MOST}",
        )
        faults += faults_at(key, [finding])
    for name, value in tags.items():
        faults += _check_tag((*key, name), name, value)
    return faults


def _check_tag(key: Key, name: str, value: str) -> list[Fault]:
    if name.lower().startswith("aws:"):
        finding = TAGS.finding(
            cause="tag keys that start with aws: belong to AWS",
            got=name,
            allowed="any other start",
            fix="rename it",
        )
    elif not 1 <= len(name) <= 128:
        finding = TAGS.finding(
            cause="a tag key has an impossible length",
            got=f"{len(name)} characters",
            allowed="1 to 128 characters",
            fix="shorten it",
        )
    elif len(value) > 256:
        finding = TAGS.finding(
            cause="a tag value is too long",
            got=f"{len(value)} characters",
            allowed="at most 256 characters",
            fix="shorten it",
        )
    else:
        return []
    return faults_at(key, [finding], at_key=True)
