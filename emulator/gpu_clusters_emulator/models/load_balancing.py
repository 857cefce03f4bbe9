"""What Elastic Load Balancing refuses in a load balancer.

Sources: Elastic Load Balancing API, CreateLoadBalancer (two subnets in two zones for an Application Load Balancer, one
subnet for each zone; names), ModifyLoadBalancerAttributes, DeleteLoadBalancer (deletion protection); user guide,
"Application Load Balancers" (a /27 at least, eight free addresses) and "Enable access logs" (bucket policy, SSE-S3
only). Stored copies of 2026.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain

from ..faults import Fault
from ..service_shapes import documented_attributes
from ..world import DEREGISTERING, IN_SERVICE, Group, Instance, Json, Resource, Type, World
from .buckets import log_bucket_faults
from .networks import group_faults, subnet_faults

_LONGEST_PREFIX = 27
_ZONES_OF_AN_APPLICATION = 2
_KINDS_BY_PROTOCOL = {"HTTP": "Application", "HTTPS": "Application", "GENEVE": "Gateway"}
_NAME = re.compile(r"(?!internal-)(?!-)[a-zA-Z0-9-]{1,32}(?<!-)")


def kind_of(properties: Json) -> str:
    """`Application`, `Network` or `Gateway`."""
    return str(properties.get("Type", "application")).capitalize()


def kind_of_targets(properties: Json) -> str:
    """Which kind of load balancer the group is for, by its protocol; a Lambda function has none."""
    if properties.get("TargetType") == "lambda":
        return "Application"
    return _KINDS_BY_PROTOCOL.get(properties.get("Protocol", ""), "Network")


def subnets_of(properties: Json) -> list[str]:
    """Its subnets, given plainly or as mappings."""
    mapped = [one["SubnetId"] for one in properties.get("SubnetMappings", [])]
    return [*properties.get("Subnets", []), *mapped]


def load_balancer_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::ElasticLoadBalancingV2::LoadBalancer`."""
    name = properties.get("Name")
    if name is not None and not _NAME.fullmatch(name):
        message = f"a name has up to 32 letters, digits and inner hyphens, and no internal- first, got {name!r}"
        yield Fault("balancer-name", message, "Name")
    subnets = subnets_of(properties)
    yield from subnet_faults(subnets, world, "Subnets")
    yield from _zone_faults(properties, subnets, world)
    yield from _vpc_faults(properties, subnets, world)
    yield from group_faults(properties.get("SecurityGroups", []), subnets, world, "SecurityGroups")
    given = properties.get("LoadBalancerAttributes", [])
    yield from attribute_faults("LoadBalancerAttribute", "LoadBalancerAttributes", given, kind_of(properties))
    yield from log_bucket_faults(given, world)


def attribute_faults(shape: str, path: str, given: list[Json], kind: str) -> Iterator[Fault]:
    """Faults of key-value attributes, of load balancers and of target groups."""
    known = documented_attributes("elbv2", shape)
    for one in given:
        key, value = str(one.get("Key", "")), str(one.get("Value", ""))
        message = ""
        if key not in known:
            message = f"the attribute {key!r} is not recognized"
        elif not known[key].fits(kind):
            message = f"the attribute {key!r} is not supported by {kind} Load Balancers"
        elif wrong := known[key].message(value):
            message = f"{key} {wrong}"
        if message:
            yield Fault("balancer-attribute", message, path)


def settings_after(before: dict[str, str], given: list[Json]) -> dict[str, str]:
    """The attributes after a template: those that it does not name keep their values, as the API has it."""
    return before | {str(one["Key"]): str(one.get("Value", "")) for one in given}


