"""The public API as a text: what a user may import, call and read. A change of it is seen as a difference.

`make snapshots` rewrites the record. What goes from it breaks a user's app: say so in CHANGELOG.md.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, is_typeddict

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

OURS = ("cdk_gpu_clusters", "cdk_gpu_clusters_stacks")
PACKAGES = (
    "cdk_gpu_clusters",
    "cdk_gpu_clusters.catalogue",
    "cdk_gpu_clusters.testing",
    "cdk_gpu_clusters_stacks.spec",
)
# They have no list of exports: public is what the reference documents.
DOCUMENTED_PACKAGES = ("cdk_gpu_clusters.fleet", "cdk_gpu_clusters.kubernetes", "cdk_gpu_clusters.rules")
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
WIDTH = 100


class TextFile(SingleFileSnapshotExtension):
    """One text file for each record."""

    file_extension = "txt"
    _write_mode = WriteMode.TEXT

    def serialize(self, data: Any, **_: Any) -> str:
        return str(data)


def written(annotation: Any) -> str:
    """A type as the source has it."""
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def parameter(given: inspect.Parameter) -> str:
    stars = "*" * (given.kind is given.VAR_POSITIONAL) + "**" * (given.kind is given.VAR_KEYWORD)
    kind = "" if given.annotation is given.empty else f": {written(given.annotation)}"
    if given.default is given.empty:
        return f"{stars}{given.name}{kind}"
    value = given.default
    default = f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)
    return f"{given.name}{kind} = {default}"


def function(name: str, made: Any) -> str:
    """A function or constructor, on one line if it fits."""
    signature = inspect.signature(made)
    given = [
        one for one in signature.parameters.values() if one.name not in ("self", "cls") and not one.name.startswith("_")
    ]
    texts = [parameter(one) for one in given]
    keyword_only = [one.kind is one.KEYWORD_ONLY for one in given]
    if any(keyword_only) and not any(one.kind is one.VAR_POSITIONAL for one in given):
        texts.insert(keyword_only.index(True), "*")
    returned = signature.return_annotation
    result = "" if returned in (None, "None", signature.empty) else f" -> {written(returned)}"
    line = f"{name}({', '.join(texts)}){result}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {text}," for text in texts), f"){result}"])


def own_classes(made: type) -> list[type]:
    """The class and what it inherits within this library, the most general first."""
    return [one for one in reversed(made.__mro__) if one.__module__.partition(".")[0] in OURS]


def attributes(made: type) -> dict[str, str]:
    """Public attributes that constructors set, with their types as written."""
    return {
        node.target.attr: ast.unparse(node.annotation)
        for one in own_classes(made)
        for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(one))))
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute)
    }


def members(made: type) -> Iterator[str]:
    """Public attributes, properties and methods of a class, by name."""
    found: dict[str, Any] = {**attributes(made)}
    for one in own_classes(made):
        found |= vars(one)
    for name, value in sorted(found.items()):
        if name.startswith("_"):
            continue
        if isinstance(value, str):
            yield f".{name}: {value}"
        elif isinstance(value, property) and value.fget is not None:
            yield f".{name}: {written(inspect.signature(value.fget).return_annotation)}"
        elif isinstance(value, cached_property):
            yield f".{name}: {written(inspect.signature(value.func).return_annotation)}"
        elif isinstance(value, (staticmethod, classmethod)):
            yield function(f"static .{name}", value.__func__)
        elif inspect.isfunction(value):
            yield function(f".{name}", value)


def block(name: str, value: Any) -> str:
    """Everything that is said of one public name."""
    if inspect.isfunction(value):
        return function(f"def {name}", value)
    if not isinstance(value, type):
        return f"{name}: {type(value).__name__}"
    if is_typeddict(value):
        hints = {key: hint.__forward_arg__ for key, hint in value.__annotations__.items()}
        lines = [f"keywords {name}", *(f"{key}: {hint}" for key, hint in sorted(hints.items()))]
    elif issubclass(value, Enum):
        lines = [f"enum {name}", *(f"{member.name} = {member.value!r}" for member in value)]
    else:
        made_by = inspect.getattr_static(value, "__init__")
        plain = made_by is object.__init__
        lines = [f"class {name}" if plain else function(f"class {name}", made_by), *members(value)]
    return "\n".join([lines[0], *(textwrap.indent(line, "    ") for line in lines[1:])])


@pytest.mark.parametrize("package", PACKAGES)
def test_the_public_api_is_as_recorded(package: str, snapshot: SnapshotAssertion) -> None:
    module = import_module(package)
    listing = "\n\n".join(block(name, getattr(module, name)) for name in sorted(module.__all__))
    assert f"{listing}\n" == snapshot.use_extension(TextFile)


def documented_in(package: str) -> dict[str, Any]:
    """The objects of a package that the reference has, by name."""
    paths = [
        path for page in REFERENCE.rglob("*.md") for path in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE)
    ]
    found = [path.rpartition(".") for path in paths if path.startswith(f"{package}.")]
    return {name: getattr(import_module(module), name) for module, _, name in found}


@pytest.mark.parametrize("package", DOCUMENTED_PACKAGES)
def test_the_documented_api_of_a_package_is_as_recorded(package: str, snapshot: SnapshotAssertion) -> None:
    objects = documented_in(package)
    listing = "\n\n".join(block(name, objects[name]) for name in sorted(objects))
    assert f"{listing}\n" == snapshot.use_extension(TextFile)
