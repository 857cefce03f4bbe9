"""Model servers on Kubernetes: one pod for each MIG slice, GPU or group of GPUs of a node, behind one Service.

Sources: vLLM documentation, "Using Kubernetes" (probes, /dev/shm); Kubernetes documentation, "Deployments" (a share of
unavailable pods is rounded down, to one at least) and "Specifying a Disruption Budget for your Application" (rounded
up; `AlwaysAllow`, recommended so that pods which never become ready do not hold up a drain).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from cdk_gpu_clusters.catalogue.mig import MigProfile
from cdk_gpu_clusters.errors import Finding, check, define_rule, errors_in, raise_for
from cdk_gpu_clusters.kubernetes.canary import Canary, check_canary, with_canary
from cdk_gpu_clusters.kubernetes.gpu_pod import NodeShare, placement, pod_resources
from cdk_gpu_clusters.kubernetes.mig import PROFILE, profiles_of, slice_count, slice_share
from cdk_gpu_clusters.kubernetes.model_server import (
    ServerPod,
    check_server,
    pod_fields,
    server_container,
    server_volumes,
)
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import (
    DEFAULT_NAMESPACE,
    KubernetesObject,
    check_name,
    kubernetes_object,
    metadata,
)
from cdk_gpu_clusters.kubernetes.queue_scaling import QueueScaling, check_pod_names, check_targets, scaled_model
from cdk_gpu_clusters.kubernetes.volumes import s3_volume
from cdk_gpu_clusters.rules.inference import ROOM_TO_SCALE, check_counts
from cdk_gpu_clusters.rules.model_servers import ServerSlots, check_slots
from cdk_gpu_clusters.rules.vllm import check_vllm_server

_WEIGHTS = "-weights"
#: Where clients of a Service ask.
_SERVICE_PORT = 80
#: Percentage of the servers that change at a time. This library's choice.
_AT_ONCE = 25
#: Kubernetes evicts servers that are not ready also while the budget allows no other one.
ALWAYS_EVICT_UNHEALTHY = "AlwaysAllow"

SERVER_COUNT = define_rule(
    "GPU-K8S-010",
    "a group runs one model server or more, and no more than it has places for",
    source="a server without a place waits forever",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlaces:
    """Where the servers of a group run.

    Attributes:
        share: What each takes of its node.
        count: Places on all nodes of the group.
    """

    share: NodeShare
    count: int


def model_deployment(
    name: str,
    pool: NodePool,
    server: ServerPod,
    *,
    devices_per_server: int = 1,
    profile: str | None = None,
    servers: int | None = None,
    scaling: ServerScaling | QueueScaling | None = None,
    canary: Canary | None = None,
    shares_nodes: bool = False,
    namespace: str = DEFAULT_NAMESPACE,
) -> list[KubernetesObject]:
    """A Deployment of model servers with its Service, its disruption budget and, where asked for, its autoscaler.

    A new version takes the places of old servers, and needs none beside them: reserved GPUs are all in use. At most a
    quarter of the present servers change at a time. The disruption budget also allows an update of the nodes to empty
    as many of them as it replaces at once: their servers have no other place until new nodes are there. Servers that
    are not ready do not hold up a drain.

    Args:
        name: Name of all objects, and the host name of the Service.
        pool: Group of their nodes.
        server: The server.
        devices_per_server: GPUs or Neuron devices of each; they divide those of a node. 1 with MIG.
        profile: MIG profile of its slices; the only one of the layout if left out.
        servers: How many; as many as the group has places for if left out. With `scaling`, leave it out.
        scaling: Between how many, and by what, their number changes; it stays as it is if left out. `QueueScaling` is
            for vLLM, in a cluster with `Keda`. A Deployment that ran without it goes to one server as `kubectl apply`
            removes its number, unless the number is taken out of what was applied last before (docs: serving models).
        canary: How a new version is tried on some servers first, and taken back on errors: a Rollout of Argo Rollouts
            takes the place of the Deployment, in a cluster with `ArgoRollouts`. By default a version rolls through the
            servers.
        shares_nodes: Whether pods of others take the places that these servers leave free. The budget then allows all
            servers that a drained node may hold, however few there are in all.
        namespace: Namespace.

    Returns:
        Where weights come from S3 their volume and claim; Deployment, Service, PodDisruptionBudget; with `scaling` the
        HorizontalPodAutoscaler, or the TriggerAuthentication and the ScaledObject of KEDA; with `canary` the
        AnalysisTemplate and the Rollout in place of the Deployment.

    Raises:
        ConfigError: GPU-K8S-001, -008 to -010, -019, GPU-SRV-010, -011, -030 to -033 and those of a server (GPU-INF),
            all at once.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("chat", instance_type="g6e.48xlarge", node_count=2)
        >>> server = ServerPod(image="vllm/vllm-openai:v0.21.0", command=["--tensor-parallel-size", "4"])
        >>> deployment, *_ = model_deployment("chat", pool, server, devices_per_server=4)
        >>> deployment["spec"]["replicas"]
        4
    """
    places = server_places(pool, devices_per_server=devices_per_server, profile=profile)
    longest = 63 - (0 if server.weights_uri is None else len(_WEIGHTS))
    raise_for(
        [
            *check_name(name, longest=longest),
            *check_name(namespace, path="namespace"),
            *check_places(pool, devices_per_server=devices_per_server, profile=profile),
            *check_server(pool, server),
            *_check_gpus(pool, server, devices_per_server),
            *([] if places is None else _check_count(pool, servers, places.count)),
            *([] if places is None or scaling is None else check_scaling(scaling, places.count, servers)),
            *(check_targets(scaling) if isinstance(scaling, QueueScaling) else []),
            *(check_pod_names(name) if canary is not None or isinstance(scaling, QueueScaling) else []),
            *([] if places is None else _check_canary(canary, server, scaling, servers, places.count)),
        ]
    )
    if places is None:
        raise ValueError(f"{pool.name} has no place for a server, which check_places should have reported")
    weights = (
        [] if server.weights_uri is None else s3_volume(f"{name}{_WEIGHTS}", server.weights_uri, namespace=namespace)
    )
    objects = [
        *weights,
        _deployment(name, pool, server, places, None if scaling else servers or places.count, namespace),
        service(name, {"app.kubernetes.io/name": name}, namespace),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata(name, namespace=namespace),
            "spec": {
                "maxUnavailable": f"{_away_percent(pool, places.count, servers if shares_nodes else None)}%",
                "unhealthyPodEvictionPolicy": ALWAYS_EVICT_UNHEALTHY,
                "selector": _selector(name),
            },
        },
        *_scaler(name, server, scaling, places.count, namespace),
    ]
    return objects if canary is None else with_canary(objects, canary)


def _check_canary(
    canary: Canary | None,
    server: ServerPod,
    scaling: ServerScaling | QueueScaling | None,
    servers: int | None,
    places: int,
) -> list[Finding]:
    """Find a canary that the servers of a model have no room for."""
    if canary is None:
        return []
    fixed = places if servers is None else servers
    fewest, most = (fixed, fixed) if scaling is None else (scaling.min_servers, scaling.most(places))
    return check_canary(canary, fewest=fewest, most=most, places=places, command=server.command)


def _scaler(
    name: str, server: ServerPod, scaling: ServerScaling | QueueScaling | None, places: int, namespace: str
) -> list[KubernetesObject]:
    if isinstance(scaling, QueueScaling):
        return scaled_model(name, scaling, places, start_seconds=server.start_seconds, namespace=namespace)
    return [] if scaling is None else [model_autoscaler(name, scaling, places, namespace=namespace)]


def _away_percent(pool: NodePool, places: int, servers: int | None) -> int:
    """The share of the servers that may be away, in percent: a quarter, or those on the nodes of one step."""
    drained = pool.drained_percent
    if servers is not None:
        drained = min(100, ceil(drained * places / servers))
    return max(_AT_ONCE, drained)


def _check_gpus(pool: NodePool, server: ServerPod, devices_per_server: int) -> list[Finding]:
    """Find GPUs that do not fit a vLLM server."""
    if pool.mig is not None:
        return []
    return check_vllm_server(
        server.image,
        server.command,
        weights=server.weights_uri or server.weights_path or "",
        instance_type=pool.instance_type,
        devices_per_server=devices_per_server,
    )


def server_places(pool: NodePool, *, devices_per_server: int = 1, profile: str | None = None) -> ServerPlaces | None:
    """Where servers of a group run; None where `check_places` finds a fault.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> places = server_places(node_pool("chat", instance_type="g6e.48xlarge", node_count=2), devices_per_server=4)
        >>> places.count, places.share.part
        (4, Fraction(1, 2))
    """
    if check_places(pool, devices_per_server=devices_per_server, profile=profile):
        return None
    chosen = _chosen_profile(pool, profile)
    if chosen is not None:
        return ServerPlaces(share=slice_share(pool, chosen), count=slice_count(pool, chosen))
    ((resource, count),) = pool.resources.items()
    share = NodeShare(resource=resource, count=devices_per_server, part=Fraction(devices_per_server, count))
    return ServerPlaces(share=share, count=count // devices_per_server * pool.node_count)


@check
def check_places(pool: NodePool, *, devices_per_server: int = 1, profile: str | None = None) -> Iterator[Finding]:
    """Find servers that the nodes of a group have no devices for."""
    if pool.mig is None:
        yield from errors_in(check_slots(pool.instance_type, ServerSlots.tensor_parallel(devices_per_server)))
        if profile is not None:
            yield _wrong_profile(profile, [])
    elif _chosen_profile(pool, profile) is None or devices_per_server != 1:
        got = profile or "none, of several" if devices_per_server == 1 else f"{devices_per_server} slices"
        yield _wrong_profile(got, [one.name for one in profiles_of(pool.mig)])


def service(name: str, selector: dict[str, str], namespace: str) -> KubernetesObject:
    """The Service of model servers, inside the cluster.

    Args:
        name: Its name.
        selector: Labels of the pods that answer.
        namespace: Namespace.
    """
    spec = {
        "type": "ClusterIP",
        "selector": selector,
        "ports": [{"name": "http", "port": _SERVICE_PORT, "targetPort": "http"}],
    }
    return kubernetes_object("v1", "Service", name, spec, namespace=namespace)


def _deployment(
    name: str,
    pool: NodePool,
    server: ServerPod,
    places: ServerPlaces,
    replicas: int | None,
    namespace: str,
) -> KubernetesObject:
    volumes, _ = server_volumes(pool, server, places.share, f"{name}{_WEIGHTS}")
    spec = {
        # An autoscaler's number is not written over.
        **({} if replicas is None else {"replicas": replicas}),
        "selector": _selector(name),
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 0, "maxUnavailable": f"{_AT_ONCE}%"},
        },
        # Longer than one server takes to start.
        "progressDeadlineSeconds": server.start_seconds + server.drain_seconds + 600,
        "template": {
            "metadata": {"labels": {"app.kubernetes.io/name": name}},
            "spec": {
                **pod_fields(server),
                **placement(pool),
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "labelSelector": _selector(name),
                    }
                ],
                "containers": [server_container(pool, server, pod_resources(pool, places.share), places.share)],
                **({"volumes": volumes} if volumes else {}),
            },
        },
    }
    return kubernetes_object("apps/v1", "Deployment", name, spec, namespace=namespace)


def _selector(name: str) -> dict[str, Any]:
    return {"matchLabels": {"app.kubernetes.io/name": name}}


def _chosen_profile(pool: NodePool, name: str | None) -> MigProfile | None:
    profiles = [] if pool.mig is None else profiles_of(pool.mig)
    if name is None:
        return profiles[0] if len(profiles) == 1 else None
    return next((profile for profile in profiles if profile.name == name), None)


def _wrong_profile(got: str, names: list[str]) -> Finding:
    return PROFILE.finding(
        cause="the layout of the group has no such slices" if names else "the GPUs of the group are not split",
        got=got,
        allowed=f"one slice of {', '.join(names)}" if names else "no profile",
        fix="name a profile; each takes a deployment of its own" if names else "leave profile out",
        path="profile",
    )


@check
def _check_count(pool: NodePool, servers: int | None, places: int) -> Iterator[Finding]:
    if servers is not None and not 1 <= servers <= places:
        yield SERVER_COUNT.finding(
            cause=f"the nodes of {pool.name} do not run so many",
            got=f"{servers} servers",
            allowed=f"1 to {places}",
            fix="run fewer, or give the group more nodes",
            path="servers",
        )


# How the number of model servers follows their load: a HorizontalPodAutoscaler on a metric of the servers themselves.
#
# The metric comes through the custom metrics API, which a cluster of EKS does not have by itself: Prometheus must
# scrape the servers, and an adapter such as prometheus-adapter must offer what it knows (`prometheus_adapter_rule`).
# Sources: Kubernetes documentation, "HorizontalPodAutoscaler Walkthrough", Pods metrics; vLLM documentation,
# "Production Metrics"; vllm-project/production-stack @ a6c01db, observability/prom-adapter.yaml (read 2026-11-22).

#: Requests that wait in a vLLM server, as the adapter calls them; Prometheus knows them as `vllm:num_requests_waiting`.
WAITING_REQUESTS = "vllm_num_requests_waiting"
#: A model takes minutes to load: servers go one by one, when they were too many for ten minutes. This library's choice.
_CALM_SECONDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerScaling:
    """Between how many, and by what, the number of servers changes.

    Attributes:
        min_servers: Fewest servers.
        max_servers: Most servers; as many as the group has places for if left out.
        metric: Name of the metric of a pod in the custom metrics API.
        target_per_server: Average over the servers that their number is to keep. 4 waiting requests is this library's
            choice.
    """

    min_servers: int = 1
    max_servers: int | None = None
    metric: str = WAITING_REQUESTS
    target_per_server: int = 4

    def most(self, places: int) -> int:
        """The most servers.

        Args:
            places: Places that the group has.
        """
        return places if self.max_servers is None else self.max_servers


def model_autoscaler(
    name: str, scaling: ServerScaling, places: int, *, namespace: str = DEFAULT_NAMESPACE
) -> KubernetesObject:
    """The HorizontalPodAutoscaler of a Deployment of the same name.

    Example:
        >>> model_autoscaler("chat", ServerScaling(min_servers=2), 4)["spec"]["maxReplicas"]
        4
    """
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": scaling.min_servers,
        "maxReplicas": scaling.most(places),
        "metrics": [
            {
                "type": "Pods",
                "pods": {
                    "metric": {"name": scaling.metric},
                    "target": {"type": "AverageValue", "averageValue": str(scaling.target_per_server)},
                },
            }
        ],
        "behavior": {
            "scaleDown": {
                "stabilizationWindowSeconds": _CALM_SECONDS,
                "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
            }
        },
    }
    return kubernetes_object("autoscaling/v2", "HorizontalPodAutoscaler", name, spec, namespace=namespace)


def prometheus_adapter_rule() -> dict[str, Any]:
    """The rule, among `rules.custom` of prometheus-adapter, that offers a pod's waiting requests as a custom metric.

    Prometheus must scrape /metrics of the servers, and keep the labels `namespace` and `pod`.

    Example:
        >>> prometheus_adapter_rule()["name"]["as"]
        'vllm_num_requests_waiting'
    """
    return {
        "seriesQuery": '{__name__="vllm:num_requests_waiting",namespace!="",pod!=""}',
        "resources": {"overrides": {"namespace": {"resource": "namespace"}, "pod": {"resource": "pod"}}},
        "name": {"as": WAITING_REQUESTS},
        "metricsQuery": "sum by (<<.GroupBy>>) (<<.Series>>{<<.LabelMatchers>>})",
    }


@check
def check_scaling(scaling: ServerScaling | QueueScaling, places: int, servers: int | None = None) -> Iterator[Finding]:
    """Find bounds between which no number lies, or for which a group has no places.

    Args:
        scaling: The bounds.
        places: Places that the group has.
        servers: A number of servers that is asked for beside them.
    """
    most = scaling.most(places)
    targets = {} if isinstance(scaling, QueueScaling) else {"target_per_server": scaling.target_per_server}
    yield from check_counts(min_servers=scaling.min_servers, **targets)
    if most > places or scaling.min_servers >= most:
        yield ROOM_TO_SCALE.finding(
            cause="the number of servers has no room to change, or the group no places for it",
            got=f"{scaling.min_servers} to {most}",
            allowed=f"fewer than the most, up to {places}",
            fix="change min_servers or max_servers, give the group more nodes, or leave scaling out",
            path="scaling",
        )
    if servers is not None:
        yield ROOM_TO_SCALE.finding(
            cause="the autoscaler sets the number of servers, and another one is given",
            got=str(servers),
            allowed="servers or scaling",
            fix="leave servers out",
            path="servers",
        )
