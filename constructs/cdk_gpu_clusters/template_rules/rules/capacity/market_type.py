"""The market type fits the reservation that is launched into."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import reservation_of, reservation_target
from cdk_gpu_clusters.template_rules.lookups.launches import LAUNCHES, launch_of
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

MARKET_TYPE = define_rule(
    "GPU-CAP-030",
    "the market type fits the reservation that is launched into",
    source='AWS EC2 user guide, "Launch instances using Capacity Blocks"; awslabs/awsome-distributed-ai 1258',
)


def _check(resource: Resource) -> Iterator[Fault]:
    launch = launch_of(resource)
    market = launch.data.get("InstanceMarketOptions", "MarketType")
    target = reservation_target(launch)
    if not (market.exists or target.exists):
        raise NotApplicable
    market_type = market.text()
    if market_type == "capacity-block" and not target.exists:
        yield Fault(
            at=market,
            got="capacity-block without a reservation",
            allowed="CapacityReservationTarget with the id of the block",
            cause="a launch into a Capacity Block names the block",
            fix="add CapacityReservationSpecification/CapacityReservationTarget/CapacityReservationId",
        )
    if market_type == "spot" and target.exists:
        yield Fault(
            at=market,
            got="spot with a reservation",
            allowed="one of the two",
            cause="spot instances are not launched into a reservation",
            fix="remove InstanceMarketOptions, or the reservation",
        )
    reservation = reservation_of(launch)
    if market_type == "capacity-block" and reservation is not None:
        yield Fault(
            at=market,
            got=f"capacity-block with {reservation.logical_id}, an On-Demand Capacity Reservation",
            allowed="no market type",
            cause="CloudFormation makes no Capacity Blocks: this reservation is launched into without a market type",
            fix="remove InstanceMarketOptions",
        )


RULE = TemplateRule(
    rule=MARKET_TYPE,
    severity=Severity.ERROR,
    cause="EC2 refuses a launch whose market type is not that of the reservation",
    fix="use capacity-block with the id of a Capacity Block, and no market type with an On-Demand Capacity Reservation",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-launch.html",
    on=LAUNCHES,
    looks_at=(
        "LaunchTemplateData/InstanceMarketOptions/MarketType",
        "LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget",
    ),
    check=_check,
    bad="""
Resources:
  Reserved:
    Type: AWS::EC2::CapacityReservation
    Properties:
      AvailabilityZone: us-east-1a
      InstanceCount: 2
      InstancePlatform: Linux/UNIX
      InstanceType: p5.48xlarge
      EndDateType: limited
      EndDate: "2026-12-15T11:30:00Z"
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        InstanceMarketOptions: {MarketType: capacity-block}
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: !Ref Reserved}
""",
    good="""
Resources:
  Reserved:
    Type: AWS::EC2::CapacityReservation
    Properties:
      AvailabilityZone: us-east-1a
      InstanceCount: 2
      InstancePlatform: Linux/UNIX
      InstanceType: p5.48xlarge
      EndDateType: limited
      EndDate: "2026-12-15T11:30:00Z"
  Nodes:
    Type: AWS::EC2::LaunchTemplate
    Properties:
      LaunchTemplateData:
        InstanceType: p5.48xlarge
        CapacityReservationSpecification:
          CapacityReservationTarget: {CapacityReservationId: !Ref Reserved}
""",
)
