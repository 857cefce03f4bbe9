"""What can be wrong with a fleet of model servers behind a load balancer, as far as plain values tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule

_ALB = "Elastic Load Balancing user guide for Application Load Balancers"

TLS = define_rule(
    "GPU-INF-012",
    "clients reach the load balancer over TLS; plain HTTP is explicit, and only inside the network",
    source="AWS Well-Architected, SEC09-BP02: enforce encryption in transit",
)
IDLE_TIMEOUT = define_rule(
    "GPU-INF-013", "a load balancer waits 1 to 4,000 seconds for data", source=f"{_ALB}, idle_timeout"
)
BALANCER_ZONES = define_rule(
    "GPU-INF-014",
    "an Application Load Balancer has subnets in at least two Availability Zones",
    source=f'{_ALB}, "Subnets for your load balancer"',
)
FLEET_ZONES = define_rule(
    "GPU-INF-015",
    "a service runs in at least two Availability Zones, unless its capacity is in one",
    source="AWS Well-Architected, REL10-BP01: deploy the workload to multiple locations",
)
ROOM_TO_SCALE = define_rule(
    "GPU-INF-016",
    "a fleet that scales has room between its bounds, and a size that nothing else sets",
    source="EC2 Auto Scaling guide, target tracking; docs/capacity.md, Capacity Blocks",
)
DRAIN_TIMEOUT = define_rule(
    "GPU-INF-017",
    "a drain takes 1 to 3,600 seconds",
    source=f"{_ALB}, deregistration_delay.timeout_seconds",
)
SERVERS_REQUIRED = define_rule(
    "GPU-INF-018",
    "a healthy node has at least one server up, and needs no more than it runs",
    source="nbsrv of the node's balancer",
)
COUNTS = define_rule(
    "GPU-INF-019", "limits and targets of a server are positive", source="Docker and HAProxy references"
)
BALANCER_ZONES_OF_NODES = define_rule(
    "GPU-INF-026",
    "a load balancer is enabled in every Availability Zone that has nodes",
    source='Elastic Load Balancing user guide, "How Elastic Load Balancing works": targets in a zone that is not '
    "enabled receive no traffic",
)

# What a drain takes besides the running requests: 25 s until the load balancer sends no more, the start of the drain
# (10 s), and the 60 s that a fleet keeps of its hook to complete it.
DRAIN_MARGIN_SECONDS = 100
# Whoever sends requests must close an idle connection before the server does: a request that is sent while the server
# closes is lost (guide for Application Load Balancers, "Connection idle timeout" and "HTTP 502: Bad gateway"). The size
# of the margin is this library's choice.
_KEEP_ALIVE_MARGIN_SECONDS = 15
#: Free addresses that a load balancer needs in each of its subnets (guide for Application Load Balancers, "Subnets for
#: your load balancer").
LOAD_BALANCER_ADDRESSES = 8


def keep_alive_seconds(idle_timeout_seconds: int) -> int:
    """How long a server keeps an idle connection, so that whoever sends requests closes it first.

    Args:
        idle_timeout_seconds: How long whoever sends requests keeps it.

    Example:
        >>> keep_alive_seconds(300)
        315
    """
    return idle_timeout_seconds + _KEEP_ALIVE_MARGIN_SECONDS


@check
def check_tls(*, has_certificate: bool, plain_http: bool, internet_facing: bool) -> Iterator[Finding]:
    """Find a load balancer that would take requests in clear text although that is not explicit."""
    if has_certificate and not plain_http:
        return
    if plain_http and not has_certificate and not internet_facing:
        return
    where = "internet-facing" if internet_facing else "internal"
    how = "plain_http=True" if plain_http else "no certificate"
    yield TLS.finding(
        cause="a certificate and plain HTTP exclude each other"
        if has_certificate
        else "requests and answers would cross the network in clear text",
        got=f"an {where} load balancer with {how}" + (" and a certificate" if has_certificate else ""),
        allowed="certificate=..., or plain_http=True for an internal one",
        fix="give an ACM certificate" + ("" if internet_facing else ", or say plain_http=True"),
    )


@check
def check_idle_timeout(seconds: int) -> Iterator[Finding]:
    """Find an idle time-out that the load balancer refuses."""
    if not 1 <= seconds <= 4000:
        yield IDLE_TIMEOUT.finding(
            cause="the load balancer cannot wait that long for data",
            got=f"{seconds} seconds",
            allowed="1 to 4,000 seconds",
            fix="let the servers send something more often, such as a comment line in an event stream",
        )


@check
def check_drain_timeout(seconds: int) -> Iterator[Finding]:
    """Find a drain that the target group refuses."""
    if not 1 <= seconds <= 3600:
        yield DRAIN_TIMEOUT.finding(
            cause="running requests cannot get that long when a node leaves",
            got=f"{seconds} seconds",
            allowed="1 to 3,600 seconds",
            fix="change drain_timeout",
        )


@check
def check_balancer_zones(zone_count: int) -> Iterator[Finding]:
    """Find a load balancer in too few zones."""
    if zone_count < 2:
        yield BALANCER_ZONES.finding(
            cause="the load balancer has subnets in too few Availability Zones",
            got=f"{zone_count}",
            allowed="2 or more",
            fix="pass load_balancer_subnets with one subnet in each of two zones; the nodes may be in one",
        )


def check_zones_of_nodes(node_zones: Iterable[str], balancer_zones: Iterable[str]) -> list[Finding]:
    """Find zones whose nodes would never get a request.

    Args:
        node_zones: Zones of the nodes, by name or id.
        balancer_zones: Zones of the load balancer's subnets, written in the same way.

    Example:
        >>> [finding.id for finding in check_zones_of_nodes(["us-east-1f"], ["us-east-1a", "us-east-1b"])]
        ['GPU-INF-026']
    """
    enabled = list(balancer_zones)
    return [
        BALANCER_ZONES_OF_NODES.finding(
            cause="the load balancer has no subnet in this zone of the nodes, and so sends them no request",
            got=zone,
            allowed=", ".join(enabled),
            fix="give the load balancer a subnet in every zone of the nodes",
        )
        for zone in node_zones
        if zone not in enabled
    ]


@check
def check_fleet_zones(zone_count: int, *, pinned: bool) -> Iterator[Finding]:
    """Find a service that goes down with one zone, though its capacity does not ask for that.

    Args:
        zone_count: Zones of the nodes.
        pinned: Whether reserved capacity lies in one zone.
    """
    if zone_count < 2 and not pinned:
        yield FLEET_ZONES.finding(
            cause="all of the service is in one Availability Zone",
            got="one zone",
            allowed="two or more",
            fix="choose subnets in two zones, or acknowledge it",
            severity=Severity.WARNING,
        )


@check
def check_room_to_scale(minimum: int, maximum: int, *, size_is_set: bool) -> Iterator[Finding]:
    """Find a scaling policy that can do nothing, or that fights another one.

    Args:
        minimum: Least nodes.
        maximum: Most nodes.
        size_is_set: Whether a Capacity Block's own lifecycle sets the size.
    """
    if size_is_set:
        yield ROOM_TO_SCALE.finding(
            cause="the Capacity Block's start and end set the size of this fleet",
            got="a scaling policy",
            allowed="no scaling policy",
            fix="leave the policy out: the entire block is paid for",
        )
    elif minimum >= maximum:
        yield ROOM_TO_SCALE.finding(
            cause="a scaling policy cannot change the size of this fleet",
            got=f"{minimum} to {maximum} nodes",
            allowed="min_node_count below max_node_count",
            fix="give both bounds, or leave the policy out",
        )


def servers_required(server_count: int, requested: int | None) -> int:
    """Servers that must be up for a node to be healthy: half of them if the user does not say.

    Example:
        >>> servers_required(7, None)
        4
    """
    return (server_count + 1) // 2 if requested is None else requested


@check
def check_servers_required(required: int, server_count: int) -> Iterator[Finding]:
    """Find a health limit that a node can never meet, or always meets."""
    if not 1 <= required <= server_count:
        yield SERVERS_REQUIRED.finding(
            cause="the node can never, or will always, call itself healthy",
            got=str(required),
            allowed=f"1 to {server_count}",
            fix="change min_servers_per_node",
        )


def check_counts(**counts: float | None) -> list[Finding]:
    """Find limits and targets that are not positive; None is left alone."""
    return [
        COUNTS.finding(cause=f"{name} is not positive", got=str(count), allowed="1 or more", fix=f"change {name}")
        for name, count in counts.items()
        if count is not None and count < 1
    ]
