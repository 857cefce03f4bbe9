"""The brake of a budget: it stops fleets when the budget is spent.

A Step Functions state machine without code reads the budget every 15 minutes. When it is spent, the machine sets the
least, the desired and the most size of each fleet's Auto Scaling group to 0. Nothing can raise such a group: EC2 Auto
Scaling refuses a desired size above the most size, and the reconcile leaves a group without a most size alone. The
machine never raises a size. A person does, when there is budget again.

It looks before it stops: only a group whose launch template buys by the hour is stopped, which is Spot, or On-Demand
that takes no reservation. Capacity Blocks and reservations are paid for whether nodes run or not.

Sources: Step Functions developer guide, "Learning to use AWS service SDK integrations" (AWS Budgets is one) and
"Transforming data with JSONata"; botocore 1.43, endpoint rules of budgets: one endpoint for all Regions of a partition,
as IAM has; AWS Budgets API reference, DescribeBudget; CloudFormation registry schema of AWS::Budgets::Budget (reading a
budget takes budgets:ViewBudget and billing:GetBillingViewData); EC2 API reference,
CapacityReservationSpecificationRequest; EC2 Auto Scaling API reference, UpdateAutoScalingGroup.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from constructs import Construct

from cdk_gpu_clusters._accepted import SILENT_ALARM, UNDELIVERED, AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import ClusterConstruct, arn_of, define, path_in_stack, path_of, place_of, report, stack_of
from cdk_gpu_clusters._template import Resources, allow, logical_id
from cdk_gpu_clusters.compute.alarms import NodeAlarms, alarm_names
from cdk_gpu_clusters.compute.fleet import GpuFleet
from cdk_gpu_clusters.compute.fleet_access import IGpuFleet
from cdk_gpu_clusters.compute.node_records import PLAIN_LOGS
from cdk_gpu_clusters.compute.reconcile import no_run_alarm, sdk_call
from cdk_gpu_clusters.compute.state_machine import StateMachine, shared_resources, task_state, undelivered_alarm, when
from cdk_gpu_clusters.rules.budget import check_brake

_MACHINE, _PERIODIC = "Machine", "Periodic"
PERIOD_MINUTES = 15
# Less than the period, with the longest waits of the retries of four calls.
_TIMEOUT_SECONDS = 600
# Three runs may fail, and the metric of one may come late.
_WITHOUT_RUN_MINUTES = 60

_PERMISSIONS = AcceptedFinding(
    cause="`FleetBrake`: policy of the state machine",
    reason="Describing groups and launch templates, log delivery and tracing have no resource level, and the ARN of a "
    "group holds an id that only EC2 Auto Scaling knows.",
    aws_solutions=("IAM5",),
)


class FleetBrake(ClusterConstruct):
    """Stops fleets when a budget is spent, and keeps them stopped until a person releases them.

    Makes a state machine that reads the budget every 15 minutes, its schedule, and alarms. While the budget is spent,
    the Auto Scaling group of each fleet has no nodes: `MinSize`, `DesiredCapacity` and `MaxSize` are 0. Nodes end by
    their lifecycle hook, so that jobs get their notice: SIGTERM, and the drain time-out of the fleet.

    * A fleet on a Capacity Block or a reservation is refused (`GPU-BUD-005`). The state machine looks again before it
      stops a group, by the launch template that the group has then: what is not surely paid by the hour is left alone,
      and the run fails.
    * It never starts a fleet again, not in the next month either. Set the sizes of the group yourself.
    * A deployment that changes a stopped group writes its least and most size back. The next run stops it again.
    * AWS updates the data of a budget once a day at least, and only if its tag is activated (`ClusterBudget`). A fleet
      costs more than the budget before it stops.

    Example:
        >>> from cdk_gpu_clusters import ClusterBudget, FleetBrake
        >>> workers = GpuFleet(stack, "Workers", vpc=vpc, instance_type="g6.xlarge", node_count=2)
        >>> spent = ClusterBudget(
        ...     stack, "Limit", cluster="llama-train", usd_per_month=5_000, emails=["finance@example.org"],
        ... )
        >>> brake = FleetBrake(stack, "Brake", budget_name=spent.budget_name, fleets=[workers])
        >>> brake.alarms.add_topic(spent.topic)
        >>> sorted(brake.alarms.names)
        ['NoBrake', 'UndeliveredEvents']

    Attributes:
        alarms: The alarms on a brake that does not work, whose recipients `alarms.add_topic` sets.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        budget_name: str,
        fleets: Sequence[IGpuFleet],
        percent: float = 100,
        _group_names: Sequence[str] | None = None,
    ) -> None:
        """Define the brake, in the Region of the fleets.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            budget_name: Name of the budget in the account, such as `budget.budget_name`; a budget of costs with a
                fixed limit. It may be made in another Region.
            fleets: Fleets that it stops, each a `GpuFleet` on demand or on Spot; the `fleet` of an `InferenceFleet`.
            percent: Percentage of the budget at which it stops them, by what is spent. By default 100.

        Raises:
            ConfigError: GPU-BUD-005, GPU-BUD-006, GPU-BUD-007.
        """
        super().__init__(scope, construct_id)
        given = [(path_of(one), one.plan.terms if isinstance(one, GpuFleet) else None) for one in fleets]
        report(self, check_brake(given, percent=percent))
        groups = list(_group_names or [fleet.fleet_name for fleet in fleets])
        partition, _, account = place_of(stack_of(scope))
        # Patterns, since an ARN has an id that only EC2 Auto Scaling knows.
        arns = [arn_of(self, "autoscaling", f"autoScalingGroup:*:autoScalingGroupName/{group}") for group in groups]
        budget_arn = f"arn:{partition}:budgets::{account}:budget/{budget_name}"
        machine = StateMachine(
            path=_MACHINE,
            definition=brake_definition(partition, account, budget_name, groups, percent=percent),
            substitutions={},
            permissions=[
                allow(budget_arn, "budgets:ViewBudget"),
                allow(arns, "autoscaling:UpdateAutoScalingGroup"),
                # What a budget counts is read by the view of all costs of the account, unless it names another one.
                allow(f"arn:{partition}:billing::{account}:billingview/primary", "billing:GetBillingViewData"),
                allow("*", "autoscaling:DescribeAutoScalingGroups", "ec2:DescribeLaunchTemplateVersions"),
            ],
            account=account,
        )
        resources = _with_alarms(self, machine)
        defined = define(self, resources)
        found = [named_resource(self, arn) for arn in arns]
        (
            _PERMISSIONS.with_details("Resource::*", *found)
            + UNDELIVERED.with_details()
            + PLAIN_LOGS.with_details()
            + SILENT_ALARM.with_details()
        ).at(defined.scope)
        self.alarms: NodeAlarms = NodeAlarms(alarm_names(resources), lambda: defined)