def load_balancer_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::ElasticLoadBalancingV2::LoadBalancer`."""
    found = world.find(Type.LOAD_BALANCER, physical_id)
    if found is not None and found.settings.get("deletion_protection.enabled") == "true":
        message = f"the load balancer {physical_id!r} cannot be deleted because deletion protection is enabled"
        yield Fault("deletion-protection", message)


def _zone_faults(properties: Json, subnets: list[str], world: World) -> Iterator[Fault]:
    zones = [world.zone_of_subnet(subnet) for subnet in subnets]
    named = Counter(zone for zone in zones if zone)
    for zone, count in named.items():
        if count > 1:
            message = f"a load balancer has one subnet in a zone; {count} are in {zone}"
            yield Fault("balancer-zones", message, "Subnets")
    if kind_of(properties) == "Application" and len(subnets) < _ZONES_OF_AN_APPLICATION:
        message = f"at least two subnets in two different Availability Zones must be specified, got {len(subnets)}"
        yield Fault("balancer-zones", message, "Subnets")


def _vpc_faults(properties: Json, subnets: list[str], world: World) -> Iterator[Fault]:
    vpcs = {world.vpc_of_subnet(subnet) for subnet in subnets} - {None}
    if len(vpcs) > 1:
        yield Fault("balancer-vpc", "all subnets of a load balancer are in one VPC", "Subnets")
    for subnet in subnets:
        made = world.find(Type.SUBNET, subnet)
        cidr = made.properties.get("CidrBlock") if made else None
        if cidr and ipaddress.ip_network(cidr).prefixlen > _LONGEST_PREFIX:
            message = f"not enough IP space available in {subnet}: a /{_LONGEST_PREFIX} at least, got {cidr}"
            yield Fault("balancer-addresses", message, "Subnets")
    if properties.get("Scheme", "internet-facing") == "internet-facing":
        for vpc in sorted(filter(None, vpcs)):
            if not _has_internet_gateway(vpc, world):
                yield Fault("balancer-scheme", f"the VPC {vpc} has no internet gateway", "Scheme")


def _has_internet_gateway(vpc: str, world: World) -> bool:
    attachments = world.of_type("AWS::EC2::VPCGatewayAttachment")
    return any(one.properties.get("VpcId") == vpc and "InternetGatewayId" in one.properties for one in attachments)


# What Elastic Load Balancing refuses in listeners and their rules. Sources: Elastic Load Balancing API,
# CreateListener (CertificateNotFound, DuplicateListener, TargetGroupNotFound, "you must specify exactly one
# certificate" for HTTPS), CreateRule (PriorityInUse); quotas of Application Load Balancers (a target group is
# associated with one load balancer). Stored copies of 2026.

_PROTOCOLS = {"Application": ("HTTP", "HTTPS"), "Gateway": ()}
_SECURE = ("HTTPS", "TLS")


def listener_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::ElasticLoadBalancingV2::Listener`."""
    balancer = world.find(Type.LOAD_BALANCER, properties.get("LoadBalancerArn", ""))
    if balancer is None:
        message = f"the load balancer {properties.get('LoadBalancerArn')!r} does not exist"
        yield Fault("balancer-missing", message, "LoadBalancerArn")
        return
    yield from _protocol_faults(properties, kind_of(balancer.properties))
    yield from _certificate_faults(properties, world)
    for other in world.of_type(Type.LISTENER):
        same = other.properties.get("LoadBalancerArn") == balancer.physical_id
        if same and other.properties.get("Port") == properties.get("Port"):
            message = f"a listener already exists on port {properties.get('Port')} of this load balancer"
            yield Fault("duplicate-listener", message, "Port")
    yield from _action_faults(properties.get("DefaultActions", []), balancer, world, "DefaultActions")


def listener_rule_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::ElasticLoadBalancingV2::ListenerRule`."""
    listener = world.find(Type.LISTENER, properties.get("ListenerArn", ""))
    if listener is None:
        message = f"the listener {properties.get('ListenerArn')!r} does not exist"
        yield Fault("listener-missing", message, "ListenerArn")
        return
    for other in world.of_type(Type.LISTENER_RULE):
        same = other.properties.get("ListenerArn") == listener.physical_id
        if same and other.properties.get("Priority") == properties.get("Priority"):
            message = f"priority {properties.get('Priority')} is currently in use"
            yield Fault("rule-priority", message, "Priority")
    balancer = world.find(Type.LOAD_BALANCER, listener.properties["LoadBalancerArn"])
    if balancer is not None:
        yield from _action_faults(properties.get("Actions", []), balancer, world, "Actions")


def target_groups_of(actions: list[Json]) -> list[str]:
    """The target groups that actions forward to."""
    forwards = (one.get("ForwardConfig", {}).get("TargetGroups", []) for one in actions)
    named = [one["TargetGroupArn"] for one in actions if "TargetGroupArn" in one]
    weighted = [one["TargetGroupArn"] for one in chain.from_iterable(forwards) if "TargetGroupArn" in one]
    return list(dict.fromkeys([*named, *weighted]))


def users_of_target_group(arn: str, world: World) -> list[str]:
    """ARNs of the load balancers whose listeners or rules forward to a target group."""
    found = [
        listener.properties["LoadBalancerArn"]
        for listener in world.of_type(Type.LISTENER)
        if arn in target_groups_of(listener.properties.get("DefaultActions", []))
    ]
    for rule in world.of_type(Type.LISTENER_RULE):
        listener = world.find(Type.LISTENER, rule.properties.get("ListenerArn", ""))
        if listener is not None and arn in target_groups_of(rule.properties.get("Actions", [])):
            found.append(listener.properties["LoadBalancerArn"])
    return list(dict.fromkeys(found))


