"""A new version of a model on some of its servers, judged by their errors and latency: a Rollout of Argo Rollouts.

The part of the requests that the new version gets follows from the number of its servers: all are behind one Service.
Argo Rollouts replaces servers by their number, so that a group without a free place can try a version, too, and a
version that fails loses its servers.

Sources: argoproj/argo-rollouts @ 838d4e7 (v1.9.0), docs/features, utils/replicaset/canary.go (numbers of servers) and
metricproviders/prometheus; trallnag/prometheus-fastapi-instrumentator @ 63b05e5 (v7.1.0), metrics.py: default; vLLM,
vllm/entrypoints/serve/instrumentator/metrics.py @ 02a69ad and vllm/v1/metrics/loggers.py @ 005a810 (read 2026-11-27).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cdk_gpu_clusters.errors import Finding, check, define_rule, raise_for
from cdk_gpu_clusters.kubernetes.objects import KubernetesObject, kubernetes_object
from cdk_gpu_clusters.kubernetes.queue_scaling import PrometheusWorkspace
from cdk_gpu_clusters.kubernetes.software.serving import SIGNING_PROXY
from cdk_gpu_clusters.rules.vllm import NO_STATISTICS

_API = "argoproj.io/v1alpha1"
#: Requests by their method and the class of their answer, as vLLM counts them, without health checks.
_REQUESTS = "http_requests_total"
#: Time to the first token of an answer.
_WAITS = "vllm:time_to_first_token_seconds_bucket"
# Four scrapes of a collector that scrapes each minute: a rate takes two samples at least.
_WINDOW = "4m"
#: How long a new server answers requests before it is judged, so that the window is full, and how often.
_WAIT, _EVERY = "5m", "1m"
#: Queries without an answer that are borne one after the other. Argo Rollouts asks again after 10 seconds, whatever the
#: interval (analysis/analysis.go: DefaultErrorRetryInterval), so that this is 5 minutes.
_ERRORS_BORNE = 30
#: Answers of a step over the limit that are borne. Buckets of vLLM's histogram are wide, and a minute of one server is
#: few requests: with none borne, many rollouts of identical versions are taken back (docs: serving models).
_BORNE = {"errors": 0, "first-token": 4}
#: Percentage of the servers that change at a time where no places are free, as in a Deployment of this library.
_AT_ONCE = "25%"
_NEW, _PRESENT = "new", "present"

STEPS = define_rule(
    "GPU-SRV-030",
    "the steps of a canary rise, from 1 percent of the servers to 99",
    source="argoproj/argo-rollouts v1.9.0, pkg/apis/rollouts/validation/validation.go: setWeight",
)
PLACES = define_rule(
    "GPU-SRV-031",
    "a canary has a server beside one of the present version, and places for both",
    source="argoproj/argo-rollouts v1.9.0, utils/replicaset/canary.go: approximateWeightedCanaryStableReplicaCounts",
)
LIMITS = define_rule(
    "GPU-SRV-032",
    "a canary has limits that a version can exceed, and time to exceed them",
    source="a share of requests is 0 to 100 percent; a version that is as fast as the present one has 100 percent of "
    "its latency",
)
STATISTICS = define_rule(
    "GPU-SRV-033",
    "the latency of a canary is a metric of vLLM, which it serves unless its statistics are off",
    source="vllm-project/vllm, vllm/v1/engine/async_llm.py and vllm/engine/arg_utils.py: disable_log_stats",
)
KIND = define_rule(
    "GPU-SRV-034",
    "a canary is of a model whose servers are one pod each",
    source="argoproj/argo-rollouts v1.9.0, rollout/templateref.go: infoByGroupKind (PodTemplate, Deployment and "
    "ReplicaSet) and pkg/apis/rollouts/v1alpha1: a Rollout and an Experiment make pods of one template",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """How a new version of a model is tried, and when it is taken back.

    Attributes:
        workspace: Where the metrics of its servers are.
        weights: Servers that run the new version in each step, in percent of all, one at least. After the last step it
            gets all of them. 10 and 50 are this library's choice.
        step_minutes: How often each step is judged, once a minute, after the five minutes in which metrics fill. Four
            answers over the limit of the first token are borne: with 4 or less it takes no version back. 10 is this
            library's choice.
        max_error_percent: Most requests that the new version may answer with a status of 500 to 599, in percent. 1 is
            this library's choice.
        max_first_token_percent: Longest time to the first token, as the 95th percentile, in percent of that of the
            present version. None judges errors only. 150 is this library's choice.
        spare_servers: Places of the group that are free for servers of the new version beside all present ones. By
            default none: it takes places of present servers, a quarter at a time.
    """

    workspace: PrometheusWorkspace
    weights: Sequence[int] = (10, 50)
    step_minutes: int = 10
    max_error_percent: float = 1
    max_first_token_percent: int | None = 150
    spare_servers: int = 0


def with_canary(objects: Iterable[KubernetesObject], canary: Canary) -> list[KubernetesObject]:
    """Objects of a model with a Rollout in place of its Deployment, and with how versions are judged.

    `model_deployment(..., canary=...)` calls it, and checks its settings.

    Args:
        objects: The objects of a model.
        canary: How a new version is tried.

    Raises:
        ConfigError: GPU-SRV-034.

    Example:
        >>> workspace = PrometheusWorkspace(workspace_id="ws-0123abcd", region="us-east-1")
        >>> deployment = {"kind": "Deployment", "metadata": {"name": "chat", "namespace": "default"}, "spec": {}}
        >>> [one["kind"] for one in with_canary([deployment], Canary(workspace=workspace))]
        ['AnalysisTemplate', 'Rollout']
    """
    objects = list(objects)
    raise_for(_check_kind([one["kind"] for one in objects]))
    changed: list[KubernetesObject] = []
    for one in objects:
        if one["kind"] == "Deployment":
            changed += [_analysis(one["metadata"]["name"], one["metadata"]["namespace"], canary), _rollout(one, canary)]
        elif "scaleTargetRef" in one.get("spec", {}):
            target = {**one["spec"]["scaleTargetRef"], "apiVersion": _API, "kind": "Rollout"}
            changed.append({**one, "spec": {**one["spec"], "scaleTargetRef": target}})
        else:
            changed.append(one)
    return changed


def _rollout(deployment: KubernetesObject, canary: Canary) -> KubernetesObject:
    name = deployment["metadata"]["name"]
    judged = {
        "analysis": {
            "templates": [{"templateName": name}],
            "args": [
                {"name": _NEW, "valueFrom": {"podTemplateHashValue": "Latest"}},
                {"name": _PRESENT, "valueFrom": {"podTemplateHashValue": "Stable"}},
            ],
        }
    }
    steps: list[dict[str, Any]] = []
    for weight in canary.weights:
        steps += [{"setWeight": weight}, judged]
    spare = canary.spare_servers
    spec = {
        **deployment["spec"],
        # A version whose servers do not get ready in time is taken back as one that fails.
        "progressDeadlineAbort": True,
        "strategy": {
            "canary": {"maxSurge": spare, "maxUnavailable": 0 if spare else _AT_ONCE, "steps": steps},
        },
    }
    return {**deployment, "apiVersion": _API, "kind": "Rollout", "spec": spec}


def _analysis(name: str, namespace: str, canary: Canary) -> KubernetesObject:
    limits = {"errors": (_errors(name, namespace), canary.max_error_percent)}
    if canary.max_first_token_percent is not None:
        limits["first-token"] = (_latency(name, namespace), canary.max_first_token_percent)
    metrics = [
        {
            "name": metric,
            "initialDelay": _WAIT,
            "interval": _EVERY,
            "count": canary.step_minutes,
            "failureLimit": _BORNE[metric],
            # A query without an answer is an error: a version is not promoted without requests or metrics.
            "consecutiveErrorLimit": _ERRORS_BORNE,
            "successCondition": f"result[0] <= {limit:g}",
            "provider": {
                "prometheus": {
                    "address": f"http://{SIGNING_PROXY}/workspaces/{canary.workspace.workspace_id}",
                    "query": query,
                }
            },
        }
        for metric, (query, limit) in limits.items()
    ]
    spec = {"args": [{"name": _NEW}, {"name": _PRESENT}], "metrics": metrics}
    return kubernetes_object(_API, "AnalysisTemplate", name, spec, namespace=namespace)


def _pods(name: str, namespace: str, version: str) -> str:
    """Labels of the servers of a version: pods of a ReplicaSet have its name, which ends in the hash of the version."""
    return f'namespace="{namespace}",pod=~"{name}-{{{{args.{version}}}}}-[a-z0-9]+"'


def _errors(name: str, namespace: str) -> str:
    of_new = f'{_pods(name, namespace, _NEW)},method="POST"'
    errors = _counted(f'{_REQUESTS}{{{of_new},status="5xx"}}')
    return f"100 * (sum({errors}) or vector(0)) / (sum({_counted(f'{_REQUESTS}{{{of_new}}}')}) > 0)"


def _counted(counter: str) -> str:
    """What counters rose by in the window. One that was not there counts from zero, where a rate would see no rise.

    A class of answers has no counter before its first answer.
    """
    return f"clamp_min({counter} - ({counter} offset {_WINDOW} or 0 * {counter}), 0)"


def _latency(name: str, namespace: str) -> str:
    new, present = (
        f"histogram_quantile(0.95, sum by (le) (rate({_WAITS}{{{_pods(name, namespace, version)}}}[{_WINDOW}])))"
        for version in (_NEW, _PRESENT)
    )
    # Without requests a quantile is no number, which the comparison leaves out. Where no server of the present version
    # runs, nothing is to compare with, and the version that may repair it is within the limit.
    return f"100 * {new} / {present} >= 0 or 0 * {new} >= 0 unless {present}"


@check
def _check_kind(kinds: Sequence[str]) -> Iterator[Finding]:
    if "Deployment" not in kinds:
        yield KIND.finding(
            cause="Argo Rollouts changes pods of Deployments, and would change nothing of these objects",
            got=", ".join(kinds) or "no objects",
            allowed="the objects of model_deployment",
            fix="run the new version beside the present one, and share the requests by ModelRoute(weights=...) "
            "(docs: serving models, a model over several nodes)",
            path="canary",
        )


@check
def check_canary(canary: Canary, *, fewest: int, most: int, places: int, command: Sequence[str]) -> Iterator[Finding]:
    """Find a canary that its group has no servers for, or that nothing could judge.

    Args:
        canary: How a new version is tried.
        fewest: Fewest servers of the model.
        most: Most servers of the model.
        places: Places that the group has.
        command: Arguments of the server.
    """
    rises = all(before < after for before, after in pairwise(canary.weights))
    if not canary.weights or not rises or canary.weights[0] < 1 or canary.weights[-1] > 99:
        yield STEPS.finding(
            cause="servers would not change from step to step",
            got=", ".join(map(str, canary.weights)) or "none",
            allowed="one or more, each greater than the one before, from 1 to 99, such as 10, 50",
            fix="change weights",
            path="canary.weights",
        )
    yield from _check_room(canary, fewest, most, places)
    limits = {
        "max_error_percent": (canary.max_error_percent, 0, 99),
        "max_first_token_percent": (canary.max_first_token_percent, 100, None),
        "step_minutes": (canary.step_minutes, 1, None),
    }
    for path, (value, least, greatest) in limits.items():
        if value is not None and (value < least or (greatest is not None and value > greatest)):
            yield LIMITS.finding(
                cause="no version could be judged by it",
                got=str(value),
                allowed=f"{least} or more" if greatest is None else f"{least} to {greatest}",
                fix=f"change {path}",
                path=f"canary.{path}",
            )
    if canary.max_first_token_percent is not None and NO_STATISTICS in command:
        yield STATISTICS.finding(
            cause="each version would be taken back for want of metrics",
            got=NO_STATISTICS,
            allowed="a server with statistics, or max_first_token_percent=None",
            fix=f"take {NO_STATISTICS} out of the command, or judge errors only",
            path="server.command",
        )


def _check_room(canary: Canary, fewest: int, most: int, places: int) -> Iterator[Finding]:
    if canary.spare_servers < 0 or most + canary.spare_servers > places or most < 1:
        yield PLACES.finding(
            cause="the group has no free places for them",
            got=f"{most} servers and {canary.spare_servers} spare ones",
            allowed=f"0 to {max(0, places - max(1, most))} spare ones, for {places} places",
            fix="run fewer servers, give the group more nodes, or leave spare_servers out",
            path="canary.spare_servers",
        )
    if fewest + canary.spare_servers < 2:
        yield PLACES.finding(
            cause="the only server would run the new version, and nothing would be left of the present one",
            got=f"{fewest} servers and {canary.spare_servers} spare ones",
            allowed="2 or more together",
            fix="run two servers at least, keep a place free for spare_servers=1, or leave canary out",
            path="canary",
        )
