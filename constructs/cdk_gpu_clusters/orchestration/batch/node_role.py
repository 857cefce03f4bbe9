"""The role of nodes of AWS Batch."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_logs as logs
from constructs import IConstruct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import arn_of, partition_of, stack_of
from cdk_gpu_clusters._template import allow

# AWS managed policy AmazonEC2ContainerServiceforEC2Role, which the AWS Batch user guide ("Amazon ECS instance role")
# asks for, without the rights to make clusters and to change the state of a node. Resources: service authorization
# reference.
_OF_CLUSTER = (
    "ecs:DeregisterContainerInstance",
    "ecs:RegisterContainerInstance",
    "ecs:SubmitAttachmentStateChanges",
    "ecs:SubmitContainerStateChange",
    "ecs:SubmitTaskStateChange",
)
_OF_INSTANCE = ("ecs:Poll", "ecs:StartTelemetrySession")
_OF_REPOSITORY = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
# For an agent that registers with tags (Amazon ECS developer guide, "Grant permission to tag resources on creation").
_TAGGED = {"StringEquals": {"ecs:CreateAction": "RegisterContainerInstance"}}
_WITHOUT_RESOURCE = ("ec2:DescribeTags", "ecr:GetAuthorizationToken", "ecs:DiscoverPollEndpoint")

#: Prefix of the streams of jobs in the log group of their nodes.
LOG_PREFIX = "jobs"

AGENT_RIGHTS = AcceptedFinding(
    cause="`BatchComputeEnvironment`: policy of its nodes",
    reason="AWS Batch makes the ECS cluster that the nodes join, and no template knows its name. Jobs choose their "
    "images, of any account.",
    aws_solutions=("IAM5",),
)

JOB_STREAMS = AcceptedFinding(
    cause="`BatchComputeEnvironment`: log streams of jobs",
    reason="Amazon ECS names a stream by the container and the id of the task, which are unknown before.",
    aws_solutions=("IAM5",),
)


def agent_places(scope: IConstruct) -> tuple[str, str, str]:
    """The clusters, container instances and repositories that the agent may use, as ARNs with `*`."""
    repositories = f"arn:{partition_of(stack_of(scope))}:ecr:*:*:repository/*"
    return arn_of(scope, "ecs", "cluster/*"), arn_of(scope, "ecs", "container-instance/*"), repositories


def agent_statements(scope: IConstruct) -> list[dict[str, Any]]:
    """What lets the ECS agent join its cluster, run tasks, and fetch images."""
    clusters, instances, repositories = agent_places(scope)
    return [
        allow(clusters, *_OF_CLUSTER),
        allow(instances, *_OF_INSTANCE),
        {**allow(instances, "ecs:TagResource"), "Condition": _TAGGED},
        allow(repositories, *_OF_REPOSITORY),
        allow("*", *_WITHOUT_RESOURCE),
    ]


def job_streams(scope: IConstruct, log_group: logs.ILogGroup) -> str:
    """The log streams of jobs, as an ARN with `*`: `PREFIX/CONTAINER/TASK` (Amazon ECS developer guide, `awslogs`).

    Args:
        scope: Construct of the nodes.
        log_group: Their log group.
    """
    return arn_of(scope, "logs", f"log-group:{log_group.log_group_name}:log-stream:{LOG_PREFIX}/*")


def logging_statement(streams: str) -> dict[str, Any]:
    """What lets a node make the log streams of jobs, without which no container starts, and write to them.

    The log driver of Docker has the rights of the node, unless a job has an execution role (aws/amazon-ecs-agent @
    8dfceca, agent/api/task/task.go).

    Args:
        streams: The streams.
    """
    return allow(streams, "logs:CreateLogStream", "logs:PutLogEvents")
