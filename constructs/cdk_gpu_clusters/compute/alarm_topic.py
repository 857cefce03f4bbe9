"""The topic by which the alarms of a fleet reach people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import ClusterConstruct, arn_of, report, stack_of
from cdk_gpu_clusters.rules.fleet_alarms import check_emails

if TYPE_CHECKING:  # takes long to load
    from aws_cdk import aws_sns as sns

_NO_SECRETS = AcceptedFinding(
    cause="`AlarmTopic`: topic without a key of its own",
    reason="It carries the names and words of alarms, which no key protects in CloudWatch either, and mails them. "
    "CloudWatch publishes to an encrypted topic only with a key that you own; such a topic is yours to make.",
    nist_hipaa_pci=("SNSEncryptedKMS",),
)


class AlarmTopic(ClusterConstruct):
    """An SNS topic that mails alarms; it takes messages of this account's alarms only, and over TLS only.

    Everyone gets a mail with a link, and no alarm before it is followed.

    Source: Amazon SNS developer guide, "Example cases for Amazon SNS access control" (alarms of CloudWatch) and
    "Enforce encryption of data in transit".

    Example:
        >>> watched = GpuFleet(stack, "Mailed", vpc=vpc, instance_type="g6.xlarge", node_count=2)
        >>> watched.alarms.add_topic(AlarmTopic(stack, "People", emails=["operators@example.org"]).topic)

    Attributes:
        topic: The topic.
    """

    def __init__(self, scope: Construct, construct_id: str, *, emails: Sequence[str]) -> None:
        """Define the topic and its subscriptions.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            emails: Addresses of the recipients.

        Raises:
            ConfigError: GPU-ALM-002.
        """
        from aws_cdk import aws_sns as sns  # takes long to load

        super().__init__(scope, construct_id)
        report(self, check_emails(emails))
        self.topic: sns.Topic = sns.Topic(self, "Resource", enforce_ssl=True)
        for email in emails:
            sns.Subscription(
                self, email, topic=self.topic, protocol=sns.SubscriptionProtocol.EMAIL, endpoint=email
            )
        self.topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsOfThisAccount",
                principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions={
                    "ArnLike": {"aws:SourceArn": arn_of(self, "cloudwatch", "alarm:*")},
                    "StringEquals": {"aws:SourceAccount": stack_of(self).account},
                },
            )
        )
        _NO_SECRETS.at(self.topic)
