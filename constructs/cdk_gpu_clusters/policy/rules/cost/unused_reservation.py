"""A reservation has an end, or an alarm that tells that its instances stand unused."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.policy.case import Resource
from cdk_gpu_clusters.policy.lookups.reservations import RESERVATION
from cdk_gpu_clusters.policy.rule import Fault, TemplateRule

UNUSED_RESERVATION = define_rule(
    "GPU-COST-002",
    "a reservation has an end, or an alarm that tells that its instances stand unused",
    source='AWS EC2 user guide, "Monitor Capacity Reservations usage with CloudWatch metrics"',
)
_NAMESPACE = "AWS/EC2CapacityReservations"


def _check(resource: Resource) -> Iterator[Fault]:
    if resource.get("EndDateType").text() != "unlimited":
        return
    alarms = resource.case.resources("AWS::CloudWatch::Alarm")
    if not any(_watches(alarm, resource) for alarm in alarms):
        yield Fault(
            at=resource,
            got="no alarm",
            allowed="an alarm of AvailableInstanceCount, or of InstanceUtilization",
        )


def _watches(alarm: Resource, reservation: Resource) -> bool:
    """Whether an alarm is about a reservation, or about all of the account."""
    dimensions = alarm.get("Dimensions").items()
    of_reservations = alarm.get("Namespace").template_text() == _NAMESPACE
    named = [one.get("Value") for one in dimensions]
    return of_reservations and (not named or any(reservation.is_target_of(value) for value in named))


RULE = TemplateRule(
    rule=UNUSED_RESERVATION,
    severity=Severity.INFO,
    cause="a reservation without an end bills its full price while instances stand unused, and nothing tells",
    fix="add an AWS::CloudWatch::Alarm of AvailableInstanceCount in AWS/EC2CapacityReservations",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservation-cw-metrics.html",
    on=(RESERVATION,),
    looks_at=(
        "EndDateType",
        "AWS::CloudWatch::Alarm/Namespace",
        "AWS::CloudWatch::Alarm/Dimensions",
    ),
    check=_check,
    bad="""
Resources:
  Reserved:
    Type: AWS::EC2::CapacityReservation
    Properties:
      AvailabilityZone: us-east-1a
      InstanceCount: 4
      InstancePlatform: Linux/UNIX
      InstanceType: p4d.24xlarge
      EndDateType: unlimited
""",
    good="""
Resources:
  Reserved:
    Type: AWS::EC2::CapacityReservation
    Properties:
      AvailabilityZone: us-east-1a
      InstanceCount: 4
      InstancePlatform: Linux/UNIX
      InstanceType: p4d.24xlarge
      EndDateType: unlimited
  Unused:
    Type: AWS::CloudWatch::Alarm
    Properties:
      Namespace: AWS/EC2CapacityReservations
      MetricName: AvailableInstanceCount
      Dimensions: [{Name: CapacityReservationId, Value: !GetAtt Reserved.Id}]
      Statistic: Minimum
      Period: 300
      EvaluationPeriods: 12
      Threshold: 0
      ComparisonOperator: GreaterThanThreshold
""",
)
