"""A job queue of AWS Batch that does not stay blocked unseen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
from aws_cdk import aws_batch as batch
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from cdk_gpu_clusters._accepted import SILENT_ALARM, UNDELIVERED, AcceptedFinding
from cdk_gpu_clusters._cdk import ClusterConstruct, arn_of, report
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.compute.alarms import BILLED
from cdk_gpu_clusters.compute.fleet_jobs import grant_statements
from cdk_gpu_clusters.orchestration.batch.compute_environment import IBatchComputeEnvironment
from cdk_gpu_clusters.rules.batch import DEFAULT_LIMITS_SECONDS, BlockedReason, check_wait_limits

if TYPE_CHECKING:
    from aws_cdk import aws_sns as sns

    from cdk_gpu_clusters.orchestration.batch.multi_node_job import BatchMultiNodeJob

#: AWS Batch user guide, "Job queue blocked events".
_BLOCKED = "Batch Job Queue Blocked"
_KEPT = AcceptedFinding(
    cause="`BatchJobQueue`: rule of its blocked jobs",
    reason="The alarm counts the event itself, whether or not it reaches the queue, which is in the same stack.",
    serverless=("EventBusDLQ",),
)
_GRANTED = AcceptedFinding(
    cause="Roles: what `BatchJobQueue.grant_submit` adds",
    reason="Listing and describing jobs have no resource level, and a definition has a new revision with each change.",
    aws_solutions=("IAM5",),
    nist_hipaa_pci=("IAMNoInlinePolicy",),
)


class IBatchJobQueue(ClusterConstruct):
    """A job queue of AWS Batch: a `BatchJobQueue`, or one that is defined elsewhere.

    Example:
        >>> from cdk_gpu_clusters import BatchJobQueue
        >>> BatchJobQueue.from_batch_job_queue_attributes(
        ...     stack, "ExistingQueue", job_queue_arn="arn:aws:batch:us-west-2:123456789012:job-queue/train"
        ... ).job_queue_arn
        'arn:aws:batch:us-west-2:123456789012:job-queue/train'
    """

    @property
    def job_queue_arn(self) -> str:
        """ARN."""
        raise NotImplementedError

    def grant_submit(self, grantee: iam.IGrantable, *, jobs: Sequence[BatchMultiNodeJob]) -> iam.Grant:
        """Let someone submit jobs to the queue, and watch and end jobs.

        Source: service authorization reference, "AWS Batch".

        Args:
            grantee: A role, a user or a group.
            jobs: The job definitions that they may use.
        """
        definitions = [one.any_revision_arn for one in jobs]
        statements: list[dict[str, Any]] = [
            {"Action": ["batch:SubmitJob"], "Resource": [self.job_queue_arn, *definitions]},
            {"Action": ["batch:TerminateJob"], "Resource": [arn_of(self, "batch", "job/*")]},
            {"Action": ["batch:DescribeJobs", "batch:ListJobs"], "Resource": "*"},
        ]
        return grant_statements(grantee, statements, accepted=_GRANTED)


class _ImportedQueue(IBatchJobQueue):
    def __init__(self, scope: Construct, construct_id: str, arn: str) -> None:
        super().__init__(scope, construct_id)
        self._arn = arn

    @property
    def job_queue_arn(self) -> str:
        return self._arn


class BatchJobQueue(IBatchJobQueue):
    """A job queue of AWS Batch: jobs wait in it for nodes of its compute environments.

    A job that cannot start blocks those behind it. Batch cancels it after a time that you choose for each reason that
    it documents. An EventBridge rule keeps the events "Batch Job Queue Blocked" of this queue in an SQS queue for 14
    days, and an alarm is raised with the first.

    A multi-node job waits for the first environment that it fits, even if a later one has room (AWS Batch user guide,
    "Jobs stuck in RUNNABLE due to capacity"): give each type of node a queue of its own.

    Sources: AWS Batch user guide; CloudFormation registry schema of AWS::Batch::JobQueue (2026-10-20).

    Example:
        >>> nodes = BatchComputeEnvironment(
        ...     stack, "QueuedNodes", vpc=vpc, instance_type="g6e.12xlarge", efa=False,
        ...     min_node_count=0, max_node_count=8,
        ... )
        >>> queue = BatchJobQueue(
        ...     stack, "Training", compute_environments=[nodes],
        ...     blocked_limits={BlockedReason.INSUFFICIENT_INSTANCE_CAPACITY: cdk.Duration.hours(4)},
        ... )
        >>> len(queue.cfn_job_queue.job_state_time_limit_actions)
        3

    Attributes:
        blocked_events: SQS queue with the events of blocked jobs.
        blocked_alarm: Alarm that a job blocks the queue.
        cfn_job_queue: The job queue, as an escape hatch.
    """

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        compute_environments: Sequence[IBatchComputeEnvironment],
        job_queue_name: str | None = None,
        priority: int = 1,
        blocked_limits: Mapping[BlockedReason, cdk.Duration | None] | None = None,
    ) -> None:
        """Define the queue.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            compute_environments: Where its jobs run, in the order in which Batch tries them; 1 to 3.
            job_queue_name: Name; CloudFormation makes one if left out. A change replaces the queue.
            priority: Queues of a higher priority get nodes that they share first; 1 if left out.
            blocked_limits: How long a job may block the queue by reason, 10 minutes to 24 hours, or None for no end.
                Reasons that are left out have 24 hours for missing capacity, and 1 hour for a misconfiguration.

        Raises:
            ConfigError: GPU-BAT-016.
        """
        super().__init__(scope, construct_id)
        given = {
            reason: None if limit is None else int(limit.to_seconds())
            for reason, limit in (blocked_limits or {}).items()
        }
        limits: dict[BlockedReason, int | None] = {**DEFAULT_LIMITS_SECONDS, **given}
        report(self, check_wait_limits(limits))
        # Dictionaries in camel case, which CDK passes on as given.
        self.cfn_job_queue: batch.CfnJobQueue = batch.CfnJobQueue(
            self,
            "Resource",
            job_queue_name=job_queue_name,
            priority=priority,
            state="ENABLED",
            compute_environment_order=[
                {"computeEnvironment": one.compute_environment_arn, "order": number}
                for number, one in enumerate(compute_environments, start=1)
            ],
            job_state_time_limit_actions=[
                {"action": "CANCEL", "state": "RUNNABLE", "reason": reason.value, "maxTimeSeconds": seconds}
                for reason, seconds in limits.items()
                if seconds is not None
            ],
        )
        self.blocked_events: sqs.Queue = sqs.Queue(
            self,
            "BlockedEvents",
            retention_period=cdk.Duration.days(14),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
        )
        UNDELIVERED.at(self.blocked_events)
        self._rule = events.Rule(
            self,
            "Blocked",
            description="A job blocks its job queue of AWS Batch.",
            event_pattern=events.EventPattern(
                source=["aws.batch"], detail_type=[_BLOCKED], resources=[self.job_queue_arn]
            ),
            targets=[targets.SqsQueue(self.blocked_events)],
        )
        _KEPT.at(self._rule)
        self.blocked_alarm: cloudwatch.Alarm = self.metric_blocked().create_alarm(
            self,
            "BlockedAlarm",
            alarm_description=f"A job blocks its job queue: its event has the reason. {BILLED}",
            threshold=1,
            evaluation_periods=1,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        SILENT_ALARM.at(self.blocked_alarm)

    @staticmethod
    def from_batch_job_queue_attributes(scope: Construct, construct_id: str, *, job_queue_arn: str) -> IBatchJobQueue:
        """Refer to a job queue that is defined elsewhere.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            job_queue_arn: Its ARN.
        """
        return _ImportedQueue(scope, construct_id, job_queue_arn)

    @cached_property
    def job_queue_arn(self) -> str:
        """ARN, known at deployment."""
        return str(self.cfn_job_queue.ref)

    def add_topic(self, topic: sns.ITopic) -> None:
        """Let the alarm notify a topic. A topic with a key of its own must let CloudWatch use it.

        Args:
            topic: The topic.
        """
        from aws_cdk import aws_cloudwatch_actions as actions  # takes long to load

        self.blocked_alarm.add_alarm_action(actions.SnsAction(topic))

    def metric_blocked(self, *, period: cdk.Duration | None = None) -> cloudwatch.Metric:
        """How often Batch found the queue blocked.

        Source: Amazon EventBridge user guide, "Monitoring Amazon EventBridge": TriggeredRules, by RuleName.

        Args:
            period: 5 minutes if left out.
        """
        return cloudwatch.Metric(
            namespace="AWS/Events",
            metric_name="TriggeredRules",
            dimensions_map={"RuleName": self._rule.rule_name},
            statistic="Sum",
            period=period or cdk.Duration.minutes(5),
        )
