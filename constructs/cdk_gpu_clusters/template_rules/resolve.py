"""What the values of a template turn out to be, as far as the template and one case decide it.

CloudFormation's intrinsic functions, its conditions and its parameters are resolved here. A resolved value is a plain
value (text, number, truth value, list, mapping) as it is; `ABSENT`; a `Reference` to another resource; a `Joined` text
that is known in parts; or `Unknown`, with the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from cdk_gpu_clusters.template_rules.choices import Choice, Choices, Fork, Undecidable
from cdk_gpu_clusters.template_rules.document import Path
from cdk_gpu_clusters.template_rules.template import Estate, Output, Template, output_of

#: Any of the above.
Resolved = Any


@dataclass(frozen=True, slots=True)
class Reference:
    """A resource of a template (`Ref`), or one of its attributes (`Fn::GetAtt`).

    Attributes:
        template: The template of the resource; of several that are linked, it may be another one.
        logical_id: The resource.
        attribute: The attribute; empty for the resource itself.
    """

    template: Template
    logical_id: str
    attribute: str = ""

    def __str__(self) -> str:
        return ".".join(filter(None, (self.template.label, self.logical_id, self.attribute)))


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that only a deployment knows.

    Attributes:
        reason: Why, in a user's words.
        key: The same for values that are the same.
        template: The template that knows what the key means; None if it means the same in all that are linked.
    """

    reason: str = field(compare=False)
    key: str
    template: Template | None = None

    @property
    def parameter(self) -> str:
        """The name of the parameter that it is; another text if it is none."""
        return self.key.removeprefix("Ref:")

    def __str__(self) -> str:
        return ".".join(filter(None, (self.template.label if self.template else "", self.parameter)))


#: A part of a text.
Part = str | Reference | Unknown


@dataclass(frozen=True, slots=True)
class Joined:
    """A text of parts, some of which only a deployment knows."""

    parts: tuple[Part, ...]

    def __str__(self) -> str:
        return "".join(part if isinstance(part, str) else f"${{{part}}}" for part in self.parts)


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


#: No value: the key is not there, is null, or is `AWS::NoValue`.
ABSENT = _Absent()


