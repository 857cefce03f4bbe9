"""pydantic's errors in the words of the cluster file: what is wrong, what was given, what is allowed, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from pydantic_core import ErrorDetails

from cdk_gpu_clusters.errors import Finding, Rule
from cdk_gpu_clusters.rules.capacity_checks import BLOCK_NEEDS_END, RESERVATION_GROUP_ARN, RESERVATION_ID

from ._document import Key, dotted
from ._fault import Fault
from ._rules import MISSING_KEY, NAME, ONE_FORM, ORCHESTRATOR, UNKNOWN_KEY, WRONG_VALUE
from ._shape import FORM_TAGS, FORMS, PATTERNS, Form, fields_at, forms_key, meant_key
from ._wording import show, value_finding

_PLANNED = ("pcs", "hyperpod", "parallelcluster", "batch")


def translate(errors: Iterable[ErrorDetails]) -> list[Fault]:
    """Turn pydantic's errors into faults, leaving out those that only follow from another."""
    faults: list[Fault] = []
    suggested: set[Key] = set()
    missing: list[tuple[Key, Fault]] = []
    for error in errors:
        key, tag = _key_of(error)
        if error["type"] == "extra_forbidden":
            fault, near = _unknown(key, error["loc"])
            faults.append(fault)
            if near:
                suggested.add((*key[:-1], near))
        elif error["type"] == "missing":
            missing.append((key, _missing(key, tag)))
        else:
            faults.append(_value_fault(key, error))
    faults += [fault for key, fault in missing if key not in suggested]
    return faults


def _key_of(error: ErrorDetails) -> tuple[Key, str]:
    """The path in the file of an error's location, and the last form tag in it."""
    loc, tag = error["loc"], ""
    key: list[int | str] = []
    parts = loc[:-1] if _is_about_key(error) else loc
    for index, part in enumerate(parts):
        if part in FORM_TAGS.get(forms_key(parts[:index]), ()):
            tag = str(part)
        else:
            key.append(part)
    return tuple(key), tag


def _is_about_key(error: ErrorDetails) -> bool:
    """Whether a key of a free mapping is wrong, not its value: pydantic then adds `[key]` to the location."""
    loc = error["loc"]
    return loc[-1:] == ("[key]",) and loc[-3:-2] in _FREE_MAPPINGS and error["type"] != "extra_forbidden"


_FREE_MAPPINGS = tuple(
    (name,)
    for name in (
        "fleets",
        "environment",
        "secrets",
        "tags",
        "data",
        "mounts",
        "service_subnets",
        "public_subnets",
    )
)


def _unknown(key: Key, loc: tuple[int | str, ...]) -> tuple[Fault, str]:
    known = fields_at(loc[:-1])
    name = str(key[-1])
    near = meant_key(name, known)
    fix = f"write {near}" if near else "remove it, or use one of the keys allowed"
    finding = UNKNOWN_KEY.finding(
        cause=f"{dotted(key)}: there is no key of this name here", got=name, allowed=", ".join(known), fix=fix
    )
    return Fault(key, finding, at_key=True), near


def _missing(key: Key, tag: str) -> Fault:
    name = str(key[-1])
    if name == "ends_at" and tag.endswith("block>"):
        finding = BLOCK_NEEDS_END.finding(
            cause=f"{dotted(key[:-1])}: a block needs its end, so that nodes are drained before EC2 takes them",
            got="no ends_at",
            allowed="the end of the block, such as 2026-12-15T11:30Z",
            fix="add ends_at, as DescribeCapacityReservations shows the block's EndDate",
        )
        return Fault(key[:-1], finding)
    parent = dotted(key[:-1]) or "the file"
    finding = MISSING_KEY.finding(cause=f"{parent} lacks the key {name}", got="nothing", fix=f"add {name}")
    return Fault(key[:-1], finding, at_key=True)


def _value_fault(key: Key, error: ErrorDetails) -> Fault:
    kind = error["type"]
    if key == ("orchestrator",):
        return Fault(key, _orchestrator(error["input"]))
    if kind in FORMS_ERRORS:
        return Fault(key, _no_form(key, error["input"]))
    if kind == "string_pattern_mismatch":
        return Fault(key, _pattern(key, error), at_key=_is_about_key(error))
    return Fault(key, value_finding(dotted(key), error), at_key=_is_about_key(error))


FORMS_ERRORS = ("union_tag_not_found", "union_tag_invalid")


def _orchestrator(value: object) -> Finding:
    later = isinstance(value, str) and value in _PLANNED
    return ORCHESTRATOR.finding(
        cause="orchestrator: planned, not built yet"
        if later
        else "orchestrator: not one that this version builds",
        got=show(value),
        allowed="ec2, eks",
        fix=f"write orchestrator: ec2 or eks, or leave it out (planned: {', '.join(_PLANNED)})",
    )


def _no_form(key: Key, value: object) -> Finding:
    forms = FORMS[forms_key(key)]
    given = [form.key for form in forms if isinstance(value, dict) and form.key in value]
    if given:
        cause, fix = f"two forms at once: {' and '.join(given)}", "keep one of them"
    else:
        meant = [form.example for form in forms if form.key in _meant(value, forms)]
        cause, fix = (
            "none of the forms that this value can have",
            f"write {' or '.join(meant) or 'one of these forms'}",
        )
    allowed = " | ".join(form.example for form in forms)
    return ONE_FORM.finding(cause=f"{dotted(key)}: {cause}", got=show(value), allowed=allowed, fix=fix)


def _meant(value: object, forms: Iterable[Form]) -> set[str]:
    """Leading keys of the forms that a value looks like: by its id's prefix, or by a near word."""
    words = [word for word in (value if isinstance(value, dict) else [value]) if isinstance(word, str)]
    by_prefix = {form.key for form in forms for word in words if form.prefix and word.startswith(form.prefix)}
    names = [form.key for form in forms]
    return by_prefix or {
        near for word in words for near in get_close_matches(word.replace("-", "_"), names, n=1)
    }


def _pattern(key: Key, error: ErrorDetails) -> Finding:
    what, example, rule_id = PATTERNS[error["ctx"]["pattern"]]
    rule: Rule = _PATTERN_RULES.get(rule_id, WRONG_VALUE)
    value = str(error["input"])
    fix = f"write it like {example}"
    if rule is NAME:
        fix = f"write {usable_name(value)}"
    return rule.finding(
        cause=f"{dotted(key)}: not {what}", got=show(value), allowed=f"such as {example}", fix=fix
    )


_PATTERN_RULES = {"reservation": RESERVATION_ID, "group": RESERVATION_GROUP_ARN, "name": NAME}


def usable_name(text: str) -> str:
    """A name near `text` that can stand in a stack name."""
    kept = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in text.lower())
    kept = "-".join(part for part in kept.split("-") if part).lstrip("0123456789-")
    return kept[:40].strip("-") or "trainers"
