"""A group of reservations can be targeted, and takes reservations only."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity, define_rule
from cdk_gpu_clusters.template_rules.case import Resource
from cdk_gpu_clusters.template_rules.lookups.capacity import reservation_target
from cdk_gpu_clusters.template_rules.lookups.launches import launches
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, TemplateRule

RESERVATION_POOL = define_rule(
    "GPU-CAP-034",
    "a group of reservations is a pool of reservations, and takes nothing else",
    source='AWS EC2 user guide, "Capacity Reservation Resource Groups", create a group',
)
_POOL = "AWS::EC2::CapacityReservationPool"
_ONLY = "AWS::ResourceGroups::Generic"


def _check(resource: Resource) -> Iterator[Fault]:
    configuration = resource.get("Configuration")
    types = {item.get("Type").text() for item in configuration.items()}
    if _POOL not in types and not _is_targeted(resource):
        raise NotApplicable
    for needed in (_POOL, _ONLY):
        if needed not in types:
            yield Fault(at=configuration, got=f"no {needed}", allowed=f"{_POOL} and {_ONLY}")


def _is_targeted(group: Resource) -> bool:
    return any(
        group.is_target_of(reservation_target(launch).get("CapacityReservationResourceGroupArn"))
        for launch in launches(group.case)
    )


RULE = TemplateRule(
    rule=RESERVATION_POOL,
    severity=Severity.ERROR,
    cause="EC2 launches only into a resource group that is configured as a pool of reservations",
    fix="add both types to Configuration, the second with allowed-resource-types AWS::EC2::CapacityReservation",
    url="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/cr-groups-create.html",
    on=("AWS::ResourceGroups::Group",),
    looks_at=(
        "Configuration/*/Type",
        "LaunchTemplateData/CapacityReservationSpecification/CapacityReservationTarget",
    ),
    check=_check,
    bad="""
Resources:
  Pool:
    Type: AWS::ResourceGroups::Group
    Properties:
      Name: racks
      Configuration:
        - Type: AWS::EC2::CapacityReservationPool
""",
    good="""
Resources:
  Pool:
    Type: AWS::ResourceGroups::Group
    Properties:
      Name: racks
      Configuration:
        - Type: AWS::EC2::CapacityReservationPool
        - Type: AWS::ResourceGroups::Generic
          Parameters:
            - {Name: allowed-resource-types, Values: [AWS::EC2::CapacityReservation]}
""",
)
