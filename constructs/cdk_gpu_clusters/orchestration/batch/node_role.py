"""The role of nodes of AWS Batch."""

from __future__ import annotations

from typing import Any

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._template import allow

# AWS managed policy AmazonEC2ContainerServiceforEC2Role, which the AWS Batch user guide ("Amazon ECS instance role")
# asks for, without the rights to make clusters and to change the state of a node. The output of jobs goes to the log
# group of the nodes, by the rights that they have there.
_AGENT = (
    "ec2:DescribeTags",
    "ecs:DeregisterContainerInstance",
    "ecs:DiscoverPollEndpoint",
    "ecs:Poll",
    "ecs:RegisterContainerInstance",
    "ecs:StartTelemetrySession",
    "ecs:Submit*",
)
_IMAGES = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:GetAuthorizationToken",
    "ecr:GetDownloadUrlForLayer",
)

AGENT_RIGHTS = AcceptedFinding(
    cause="`BatchComputeEnvironment`: policy of its nodes",
    reason="AWS Batch makes the ECS cluster that the nodes join, and no template knows its name. "
    "Jobs choose their images.",
    aws_solutions=("IAM5",),
)


def agent_statements() -> list[dict[str, Any]]:
    """What lets the ECS agent join its cluster, run tasks, and fetch images."""
    return [allow("*", *_AGENT), allow("*", *_IMAGES)]