def certificate_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::CertificateManager::Certificate` (ACM API, ResourceInUseException)."""
    for listener in world.of_type(Type.LISTENER):
        if physical_id in _certificates(listener.properties):
            yield Fault("in-use", f"the certificate {physical_id} is in use by {listener.physical_id}")


def _certificates(properties: Json) -> list[str]:
    return [one["CertificateArn"] for one in properties.get("Certificates", []) if "CertificateArn" in one]


def _protocol_faults(properties: Json, kind: str) -> Iterator[Fault]:
    protocol, allowed = properties.get("Protocol"), _PROTOCOLS.get(kind)
    if allowed is not None and protocol not in (allowed or (None,)):
        words = " or ".join(allowed) or "no protocol of their own"
        message = f"listeners of {kind} Load Balancers have {words}, got {protocol}"
        yield Fault("listener-protocol", message, "Protocol")
    if kind != "Gateway" and "Port" not in properties:
        yield Fault("listener-port", "a port must be specified", "Port")


def _certificate_faults(properties: Json, world: World) -> Iterator[Fault]:
    secure = properties.get("Protocol") in _SECURE
    given = _certificates(properties)
    if secure and len(given) != 1:
        message = f"a listener of protocol {properties['Protocol']} has exactly one certificate, got {len(given)}"
        yield Fault("listener-certificate", message, "Certificates")
    for name in ("Certificates", "SslPolicy") if not secure else ():
        if properties.get(name):
            message = f"{name} cannot be specified for a listener of protocol {properties.get('Protocol')}"
            yield Fault("listener-certificate", message, name)
    for arn in given:
        if not world.has_certificate(arn):
            yield Fault("certificate-missing", f"certificate {arn!r} not found", "Certificates")


def _action_faults(actions: list[Json], balancer: Resource, world: World, path: str) -> Iterator[Fault]:
    vpcs = {world.vpc_of_subnet(subnet) for subnet in subnets_of(balancer.properties)} - {None}
    for arn in target_groups_of(actions):
        group = world.find(Type.TARGET_GROUP, arn)
        if group is None:
            yield Fault("target-group-missing", f"the target group {arn!r} does not exist", path)
            continue
        others = [one for one in users_of_target_group(arn, world) if one != balancer.physical_id]
        if others:
            message = f"the target group {arn} is associated with another load balancer, {others[0]}"
            yield Fault("target-group-taken", message, path)
        vpc = group.properties.get("VpcId")
        if vpc and vpcs and vpc not in vpcs:
            message = f"the target group {arn} and the load balancer are in different VPCs"
            yield Fault("target-group-vpc", message, path)
        yield from _fit_faults(group, kind_of(balancer.properties), path)


def _fit_faults(group: Resource, kind: str, path: str) -> Iterator[Fault]:
    fits, protocol = kind_of_targets(group.properties), group.properties.get("Protocol")
    if fits != kind:
        message = f"a target group of protocol {protocol} is for {fits} Load Balancers, this one is {kind}"
        yield Fault("target-group-protocol", message, path)


# What Elastic Load Balancing refuses in a target group. Sources: Elastic Load Balancing API, CreateTargetGroup
# (protocol, port and VPC are required but for Lambda; the time-out is below the interval),
# ModifyTargetGroupAttributes, DeleteTargetGroup (ResourceInUse while an action names it); user guide, "Slow start
# mode" (not with least outstanding requests or weighted random). Stored copies of 2026.

_TARGET_GROUP_NAME = re.compile(r"(?!-)[a-zA-Z0-9-]{1,32}(?<!-)")
_HTTP_CODE = re.compile(r"[2-4]\d\d(?:-[2-4]\d\d)?(?:,[2-4]\d\d(?:-[2-4]\d\d)?)*")
# Interval and time-out that the API takes for none, for instances behind an Application Load Balancer.
_INTERVAL_SECONDS, _TIMEOUT_SECONDS = 30, 5
_SLOW_START = "slow_start.duration_seconds"
_ALGORITHM = "load_balancing.algorithm.type"


def target_group_faults(properties: Json, world: World) -> Iterator[Fault]:
    """Faults of an `AWS::ElasticLoadBalancingV2::TargetGroup`."""
    name = properties.get("Name")
    if name is not None and not _TARGET_GROUP_NAME.fullmatch(name):
        message = f"a name has up to 32 letters, digits and inner hyphens, got {name!r}"
        yield Fault("target-group-name", message, "Name")
    yield from _place_faults(properties, world)
    yield from _health_check_faults(properties)
    given = properties.get("TargetGroupAttributes", [])
    kind = kind_of_targets(properties)
    yield from attribute_faults("TargetGroupAttribute", "TargetGroupAttributes", given, kind)
    values = {str(one.get("Key")): str(one.get("Value")) for one in given}
    if values.get(_SLOW_START, "0") != "0" and values.get(_ALGORITHM, "round_robin") != "round_robin":
        message = f"slow start works with round_robin only, got {values[_ALGORITHM]}"
        yield Fault("slow-start", message, "TargetGroupAttributes")


def target_group_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::ElasticLoadBalancingV2::TargetGroup`."""
    if users_of_target_group(physical_id, world):
        yield Fault("in-use", f"the target group {physical_id!r} is currently in use by a listener or a rule")


def _place_faults(properties: Json, world: World) -> Iterator[Fault]:
    if properties.get("TargetType") == "lambda":
        return
    for name in ("Protocol", "Port", "VpcId"):
        if name not in properties:
            yield Fault("target-group-place", f"{name} must be specified", name)
    vpc = properties.get("VpcId")
    if vpc is not None and not world.has_vpc(vpc):
        yield Fault("vpc-missing", f"the VPC {vpc!r} does not exist", "VpcId")


def _health_check_faults(properties: Json) -> Iterator[Fault]:
    interval = properties.get("HealthCheckIntervalSeconds", _INTERVAL_SECONDS)
    timeout = properties.get("HealthCheckTimeoutSeconds", _TIMEOUT_SECONDS)
    if timeout >= interval:
        message = f"the health check's time-out is smaller than its interval, got {timeout} s and {interval} s"
        yield Fault("health-check-timeout", message, "HealthCheckTimeoutSeconds")
    path = properties.get("HealthCheckPath")
    if path is not None and not path.startswith("/"):
        yield Fault("health-check-path", f"a path begins with /, got {path!r}", "HealthCheckPath")
    codes = properties.get("Matcher", {}).get("HttpCode")
    if codes is not None and not _HTTP_CODE.fullmatch(codes):
        message = f"codes are 200 to 499, such as 200,202 or 200-299, got {codes!r}"
        yield Fault("health-check-codes", message, "Matcher/HttpCode")


# Targets of load balancers: instances of Auto Scaling groups, registered while they are in service. Nothing answers
# on a node: a target is healthy as soon as it is registered, until a test says that its health checks fail. Source
# of the states and reasons: Elastic Load Balancing API, TargetHealth.

_DRAIN = "deregistration_delay.timeout_seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A registered instance.

    Attributes:
        state: `healthy`, `unhealthy`, `draining` or `unused`.
        reason: The API's code for it; empty where healthy.
    """

    instance_id: str
    port: int
    availability_zone: str
    state: str
    reason: str


