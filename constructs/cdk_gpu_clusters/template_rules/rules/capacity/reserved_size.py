"""A reservation holds as many instances as its groups have nodes."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules.reservations import RESERVED_SIZE, check_reserved_use
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import RESERVATION, reservation_of
from cdk_gpu_clusters.template_rules.lookups.groups import most_nodes_of, users_of
from cdk_gpu_clusters.template_rules.lookups.launches import launches
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule, faults_of


def _check(resource: Resource) -> Iterator[Fault]:
    users = [
        user
        for launch in launches(resource.case)
        if reservation_of(launch) == resource
        for user in users_of(launch)
    ]
    if not users:
        raise NotApplicable
    count = resource.get("InstanceCount")
    kind = resource.get("InstanceType").text() or ""
    findings = check_reserved_use(
        reserved_type=kind,
        reserved_count=count.integer() or 0,
        instance_type=kind,
        node_count=sum(most_nodes_of(user) for user in users),
    )
    yield from faults_of(RESERVED_SIZE, findings, count, own_fix=True)


RULE = TemplateRule(
    rule=RESERVED_SIZE,
    severity=Severity.ERROR,
    cause="launches beyond the reservation fail",
    fix="raise InstanceCount, or lower the greatest sizes of the groups",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-reservations.html",
    on=(RESERVATION,),
    looks_at=(
        "InstanceCount",
        "greatest size of the resources that launch into it",
    ),
    check=_check,
    bad="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.48xlarge
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: !Ref Reserved}
  Reserved:
    Type: AWS::EC2::CapacityReservation
    Properties:
      AvailabilityZone: us-east-1a
      InstanceCount: 4
      InstancePlatform: Linux/UNIX
      InstanceType: g6.48xlarge
      EndDateType: limited
      EndDate: "2026-12-31T00:00:00Z"
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 5
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
    good="""
Resources:
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: g6.48xlarge
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: !Ref Reserved}
  Reserved:
    Type: AWS::EC2::CapacityReservation
    Properties:
      AvailabilityZone: us-east-1a
      InstanceCount: 4
      InstancePlatform: Linux/UNIX
      InstanceType: g6.48xlarge
      EndDateType: limited
      EndDate: "2026-12-31T00:00:00Z"
  Group:
    Type: AWS::AutoScaling::AutoScalingGroup
    Properties:
      MinSize: 0
      MaxSize: 4
      VPCZoneIdentifier: [subnet-0123456789abcdef0]
      LaunchTemplate: {LaunchTemplateId: !Ref Nodes, Version: !GetAtt Nodes.LatestVersionNumber}
""",
)
