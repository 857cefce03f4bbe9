"""One address in front of several models: a gateway of the Gateway API, and a route to the servers of each model.

The AWS Load Balancer Controller makes an Application Load Balancer of the gateway. It does not know InferencePool of
the inference extension (no mention of it at v3.5.0), so requests go to the server with the fewest open ones, and not
by the state of its cache. `inference_gateway` puts a gateway behind it that does.

Sources: kubernetes-sigs/aws-load-balancer-controller @ 11eb202 (v3.5.0), docs/guide/gateway and pkg/gateway;
kubernetes-sigs/gateway-api v1.6.0, CRDs of the standard channel (read 2026-11-27).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from types import MappingProxyType
from typing import Any

from cdk_gpu_clusters.errors import Finding, check, define_rule, raise_for
from cdk_gpu_clusters.kubernetes.model_server import ServerPod
from cdk_gpu_clusters.kubernetes.multi_node_model import LEADER
from cdk_gpu_clusters.kubernetes.objects import (
    DEFAULT_NAMESPACE,
    KubernetesObject,
    check_name,
    kubernetes_object,
)
from cdk_gpu_clusters.rules.inference import check_idle_timeout, check_tls
from cdk_gpu_clusters.rules.vllm import KEEP_ALIVE, is_vllm

#: The Gateway API, and what the AWS Load Balancer Controller adds to it.
GATEWAY_API, _AWS = "gateway.networking.k8s.io/v1", "gateway.k8s.aws/v1"
_CONTROLLER = "gateway.k8s.aws/alb"
#: Label of namespaces whose pods are ready when their load balancer has found them healthy
#: (kubernetes-sigs/aws-load-balancer-controller @ 11eb202, docs/deploy/pod_readiness_gate.md).
READINESS_LABEL = "elbv2.k8s.aws/pod-readiness-gate-inject"
#: Port of the Services of model servers.
_SERVICE_PORT = 80
#: TLS 1.2 and 1.3, as AWS recommends. The controller's own default of 2016 takes TLS 1.0.
_TLS_POLICY = "ELBSecurityPolicy-TLS13-1-2-2021-06"
# Without wildcards and characters of regular expressions: the controller writes the path into patterns of both.
_PATH = re.compile(r"/|(/[A-Za-z0-9_-]+)+")
_HOST = re.compile(r"([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)+[a-z]([-a-z0-9]*[a-z0-9])?")
_PREFIX_LIST = re.compile(r"pl-[0-9a-f]{8,17}")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,40}")
# The controller splits values at commas and drops backslashes (CONDITIONS); * and ? are wildcards of the load balancer
# (Elastic Load Balancing API Reference 2015-12-01, HttpHeaderConditionConfig).
_HEADER_VALUE = re.compile(r"[^,\\*?]{1,128}", re.DOTALL)
#: Values of conditions that a rule has at most, of which a path has two (`/chat` and `/chat/*`).
_MOST_CONDITIONS, _OF_PATH = 5, 2
#: Services of a route, which are target groups of one action, and the weight of each.
_MOST_SERVICES, _MOST_WEIGHT = 5, 999
#: How often the load balancer asks, and how often it must hear the same. This library's choice.
_HEALTH_SECONDS, _HEALTHY, _UNHEALTHY = 10, 2, 3

CLIENTS = define_rule(
    "GPU-SRV-001",
    "a gateway names its clients: IPv4 ranges and prefix lists",
    source="kubernetes-sigs/aws-load-balancer-controller @ 11eb202, pkg/gateway/model/model_build_security_group.go: "
    "without sourceRanges all addresses may connect, and prefix lists are added to them",
)
ADDRESS = define_rule(
    "GPU-SRV-002",
    "a gateway has a name of DNS, and the path of a route plain segments",
    source="CRD of Gateway v1.6.0, listeners.hostname; kubernetes-sigs/aws-load-balancer-controller @ 11eb202, "
    "pkg/gateway/routeutils/route_rule_transform.go: the path becomes a part of a regular expression",
)
CONDITIONS = define_rule(
    "GPU-SRV-003",
    "a rule of an Application Load Balancer has five values of conditions at most",
    source='Elastic Load Balancing user guide for Application Load Balancers, "Quotas" and "Condition types for '
    'listener rules": names of headers have 40 characters at most, values 128; '
    "kubernetes-sigs/aws-load-balancer-controller @ 11eb202, pkg/gateway/routeutils/route_rule_condition.go: a comma "
    "separates values, a backslash escapes",
)
WEIGHTS = define_rule(
    "GPU-SRV-004",
    "a route has five Services at most, with weights of 0 to 999, one of them more than 0",
    source="kubernetes-sigs/aws-load-balancer-controller @ 11eb202, pkg/gateway/routeutils/backend.go and "
    'route_rule_action.go; Elastic Load Balancing user guide for Application Load Balancers, "Quotas": target groups '
    "per action, not adjustable",
)
SUBNETS = define_rule(
    "GPU-SRV-005",
    "subnets of a load balancer are IPv4 ranges",
    source="Kubernetes API reference, NetworkPolicy: ipBlock.cidr",
)
KEPT_CONNECTIONS = define_rule(
    "GPU-SRV-041",
    "a vLLM server keeps idle connections longer than the load balancer in front of it",
    source='Elastic Load Balancing user guide for Application Load Balancers, "Connection idle timeout": that of the '
    "application is larger than that of the load balancer; vllm-project/vllm, pull request 18472: 5 seconds by default",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGateway:
    """One address for several models.

    Attributes:
        name: Name of its objects.
        clients: Who may connect: IPv4 ranges, and ids of prefix lists.
        certificate_arn: ACM certificate of the listener at port 443; may be a CDK token.
        plain_http: True instead of a certificate: port 80, without TLS. Only for an internal load balancer.
        hostname: Name under which clients ask, such as `models.example.org`; requests with others get 404. Any name by
            default. `ExternalDns` keeps it in a hosted zone.
        internet_facing: Whether the load balancer has public addresses.
        subnet_ids: Its subnets, in two Availability Zones at least. By default the controller takes one of each zone,
            private ones for an internal load balancer.
        subnet_cidrs: IPv4 ranges of its subnets. With them each route has a NetworkPolicy, which lets the load balancer
            connect to the servers. It is for a namespace whose pods take connections from one another only, such as
            those of `job_namespace` and `team_objects`, where the load balancer would find no server healthy. In a
            namespace without NetworkPolicies it would close the servers to everyone else. None by default.
        idle_timeout_seconds: How long a request or a stream may be silent.
        access_log_bucket: Bucket of access logs, which lets the service write. None by default.
        namespace: Namespace of the gateway and of all its routes.
    """

    name: str = "models"
    clients: Sequence[str] = ()
    certificate_arn: str | None = None
    plain_http: bool = False
    hostname: str | None = None
    internet_facing: bool = False
    subnet_ids: Sequence[str] = ()
    subnet_cidrs: Sequence[str] = ()
    idle_timeout_seconds: int = 300
    access_log_bucket: str | None = None
    namespace: str = DEFAULT_NAMESPACE


def gateway_objects(gateway: ModelGateway) -> list[KubernetesObject]:
    """The gateway, with its class and what the AWS Load Balancer Controller makes it of.

    Args:
        gateway: The gateway.

    Raises:
        ConfigError: GPU-K8S-001, GPU-SRV-001, GPU-SRV-002, GPU-SRV-005, GPU-INF-012, GPU-INF-013, all at once.

    Example:
        >>> objects = gateway_objects(ModelGateway(plain_http=True, clients=["10.0.0.0/16"]))
        >>> [one["kind"] for one in objects]
        ['GatewayClass', 'LoadBalancerConfiguration', 'Gateway']
    """
    raise_for(check_gateway(gateway))
    name, namespace = gateway.name, gateway.namespace
    listener: dict[str, Any] = {
        "name": "http" if gateway.plain_http else "https",
        "protocol": "HTTP" if gateway.plain_http else "HTTPS",
        "port": 80 if gateway.plain_http else 443,
        **({} if gateway.hostname is None else {"hostname": gateway.hostname}),
        "allowedRoutes": {"namespaces": {"from": "Same"}},
    }
    parameters = {"group": "gateway.k8s.aws", "kind": "LoadBalancerConfiguration", "name": name}
    spec = {"gatewayClassName": name, "infrastructure": {"parametersRef": parameters}, "listeners": [listener]}
    return [
        kubernetes_object(GATEWAY_API, "GatewayClass", name, {"controllerName": _CONTROLLER}, namespace=None),
        kubernetes_object(_AWS, "LoadBalancerConfiguration", name, _load_balancer(gateway), namespace=namespace),
        kubernetes_object(GATEWAY_API, "Gateway", name, spec, namespace=namespace),
    ]


def _load_balancer(gateway: ModelGateway) -> dict[str, Any]:
    attributes = {
        "idle_timeout.timeout_seconds": str(gateway.idle_timeout_seconds),
        "routing.http.drop_invalid_header_fields.enabled": "true",
    }
    if gateway.access_log_bucket is not None:
        attributes |= {"access_logs.s3.enabled": "true", "access_logs.s3.bucket": gateway.access_log_bucket}
    ranges = [one for one in gateway.clients if not _PREFIX_LIST.fullmatch(one)]
    lists = [one for one in gateway.clients if _PREFIX_LIST.fullmatch(one)]
    certificate = {
        "protocolPort": "HTTPS:443",
        "defaultCertificate": gateway.certificate_arn,
        "sslPolicy": _TLS_POLICY,
    }
    return {
        "scheme": "internet-facing" if gateway.internet_facing else "internal",
        # Also when empty: a list that is left out means all addresses, beside the prefix lists (source of GPU-SRV-001).
        "sourceRanges": ranges,
        **({"securityGroupPrefixes": lists} if lists else {}),
        **({"loadBalancerSubnets": [{"identifier": one} for one in gateway.subnet_ids]} if gateway.subnet_ids else {}),
        **({} if gateway.plain_http else {"listenerConfigurations": [certificate]}),
        "loadBalancerAttributes": _attributes(attributes),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRoute:
    """Which requests go to the servers of a model.

    Attributes:
        path: Path below which its API is, which servers do not see; `/<name>` by default. `/` for one model alone, or
            for a choice by headers.
        headers: Values of headers that a request must have, all of them. Commas, backslashes and `*` and `?` are
            refused: the load balancer would not take them as they are. None by default.
        weights: Services that share the requests, five at most, and their weights, for a new version beside the present
            one. The Service of the name of the route takes all by default.
    """

    path: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)


def model_route(
    name: str, gateway: ModelGateway, server: ServerPod, route: ModelRoute | None = None
) -> list[KubernetesObject]:
    """The route of a gateway to the servers of `model_deployment` or `multi_node_model`.

    Servers that are behind a load balancer need `stop_delay_seconds=30`, so that it has stopped to send requests before
    they end. Their `idle_timeout_seconds` is that of the gateway or more: the load balancer closes an idle connection
    before the server does, or requests are lost in between.

    The pods of a namespace with the label `elbv2.k8s.aws/pod-readiness-gate-inject: enabled` are ready when the load
    balancer has found them healthy: without it a rollout goes on before requests reach new servers.

    Args:
        name: Name of the route, and by default of the Service.
        gateway: Its gateway; Services are in the namespace of it.
        server: The server, for health checks and drains.
        route: Which requests it takes; those below `/<name>` by default.

    Returns:
        A TargetGroupConfiguration for each Service, with `subnet_cidrs` the NetworkPolicy, and the HTTPRoute.

    Raises:
        ConfigError: GPU-K8S-001, GPU-SRV-002 to -005 and -041, all at once.

    Example:
        >>> gateway = ModelGateway(plain_http=True, clients=["10.0.0.0/16"])
        >>> server = ServerPod(image="vllm/vllm-openai:v0.21.0", stop_delay_seconds=30)
        >>> canary = ModelRoute(weights={"chat": 95, "chat-next": 5})
        >>> *targets, route = model_route("chat", gateway, server, canary)
        >>> route["spec"]["rules"][0]["matches"][0]["path"]["value"], len(targets)
        ('/chat', 2)
    """
    route = ModelRoute() if route is None else route
    raise_for([*check_name(name), *check_route(gateway, route), *check_kept_connections(gateway, server)])
    weights = dict(route.weights) or {name: 1}
    backends = [{"name": service, "port": _SERVICE_PORT, "weight": weight} for service, weight in weights.items()]
    # Pods of a LeaderWorkerSet have its name, and their Service that of their leaders.
    pods = sorted({one for service in weights for one in (service, service.removesuffix(LEADER))})
    servers = {"matchExpressions": [{"key": "app.kubernetes.io/name", "operator": "In", "values": pods}]}
    return [
        *(
            target_group(
                service,
                health_path=server.health_path,
                drain_seconds=server.drain_seconds,
                namespace=gateway.namespace,
            )
            for service in weights
        ),
        *admitted_balancer(name, gateway, servers, [server.port]),
        path_route(
            name,
            gateway.name,
            f"/{name}" if route.path is None else route.path,
            backends,
            headers=route.headers,
            hostname=gateway.hostname,
            namespace=gateway.namespace,
        ),
    ]


def path_route(
    name: str,
    parent: str,
    path: str,
    backends: Sequence[Mapping[str, Any]],
    *,
    headers: Mapping[str, str] = MappingProxyType({}),
    hostname: str | None = None,
    namespace: str,
) -> KubernetesObject:
    """An HTTPRoute of what lies below a path, which backends do not see.

    Args:
        name: Its name.
        parent: Its gateway.
        path: The path.
        backends: References to what answers.
        headers: Values of headers that a request must have.
        hostname: Name under which clients ask; any name by default.
        namespace: Namespace of gateway and route.
    """
    match: dict[str, Any] = {"path": {"type": "PathPrefix", "value": path}}
    if headers:
        match["headers"] = [{"type": "Exact", "name": header, "value": value} for header, value in headers.items()]
    rewrite = {
        "type": "URLRewrite",
        "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}},
    }
    rule = {
        "matches": [match],
        **({} if path == "/" else {"filters": [rewrite]}),
        "backendRefs": [dict(one) for one in backends],
    }
    spec = {
        "parentRefs": [{"name": parent}],
        **({} if hostname is None else {"hostnames": [hostname]}),
        "rules": [rule],
    }
    return kubernetes_object(GATEWAY_API, "HTTPRoute", name, spec, namespace=namespace)


def target_group(
    service: str, *, health_path: str, health_port: int | None = None, drain_seconds: int, namespace: str
) -> KubernetesObject:
    """How a load balancer asks the pods of a Service for their health, and lets their requests end.

    Args:
        service: Name of the Service.
        health_path: Path that answers with a status of 200 to 299.
        health_port: Port of it; that of the requests by default.
        drain_seconds: How long running requests get when a pod goes.
        namespace: Namespace of the Service.
    """
    attributes = {
        "deregistration_delay.timeout_seconds": str(drain_seconds),
        # Requests of models take seconds to minutes: taking turns would fill one server while another is idle.
        "load_balancing.algorithm.type": "least_outstanding_requests",
    }
    spec = {
        "targetReference": {"name": service},
        "defaultConfiguration": {
            "targetType": "ip",
            "healthCheckConfig": {
                "healthCheckPath": health_path,
                **({} if health_port is None else {"healthCheckPort": str(health_port)}),
                "healthCheckInterval": _HEALTH_SECONDS,
                "healthyThresholdCount": _HEALTHY,
                "unhealthyThresholdCount": _UNHEALTHY,
                "matcher": {"httpCode": "200-299"},
            },
            "targetGroupAttributes": _attributes(attributes),
        },
    }
    return kubernetes_object(_AWS, "TargetGroupConfiguration", service, spec, namespace=namespace)


def admitted_balancer(
    name: str, gateway: ModelGateway, pods: Mapping[str, Any], ports: Iterable[int]
) -> list[KubernetesObject]:
    """Who else connects to pods: the interfaces of the load balancer, which are no pods, by their subnets.

    Args:
        name: Name of the NetworkPolicy.
        gateway: The gateway; without `subnet_cidrs` nothing is made.
        pods: Selector of the pods.
        ports: Ports that it may use.
    """
    if not gateway.subnet_cidrs:
        return []
    spec = {
        "podSelector": dict(pods),
        "policyTypes": ["Ingress"],
        "ingress": [
            {
                "from": [{"ipBlock": {"cidr": one}} for one in gateway.subnet_cidrs],
                "ports": [{"protocol": "TCP", "port": port} for port in ports],
            }
        ],
    }
    return [kubernetes_object("networking.k8s.io/v1", "NetworkPolicy", name, spec, namespace=gateway.namespace)]


def _attributes(attributes: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in attributes.items()]


@check
def check_gateway(gateway: ModelGateway) -> Iterator[Finding]:
    """Find a gateway that cannot work, or that all addresses may reach.

    Args:
        gateway: The gateway.
    """
    yield from check_name(gateway.name)
    yield from check_name(gateway.namespace, path="namespace")
    yield from check_tls(
        has_certificate=gateway.certificate_arn is not None,
        plain_http=gateway.plain_http,
        internet_facing=gateway.internet_facing,
    )
    yield from check_idle_timeout(gateway.idle_timeout_seconds)
    wrong = [one for one in gateway.clients if not _is_client(one)]
    if wrong or not gateway.clients:
        yield CLIENTS.finding(
            cause="its security group takes ranges and prefix lists" if wrong else "all addresses could connect",
            got=", ".join(map(repr, wrong)) or "none",
            allowed="such as 10.0.0.0/16, or pl-0123456789abcdef0",
            fix="name those who may connect",
            path="clients",
        )
    if gateway.hostname is not None and not _HOST.fullmatch(gateway.hostname):
        yield ADDRESS.finding(
            cause="no client could ask for this name",
            got=repr(gateway.hostname),
            allowed="lower-case letters, digits and dashes, with dots between labels, such as models.example.org",
            fix="change hostname, or leave it out for any name",
            path="hostname",
        )
    yield from _check_subnets(gateway)


def _check_subnets(gateway: ModelGateway) -> Iterator[Finding]:
    wrong = [one for one in gateway.subnet_cidrs if not _is_range(one)]
    if wrong:
        yield SUBNETS.finding(
            cause="a NetworkPolicy takes no such range",
            got=", ".join(map(repr, wrong)),
            allowed="such as 10.0.1.0/24",
            fix="name the ranges of the subnets",
            path="subnet_cidrs",
        )


def _is_client(text: str) -> bool:
    return _PREFIX_LIST.fullmatch(text) is not None or _is_range(text)


def _is_range(text: str) -> bool:
    try:
        IPv4Network(text)
    except ValueError:
        return False
    return "/" in text


@check
def check_route(gateway: ModelGateway, route: ModelRoute) -> Iterator[Finding]:
    """Find a route that the load balancer would refuse.

    Args:
        gateway: Its gateway.
        route: The route.
    """
    yield from check_path(route.path)
    room = _MOST_CONDITIONS - _OF_PATH - (gateway.hostname is not None)
    wrong = [
        name
        for name, value in route.headers.items()
        if not _HEADER.fullmatch(name) or not _HEADER_VALUE.fullmatch(value)
    ]
    if len(route.headers) > room or wrong:
        yield CONDITIONS.finding(
            cause="a rule of the load balancer has no such conditions",
            got=", ".join(f"{name}: {route.headers[name]!r}" for name in wrong)
            or f"{len(route.headers)} headers, besides path and host name",
            allowed=f"{room} headers, with names of letters, digits and dashes, and values of 1 to 128 characters "
            "without , \\ * ?",
            fix="ask for fewer headers, or change these",
            path="headers",
        )
    yield from _check_weights(route.weights)
    yield from _check_subnets(gateway)


@check
def check_kept_connections(gateway: ModelGateway, server: ServerPod) -> Iterator[Finding]:
    """Find a vLLM server that closes idle connections which the load balancer still uses.

    A value of the user's own in the server's environment is left alone, and so are other servers.

    Args:
        gateway: The gateway of the load balancer.
        server: The server.
    """
    is_own = KEEP_ALIVE in {*server.environment, *server.secrets}
    if is_vllm(server.image) and not is_own and server.idle_timeout_seconds < gateway.idle_timeout_seconds:
        yield KEPT_CONNECTIONS.finding(
            cause="the load balancer would send requests on connections that the server is closing, and answer 502",
            got=f"{server.idle_timeout_seconds} seconds, and a load balancer with {gateway.idle_timeout_seconds}",
            allowed=f"{gateway.idle_timeout_seconds} seconds or more",
            fix=f"set idle_timeout_seconds={gateway.idle_timeout_seconds} in ServerPod",
            path="server.idle_timeout_seconds",
        )


@check
def check_path(path: str | None) -> Iterator[Finding]:
    """Find a path that a gateway would not take as it is.

    Args:
        path: The path; None for the one of the model.
    """
    if path is not None and not _PATH.fullmatch(path):
        yield ADDRESS.finding(
            cause="the load balancer takes the path into a pattern",
            got=repr(path),
            allowed="/, or segments of letters, digits, dashes and underscores, such as /chat",
            fix="change path",
            path="path",
        )


def _check_weights(weights: Mapping[str, int]) -> Iterator[Finding]:
    for service in weights:
        yield from check_name(service, path="weights")
    is_wrong = any(not 0 <= weight <= _MOST_WEIGHT for weight in weights.values())
    if is_wrong or len(weights) > _MOST_SERVICES or (weights and not any(weights.values())):
        yield WEIGHTS.finding(
            cause="the load balancer takes no such weights",
            got=", ".join(f"{service}: {weight}" for service, weight in weights.items()),
            allowed=f"up to {_MOST_SERVICES} Services with weights of 0 to {_MOST_WEIGHT}, one of them more than 0",
            fix="change the weights",
            path="weights",
        )
