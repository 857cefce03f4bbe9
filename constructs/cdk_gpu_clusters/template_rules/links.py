"""Find out which templates are deployed beside each other: imports, outputs that are read, and nested stacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path as File
from typing import Any

from cdk_gpu_clusters.template_rules.choices import Choices, Fork, Undecidable
from cdk_gpu_clusters.template_rules.resolve import Scope, resolve
from cdk_gpu_clusters.template_rules.template import (
    Estate,
    NestedStack,
    Output,
    Template,
    output_of,
    unambiguous,
)

_STACK = "AWS::CloudFormation::Stack"
_READS = ("Fn::ImportValue", "Fn::GetStackOutput")


def estates_of(templates: Sequence[Template]) -> list[Estate]:
    """Templates by what links them; templates of different accounts or Regions are not linked.

    Args:
        templates: The templates; each gets a `label` that no template linked with it has.
    """
    nested = _nested_stacks(templates)
    by_environment: dict[str, list[Template]] = defaultdict(list)
    for template in templates:
        outermost = _outermost(template, nested)
        template.region = outermost.region or template.region
        by_environment[outermost.environment].append(template)
    return [estate for beside in by_environment.values() for estate in _estates(beside, nested)]


def _outermost(template: Template, nested: Mapping[Template, NestedStack]) -> Template:
    """The template around a nested stack, and around that."""
    seen = {template}
    while (stack := nested.get(template)) and stack.parent not in seen:
        template = stack.parent
        seen.add(template)
    return template


def _estates(templates: Sequence[Template], nested: Mapping[Template, NestedStack]) -> Iterator[Estate]:
    if len(templates) == 1:
        yield Estate(templates=templates)
        return
    all_linked = Estate(
        templates=templates,
        exports=unambiguous(_exports(templates)),
        outputs=unambiguous(_outputs(templates)),
        nested=nested,
    )
    given_by = {template: _sources(template, all_linked) for template in templates}
    for linked in _connected(given_by):
        if len(linked) > 1:
            _label(linked)
        yield Estate(
            templates=linked,
            exports=all_linked.exports,
            outputs=all_linked.outputs,
            nested={template: all_linked.nested[template] for template in linked if template in all_linked.nested},
            readers={template: [reader for reader in linked if template in given_by[reader]] for template in linked},
        )


def _exports(templates: Iterable[Template]) -> Iterator[tuple[str, Output]]:
    for template in templates:
        for name, output in template.outputs.items():
            export = output.get("Export") if isinstance(output, dict) else None
            found = output_of(template, name)
            if found and isinstance(export, dict) and (text := _plain(template, export.get("Name"))):
                yield text, found


def _outputs(templates: Iterable[Template]) -> Iterator[tuple[tuple[str, str], Output]]:
    for template in templates:
        for name in template.outputs if template.stack_name else ():
            if found := output_of(template, name):
                yield (template.stack_name or "", name), found


def _plain(template: Template, raw: Any) -> str | None:
    """A text that the template holds; None if it depends on anything."""
    try:
        value = resolve(Scope(template, Choices()), raw)
    except (Fork, Undecidable, RecursionError):
        return None
    return value if isinstance(value, str) else None


def _nested_stacks(templates: Iterable[Template]) -> dict[Template, NestedStack]:
    """Nested stacks that one resource is made of, whose template is a file beside its parent's."""
    by_file = {File(template.name).resolve(): template for template in templates}
    found: dict[Template, list[NestedStack]] = defaultdict(list)
    for parent in by_file.values():
        for logical_id in parent.logical_ids(_STACK):
            for name in _files_of(parent.resources[logical_id]):
                template = by_file.get(File(parent.name).resolve().parent / name)
                if template is not None and template is not parent:
                    found[template].append(NestedStack(parent, logical_id))
                    break
    return {template: stacks[0] for template, stacks in found.items() if len(stacks) == 1}


def _files_of(resource: Mapping[str, Any]) -> Iterator[str]:
    """Where the template of a nested stack may be: CDK names it in the metadata, other tools in the URL."""
    for held, key in (
        (resource.get("Metadata"), "aws:asset:path"),
        (resource.get("Properties"), "TemplateURL"),
    ):
        name = held.get(key) if isinstance(held, dict) else None
        if isinstance(name, str) and "://" not in name and "\0" not in name:
            yield name


def _sources(template: Template, estate: Estate) -> set[Template]:
    """The templates that one reads something of."""
    found = {output.template for output in _read_by(template, estate) if output}
    if (stack := estate.nested.get(template)) and stack.parameters:
        found.add(stack.parent)
    inner = (estate.nested_in(template, logical_id) for logical_id in template.logical_ids(_STACK))
    found |= {one for one in inner if one is not None}
    return found - {template}


def _read_by(template: Template, estate: Estate) -> Iterator[Output | None]:
    pending: list[Any] = [template.resources]
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            pending += value.values()
            if len(value) == 1 and (function := next(iter(value))) in _READS:
                yield _read_from(template, estate, function, value[function])


def _read_from(template: Template, estate: Estate, function: str, argument: Any) -> Output | None:
    if function == "Fn::ImportValue":
        return estate.exports.get(_plain(template, argument) or "")
    named = argument if isinstance(argument, dict) else {}
    stack, name = (_plain(template, named.get(key)) or "" for key in ("StackName", "OutputName"))
    return estate.outputs.get((stack, name))


def _connected(given_by: Mapping[Template, set[Template]]) -> Iterator[list[Template]]:
    """The templates in groups: those of one group reach each other by reading, in either direction."""
    beside: dict[Template, set[Template]] = {template: set(sources) for template, sources in given_by.items()}
    for template, sources in given_by.items():
        for source in sources:
            beside[source].add(template)
    done: set[Template] = set()
    for start in given_by:
        if start in done:
            continue
        reached, pending = {start}, [start]
        while pending:
            new = beside[pending.pop()] - reached
            reached |= new
            pending += new
        done |= reached
        yield [template for template in given_by if template in reached]


def _label(templates: Sequence[Template]) -> None:
    """Give each template a name that no other has."""
    names = [template.stack_name or File(template.name).name.partition(".")[0] for template in templates]
    for template, name in zip(templates, names, strict=True):
        template.label = name if names.count(name) == 1 else template.name
