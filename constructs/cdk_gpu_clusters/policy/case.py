"""A template in one case: every choice made that a check has asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from cdk_gpu_clusters.policy.choices import Choices, Fork, Undecidable
from cdk_gpu_clusters.policy.conditions import holds
from cdk_gpu_clusters.policy.estate import Estate, Output
from cdk_gpu_clusters.policy.intrinsics import resolve
from cdk_gpu_clusters.policy.resolved import ABSENT, Reference, Resolved
from cdk_gpu_clusters.policy.template import Template
from cdk_gpu_clusters.policy.value import Value

T = TypeVar("T")


class Case:
    """What checks look at: the resources that exist in one case.

    Attributes:
        template: The template.
        choices: What is decided in this case.
        estate: The template, with those that it is linked with.
        asked: Conditions that are being asked for, each because of the one before.
        decided: What conditions turned out to be.
    """

    def __init__(self, template: Template, choices: Choices, estate: Estate | None = None) -> None:
        self.template = template
        self.choices = choices
        self.estate: Estate = estate or Estate(templates=[template])
        self.asked: list[str] = []
        self.decided: dict[str, bool] = {}
        self._beside: dict[Template, Case] = {template: self}
        self._resources: dict[str, Resource | None] = {}
        self._answers: dict[Callable[..., Any], Any] = {}

    def beside(self, template: Template) -> Case:
        """The same case of another template that this one is linked with."""
        if template not in self._beside:
            other = self._beside[template] = Case(template, self.choices, self.estate)
            other._beside = self._beside
        return self._beside[template]

    def given(self, name: str) -> Resolved | None:
        """What the parent stack gives to a parameter of this template; None if there is none, or it gives nothing."""
        nested = self.estate.nested.get(self.template)
        if nested is None or name not in nested.parameters:
            return None
        return resolve(self.beside(nested.parent), nested.parameters[name])

    def output(self, output: Output) -> Resolved | None:
        """What an output of a linked template turns out to be; None if it does not exist, or is no text."""
        case = self.beside(output.template)
        if output.condition is not None and not holds(case, output.condition):
            return None
        value = resolve(case, output.value)
        return None if isinstance(value, list | dict) or value is ABSENT else value

    def key(self, name: str) -> str:
        """What stands for a parameter or a condition of this template in the choices."""
        return f"{name} of {self.template.label}" if self.template.label else name

    def resources(self, *resource_types: str) -> list[Resource]:
        """The resources of some types, such as `AWS::EC2::Subnet`, that exist in this case.

        Those of linked templates that read something of this one stand among them: they may be about its resources.
        """
        return [
            resource
            for template in self._seen()
            for resource_type in resource_types
            for resource in self.beside(template).existing(template.logical_ids(resource_type))
        ]

    def resources_naming(self, named: Resource, *resource_types: str) -> list[Resource]:
        """Those of `resources` that may refer to a resource of this template, in the order of the text.

        The conditions of the others are not asked for, so that their cases are not told apart.
        """
        return [
            resource
            for template in self._seen()
            for resource_type in resource_types
            for resource in self.beside(template).existing(
                template.logical_ids_naming(named.logical_id, resource_type)
                if template is self.template
                else template.logical_ids(resource_type)
            )
        ]

    def _seen(self) -> Iterable[Template]:
        return (self.template, *self.estate.readers.get(self.template, ()))

    def existing(self, logical_ids: Iterable[str]) -> Iterator[Resource]:
        """The resources of this template, by their logical ids, that exist in this case."""
        for logical_id in logical_ids:
            if (resource := self.resource(logical_id)) is not None:
                yield resource

    def resource(self, logical_id: str) -> Resource | None:
        """A resource by its logical id; None if there is none, or its condition does not hold."""
        if logical_id not in self._resources:
            self._resources[logical_id] = self._made(logical_id)
        return self._resources[logical_id]

    def _made(self, logical_id: str) -> Resource | None:
        raw = self.template.resources.get(logical_id)
        if raw is None:
            return None
        if (condition := raw.get("Condition")) is not None:
            try:
                if not holds(self, condition):
                    return None
            except Undecidable as unclear:
                raise unclear.placed(("Resources", logical_id, "Condition"), self.template) from None
        return Resource(self, logical_id)

    def known_text(self, raw: object) -> str | None:
        """A value of the template as text, where this case knows it without another choice; None otherwise."""
        value = Value(self, raw, ())
        try:
            return value.text() if value.is_known else None
        except (Undecidable, Fork):
            return None

    def once(self, question: Callable[[Case], T]) -> T:
        """The answer to a question about the template, asked once a case.

        Args:
            question: A function at the top level of a module, whose answer never changes.
        """
        if question not in self._answers:
            self._answers[question] = question(self)
        found: T = self._answers[question]
        return found


class Resource:
    """A resource of the template, in one case.

    Attributes:
        case: The case.
        logical_id: Its logical id.
        type: Such as `AWS::EC2::LaunchTemplate`.
        path: Where it stands in the template.
        properties: Its properties.
    """

    def __init__(self, case: Case, logical_id: str) -> None:
        self.case: Case = case
        self.logical_id = logical_id
        self.path: tuple[str, str] = ("Resources", logical_id)
        self._raw = case.template.resources[logical_id]
        self.type: str = self._raw["Type"]
        self.properties: Value = self.attribute("Properties")
        self._answers: dict[Callable[..., Any], Any] = {}

    def get(self, *keys: str | int) -> Value:
        """A property: `get("LaunchTemplateData", "ImageId")`."""
        return self.properties.get(*keys)

    def attribute(self, name: str) -> Value:
        """What stands beside the properties: `DeletionPolicy`, `UpdatePolicy` and such."""
        return Value(self.case, self._raw.get(name), (*self.path, name))

    def once(self, question: Callable[[Resource], T]) -> T:
        """The answer to a question about the resource, asked once a case: rules share what is costly to find.

        Args:
            question: A function at the top level of a module, whose answer never changes.
        """
        if question not in self._answers:
            self._answers[question] = question(self)
        found: T = self._answers[question]
        return found

    def is_target_of(self, value: Value) -> bool:
        """Whether a value refers to this resource."""
        reference = value.reference
        return (
            reference is not None
            and reference.logical_id == self.logical_id
            and reference.template is self.case.template
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Resource)
            and self.logical_id == other.logical_id
            and self.case.template is other.case.template
        )

    def __hash__(self) -> int:
        return hash(self.logical_id)

    def __repr__(self) -> str:
        return f"{self.type} {self.logical_id}"


def target_of(value: Value) -> Resource | None:
    """The resource that a value refers to, of this template or a linked one; None if it refers to none."""
    return resource_of(value.case, value.reference)


def targets_in(value: Value) -> list[Resource]:
    """The resources that stand in a value: the one that it is, or those that its text is put together with."""
    named = (resource_of(value.case, part) for part in value.parts if isinstance(part, Reference))
    return list(dict.fromkeys(resource for resource in named if resource is not None))


def resource_of(case: Case, reference: Reference | None) -> Resource | None:
    """The resource behind a reference; None if there is none, or its condition does not hold."""
    return case.beside(reference.template).resource(reference.logical_id) if reference else None
