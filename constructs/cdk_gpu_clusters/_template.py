"""Resources as a template has them, made by plain functions, and the logical ids that CDK would give them.

A resource is named by its path below the construct it belongs to, such as `Role/Resource`. `ref` and `att` write
references to it into any text or value. They look like tokens of CDK, so that the rules skip them like any value that
is known at deployment only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

Resource = dict[str, Any]
Resources = dict[str, Resource]

# How CDK writes a token into a text (aws-cdk-lib 2.275, core/lib/private/encoding).
_TOKEN = re.compile(r"(\$\{Token\[[^\]]+]})")
_LOCAL = "${Token[Local."
_REFERENCE = re.compile(r"\$\{Token\[Local\.([A-Za-z0-9.]+)(?::([A-Za-z]+))?]}")
_LONGEST_READABLE = 240
_NOT_ALPHANUMERIC = re.compile(r"[^A-Za-z0-9]")


def ref(path: str) -> str:
    """`Ref` of a resource of the same construct, alone or within a text."""
    return f"{_LOCAL}{path.replace('/', '.')}]}}"


def att(path: str, name: str) -> str:
    """An attribute of a resource of the same construct, alone or within a text."""
    return f"{_LOCAL}{path.replace('/', '.')}:{name}]}}"


def allow(resource: Any, *actions: str) -> dict[str, Any]:
    """A statement of a policy that allows actions on a resource, or on a list of them."""
    return {"Effect": "Allow", "Action": list(actions), "Resource": resource}


def managed_policy(role: Any, statements: Sequence[Mapping[str, Any]]) -> Resource:
    """A policy of its own that a role has: the packs of NIST, HIPAA and PCI accept no inline ones.

    Args:
        role: Name of the role, or a reference to it.
        statements: What it may do.
    """
    properties = {"PolicyDocument": _document(statements), "Roles": [role]}
    return {"Type": "AWS::IAM::ManagedPolicy", "Properties": properties}


def service_role(service: str | Sequence[str], **more: Any) -> Resource:
    """A role that services of AWS work by.

    Args:
        service: One or several, such as `lambda.amazonaws.com`.
        more: What else the statement has, such as `Condition`.
    """
    services = service if isinstance(service, str) else list(service)
    statement = {"Effect": "Allow", "Principal": {"Service": services}, "Action": "sts:AssumeRole", **more}
    return {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": _document([statement])}}


def _document(statements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": [dict(one) for one in statements]}


def logical_id(path: str) -> str:
    """The logical id that CDK gives a resource (core/lib/private/uniqueid).

    Args:
        path: Its path below the stack.
    """
    parts = [part for part in path.split("/") if part != "Default"]
    if len(parts) == 1:
        return _NOT_ALPHANUMERIC.sub("", parts[0])
    digest = hashlib.md5("/".join(parts).encode(), usedforsecurity=False).hexdigest()[:8].upper()
    return _readable(parts) + digest


def _readable(parts: Sequence[str]) -> str:
    kept: list[str] = []
    for part in parts:
        if not kept or not kept[-1].endswith(part):
            kept.append(part)
    words = (_NOT_ALPHANUMERIC.sub("", part) for part in kept if part != "Resource")
    return "".join(words)[:_LONGEST_READABLE]


def logical_ids(resources: Mapping[str, Resource], prefix: str) -> dict[str, str]:
    """The logical ids of resources, by their paths.

    Args:
        resources: By path below their construct.
        prefix: Path of the construct below its stack.
    """
    return {path: logical_id(f"{prefix}/{path}" if prefix else path) for path in resources}


def with_ids(resources: Mapping[str, Resource], ids: Mapping[str, str]) -> Resources:
    """The resources by logical id, with the references among them written out and values that are None left out.

    Args:
        resources: By path below their construct; `DependsOn` names paths, too.
        ids: Their logical ids, by path.
    """
    written = {}
    for path, resource in resources.items():
        one = _value(resource, ids)
        if "DependsOn" in resource:
            one["DependsOn"] = [ids[other] for other in resource["DependsOn"]]
        written[ids[path]] = one
    return written


def _value(value: Any, ids: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _text(value, ids) if _LOCAL in value else value
    if isinstance(value, dict):
        return {key: _value(one, ids) for key, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        return [_value(one, ids) for one in value]
    return value


def _text(text: str, ids: Mapping[str, str]) -> Any:
    # Other tokens stand alone in the list of parts, as CDK puts them.
    parts = [_part(part, ids) for part in _TOKEN.split(text) if part]
    return parts[0] if len(parts) == 1 else {"Fn::Join": ["", parts]}


def _part(part: str, ids: Mapping[str, str]) -> Any:
    match = _REFERENCE.fullmatch(part)
    if match is None:
        return part
    target = ids[match[1].replace(".", "/")]
    return {"Fn::GetAtt": [target, match[2]]} if match[2] else {"Ref": target}


def with_names(text: str, ids: Mapping[str, str]) -> str:
    """A text with its references as cdk-nag writes them, such as `<Group>` or `<Role.Arn>`.

    Args:
        text: Such as an ARN.
        ids: Logical ids by path.
    """

    def name(match: re.Match[str]) -> str:
        target = ids[match[1].replace(".", "/")]
        return f"<{target}.{match[2]}>" if match[2] else f"<{target}>"

    return _REFERENCE.sub(name, text)
