"""Create, update and delete the resource types that this library models, and every type the engine lacks.

A type without a special case gets what its registry schema says: `Ref` is the primary identifier, read-only
properties get made-up values, a change of a create-only property replaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from . import fleets, node_groups
from .attributes import Birth, special_attributes
from .clock import format_time
from .faults import Fault, Refused
from .models.file_systems import REPLACING, configuration
from .models.load_balancers import settings_after
from .schemas import ResourceSchema, resource_schema
from .template_versions import add_version, first_version
from .world import (
    AUTO_SCALING_GROUP,
    CAPACITY_RESERVATION,
    CLUSTER,
    FILE_SYSTEM,
    LAUNCH_TEMPLATE,
    LISTENER,
    LISTENER_RULE,
    LOAD_BALANCER,
    NODE_GROUP,
    SCALING_POLICY,
    TARGET_GROUP,
    Json,
    Resource,
    World,
)

MODELLED_TYPES = frozenset(
    {
        LAUNCH_TEMPLATE,
        CAPACITY_RESERVATION,
        AUTO_SCALING_GROUP,
        CLUSTER,
        LISTENER,
        LISTENER_RULE,
        LOAD_BALANCER,
        NODE_GROUP,
        SCALING_POLICY,
        TARGET_GROUP,
        "AWS::EC2::PlacementGroup",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
        "AWS::AutoScaling::LifecycleHook",
        "AWS::AutoScaling::ScheduledAction",
        "AWS::AutoScaling::WarmPool",
    }
)
_PREFIXES: Mapping[str, str] = {
    LAUNCH_TEMPLATE: "lt-",
    CAPACITY_RESERVATION: "cr-",
    "AWS::EC2::EIP": "eipalloc-",
    "AWS::EC2::FlowLog": "fl-",
    "AWS::EC2::NatGateway": "nat-",
    "AWS::EC2::SecurityGroupEgress": "sgr-",
    "AWS::EC2::SecurityGroupIngress": "sgr-",
    "AWS::FSx::DataRepositoryAssociation": "dra-",
    "AWS::FSx::FileSystem": "fs-",
}
_REF: Mapping[str, str] = {"AWS::EC2::EIP": "PublicIp"}


def create(
    world: World,
    type_name: str,
    logical_id: str,
    properties: Json,
    stack_name: str,
    *,
    update_policy: Json | None = None,
) -> Resource:
    """Make a resource and record it; the checks have run."""
    schema = resource_schema(type_name, world.region)
    if schema is None:
        raise Refused(type_name, [Fault(check="type", message="the registry has no such type")])
    attributes = _attributes(world, schema, logical_id, properties, stack_name)
    physical_id = _physical_id(schema, attributes, properties)
    resource = Resource(
        type=type_name,
        logical_id=logical_id,
        physical_id=physical_id,
        stack_name=stack_name,
        region=world.region,
        properties=properties,
        attributes=attributes,
        answered_by="model",
        update_policy=update_policy or {},
    )
    if world.find(type_name, physical_id) is not None:
        raise Refused(type_name, [Fault(check="exists", message=f"{physical_id!r} already exists")])
    _CREATED.get(type_name, _nothing)(world, resource)
    world.add(resource)
    _STARTED.get(type_name, _nothing)(world, resource)
    return resource


def replaces(type_name: str, old: Json, new: Json) -> bool:
    """Whether an update from `old` to `new` replaces the resource.

    Raises:
        Refused: If it would, and the resource has a name of its own that stays the same.
    """
    schema = resource_schema(type_name)
    if schema is None:
        return False
    changed = [name for name in schema.create_only_names if old.get(name) != new.get(name)]
    changed += _changed_inside(type_name, old, new)
    kept = [name for name in schema.primary_identifier if name in old and old.get(name) == new.get(name)]
    if changed and kept and len(kept) == len(schema.primary_identifier):
        raise Refused(
            type_name,
            [
                Fault(
                    check="custom-name",
                    message="CloudFormation cannot update a stack when a custom-named resource requires replacing: "
                    f"{', '.join(changed)} changed and {old[kept[0]]!r} did not",
                )
            ],
        )
    return bool(changed)


def may_replace(type_name: str, name: str) -> bool:
    """Whether a change of a property replaces the resource under conditions that its schema does not name."""
    return type_name == FILE_SYSTEM and name in ("LustreConfiguration", *REPLACING)


def _changed_inside(type_name: str, old: Json, new: Json) -> list[str]:
    """Changed properties that replace the resource and stand inside others, or that its schema does not name."""
    if type_name != FILE_SYSTEM:
        schema = resource_schema(type_name)
        paths = schema.create_only if schema else ()
        return [path for path in paths if "." in path and _inside(old, path) != _inside(new, path)]
    before, after = {**old, **configuration(old)}, {**new, **configuration(new)}
    return sorted(name for name in REPLACING if before.get(name) != after.get(name))


def _inside(properties: Json, path: str) -> object:
    found: object = properties
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def update(world: World, resource: Resource, properties: Json, *, update_policy: Json | None = None) -> None:
    """Change a resource in place; the checks have run."""
    resource.properties, resource.update_policy = properties, update_policy or {}
    _UPDATED.get(resource.type, _nothing)(world, resource)


def delete(world: World, type_name: str, physical_id: str) -> None:
    """Remove a resource; the checks have run."""
    resource = world.find(type_name, physical_id)
    if type_name == AUTO_SCALING_GROUP:
        world.groups.pop(physical_id, None)
    elif type_name == NODE_GROUP and resource is not None:
        node_groups.end(world, resource)
    world.remove(type_name, physical_id)


def _nothing(_world: World, _resource: Resource) -> None:
    return None


def _physical_id(schema: ResourceSchema, attributes: Json, properties: Json) -> str:
    if schema.type_name in _REF:
        return str(attributes[_REF[schema.type_name]])
    parts = [attributes.get(name) or properties.get(name) or "" for name in schema.primary_identifier]
    return "|".join(str(part) for part in parts)


def _attributes(world: World, schema: ResourceSchema, logical_id: str, given: Json, stack_name: str) -> Json:
    seed = f"{stack_name}/{logical_id}/{schema.type_name}"
    identifier = world.new_id(_PREFIXES.get(schema.type_name, ""), seed)
    name = f"{stack_name}-{logical_id}-{world.new_id('', seed + '/name', 12).upper()}"
    arn = world.arn(*_arn_parts(schema.type_name, identifier))
    attributes: Json = {}
    for path in schema.read_only:
        _place(attributes, path, _made_up(path, identifier, name, arn))
    for path in schema.primary_identifier:  # a name that the template leaves to CloudFormation
        if path not in attributes:
            attributes[path] = given.get(path) or _made_up(path, identifier, name, arn)
    birth = Birth(
        world=world, stack_name=stack_name, logical_id=logical_id, identifier=identifier, given=given
    )
    return attributes | special_attributes(schema.type_name, birth)


def _place(attributes: Json, path: str, value: object) -> None:
    *parents, leaf = path.split(".")
    if "*" in path:
        return
    attributes[path] = value  # GetAtt on a nested attribute uses the dotted form
    for parent in parents:
        if not isinstance(attributes.get(parent), dict):  # it was named before what is inside it
            attributes[parent] = {}
        attributes = attributes[parent]
    attributes[leaf] = value


def _arn_parts(type_name: str, identifier: str) -> tuple[str, str]:
    _, service, kind = type_name.split("::")
    dashed = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind).lower()
    return service.lower(), f"{dashed}/{identifier}"


def _made_up(path: str, identifier: str, name: str, arn: str) -> str:
    leaf = path.rsplit(".", 1)[-1].lower()
    if leaf.endswith("arn"):
        return arn
    if leaf.endswith("id"):
        return identifier
    if leaf.endswith("name"):
        return name
    if leaf.endswith("ip"):
        return f"203.0.113.{int(identifier[-2:], 16) % 254 + 1}"  # RFC 5737, TEST-NET-3
    return f"{path}-{identifier}"


def _create_capacity_reservation(world: World, resource: Resource) -> None:
    count = resource.properties["InstanceCount"]
    now = format_time(world.clock.now())
    resource.attributes |= {
        "AvailableInstanceCount": count,
        "TotalInstanceCount": count,
        "CreateDate": now,
        "StartDate": now,
        "State": "active",
        "ReservationType": "default",
    }


def _update_capacity_reservation(_world: World, resource: Resource) -> None:
    count = resource.properties["InstanceCount"]
    resource.attributes |= {"AvailableInstanceCount": count, "TotalInstanceCount": count}


def _create_auto_scaling_group(world: World, resource: Resource) -> None:
    arn = world.arn(
        "autoscaling",
        f"autoScalingGroup:{world.new_id('', resource.logical_id, 32)}:autoScalingGroupName/{resource.physical_id}",
    )
    resource.attributes |= {"AutoScalingGroupARN": arn}


def _settle_attributes(_world: World, resource: Resource) -> None:
    name = f"{resource.type.rsplit('::', 1)[-1]}Attributes"
    resource.settings = settings_after(resource.settings, resource.properties.get(name, []))


_CREATED: Mapping[str, Callable[[World, Resource], None]] = {
    LAUNCH_TEMPLATE: first_version,
    CAPACITY_RESERVATION: _create_capacity_reservation,
    AUTO_SCALING_GROUP: _create_auto_scaling_group,
    LOAD_BALANCER: _settle_attributes,
    TARGET_GROUP: _settle_attributes,
}
_STARTED: Mapping[str, Callable[[World, Resource], None]] = {
    AUTO_SCALING_GROUP: fleets.create_group,
    NODE_GROUP: node_groups.start,
}
_UPDATED: Mapping[str, Callable[[World, Resource], None]] = {
    LAUNCH_TEMPLATE: add_version,
    CAPACITY_RESERVATION: _update_capacity_reservation,
    AUTO_SCALING_GROUP: fleets.update_group,
    LOAD_BALANCER: _settle_attributes,
    NODE_GROUP: node_groups.change,
    TARGET_GROUP: _settle_attributes,
}
