"""On-Demand Capacity Reservations made here, and references to existing ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_resourcegroups as resourcegroups
from constructs import Construct, IConstruct

from cdk_gpu_clusters._accepted import SILENT_ALARM
from cdk_gpu_clusters._cdk import (
    ClusterConstruct,
    DefinedResources,
    arn_of,
    define,
    errors_at,
    path_of,
    region_of,
    report,
    resolved_or_none,
    stack_of,
)
from cdk_gpu_clusters._template import Resources
from cdk_gpu_clusters._values import takes_values
from cdk_gpu_clusters.capacity._reservation_in_group import reservation_in_group
from cdk_gpu_clusters.capacity.placement_group import placement_group_arn, strategy_of
from cdk_gpu_clusters.catalogue import instance_type as catalogue_type
from cdk_gpu_clusters.rules.capacity import RESERVATION, parse_instant
from cdk_gpu_clusters.rules.capacity_checks import check_new_reservation, check_unused_alarm
from cdk_gpu_clusters.rules.zones import check_zone, read_zone

if TYPE_CHECKING:
    from aws_cdk import aws_cloudwatch as cloudwatch

_NAMESPACE = "AWS/EC2CapacityReservations"
_AVAILABLE = "AvailableInstanceCount"
_RESERVATION, _IN_GROUP, _ALARM = "Resource", "InGroup", "Unused/Resource"


@cache
def _minutes(minutes: int) -> cdk.Duration:
    return cdk.Duration.minutes(minutes)


class InstanceMatchCriteria(str, Enum):
    """Which launches consume a reservation; the values are CloudFormation's."""

    TARGETED = "targeted"
    OPEN = "open"