def text_of(value: Any) -> str:
    """A plain value as CloudFormation writes it into texts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def join(parts: list[Resolved]) -> str | Joined | Unknown:
    """Texts put together; unknown if a part is no text."""
    flat: list[Part] = []
    for part in parts:
        if isinstance(part, Joined):
            flat += part.parts
        elif isinstance(part, Reference | Unknown):
            flat.append(part)
        elif isinstance(part, str | int | float):
            flat.append(text_of(part))
        elif part is not ABSENT:
            return Unknown("a list or mapping is used where a text belongs", repr(part))
    if all(isinstance(part, str) for part in flat):
        return "".join(map(str, flat))
    return flat[0] if len(flat) == 1 and isinstance(flat[0], Unknown) else Joined(tuple(flat))


def split(text: str | Joined, delimiter: str) -> list[str | Reference | Unknown | Joined]:
    """A text in pieces; a part that only a deployment knows is taken for one without the delimiter."""
    pieces: list[list[Part]] = [[]]
    for part in text.parts if isinstance(text, Joined) else (text,):
        first, *rest = part.split(delimiter) if isinstance(part, str) else (part,)
        pieces[-1].append(first)
        pieces += [[one] for one in rest]
    return [_together([part for part in piece if part != ""]) for piece in pieces]


def _together(parts: list[Part]) -> str | Reference | Unknown | Joined:
    return parts[0] if len(parts) == 1 else join(list(parts))


class Scope:
    """A template, what is decided of it, and the templates that it is linked with.

    Attributes:
        template: The template.
        choices: What is decided in this case.
        estate: The template, with those that it is linked with.
        pending: Conditions that are being decided, each because of the one before.
        decided: What conditions turned out to be.
    """

    def __init__(self, template: Template, choices: Choices, estate: Estate | None = None) -> None:
        self.template = template
        self.choices = choices
        self.estate: Estate = estate or Estate(templates=[template])
        self.pending: list[str] = []
        self.decided: dict[str, bool] = {}
        self._beside: dict[Template, Self] = {}

    def beside(self, template: Template) -> Self:
        """The same case of another template that this one is linked with."""
        if template is self.template:
            return self
        if template not in self._beside:
            self._beside[self.template] = self
            other = self._beside[template] = type(self)(template, self.choices, self.estate)
            other._beside = self._beside
        return self._beside[template]

    def given(self, name: str) -> Resolved | None:
        """The value that the parent stack gives to a parameter of this template; None if it gives none."""
        nested = self.estate.nested.get(self.template)
        if nested is None or name not in nested.parameters:
            return None
        return resolve(self.beside(nested.parent), nested.parameters[name])

    def output(self, output: Output) -> Resolved | None:
        """The value of an output of a linked template; None if it does not exist, or is no text."""
        scope = self.beside(output.template)
        if output.condition is not None and not holds(scope, output.condition):
            return None
        value = resolve(scope, output.value)
        return None if isinstance(value, list | dict) or value is ABSENT else value

    def key(self, name: str) -> str:
        """The name of a parameter or a condition of this template among the choices."""
        return f"{name} of {self.template.label}" if self.template.label else name

    def text_or_none(self, raw: object) -> str | None:
        """A value of the template as text; None if it needs another choice, or only a deployment knows it."""
        try:
            value = resolve(self, raw)
        except (Undecidable, Fork, RecursionError):
            return None
        return text_of(value) if isinstance(value, str | int | float) else None


_PLACEHOLDER = re.compile(r"\$\{(!?)([^}]*)\}")
_MALFORMED = "this intrinsic function is malformed"


def settle(scope: Scope, raw: Any, path: Path) -> tuple[Any, Path]:
    """Follow `Fn::If` to the branch of the case; the path goes along.

    Raises:
        Fork: If the case does not decide the condition.
        Undecidable: If there is no such condition.
    """
    while isinstance(raw, dict) and len(raw) == 1 and "Fn::If" in raw:
        match raw["Fn::If"]:
            case [name, yes, no]:
                try:
                    taken = holds(scope, name)
                except Undecidable as unclear:
                    raise unclear.placed(path, scope.template) from None
                raw, path = (yes, (*path, "Fn::If", 1)) if taken else (no, (*path, "Fn::If", 2))
            case _:
                raise Undecidable(_MALFORMED, path, scope.template)
    return raw, path


def resolve(scope: Scope, raw: Any) -> Resolved:
    """What a value turns out to be in a case; the items of lists and mappings stay as they are.

    Raises:
        Fork: If the case does not decide a condition or a parameter.
        Undecidable: If a condition is missing or malformed.
    """
    raw, _ = settle(scope, raw, ())
    if raw is None:
        return ABSENT
    if isinstance(raw, str) and "{{resolve:" in raw:
        return Unknown("a dynamic reference is read at deployment", raw)
    if not isinstance(raw, dict) or len(raw) != 1:
        return raw
    name, argument = next(iter(raw.items()))
    if name in _FUNCTIONS:
        return _FUNCTIONS[name](scope, argument)
    if name.startswith("Fn::"):
        return _unknown(scope, f"{name} is resolved at deployment", name, argument)
    return raw


def _unknown(scope: Scope, reason: str, function: str, argument: Any) -> Unknown:
    key = json.dumps({function: argument}, sort_keys=True, default=str)
    # a text without names means the same in every template that is linked
    is_plain = isinstance(argument, str) and "${" not in argument
    return Unknown(reason, key, None if is_plain else scope.template)


def _ref(scope: Scope, name: Any) -> Resolved:
    if name == "AWS::NoValue":
        return ABSENT
    if isinstance(name, str):
        if is_parameter(scope, name):
            return parameter_value(scope, name)
        if name in scope.template.resources:
            return Reference(scope.template, name)
    reason = f"{name!r} is neither a parameter nor a resource of the template"
    return Unknown(reason, f"Ref:{name}", scope.template)


def _get_att(scope: Scope, argument: Any) -> Resolved:
    if isinstance(argument, str):
        argument = argument.split(".", 1)
    match argument:
        case [str(name), attribute] if name in scope.template.resources:
            attribute = attribute if isinstance(attribute, str) else "?"
            given = _output_of_nested(scope, name, attribute)
            return Reference(scope.template, name, attribute) if given is None else given
    return _unknown(scope, "this is no attribute of a resource of the template", "Fn::GetAtt", argument)


def _output_of_nested(scope: Scope, name: str, attribute: str) -> Resolved | None:
    nested = scope.estate.nested_in(scope.template, name)
    output = output_of(nested, attribute.removeprefix("Outputs.")) if nested else None
    return scope.output(output) if output else None


def _import_value(scope: Scope, argument: Any) -> Resolved:
    name = resolve(scope, argument)
    output = scope.estate.exports.get(name) if isinstance(name, str) else None
    value = scope.output(output) if output else None
    if value is None:
        return _unknown(scope, "no template that was given exports this value", "Fn::ImportValue", argument)
    return value


def _stack_output(scope: Scope, argument: Any) -> Resolved:
    match argument:
        # another Region, or a role of another account, is another stack of that name
        case {"StackName": stack, "OutputName": output_name, **rest} if not rest:
            named = (resolve(scope, stack), resolve(scope, output_name))
            output = scope.estate.outputs.get(named) if all(isinstance(one, str) for one in named) else None
            value = scope.output(output) if output else None
            if value is not None:
                return value
    return _unknown(scope, "no template that was given has this output", "Fn::GetStackOutput", argument)


def _sub(scope: Scope, argument: Any) -> Resolved:
    text, own = (argument, {}) if isinstance(argument, str) else (None, {})
    match argument:
        case [str(given), dict(names)]:
            text, own = given, names
    if text is None:
        return _unknown(scope, _MALFORMED, "Fn::Sub", argument)
    if "{{resolve:" in text:
        return _unknown(scope, "a dynamic reference is read at deployment", "Fn::Sub", argument)
    parts: list[Resolved] = []
    end = 0
    for found in _PLACEHOLDER.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        parts.append(f"${{{found[2]}}}" if found[1] else _named(scope, found[2].strip(), own))
    return join([part for part in (*parts, text[end:]) if part != ""])


def _named(scope: Scope, name: str, own: dict[str, Any]) -> Resolved:
    if name in own:
        return resolve(scope, own[name])
    return _get_att(scope, name) if "." in name else _ref(scope, name)


def _join(scope: Scope, argument: Any) -> Resolved:
    match argument:
        case [str(delimiter), operand]:
            items = resolve(scope, operand)
            if isinstance(items, list):
                resolved = [resolve(scope, item) for item in items]
                texts = [item for item in resolved if item is not ABSENT]
                spaced = [part for text in texts for part in (delimiter, text)][1:]
                return join([part for part in spaced if part != ""])
    return _unknown(scope, "the parts of this text are known at deployment only", "Fn::Join", argument)


def _split(scope: Scope, argument: Any) -> Resolved:
    match argument:
        case [str(delimiter), operand] if delimiter:
            text = resolve(scope, operand)
            if isinstance(text, str | Joined):
                return split(text, delimiter)
    return _unknown(scope, "the text that is split is known at deployment only", "Fn::Split", argument)


def _select(scope: Scope, argument: Any) -> Resolved:
    match argument:
        case [position, operand]:
            index, items = resolve(scope, position), resolve(scope, operand)
            if isinstance(items, list) and text_of(index).isdigit():
                kept = [item for item in items if resolve(scope, item) is not ABSENT]
                if int(text_of(index)) < len(kept):
                    return resolve(scope, kept[int(text_of(index))])
    return _unknown(scope, "the list is known at deployment only", "Fn::Select", argument)


def _find_in_map(scope: Scope, argument: Any) -> Resolved:
    match argument:
        case [name, first, second, *rest]:
            found = _in_map(scope, *(resolve(scope, key) for key in (name, first, second)))
            if found is not None:
                return found
            match rest:
                case [{"DefaultValue": default}]:
                    return resolve(scope, default)
    return _unknown(scope, "the key of the mapping is known at deployment only", "Fn::FindInMap", argument)


def _in_map(scope: Scope, name: Resolved, first: Resolved, second: Resolved) -> Resolved | None:
    """The value of the mapping; with a first key that is unknown, the value that all first keys have."""
    table = scope.template.mappings.get(name) if isinstance(name, str) else None
    if not isinstance(table, dict) or not isinstance(second, str | int):
        return None
    rows = [table.get(text_of(first))] if isinstance(first, str | int) else list(table.values())
    values = [row.get(text_of(second)) if isinstance(row, dict) else None for row in rows]
    return values[0] if values and all(value == values[0] for value in values) else None


def _length(scope: Scope, argument: Any) -> Resolved:
    items = resolve(scope, argument)
    if isinstance(items, list):
        return len(items)
    return _unknown(scope, "the list is known at deployment only", "Fn::Length", argument)


def _to_json_string(scope: Scope, argument: Any) -> Resolved:
    if "Fn::" in (text := json.dumps(argument, default=str)) or '"Ref"' in text:
        return _unknown(scope, "parts of this JSON are known at deployment only", "Fn::ToJsonString", argument)
    return json.dumps(argument, separators=(",", ":"), default=str)


_FUNCTIONS: dict[str, Callable[[Scope, Any], Resolved]] = {
    "Ref": _ref,
    "Fn::Base64": resolve,  # the text itself: its reader decodes it again
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


def holds(scope: Scope, name: Any) -> bool:
    """Whether the condition of a name holds.

    A comparison with a parameter is decided by a choice of the parameter's value. So conditions on the same parameter
    never contradict each other, and `Ref` gives that value in the branch. The default does not decide a condition: the
    author wrote the other branch to be used. A comparison with a text made of parameters, such as an item of a list, is
    a choice of its own. In the branch that the defaults do not lead to, those parameters are not their defaults.

    Args:
        scope: The template, and what is decided of it.
        name: Its name.

    Raises:
        Fork: If the case does not decide it.
        Undecidable: If there is none of that name, or it is malformed.
    """
    if not isinstance(name, str) or name not in scope.template.conditions:
        raise Undecidable(f"there is no condition {name!r}")
    if name in scope.pending:
        raise Undecidable(f"condition {name} needs itself: {' -> '.join((*scope.pending, name))}")
    if name not in scope.decided:
        scope.pending.append(name)
        try:
            scope.decided[name] = _holds(scope, scope.template.conditions[name])
        finally:
            scope.pending.pop()
    return scope.decided[name]


def _holds(scope: Scope, condition: Any) -> bool:
    match condition:
        case {"Condition": name, **rest} if not rest:
            return holds(scope, name)
        case {"Fn::Not": [operand]}:
            return not _holds(scope, operand)
        case {"Fn::And": [*operands]}:
            return all(_holds(scope, operand) for operand in operands)
        case {"Fn::Or": [*operands]}:
            return any(_holds(scope, operand) for operand in operands)
        case {"Fn::Equals": [left, right]}:
            return _equal(scope, left, right)
    raise Undecidable(f"condition {scope.pending[-1]} is malformed")


def _equal(scope: Scope, left: Any, right: Any) -> bool:
    if _is_literal(left) and _is_literal(right):
        return text_of(left) == text_of(right)
    for operand, other in ((left, right), (right, left)):
        name = operand.get("Ref") if isinstance(operand, dict) else None
        if isinstance(name, str) and is_parameter(scope, name) and _is_literal(other):
            return _parameter_equals(scope, name, text_of(other))
    return _free(scope, left, right)


def _is_literal(value: Any) -> bool:
    return isinstance(value, str | int | float) and "{{resolve:" not in text_of(value)


def _parameter_equals(scope: Scope, name: str, literal: str) -> bool:
    key = scope.key(name)
    choice = scope.choices.get(key, Choice())
    if choice.value is not None:
        return choice.value == literal
    if literal in choice.excluded:
        return False
    if isinstance(given := given_value(scope, name), str):
        return given == literal
    left = possible_values(scope, name)
    if left is not None and (literal not in left or left == [literal]):
        return literal in left
    other = Choice(excluded=choice.excluded | {literal})
    raise Fork((scope.choices.having(key, Choice(literal)), scope.choices.having(key, other)), must_agree=False)


def _free(scope: Scope, left: Any, right: Any) -> bool:
    """A comparison of anything else: it holds, or does not, unless the template decides it."""
    comparison = json.dumps([left, right], sort_keys=True, default=str)
    key = scope.key(comparison)
    choice = scope.choices.get(key)
    if choice is not None:
        return choice.value == "true"
    options = {answer: scope.choices.having(key, Choice(answer)) for answer in ("true", "false")}
    texts = [scope.text_or_none(operand) for operand in (left, right)]
    if None not in texts:
        parameters = _undecided_in(scope, comparison)
        if not parameters:
            return texts[0] == texts[1]
        unusual = "false" if texts[0] == texts[1] else "true"
        for name in parameters:
            options[unusual] = options[unusual].having(scope.key(name), _not_the_default(scope, name))
    raise Fork(tuple(options.values()), must_agree=False)


def _undecided_in(scope: Scope, text: str) -> list[str]:
    """Parameters that an expression names, and whose value no choice has decided."""
    return [
        name
        for name in scope.template.parameters
        if (f'"Ref": "{name}"' in text or f"${{{name}}}" in text)
        and scope.choices.get(scope.key(name), Choice()).value is None
        and not isinstance(given_value(scope, name), str)
    ]


def _not_the_default(scope: Scope, name: str) -> Choice:
    excluded = scope.choices.get(scope.key(name), Choice()).excluded
    default = default_of(scope, name)
    return Choice(excluded=excluded if default is None else excluded | {default})


# More allowed values than that (all zones, all types) are not gone through.
_MOST_ALLOWED_VALUES = 24


def is_parameter(scope: Scope, name: str) -> bool:
    """Whether a name is that of a parameter, or of a pseudo parameter such as `AWS::Region`."""
    return name in scope.template.parameters or name.startswith("AWS::")


def parameter_value(scope: Scope, name: str) -> Resolved:
    """The value of a parameter in a case.

    Raises:
        Fork: If it has allowed values only.
    """
    key, kind = scope.key(name), str(_definition(scope, name).get("Type", "String"))
    choice = scope.choices.get(key, Choice())
    if choice.value is not None:
        return _typed(kind, choice.value)
    if kind.startswith("AWS::SSM::Parameter::Value"):
        return Unknown(f"parameter {name} is read from Systems Manager at deployment", f"Ref:{name}", scope.template)
    if (given := given_value(scope, name)) is not None:
        return _typed(kind, given)
    default = default_of(scope, name)
    if default is not None and default not in choice.excluded:
        return _typed(kind, default)
    left = possible_values(scope, name)
    if left is not None and len(left) == 1:
        return _typed(kind, left[0])
    if left is not None and 1 < len(left) <= _MOST_ALLOWED_VALUES:
        raise Fork(tuple(scope.choices.having(key, Choice(value)) for value in left), must_agree=True)
    reason = "is not its default here" if default is not None else "has no default"
    return Unknown(f"parameter {name} {reason}", f"Ref:{name}", scope.template)


def default_of(scope: Scope, name: str) -> str | None:
    """The default of a parameter, as text; None if it has none."""
    default = _definition(scope, name).get("Default")
    return None if default is None else text_of(default)


def possible_values(scope: Scope, name: str) -> list[str] | None:
    """Allowed values of a parameter that are not ruled out; None if any value is allowed."""
    allowed = _definition(scope, name).get("AllowedValues")
    if not isinstance(allowed, list):
        return None
    excluded = scope.choices.get(scope.key(name), Choice()).excluded
    return [text for value in allowed if (text := text_of(value)) not in excluded]


def _definition(scope: Scope, name: str) -> dict[str, Any]:
    definition = scope.template.parameters.get(name)
    return definition if isinstance(definition, dict) else {}


def given_value(scope: Scope, name: str) -> Resolved | None:
    """The value that a pseudo parameter has, or that a parent stack gives; None if there is no such value."""
    if name.startswith("AWS::"):
        return _pseudo(scope, name)
    value = scope.given(name)
    if isinstance(value, list | dict) or value is ABSENT:
        return Unknown(f"parameter {name} is given no text", f"Ref:{name}", scope.template)
    return text_of(value) if isinstance(value, bool | int | float) else value


def _pseudo(scope: Scope, name: str) -> Resolved:
    if name == "AWS::Region" and scope.template.region:
        return scope.template.region
    if name == "AWS::StackName" and scope.template.stack_name:
        return scope.template.stack_name
    own = name.startswith(("AWS::Stack", "AWS::Notification"))
    return Unknown(f"{name} is known at deployment only", f"Ref:{name}", scope.template if own else None)


def _typed(kind: str, value: Resolved) -> Resolved:
    if isinstance(value, str | Joined) and (kind.startswith("List<") or kind == "CommaDelimitedList"):
        pieces = split(value, ",") if value else []
        return [piece.strip() if isinstance(piece, str) else piece for piece in pieces]
    return value
