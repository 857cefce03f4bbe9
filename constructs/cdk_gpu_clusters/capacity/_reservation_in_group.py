"""A Capacity Reservation inside a placement group: a custom resource whose function calls the EC2 API.

The registry's schema of `AWS::EC2::CapacityReservation` (2026-10-20) gives `PlacementGroupArn` a pattern that no ARN
matches. The EC2 API takes the ARN: hashicorp/terraform-provider-aws passes it as it is, and so do the integration tests
of aws/aws-parallelcluster (pull request 7461).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
from constructs import Construct

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import arn_of, cached_per_construct, define, stack_of
from cdk_gpu_clusters._template import Resources, allow, att, managed_policy, ref, service_role
from cdk_gpu_clusters.rules.capacity import RESERVATION_IN_GROUP

if TYPE_CHECKING:
    from aws_cdk import aws_lambda as lambda_

_ROLE, _POLICY, _FUNCTION = "Role", "Policy", "Resource"

_CALLED_BY_STACK = AcceptedFinding(
    cause="`CapacityReservation` in a placement group: the function that calls the EC2 API",
    reason="CloudFormation calls it when the stack changes, and sees each failure. It calls the EC2 API and nothing in "
    "the network, for which Lambda's default memory is enough; CloudTrail records its calls.",
    nist_hipaa=("LambdaConcurrency", "LambdaDLQ"),
    serverless=("LambdaDLQ", "LambdaDefaultMemorySize", "LambdaTracing"),
    nist_hipaa_pci=("LambdaInsideVPC",),
)
_NEW_RESERVATIONS = AcceptedFinding(
    cause="`CapacityReservation` in a placement group: policy of its function",
    reason="A reservation has no id before it is made, and the action that finds one by its tags has no resource "
    "level. What changes or cancels one is allowed for those that the stack made.",
    aws_solutions=("IAM5",),
)

_OF_OWN = (
    "ec2:ModifyCapacityReservation",
    "ec2:CancelCapacityReservation",
    "ec2:CreateTags",
    "ec2:DeleteTags",
)
# EC2 waits for capacity for up to two minutes here; CloudFormation waits an hour for an answer unless it is told.
_TIMEOUT_S, _ANSWER_S = 300, 900


def reservation_in_group(scope: Construct, properties: Mapping[str, Any]) -> dict[str, Any]:
    """The custom resource.

    Args:
        scope: Any construct of the stack; the first one makes the function of the stack.
        properties: Those of the `AWS::EC2::CapacityReservation`, with its tags as a mapping in `Tags`.
    """
    token = _function_of(stack_of(scope))
    properties = {"ServiceToken": token, "ServiceTimeout": _ANSWER_S, **properties}
    return {"Type": RESERVATION_IN_GROUP, "Properties": properties}


@cached_per_construct
def _function_of(stack: cdk.Stack) -> str:
    """The ARN of the function, which a stack has once."""
    scope = Construct(stack, "ReservationFunction")
    arns = arn_of(stack, "ec2", "capacity-reservation/*")
    defined = define(scope, _resources(arns))
    function: lambda_.CfnFunction = defined.resource(_FUNCTION)
    _CALLED_BY_STACK.at(function)
    _NEW_RESERVATIONS.at(defined.resource(_POLICY), "Resource::*", named_resource(stack, arns))
    return function.attr_arn


def _resources(reservations: str) -> Resources:
    own = {"StringEquals": {"aws:ResourceTag/gpu-clusters:stack": cdk.Aws.STACK_ID}}
    new = {"StringEquals": {"aws:RequestTag/gpu-clusters:stack": cdk.Aws.STACK_ID}}
    tagged = {"StringEquals": {"ec2:CreateAction": "CreateCapacityReservation"}}
    statements = [
        allow("*", "ec2:DescribeCapacityReservations"),
        allow(reservations, "ec2:CreateCapacityReservation") | {"Condition": new},
        allow(reservations, "ec2:CreateTags") | {"Condition": tagged},
        allow(reservations, *_OF_OWN) | {"Condition": own},
    ]
    function = {
        "Runtime": "python3.14",
        "Handler": "index.handler",
        "Code": {"ZipFile": _code()},
        "Role": att(_ROLE, "Arn"),
        "Timeout": _TIMEOUT_S,
    }
    return {
        _ROLE: service_role("lambda.amazonaws.com"),
        _POLICY: managed_policy(ref(_ROLE), statements),
        _FUNCTION: {"Type": "AWS::Lambda::Function", "DependsOn": [_POLICY], "Properties": function},
    }


@cache
def _code() -> str:
    """The function without the text at its beginning: CloudFormation takes 4,096 characters anywhere."""
    text = Path(__file__).with_name("_reservation_function.py").read_text(encoding="utf-8")
    return text.partition('"""\n\n')[2]
