"""The load balancer of model servers stands in two zones."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.inference import BALANCER_ZONES, check_balancer_zones
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.model_servers import LOAD_BALANCER, serves_models
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    if not serves_models(resource):
        raise NotApplicable
    subnets = resource.get("Subnets")
    if not subnets.exists:
        raise NotApplicable  # SubnetMappings
    for finding in check_balancer_zones(len(subnets.items())):
        yield Fault(at=subnets, got=f"{finding.got} subnet", allowed="2 or more")


RULE = TemplateRule(
    rule=BALANCER_ZONES,
    severity=Severity.ERROR,
    cause="an Application Load Balancer needs subnets in two Availability Zones",
    fix="add a subnet in another zone; the nodes may stand in one",
    url="https://docs.aws.amazon.com/elasticloadbalancing/latest/application/application-load-balancers.html",
    on=(LOAD_BALANCER,),
    looks_at=("Subnets",),
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
      Subnets: [subnet-0123456789abcdef0]
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
