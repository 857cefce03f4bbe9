"""A gateway of the inference extension behind the load balancer of a `ModelGateway`: proxies of agentgateway.

The Application Load Balancer keeps certificate, clients, name and logs. It sends all requests to the proxies, which ask
the endpoint picker of each model for a server.

Sources: agentgateway/agentgateway @ 163ea21 (v1.4.1), controller/pkg/helm/agentgateway (what its controller makes of a
gateway), controller/api/v1alpha1/agentgateway/agentgateway_parameters_types.go; kubernetes-sigs/gateway-api v1.6.0;
docs/decisions/0035-inference-pools-by-agentgateway.md (read 2026-11-28).
"""

from __future__ import annotations

from typing import Any

from cdk_gpu_clusters.errors import raise_for
from cdk_gpu_clusters.kubernetes.gateway import (
    GATEWAY_API,
    ModelGateway,
    admitted_balancer,
    check_gateway,
    check_path,
    path_route,
    target_group,
)
from cdk_gpu_clusters.kubernetes.objects import KubernetesObject, check_name, kubernetes_object
from cdk_gpu_clusters.kubernetes.software.inference import (
    PROXIES,
    inference_pool_name,
    requested,
)
from cdk_gpu_clusters.kubernetes.software.release import ImageMirror, SoftwareSource
from cdk_gpu_clusters.rules.inference import check_counts, keep_alive_seconds

_AGENTGATEWAY, _CLASS = "agentgateway.dev/v1alpha1", "agentgateway"
_POOLS = "inference.networking.k8s.io"
_INNER = "-inference"
#: Port of the proxies inside the cluster, and where they say whether they are ready
#: (controller/pkg/helm/agentgateway/templates/_helpers.tpl).
_PORT, _HEALTH_PORT, _HEALTH_PATH = 80, 15021, "/healthz/ready"
#: How long a proxy keeps an idle connection by default (crates/agentgateway/src/lib.rs: http1_idle_timeout, and
#: proxy/gateway.rs: header_read_timeout).
_IDLE_SECONDS = 600
#: How long a proxy that ends takes requests: a load balancer goes on sending them for up to 25 seconds.
_STOP_DELAY_SECONDS = 30


def inference_gateway_objects(
    gateway: ModelGateway, *, proxies: int = 2, drain_seconds: int = 300, mirror: ImageMirror | None = None
) -> list[KubernetesObject]:
    """A gateway of agentgateway that takes all requests of the load balancer of another one.

    Its proxies have a Service inside the cluster alone. They run on nodes without accelerators, on different ones where
    there are several. They keep idle connections longer than the load balancer: for ten minutes, or 15 seconds longer
    than the `idle_timeout_seconds` of the gateway if this is more.

    Args:
        gateway: The gateway of the load balancer, whose objects `gateway_objects` makes.
        proxies: Number of proxies. 2 is this library's choice.
        drain_seconds: How long running requests get when a proxy ends: no shorter than `drain_seconds` of the servers.
        mirror: Registries of a closed network, which hold a copy of the image.

    Returns:
        AgentgatewayParameters, Gateway, with a long `idle_timeout_seconds` an AgentgatewayPolicy,
        TargetGroupConfiguration, with `subnet_cidrs` a NetworkPolicy, and the HTTPRoute from the load balancer to the
        proxies.

    Raises:
        ConfigError: Faults of the gateway, GPU-K8S-001 and GPU-INF-019, all at once.

    Example:
        >>> gateway = ModelGateway(plain_http=True, clients=["10.0.0.0/16"])
        >>> [one["kind"] for one in inference_gateway_objects(gateway)]
        ['AgentgatewayParameters', 'Gateway', 'TargetGroupConfiguration', 'HTTPRoute']
    """
    name, namespace = f"{gateway.name}{_INNER}", gateway.namespace
    raise_for(
        [
            *check_gateway(gateway),
            *check_name(name),
            *check_counts(proxies=proxies, drain_seconds=drain_seconds),
        ]
    )
    labels = {"matchLabels": {"gateway.networking.k8s.io/gateway-name": name}}
    parameters = {"group": "agentgateway.dev", "kind": "AgentgatewayParameters", "name": name}
    spec: dict[str, Any] = {
        "gatewayClassName": _CLASS,
        "infrastructure": {"parametersRef": parameters},
        "listeners": [
            {"name": "http", "protocol": "HTTP", "port": _PORT, "allowedRoutes": {"namespaces": {"from": "Same"}}}
        ],
    }
    return [
        kubernetes_object(
            _AGENTGATEWAY,
            "AgentgatewayParameters",
            name,
            _parameters(labels, proxies, drain_seconds, mirror),
            namespace=namespace,
        ),
        kubernetes_object(GATEWAY_API, "Gateway", name, spec, namespace=namespace),
        *_kept_connections(name, gateway),
        target_group(
            name,
            health_path=_HEALTH_PATH,
            health_port=_HEALTH_PORT,
            drain_seconds=drain_seconds,
            namespace=namespace,
        ),
        *admitted_balancer(name, gateway, labels, [_PORT, _HEALTH_PORT]),
        path_route(
            name,
            gateway.name,
            "/",
            [{"name": name, "port": _PORT}],
            hostname=gateway.hostname,
            namespace=namespace,
        ),
    ]


