"""Load balancers and groups of model servers."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.errors import Severity
from cdk_gpu_clusters.rules import inference
from cdk_gpu_clusters.template_rules.case import Resource, Value, target_of
from cdk_gpu_clusters.template_rules.lookups.groups import AUTO_SCALING_GROUP, launch_of_group
from cdk_gpu_clusters.template_rules.lookups.launches import accelerated_launch, values_at
from cdk_gpu_clusters.template_rules.rule import Fault, NotApplicable, define_template_rule, faults_of, template_rule

LOAD_BALANCER = "AWS::ElasticLoadBalancingV2::LoadBalancer"
LISTENER = "AWS::ElasticLoadBalancingV2::Listener"
TARGET_GROUP = "AWS::ElasticLoadBalancingV2::TargetGroup"

_TARGETS = (
    "DefaultActions/*/TargetGroupArn",
    "DefaultActions/*/ForwardConfig/TargetGroups/*/TargetGroupArn",
)


def groups_behind(target_group: Resource) -> list[Resource]:
    """The Auto Scaling groups of accelerated nodes that a target group sends requests to."""
    return [
        group
        for group in target_group.case.resources_naming(target_group, AUTO_SCALING_GROUP)
        if any(target_group.is_target_of(value) for value in group.get("TargetGroupARNs").items())
        and _is_accelerated(group)
    ]


def balancer_of(listener: Resource) -> Resource | None:
    """The load balancer of a listener that sends requests to accelerated nodes; None of another one."""
    targets = [target_of(value) for path in _TARGETS for value in values_at(listener.properties, path)]
    if not any(groups_behind(one) for one in targets if one is not None):
        return None
    return target_of(listener.get("LoadBalancerArn"))


def require_models(balancer: Resource) -> None:
    """Go on only if one of an Application Load Balancer's listeners sends requests to accelerated nodes."""
    is_application = (balancer.get("Type").text() or "application") == "application"
    listeners = balancer.case.resources_naming(balancer, LISTENER) if is_application else ()
    if not any(balancer_of(one) == balancer for one in listeners):
        raise NotApplicable


def is_internet_facing(listener: Resource) -> bool:
    """Whether the load balancer of a listener has public addresses, as by default."""
    balancer = target_of(listener.get("LoadBalancerArn"))
    scheme = None if balancer is None else balancer.get("Scheme").text()
    return scheme != "internal"


def redirects(listener: Resource) -> bool:
    """Whether a listener only sends clients elsewhere, such as to HTTPS."""
    kinds = [value.text() for value in values_at(listener.properties, "DefaultActions/*/Type")]
    return bool(kinds) and set(kinds) <= {"redirect", "fixed-response"}


def attribute_of(resource: Resource, attributes: str, key: str) -> Value | None:
    """The value of an attribute of a load balancer or target group; None if it is not given."""
    for one in resource.get(attributes).items():
        if one.get("Key").text() == key:
            return one.get("Value")
    return None


def _is_accelerated(group: Resource) -> bool:
    try:
        accelerated_launch(launch_of_group(group).resource)
    except NotApplicable:
        return False
    return True


@template_rule(
    inference.TLS,
    severity=Severity.WARNING,
    cause="requests and answers cross the internet in clear text",
    fix="set Protocol to HTTPS with a certificate, or Scheme to internal",
    url="https://docs.aws.amazon.com/elasticloadbalancing/latest/application/create-https-listener.html",
    on=(LISTENER,),
    looks_at=("Protocol", "Certificates", "AWS::ElasticLoadBalancingV2::LoadBalancer/Scheme"),
)
def tls(resource: Resource) -> Iterator[Fault]:
    if balancer_of(resource) is None:
        raise NotApplicable
    certificate = bool(resource.get("Certificates").items())
    protocol = resource.get("Protocol").text()
    if protocol not in ("HTTP", "HTTPS"):
        raise NotApplicable  # of a Network Load Balancer
    if redirects(resource) or not is_internet_facing(resource):
        return
    findings = inference.check_tls(has_certificate=certificate, plain_http=protocol == "HTTP", internet_facing=True)
    got, at = f"{protocol} from the internet", resource.get("Protocol")
    yield from faults_of(inference.TLS, findings, at, got=got, allowed="HTTPS", own_fix=True)


