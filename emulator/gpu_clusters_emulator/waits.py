"""What CloudFormation waits for, and what it makes at the same time as something else.

CloudFormation makes resources that do not depend on each other side by side, and so it does with stacks. Here they are
made one after another, so two of them that some services refuse together are found by their dependencies: whatever may
be made at the same time is taken to be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import pcs
from .faults import Fault, Refused
from .host import Handler, Host
from .timeline import move_clock
from .world import Json, Resource, Type

_ENDS = ("DeliverySourceName", "DeliveryDestinationArn")


def waiting(type_name: str, handler: Handler, host: Host) -> Handler:
    """A handler that lets time pass, and that refuses what is made beside another, for the types that need it."""
    if type_name in _ALONE:
        handler = _alone(type_name, handler, host)
    return _timed(type_name, handler, host) if type_name in pcs.TYPES else handler


def _timed(type_name: str, own: Handler, host: Host) -> Handler:
    """Let the time pass that AWS PCS takes; CloudFormation waits until a resource is there, and until it is gone."""

    def wait(made: tuple[str, Json]) -> tuple[str, Json]:
        world = host.here()
        resource = world.find(type_name, made[0])
        if resource is not None and pcs.ready_at(resource) > world.clock.now():
            move_clock(world, pcs.ready_at(resource))
        return made

    def create(*given: Any) -> tuple[str, Json]:
        return wait(own["create"](*given))

    def update(*given: Any) -> tuple[str, Json]:
        return wait(own["update"](*given))

    def delete(*given: Any) -> None:
        own["delete"](*given)
        move_clock(host.here(), host.here().clock.now() + pcs.deletion_time())

    return {**own, "create": create, "update": update, "delete": delete}


def _alone(type_name: str, own: Handler, host: Host) -> Handler:
    """Refuse a resource beside another that is made in the same operation, and that it does not depend on."""

    def create(logical_id: str, given: Json, stack_name: str) -> tuple[str, Json]:
        world = host.here()
        for other in world.of_type(type_name):
            present = other.settings.get("Operation")
            if not present or other.region != world.region or present != host.operation(other.stack_name):
                continue
            if other.stack_name != stack_name or not host.follows(stack_name, logical_id, other.logical_id):
                _ALONE[type_name](logical_id, given, other)
        made: tuple[str, Json] = own["create"](logical_id, given, stack_name)
        world.resources[f"{type_name} {made[0]}"].settings["Operation"] = host.operation(stack_name)
        return made

    return {**own, "create": create}


def _refuse_cluster(logical_id: str, _given: Json, other: Resource) -> None:
    """PCS API model (botocore 1.44.5), CreateCluster: one cluster in a Creating state per Region and account."""
    raise pcs.quota_refusal(logical_id, other)


def _refuse_delivery(logical_id: str, given: Json, other: Resource) -> None:
    """Deliveries that share an end are made one after another: hashicorp/terraform-provider-aws issue 42194."""
    shared = [name for name in _ENDS if given[name] == other.properties[name]]
    if shared:
        message = (
            f"ConflictException: Requested resource is currently being updated: {other.logical_id} has the same "
            f"{' and '.join(shared)}, and neither depends on the other"
        )
        raise Refused(f"{Type.DELIVERY} {logical_id}", [Fault("delivery-beside", message, shared[0])])


#: Types of which not every two may be made at the same time.
_ALONE: Mapping[str, Callable[[str, Json, Resource], None]] = {
    Type.DELIVERY: _refuse_delivery,
    Type.PCS_CLUSTER: _refuse_cluster,
}
