"""What launches follows the changes of its launch template."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, accelerated_launch
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

LATEST_VERSION = define_rule(
    "GPU-LT-013",
    "what launches follows the changes of a launch template of the same template",
    source="AWS::EC2::LaunchTemplate reference: an update makes a new version and leaves the default one; "
    "awslabs/awsome-distributed-ai, AWS PCS templates",
)


def _check(resource: Resource) -> Iterator[Fault]:
    uses = accelerated_launch(resource).uses()
    if not uses:
        raise NotApplicable
    for use in uses:
        version = use.specification.get("Version")
        if version.reference:
            continue
        text = version.text()
        if text is None or text == "$Default" or text.isdigit():
            yield Fault(
                at=version, got=text or "no version", allowed="!GetAtt <template>.LatestVersionNumber"
            )


RULE = TemplateRule(
    rule=LATEST_VERSION,
    severity=Severity.WARNING,
    cause="changes of the launch template never reach the nodes: an update makes a new version, which nobody asks for",
    fix="set Version to the attribute LatestVersionNumber of the launch template",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-launchtemplate.html",
    on=LAUNCHES,
    looks_at=("Version, where resources name the launch template",),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData: {InstanceType: g6.xlarge}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 1
      MaxSize: 4
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: 1}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData: {InstanceType: g6.xlarge}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 1
      MaxSize: 4
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
