"""The load balancer of model servers says how long it waits."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.model_servers import LOAD_BALANCER, attribute_of, serves_models
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

SAID = define_rule(
    "GPU-INF-031",
    "a load balancer of model servers says how long it waits for data",
    source="Elastic Load Balancing user guide for Application Load Balancers, idle_timeout: 60 by default",
)


def _check(resource: Resource) -> Iterator[Fault]:
    if not serves_models(resource):
        raise NotApplicable
    if attribute_of(resource, "LoadBalancerAttributes", "idle_timeout.timeout_seconds") is None:
        at = resource.get("LoadBalancerAttributes")
        yield Fault(at=at, got="no idle_timeout.timeout_seconds", allowed="longer than the longest answer")


RULE = TemplateRule(
    rule=SAID,
    severity=Severity.WARNING,
    cause="the default of 60 seconds cuts answers that take longer: the client gets 504",
    fix="add idle_timeout.timeout_seconds, above the longest time in which a server sends nothing",
    url="https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html",
    on=(LOAD_BALANCER,),
    looks_at=("LoadBalancerAttributes",),
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
        - {Key: deregistration_delay.timeout_seconds, Value: "600"}
  Balancer:
    Type: AWS::ElasticLoadBalancingV2::LoadBalancer
    Properties:
      Scheme: internal
      Subnets: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]
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
