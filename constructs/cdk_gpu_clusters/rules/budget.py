"""What a budget of a cluster may be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal

from cdk_gpu_clusters.catalogue.regions import partition_of
from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule
from cdk_gpu_clusters.rules.capacity import CapacityTerms
from cdk_gpu_clusters.rules.cost import HOURS_PER_MONTH

BUDGET_AMOUNT = define_rule(
    "GPU-BUD-001",
    "a budget is an amount above 0 US dollars a month",
    source="AWS Budgets API reference, Spend: an amount is digits with at most one point, without a sign",
)
BUDGET_THRESHOLDS = define_rule(
    "GPU-BUD-002",
    "a budget notifies at 1 to 10 thresholds, each a percentage from 0.1 and given once",
    source="botocore 1.43, service model of budgets: NotificationWithSubscribersList has at most 10 items; "
    "CloudFormation registry schema of AWS::Budgets::Budget: Threshold is 0.1 to 1,000,000,000",
)
BUDGET_REGION = define_rule(
    "GPU-BUD-003",
    "the stack of a budget is in a Region in which CloudFormation makes budgets",
    source="CloudFormation registry schemas by Region (cfn-lint 1.58.0)",
)
BUDGET_RECIPIENT = define_rule(
    "GPU-BUD-004",
    "a budget or an anomaly monitor notifies e-mail addresses or one existing topic",
    source="AWS Budgets API reference, Notification: one SNS subscriber",
)
BRAKE_CAPACITY = define_rule(
    "GPU-BUD-005",
    "a brake stops no fleet whose capacity is paid for whether nodes use it or not",
    source='EC2 user guide, "Capacity Blocks pricing and billing" (paid in advance) and "Capacity Reservation pricing '
    'and billing" (billed whether used or not)',
)
BRAKE_FLEETS = define_rule(
    "GPU-BUD-006",
    "a brake stops fleets of this app on plain EC2, each given once",
    source="EC2 Auto Scaling API reference, UpdateAutoScalingGroup: a group with MaxSize 0 has no nodes",
)
BRAKE_PERCENT = define_rule(
    "GPU-BUD-007",
    "a brake has a percentage of the budget above 0",
    source="design: at 0 percent it would stop the fleets at once",
)
BUDGET_BELOW_NODES = define_rule(
    "GPU-BUD-008",
    "a budget is above what the nodes that always run cost in a month",
    source="list prices of the catalogue, 730 hours a month",
)
ANOMALY_REGION = define_rule(
    "GPU-BUD-009",
    "the stack of an anomaly monitor is in a Region in which CloudFormation makes them",
    source="CloudFormation registry schemas by Region (cfn-lint 1.58.0)",
)
ANOMALY_IMPACT = define_rule(
    "GPU-BUD-010",
    "an anomaly is notified from 0 to 10,000,000,000 US dollars, and from as many percent",
    source="botocore 1.43, service model of ce, AnomalySubscription: values of ThresholdExpression",
)

_MOST_THRESHOLDS = 10
_MOST_IMPACT = 10_000_000_000
_THRESHOLD_RANGE = (0.1, 1_000_000_000)
#: Regions of the catalogue of cfn-lint without `AWS::Budgets::Budget`.
WITHOUT_BUDGETS = frozenset(
    {
        "af-south-1",
        "ap-east-1",
        "ap-east-2",
        "ap-northeast-3",
        "ap-south-2",
        "ap-southeast-3",
        "ap-southeast-4",
        "ap-southeast-5",
        "ap-southeast-6",
        "ap-southeast-7",
        "ca-west-1",
        "eu-central-2",
        "eu-north-1",
        "eu-south-1",
        "eu-south-2",
        "il-central-1",
        "me-central-1",
        "mx-central-1",
        "us-gov-east-1",
        "us-gov-west-1",
    }
)

#: Regions of the catalogue of cfn-lint without `AWS::CE::AnomalyMonitor`.
WITHOUT_ANOMALIES = frozenset(
    {
        "ap-east-2",
        "ap-southeast-5",
        "ap-southeast-6",
        "ap-southeast-7",
        "mx-central-1",
        "us-gov-east-1",
        "us-gov-west-1",
    }
)


@check
def check_budget(
    usd_per_month: float, *, actual_percent: Sequence[float], forecast_percent: Sequence[float], region: str | None
) -> Iterator[Finding]:
    """Find an amount, thresholds or a Region that AWS refuses.

    Args:
        usd_per_month: The budget.
        actual_percent: Thresholds of what was spent.
        forecast_percent: Thresholds of what is forecast for the month.
        region: Region of the stack; None if it is not known yet.

    Example:
        >>> check_budget(50_000, actual_percent=[80, 100], forecast_percent=[100], region="us-east-1")
        []
    """
    if not (math.isfinite(usd_per_month) and usd_per_month > 0):
        yield BUDGET_AMOUNT.finding(
            cause="the budget is no amount",
            got=str(usd_per_month),
            allowed="an amount above 0",
            fix="give the US dollars of a month",
            path="usd_per_month",
        )
    number = len(actual_percent) + len(forecast_percent)
    if not 1 <= number <= _MOST_THRESHOLDS:
        yield BUDGET_THRESHOLDS.finding(
            cause="AWS Budgets takes another number of thresholds",
            got=str(number),
            allowed=f"1 to {_MOST_THRESHOLDS} in all",
            fix="add a threshold" if not number else f"remove {number - _MOST_THRESHOLDS}",
            path="actual_percent",
        )
    yield from _wrong_thresholds("actual_percent", actual_percent)
    yield from _wrong_thresholds("forecast_percent", forecast_percent)
    if region in WITHOUT_BUDGETS:
        is_commercial = partition_of(region) == "aws"
        yield BUDGET_REGION.finding(
            cause="CloudFormation makes no budgets in this Region",
            got=region,
            allowed="a Region with AWS::Budgets::Budget",
            fix="put the budget into a stack in us-east-1: it counts the costs of all Regions"
            if is_commercial
            else "make the budget in the account that is billed for this one",
            path="region",
        )


@check
def check_budget_of_nodes(usd_per_month: float, usd_per_hour: Decimal) -> Iterator[Finding]:
    """Find a budget that the nodes alone exceed, so that it notifies in each month.

    Args:
        usd_per_month: The budget.
        usd_per_hour: List price of the nodes that always run, without those that are paid before use.

    Example:
        >>> [finding.got for finding in check_budget_of_nodes(5_000, Decimal("55.04"))]
        ['5,000 USD']
    """
    least = usd_per_hour * HOURS_PER_MONTH
    if 0 < usd_per_month < least:
        yield BUDGET_BELOW_NODES.finding(
            cause="the nodes that always run cost more at list price",
            got=f"{usd_per_month:,.0f} USD",
            allowed=f"{least:,.0f} USD a month for these nodes, and more for the rest",
            fix="raise the budget, or lower the least number of nodes",
            path="usd_per_month",
            severity=Severity.WARNING,
        )


def _wrong_thresholds(name: str, percents: Sequence[float]) -> Iterator[Finding]:
    low, high = _THRESHOLD_RANGE
    for index, percent in enumerate(percents):
        is_again = percent in percents[:index]
        if is_again or not low <= percent <= high:
            yield BUDGET_THRESHOLDS.finding(
                cause="the threshold is listed twice" if is_again else "the threshold is out of range",
                got=str(percent),
                allowed=f"{low} to {high:,} percent, each once",
                fix="remove one of the two" if is_again else "correct the threshold",
                path=f"{name}[{index}]",
            )


@check
def check_recipient(*, has_emails: bool, has_topic: bool, what: str = "budget") -> Iterator[Finding]:
    """Find a budget that notifies no one, or in two ways.

    Args:
        has_emails: Whether it has addresses.
        has_topic: Whether it has a topic.
        what: What notifies.
    """
    if has_emails == has_topic:
        yield BUDGET_RECIPIENT.finding(
            cause=f"the {what} has both" if has_emails else f"the {what} notifies no one",
            got="emails and topic" if has_emails else "neither emails nor topic",
            allowed="one of the two",
            fix="subscribe the addresses to the topic, and remove emails" if has_emails else "give emails or topic",
            path="emails",
        )


@check
def check_brake(fleets: Sequence[tuple[str, CapacityTerms | None]], *, percent: float) -> Iterator[Finding]:
    """Find fleets that a brake must not stop, or cannot.

    Args:
        fleets: Names of the fleets, each with its capacity; None for nodes that are not on plain EC2.
        percent: Percentage of the budget at which they are stopped.

    Example:
        >>> from cdk_gpu_clusters.rules.capacity import CapacityKind
        >>> check_brake([("trainers", CapacityTerms(kind=CapacityKind.SPOT))], percent=100)
        []
    """
    if not (math.isfinite(percent) and percent > 0):
        yield BRAKE_PERCENT.finding(
            cause="the brake has no percentage",
            got=str(percent),
            allowed="a number above 0",
            fix="give 100 to stop the fleets when the budget is spent",
            path="percent",
        )
    if not fleets:
        yield BRAKE_FLEETS.finding(
            cause="the brake stops no fleet",
            got="0 fleets",
            allowed="a fleet at least",
            fix="give the fleets that it stops",
            path="fleets",
        )
    for index, (name, terms) in enumerate(fleets):
        yield from _wrong_fleet(name, terms, path=f"fleets[{index}]", again=name in [one for one, _ in fleets[:index]])


def _wrong_fleet(name: str, terms: CapacityTerms | None, *, path: str, again: bool) -> Iterator[Finding]:
    if terms is None or again:
        yield BRAKE_FLEETS.finding(
            cause="the fleet is given twice" if again else "the brake cannot stop these nodes",
            got=name,
            allowed="fleets of this app on plain EC2, each once",
            fix="remove one of the two" if again else "remove it: scale it down where its nodes are scaled",
            path=path,
        )
    elif terms.kind.is_reserved or terms.segment or terms.uses_open_reservations:
        yield BRAKE_CAPACITY.finding(
            cause="what the fleet runs on is paid for whether its nodes run or not"
            if terms.kind.is_reserved
            else "the fleet may run on a reservation that is paid for whether its nodes run or not",
            got=f"{name}: {'open reservations' if terms.uses_open_reservations else terms.kind.value}",
            allowed="on-demand without open reservations, spot",
            fix="remove the fleet from the brake: stopping it would save nothing",
            path=path,
        )


@check
def check_anomalies(least_usd: float, least_percent: float | None, *, region: str | None) -> Iterator[Finding]:
    """Find an impact or a Region that AWS refuses.

    Args:
        least_usd: Least impact of an anomaly that is notified, in US dollars.
        least_percent: Least impact in percent of what was expected; None for any.
        region: Region of the stack; None if it is not known yet.

    Example:
        >>> check_anomalies(100, None, region="us-east-1")
        []
    """
    for name, value in (("least_usd", least_usd), ("least_percent", least_percent)):
        if value is not None and not 0 <= value <= _MOST_IMPACT:
            yield ANOMALY_IMPACT.finding(
                cause="the least impact is out of range",
                got=str(value),
                allowed=f"0 to {_MOST_IMPACT:,}",
                fix="correct it",
                path=name,
            )
    if region in WITHOUT_ANOMALIES:
        yield ANOMALY_REGION.finding(
            cause="CloudFormation makes no anomaly monitors in this Region",
            got=region,
            allowed="a Region with AWS::CE::AnomalyMonitor",
            fix="put it into a stack in us-east-1: it sees the costs of all Regions"
            if partition_of(region) == "aws"
            else "make it in the account that is billed for this one",
            path="region",
        )
