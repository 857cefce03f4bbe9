"""Which resources refer to which, and circular dependencies, which CloudFormation refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_NAMES = re.compile(r"\$\{([^!}.][^}.]*)")


def find_cycle(resources: Mapping[str, Any]) -> list[str]:
    """The logical ids of one cycle, its first one again at the end; empty if there is none.

    What stands in a branch of `Fn::If` is left out: CloudFormation looks at the branch taken only. A resource that
    refers to itself is left out too, since a rule says more about the one case there is (a security group).
    """
    uses = {
        logical_id: [
            used for used in dict.fromkeys(_uses(resource)) if used in resources and used != logical_id
        ]
        for logical_id, resource in resources.items()
    }
    done: set[str] = set()
    for start in uses:
        if start not in done and (cycle := _walk(start, uses, done)):
            return cycle
    return []


def _walk(start: str, uses: Mapping[str, list[str]], done: set[str]) -> list[str]:
    """Go down from one resource, without recursion: a chain may be as long as the template."""
    trail, rest = {start: None}, [iter(uses[start])]
    while rest:
        used = next(rest[-1], None)
        if used is None:
            rest.pop()
            done.add(trail.popitem()[0])
        elif used in trail:
            names = list(trail)
            return [*names[names.index(used) :], used]
        elif used not in done:
            trail[used] = None
            rest.append(iter(uses[used]))
    return []


def names_in(resource: Mapping[str, Any]) -> set[str]:
    """Every name that the properties of a resource refer to, in whichever branch."""
    return set(_references(resource.get("Properties"), branches=True))


def _uses(resource: Mapping[str, Any]) -> Iterator[str]:
    depends = resource.get("DependsOn", [])
    yield from (
        name for name in (depends if isinstance(depends, list) else [depends]) if isinstance(name, str)
    )
    yield from _references(resource.get("Properties"), branches=False)


def _references(value: Any, *, branches: bool) -> Iterator[str]:
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            if len(value) == 1:
                key, argument = next(iter(value.items()))
                if key == "Fn::If" and not branches:
                    continue
                yield from _named(key, argument)
            pending += value.values()


def _named(function: str, argument: Any) -> Iterator[str]:
    """Names that an intrinsic function may take from the resources."""
    first = argument[0] if isinstance(argument, list) and argument else argument
    if not isinstance(first, str):
        return
    if function == "Ref":
        yield first
    elif function == "Fn::GetAtt":
        yield first.partition(".")[0]
    elif function == "Fn::Sub":
        own = argument[1] if isinstance(argument, list) and len(argument) > 1 else None
        yield from (name for name in _NAMES.findall(first) if not (isinstance(own, dict) and name in own))
