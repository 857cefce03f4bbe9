"""The templates that the synth tests have recorded: everything that our own constructs make, read without Node."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

Json = dict[str, Any]
RECORDS = Path(__file__).parents[1] / "synth" / "__snapshots__"


@cache
def recorded() -> dict[str, Json]:
    """Templates by name: `everywhere/everything_on`, `p5-lustre/llama-lustre-fleet-trainers` …"""
    return {name: template for file in sorted(RECORDS.glob("*/*.json")) for name, template in _templates(file)}


def _templates(file: Path) -> list[tuple[str, Json]]:
    """The templates of one record: one, or one for each stack."""
    name = re.sub(r"^test_|_(is|are)_as_recorded|_template$", "", file.stem)
    # Records hide the digests of files. In a template they have their form.
    held = json.loads(file.read_text(encoding="utf-8").replace('"(digest)"', f'"{"0" * 64}"'))
    if "Resources" in held:
        return [(f"{file.parent.name.removeprefix('test_')}/{name}", held)]
    case = re.sub(r".*\[(.*?)(\.yaml)?\]", r"\1", name)
    return [(f"{case}/{stack.removesuffix('.template.json')}", one) for stack, one in held.items()]


@cache
def recorded_apps() -> dict[str, dict[str, Json]]:
    """The same, by what was synthesized together: templates by stack, by app."""
    apps: dict[str, dict[str, Json]] = {}
    for name, template in recorded().items():
        app, _, stack = name.rpartition("/")
        apps.setdefault(app, {})[stack] = template
    return apps


def copy_of(name: str) -> Json:
    """A recorded template, to be changed."""
    copied: Json = json.loads(json.dumps(recorded()[name]))
    return copied
