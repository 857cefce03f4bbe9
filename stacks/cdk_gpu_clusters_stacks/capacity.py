"""The reservation of a fleet, in a stack of its own: it outlives the fleet's redeploys."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from cdk_gpu_clusters.capacity.capacity import Capacity
from cdk_gpu_clusters.capacity.capacity_reservation import CapacityReservation, InstanceMatchCriteria
from cdk_gpu_clusters.capacity.placement_group import ClusterPlacementGroup
from cdk_gpu_clusters.rules.placement import GroupOrigin
from cdk_gpu_clusters_stacks.references import publish, read
from cdk_gpu_clusters_stacks.spec.capacity import NewReservationOptions, capacity_terms, placement_group_of
from cdk_gpu_clusters_stacks.spec.fleet import NodesSpec
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet
from cdk_gpu_clusters_stacks.stack_names import capacity_stack


class CapacityStack(cdk.Stack):
    """An On-Demand Capacity Reservation inside its cluster placement group, if the fleet has EFA."""

    def __init__(
        self,
        scope: Construct,
        cluster: ClusterSpec,
        fleet: PlannedFleet,
        options: NewReservationOptions,
        *,
        env: cdk.Environment,
    ) -> None:
        name = capacity_stack(cluster.name, fleet.name)
        super().__init__(
            scope,
            name,
            env=env,
            description="Reserved capacity of a GPU fleet",
            termination_protection=cluster.termination_protection,
        )
        placed = fleet.plan.placement.origin is GroupOrigin.RESERVATION
        group = ClusterPlacementGroup(self, "Placement") if placed else None
        reservation = CapacityReservation(
            self,
            "Reservation",
            instance_type=fleet.spec.instance_type,
            instance_count=fleet.spec.maximum_nodes,
            availability_zone=cluster.network.availability_zone,
            ends_at=options.end_date,
            unlimited=options.unlimited,
            instance_match_criteria=InstanceMatchCriteria(options.match),
            placement_group=group,
        )
        for key, value in fleet.spec.tags.items():
            cdk.Tags.of(self).add(key, value)
        publish(self, "ReservationId", reservation.reservation_id, description="Reservation of the fleet")
        self._placed, self._ends_at = group is not None, options.end_date
        if group is not None:
            publish(
                self,
                "PlacementGroupName",
                group.placement_group_name,
                description="Group that it was made in",
            )

    def import_into(self, reader: cdk.Stack) -> Capacity:
        """The reservation and its group, for a stack that launches into them."""
        return Capacity.from_reservation_id(
            read(reader, self, "ReservationId"),
            placement_group=_import_group(reader, read(reader, self, "PlacementGroupName")) if self._placed else None,
            ends_at=self._ends_at,
        )


def existing_capacity(reader: cdk.Stack, fleet: NodesSpec) -> Capacity:
    """The capacity of a fleet that makes no reservation here."""
    group = _import_group(reader, placement_group_of(fleet.capacity))
    return Capacity(terms=capacity_terms(fleet.capacity), placement_group=group)


def _import_group(reader: cdk.Stack, name: str | None) -> ec2.IPlacementGroup | None:
    if name is None:
        return None
    return ec2.PlacementGroup.from_placement_group_name(reader, "ReservationPlacement", name)
