"""Running requests end before a node of model servers leaves."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.inference import DRAIN_TIMEOUT, check_drain_timeout
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.model_servers import TARGET_GROUP, attribute_of, groups_behind
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    if not groups_behind(resource):
        raise NotApplicable
    seconds = attribute_of(resource, "TargetGroupAttributes", "deregistration_delay.timeout_seconds")
    if seconds is None:
        return
    for finding in check_drain_timeout(seconds.integer() or 0):
        yield Fault(at=seconds, got=finding.got, allowed=finding.allowed)


RULE = TemplateRule(
    rule=DRAIN_TIMEOUT,
    severity=Severity.WARNING,
    cause="running requests are cut when a node leaves, or the target group refuses the attribute",
    fix="set deregistration_delay.timeout_seconds to the time of the longest request",
    url="https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-target-group-attributes.html",
    on=(TARGET_GROUP,),
    looks_at=("TargetGroupAttributes",),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        MetadataOptions: {HttpTokens: required}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 1
      MaxSize: 4
      HealthCheckType: ELB
      HealthCheckGracePeriod: 900
      TargetGroupARNs: [!Ref Servers]
      VPCZoneIdentifier: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
  Servers:
    Type: AWS::ElasticLoadBalancingV2::TargetGroup
    Properties:
      VpcId: vpc-0123456789abcdef0
      Protocol: HTTP
      Port: 8000
      TargetGroupAttributes:
        - {Key: deregistration_delay.timeout_seconds, Value: "0"}
  Balancer:
    Type: AWS::ElasticLoadBalancingV2::LoadBalancer
    Properties:
      Scheme: internal
      Subnets: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]
      LoadBalancerAttributes:
        - {Key: idle_timeout.timeout_seconds, Value: "600"}
  Listener:
    Type: AWS::ElasticLoadBalancingV2::Listener
    Properties:
      LoadBalancerArn: !Ref Balancer
      Port: 443
      Protocol: HTTPS
      Certificates: [{CertificateArn: "arn:aws:acm:us-east-1:111122223333:certificate/c-1"}]
      DefaultActions: [{Type: forward, TargetGroupArn: !Ref Servers}]
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.xlarge
        MetadataOptions: {HttpTokens: required}
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 1
      MaxSize: 4
      HealthCheckType: ELB
      HealthCheckGracePeriod: 900
      TargetGroupARNs: [!Ref Servers]
      VPCZoneIdentifier: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
  Servers:
    Type: AWS::ElasticLoadBalancingV2::TargetGroup
    Properties:
      VpcId: vpc-0123456789abcdef0
      Protocol: HTTP
      Port: 8000
      TargetGroupAttributes:
        - {Key: deregistration_delay.timeout_seconds, Value: "600"}
  Balancer:
    Type: AWS::ElasticLoadBalancingV2::LoadBalancer
    Properties:
      Scheme: internal
      Subnets: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]
      LoadBalancerAttributes:
        - {Key: idle_timeout.timeout_seconds, Value: "600"}
  Listener:
    Type: AWS::ElasticLoadBalancingV2::Listener
    Properties:
      LoadBalancerArn: !Ref Balancer
      Port: 443
      Protocol: HTTPS
      Certificates: [{CertificateArn: "arn:aws:acm:us-east-1:111122223333:certificate/c-1"}]
      DefaultActions: [{Type: forward, TargetGroupArn: !Ref Servers}]
""",
)
