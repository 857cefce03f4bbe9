"""CloudFormation's intrinsic functions, resolved as far as a template allows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cdk_gpu_clusters.policy.choices import Undecidable
from cdk_gpu_clusters.policy.conditions import holds
from cdk_gpu_clusters.policy.document import Path
from cdk_gpu_clusters.policy.estate import output_of
from cdk_gpu_clusters.policy.parameters import is_parameter, parameter_value
from cdk_gpu_clusters.policy.resolved import (
    ABSENT,
    Joined,
    Reference,
    Resolved,
    Unknown,
    join,
    split,
    text_of,
)

if TYPE_CHECKING:
    from cdk_gpu_clusters.policy.case import Case

_PLACEHOLDER = re.compile(r"\$\{(!?)([^}]*)\}")
_MALFORMED = "this intrinsic function is malformed"


def settle(case: Case, raw: Any, path: Path) -> tuple[Any, Path]:
    """Follow `Fn::If` to the branch of the case; the path goes along.

    Raises:
        Fork: If the case does not decide the condition.
        Undecidable: If there is no such condition.
    """
    while isinstance(raw, dict) and len(raw) == 1 and "Fn::If" in raw:
        match raw["Fn::If"]:
            case [name, yes, no]:
                try:
                    taken = holds(case, name)
                except Undecidable as unclear:
                    raise unclear.placed(path, case.template) from None
                raw, path = (yes, (*path, "Fn::If", 1)) if taken else (no, (*path, "Fn::If", 2))
            case _:
                raise Undecidable(_MALFORMED, path, case.template)
    return raw, path


def resolve(case: Case, raw: Any) -> Resolved:
    """What a value turns out to be in a case; lists and mappings keep what stands in them as it is.

    Raises:
        Fork: If the case does not decide a condition or a parameter.
        Undecidable: If a condition is missing or malformed.
    """
    raw, _ = settle(case, raw, ())
    if raw is None:
        return ABSENT
    if isinstance(raw, str) and "{{resolve:" in raw:
        return Unknown("a dynamic reference is read at deployment", raw)
    if not isinstance(raw, dict) or len(raw) != 1:
        return raw
    name, argument = next(iter(raw.items()))
    if name in _FUNCTIONS:
        return _FUNCTIONS[name](case, argument)
    if name.startswith("Fn::"):
        return _unknown(case, f"{name} is resolved at deployment", name, argument)
    return raw


def _unknown(case: Case, reason: str, function: str, argument: Any) -> Unknown:
    key = json.dumps({function: argument}, sort_keys=True, default=str)
    # a text without names means the same in every template that is linked
    is_plain = isinstance(argument, str) and "${" not in argument
    return Unknown(reason, key, None if is_plain else case.template)


def _ref(case: Case, name: Any) -> Resolved:
    if name == "AWS::NoValue":
        return ABSENT
    if isinstance(name, str):
        if is_parameter(case, name):
            return parameter_value(case, name)
        if name in case.template.resources:
            return Reference(case.template, name)
    reason = f"{name!r} is neither a parameter nor a resource of the template"
    return Unknown(reason, f"Ref:{name}", case.template)


def _get_att(case: Case, argument: Any) -> Resolved:
    if isinstance(argument, str):
        argument = argument.split(".", 1)
    match argument:
        case [str(name), attribute] if name in case.template.resources:
            attribute = attribute if isinstance(attribute, str) else "?"
            given = _output_of_nested(case, name, attribute)
            return Reference(case.template, name, attribute) if given is None else given
    return _unknown(case, "this is no attribute of a resource of the template", "Fn::GetAtt", argument)


def _output_of_nested(case: Case, name: str, attribute: str) -> Resolved | None:
    nested = case.estate.nested_in(case.template, name)
    output = output_of(nested, attribute.removeprefix("Outputs.")) if nested else None
    return case.output(output) if output else None


def _import_value(case: Case, argument: Any) -> Resolved:
    name = resolve(case, argument)
    output = case.estate.exports.get(name) if isinstance(name, str) else None
    value = case.output(output) if output else None
    if value is None:
        return _unknown(case, "no template that was given exports this value", "Fn::ImportValue", argument)
    return value


def _stack_output(case: Case, argument: Any) -> Resolved:
    match argument:
        # another Region, or a role of another account, is another stack of that name
        case {"StackName": stack, "OutputName": output_name, **rest} if not rest:
            named = (resolve(case, stack), resolve(case, output_name))
            output = case.estate.outputs.get(named) if all(isinstance(one, str) for one in named) else None
            value = case.output(output) if output else None
            if value is not None:
                return value
    return _unknown(case, "no template that was given has this output", "Fn::GetStackOutput", argument)


def _sub(case: Case, argument: Any) -> Resolved:
    text, own = (argument, {}) if isinstance(argument, str) else (None, {})
    match argument:
        case [str(given), dict(names)]:
            text, own = given, names
    if text is None:
        return _unknown(case, _MALFORMED, "Fn::Sub", argument)
    if "{{resolve:" in text:
        return _unknown(case, "a dynamic reference is read at deployment", "Fn::Sub", argument)
    parts: list[Resolved] = []
    end = 0
    for found in _PLACEHOLDER.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        parts.append(f"${{{found[2]}}}" if found[1] else _named(case, found[2].strip(), own))
    return join([part for part in (*parts, text[end:]) if part != ""])


def _named(case: Case, name: str, own: dict[str, Any]) -> Resolved:
    if name in own:
        return resolve(case, own[name])
    return _get_att(case, name) if "." in name else _ref(case, name)


def _join(case: Case, argument: Any) -> Resolved:
    match argument:
        case [str(delimiter), operand]:
            items = resolve(case, operand)
            if isinstance(items, list):
                resolved = [resolve(case, item) for item in items]
                texts = [item for item in resolved if item is not ABSENT]
                spaced = [part for text in texts for part in (delimiter, text)][1:]
                return join([part for part in spaced if part != ""])
    return _unknown(case, "the parts of this text are known at deployment only", "Fn::Join", argument)


def _split(case: Case, argument: Any) -> Resolved:
    match argument:
        case [str(delimiter), operand] if delimiter:
            text = resolve(case, operand)
            if isinstance(text, str | Joined):
                return split(text, delimiter)
    return _unknown(case, "the text that is split is known at deployment only", "Fn::Split", argument)


def _select(case: Case, argument: Any) -> Resolved:
    match argument:
        case [position, operand]:
            index, items = resolve(case, position), resolve(case, operand)
            if isinstance(items, list) and text_of(index).isdigit():
                kept = [item for item in items if resolve(case, item) is not ABSENT]
                if int(text_of(index)) < len(kept):
                    return resolve(case, kept[int(text_of(index))])
    return _unknown(case, "the list is known at deployment only", "Fn::Select", argument)


def _find_in_map(case: Case, argument: Any) -> Resolved:
    match argument:
        case [name, first, second, *rest]:
            found = _in_map(case, *(resolve(case, key) for key in (name, first, second)))
            if found is not None:
                return found
            match rest:
                case [{"DefaultValue": default}]:
                    return resolve(case, default)
    return _unknown(case, "the key of the mapping is known at deployment only", "Fn::FindInMap", argument)


def _in_map(case: Case, name: Resolved, first: Resolved, second: Resolved) -> Resolved | None:
    """The value of the mapping; with a first key that is unknown, the value that all first keys have."""
    table = case.template.mappings.get(name) if isinstance(name, str) else None
    if not isinstance(table, dict) or not isinstance(second, str | int):
        return None
    rows = [table.get(text_of(first))] if isinstance(first, str | int) else list(table.values())
    values = [row.get(text_of(second)) if isinstance(row, dict) else None for row in rows]
    return values[0] if values and all(value == values[0] for value in values) else None


def _base64(case: Case, argument: Any) -> Resolved:
    """The text itself: what is encoded here is decoded again by whom it is for."""
    return resolve(case, argument)


def _length(case: Case, argument: Any) -> Resolved:
    items = resolve(case, argument)
    if isinstance(items, list):
        return len(items)
    return _unknown(case, "the list is known at deployment only", "Fn::Length", argument)


def _to_json_string(case: Case, argument: Any) -> Resolved:
    if "Fn::" in (text := json.dumps(argument, default=str)) or '"Ref"' in text:
        return _unknown(case, "parts of this JSON are known at deployment only", "Fn::ToJsonString", argument)
    return json.dumps(argument, separators=(",", ":"), default=str)


_FUNCTIONS: dict[str, Callable[[Case, Any], Resolved]] = {
    "Ref": _ref,
    "Fn::Base64": _base64,
    "Fn::FindInMap": _find_in_map,
    "Fn::GetAtt": _get_att,
    "Fn::GetStackOutput": _stack_output,
    "Fn::ImportValue": _import_value,
    "Fn::Join": _join,
    "Fn::Length": _length,
    "Fn::Select": _select,
    "Fn::Split": _split,
    "Fn::Sub": _sub,
    "Fn::ToJsonString": _to_json_string,
}
