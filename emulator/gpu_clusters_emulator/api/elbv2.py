"""Elastic Load Balancing's descriptions, over the world, in the shapes of its API model."""

from __future__ import annotations

from ..faults import ApiError
from ..models.load_balancing import kind_of, kind_of_targets, subnets_of, targets_of, users_of_target_group
from ..service_shapes import documented_attributes
from ..world import Json, Resource, Type, World

_TARGET_DEFAULTS: Json = {
    "HealthCheckEnabled": True,
    "HealthCheckIntervalSeconds": 30,
    "HealthCheckPath": "/",
    "HealthCheckPort": "traffic-port",
    "HealthCheckTimeoutSeconds": 5,
    "HealthyThresholdCount": 5,
    "Matcher": {"HttpCode": "200"},
    "TargetType": "instance",
    "UnhealthyThresholdCount": 2,
}


def _found(world: World, type_name: str, arn: str) -> Resource:
    resource = world.find(type_name, arn)
    if resource is None:
        kind = type_name.rpartition("::")[2]
        raise ApiError(f"{kind}NotFound", f"One or more {kind} resources not found: {arn}")
    return resource


def _wanted(world: World, type_name: str, arns: list[str], names: list[str]) -> list[Resource]:
    if arns:
        return [_found(world, type_name, arn) for arn in arns]
    label = f"{type_name.rpartition('::')[2]}Name"
    return [one for one in world.of_type(type_name) if not names or one.attributes[label] in names]


def _balancer(world: World, found: Resource) -> Json:
    given, subnets = found.properties, subnets_of(found.properties)
    vpcs = [vpc for vpc in map(world.vpc_of_subnet, subnets) if vpc]
    return {
        "LoadBalancerArn": found.physical_id,
        "LoadBalancerName": found.attributes["LoadBalancerName"],
        "DNSName": found.attributes["DNSName"],
        "CanonicalHostedZoneId": found.attributes["CanonicalHostedZoneID"],
        "Scheme": given.get("Scheme", "internet-facing"),
        "Type": given.get("Type", "application"),
        "IpAddressType": given.get("IpAddressType", "ipv4"),
        "State": {"Code": "active"},
        "VpcId": vpcs[0] if vpcs else None,
        "SecurityGroups": given.get("SecurityGroups", []),
        "AvailabilityZones": [{"ZoneName": world.zone_of_subnet(subnet), "SubnetId": subnet} for subnet in subnets],
    }


def describe_load_balancers(world: World, params: Json) -> Json:
    found = _wanted(world, Type.LOAD_BALANCER, params.get("LoadBalancerArns", []), params.get("Names", []))
    return {"LoadBalancers": [_balancer(world, one) for one in found]}


def describe_load_balancer_attributes(world: World, params: Json) -> Json:
    found = _found(world, Type.LOAD_BALANCER, params["LoadBalancerArn"])
    return {"Attributes": _attributes("LoadBalancerAttribute", found, kind_of(found.properties))}


def _attributes(shape: str, found: Resource, kind: str) -> list[Json]:
    """What the templates set, over the documented defaults."""
    defaults = {
        key: one.default
        for key, one in documented_attributes("elbv2", shape).items()
        if one.default is not None and one.fits(kind)
    }
    return [{"Key": key, "Value": value} for key, value in sorted({**defaults, **found.settings}.items())]


def describe_listeners(world: World, params: Json) -> Json:
    arns, balancer = params.get("ListenerArns", []), params.get("LoadBalancerArn")
    return {
        "Listeners": [
            {**one.properties, "ListenerArn": one.physical_id}
            for one in _wanted(world, Type.LISTENER, arns, [])
            if balancer in (None, one.properties["LoadBalancerArn"])
        ]
    }


def describe_target_groups(world: World, params: Json) -> Json:
    balancer = params.get("LoadBalancerArn")
    found = []
    for one in _wanted(world, Type.TARGET_GROUP, params.get("TargetGroupArns", []), params.get("Names", [])):
        users = users_of_target_group(one.physical_id, world)
        if balancer is None or balancer in users:
            document = {
                **_TARGET_DEFAULTS,
                "HealthCheckProtocol": one.properties.get("Protocol", "HTTP"),
                **one.properties,
                "TargetGroupArn": one.physical_id,
                "TargetGroupName": one.attributes["TargetGroupName"],
                "LoadBalancerArns": users,
            }
            found.append(document)
    return {"TargetGroups": found}


def describe_target_group_attributes(world: World, params: Json) -> Json:
    found = _found(world, Type.TARGET_GROUP, params["TargetGroupArn"])
    kind = kind_of_targets(found.properties)
    return {"Attributes": _attributes("TargetGroupAttribute", found, kind)}


def describe_target_health(world: World, params: Json) -> Json:
    found = _found(world, Type.TARGET_GROUP, params["TargetGroupArn"])
    return {
        "TargetHealthDescriptions": [
            {
                "Target": {
                    "Id": one.instance_id,
                    "Port": one.port,
                    "AvailabilityZone": one.availability_zone,
                },
                "HealthCheckPort": str(one.port),
                "TargetHealth": {"State": one.state, **({"Reason": one.reason} if one.reason else {})},
            }
            for one in targets_of(world, found)
        ]
    }
