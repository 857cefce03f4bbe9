"""The alarms on nodes and on the launches of fleets, and the topic that mails them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import ClusterConstruct, DefinedResources, arn_of, report, stack_of
from cdk_gpu_clusters._template import Resource, Resources
from cdk_gpu_clusters.compute.launch_stop import LaunchStop
from cdk_gpu_clusters.fleet.plan import FleetPlan
from cdk_gpu_clusters.node.alerts import NodeAlert, node_alerts
from cdk_gpu_clusters.node.gpunode.metrics.names import FLEET, NAMESPACE
from cdk_gpu_clusters.rules.fleet import AlarmSettings, check_alarms, check_emails

if TYPE_CHECKING:
    from aws_cdk import aws_cloudwatch as cloudwatch
    from aws_cdk import aws_sns as sns


_PERIOD_SECONDS = 300
_MUTABLE = frozenset(alert.name for alert in node_alerts(AlarmSettings(), has_gpus=True))
BILLED = "CloudWatch bills each alarm."


class NodeAlarms:
    """Alarms of a group of nodes: a node that is not well, Xids, failed boots, idle GPUs.

    `EksGpuNodeGroup` makes one; they notify the topics that you add.

    Attributes:
        names: Names of the alarms.
    """

    def __init__(self, names: Sequence[str], resources: Callable[[], DefinedResources]) -> None:
        """Give access to alarms.

        Args:
            names: Names of the alarms.
            resources: Where they were defined.
        """
        self.names: tuple[str, ...] = tuple(names)
        self._resources = resources

    def cfn_alarm(self, name: str) -> cloudwatch.CfnAlarm:
        """An alarm, as an escape hatch.

        Args:
            name: One of `names`.
        """
        alarm: cloudwatch.CfnAlarm = self._resources().resource(alarm_path(name))
        return alarm

    def add_topic(self, topic: sns.ITopic) -> None:
        """Let all alarms notify a topic when they are raised. A topic with a key of its own must let CloudWatch use it.

        Args:
            topic: The topic.
        """
        for name in self.names:
            alarm = self.cfn_alarm(name)
            alarm.alarm_actions = [*(alarm.alarm_actions or []), topic.topic_arn]

    def add_mute(
        self,
        construct_id: str,
        *,
        schedule: cloudwatch.ScheduleExpression,
        duration: cdk.Duration,
        description: str | None = None,
    ) -> cloudwatch.AlarmMuteRule:
        """Let the alarms notify no one during a window, such as a weekly maintenance.

        Makes one `AWS::CloudWatch::AlarmMuteRule`. Muted alarms still change their state, and `gpu-clusters status`
        shows them. Alarms on launches and on state machines are never muted: a launch loop costs money at any time.

        Source: CloudWatch API reference, PutAlarmMuteRule.

        Args:
            construct_id: Id of the rule below the fleet or group.
            schedule: When a window begins: `cron` for windows that come back, `at` for one. It has a time zone, UTC by
                default.
            duration: Length of a window, 1 minute to 15 days.
            description: Why alarms are muted.

        Example:
            >>> from aws_cdk import aws_cloudwatch as cloudwatch
            >>> kept = GpuFleet(stack, "Muted", vpc=vpc, instance_type="g6.xlarge", node_count=2)
            >>> rule = kept.alarms.add_mute(
            ...     "Maintenance",
            ...     schedule=cloudwatch.ScheduleExpression.cron(
            ...         minute="0", hour="2", week_day="SUN", time_zone=cdk.TimeZone.EUROPE_BERLIN
            ...     ),
            ...     duration=cdk.Duration.hours(4),
            ... )
        """
        from aws_cdk import aws_cloudwatch as cloudwatch  # takes long to load

        return cloudwatch.AlarmMuteRule(
            self._resources().scope,
            construct_id,
            schedule=schedule,
            duration=duration,
            description=description,
            alarms=[self.cfn_alarm(name) for name in self.names if name in _MUTABLE],
        )


def alarm_path(name: str) -> str:
    """The path of an alarm below its fleet or group."""
    return f"Alarms/{name}"


def alarm_names(resources: Resources) -> list[str]:
    """The names of the alarms among resources.

    Args:
        resources: By path.
    """
    return [path.rpartition("/")[2] for path, one in resources.items() if one["Type"] == "AWS::CloudWatch::Alarm"]


def _resource(alert: NodeAlert, fleet: str) -> Resource:
    """The alarm of an alert, as a template has it."""
    return {
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "AlarmDescription": f"{alert.meaning} {BILLED}",
            "Namespace": NAMESPACE,
            "MetricName": alert.metric.name,
            "Dimensions": [{"Name": FLEET, "Value": fleet}],
            "Statistic": alert.statistic,
            "Period": _PERIOD_SECONDS,
            "EvaluationPeriods": 1,
            "ComparisonOperator": "GreaterThanOrEqualToThreshold",
            "Threshold": alert.threshold,
            "TreatMissingData": "notBreaching",
        },
    }


def node_alarms(fleet: str, settings: AlarmSettings, *, has_gpus: bool) -> Resources:
    """The alarms by path.

    Args:
        fleet: Name of the group in the metrics of its nodes.
        settings: When they are raised.
        has_gpus: Whether the nodes have GPUs of NVIDIA.
    """
    return {alarm_path(alert.name): _resource(alert, fleet) for alert in node_alerts(settings, has_gpus=has_gpus)}


class FleetAlarms(NodeAlarms):
    """Alarms of a fleet: a node that is not well, Xids, failed boots, idle GPUs, and a launch loop, which it stops.

    `GpuFleet` makes one; they notify the topics that you add.

    Example:
        >>> from aws_cdk import aws_sns as sns
        >>> trainers = GpuFleet(
        ...     stack, "Alarmed", vpc=vpc, instance_type="p5.48xlarge", node_count=2,
        ...     alarms=AlarmSettings(idle_minutes=30),
        ... )
        >>> trainers.alarms.add_topic(sns.Topic(stack, "Operators"))
        >>> sorted(trainers.alarms.names)
        ['BootFailure', 'Idle', 'LaunchLoop', 'UndeliveredEvents', 'UnhealthyNode', 'Xid']

    Attributes:
        names: Names of the alarms.
    """


def fleet_alarms(
    plan: FleetPlan,
    settings: AlarmSettings,
    *,
    fleet: str,
    group_name: str,
    group_arn: str,
    alarms_arn: str,
    partition: str,
) -> Resources:
    """The alarms of a fleet and what stops its launches, by path below the fleet.

    Args:
        plan: What was decided about the fleet.
        settings: When it raises alarms.
        fleet: Its path.
        group_name: Name of its group.
        group_arn: ARN of its group.
        alarms_arn: All alarms of the account and the Region.
        partition: Partition of the stack.
    """
    accelerator = plan.instance_type.accelerator
    window = settings.window_minutes(ready_timeout_seconds=plan.ready_timeout_seconds)
    stop = LaunchStop(
        fleet=fleet,
        group_name=group_name,
        group_arn=group_arn,
        alarms_arn=alarms_arn,
        partition=partition,
        launches_per_node=settings.abandoned_launches_per_node,
        window_minutes=window,
        description=_launch_loop(settings, window, group_name),
        suspends=settings.suspends_launching,
    )
    alarms = node_alarms(fleet, settings, has_gpus=accelerator is not None and accelerator.kind == "gpu")
    return {**alarms, **stop.resources()}


def _launch_loop(settings: AlarmSettings, window_minutes: int, group_name: str) -> str:
    told = (
        f"{settings.abandoned_launches_per_node} launches or more for each missing node were abandoned within "
        f"{window_minutes} minutes; the fleet's log group shows why."
    )
    if not settings.suspends_launching:
        return f"{told} Launching goes on. {BILLED}"
    return (
        f"{told} Launching is suspended. Nodes that still fail are kept for {settings.inspection_minutes} minutes: aws "
        "ssm start-session --target INSTANCE. When the cause is gone: aws autoscaling resume-processes "
        f"--scaling-processes Launch --auto-scaling-group-name {group_name} . {BILLED}"
    )


def inspection_seconds(scope: Construct, plan: FleetPlan, settings: AlarmSettings | None) -> int:
    """How long nodes that fail are kept once launching is suspended.

    Args:
        scope: The fleet.
        plan: What was decided about it.
        settings: When it raises alarms.

    Raises:
        ConfigError: GPU-ALM-001.
    """
    if settings is None:
        return 0
    report(scope, check_alarms(settings, ready_timeout_seconds=plan.ready_timeout_seconds))
    return 60 * settings.inspection_minutes if settings.suspends_launching else 0


_NO_SECRETS = AcceptedFinding(
    cause="`AlarmTopic`: topic without a key of its own",
    reason="It carries the names and words of alarms, which no key protects in CloudWatch either, and mails them. "
    "CloudWatch publishes to an encrypted topic only with a key that you own; such a topic is yours to make.",
    nist_hipaa_pci=("SNSEncryptedKMS",),
)
_MAIL = AcceptedFinding(
    cause="`AlarmTopic`: subscriptions by mail",
    reason="A mail that cannot be delivered would wait in a queue without a reader. The alarm itself keeps its state.",
    serverless=("SNSRedrivePolicy",),
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
            mail = sns.SubscriptionProtocol.EMAIL
            _MAIL.at(sns.Subscription(self, email, topic=self.topic, protocol=mail, endpoint=email))
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
