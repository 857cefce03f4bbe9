"""How the number of model servers follows their load: a HorizontalPodAutoscaler on a metric of the servers themselves.

The metric comes through the custom metrics API, which a cluster of EKS does not have by itself: Prometheus must scrape
the servers, and an adapter such as prometheus-adapter must offer what it knows (`prometheus_adapter_rule`).
Sources: Kubernetes documentation, "HorizontalPodAutoscaler Walkthrough", Pods metrics; vLLM documentation, "Production
Metrics"; vllm-project/production-stack @ a6c01db, observability/prom-adapter.yaml (read 2026-11-22).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cdk_gpu_clusters.errors import Finding
from cdk_gpu_clusters.kubernetes.objects import DEFAULT_NAMESPACE, KubernetesObject, metadata
from cdk_gpu_clusters.rules.inference import ROOM_TO_SCALE, check_counts

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

    Args:
        name: Name of both.
        scaling: Between how many, and by what.
        places: Places that the group has.
        namespace: Namespace.

    Example:
        >>> model_autoscaler("chat", ServerScaling(min_servers=2), 4)["spec"]["maxReplicas"]
        4
    """
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(name, namespace=namespace),
        "spec": {
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
        },
    }


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


def check_scaling(scaling: ServerScaling, places: int, servers: int | None = None) -> list[Finding]:
    """Find bounds between which no number lies, or for which a group has no places.

    Args:
        scaling: The bounds.
        places: Places that the group has.
        servers: A number of servers that is asked for beside them.
    """
    most = scaling.most(places)
    findings = check_counts(min_servers=scaling.min_servers, target_per_server=scaling.target_per_server)
    if most > places or scaling.min_servers >= most:
        findings.append(
            ROOM_TO_SCALE.finding(
                cause="the number of servers has no room to change, or the group no places for it",
                got=f"{scaling.min_servers} to {most}",
                allowed=f"fewer than the most, up to {places}",
                fix="change min_servers or max_servers, give the group more nodes, or leave scaling out",
                path="scaling",
            )
        )
    if servers is not None:
        findings.append(
            ROOM_TO_SCALE.finding(
                cause="the autoscaler sets the number of servers, and another one is given",
                got=str(servers),
                allowed="servers or scaling",
                fix="leave servers out",
                path="servers",
            )
        )
    return findings
