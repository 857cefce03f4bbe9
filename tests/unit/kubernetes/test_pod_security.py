"""Pods of the library keep to the baseline of the Pod Security Standards, which namespaces for jobs enforce."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.kubernetes.mig import mig_fan_out, mig_workflow
from cdk_gpu_clusters.kubernetes.model_deployment import model_deployment
from cdk_gpu_clusters.kubernetes.model_server import ServerPod
from cdk_gpu_clusters.kubernetes.multi_node_model import multi_node_model
from cdk_gpu_clusters.kubernetes.namespaces import job_namespace
from cdk_gpu_clusters.kubernetes.nccl_test import nccl_test
from cdk_gpu_clusters.kubernetes.ray import RayPods, gpu_ray_cluster
from cdk_gpu_clusters.kubernetes.torchrun import torchrun_job
from kubernetes_pools import MIXED, Objects, slices, trainers

# Kubernetes documentation, "Pod Security Standards", Baseline (v1.34).
_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip


def violations(pod: dict[str, Any]) -> Iterator[str]:
    """Controls of baseline that a pod's spec breaks."""
    yield from (name for name in ("hostNetwork", "hostPID", "hostIPC") if pod.get(name))
    yield from ("hostPath" for volume in pod.get("volumes", []) if "hostPath" in volume)
    for container in [*pod.get("containers", []), *pod.get("initContainers", [])]:
        security = container.get("securityContext", {})
        added = set(security.get("capabilities", {}).get("add", []))
        yield from sorted(added - _CAPABILITIES)
        if security.get("privileged"):
            yield "privileged"
        yield from ("hostPort" for port in container.get("ports", []) if port.get("hostPort"))
        yield from (name for name in ("procMount", "seLinuxOptions", "sysctls") if name in security)
    for security in (pod.get("securityContext", {}),):
        yield from (name for name in ("seLinuxOptions", "sysctls") if name in security)


def pods(value: Any) -> Iterator[dict[str, Any]]:
    """Every spec of pods in some objects."""
    if isinstance(value, dict):
        if "containers" in value:
            yield value
        elif "container" in value:  # a template of Argo
            yield {**value, "containers": [value["container"]]}
        for one in value.values():
            yield from pods(one)
    elif isinstance(value, list):
        for one in value:
            yield from pods(one)


SERVER = ServerPod(image="vllm/vllm-openai:v0.21.0")
WORKLOADS: dict[str, Objects] = {
    "nccl test": nccl_test(trainers()),
    "torchrun": torchrun_job("llama", trainers(), node_count=2, image="llama:v3", command=["train.py"]),
    "fan-out": mig_fan_out("upscale", slices(MIXED), image="upscaler:v1", command=["up"]),
    "workflow": mig_workflow("upscale", slices(MIXED), image="upscaler:v1", command=["up"]),
    "server": model_deployment("chat", slices(), SERVER),
    "ray": gpu_ray_cluster("tune", trainers(), RayPods(image="tune:v3", ray_version="2.58.0"), node_count=2),
    "model over two nodes": multi_node_model("large", trainers(), SERVER, nodes_per_server=2),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_pods_of_the_library_keep_to_baseline(name: str) -> None:
    found = list(pods(WORKLOADS[name]))
    assert found
    assert [list(violations(pod)) for pod in found] == [[]] * len(found)


def test_pods_with_efa_ask_for_it_without_a_capability() -> None:
    (pod,) = pods(WORKLOADS["torchrun"])
    (container,) = pod["containers"]
    assert container["resources"]["limits"]["vpc.amazonaws.com/efa"] == "32"
    assert container["securityContext"] == {"allowPrivilegeEscalation": False}


def test_a_namespace_for_jobs_refuses_what_takes_over_a_node() -> None:
    namespace, policy = job_namespace("research")
    labels = namespace["metadata"]["labels"]
    modes = {key.rpartition("/")[2]: value for key, value in labels.items() if key.startswith("pod-security.")}
    assert modes == {"enforce": "baseline", "warn": "restricted", "audit": "restricted"}
    assert policy["metadata"]["namespace"] == "research"
    assert policy["spec"]["podSelector"] == {}, "every pod"
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": {}}]}], "pods of the same namespace"


#: What makes a pod root on its node: the attacks of someone who may edit objects of one namespace.
HOSTILE: dict[str, dict[str, Any]] = {
    "privileged": {"containers": [{"securityContext": {"privileged": True}}]},
    "hostPath": {"containers": [{}], "volumes": [{"name": "root", "hostPath": {"path": "/"}}]},
    "hostPID": {"containers": [{}], "hostPID": True},
    "hostNetwork": {"containers": [{}], "hostNetwork": True},
    "hostIPC": {"containers": [{}], "hostIPC": True},
    "SYS_ADMIN": {"containers": [{"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]},
    "hostPort": {"containers": [{"ports": [{"hostPort": 80}]}]},
}


@pytest.mark.parametrize("attack", HOSTILE)
def test_a_pod_that_takes_over_its_node_breaks_the_enforced_level(attack: str) -> None:
    labels = job_namespace("research")[0]["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"
    assert list(violations(HOSTILE[attack])) == [attack]


def test_the_name_is_checked() -> None:
    with pytest.raises(ConfigError, match="GPU-K8S-001"):
        job_namespace("Research_Team")
