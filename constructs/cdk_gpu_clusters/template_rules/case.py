"""A template in one case, as checks read it: its resources and their values.

A check that asks a question that the template cannot answer ends by itself: reading a value raises `Undecidable`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, TypeVar

from cdk_gpu_clusters.template_rules.choices import Choices, Undecidable
from cdk_gpu_clusters.template_rules.document import Path
from cdk_gpu_clusters.template_rules.resolve import (
    ABSENT,
    Joined,
    Part,
    Reference,
    Resolved,
    Scope,
    Unknown,
    holds,
    resolve,
    settle,
    text_of,
)
from cdk_gpu_clusters.template_rules.template import Estate, Template

T = TypeVar("T")


class Case(Scope):
    """What checks look at: the resources that exist in one case."""

    def __init__(self, template: Template, choices: Choices, estate: Estate | None = None) -> None:
        super().__init__(template, choices, estate)
        self._resources: dict[str, Resource | None] = {}
        self._answers: dict[Callable[..., Any], Any] = {}

    def resources(self, *resource_types: str) -> list[Resource]:
        """The resources of some types, such as `AWS::EC2::Subnet`, that exist in this case.

        Resources of linked templates that read something of this one are included: they may be about its resources.
        """
        return [
            resource
            for template in self._seen()
            for resource_type in resource_types
            for resource in self.beside(template).existing(template.logical_ids(resource_type))
        ]

    def resources_naming(self, named: Resource, *resource_types: str) -> list[Resource]:
        """Those of `resources` that may refer to a resource of this template, in the order of the text.

        The conditions of the others are not evaluated, so that their cases are not separated.
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

    def once(self, question: Callable[[Case], T]) -> T:
        """The answer to a question about the template, computed once for each case.

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
        path: Its path in the template.
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
        """An attribute beside the properties, such as `DeletionPolicy` or `UpdatePolicy`."""
        return Value(self.case, self._raw.get(name), (*self.path, name))

    def once(self, question: Callable[[Resource], T]) -> T:
        """The answer to a question about the resource, computed once for each case: rules share costly answers.

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


def target_of(value: Value, resource_type: str = "") -> Resource | None:
    """The resource that a value refers to, of this template or a linked one; None if it refers to none of the type."""
    target = resource_of(value.case, value.reference)
    return None if target is None or resource_type not in ("", target.type) else target


def known_target_of(value: Value, resource_type: str, name: str) -> Resource:
    """The resource of a type that a value refers to.

    Raises:
        Undecidable: If the template does not have it; `name` is what users call it.
    """
    target = target_of(value, resource_type)
    if target is None:
        raise value.undecidable(f"this {name} is not in the template")
    return target


def targets_in(value: Value) -> list[Resource]:
    """The resources in a value: the one that it refers to, or those in its text."""
    named = (resource_of(value.case, part) for part in value.parts if isinstance(part, Reference))
    return list(dict.fromkeys(resource for resource in named if resource is not None))


def resource_of(case: Case, reference: Reference | None) -> Resource | None:
    """The resource behind a reference; None if there is none, or its condition does not hold."""
    return case.beside(reference.template).resource(reference.logical_id) if reference else None


# No number of a template is larger; infinity and what is no number are not smaller.
_MOST = 1e15
_FLAGS = {"true": True, "false": False}


