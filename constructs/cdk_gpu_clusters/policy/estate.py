"""Templates that are deployed beside each other, and what they give to each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdk_gpu_clusters.policy.template import Template


@dataclass(frozen=True, slots=True)
class Output:
    """An output of a template.

    Attributes:
        template: The template.
        value: Its value, not resolved.
        condition: The name of its condition, or None.
    """

    template: Template
    value: Any
    condition: Any = None


@dataclass(frozen=True, slots=True)
class NestedStack:
    """The resource that a nested stack is in its parent.

    Attributes:
        parent: The template around it.
        logical_id: Of the `AWS::CloudFormation::Stack`.
    """

    parent: Template
    logical_id: str

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What the parent gives to its parameters, not resolved."""
        given = (self.parent.resources[self.logical_id].get("Properties") or {}).get("Parameters")
        return given if isinstance(given, dict) else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Estate:
    """Templates that are linked with each other, or one that stands alone.

    Attributes:
        templates: The templates.
        exports: Outputs by the name of their export; None for a name that several have.
        outputs: Outputs by stack and name; None for those of stacks that have one name.
        nested: The nested stacks among the templates.
        readers: By template, those that read something of it.
    """

    templates: Sequence[Template]
    exports: Mapping[str, Output | None] = field(default_factory=dict)
    outputs: Mapping[tuple[str, str], Output | None] = field(default_factory=dict)
    nested: Mapping[Template, NestedStack] = field(default_factory=dict)
    readers: Mapping[Template, Sequence[Template]] = field(default_factory=dict)

    def nested_in(self, parent: Template, logical_id: str) -> Template | None:
        """The template of a nested stack; None if it is not known."""
        wanted = NestedStack(parent, logical_id)
        return next((template for template, stack in self.nested.items() if stack == wanted), None)


def output_of(template: Template, name: str) -> Output | None:
    """An output of a template by its name; None if there is none."""
    output = template.outputs.get(name)
    if not isinstance(output, dict) or "Value" not in output:
        return None
    return Output(template, output["Value"], output.get("Condition"))


def unambiguous(pairs: Iterable[tuple[Any, Output]]) -> dict[Any, Output | None]:
    """Outputs by a key; None for a key that several have."""
    found: dict[Any, Output | None] = {}
    for key, output in pairs:
        found[key] = None if key in found else output
    return found
