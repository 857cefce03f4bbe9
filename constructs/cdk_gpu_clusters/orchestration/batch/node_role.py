"""The role of nodes of AWS Batch."""

from __future__ import annotations

from typing import Any

from constructs import IConstruct

from cdk_gpu_clusters._accepted import AcceptedFinding
from cdk_gpu_clusters._cdk import arn_of, partition_of, stack_of
from cdk_gpu_clusters._template import allow

# AWS managed policy AmazonEC2ContainerServiceforEC2Role, which the AWS Batch user guide ("Amazon ECS instance role")
# asks for, without the rights to make clusters and to change the state of a node. The output of jobs goes to the log
# group of the nodes, by the rights that they have there. Resources: service authorization reference.
_OF_CLUSTER = (
    "ecs:DeregisterContainerInstance",
    "ecs:RegisterContainerInstance",
    "ecs:SubmitAttachmentStateChanges",
    "ecs:SubmitContainerStateChange",
    "ecs:SubmitTaskStateChange",
)
_OF_INSTANCE = ("ecs:Poll", "ecs:StartTelemetrySession")
_OF_REPOSITORY = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
_WITHOUT_RESOURCE = ("ec2:DescribeTags", "ecr:GetAuthorizationToken", "ecs:DiscoverPollEndpoint")

AGENT_RIGHTS = AcceptedFinding(
    cause="`BatchComputeEnvironment`: policy of its nodes",
    reason="AWS Batch makes the ECS cluster that the nodes join, and no template knows its name. Jobs choose their "
    "images, of any account.",
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
        allow(repositories, *_OF_REPOSITORY),
        allow("*", *_WITHOUT_RESOURCE),
    ]
