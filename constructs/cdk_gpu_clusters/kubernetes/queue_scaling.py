"""How the number of vLLM servers follows their queue, their cache and their tokens: a ScaledObject of KEDA.

KEDA asks a workspace of Amazon Managed Service for Prometheus, which a collector of this library fills
(`EksMetricsScraper`), and makes a HorizontalPodAutoscaler of the answers.

Sources: kedacore/keda @ 68a5b50 (v2.20.2), pkg/scalers/prometheus_scaler.go and pkg/scalers/aws; KEDA documentation,
"Prometheus" and "AWS (IRSA) Pod Identity"; vllm-project/vllm @ 005a810, vllm/v1/metrics/loggers.py (names of metrics);
Kubernetes documentation, "Horizontal Pod Autoscaling" (read 2026-11-27).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cdk_gpu_clusters.errors import Finding, check, define_rule
from cdk_gpu_clusters.kubernetes.objects import (
    DEFAULT_NAMESPACE,
    KubernetesObject,
    kubernetes_object,
)

_API = "keda.sh/v1alpha1"
#: Gauges of vLLM: requests that wait, and the part of the cache of keys and values in use, 1 for all of it.
_WAITING, _CACHE = "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"
#: A counter of vLLM; Prometheus' client adds `_total` to its name.
_TOKENS = "vllm:generation_tokens_total"
# Four scrapes of a collector that scrapes each minute: a rate takes two samples at least.
_RATE_WINDOW = "4m"
#: How often KEDA asks, and how long a queue lasts before servers are added: one scrape. This library's choice.
_POLL_SECONDS, _RISE_SECONDS = 30, 60
#: Least and most that a server is too many before it goes. The most is Kubernetes' own limit of the window.
_LEAST_CALM_SECONDS, _MOST_CALM_SECONDS = 600, 3600

TARGETS = define_rule(
    "GPU-SRV-010",
    "targets of a scaled model are positive, and a cache is 100 percent full at most",
    source="KEDA v2.20.2, pkg/scalers/prometheus_scaler.go: threshold; vLLM, vllm/v1/metrics/loggers.py: 1 means 100 "
    "percent usage",
)

#: A pod's name is that of its ReplicaSet, a dash and 5 characters. Kubernetes cuts what comes before the 5 to 58
#: characters, and the name of a ReplicaSet ends in a dash and a hash of up to 10.
_LONGEST_NAME = 58 - len("-") - 10 - len("-")
POD_NAMES = define_rule(
    "GPU-SRV-011",
    "servers that are found by their metrics have names that Kubernetes does not cut",
    source="kubernetes/kubernetes, staging/src/k8s.io/apiserver/pkg/storage/names/generate.go: MaxGeneratedNameLength; "
    "argoproj/argo-rollouts v1.9.0, rollout/sync.go and utils/hash/hash.go: name of a ReplicaSet",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusWorkspace:
    """Where the metrics of model servers are.

    Attributes:
        workspace_id: Id of the workspace of Amazon Managed Service for Prometheus, such as `ws-0123abcd`; may be a CDK
            token.
        region: Region of the workspace; may be a CDK token.
        domain: Domain of AWS in the partition of the Region.
    """

    workspace_id: str
    region: str
    domain: str = "amazonaws.com"

    @property
    def server_address(self) -> str:
        """Where queries go: KEDA adds `/api/v1/query`.

        Example:
            >>> PrometheusWorkspace(workspace_id="ws-0123abcd", region="us-east-1").server_address
            'https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-0123abcd'
        """
        return f"https://aps-workspaces.{self.region}.{self.domain}/workspaces/{self.workspace_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueScaling:
    """Between how many, and by what, the number of vLLM servers changes. The largest of the answers holds.

    Attributes:
        workspace: Where their metrics are.
        min_servers: Fewest servers.
        max_servers: Most servers; as many as the group has places for if left out.
        waiting_per_server: Requests that wait, for each server. 4 is this library's choice.
        cache_percent: Used part of the cache of keys and values, as an average over the servers. It keeps servers that
            are busy without a queue. 70 is this library's choice.
        tokens_per_second_per_server: Generated tokens, for each server, as you measured for your model. Not a measure
            by default.
    """

    workspace: PrometheusWorkspace
    min_servers: int = 1
    max_servers: int | None = None
    waiting_per_server: int = 4
    cache_percent: int = 70
    tokens_per_second_per_server: int | None = None

    def most(self, places: int) -> int:
        """The most servers.

        Args:
            places: Places that the group has.
        """
        return places if self.max_servers is None else self.max_servers


def scaled_model(
    name: str,
    scaling: QueueScaling,
    places: int,
    *,
    start_seconds: int = 1800,
    namespace: str = DEFAULT_NAMESPACE,
) -> list[KubernetesObject]:
    """The ScaledObject of a Deployment of the same name, and how KEDA signs its queries.

    Servers go one a minute, and only when they were too many for as long as a server takes to start, 10 minutes at
    least and an hour at most. While a query has no answer, such as before the first server runs, their number stays.

    Args:
        name: Name of the Deployment.
        scaling: Bounds and targets.
        places: Places that the group has.
        start_seconds: How long a server may take to start.
        namespace: Namespace of the Deployment.

    Example:
        >>> workspace = PrometheusWorkspace(workspace_id="ws-0123abcd", region="us-east-1")
        >>> login, scaled = scaled_model("chat", QueueScaling(workspace=workspace), 4)
        >>> scaled["spec"]["maxReplicaCount"], len(scaled["spec"]["triggers"])
        (4, 2)
    """
    login = {"podIdentity": {"provider": "aws"}}
    calm = min(max(start_seconds, _LEAST_CALM_SECONDS), _MOST_CALM_SECONDS)
    behavior = {
        "scaleUp": {"stabilizationWindowSeconds": _RISE_SECONDS},
        "scaleDown": {
            "stabilizationWindowSeconds": calm,
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}],
        },
    }
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicaCount": scaling.min_servers,
        "maxReplicaCount": scaling.most(places),
        "pollingInterval": _POLL_SECONDS,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior}},
        "triggers": [
            {
                "type": "prometheus",
                "metricType": "AverageValue",
                # The autoscaler asks more often than KEDA polls: it gets the last answer, and the workspace no query.
                "useCachedMetrics": True,
                "metadata": {
                    "serverAddress": scaling.workspace.server_address,
                    "awsRegion": scaling.workspace.region,
                    "query": query,
                    "threshold": str(threshold),
                    # Without an answer it would take 0, and servers would go because their metrics are missing.
                    "ignoreNullValues": "false",
                },
                "authenticationRef": {"name": name},
            }
            for query, threshold in _targets(name, scaling, namespace)
        ],
    }
    return [
        kubernetes_object(_API, "TriggerAuthentication", name, login, namespace=namespace),
        kubernetes_object(_API, "ScaledObject", name, spec, namespace=namespace),
    ]


def _targets(name: str, scaling: QueueScaling, namespace: str) -> Iterator[tuple[str, int]]:
    """Queries over all servers of a Deployment, and what each server is to have of the answer."""
    # A Deployment's pods have two words more than its name; those of `chat-large` are none of `chat`.
    labels = f'{{namespace="{namespace}",pod=~"{name}-[a-z0-9]+-[a-z0-9]+"}}'
    yield f"sum({_WAITING}{labels})", scaling.waiting_per_server
    yield f"100 * sum({_CACHE}{labels})", scaling.cache_percent
    if scaling.tokens_per_second_per_server is not None:
        yield f"sum(rate({_TOKENS}{labels}[{_RATE_WINDOW}]))", scaling.tokens_per_second_per_server


@check
def check_pod_names(name: str) -> Iterator[Finding]:
    """Find a model whose pods do not keep its name and the hash of their version, by which queries find them.

    Args:
        name: Name of the Deployment or the Rollout.
    """
    if len(name) > _LONGEST_NAME:
        yield POD_NAMES.finding(
            cause="Kubernetes would cut the names of its pods, and no query would find their metrics",
            got=f"{name}, {len(name)} characters",
            allowed=f"{_LONGEST_NAME} characters at most with a canary or QueueScaling",
            fix="shorten the name",
            path="name",
        )


@check
def check_targets(scaling: QueueScaling) -> Iterator[Finding]:
    """Find targets that no server could keep.

    Args:
        scaling: The targets.
    """
    limits = {
        "waiting_per_server": (scaling.waiting_per_server, None),
        "cache_percent": (scaling.cache_percent, 100),
        "tokens_per_second_per_server": (scaling.tokens_per_second_per_server, None),
    }
    for path, (value, most) in limits.items():
        if value is not None and (value < 1 or (most is not None and value > most)):
            yield TARGETS.finding(
                cause="the number of servers has no such measure",
                got=str(value),
                allowed="1 or more" if most is None else f"1 to {most}",
                fix=f"change {path}",
                path=f"scaling.{path}",
            )
