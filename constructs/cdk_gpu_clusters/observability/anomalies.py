"""The anomaly monitor of a cluster: it notifies when the cluster costs more than its past lets expect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._cdk import ClusterConstruct, place_of, report, resolved_or_none, stack_of
from cdk_gpu_clusters.compute.alarms import AlarmTopic
from cdk_gpu_clusters.rules.budget import check_anomalies, check_recipient

if TYPE_CHECKING:
    from aws_cdk import aws_ce as ce
    from aws_cdk import aws_sns as sns


class CostAnomalyMonitor(ClusterConstruct):
    """A monitor of AWS Cost Anomaly Detection for all that carries the tag of a cluster, and who is notified.

    Makes a customer managed monitor of the tag, and a subscription that notifies a topic at once.

    AWS makes monitors of tags only in the management account: put it into an app of that account. The tag must be
    activated as a cost allocation tag, as for `ClusterBudget`.

    It sees costs up to a day late. A cluster that starts and stops is irregular by nature: a `ClusterBudget` bounds its
    costs, and this notifies of what was not meant.

    CloudFormation replaces the monitor when `cluster`, `tag_key` or its tags change. AWS then learns the usual again.

    Sources: AWS Cost Management user guide, "Getting started with AWS Cost Anomaly Detection" (accounts), "Detecting
    unusual spend with AWS Cost Anomaly Detection" (delay) and "Creating an Amazon SNS topic for anomaly notifications"
    (policy); botocore 1.43, service model of ce, AnomalyMonitor (expression of a tag) and AnomalySubscription (SNS only
    with IMMEDIATE, expression of the threshold); CloudFormation registry schemas.

    Example:
        >>> from cdk_gpu_clusters import CostAnomalyMonitor
        >>> monitor = CostAnomalyMonitor(stack, "Anomalies", cluster="llama-train", emails=["finance@example.org"])
        >>> monitor.cfn_monitor.monitor_specification
        '{"Tags":{"Key":"gpu-cluster","Values":["llama-train"]}}'

    Attributes:
        topic: The topic that it notifies.
        cfn_monitor: The monitor, as an escape hatch.
        cfn_subscription: The subscription, as an escape hatch.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: str,
        emails: Sequence[str] = (),
        topic: sns.ITopic | None = None,
        least_usd: float = 100,
        least_percent: float | None = None,
        tag_key: str = "gpu-cluster",
    ) -> None:
        """Define the monitor, its subscription and, for addresses, the topic.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            cluster: Value of the tag: the name of a cluster that is made from a cluster file.
            emails: Addresses of the recipients, instead of `topic`. Each confirms a mail with a link first.
            topic: Existing topic, instead of `emails`. Its policy must let `costalerts.amazonaws.com` publish; so must
                its key if it has one of its own.
            least_usd: Least impact that is notified: what an anomaly costs beyond what was expected, in US dollars. By
                default 100.
            least_percent: Least impact in percent of what was expected, which must be reached as well. By default any.
            tag_key: Key of the tag. By default that of clusters from a cluster file.

        Raises:
            ConfigError: GPU-BUD-004, GPU-BUD-009, GPU-BUD-010, GPU-ALM-002.
        """
        from aws_cdk import aws_ce as ce  # takes long to load

        super().__init__(scope, construct_id)
        _, region, account = place_of(stack_of(scope))
        report(
            self,
            [
                *check_anomalies(least_usd, least_percent, region=resolved_or_none(region)),
                *check_recipient(has_emails=bool(emails), has_topic=topic is not None, what="monitor"),
            ],
        )
        policy = None
        if topic is None:
            own = AlarmTopic(self, "Topic", emails=emails).topic
            own.add_to_resource_policy(_publishes(own.topic_arn, account))
            topic, policy = own, own.node.find_child("Policy")
        self.topic: sns.ITopic = topic
        name = f"gpu-cluster {cluster}"
        self.cfn_monitor: ce.CfnAnomalyMonitor = ce.CfnAnomalyMonitor(
            self,
            "Resource",
            monitor_name=name,
            monitor_type="CUSTOM",
            monitor_specification=_text({"Tags": {"Key": tag_key, "Values": [cluster]}}),
        )
        self.cfn_subscription: ce.CfnAnomalySubscription = ce.CfnAnomalySubscription(
            self,
            "Subscription",
            subscription_name=name,
            frequency="IMMEDIATE",
            monitor_arn_list=[self.cfn_monitor.attr_monitor_arn],
            subscribers=[ce.CfnAnomalySubscription.SubscriberProperty(type="SNS", address=topic.topic_arn)],
            threshold_expression=_text(_threshold(least_usd, least_percent)),
        )
        if policy is not None:  # AWS may look whether it can publish
            self.cfn_subscription.node.add_dependency(policy)


def _threshold(usd: float, percent: float | None) -> dict[str, Any]:
    """The anomalies that are notified, as an expression of Cost Explorer."""
    least = [_at_least("ABSOLUTE", usd)]
    if percent is not None:
        least.append(_at_least("PERCENTAGE", percent))
    return least[0] if len(least) == 1 else {"And": least}


def _at_least(kind: str, value: float) -> dict[str, Any]:
    key = f"ANOMALY_TOTAL_IMPACT_{kind}"
    return {"Dimensions": {"Key": key, "MatchOptions": ["GREATER_THAN_OR_EQUAL"], "Values": [f"{value:f}"]}}


def _text(expression: dict[str, Any]) -> str:
    return json.dumps(expression, separators=(",", ":"))


def _publishes(topic_arn: str, account: str) -> iam.PolicyStatement:
    """What lets the anomaly subscriptions of this account publish to the topic."""
    return iam.PolicyStatement(
        sid="AnomaliesOfThisAccount",
        principals=[iam.ServicePrincipal("costalerts.amazonaws.com")],
        actions=["sns:Publish"],
        resources=[topic_arn],
        conditions={"StringEquals": {"aws:SourceAccount": account}},
    )