@template_rule(
    inference.IDLE_TIMEOUT,
    cause="the load balancer refuses the attribute",
    fix="set idle_timeout.timeout_seconds to 1 to 4000",
    url="https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html",
    on=(LOAD_BALANCER,),
    looks_at=("LoadBalancerAttributes",),
)
def idle_timeout(resource: Resource) -> Iterator[Fault]:
    require_models(resource)
    seconds = attribute_of(resource, "LoadBalancerAttributes", "idle_timeout.timeout_seconds")
    if seconds is not None:
        findings = inference.check_idle_timeout(seconds.integer() or 0)
        yield from faults_of(inference.IDLE_TIMEOUT, findings, seconds, own_cause=True, own_fix=True)


@template_rule(
    inference.BALANCER_ZONES,
    cause="an Application Load Balancer needs subnets in two Availability Zones",
    fix="add a subnet in another zone; the nodes may be in one",
    url="https://docs.aws.amazon.com/elasticloadbalancing/latest/application/application-load-balancers.html",
    on=(LOAD_BALANCER,),
    looks_at=("Subnets",),
)
def balancer_zones(resource: Resource) -> Iterator[Fault]:
    require_models(resource)
    subnets = resource.get("Subnets")
    if not subnets.exists:
        raise NotApplicable  # SubnetMappings
    count = len(subnets.items())
    findings = inference.check_balancer_zones(count)
    yield from faults_of(
        inference.BALANCER_ZONES, findings, subnets, got=f"{count} subnet", own_cause=True, own_fix=True
    )


@template_rule(
    inference.DRAIN_TIMEOUT,
    severity=Severity.WARNING,
    cause="running requests are cut off when a node leaves, or the target group refuses the attribute",
    fix="set deregistration_delay.timeout_seconds to the time of the longest request",
    url="https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-target-group-attributes.html",
    on=(TARGET_GROUP,),
    looks_at=("TargetGroupAttributes",),
)
def drain_timeout(resource: Resource) -> Iterator[Fault]:
    if not groups_behind(resource):
        raise NotApplicable
    seconds = attribute_of(resource, "TargetGroupAttributes", "deregistration_delay.timeout_seconds")
    if seconds is not None:
        findings = inference.check_drain_timeout(seconds.integer() or 0)
        yield from faults_of(inference.DRAIN_TIMEOUT, findings, seconds, own_cause=True, own_fix=True)


@define_template_rule(
    "GPU-INF-030",
    "a group with health checks of a load balancer gives GPU nodes time to boot",
    source="EC2 Auto Scaling guide, health check grace period: 0 by default in CloudFormation",
    severity=Severity.WARNING,
    cause="nodes are replaced again and again while they load the driver and the model, at full price",
    fix="set HealthCheckGracePeriod above the time of a boot, or let a launch lifecycle hook wait for the node",
    url="https://docs.aws.amazon.com/autoscaling/ec2/userguide/health-check-grace-period.html",
    on=(AUTO_SCALING_GROUP,),
    looks_at=("HealthCheckType", "HealthCheckGracePeriod", "LifecycleHookSpecificationList"),
)
def time_to_boot(resource: Resource) -> Iterator[Fault]:
    if resource.get("HealthCheckType").text() != "ELB":
        raise NotApplicable
    accelerated_launch(launch_of_group(resource).resource)
    grace = resource.get("HealthCheckGracePeriod")
    hooks = values_at(resource.properties, "LifecycleHookSpecificationList/*/LifecycleTransition")
    if not grace.integer() and not any(hook.text() == "autoscaling:EC2_INSTANCE_LAUNCHING" for hook in hooks):
        yield Fault(at=grace, got="no HealthCheckGracePeriod", allowed="more than a boot takes, or a launch hook")


@define_template_rule(
    "GPU-INF-031",
    "a load balancer of model servers sets its idle timeout explicitly",
    source="Elastic Load Balancing user guide for Application Load Balancers, idle_timeout: 60 by default",
    severity=Severity.WARNING,
    cause="the default of 60 seconds cuts off answers that take longer: the client gets 504",
    fix="add idle_timeout.timeout_seconds, above the longest time in which a server sends nothing",
    url="https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html",
    on=(LOAD_BALANCER,),
    looks_at=("LoadBalancerAttributes",),
)
def explicit_idle_timeout(resource: Resource) -> Iterator[Fault]:
    require_models(resource)
    if attribute_of(resource, "LoadBalancerAttributes", "idle_timeout.timeout_seconds") is None:
        at = resource.get("LoadBalancerAttributes")
        yield Fault(at=at, got="no idle_timeout.timeout_seconds", allowed="longer than the longest answer")
