"""`monitoring`: a dashboard and a budget of the cluster. Alarms are keys of each fleet."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ._base import AsTuple, SpecModel, Text
from .changes import Resource, makes, replaces, updates
from .fleet import TopicArn

_Percents = tuple[float, ...]


class BudgetSpec(SpecModel):
    """The budget of the cluster; what is left out is as the library has it."""

    usd_per_month: Annotated[float, updates(Resource.BUDGET)] = Field(
        description="The budget in US dollars a calendar month (UTC).", examples=[50_000]
    )
    emails: Annotated[
        tuple[Text, ...],
        AsTuple,
        updates(Resource.BUDGET_ADDRESSES),
        makes(Resource.BUDGET_TOPIC),
        replaces(Resource.BUDGET),
    ] = Field(
        default=(), description="Addresses that are notified, instead of `topic_arn`. Each confirms a mail first."
    )
    topic_arn: Annotated[TopicArn | None, replaces(Resource.BUDGET)] = Field(
        default=None,
        description="Existing SNS topic that is notified, instead of `emails`. Its policy must let "
        "budgets.amazonaws.com publish, and its key, if it has one of its own.",
    )
    actual_percent: Annotated[_Percents, AsTuple, replaces(Resource.BUDGET)] = Field(
        default=(80.0, 100.0), description="Percentages of the budget at which it notifies when they are spent."
    )
    forecast_percent: Annotated[_Percents, AsTuple, replaces(Resource.BUDGET)] = Field(
        default=(100.0,), description="Percentages at which it notifies when they are forecast for the month."
    )


class MonitoringSpec(SpecModel):
    """What monitors the cluster beside the alarms of its fleets; nothing by default."""

    dashboard: Annotated[bool, makes(Resource.DASHBOARD)] = Field(
        default=False, description="Whether a dashboard in Amazon CloudWatch shows fleets and file systems."
    )
    budget: Annotated[BudgetSpec | None, makes(Resource.BUDGET, Resource.BUDGET_TOPIC)] = Field(
        default=None,
        description="A budget for all that carries the tag `gpu-cluster` of this cluster, and who is notified. "
        "Default: none.",
    )

    @property
    def notifies_own_topic(self) -> bool:
        """Whether the budget notifies a topic that is made for its addresses."""
        return self.budget is not None and bool(self.budget.emails)

    @property
    def has_stack(self) -> bool:
        """Whether a stack is made for it."""
        return self.dashboard or self.budget is not None
