"""The template of `fleets.py` as plain `CfnResource`, nothing decided or checked: `python raw.py COUNT RECIPE`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import aws_cdk as cdk


def define(stack: cdk.Stack, resources: dict[str, Any]) -> None:
    """Define resources as the recipe has them."""
    for name, resource in resources.items():
        made = cdk.CfnResource(stack, name, type=resource["Type"], properties=resource["Properties"])
        if resource.get("DeletionPolicy") == "Delete":
            made.apply_removal_policy(cdk.RemovalPolicy.DESTROY)
        if "DependsOn" in resource:
            made.add_override("DependsOn", resource["DependsOn"])


def main() -> None:
    """Synthesize as many fleets as the first argument says."""
    count, recipe = int(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    per_stack = recipe["fleets_per_stack"]
    app = cdk.App()
    for first in range(0, count, per_stack):
        number = f"{first // per_stack:04}"
        env = cdk.Environment(account="123456789012", region="us-east-1")
        stack = cdk.Stack(app, f"Fleets{number}", env=env)
        for name, parameter in recipe["parameters"].items():
            cdk.CfnParameter(stack, name, type=parameter["Type"], default=parameter["Default"])
        define(stack, recipe["shared"])
        for index in range(first, min(count, first + per_stack)):
            text = recipe["fleet"].replace("@stack@", number).replace("@fleet@", f"{index:04}")
            define(stack, json.loads(text))
    app.synth()


if __name__ == "__main__":
    main()
