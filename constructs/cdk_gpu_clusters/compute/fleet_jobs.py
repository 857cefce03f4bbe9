"""What lets users run jobs on all nodes of a fleet, by the command `gpu-clusters run`.

A user writes a request into the fleet's parameter in Parameter Store, and lets Systems Manager run a document of the
fleet on its nodes. The document has no parameters: it makes the nodes read the request. So no one gets a shell of root,
and IAM alone decides who may start jobs on which fleet.

Nodes and users exchange everything else in the fleet's log group, and trust nothing of it: many roles may write to all
log groups of an account (`AWSLambdaBasicExecutionRole` among others).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, cast

from aws_cdk import aws_iam as iam
from constructs import IConstruct

from cdk_gpu_clusters._accepted import AcceptedFinding, named_resource
from cdk_gpu_clusters._cdk import arn_of
from cdk_gpu_clusters._template import Resource, allow
from cdk_gpu_clusters.node.gpunode.fleet_jobs.request import (
    DOCUMENT_TAG,
    LOG_GROUP_TAG,
    NO_REQUEST,
    PARAMETER_TAG,
)

_SECONDS = 120
_PARAMETER_READS = ("ssm:GetParameter", "ssm:GetParameterHistory")
# The files of a job, whose digest is in its request (`gpunode.fleet_jobs.board`).
_FILES = "jobs/*/files"
_READS = ("logs:DescribeLogStreams", "logs:FilterLogEvents", "logs:GetLogEvents")
_GRANTED = AcceptedFinding(
    cause="Roles: what `GpuFleet.grant_run_jobs` adds",
    reason="Streams are named by the job, and the instances of a fleet by its tag; the actions that describe groups "
    "and commands have no resource level.",
    aws_solutions=("IAM5",),
    nist_hipaa_pci=("IAMNoInlinePolicy",),
)


def job_document() -> Resource:
    """The document that makes a node look for a job.

    Sources: Systems Manager user guide, "Schemas, features, and examples" (schema 2.2) and "Command document plugin
    reference" (`aws:runShellScript`).
    """
    # The agent runs before the node has its software; such a node looks for the job at the end of its boot.
    line = "if [ -x /usr/local/bin/gpunode ]; then exec /usr/local/bin/gpunode job sync; fi"
    step = {
        "action": "aws:runShellScript",
        "name": "sync",
        "inputs": {"timeoutSeconds": str(_SECONDS), "runCommand": [line]},
    }
    content = {
        "schemaVersion": "2.2",
        "description": "Start or stop the job that the parameter of this GPU fleet requests.",
        "mainSteps": [step],
    }
    properties = {
        "DocumentType": "Command",
        "DocumentFormat": "JSON",
        "TargetType": "/AWS::EC2::Instance",
        # A changed document keeps its name: otherwise CloudFormation would replace it.
        "UpdateMethod": "NewVersion",
        "Content": content,
    }
    return {"Type": "AWS::SSM::Document", "Properties": properties}


def job_parameter() -> Resource:
    """The parameter that holds the newest request. Users change its value.

    A deployment that changes the parameter itself, such as its tags, writes this value again (CloudFormation's handler
    calls PutParameter with all properties). Jobs that run go on.
    """
    properties = {
        "Type": "String",
        "Value": NO_REQUEST,
        "Description": "The newest job of this GPU fleet; gpu-clusters run writes it, and the nodes read it.",
    }
    return {"Type": "AWS::SSM::Parameter", "Properties": properties}


def job_tags(*, document_name: str, parameter_name: str, log_group_name: str) -> dict[str, str]:
    """The tags of the group of a fleet that runs jobs."""
    return {DOCUMENT_TAG: document_name, PARAMETER_TAG: parameter_name, LOG_GROUP_TAG: log_group_name}


def parameter_arn(scope: IConstruct, parameter_name: str) -> str:
    """The ARN of a parameter whose name has no slash, as of one that CloudFormation names."""
    return arn_of(scope, "ssm", f"parameter/{parameter_name}")


def user_statements(
    scope: IConstruct, *, document_name: str, parameter_name: str, group_name: str, log_group_name: str
) -> list[Mapping[str, Any]]:
    """What lets someone run, list, follow and stop jobs on a fleet, and nothing else.

    Sources: Systems Manager user guide, "Restricting Run Command access based on tags"; service authorization
    reference, AWS Systems Manager, Amazon CloudWatch Logs and Amazon EC2 Auto Scaling.

    Args:
        scope: The fleet.
        document_name: Its document.
        parameter_name: Its parameter.
        group_name: Its Auto Scaling group.
        log_group_name: Its log group.
    """
    log_group = arn_of(scope, "logs", f"log-group:{log_group_name}")
    instances = arn_of(scope, "ec2", "instance/*")
    return [
        allow(parameter_arn(scope, parameter_name), "ssm:PutParameter", *_PARAMETER_READS),
        allow(f"{log_group}:log-stream:{_FILES}", "logs:CreateLogStream", "logs:PutLogEvents"),
        allow([log_group, f"{log_group}:log-stream:*"], *_READS),
        allow(arn_of(scope, "ssm", f"document/{document_name}"), "ssm:SendCommand"),
        {
            **allow(instances, "ssm:SendCommand"),
            "Condition": {"StringEquals": {"ssm:resourceTag/aws:autoscaling:groupName": group_name}},
        },
        allow("*", "autoscaling:DescribeAutoScalingGroups", "ssm:ListCommandInvocations"),
    ]


def grant_statements(
    grantee: iam.IGrantable, statements: Sequence[Mapping[str, Any]], *, accepted: AcceptedFinding = _GRANTED
) -> iam.Grant:
    """Give someone statements, and accept what policy packs find in them.

    Args:
        grantee: A role, a user or a group.
        statements: As in a policy document.
        accepted: What the packs find; what `grant_run_jobs` adds if left out.
    """
    grants = [
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=one["Action"],
            resource_arns=_list(one["Resource"]),
            conditions=one.get("Condition"),
        )
        for one in statements
    ]
    holder = cast("IConstruct", grantee.grant_principal)
    if hasattr(holder, "node"):  # a service or an account holds no policy of its own
        names = [arn for one in statements for arn in _list(one["Resource"]) if "*" in arn]
        accepted.at(holder, *(named_resource(holder, name) for name in names))
    return reduce(lambda one, other: one.combine(other), grants)


def _list(resource: str | list[str]) -> list[str]:
    return resource if isinstance(resource, list) else [resource]
