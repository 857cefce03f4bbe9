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
from cdk_gpu_clusters._template import Resources, att, ref
from cdk_gpu_clusters.rules.capacity import RESERVATION_IN_GROUP

if TYPE_CHECKING:
    from aws_cdk import aws_lambda as lambda_

_ROLE, _POLICY, _FUNCTION = "Role", "Policy", "Resource"

_CALLED_BY_STACK = AcceptedFinding(
    cause="`CapacityReservation` in a placement group: the function that calls the EC2 API",
    reason="CloudFormation calls it when the stack changes, and sees each failure. It calls the EC2 API and nothing in "
    "the network; CloudTrail records its calls.",
    nist_hipaa=("LambdaConcurrency", "LambdaDLQ"),
    nist_hipaa_pci=("LambdaInsideVPC",),
)
_NEW_RESERVATIONS = AcceptedFinding(
    cause="`CapacityReservation` in a placement group: policy of its function",
    reason="A reservation has no id before it is made, and the action that finds one by its tags has no resource "
    "level. What changes or cancels one is allowed for those that the stack made.",
    aws_solutions=("IAM5",),
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
        _allow("*", "DescribeCapacityReservations"),
        _allow(reservations, "CreateCapacityReservation", condition=new),
        _allow(reservations, "CreateTags", condition=tagged),
        _allow(
            reservations,
            "ModifyCapacityReservation",
            "CancelCapacityReservation",
            "CreateTags",
            "DeleteTags",
            condition=own,
        ),
    ]
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    return {
        _ROLE: {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": _document(trust)}},
        _POLICY: {  # managed: the packs of NIST, HIPAA and PCI accept no inline ones
            "Type": "AWS::IAM::ManagedPolicy",
            "Properties": {"PolicyDocument": _document(*statements), "Roles": [ref(_ROLE)]},
        },
        _FUNCTION: {
            "Type": "AWS::Lambda::Function",
            "DependsOn": [_POLICY],
            "Properties": {
                "Runtime": "python3.14",
                "Handler": "index.handler",
                "Code": {"ZipFile": _code()},
                "Role": att(_ROLE, "Arn"),
                "Timeout": _TIMEOUT_S,
            },
        },
    }


def _allow(resource: str, *actions: str, condition: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {
        "Effect": "Allow",
        "Action": [f"ec2:{action}" for action in actions],
        "Resource": resource,
        "Condition": condition,
    }


def _document(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


@cache
def _code() -> str:
    """The function without the text at its beginning: CloudFormation takes 4,096 characters anywhere."""
    text = Path(__file__).with_name("_reservation_function.py").read_text(encoding="utf-8")
    return text.partition('"""\n\n')[2]