@jsii.implements(cdk.ITaggable)
class CapacityReservation(ClusterConstruct):
    """An On-Demand Capacity Reservation: instances of one type, in one zone, billed whether used or not.

    Makes one `AWS::EC2::CapacityReservation` and an alarm for reserved instances that are unused. A reservation for
    nodes that exchange EFA traffic is made inside their cluster placement group: one made outside cannot be launched
    into it completely. CloudFormation cannot be relied on to make that one, so a function of AWS Lambda does, with the
    EC2 API (`docs/capacity.md`). Deleting the stack cancels the reservation: a retained one bills without end.

    Future-dated reservations and Capacity Blocks have no CloudFormation resource: give their ids to `Capacity`.

    Source: AWS EC2 user guide, "On-Demand Capacity Reservations"; CloudFormation schema of 2026-10-20.

    Example:
        >>> group = ClusterPlacementGroup(stack, "Placement")
        >>> reservation = CapacityReservation(
        ...     stack, "Reservation", instance_type="p4d.24xlarge", instance_count=4,
        ...     availability_zone="us-east-1a", placement_group=group, ends_at="2027-01-31T00:00Z",
        ... )

    Attributes:
        reservation_id: `cr-…`, known at deployment.
        placement_group: The group that it was made in, or None.
        ends_at: When EC2 cancels it, or None.
        unused_alarm: Alarm for unused instances, or None if switched off.
    """

    _resource: cdk.CfnResource | None = None

    @takes_values
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        instance_type: str,
        instance_count: int,
        availability_zone: str,
        ends_at: str | datetime | None = None,
        unlimited: bool = False,
        instance_match_criteria: InstanceMatchCriteria = InstanceMatchCriteria.TARGETED,
        placement_group: ec2.IPlacementGroup | None = None,
        unused_alarm: bool = True,
        unused_alarm_after: cdk.Duration | None = None,
    ) -> None:
        """Define the reservation.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            instance_type: Type, such as `p4d.24xlarge`. A change replaces the reservation.
            instance_count: Instances, 1 to 1000; can change in place.
            availability_zone: Zone name or zone id. A change replaces the reservation.
            ends_at: ISO 8601 instant or aware datetime at which EC2 cancels it (within the hour after).
            unlimited: Say that it shall bill until its stack is deleted; excludes `ends_at`.
            instance_match_criteria: `TARGETED` (default): only launches that name it; `OPEN`: any matching launch.
            placement_group: Cluster placement group to make it in; none if left out. A change replaces it.
            unused_alarm: Whether to define an alarm for unused instances.
            unused_alarm_after: How long instances may be unused before it fires, 5 minutes to 7 days; 1 hour if
                left out.

        Raises:
            ConfigError: The faults of count, end, placement and zone at once; GPU-CAP-015, GPU-INST-001 or -002.
        """
        super().__init__(scope, construct_id)
        with errors_at(self):
            record = catalogue_type(instance_type)
            end = None if ends_at is None else parse_instant(ends_at, name="ends_at")
        strategy = None if placement_group is None else strategy_of(placement_group)
        after = 60 if unused_alarm_after is None else int(unused_alarm_after.to_minutes())
        findings = check_new_reservation(
            instance_count=resolved_or_none(instance_count) or 0,
            ends_at=end,
            unlimited=unlimited,
            placement=strategy,
            instance_type=record,
        )
        findings += check_unused_alarm(after)
        zone_name = resolved_or_none(availability_zone)
        if zone_name is not None:
            findings += check_zone(resolved_or_none(region_of(stack_of(self))), zone_name, record)
        report(self, findings)
        zone = None if zone_name is None else read_zone(zone_name)
        by_id = zone is not None and zone.is_id
        properties = {
            "InstanceType": instance_type,
            "InstanceCount": instance_count,
            "InstancePlatform": "Linux/UNIX",
            "AvailabilityZone": None if by_id else availability_zone,
            "AvailabilityZoneId": availability_zone if by_id else None,
            "EndDateType": "unlimited" if end is None else "limited",
            "EndDate": None if end is None else end.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "InstanceMatchCriteria": instance_match_criteria.value,
        }
        self.instance_type: str = instance_type
        self.instance_count: int = instance_count
        self.ends_at: datetime | None = end
        self.availability_zone: str = availability_zone
        self.placement_group: ec2.IPlacementGroup | None = placement_group
        self._tags = self._named_tags()
        self.reservation_id: str = (
            self._alone(properties) if placement_group is None else self._in_group(properties, placement_group)
        )
        self._read_node_anew()
        self.unused_alarm: cloudwatch.Alarm | None = self._alarm(after) if unused_alarm else None

    @property
    @jsii.member(jsii_name="tags")
    def tags(self) -> cdk.TagManager:
        """Tags of the reservation, which is billed whether used or not; filled by `Tags.of(scope).add(...)`."""
        return self._tags

    @property
    def reservation_arn(self) -> str:
        """ARN of the reservation."""
        return arn_of(self, "ec2", f"capacity-reservation/{self.reservation_id}")

    def metric(
        self, metric_name: str, *, statistic: str = "Average", period: cdk.Duration | None = None
    ) -> cloudwatch.Metric:
        """A metric of this reservation.

        Args:
            metric_name: Name in the namespace AWS/EC2CapacityReservations.
            statistic: CloudWatch statistic.
            period: 5 minutes if left out, the interval at which EC2 sends them.
        """
        from aws_cdk import aws_cloudwatch as cloudwatch

        return cloudwatch.Metric(
            namespace=_NAMESPACE,
            metric_name=metric_name,
            dimensions_map={"CapacityReservationId": self.reservation_id},
            statistic=statistic,
            period=period or _minutes(5),
        )

    def metric_available_instances(self) -> cloudwatch.Metric:
        """Reserved instances that are unused, and are paid for."""
        return self.metric("AvailableInstanceCount")

    def metric_used_instances(self) -> cloudwatch.Metric:
        """Reserved instances that run."""
        return self.metric("UsedInstanceCount")

    def metric_instance_utilization(self) -> cloudwatch.Metric:
        """Percentage of the reserved instances that run."""
        return self.metric("InstanceUtilization")

    def _main_resource(self) -> IConstruct | None:
        return self._resource

    def _named_tags(self) -> cdk.TagManager:
        name = path_of(self)
        if self.placement_group is None:
            return cdk.TagManager(cdk.TagType.STANDARD, RESERVATION, [{"key": "Name", "value": name}])
        return cdk.TagManager(cdk.TagType.MAP, RESERVATION, {"Name": name})

    def _alone(self, properties: dict[str, Any]) -> str:
        tags = [{"ResourceType": "capacity-reservation", "Tags": {"Ref": "Tags"}}]
        resource = {"Type": RESERVATION, "Properties": {**properties, "TagSpecifications": tags}}
        made: ec2.CfnCapacityReservation = self._defined({_RESERVATION: resource}).resource(_RESERVATION)
        self._resource = made
        return made.attr_id

    def _in_group(self, properties: dict[str, Any], group: ec2.IPlacementGroup) -> str:
        properties = {**properties, "PlacementGroupArn": placement_group_arn(self, group), "Tags": {"Ref": "Tags"}}
        resource = reservation_in_group(self, properties)
        made: cdk.CfnResource = self._defined({_IN_GROUP: resource}).resource(_IN_GROUP)
        self._resource = made
        return made.ref

    def _defined(self, resources: Resources) -> DefinedResources:
        return define(self, resources, values={"Tags": self._tags.rendered_tags})

    def _alarm(self, minutes: int) -> cloudwatch.Alarm:
        from aws_cdk import aws_cloudwatch as cloudwatch  # takes long to load

        period = _period_minutes(minutes)
        alarm = cloudwatch.Alarm(
            self,
            "Unused",
            metric=self.metric(_AVAILABLE, statistic="Minimum", period=_minutes(period)),
            threshold=0,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=minutes // period,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=self._unused_for(minutes),
        )
        SILENT_ALARM.at(alarm)
        return alarm

    def _unused_for(self, minutes: int) -> str:
        return f"Reserved {self.instance_type} instances were unused for {minutes} minutes"