def _with_alarms(brake: FleetBrake, machine: StateMachine) -> Resources:
    every = f"rate({PERIOD_MINUTES} minutes)"
    rule = machine.rule("Compares the budget with what is spent", every, Input=json.dumps({}))
    made = {**machine.resources(), _PERIODIC: rule}
    silent = no_run_alarm(
        f"For {_WITHOUT_RUN_MINUTES} minutes no run of the brake succeeded: fleets may run although the budget is "
        "spent. The failed run in Step Functions has the cause.",
        machine=_MACHINE,
        minutes=_WITHOUT_RUN_MINUTES,
        warm_up_minutes=_WITHOUT_RUN_MINUTES,
    )
    shared = shared_resources(made, name=logical_id(path_in_stack(brake)), log_key_arn=None)
    return {**made, **shared, "Alarms/NoBrake": silent, **undelivered_alarm()}


def brake_definition(
    partition: str, account: str, budget_name: str, groups: Sequence[str], *, percent: float
) -> dict[str, Any]:
    """The state machine in Amazon States Language.

    Args:
        partition: Partition of the stack; may be a token, as all others may.
        account: Account of the budget.
        budget_name: Name of the budget.
        groups: Names of the Auto Scaling groups.
        percent: Percentage of the budget at which it stops them.
    """
    look = {
        "Resource": sdk_call(partition, "budgets", "describeBudget"),
        "Arguments": {"AccountId": account, "BudgetName": budget_name},
    }
    # Amounts are text in the API, and numbers in some SDKs. A budget without them has no value: the run fails.
    spent = (
        "( $budget := $states.result.Budget; $number($budget.CalculatedSpend.ActualSpend.Amount) "
        f">= $number($budget.BudgetLimit.Amount) * {json.dumps(percent)} / 100 )"
    )
    left = "$count($states.input[result in ['paid either way', 'failed']]) > 0"
    return {
        "Comment": "Stops fleets when a budget is spent",
        "QueryLanguage": "JSONata",
        "StartAt": "Look",
        "TimeoutSeconds": _TIMEOUT_SECONDS,
        "States": {
            "Look": {**task_state(look, next_state="IsSpent"), "Assign": {"spent": f"{{% {spent} %}}"}},
            "IsSpent": {"Type": "Choice", "Choices": [when("$spent", "EachFleet")], "Default": "Done"},
            "EachFleet": {
                "Type": "Map",
                "Items": list(groups),
                "ItemProcessor": {
                    "ProcessorConfig": {"Mode": "INLINE"},
                    "StartAt": "Begin",
                    "States": _of_fleet(partition),
                },
                "Next": "AreStopped",
            },
            "AreStopped": {"Type": "Choice", "Choices": [when(left, "NotStopped")], "Default": "Done"},
            "NotStopped": {
                "Type": "Fail",
                "Error": "NotStopped",
                "Cause": "A fleet is on capacity that may be paid either way, or a call failed. EachFleet has which",
            },
            "Done": {"Type": "Succeed"},
        },
    }


