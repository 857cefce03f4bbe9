"""What serves metrics in a cluster of Amazon EKS, and the scrape configuration that finds it by the Kubernetes API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import yaml

from cdk_gpu_clusters.errors import raise_for
from cdk_gpu_clusters.kubernetes.model_server import SERVER_CONTAINER
from cdk_gpu_clusters.observability.targets import Exporter
from cdk_gpu_clusters.rules.kubernetes_labels import FLEET_LABEL
from cdk_gpu_clusters.rules.scrape import JOB, METRICS_PORT, PodTarget, check_pods

#: NVIDIA's DCGM exporter, as a release of this library or as part of the GPU operator; model servers of this library;
#: nodes of Ray, by the label that KubeRay gives them (ray-project/kuberay, ray-operator, utils/constant.go).
EKS_POD_TARGETS: Final = (
    PodTarget(job="dcgm", ports=[Exporter.DCGM.default_port]),
    PodTarget(job="vllm", ports=[Exporter.VLLM.default_port], containers=[SERVER_CONTAINER]),
    PodTarget(job="ray", ports=[Exporter.RAY.default_port], pod_labels={"ray.io/is-ray-node": "yes"}),
)
_ENDED = "Succeeded|Failed"
# Prometheus writes it for every other character of a label's name.
_NO_LETTER = re.compile(r"[^a-zA-Z0-9_]")


def eks_scrape_configuration(
    targets: Sequence[PodTarget] = EKS_POD_TARGETS,
    *,
    fleets: Sequence[str] = (),
    cluster_name: str | None = None,
    interval_seconds: int = 60,
    timeout_seconds: int = 10,
) -> str:
    """A configuration of Prometheus that finds pods and nodes by the Kubernetes API.

    It has only what AWS's managed collectors support, and also works for a Prometheus in the cluster.

    Sources: Amazon Managed Service for Prometheus user guide, "Scraper configuration" (supported sections) and "Access
    entry policy created" (it lists nodes and pods); Prometheus documentation, kubernetes_sd_config.

    Args:
        targets: Pods that are scraped. `EKS_POD_TARGETS` by default: DCGM exporter, vLLM and Ray.
        fleets: Values of the label `gpu-cluster/fleet` of node groups with `NodeWatch(metrics_port=9810)`, whose
            watchdogs are scraped. None by default.
        cluster_name: Label `cluster` of all metrics; may be a token. No such label by default.
        interval_seconds: How often each target is scraped, 30 seconds or more. 60 by default.
        timeout_seconds: How long that may take, at most the interval. 10 by default.

    Raises:
        ConfigError: GPU-SCR-001, GPU-SCR-002, GPU-SCR-009.

    Example:
        >>> text = eks_scrape_configuration([PodTarget(job="triton", ports=[8002])])
        >>> "role: pod" in text
        True
    """
    raise_for(check_pods(targets, fleets=fleets, interval_seconds=interval_seconds, timeout_seconds=timeout_seconds))
    labels = {} if cluster_name is None else {"external_labels": {"cluster": cluster_name}}
    configuration = {
        "global": {"scrape_interval": f"{interval_seconds}s", "scrape_timeout": f"{timeout_seconds}s", **labels},
        "scrape_configs": [*([_of_nodes(fleets)] if fleets else []), *map(_of_pods, targets)],
    }
    # A line that is broken would break a token.
    return yaml.safe_dump(configuration, sort_keys=False, width=100_000)


def _of_nodes(fleets: Sequence[str]) -> dict[str, Any]:
    """The job of the watchdogs: their metrics have the labels `fleet` and `instance_id` themselves."""
    rules = [
        _keep(_label_of("node", FLEET_LABEL), "|".join(map(re.escape, fleets))),
        {
            "source_labels": ["__meta_kubernetes_node_address_InternalIP"],
            "target_label": "__address__",
            "replacement": f"$1:{METRICS_PORT}",
        },
        _named("node", "node_name"),
    ]
    return _job(JOB, "/metrics", {"role": "node"}, rules)


def _of_pods(target: PodTarget) -> dict[str, Any]:
    discovery: dict[str, Any] = {"role": "pod"}
    if target.namespaces:
        discovery["namespaces"] = {"names": list(target.namespaces)}
    rules = [
        {"source_labels": ["__meta_kubernetes_pod_phase"], "regex": _ENDED, "action": "drop"},
        _keep("__meta_kubernetes_pod_container_port_number", "|".join(map(str, target.ports))),
        *(_keep(_label_of("pod", name), re.escape(value)) for name, value in target.pod_labels.items()),
        *([_keep("__meta_kubernetes_pod_container_name", "|".join(target.containers))] if target.containers else []),
        _named("namespace", "namespace"),
        _named("pod", "pod_name"),
        _named("node", "pod_node_name"),
    ]
    return _job(target.job, target.path, discovery, rules)


def _job(name: str, path: str, discovery: dict[str, Any], rules: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "job_name": name,
        "metrics_path": path,
        "scheme": "http",
        "kubernetes_sd_configs": [discovery],
        "relabel_configs": rules,
    }


def _keep(label: str, regex: str) -> dict[str, Any]:
    return {"source_labels": [label], "regex": regex, "action": "keep"}


def _named(label: str, found: str) -> dict[str, Any]:
    return {"source_labels": [f"__meta_kubernetes_{found}"], "target_label": label}


def _label_of(kind: str, name: str) -> str:
    return f"__meta_kubernetes_{kind}_label_{_NO_LETTER.sub('_', name)}"
