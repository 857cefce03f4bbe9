"""The baselines synthesize the same templates as the library: where they take them from, and the proof."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

Template = dict[str, Any]

# What CDK appends to the id of a nested construct to make it unique.
_HASH = re.compile(r"[0-9A-F]{8}$")
_FLEET = re.compile(r"(Fleet|Placement|Reservation)0000")


def templates(assembly: Path) -> dict[str, Template]:
    """The templates of a cloud assembly by stack."""
    files = sorted(assembly.glob("*.template.json"))
    return {file.name.partition(".")[0]: json.loads(file.read_text(encoding="utf-8")) for file in files}


def canonical(template: Template) -> Template:
    """A template apart from what may differ: the hashes in logical ids, and metadata."""
    resources = {
        name: {key: value for key, value in resource.items() if key != "Metadata"}
        for name, resource in template["Resources"].items()
        if resource["Type"] != "AWS::CDK::Metadata"
    }
    text = json.dumps({"Resources": resources, "Parameters": _parameters(template)}, sort_keys=True)
    plain = {name: _HASH.sub("", name) for name in resources}
    if len(set(plain.values())) != len(plain):
        raise ValueError("two logical ids differ in their hash only")
    for name in sorted(plain, key=len, reverse=True):
        text = re.sub(rf"\b{name}\b", plain[name], text)
    result: Template = json.loads(text)
    return result


def recipe(template: Template, *, fleets_per_stack: int) -> dict[str, Any]:
    """What the baselines synthesize, from the library's own template of one fleet.

    Args:
        template: Template of one fleet, with index 0000 in stack 0000.
        fleets_per_stack: How many fleets share a stack.
    """
    plain = canonical(template)
    fleet = {name: one for name, one in plain["Resources"].items() if _FLEET.match(name)}
    text = json.dumps(fleet).replace("Fleets0000", "Fleets@stack@")
    return {
        "fleets_per_stack": fleets_per_stack,
        "parameters": plain["Parameters"],
        "shared": {name: one for name, one in plain["Resources"].items() if name not in fleet},
        "fleet": _FLEET.sub(r"\1@fleet@", text),
    }


def differences(ours: Path, theirs: Path) -> list[str]:
    """The stacks of two assemblies that are not the same."""
    left, right = templates(ours), templates(theirs)
    names = sorted(left.keys() | right.keys())
    return [
        name
        for name in names
        if name not in left or name not in right or canonical(left[name]) != canonical(right[name])
    ]


def _parameters(template: Template) -> Template:
    parameters: Template = template.get("Parameters", {})
    return {name: value for name, value in parameters.items() if name != "BootstrapVersion"}
