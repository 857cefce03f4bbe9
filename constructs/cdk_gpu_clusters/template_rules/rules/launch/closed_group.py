"""GPU nodes admit nobody from everywhere."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource, Value
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, Launch, accelerated_launch
from cdk_gpu_clusters.template_rules.lookups.network import GroupRule, group_of, ingress_rules
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

CLOSED_GROUP = define_rule(
    "GPU-LT-014",
    "the security groups of a GPU node admit nobody from everywhere",
    source="AWS Foundational Security Best Practices, EC2.19; nodes are reached through Systems Manager or a balancer",
)
_EVERYWHERE = ("0.0.0.0/0", "::/0")


def _check(resource: Resource) -> Iterator[Fault]:
    values = list({value.identity(): value for value in _groups_of(accelerated_launch(resource))}.values())
    if not values:
        raise NotApplicable
    for value in values:
        group = group_of(value)
        if group is None:
            raise value.undecidable("the rules of this security group stand in no part of the template")
        for rule in ingress_rules(group):
            if _is_open(rule):
                yield Fault(
                    at=rule.value,
                    got="from everywhere",
                    allowed="a security group, or the ranges of a network",
                )


def _groups_of(launch: Launch) -> list[Value]:
    own = launch.data.get("SecurityGroupIds").items()
    return [*own, *(value for interface in launch.interfaces() for value in interface.groups)]


def _is_open(rule: GroupRule) -> bool:
    return any(rule.value.get(key).template_text() in _EVERYWHERE for key in ("CidrIp", "CidrIpv6"))


RULE = TemplateRule(
    rule=CLOSED_GROUP,
    severity=Severity.WARNING,
    cause="whoever finds the address of a node can try to log in, or use what it serves",
    fix="remove the rule; reach nodes with Session Manager, and servers through a load balancer",
    url="https://docs.aws.amazon.com/securityhub/latest/userguide/ec2-controls.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/SecurityGroupIds",
        "LaunchTemplateData/NetworkInterfaces/*/Groups",
        "AWS::EC2::SecurityGroup/SecurityGroupIngress",
        "AWS::EC2::SecurityGroupIngress",
    ),
    check=_check,
    bad="""
Resources:
  Host:
    Type: AWS::EC2::SecurityGroup
    Properties:
      GroupDescription: nodes
      VpcId: vpc-0123456789abcdef0
      SecurityGroupIngress:
        - {IpProtocol: tcp, FromPort: 22, ToPort: 22, CidrIp: 0.0.0.0/0}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        SecurityGroupIds: [!GetAtt Host.GroupId]
""",
    good="""
Resources:
  Host:
    Type: AWS::EC2::SecurityGroup
    Properties:
      GroupDescription: nodes
      VpcId: vpc-0123456789abcdef0
      SecurityGroupIngress:
        - {IpProtocol: tcp, FromPort: 22, ToPort: 22, CidrIp: 10.0.0.0/16}
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        SecurityGroupIds: [!GetAtt Host.GroupId]
""",
)
