"""Accepted faults, each with a reason: in the template, in a file, or in a CDK app."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as File
from typing import Any

from cdk_gpu_clusters.template_rules.document import Path, UnusableTemplate, path_text
from cdk_gpu_clusters.template_rules.rule import Outcome, Verdict
from cdk_gpu_clusters.template_rules.template import Template, kind_of, read_document

#: Key in the `Metadata` of a resource: `cdk_gpu_clusters: {acknowledge: [{id: …, reason: …}]}`.
METADATA_KEY = "cdk_gpu_clusters"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """An accepted fault.

    Attributes:
        id: Id of the rule.
        reason: Why.
        resource: Logical id of the resource; every resource by default.
    """

    id: str
    reason: str
    resource: str | None = None

    def covers(self, rule_id: str, logical_id: str) -> bool:
        """Whether a fault of a rule at a resource is what was accepted."""
        return rule_id == self.id and self.resource in (None, logical_id)


def acknowledge(
    template: Template,
    verdicts: Iterable[Verdict],
    accepted: Mapping[Template, Sequence[Acknowledgement]],
) -> list[Verdict]:
    """The verdicts, with what was accepted marked as such.

    Args:
        template: The template.
        verdicts: The verdicts of the rules on it.
        accepted: What is accepted, by template. A fault that is in another template than the resource that the rule
            checked is accepted at either place.
    """
    return [_marked(template, verdict, accepted) for verdict in verdicts]


def _marked(template: Template, verdict: Verdict, accepted: Mapping[Template, Sequence[Acknowledgement]]) -> Verdict:
    if verdict.outcome is not Outcome.NOT_COMPLIANT:
        return verdict
    places = {(template, verdict.resource), (verdict.template, str(verdict.path[1]))}
    reasons = (
        one.reason
        for at, logical_id in places
        for one in accepted.get(at, ())
        if one.covers(verdict.rule.id, logical_id)
    )
    return next((replace(verdict, acknowledged=True, reason=reason) for reason in reasons), verdict)


def acknowledged_in(template: Template) -> list[Acknowledgement]:
    """What the resources of a template accept in their metadata.

    Raises:
        UnusableTemplate: If something is accepted without an id or a reason.
    """
    return list(_of_template(template))


def _of_template(template: Template) -> Iterator[Acknowledgement]:
    for logical_id, resource in template.resources.items():
        own = (resource.get("Metadata") or {}).get(METADATA_KEY)
        if own is not None:
            path = ("Resources", logical_id, "Metadata", METADATA_KEY)
            try:
                yield from (
                    Acknowledgement(id=one.id, reason=one.reason, resource=logical_id) for one in _listed(own, path)
                )
            except UnusableTemplate as fault:
                raise UnusableTemplate(fault.cause, template.place(fault.path)) from None


def read_acknowledgements(file: File) -> list[Acknowledgement]:
    """Read a file that accepts faults: `acknowledge: [{id: GPU-LT-010, resource: Nodes, reason: …}]`.

    Raises:
        UnusableTemplate: If it cannot be read, or accepts something without an id or a reason.
    """
    document = read_document(file)
    try:
        return list(_listed(document.data, ()))
    except UnusableTemplate as fault:
        raise UnusableTemplate(fault.cause, document.locate(fault.path)) from None


def _listed(value: Any, path: Path) -> Iterator[Acknowledgement]:
    items = value.get("acknowledge") if isinstance(value, dict) else None
    if not isinstance(items, list):
        raise UnusableTemplate(
            f"{path_text(path) or 'the file'} must hold acknowledge, a list, not {kind_of(items)}", path=path
        )
    for index, item in enumerate(items):
        where = (*path, "acknowledge", index)
        known = item if isinstance(item, dict) else {}
        texts = {key: known.get(key) for key in ("id", "reason")}
        if not all(isinstance(text, str) and text.strip() for text in texts.values()):
            raise UnusableTemplate(f"{path_text(where)} needs an id and a reason", path=where)
        resource = known.get("resource")
        yield Acknowledgement(
            id=known["id"], reason=known["reason"], resource=None if resource is None else str(resource)
        )
