"""What Elastic Load Balancing refuses in listeners and their rules.

Sources: Elastic Load Balancing API, CreateListener (CertificateNotFound, DuplicateListener, TargetGroupNotFound, "you
must specify exactly one certificate" for HTTPS), CreateRule (PriorityInUse); quotas of Application Load Balancers (a
target group is associated with one load balancer). Stored copies of 2026.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..faults import Fault
from ..world import LISTENER, LISTENER_RULE, LOAD_BALANCER, TARGET_GROUP
from .load_balancers import kind_of, kind_of_targets, subnets_of

if TYPE_CHECKING:
    from ..world import Resource, World

_PROTOCOLS = {"Application": ("HTTP", "HTTPS"), "Gateway": ()}
_SECURE = ("HTTPS", "TLS")


def listener_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::ElasticLoadBalancingV2::Listener`."""
    balancer = world.find(LOAD_BALANCER, properties.get("LoadBalancerArn", ""))
    if balancer is None:
        yield Fault(
            check="balancer-missing",
            message=f"the load balancer {properties.get('LoadBalancerArn')!r} does not exist",
            path="LoadBalancerArn",
        )
        return
    yield from _protocol_faults(properties, kind_of(balancer.properties))
    yield from _certificate_faults(properties, world)
    for other in world.of_type(LISTENER):
        same = other.properties.get("LoadBalancerArn") == balancer.physical_id
        if same and other.properties.get("Port") == properties.get("Port"):
            yield Fault(
                check="duplicate-listener",
                message=f"a listener already exists on port {properties.get('Port')} of this load balancer",
                path="Port",
            )
    yield from _action_faults(properties.get("DefaultActions", []), balancer, world, "DefaultActions")


def listener_rule_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    """Faults of an `AWS::ElasticLoadBalancingV2::ListenerRule`."""
    listener = world.find(LISTENER, properties.get("ListenerArn", ""))
    if listener is None:
        yield Fault(
            check="listener-missing",
            message=f"the listener {properties.get('ListenerArn')!r} does not exist",
            path="ListenerArn",
        )
        return
    for other in world.of_type(LISTENER_RULE):
        same = other.properties.get("ListenerArn") == listener.physical_id
        if same and other.properties.get("Priority") == properties.get("Priority"):
            yield Fault(
                check="rule-priority",
                message=f"priority {properties.get('Priority')} is currently in use",
                path="Priority",
            )
    balancer = world.find(LOAD_BALANCER, listener.properties["LoadBalancerArn"])
    if balancer is not None:
        yield from _action_faults(properties.get("Actions", []), balancer, world, "Actions")


def target_groups_of(actions: list[dict[str, Any]]) -> list[str]:
    """The target groups that actions forward to."""
    forwards = (one.get("ForwardConfig", {}).get("TargetGroups", []) for one in actions)
    named = [one["TargetGroupArn"] for one in actions if "TargetGroupArn" in one]
    weighted = [one["TargetGroupArn"] for one in chain.from_iterable(forwards) if "TargetGroupArn" in one]
    return list(dict.fromkeys([*named, *weighted]))


def users_of_target_group(arn: str, world: World) -> list[str]:
    """ARNs of the load balancers whose listeners or rules forward to a target group."""
    found = [
        listener.properties["LoadBalancerArn"]
        for listener in world.of_type(LISTENER)
        if arn in target_groups_of(listener.properties.get("DefaultActions", []))
    ]
    for rule in world.of_type(LISTENER_RULE):
        listener = world.find(LISTENER, rule.properties.get("ListenerArn", ""))
        if listener is not None and arn in target_groups_of(rule.properties.get("Actions", [])):
            found.append(listener.properties["LoadBalancerArn"])
    return list(dict.fromkeys(found))


def certificate_deletion_faults(physical_id: str, world: World) -> Iterator[Fault]:
    """Faults of deleting an `AWS::CertificateManager::Certificate` (ACM API, ResourceInUseException)."""
    for listener in world.of_type(LISTENER):
        if physical_id in _certificates(listener.properties):
            yield Fault(
                check="in-use",
                message=f"the certificate {physical_id} is in use by {listener.physical_id}",
            )


def _certificates(properties: dict[str, Any]) -> list[str]:
    return [one["CertificateArn"] for one in properties.get("Certificates", []) if "CertificateArn" in one]


def _protocol_faults(properties: dict[str, Any], kind: str) -> Iterator[Fault]:
    protocol, allowed = properties.get("Protocol"), _PROTOCOLS.get(kind)
    if allowed is not None and protocol not in (allowed or (None,)):
        words = " or ".join(allowed) or "no protocol of their own"
        yield Fault(
            check="listener-protocol",
            message=f"listeners of {kind} Load Balancers have {words}, got {protocol}",
            path="Protocol",
        )
    if kind != "Gateway" and "Port" not in properties:
        yield Fault(check="listener-port", message="a port must be specified", path="Port")


def _certificate_faults(properties: dict[str, Any], world: World) -> Iterator[Fault]:
    secure = properties.get("Protocol") in _SECURE
    given = _certificates(properties)
    if secure and len(given) != 1:
        yield Fault(
            check="listener-certificate",
            message=f"a listener of protocol {properties['Protocol']} has exactly one certificate, got {len(given)}",
            path="Certificates",
        )
    for name in ("Certificates", "SslPolicy") if not secure else ():
        if properties.get(name):
            yield Fault(
                check="listener-certificate",
                message=f"{name} cannot be specified for a listener of protocol {properties.get('Protocol')}",
                path=name,
            )
    for arn in given:
        if not world.has_certificate(arn):
            yield Fault(
                check="certificate-missing", message=f"certificate {arn!r} not found", path="Certificates"
            )


def _action_faults(
    actions: list[dict[str, Any]], balancer: Resource, world: World, path: str
) -> Iterator[Fault]:
    vpcs = {world.vpc_of_subnet(subnet) for subnet in subnets_of(balancer.properties)} - {None}
    for arn in target_groups_of(actions):
        group = world.find(TARGET_GROUP, arn)
        if group is None:
            yield Fault(
                check="target-group-missing", message=f"the target group {arn!r} does not exist", path=path
            )
            continue
        others = [one for one in users_of_target_group(arn, world) if one != balancer.physical_id]
        if others:
            yield Fault(
                check="target-group-taken",
                message=f"the target group {arn} is associated with another load balancer, {others[0]}",
                path=path,
            )
        vpc = group.properties.get("VpcId")
        if vpc and vpcs and vpc not in vpcs:
            yield Fault(
                check="target-group-vpc",
                message=f"the target group {arn} and the load balancer are in different VPCs",
                path=path,
            )
        yield from _fit_faults(group, kind_of(balancer.properties), path)


def _fit_faults(group: Resource, kind: str, path: str) -> Iterator[Fault]:
    fits, protocol = kind_of_targets(group.properties), group.properties.get("Protocol")
    if fits != kind:
        yield Fault(
            check="target-group-protocol",
            message=f"a target group of protocol {protocol} is for {fits} Load Balancers, this one is {kind}",
            path=path,
        )
