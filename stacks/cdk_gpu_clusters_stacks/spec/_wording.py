"""Words for a value that is wrong by itself: what was given, what is allowed, what to do."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from pydantic_core import ErrorDetails

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.rules.capacity import TIME_ZONE

from ._rules import WRONG_TYPE, WRONG_VALUE

_TYPES = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
    "tuple_type": "a list",
    "path_type": "the path of a file",
    "enum": "",
}
_LIMITS = {
    "greater_than_equal": ("ge", "at least"),
    "less_than_equal": ("le", "at most"),
    "greater_than": ("gt", "above"),
}
_BOOLEANS = {"yes": "true", "on": "true", "no": "false", "off": "false", "true": "true", "false": "false"}


def _wrong_type(where: str, error: ErrorDetails) -> Finding:
    wanted = _TYPES[error["type"]]
    value = error["input"]
    fix = f"write {wanted}"
    if wanted == "text" and isinstance(value, bool | int | float):
        fix = f'put it in quotes: "{show(value)}"'
    elif wanted == "true or false" and str(value).lower() in _BOOLEANS:
        fix = f"write {_BOOLEANS[str(value).lower()]}"
    elif isinstance(value, str) and wanted in ("a whole number", "a number", "true or false"):
        fix = f"write {wanted}, without quotes"
    elif wanted == "a list" and isinstance(value, str):
        fix = f"write [{value}]"
    return WRONG_TYPE.finding(
        cause=f"{where}: not {wanted}", got=f"{show(value)} ({_kind(value)})", allowed=wanted, fix=fix
    )


def _limit(where: str, error: ErrorDetails) -> Finding:
    name, word = _LIMITS[error["type"]]
    bound = error["ctx"][name]
    return WRONG_VALUE.finding(
        cause=f"{where}: out of range",
        got=show(error["input"]),
        allowed=f"{word} {bound}",
        fix=f"give {word} {bound}",
    )


def _choice(where: str, error: ErrorDetails) -> Finding:
    allowed = [part.strip().strip("'") for part in error["ctx"]["expected"].replace(" or ", ", ").split(",")]
    value = error["input"]
    word = value.replace("_", "-").lower() if isinstance(value, str) else ""
    near = get_close_matches(word, allowed, n=1)
    fix = f"write {near[0] if near else ' or '.join(allowed)}"
    return WRONG_VALUE.finding(
        cause=f"{where}: not a value of this key", got=show(value), allowed=", ".join(allowed), fix=fix
    )


def _time(where: str, error: ErrorDetails) -> Finding:
    return TIME_ZONE.finding(
        cause=f"{where}: {error['msg']}",
        got=show(error["input"]),
        allowed="a date and a time to the minute with its time zone, such as 2026-12-15T11:30Z",
        fix="write it like 2026-12-15T11:30Z; Z is UTC",
    )


def _cidr(where: str, error: ErrorDetails) -> Finding:
    meant = error.get("ctx", {}).get("meant")
    return WRONG_VALUE.finding(
        cause=f"{where}: {'host bits are set in this range' if meant else error['msg']}",
        got=show(error["input"]),
        allowed="an IPv4 range such as 10.0.0.0/16",
        fix=f"write {meant}" if meant else "write an address, a slash and a prefix length",
    )


def _client(where: str, error: ErrorDetails) -> Finding:
    return WRONG_VALUE.finding(
        cause=f"{where}: {error['msg']}",
        got=show(error["input"]),
        allowed="an IPv4 range such as 10.0.0.0/16, or the id of a security group such as sg-0123456789abcdef0",
        fix="write one of them",
    )


def _mig(where: str, error: ErrorDetails) -> Finding:
    return WRONG_TYPE.finding(
        cause=f"{where}: {error['msg']}",
        got=show(error["input"]),
        allowed="profiles separated by commas, such as 3g.20gb,4g.20gb; or a list of such texts, one for each GPU",
        fix="write profiles by name or id",
    )


def _empty(where: str, error: ErrorDetails) -> Finding:
    return WRONG_VALUE.finding(
        cause=f"{where}: empty",
        got=show(error["input"]),
        allowed="at least one",
        fix="add one, or remove the key",
    )


def _other(where: str, error: ErrorDetails) -> Finding:
    message = error["msg"][:1].lower() + error["msg"][1:]
    return WRONG_VALUE.finding(cause=f"{where}: {message}", got=show(error["input"]), fix="correct the value")


_MAKERS: dict[str, Callable[[str, ErrorDetails], Finding]] = {
    "greater_than_equal": _limit,
    "less_than_equal": _limit,
    "greater_than": _limit,
    "literal_error": _choice,
    "enum": _choice,
    "utc_time": _time,
    "client": _client,
    "mig": _mig,
    "cidr": _cidr,
    "cidr_host_bits": _cidr,
    "string_too_short": _empty,
    "too_short": _empty,
}


def value_finding(where: str, error: ErrorDetails) -> Finding:
    """Say what is wrong with a value.

    Args:
        where: Dotted name of its key.
        error: What pydantic found.
    """
    kind = error["type"]
    return _MAKERS.get(kind, _wrong_type if kind in _TYPES else _other)(where, error)


def show(value: Any) -> str:
    """A value of the file, short, as YAML would have it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        text = "{" + ", ".join(f"{key}: {show(item)}" for key, item in list(value.items())[:4]) + "}"
    elif isinstance(value, list | tuple):
        text = "[" + ", ".join(show(item) for item in value[:4]) + "]"
    else:
        text = str(value) if str(value).isprintable() and str(value) else repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _kind(value: object) -> str:
    names: dict[type, str] = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        dict: "a mapping",
    }
    return "empty" if value is None else names.get(type(value), "a list")