class Value:
    """One value, with its path.

    `get` and `items` walk down; `text`, `integer`, `number` and `flag` read. What is absent reads as None. What only a
    deployment knows, or what has another type, raises `Undecidable`, which the engine reports with path and reason.
    """

    __slots__ = ("_children", "_path", "_raw", "_resolved", "case")

    def __init__(self, case: Case, raw: Any, path: Path) -> None:
        self.case: Case = case
        self._raw = raw
        self._path = path
        self._resolved: Resolved = None
        self._children: dict[str | int, Value] = {}

    @property
    def path(self) -> Path:
        """Its path, with the branch of `Fn::If` that this case takes."""
        self._read()
        return self._path

    def _read(self) -> Resolved:
        if self._resolved is None:
            try:
                self._raw, self._path = settle(self.case, self._raw, self._path)
                self._resolved = resolve(self.case, self._raw)
            except RecursionError:
                raise Undecidable("this value needs itself", self._path, self.case.template) from None
            except Undecidable as unclear:
                raise unclear.placed(self._path, self.case.template) from None
        return self._resolved

    def _plain(self) -> Any:
        """The value if it is known; None if it is absent."""
        value = self._read()
        if isinstance(value, Unknown):
            raise self.undecidable(value.reason)
        if isinstance(value, Reference):
            kind = value.template.resources[value.logical_id]["Type"]
            raise self.undecidable(f"{value} is known when the {kind} exists")
        if isinstance(value, Joined):
            unknown = next(part for part in value.parts if not isinstance(part, str))
            raise self.undecidable(f"a part of this text, {unknown}, is known at deployment only")
        return None if value is ABSENT else value

    def undecidable(self, reason: str) -> Undecidable:
        """The exception to raise if this value leaves the question open."""
        return Undecidable(reason, self.path, self.case.template)

    @property
    def exists(self) -> bool:
        """Whether there is a value, known or not."""
        return self._read() is not ABSENT

    @property
    def is_known(self) -> bool:
        """Whether there is a value, and the template holds it."""
        value = self._read()
        return value is not ABSENT and not isinstance(value, Unknown | Reference | Joined)

    def get(self, *keys: str | int) -> Value:
        """A value below this one; absent where a key is absent."""
        value = self
        for key in keys:
            value = value._child(key)
        return value

    def _child(self, key: str | int) -> Value:
        """The same object for the same key: rules read the same properties again and again."""
        child = self._children.get(key)
        if child is None:
            child = self._children[key] = Value(self.case, self._raw_child(key), (*self.path, key))
        return child

    def _raw_child(self, key: str | int) -> Any:
        held = self._plain()
        if isinstance(key, int):
            return held[key] if isinstance(held, list) and key < len(held) else None
        if held is not None and not isinstance(held, dict):
            raise self.undecidable("a mapping belongs here")
        return held.get(key) if held else None

    def items(self) -> list[Value]:
        """The items of a list, without those that are `AWS::NoValue`; none if it is absent."""
        held = self._plain()
        if held is None:
            return []
        if not isinstance(held, list):
            raise self.undecidable("a list belongs here")
        return [item for item in map(self._child, range(len(held))) if item.exists]

    def keys(self) -> list[str]:
        """The keys of a mapping whose values exist; none if it is absent."""
        held = self._plain()
        if held is not None and not isinstance(held, dict):
            raise self.undecidable("a mapping belongs here")
        return [key for key in held or {} if self.get(key).exists]

    def text(self) -> str | None:
        """The text, or a number or truth value as text."""
        held = self._plain()
        if isinstance(held, list | dict):
            raise self.undecidable("a text belongs here")
        return None if held is None else text_of(held)

    def integer(self) -> int | None:
        """The integer; a text of digits is one."""
        number = self.number()
        if number is None:
            return None
        if number != int(number):
            raise self.undecidable("an integer belongs here")
        return int(number)

    def number(self) -> float | None:
        """The number; a text of digits is one."""
        text = self.text()
        if text is None:
            return None
        try:
            number = float(text)
        except ValueError:
            raise self.undecidable("a number belongs here") from None
        if not abs(number) < _MOST:
            raise self.undecidable("a number belongs here")
        return number

    def flag(self) -> bool | None:
        """The truth value; `"true"` and `"false"` are ones."""
        text = self.text()
        if text is None:
            return None
        if text.lower() not in _FLAGS:
            raise self.undecidable("true or false belongs here")
        return _FLAGS[text.lower()]

    def template_text(self) -> str | None:
        """The text with `${Name}` for what only a deployment knows; None if it is absent or nothing of it is known."""
        held = self._read()
        if isinstance(held, Joined):
            return str(held)
        return text_of(held) if isinstance(held, str | int | float) else None

    @property
    def reference(self) -> Reference | None:
        """The resource, or attribute of it, that the value is; None if it is something else."""
        held = self._read()
        return held if isinstance(held, Reference) else None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of a text, known or not; none if it is no text."""
        held = self._read()
        if isinstance(held, Joined):
            return held.parts
        return (held,) if isinstance(held, str | Reference | Unknown) else ()

    def identity(self) -> Hashable:
        """Something that is the same for values that are the same."""
        held = self._read()
        return held if isinstance(held, Reference | Unknown | Joined) else f"={held}"

    def shown(self) -> str:
        """A text for people: `p5.48xlarge`, `Subnet.AvailabilityZone`."""
        return str(self._read())

    def is_same_as(self, other: Value) -> bool:
        """Whether two values are the same.

        Raises:
            Undecidable: If they are not the same expression, and one is not known.
        """
        if self.identity() == other.identity():
            return True
        for value in (self, other):
            value.text()
        return False

    def __repr__(self) -> str:
        return f"{'/'.join(map(str, self._path))}: {self._raw!r}"