def targets_of(world: World, target_group: Resource) -> Iterator[Target]:
    """The registered targets of a target group."""
    for group in groups_of(world, target_group.physical_id):
        for instance in group.instances:
            found = _state(world, target_group, instance)
            if found is not None:
                yield Target(
                    instance_id=instance.id,
                    port=int(target_group.properties["Port"]),
                    availability_zone=instance.availability_zone,
                    state=found[0],
                    reason=found[1],
                )


def groups_of(world: World, target_group_arn: str) -> list[Group]:
    """The Auto Scaling groups whose instances are registered in a target group."""
    return [
        world.groups[one.physical_id]
        for one in world.of_type(Type.AUTO_SCALING_GROUP)
        if target_group_arn in one.properties.get("TargetGroupARNs", []) and one.physical_id in world.groups
    ]


def is_unhealthy(world: World, group: Group, instance: Instance) -> bool:
    """Whether a load balancer of the group finds an instance unhealthy."""
    resource = world.find(Type.AUTO_SCALING_GROUP, group.name)
    arns = resource.properties.get("TargetGroupARNs", []) if resource else []
    found = [world.find(Type.TARGET_GROUP, arn) for arn in arns]
    states = [_state(world, one, instance) for one in found if one is not None]
    return any(state is not None and state[0] == "unhealthy" for state in states)


def deregistration_delay(world: World, group: Group) -> timedelta:
    """How long the load balancers of a group take to let an instance go; no time if none uses its target groups."""
    arns = world.properties_of(Type.AUTO_SCALING_GROUP, group.name).get("TargetGroupARNs", [])
    used = [world.find(Type.TARGET_GROUP, arn) for arn in arns if users_of_target_group(arn, world)]
    return max((_delay(one) for one in used if one is not None), default=timedelta())


def _delay(target_group: Resource) -> timedelta:
    return timedelta(seconds=int(target_group.settings.get(_DRAIN, "300")))


def _state(world: World, target_group: Resource, instance: Instance) -> tuple[str, str] | None:
    """State and reason of an instance; None while it is not registered."""
    if instance.lifecycle_state == DEREGISTERING:
        draining = world.clock.now() < instance.since + _delay(target_group)
        return ("draining", "Target.DeregistrationInProgress") if draining else None
    if instance.lifecycle_state != IN_SERVICE:
        return None
    if not users_of_target_group(target_group.physical_id, world):
        return "unused", "Target.NotInUse"
    if instance.id in world.failing_instances:
        return "unhealthy", "Target.FailedHealthChecks"
    return "healthy", ""
