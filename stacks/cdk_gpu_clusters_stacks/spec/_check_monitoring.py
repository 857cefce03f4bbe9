"""What is wrong with `monitoring`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from cdk_gpu_clusters.fleet.profile import GroupKind
from cdk_gpu_clusters.rules.budget import BRAKE_FLEETS, check_brake, check_budget, check_recipient
from cdk_gpu_clusters.rules.fleet import check_emails

from ._check_values import check_arn
from ._document import Fault, faults_at
from ._parts import SpecParts
from .monitoring import BrakeSpec, BudgetSpec
from .planned_fleet import PlannedFleet

_BUDGET = ("monitoring", "budget")
_BRAKE = (*_BUDGET, "brake")


def check_monitoring(parts: SpecParts, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find a budget that AWS refuses, recipients without an address, and fleets that a brake must not stop."""
    budget = None if parts.monitoring is None else parts.monitoring.budget
    if budget is None:
        return []
    faults = _check_budget(budget, parts.region)
    return faults if budget.brake is None else [*faults, *_check_brake(budget.brake, parts, fleets)]


def _check_brake(brake: BrakeSpec, parts: SpecParts, fleets: Sequence[PlannedFleet]) -> Iterator[Fault]:
    planned = {one.name: one for one in fleets}
    names = [one.name for one in parts.fleets]
    # What is wrong with a fleet itself is found there.
    known = [one for one in planned.values() if "capacity" not in one.broken]
    terms = {one.name: one.plan.terms if one.profile.group is GroupKind.AUTO_SCALING_GROUP else None for one in known}
    judged = [(index, name) for index, name in enumerate(brake.fleets) if name in terms]
    findings = check_brake([(name, terms[name]) for _, name in judged], percent=brake.percent)
    for finding in findings:
        name, _, place = finding.path.rstrip("]").partition("[")
        if place:
            yield from faults_at((*_BRAKE, name, judged[int(place)][0]), [replace(finding, path="")])
        elif name == "percent" or not brake.fleets:
            yield from faults_at((*_BRAKE, name), [replace(finding, path="")])
    for index, name in enumerate(brake.fleets):
        if names and name not in names:
            unknown = BRAKE_FLEETS.finding(
                cause="no fleet has this name", got=name, allowed=", ".join(names), fix="name a fleet of the file"
            )
            yield from faults_at((*_BRAKE, "fleets", index), [unknown])


def _check_budget(budget: BudgetSpec, region: str | None) -> list[Fault]:
    findings = [
        *check_budget(
            budget.usd_per_month,
            actual_percent=budget.actual_percent,
            forecast_percent=budget.forecast_percent,
            region=region,
        ),
        *check_recipient(has_emails=bool(budget.emails), has_topic=budget.topic_arn is not None),
        *(check_emails(budget.emails) if budget.emails else ()),
    ]
    faults: list[Fault] = []
    for finding in findings:
        if finding.path == "region":
            faults += faults_at(
                _BUDGET, [replace(finding, fix=f"remove monitoring.budget, and {finding.fix}", path="")]
            )
            continue
        name, _, index = finding.path.rstrip("]").partition("[")
        faults += faults_at((*_BUDGET, name, *([int(index)] if index else [])), [replace(finding, path="")])
    if budget.topic_arn is not None and region is not None:
        faults += check_arn((*_BUDGET, "topic_arn"), budget.topic_arn, region, "topic")
    return faults
