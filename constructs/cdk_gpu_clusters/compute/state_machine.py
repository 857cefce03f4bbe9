"""State machines of a group of nodes: what one may do, what starts it, where it logs, and what is not delivered.

Sources: Step Functions developer guide, "Using CloudWatch Logs to log execution history" (permissions; log groups
below `/aws/vendedlogs/` do not grow the resource policy of CloudWatch Logs, which takes 5,120 characters in an account
and Region) and "AWS X-Ray"; EventBridge user guide, "Using dead-letter queues to process undelivered events"; both
guides, "Cross-service confused deputy prevention".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdk_gpu_clusters._template import Resource, Resources, allow, att, managed_policy, ref, service_role

# Paths below the fleet, of what its state machines share.
LOGS = "StateMachines/Logs"
_QUEUE, _QUEUE_POLICY = "StateMachines/Undelivered", "StateMachines/UndeliveredPolicy"
_LOGS_PREFIX = "/aws/vendedlogs/states"
_LOG_DAYS, _QUEUE_SECONDS = 30, 14 * 24 * 60 * 60
# EventBridge starts a state machine by the role by which Step Functions runs it.
_SERVICES = ("events.amazonaws.com", "states.amazonaws.com")
# An event that comes later finds another run.
_EVENT_SECONDS, _EVENT_ATTEMPTS = 300, 10
# What CDK 2.275 allows state machines that log and are traced: neither has a resource level.
_LOGS_AND_TRACES = (
    "logs:CreateLogDelivery",
    "logs:DeleteLogDelivery",
    "logs:DescribeLogGroups",
    "logs:DescribeResourcePolicies",
    "logs:GetLogDelivery",
    "logs:ListLogDeliveries",
    "logs:PutResourcePolicy",
    "logs:UpdateLogDelivery",
    "xray:GetSamplingRules",
    "xray:GetSamplingTargets",
    "xray:PutTelemetryRecords",
    "xray:PutTraceSegments",
)
_RETRY = {
    "ErrorEquals": ["States.ALL"],
    "IntervalSeconds": 5,
    "MaxAttempts": 3,
    "BackoffRate": 2,
    "MaxDelaySeconds": 20,
    "JitterStrategy": "FULL",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMachine:
    """A state machine that events start.

    Attributes:
        path: Its path below the fleet.
        definition: Its definition in the Amazon States Language.
        substitutions: Values of `${...}` in the definition.
        permissions: What it may do, as statements.
        account: Account of the stack.
    """

    path: str
    definition: Mapping[str, Any]
    substitutions: Mapping[str, Any]
    permissions: Sequence[Mapping[str, Any]]
    account: Any

    @property
    def policy(self) -> str:
        """Path of the policy that it works by."""
        return f"{self.path}Policy"

    @property
    def start_policy(self) -> str:
        """Path of the policy that events start it by: whoever starts it must know it, and it waits for the first."""
        return f"{self.path}StartPolicy"

    def resources(self) -> Resources:
        """The state machine, its role and its policies, by path below the fleet."""
        role, same_account = ref(self._role), {"StringEquals": {"aws:SourceAccount": self.account}}
        return {
            self._role: service_role(_SERVICES, Condition=same_account),
            self.policy: managed_policy(role, [*self.permissions, allow("*", *_LOGS_AND_TRACES)]),
            self.path: self._machine(),
            self.start_policy: managed_policy(role, [allow(att(self.path, "Arn"), "states:StartExecution")]),
        }

    def rule(self, description: str, when: Mapping[str, Any] | str, **sent: Any) -> Resource:
        """A rule that starts it.

        Args:
            description: What the rule is for.
            when: A pattern of events, or a schedule.
            sent: What it is sent: `Input` or `InputTransformer`.
        """
        trigger = {"ScheduleExpression": when} if isinstance(when, str) else {"EventPattern": when}
        target = {
            "Id": "Run",
            "Arn": att(self.path, "Arn"),
            "RoleArn": att(self._role, "Arn"),
            **sent,
            "RetryPolicy": {"MaximumEventAgeInSeconds": _EVENT_SECONDS, "MaximumRetryAttempts": _EVENT_ATTEMPTS},
            "DeadLetterConfig": {"Arn": att(_QUEUE, "Arn")},
        }
        return event_rule(description, **trigger, Targets=[target])

    @property
    def _role(self) -> str:
        return f"{self.path}Role"

    def _machine(self) -> Resource:
        properties = {
            "DefinitionString": json.dumps(self.definition, separators=(",", ":")),
            "DefinitionSubstitutions": self.substitutions or None,
            "RoleArn": att(self._role, "Arn"),
            "LoggingConfiguration": {
                "Destinations": [{"CloudWatchLogsLogGroup": {"LogGroupArn": att(LOGS, "Arn")}}],
                "IncludeExecutionData": True,
                "Level": "ALL",
            },
            "TracingConfiguration": {"Enabled": True},
        }
        return {"Type": "AWS::StepFunctions::StateMachine", "DependsOn": [self.policy], "Properties": properties}


def task_state(task: Mapping[str, Any], *, next_state: str | None = None, attempts: int = 3) -> dict[str, Any]:
    """A task in JSONata that retries and has no output.

    Args:
        task: Its resource and its arguments.
        next_state: The state after it; None for the end.
        attempts: How often it retries.
    """
    goes = {"End": True} if next_state is None else {"Next": next_state}
    return {"Type": "Task", **task, "Output": {}, "Retry": [{**_RETRY, "MaxAttempts": attempts}], **goes}


def when(condition: str, next_state: str) -> dict[str, str]:
    """A rule of a choice in JSONata.

    Args:
        condition: An expression that is true or false.
        next_state: The state that follows if it is true.
    """
    return {"Condition": f"{{% {condition} %}}", "Next": next_state}


def event_rule(description: str, **properties: Any) -> Resource:
    """A rule of EventBridge.

    Args:
        description: What it is for.
        properties: When it matches, and its targets.
    """
    return {"Type": "AWS::Events::Rule", "Properties": {"Description": description, "State": "ENABLED", **properties}}


def shared_resources(resources: Resources, *, name: str, log_key_arn: str | None) -> Resources:
    """The log group of state machines, and the queue of events that could not start one, by path below the fleet.

    Args:
        resources: The state machines and the rules that start them, by path; without a machine there is nothing.
        name: Of the fleet in its stack, as a log group's name may have it.
        log_key_arn: Key of the log group; None for CloudWatch's own.
    """
    rules = [path for path, one in resources.items() if one["Properties"].get("Targets")]
    if not rules:
        return {}
    log_group = {
        "LogGroupName": {"Fn::Join": ["/", [_LOGS_PREFIX, {"Ref": "AWS::StackName"}, name]]},
        "RetentionInDays": _LOG_DAYS,
        "KmsKeyId": log_key_arn,
    }
    return {
        LOGS: _deleted("AWS::Logs::LogGroup", log_group),
        _QUEUE: _deleted("AWS::SQS::Queue", {"SqsManagedSseEnabled": True, "MessageRetentionPeriod": _QUEUE_SECONDS}),
        _QUEUE_POLICY: _queue_policy(rules),
    }


def undelivered_alarm() -> Resources:
    """The alarm on events that could not start a state machine, by path below the fleet."""
    words = "EventBridge could not start a state machine of the fleet; the queue of undelivered events has the event."
    properties = {
        "AlarmDescription": f"{words} CloudWatch bills each alarm.",
        "Namespace": "AWS/SQS",
        "MetricName": "ApproximateNumberOfMessagesVisible",
        "Dimensions": [{"Name": "QueueName", "Value": att(_QUEUE, "QueueName")}],
        "Statistic": "Maximum",
        "Period": 300,
        "EvaluationPeriods": 1,
        "ComparisonOperator": "GreaterThanOrEqualToThreshold",
        "Threshold": 1,
        "TreatMissingData": "notBreaching",
    }
    return {"Alarms/UndeliveredEvents": {"Type": "AWS::CloudWatch::Alarm", "Properties": properties}}


def _deleted(kind: str, properties: Mapping[str, Any]) -> Resource:
    """A resource that goes with its stack."""
    return {"Type": kind, "DeletionPolicy": "Delete", "UpdateReplacePolicy": "Delete", "Properties": dict(properties)}


def _queue_policy(rules: Sequence[str]) -> Resource:
    queue = att(_QUEUE, "Arn")
    sends = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue,
        "Condition": {"ArnEquals": {"aws:SourceArn": [att(path, "Arn") for path in rules]}},
    }
    secure = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:*",
        "Resource": queue,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    document = {"Version": "2012-10-17", "Statement": [sends, secure]}
    properties = {"Queues": [ref(_QUEUE)], "PolicyDocument": document}
    return {"Type": "AWS::SQS::QueuePolicy", "Properties": properties}
