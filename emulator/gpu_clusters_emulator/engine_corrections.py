"""What is put right around the engine, as wrappers of its functions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from .extra import optional_module
from .provisioning import may_replace
from .schemas import resource_schema
from .world import Json

_PUBLIC_PARAMETERS = "/aws/service/"
_CONDITION_FUNCTIONS = ("Fn::Join", "Fn::Sub", "Fn::FindInMap", "Fn::Split")


def with_public_parameters(resolve: Callable[..., str | None]) -> Callable[..., str | None]:
    """Give every public AMI parameter an image id that is made up from its name."""

    def resolved(name: str, *rest: Any, **more: Any) -> str | None:
        value = resolve(name, *rest, **more)
        if value is None and name.startswith(_PUBLIC_PARAMETERS):
            return "ami-" + hashlib.sha256(name.encode()).hexdigest()[:17]
        return value

    return resolved


@contextmanager
def without_docker() -> Iterator[None]:
    """Keep the engine from a Docker daemon: its reset would remove the containers of an earlier engine."""
    if find_spec("docker") is None:
        yield
        return
    docker = optional_module("docker")

    def refuse(*_: object, **__: object) -> None:
        raise docker.errors.DockerException("the emulator uses no Docker")

    found = docker.from_env
    docker.from_env = refuse
    try:
        yield
    finally:
        docker.from_env = found


def by_schema(recreation: Callable[[str, str], str]) -> Callable[[str, str], str]:
    """What a changed property does in a change set, from the schema where it is in no doubt."""

    def recreates(type_name: str, name: str) -> str:
        schema = resource_schema(type_name)
        if schema is None or name in schema.conditional_create_only_names:
            return recreation(type_name, name)
        if may_replace(type_name, name) or any(path.startswith(f"{name}.") for path in schema.create_only):
            return "Conditionally"
        return "Always" if name in schema.create_only_names else "Never"

    return recreates


def with_functions(evaluate: Callable[..., Json], resolve: Callable[..., Any]) -> Callable[..., Json]:
    """Conditions with `Fn::Join` and its like inside `Fn::Equals`, as in the CDK's bootstrap template.

    The engine compares such an operand as it stands, which makes `HasCloudFormationExecutionPolicies` true.
    """

    def evaluated(template: Json, parameters: Json) -> Json:
        mappings = template.get("Mappings", {})

        def operand(value: Any) -> Any:
            if isinstance(value, list):
                return [operand(item) for item in value]
            if not isinstance(value, dict):
                return value
            if any(name in value for name in _CONDITION_FUNCTIONS):
                return resolve(value, {}, parameters, {}, mappings, "", "")
            return {key: operand(item) for key, item in value.items()}

        found: Json = evaluate(
            {**template, "Conditions": operand(template.get("Conditions", {}))}, parameters
        )
        return found

    return evaluated
