"""Nodes of model servers get time to boot before they are judged."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.groups import AUTO_SCALING_GROUP, launch_of_group
from cdk_gpu_clusters.template_rules.lookups.launches import accelerated_launch, values_at
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

TIME_TO_BOOT = define_rule(
    "GPU-INF-030",
    "a group with health checks of a load balancer gives GPU nodes time to boot",
    source="EC2 Auto Scaling guide, health check grace period: 0 by default in CloudFormation",
)
_LAUNCHING = "autoscaling:EC2_INSTANCE_LAUNCHING"


def _check(resource: Resource) -> Iterator[Fault]:
    if resource.get("HealthCheckType").text() != "ELB":
        raise NotApplicable
    accelerated_launch(launch_of_group(resource).resource)
    grace = resource.get("HealthCheckGracePeriod")
    hooks = values_at(resource.properties, "LifecycleHookSpecificationList/*/LifecycleTransition")
    if not grace.integer() and not any(hook.text() == _LAUNCHING for hook in hooks):
        yield Fault(
            at=grace, got="no HealthCheckGracePeriod", allowed="more than a boot takes, or a launch hook"
        )


RULE = TemplateRule(
    rule=TIME_TO_BOOT,
    severity=Severity.WARNING,
    cause="nodes are replaced while they load the driver and the model, for ever, at full price",
    fix="set HealthCheckGracePeriod above the time of a boot, or let a launch lifecycle hook wait for the node",
    url="https://docs.aws.amazon.com/autoscaling/ec2/userguide/health-check-grace-period.html",
    on=(AUTO_SCALING_GROUP,),
    looks_at=(
        "HealthCheckType",
        "HealthCheckGracePeriod",
        "LifecycleHookSpecificationList",
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
