"""A diagnosis as lines for a person, and as plain values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from cdk_gpu_clusters_stacks.preflight.unread import format_unread

from .diagnosis import Diagnosis, Drift

_LONGEST = 160


def format_diagnosis(found: Diagnosis) -> Iterator[str]:
    """Write every drift below what it is about, rules that the plan breaks, and what could not be read."""
    account = f"account {found.account}" if found.account else "an unknown account"
    number = len(found.drifts)
    counted = "1 drift" if number == 1 else f"{number or 'no'} drifts"
    yield f"{found.cluster} in {found.region}, {account}: {counted}, {_compared(found)} compared"
    by_subject: dict[str, list[Drift]] = {}
    for drift in found.drifts:
        by_subject.setdefault(drift.about, []).append(drift)
    for about, drifts in by_subject.items():
        yield ""
        yield about
        for drift in drifts:
            yield from _lines(drift)
    yield from _faults(found)
    yield from _unknown(found)
    yield from format_unread(found.unread, found.absent)


def _compared(found: Diagnosis) -> str:
    nodes = f" and {found.nodes} {'node' if found.nodes == 1 else 'nodes'}" if found.nodes else ""
    return f"{found.compared} resources{nodes}"


def _lines(drift: Drift) -> Iterator[str]:
    yield f"  {drift.type} {_shortened(drift.physical_id)}"
    if drift.is_gone:
        yield "    does not exist"
    else:
        yield f"    {'.'.join(drift.path)}: {shown(drift.live, drift)}, planned {shown(drift.planned, drift)}"
    yield f"    breaks: {drift.breaks}"
    yield f"    fix: {drift.fix}"
    for rule, message in drift.rules:
        yield f"    rule: {rule} {message}"


def shown(value: Any, drift: Drift) -> str:
    """A value in one line; of user data, only its size."""
    if value is None:
        return "nothing"
    value = _plain(value, drift)
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return _shortened(text)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _faults(found: Diagnosis) -> Iterator[str]:
    if found.faults:
        yield ""
        yield "rules that the deployed plan breaks"
        for stack, resource, rule, message in found.faults:
            yield f"  {stack} {resource}: {rule} {message}"


def _unknown(found: Diagnosis) -> Iterator[str]:
    if found.unknown:
        yield ""
        yield "not compared, since only CloudFormation knows the planned value"
        yield from (f"  {one}" for one in found.unknown)


def as_json(found: Diagnosis) -> dict[str, Any]:
    """The same as plain values."""
    return {
        "cluster": found.cluster,
        "region": found.region,
        "account": found.account,
        "compared": found.compared,
        "nodes": found.nodes,
        "drifts": [
            {
                "about": one.about,
                "stack": one.stack,
                "resource": one.logical_id,
                "type": one.type,
                "physical_id": one.physical_id,
                "property": ".".join(one.path),
                "exists": not one.is_gone,
                "planned": _plain(one.planned, one),
                "live": _plain(one.live, one),
                "breaks": one.breaks,
                "fix": one.fix,
                "rules": [{"id": rule, "message": message} for rule, message in one.rules],
            }
            for one in found.drifts
        ],
        "faults": [
            {"stack": stack, "resource": resource, "rule": rule, "message": message}
            for stack, resource, rule, message in found.faults
        ],
        "unread": [asdict(one) for one in found.unread],
        "unknown": found.unknown,
        "absent": found.absent,
    }


def _plain(value: Any, drift: Drift) -> Any:
    """A value as plain JSON; of user data, only a digest: it is long, and can have what should not be printed."""
    if value is not None and drift.path and drift.path[-1] == "UserData":
        return f"sha256:{hashlib.sha256(str(value).encode()).hexdigest()[:12]}"
    return json.loads(json.dumps(value, default=str))
