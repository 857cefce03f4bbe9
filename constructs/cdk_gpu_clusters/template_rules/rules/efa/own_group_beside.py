"""A security group names itself in rules that are resources of their own."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.network import SECURITY_GROUP
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

BESIDE = define_rule(
    "GPU-EFA-035",
    "a security group names itself in resources beside it, not in its own properties",
    source="AWS::EC2::SecurityGroup reference: embedded rules between groups make a circular dependency",
)
_RULES = (("SecurityGroupIngress", "Source"), ("SecurityGroupEgress", "Destination"))


def _check(resource: Resource) -> Iterator[Fault]:
    rules = [(kind, end, rule) for kind, end in _RULES for rule in resource.get(kind).items()]
    if not rules:
        raise NotApplicable
    for kind, end, rule in rules:
        peer = rule.get(f"{end}SecurityGroupId")
        if peer.exists and resource.is_target_of(peer):
            yield Fault(at=peer, got=f"{resource.logical_id} in its own {kind}", allowed=f"AWS::EC2::{kind}")


RULE = TemplateRule(
    rule=BESIDE,
    severity=Severity.ERROR,
    cause="CloudFormation refuses the template: a security group that refers to itself is a circular dependency",
    fix="move the rule into a resource of type AWS::EC2::SecurityGroupIngress or AWS::EC2::SecurityGroupEgress",
    url="https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-ec2-securitygroup.html",
    on=(SECURITY_GROUP,),
    looks_at=(
        "SecurityGroupIngress/*/SourceSecurityGroupId",
        "SecurityGroupEgress/*/DestinationSecurityGroupId",
    ),
    check=_check,
    bad="""
Resources:
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties:
      GroupDescription: nodes
      VpcId: vpc-0123456789abcdef0
      SecurityGroupIngress: [{IpProtocol: -1, SourceSecurityGroupId: !GetAtt Fabric.GroupId}]
""",
    good="""
Resources:
  Fabric:
    Type: AWS::EC2::SecurityGroup
    Properties:
      GroupDescription: nodes
      VpcId: vpc-0123456789abcdef0
      SecurityGroupEgress: [{IpProtocol: -1, CidrIp: 0.0.0.0/0}]
  FromItself:
    Type: AWS::EC2::SecurityGroupIngress
    Properties:
      GroupId: !GetAtt Fabric.GroupId
      SourceSecurityGroupId: !GetAtt Fabric.GroupId
      IpProtocol: -1
""",
)
