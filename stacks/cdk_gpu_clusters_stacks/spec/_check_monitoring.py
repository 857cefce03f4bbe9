"""What is wrong with `monitoring`."""

from __future__ import annotations

from dataclasses import replace

from cdk_gpu_clusters.rules.budget import check_budget, check_recipient
from cdk_gpu_clusters.rules.fleet import check_emails

from ._check_values import check_arn
from ._document import Fault, faults_at
from ._parts import SpecParts
from .monitoring import BudgetSpec

_BUDGET = ("monitoring", "budget")


def check_monitoring(parts: SpecParts) -> list[Fault]:
    """Find a budget that AWS refuses, and recipients without an address."""
    budget = None if parts.monitoring is None else parts.monitoring.budget
    return [] if budget is None else _check_budget(budget, parts.region)


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