def _period_minutes(minutes: int) -> int:
    """The period of an alarm. Periods under an hour look back one day at most."""
    return 5 if minutes <= 24 * 60 else 60


class CapacityReservationGroup(ClusterConstruct):
    """A resource group of Capacity Reservations, so that several can be targeted as one.

    Makes one `AWS::ResourceGroups::Group` with the configuration that EC2 asks for
    (`AWS::EC2::CapacityReservationPool`).

    Source: AWS EC2 user guide, "Launch into a Capacity Reservation group".

    Example:
        >>> members = [
        ...     CapacityReservation(
        ...         stack,
        ...         name,
        ...         instance_type="p5.48xlarge",
        ...         instance_count=2,
        ...         availability_zone="us-east-1a",
        ...         unlimited=True,
        ...     )
        ...     for name in ("First", "Second")
        ... ]
        >>> pool = CapacityReservationGroup(stack, "Pool", name="p5-pool", reservations=members)

    Attributes:
        resource_group_arn: ARN to give to `Capacity.from_reservation_group_arn`.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, reservations: Sequence[CapacityReservation]
    ) -> None:
        """Define the group.

        Args:
            scope: Parent construct.
            construct_id: Id in the scope.
            name: Name of the resource group, unique in account and Region. A change replaces it.
            reservations: Its members.
        """
        super().__init__(scope, construct_id)
        members = [reservation.reservation_arn for reservation in reservations]
        self._resource = reservation_pool(self, "Resource", name=name, reservation_arns=members)
        self.resource_group_arn: str = self._resource.attr_arn


def reservation_pool(
    scope: Construct, construct_id: str, *, name: str, reservation_arns: Sequence[str]
) -> resourcegroups.CfnGroup:
    """Define a resource group of Capacity Reservations as EC2 asks for it.

    Args:
        scope: Parent construct.
        construct_id: Id in the scope.
        name: Its name, unique in account and Region.
        reservation_arns: Its members.
    """
    properties = resourcegroups.CfnGroup
    return resourcegroups.CfnGroup(
        scope,
        construct_id,
        name=name,
        configuration=[
            properties.ConfigurationItemProperty(type="AWS::EC2::CapacityReservationPool"),
            properties.ConfigurationItemProperty(
                type="AWS::ResourceGroups::Generic",
                parameters=[
                    properties.ConfigurationParameterProperty(
                        name="allowed-resource-types", values=["AWS::EC2::CapacityReservation"]
                    )
                ],
            ),
        ],
        resources=list(reservation_arns),
    )
