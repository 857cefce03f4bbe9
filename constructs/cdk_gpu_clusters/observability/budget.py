"""The budget of a cluster, and the topic that mails its notifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._cdk import ClusterConstruct, place_of, report, resolved_or_none, stack_of
from cdk_gpu_clusters.compute.alarms import AlarmTopic
from cdk_gpu_clusters.rules.budget import check_budget, check_recipient

if TYPE_CHECKING:
    from aws_cdk import aws_budgets as budgets
    from aws_cdk import aws_sns as sns

_CURRENCY = "USD"


class ClusterBudget(ClusterConstruct):
    """A budget of a month for all that carries the tag of a cluster. It notifies; it stops nothing.

    AWS Budgets counts only tags that are activated as cost allocation tags, which the payer account does once in
    Billing. A budget of a tag that is not activated stays at 0, and never notifies. AWS updates its data once a day at
    least, so that a notification comes hours after the costs.

    All notifications go to one topic. CloudFormation replaces a budget whose notifications change; addresses are
    subscriptions of the topic, so that another address does not replace it. Other thresholds or another topic do. The
    budget has no name of its own, so that the new one can be made beside the old one; AWS counts the month again from
    its bill, and nothing is lost.

    Sources: AWS Cost Management user guide, "Best practices for AWS Budgets" (age of the data), "Forecasting with Cost
    Explorer", and "Creating an Amazon SNS topic for budget notifications" (policy; the topic is in the account of the
    budget); AWS Billing user guide, "Using user-defined cost allocation tags"; CloudFormation registry schema of
    AWS::Budgets::Budget (createOnlyProperties) and template reference (a budget without a name gets one).

    Example:
        >>> budget = ClusterBudget(
        ...     stack, "Budget", cluster="llama-train", usd_per_month=50_000, emails=["finance@example.org"],
        ... )
        >>> budget.cfn_budget.budget.cost_filters
        {'TagKeyValue': ['user:gpu-cluster$llama-train']}

    Attributes:
        topic: The topic that it notifies.
        cfn_budget: The budget, as an escape hatch.
        budget_name: Its name, known at deployment.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: str,
        usd_per_month: float,
        emails: Sequence[str] = (),
        topic: sns.ITopic | None = None,
        actual_percent: Sequence[float] = (80, 100),
        forecast_percent: Sequence[float] = (100,),
        tag_key: str = "gpu-cluster",
    ) -> None:
        """Define the budget and, for addresses, the topic.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: Value of the tag: the name of a cluster that is made from a cluster file.
            usd_per_month: The budget in US dollars a calendar month (UTC).
            emails: Addresses of the recipients, instead of `topic`. Each confirms a mail with a link first.
            topic: Existing topic in the account of the budget, instead of `emails`. Its policy must let
                `budgets.amazonaws.com` publish; so must its key if it has one of its own.
            actual_percent: Percentages of the budget at which it notifies when they are spent. By default 80 and 100.
            forecast_percent: Percentages at which it notifies when they are forecast for the month. By default 100.
                AWS often has no forecast for an account before its first full month.
            tag_key: Key of the tag. By default that of clusters from a cluster file; put it on other resources with
                `Tags.of(app).add("gpu-cluster", name)`.

        Raises:
            ConfigError: GPU-BUD-001, GPU-BUD-002, GPU-BUD-003, GPU-BUD-004, GPU-ALM-002.
        """
        from aws_cdk import aws_budgets as budgets  # takes long to load

        super().__init__(scope, construct_id)
        partition, region, account = place_of(stack_of(scope))
        report(
            self,
            [
                *check_budget(
                    usd_per_month,
                    actual_percent=actual_percent,
                    forecast_percent=forecast_percent,
                    region=resolved_or_none(region),
                ),
                *check_recipient(has_emails=bool(emails), has_topic=topic is not None),
            ],
        )
        policy = None
        if topic is None:
            own = AlarmTopic(self, "Topic", emails=emails).topic
            own.add_to_resource_policy(_publishes(own.topic_arn, partition, account))
            topic, policy = own, own.node.find_child("Policy")
        self.topic: sns.ITopic = topic
        self.cfn_budget: budgets.CfnBudget = budgets.CfnBudget(
            self,
            "Resource",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=usd_per_month, unit=_CURRENCY),
                # As AWS writes a tag that a user defined, with its value.
                cost_filters={"TagKeyValue": [f"user:{tag_key}${cluster}"]},
            ),
            notifications_with_subscribers=[
                _notification(kind, percent, topic.topic_arn)
                for kind, percents in (("ACTUAL", actual_percent), ("FORECASTED", forecast_percent))
                for percent in percents
            ],
        )
        if policy is not None:  # the budget may notify as soon as it is made
            self.cfn_budget.node.add_dependency(policy)
        # Its name: CloudFormation template reference, AWS::Budgets::Budget, "Return values".
        self.budget_name: str = self.cfn_budget.ref


def _notification(kind: str, percent: float, topic_arn: str) -> budgets.CfnBudget.NotificationWithSubscribersProperty:
    from aws_cdk import aws_budgets as budgets  # takes long to load

    return budgets.CfnBudget.NotificationWithSubscribersProperty(
        notification=budgets.CfnBudget.NotificationProperty(
            comparison_operator="GREATER_THAN",
            notification_type=kind,
            threshold=percent,
            threshold_type="PERCENTAGE",
        ),
        subscribers=[budgets.CfnBudget.SubscriberProperty(subscription_type="SNS", address=topic_arn)],
    )


def _publishes(topic_arn: str, partition: str, account: str) -> iam.PolicyStatement:
    """What lets the budgets of this account publish to the topic."""
    return iam.PolicyStatement(
        sid="BudgetsOfThisAccount",
        principals=[iam.ServicePrincipal("budgets.amazonaws.com")],
        actions=["sns:Publish"],
        resources=[topic_arn],
        conditions={
            "ArnLike": {"aws:SourceArn": f"arn:{partition}:budgets::{account}:*"},
            "StringEquals": {"aws:SourceAccount": account},
        },
    )
