"""What installed distributions need, and where their files are."""

from __future__ import annotations

from importlib.metadata import distribution, requires
from pathlib import Path

from packaging.requirements import Requirement


def distributions_of(name: str, extra: str = "") -> set[str]:
    """Names of the distributions that one needs, without itself: of an extra alone, if one is given."""
    found: set[str] = set()
    wanted = [
        one
        for one in map(Requirement, requires(name) or [])
        if (one.marker is None and not extra) or (one.marker and _is_of(one, extra))
    ]
    while wanted:
        one = wanted.pop()
        if one.name.lower() not in found:
            found.add(one.name.lower())
            needs = [Requirement(line) for line in requires(one.name) or []]
            wanted += [need for need in needs if need.marker is None or _is_of(need, "")]
    return found


def _is_of(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is not None and requirement.marker.evaluate({"extra": extra})


def link_distribution(name: str, target: Path) -> None:
    """Make an installed distribution importable from another site-packages, without copying 400 MB."""
    found = distribution(name)
    assert found.files, f"{name} has no list of files"
    source = Path(str(found.locate_file("")))
    for entry in {file.parts[0] for file in found.files} - {"..", "__pycache__"}:
        link = target / entry
        if not link.is_symlink():
            link.symlink_to(source / entry)