def inference_route(name: str, gateway: ModelGateway, *, path: str | None = None) -> KubernetesObject:
    """The route from the gateway of `inference_gateway_objects` to the InferencePool of a model.

    Args:
        name: Name of the model, whose pool `inference_pool_chart` makes.
        gateway: The gateway of the load balancer.
        path: Path below which its API is, which servers do not see; `/<name>` by default. `/` for one model alone.

    Raises:
        ConfigError: GPU-K8S-001 and GPU-SRV-002, both at once.

    Example:
        >>> gateway = ModelGateway(plain_http=True, clients=["10.0.0.0/16"])
        >>> (backend,) = inference_route("chat", gateway)["spec"]["rules"][0]["backendRefs"]
        >>> backend["kind"], backend["name"]
        ('InferencePool', 'chat-pool')
    """
    raise_for([*check_name(name), *check_path(path)])
    backend = {"group": _POOLS, "kind": "InferencePool", "name": inference_pool_name(name)}
    return path_route(
        name,
        f"{gateway.name}{_INNER}",
        f"/{name}" if path is None else path,
        [backend],
        namespace=gateway.namespace,
    )


def _kept_connections(name: str, gateway: ModelGateway) -> list[KubernetesObject]:
    """How long the proxies keep an idle connection, where their default is too short for the load balancer."""
    kept = keep_alive_seconds(gateway.idle_timeout_seconds)
    if kept <= _IDLE_SECONDS:
        return []
    spec = {
        "targetRefs": [{"group": GATEWAY_API.partition("/")[0], "kind": "Gateway", "name": name}],
        "frontend": {"http": {"http1IdleTimeout": f"{kept}s"}},
    }
    return [kubernetes_object(_AGENTGATEWAY, "AgentgatewayPolicy", name, spec, namespace=gateway.namespace)]


def _parameters(labels: dict[str, Any], proxies: int, drain_seconds: int, mirror: ImageMirror | None) -> dict[str, Any]:
    """What the controller is to make of the gateway. The image is named, so that a mirror need not be its default."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": labels,
    }
    return {
        "image": SoftwareSource(mirror=mirror).registry_and_path("agentgateway"),
        "resources": requested(PROXIES, memory_limit="1Gi"),
        "shutdown": {"min": _STOP_DELAY_SECONDS, "max": _STOP_DELAY_SECONDS + drain_seconds},
        "deployment": {
            "spec": {"replicas": proxies, "template": {"spec": {"topologySpreadConstraints": [spread]}}},
        },
        # Otherwise each gateway gets a load balancer of its own.
        "service": {"spec": {"type": "ClusterIP"}},
        "podDisruptionBudget": {"spec": {"maxUnavailable": 1}},
    }
