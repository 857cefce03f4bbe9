"""What CloudWatch Logs refuses in the delivery of a service's logs beyond the schemas.

Sources, stored copies of 2026: CloudWatch Logs API model (botocore 1.44.5), PutDeliverySource (log types of each
service; it fails while the resource does not exist), PutDeliveryDestination, CreateDelivery (a pair of a source and a
destination once), DeleteDeliverySource and DeleteDeliveryDestination (not while a delivery is connected); AWS PCS user
guide, "Scheduler audit logs in AWS PCS" (from Slurm 25.11 on). Log types of other services are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..faults import Fault
from ..world import Json, Resource, Type, World
from .pcs_settings import version_of

_PCS_TYPES = ("PCS_SCHEDULER_LOGS", "PCS_JOBCOMP_LOGS", "PCS_SCHEDULER_AUDIT_LOGS")
_AUDIT, _AUDIT_SINCE = "PCS_SCHEDULER_AUDIT_LOGS", (25, 11)


def source_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::Logs::DeliverySource`."""
    arn, kind = properties.get("ResourceArn"), properties.get("LogType")
    if arn is None:
        yield Fault("delivery-source", "ResourceArn is required", "ResourceArn")
        return
    for other in world.of_type(Type.DELIVERY_SOURCE):
        if (other.properties.get("ResourceArn"), other.properties.get("LogType")) == (arn, kind):
            message = "This ResourceId has already been used in another Delivery Source in this account"
            message = f"ConflictException: {message}: {other.physical_id} delivers {kind} of {arn}"
            yield Fault("delivery-source", message, "LogType")
    if arn.split(":")[2:3] != ["pcs"]:
        return
    cluster = world.find(Type.PCS_CLUSTER, arn)
    if kind not in _PCS_TYPES:
        message = f"ValidationException: for PCS, the valid values are {', '.join(_PCS_TYPES)}, got {kind}"
        yield Fault("delivery-type", message, "LogType")
    elif cluster is None:
        message = f"ResourceNotFoundException: there is no cluster {arn}"
        yield Fault("delivery-resource", message, "ResourceArn")
    elif kind == _AUDIT and version_of(version := cluster.properties["Scheduler"]["Version"]) < _AUDIT_SINCE:
        message = f"{_AUDIT} needs Slurm 25.11 or later, and the cluster has {version}"
        yield Fault("delivery-type", message, "LogType")


def source_change_faults(_physical_id: str, old: Json, new: Json, _world: World) -> Iterator[Fault]:
    """Faults of a change in place of an `AWS::Logs::DeliverySource`."""
    if old.get("ResourceArn") != new.get("ResourceArn"):
        message = "Update to existing Delivery Source with new ResourceId is not allowed."
        yield Fault("delivery-source", f"{message} Please create a new Delivery Source instead.", "ResourceArn")


def destination_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::Logs::DeliveryDestination`."""
    arn = properties.get("DestinationResourceArn")
    if arn is None:
        if properties.get("DeliveryDestinationType") != "XRAY":
            yield Fault("delivery-destination", "DestinationResourceArn is required", "DestinationResourceArn")
        return
    service, name = arn.split(":")[2], arn.rpartition(":::")[2]
    if service == "logs" and not any(_is_group(one, arn) for one in world.of_type(Type.LOG_GROUP)):
        message = f"ResourceNotFoundException: there is no log group {arn}"
        yield Fault("delivery-resource", message, "DestinationResourceArn")
    if service == "s3" and world.region_of_bucket(name) is None:
        message = f"ResourceNotFoundException: there is no bucket {name}"
        yield Fault("delivery-resource", message, "DestinationResourceArn")


def _is_group(group: Resource, arn: str) -> bool:
    return str(group.attributes.get("Arn", "")).removesuffix(":*") == arn.removesuffix(":*")


def delivery_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::Logs::Delivery`."""
    source, destination = properties["DeliverySourceName"], properties["DeliveryDestinationArn"]
    if world.find(Type.DELIVERY_SOURCE, source) is None:
        message = f"ResourceNotFoundException: there is no delivery source {source}"
        yield Fault("delivery", message, "DeliverySourceName")
    if destination not in {one.attributes["Arn"] for one in world.of_type(Type.DELIVERY_DESTINATION)}:
        message = f"ResourceNotFoundException: there is no delivery destination {destination}"
        yield Fault("delivery", message, "DeliveryDestinationArn")
    for one in world.of_type(Type.DELIVERY):
        if (one.properties["DeliverySourceName"], one.properties["DeliveryDestinationArn"]) == (source, destination):
            yield Fault("delivery", f"ConflictException: {one.physical_id} delivers {source} there already")


def source_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::Logs::DeliverySource`."""
    yield from _connected(world, "DeliverySourceName", physical_id)


def destination_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::Logs::DeliveryDestination`."""
    found = world.find(Type.DELIVERY_DESTINATION, physical_id)
    yield from _connected(world, "DeliveryDestinationArn", found.attributes["Arn"] if found else "")


def _connected(world: World, name: str, value: str) -> Iterator[Fault]:
    for one in world.of_type(Type.DELIVERY):
        if one.properties[name] == value:
            message = f"ConflictException: the delivery {one.physical_id} is connected to {value}"
            yield Fault("delivery-in-use", message)
