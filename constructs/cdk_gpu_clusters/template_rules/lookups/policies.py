"""IAM policies: what the statements of a role allow, and on what."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from cdk_gpu_clusters.template_rules.case import Resource, Value, target_of
from cdk_gpu_clusters.template_rules.choices import Undecidable
from cdk_gpu_clusters.template_rules.lookups.launches import values_at

ROLE = "AWS::IAM::Role"
_MANAGED = "AWS::IAM::ManagedPolicy"
# Policies that are resources of their own, and where they name the roles that they are attached to.
_ATTACHED = {"AWS::IAM::Policy": "Roles/*", _MANAGED: "Roles/*", "AWS::IAM::RolePolicy": "RoleName"}


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a policy.

    Attributes:
        value: The value that holds it.
    """

    value: Value

    @property
    def is_allowing(self) -> bool:
        """Whether it allows something."""
        return self.value.get("Effect").text() == "Allow"

    @property
    def is_limited(self) -> bool:
        """Whether a condition limits it."""
        return bool(self.value.get("Condition").keys())

    @property
    def actions(self) -> list[str]:
        """The actions that it names, with wildcards; none if it names those that are left out (`NotAction`)."""
        return _texts(self.value.get("Action"))

    @property
    def resources(self) -> list[Value]:
        """The resources that it names; none if it names those that are left out (`NotResource`)."""
        return _listed(self.value.get("Resource"))

    def names(self, action: str) -> bool:
        """Whether an action is among its own."""
        if self.value.get("NotAction").exists:
            return not _matches(action, _texts(self.value.get("NotAction")))
        return _matches(action, self.actions)


def _matches(action: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)


def _texts(value: Value) -> list[str]:
    return [text for item in _listed(value) if (text := item.text()) is not None]


def _listed(value: Value) -> list[Value]:
    """The items of a list: IAM takes a single one in its place."""
    try:
        return value.items()
    except Undecidable:
        return [value]


def statements_of(role: Resource) -> list[Statement]:
    """The statements of a role's own policies, inline and managed, in the templates; ask for them with `role.once`."""
    documents = values_at(role.properties, "Policies/*/PolicyDocument")
    for policy in role.case.resources_naming(role, *_ATTACHED):
        if any(role.is_target_of(value) for value in values_at(policy.properties, _ATTACHED[policy.type])):
            documents.append(policy.get("PolicyDocument"))
    for value in role.get("ManagedPolicyArns").items():
        if (managed := target_of(value, _MANAGED)) is not None:
            documents.append(managed.get("PolicyDocument"))
    return [statement for document in documents for statement in statements_in(document)]


def statements_in(document: Value) -> list[Statement]:
    """The statements of a policy document."""
    return [Statement(value) for value in _listed(document.get("Statement"))]


_OF_AWS = re.compile(r":iam::aws:policy/(?:[\w/-]+/)?(\w+)$")


def aws_policies_of(role: Resource) -> list[tuple[Value, str]]:
    """The AWS managed policies of a role, each with its name.

    Raises:
        Undecidable: If one that is attached is not in the template.
    """
    found = []
    for value in role.get("ManagedPolicyArns").items():
        if value.reference is None:
            text = value.template_text()
            named = _OF_AWS.search(value.text() or "" if text is None else text)
            if named:
                found.append((value, named[1]))
    return found
