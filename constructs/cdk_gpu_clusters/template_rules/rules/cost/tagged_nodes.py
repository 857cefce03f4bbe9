"""GPU nodes carry tags."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import COMPUTE_ENVIRONMENT
from cdk_gpu_clusters.template_rules.lookups.launches import INSTANCE, LAUNCHES, Launch, accelerated_launch
from cdk_gpu_clusters.template_rules.rule import Fault, TemplateRule

TAGGED_NODES = define_rule(
    "GPU-COST-001",
    "GPU nodes carry tags, which split the bill",
    source='AWS Billing user guide, "Using user-defined cost allocation tags"',
)


def _check(resource: Resource) -> Iterator[Fault]:
    launch = accelerated_launch(resource)
    if not (_tags_instances(launch) or any(_propagates(use.resource) for use in launch.uses())):
        yield Fault(
            at=launch.data.get("TagSpecifications"), got="no tags of instances", allowed="one tag or more"
        )


def _tags_instances(launch: Launch) -> bool:
    if launch.resource.type == INSTANCE:
        return bool(launch.data.get("Tags").items())
    return any(
        one.get("ResourceType").text() == "instance" and one.get("Tags").items()
        for one in launch.data.get("TagSpecifications").items()
    )


def _propagates(user: Resource) -> bool:
    """Whether a group or a compute environment tags its nodes; the tags of other node groups stay with them."""
    if user.type == COMPUTE_ENVIRONMENT:
        return bool(user.get("ComputeResources", "Tags").keys())
    return user.type == "AWS::AutoScaling::AutoScalingGroup" and any(
        tag.get("PropagateAtLaunch").flag() for tag in user.get("Tags").items()
    )


RULE = TemplateRule(
    rule=TAGGED_NODES,
    severity=Severity.INFO,
    cause="nobody can tell from the bill whose job a node ran for",
    fix="add TagSpecifications of ResourceType instance, and volume, with a tag that is activated for cost allocation",
    url="https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/custom-tags.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/TagSpecifications",
        "AWS::AutoScaling::AutoScalingGroup/Tags/*/PropagateAtLaunch",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        TagSpecifications:
          - {ResourceType: instance, Tags: [{Key: project, Value: llama}]}
""",
)
