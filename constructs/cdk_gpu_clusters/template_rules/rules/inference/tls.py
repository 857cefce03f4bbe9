"""Clients reach model servers over TLS from the internet."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.inference import TLS, check_tls
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.model_servers import (
    LISTENER,
    balancer_of,
    is_internet_facing,
    redirects,
)
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule


def _check(resource: Resource) -> Iterator[Fault]:
    if balancer_of(resource) is None:
        raise NotApplicable
    certificate = bool(resource.get("Certificates").items())
    protocol = resource.get("Protocol").text()
    if protocol not in ("HTTP", "HTTPS"):
        raise NotApplicable  # of a Network Load Balancer
    if redirects(resource) or not is_internet_facing(resource):
        return
    for finding in check_tls(
        has_certificate=certificate, plain_http=protocol == "HTTP", internet_facing=True
    ):
        yield Fault(
            at=resource.get("Protocol"),
            got=f"{protocol} from the internet",
            allowed="HTTPS",
            cause=finding.cause,
        )


RULE = TemplateRule(
    rule=TLS,
    severity=Severity.WARNING,
    cause="requests and answers cross the internet in clear text",
    fix="set Protocol to HTTPS with a certificate, or Scheme to internal",
    url="https://docs.aws.amazon.com/elasticloadbalancing/latest/application/create-https-listener.html",
    on=(LISTENER,),
    looks_at=(
        "Protocol",
        "Certificates",
        "AWS::ElasticLoadBalancingV2::LoadBalancer/Scheme",
    ),
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
      Subnets: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]
      LoadBalancerAttributes:
        - {Key: idle_timeout.timeout_seconds, Value: "600"}
  Listener:
    Type: AWS::ElasticLoadBalancingV2::Listener
    Properties:
      LoadBalancerArn: !Ref Balancer
      Port: 443
      Protocol: HTTP
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
