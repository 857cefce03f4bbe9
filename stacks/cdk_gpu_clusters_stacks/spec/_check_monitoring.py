"""What is wrong with `monitoring`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from cdk_gpu_clusters.rules.budget import check_budget, check_budget_of_nodes, check_recipient
from cdk_gpu_clusters.rules.fleet import check_emails

from ._check_values import check_arn
from ._document import Fault, faults_at
from ._parts import SpecParts
from .monitoring import BudgetSpec
from .planned_fleet import PlannedFleet

_BUDGET = ("monitoring", "budget")


def check_monitoring(parts: SpecParts, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find a budget that AWS refuses or that the nodes exceed, and recipients without an address."""
    budget = None if parts.monitoring is None else parts.monitoring.budget
    if budget is None:
        return []
    faults = _check_budget(budget, parts.region)
    if parts.region is not None:
        findings = check_budget_of_nodes(budget.usd_per_month, _usd_per_hour(fleets, parts.region))
        faults += faults_at((*_BUDGET, "usd_per_month"), [replace(one, path="") for one in findings])
    return faults


def _usd_per_hour(fleets: Sequence[PlannedFleet], region: str) -> Decimal:
    """What the least nodes cost at list price; without blocks, Spot nodes and prices that are unknown."""
    usd = Decimal()
    for fleet in fleets:
        if fleet.node_count is not None and not fleet.broken & {"capacity"} and not fleet.plan.terms.kind.is_block:
            hour = fleet.node_hour(region)
            usd += 0 if hour.low is None or hour.is_ceiling else hour.low * fleet.paid_nodes[0]
    return usd


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