def _of_fleet(partition: str) -> dict[str, Any]:
    """The states of one fleet; each ends with what became of it, so that one fleet does not keep others running."""
    group = {
        "Resource": sdk_call(partition, "autoscaling", "describeAutoScalingGroups"),
        "Arguments": {"AutoScalingGroupNames": "{% [$states.input] %}"},
    }
    seen = (
        "( $group := $states.result.AutoScalingGroups[0]; {"
        # Deleted, being deleted, or stopped: CloudFormation sets the most size to 0 before it deletes a group.
        "'left': $not($exists($group)) or $exists($group.Status) or $group.MaxSize = 0, "
        "'template': $group.LaunchTemplate.LaunchTemplateId, 'version': $group.LaunchTemplate.Version } )"
    )
    template = {
        "Resource": sdk_call(partition, "ec2", "describeLaunchTemplateVersions"),
        "Arguments": {"LaunchTemplateId": "{% $seen.template %}", "Versions": "{% [$seen.version] %}"},
    }
    # On-Demand takes an open reservation unless the template has the preference `none`.
    by_the_hour = (
        "( $data := $states.result.LaunchTemplateVersions[0].LaunchTemplateData; "
        "$market := $data.InstanceMarketOptions.MarketType; $market = 'spot' or ($not($exists($market)) "
        "and $data.CapacityReservationSpecification.CapacityReservationPreference = 'none') )"
    )
    stop = {
        "Resource": sdk_call(partition, "autoscaling", "updateAutoScalingGroup"),
        "Arguments": {"AutoScalingGroupName": "{% $group %}", "MinSize": 0, "MaxSize": 0, "DesiredCapacity": 0},
    }
    caught = {"Catch": [{"ErrorEquals": ["States.ALL"], "Output": {}, "Next": "Failed"}]}
    return {
        "Begin": {"Type": "Pass", "Assign": {"group": "{% $states.input %}"}, "Next": "FindGroup"},
        "FindGroup": {
            **task_state(group, next_state="IsThere"),
            **caught,
            "Assign": {"seen": f"{{% {seen} %}}"},
        },
        "IsThere": {
            "Type": "Choice",
            "Choices": [when("$seen.left", "Left"), when("$not($exists($seen.template))", "Paid")],
            "Default": "LookAtTemplate",
        },
        "LookAtTemplate": {
            **task_state(template, next_state="IsByTheHour"),
            **caught,
            "Assign": {"byTheHour": f"{{% {by_the_hour} %}}"},
        },
        "IsByTheHour": {"Type": "Choice", "Choices": [when("$byTheHour", "Stop")], "Default": "Paid"},
        "Stop": {**task_state(stop, next_state="Stopped"), **caught},
        "Stopped": _result("stopped"),
        "Left": _result("left alone"),
        "Paid": _result("paid either way"),
        "Failed": _result("failed"),
    }


def _result(word: str) -> dict[str, Any]:
    return {"Type": "Pass", "Output": {"group": "{% $group %}", "result": word}, "End": True}
