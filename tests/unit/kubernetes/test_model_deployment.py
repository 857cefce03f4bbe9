"""Model servers on Kubernetes: on slices, GPUs, groups of GPUs, and over several nodes."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
import yaml

from cdk_gpu_clusters.catalogue import instance_types
from cdk_gpu_clusters.errors import ConfigError, Severity
from cdk_gpu_clusters.kubernetes.gpu_pod import allocatable
from cdk_gpu_clusters.kubernetes.model_deployment import (
    ServerScaling,
    model_deployment,
    prometheus_adapter_rule,
)
from cdk_gpu_clusters.kubernetes.model_server import SecretKey, ServerPod
from cdk_gpu_clusters.kubernetes.multi_node_model import check_efa_image, multi_node_model
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.rules.mig import MigStrategy
from kubernetes_pools import (
    MIXED,
    check_everywhere,
    containers,
    kinds,
    pod_specs,
    pool_of,
    requests,
    slices,
    trainers,
)

VLLM = ServerPod(image="vllm/vllm-openai:v0.21.0", command=["--model", "/fsx/llama"])


def deploy(pool: NodePool, server: ServerPod = VLLM, **given: Any) -> dict[str, Any]:
    """The objects by their kinds, checked."""
    objects = model_deployment("chat", pool, server, **given)
    check_everywhere(objects)
    return {one["kind"]: one for one in objects}


def only(value: Any) -> dict[str, Any]:
    (container,) = containers(value)
    return container


def faults(pool: NodePool, server: ServerPod = VLLM, **given: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        model_deployment("chat", pool, server, **given)
    return [finding.id for finding in caught.value.findings]


@pytest.mark.parametrize(
    ("pool", "given", "resource", "count", "servers"),
    [
        (pool_of("g6e.48xlarge"), {}, "nvidia.com/gpu", 1, 16),
        (pool_of("g6e.48xlarge"), {"devices_per_server": 4}, "nvidia.com/gpu", 4, 4),
        (pool_of("p5.48xlarge"), {"devices_per_server": 8}, "nvidia.com/gpu", 8, 2),
        (pool_of("g6f.large"), {}, "nvidia.com/gpu", 1, 2),
        (pool_of("inf2.48xlarge"), {"devices_per_server": 6}, "aws.amazon.com/neuron", 6, 4),
        (slices(), {}, "nvidia.com/mig-1g.5gb", 1, 56),
        (slices(strategy=MigStrategy.SINGLE), {}, "nvidia.com/gpu", 1, 56),
        (slices(MIXED), {"profile": "3g.20gb"}, "nvidia.com/mig-3g.20gb", 1, 8),
        (slices(MIXED, node_count=3), {"profile": "1g.5gb"}, "nvidia.com/mig-1g.5gb", 1, 48),
    ],
)
def test_a_server_gets_a_slice_a_gpu_or_a_group_and_fills_the_nodes(
    pool: NodePool, given: dict[str, Any], resource: str, count: int, servers: int
) -> None:
    server = replace(VLLM, weights_path=None)
    found = deploy(pool, server, **given)["Deployment"]
    asked = requests(only(found))
    assert asked[resource] == count
    assert found["spec"]["replicas"] == servers
    assert "vpc.amazonaws.com/efa" not in asked
    room = allocatable(pool)
    each = servers // pool.node_count
    if "profile" not in given:
        assert Fraction(9, 10) < asked["cpu"] * 1000 * each / room.cpu_millicores <= 1
        assert Fraction(9, 10) < asked["memory"] * each / 2**20 / room.memory_mib <= 1


def test_every_type_runs_one_server_on_each_device() -> None:
    for name, record in instance_types().items():
        if record.accelerator is not None:
            count = record.accelerator.count or record.accelerator.logical_count
            assert deploy(pool_of(name), ServerPod(image="s:v1"))["Deployment"]["spec"]["replicas"] == 2 * count, name


def at_once(share: str, pods: int, *, rounded_up: bool) -> int:
    """Pods that may be unavailable: a Deployment rounds down, to one at least, a PodDisruptionBudget rounds up.

    Source: kubernetes/kubernetes, pkg/controller/deployment/util, ResolveFenceposts, and pkg/controller/disruption,
    getExpectedPodCount.
    """
    percent = int(share.removesuffix("%"))
    return -(-percent * pods // 100) if rounded_up else max(1, percent * pods // 100)


@pytest.mark.parametrize("present", [1, 4, 8, 16])
def test_a_new_version_takes_a_quarter_of_the_present_servers_and_no_gpu_beside(present: int) -> None:
    found = deploy(pool_of("g6e.48xlarge"), scaling=ServerScaling())
    strategy = found["Deployment"]["spec"]["strategy"]
    assert strategy["rollingUpdate"]["maxSurge"] == 0
    assert at_once(strategy["rollingUpdate"]["maxUnavailable"], present, rounded_up=False) == max(1, present // 4)


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 7, 16])
@pytest.mark.parametrize("max_unavailable", [1, 2, 5])
@pytest.mark.parametrize(("type_name", "devices"), [("g6e.48xlarge", 1), ("g6e.48xlarge", 4), ("g6e.xlarge", 1)])
def test_an_update_empties_full_nodes_although_evicted_servers_have_no_other_place(
    nodes: int, max_unavailable: int, type_name: str, devices: int
) -> None:
    pool = pool_of(type_name, node_count=nodes, max_unavailable=max_unavailable)
    found = deploy(pool, devices_per_server=devices)
    servers: int = found["Deployment"]["spec"]["replicas"]
    # What is evicted stays Pending, because every other node is full: the budget must cover all of it.
    evicted = servers // nodes * min(max_unavailable, nodes)
    budget = at_once(found["PodDisruptionBudget"]["spec"]["maxUnavailable"], servers, rounded_up=True)
    assert budget >= evicted
    assert budget <= max(evicted + servers // 50 + 1, -(-servers // 4))


def test_servers_that_share_their_nodes_may_all_leave_one() -> None:
    pool = pool_of("g6e.48xlarge", node_count=4)
    for shares, share in ((False, "25%"), (True, "50%")):
        found = deploy(pool, servers=16, shares_nodes=shares)["PodDisruptionBudget"]["spec"]
        assert found["maxUnavailable"] == share
    assert deploy(pool, servers=2, shares_nodes=True)["PodDisruptionBudget"]["spec"]["maxUnavailable"] == "100%"


def test_probes_wait_for_the_model_and_ask_its_own_path() -> None:
    found = deploy(pool_of("g6e.48xlarge"), replace(VLLM, health_path="/ready", port=9000, start_seconds=900))
    container = only(found["Deployment"])
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"] == {"path": "/ready", "port": "http"}
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == 900
    assert found["Deployment"]["spec"]["progressDeadlineSeconds"] > 900
    assert container["ports"] == [{"name": "http", "containerPort": 9000}]
    assert found["Service"]["spec"]["ports"][0] == {"name": "http", "port": 80, "targetPort": "http"}


def test_a_server_that_ends_gets_time_for_its_requests() -> None:
    (pod,) = pod_specs(deploy(pool_of("g6e.48xlarge"), replace(VLLM, drain_seconds=60)))
    wait = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] == 60 + wait


def test_service_budget_and_deployment_mean_the_same_pods() -> None:
    found = deploy(pool_of("g6e.48xlarge"))
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert found["Service"]["spec"]["selector"] == labels
    assert found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    (pod,) = pod_specs(found["Deployment"])
    assert pod["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"] == labels


def test_servers_of_several_gpus_share_memory_and_nccl_variables() -> None:
    alone = only(deploy(pool_of("g6.48xlarge"), ServerPod(image="s:v1")))
    assert alone["env"] == []
    assert "volumeMounts" not in alone
    (pod,) = pod_specs(deploy(pool_of("g6.48xlarge"), ServerPod(image="s:v1"), devices_per_server=4))
    assert pod["volumes"][0]["emptyDir"] == {"medium": "Memory", "sizeLimit": "8192Mi"}
    told = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
    # Its GPUs have no NVLink, and the pod no EFA.
    assert told["NCCL_SHM_USE_CUDA_MEMCPY"] == "1"
    assert "FI_PROVIDER" not in told
    (given,) = pod_specs(deploy(pool_of("g6.48xlarge"), ServerPod(image="s:v1", shared_memory_gib=2)))
    assert given["volumes"][0]["emptyDir"]["sizeLimit"] == "2048Mi"


def test_weights_lie_on_a_file_system_of_the_group_and_are_only_read() -> None:
    (pod,) = pod_specs(deploy(pool_of("g6e.48xlarge"), replace(VLLM, weights_path="/fsx/models/llama")))
    assert pod["containers"][0]["volumeMounts"] == [{"name": "corpus", "mountPath": "/fsx", "readOnly": True}]
    assert pod["volumes"] == [{"name": "corpus", "persistentVolumeClaim": {"claimName": "corpus"}}]


def test_weights_come_from_s3_by_a_volume_of_their_own() -> None:
    server = replace(VLLM, weights_path="/weights", weights_uri="s3://my-models/llama")
    objects = model_deployment("chat", pool_of("g6e.48xlarge"), server)
    check_everywhere(objects)
    assert kinds(objects)[:3] == ["PersistentVolume", "PersistentVolumeClaim", "Deployment"]
    (pod,) = pod_specs(objects)
    claim = objects[1]["metadata"]["name"]
    assert pod["volumes"] == [{"name": "weights", "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}]
    assert pod["containers"][0]["volumeMounts"] == [{"name": "weights", "mountPath": "/weights", "readOnly": True}]


def test_a_model_that_its_gpus_do_not_hold_is_refused() -> None:
    server = replace(VLLM, command=["--model", "/fsx/llama-3.3-70b", "--tensor-parallel-size", "4"])
    with pytest.raises(ConfigError, match=r"GPU-INF-027.*--max-model-len 32768"):
        deploy(pool_of("g6e.48xlarge"), server, devices_per_server=4)


def test_secrets_are_named_and_never_told() -> None:
    server = replace(VLLM, secrets={"HF_TOKEN": SecretKey(name="hub", key="token")}, image_pull_secret="registry")
    (pod,) = pod_specs(deploy(pool_of("g6e.48xlarge"), server))
    told = {one["name"]: one for one in pod["containers"][0]["env"]}
    assert told["HF_TOKEN"] == {
        "name": "HF_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}},
    }
    assert pod["imagePullSecrets"] == [{"name": "registry"}]


def test_the_number_of_servers_follows_their_waiting_requests_between_bounds() -> None:
    found = deploy(pool_of("g6e.48xlarge"), devices_per_server=4, scaling=ServerScaling(min_servers=2))
    # The autoscaler's number would be written over by every change of the manifest.
    assert "replicas" not in found["Deployment"]["spec"]
    spec = found["HorizontalPodAutoscaler"]["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 4)
    assert spec["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"}
    (metric,) = spec["metrics"]
    assert metric["pods"]["metric"]["name"] == prometheus_adapter_rule()["name"]["as"]
    assert metric["pods"]["target"] == {"type": "AverageValue", "averageValue": "4"}


def test_the_adapter_offers_the_metric_of_vllm_by_namespace_and_pod() -> None:
    rule = prometheus_adapter_rule()
    assert "vllm:num_requests_waiting" in rule["seriesQuery"]
    assert set(rule["resources"]["overrides"]) == {"namespace", "pod"}
    assert yaml.safe_load(yaml.safe_dump(rule)) == rule


@pytest.mark.parametrize(
    ("scaling", "found"),
    [
        (ServerScaling(min_servers=4), ["GPU-INF-016"]),
        (ServerScaling(max_servers=5), ["GPU-INF-016"]),
        (ServerScaling(min_servers=3, max_servers=2), ["GPU-INF-016"]),
        (ServerScaling(min_servers=0, target_per_server=0), ["GPU-INF-019", "GPU-INF-019"]),
        (ServerScaling(min_servers=1, max_servers=4), []),
    ],
)
def test_bounds_have_room_between_them_and_on_the_nodes(scaling: ServerScaling, found: list[str]) -> None:
    pool = pool_of("g6e.48xlarge")
    if found:
        assert faults(pool, devices_per_server=4, scaling=scaling) == found
    else:
        assert deploy(pool, devices_per_server=4, scaling=scaling)
        assert faults(pool, devices_per_server=4, scaling=scaling, servers=2) == ["GPU-INF-016"]


@pytest.mark.parametrize(
    ("pool", "given", "found"),
    [
        (pool_of("g6e.48xlarge"), {"devices_per_server": 3}, ["GPU-INF-001"]),
        (pool_of("g6e.48xlarge"), {"profile": "1g.5gb"}, ["GPU-K8S-008"]),
        (pool_of("m8g.4xlarge"), {}, ["GPU-INF-002"]),
        (slices(MIXED), {}, ["GPU-K8S-008"]),
        (slices(MIXED), {"profile": "7g.40gb"}, ["GPU-K8S-008"]),
        (slices(), {"devices_per_server": 2}, ["GPU-K8S-008"]),
        (slices(), {"servers": 57}, ["GPU-K8S-010"]),
        (slices(), {"servers": 0}, ["GPU-K8S-010"]),
    ],
)
def test_servers_without_a_place_are_refused(pool: NodePool, given: dict[str, Any], found: list[str]) -> None:
    assert faults(pool, ServerPod(image="s:v1"), **given) == found


def test_all_faults_of_a_server_are_told_at_once() -> None:
    server = ServerPod(
        image="no image",
        command=["a\nb"],
        port=0,
        health_path="no",
        environment={"A": "1", "MODEL_SERVER_INDEX": "1"},
        secrets={"A": SecretKey(name="No", key="a b")},
        service_account="No",
        image_pull_secret="No",
        weights_path="/home",
        shared_memory_gib=0,
    )
    assert faults(pool_of("g6e.48xlarge"), server, namespace="No") == [
        "GPU-K8S-001",
        "GPU-INF-006",
        "GPU-INF-021",
        "GPU-INF-020",
        "GPU-INF-005",
        "GPU-INF-008",
        "GPU-INF-008",
        "GPU-K8S-009",
        "GPU-K8S-001",
        "GPU-K8S-001",
        "GPU-INF-019",
        "GPU-K8S-019",
    ]
    assert faults(pool_of("g6e.48xlarge"), replace(VLLM, weights_uri="s3://my-models")) == ["GPU-K8S-019"]


def large(pool: NodePool | None = None, server: ServerPod = VLLM, **given: Any) -> list[dict[str, Any]]:
    return multi_node_model("large", pool or trainers(), server, **{"nodes_per_server": 2, **given})


@pytest.mark.parametrize(
    ("image", "warned"),
    [
        ("vllm/vllm-openai:v0.21.0", True),
        ("docker.io/vllm/vllm-openai@sha256:" + 64 * "0", True),
        ("public.ecr.aws/deep-learning-containers/vllm:0.29-gpu", False),
        ("registry.example/team/vllm-openai:with-efa", False),
    ],
)
def test_the_image_of_the_vllm_project_uses_no_efa(image: str, warned: bool) -> None:
    found = check_efa_image(trainers(), image)
    assert [(one.id, one.severity) for one in found] == [("GPU-K8S-023", Severity.WARNING)] * warned
    assert not check_efa_image(pool_of("g6e.48xlarge", efa=False), image)


def test_a_model_over_two_nodes_is_a_group_of_two_whole_nodes() -> None:
    objects = large()
    check_everywhere(objects)
    assert kinds(objects) == ["LeaderWorkerSet", "Service", "PodDisruptionBudget"]
    spec = objects[0]["spec"]
    assert (spec["replicas"], spec["leaderWorkerTemplate"]["size"]) == (8, 2)
    assert spec["leaderWorkerTemplate"]["restartPolicy"] == "RecreateGroupOnPodRestart"
    assert spec["rolloutStrategy"]["rollingUpdateConfiguration"] == {"maxSurge": 0, "maxUnavailable": 1}
    for container in containers(objects):
        asked = requests(container)
        assert [int(asked[name]) for name in ("nvidia.com/gpu", "vpc.amazonaws.com/efa")] == [8, 32]
        assert {"name": "FI_PROVIDER", "value": "efa"} in container["env"]


@pytest.mark.parametrize(("at_once", "pods"), [(1, 1), (2, 3), (3, 5)])
def test_a_drain_takes_the_groups_of_as_many_nodes_as_an_update_replaces_at_once(at_once: int, pods: int) -> None:
    """The budget counts pods: all of one group are away when one is, so that the next drain waits for the group."""
    pool = pool_of("p5.48xlarge", node_count=16, max_unavailable=at_once)
    group, _, budget = large(pool, replace(VLLM, weights_path=None))
    spec = budget["spec"]
    assert (spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]) == (pods, "AlwaysAllow")
    assert spec["selector"]["matchLabels"] == {"leaderworkerset.sigs.k8s.io/name": group["metadata"]["name"]}


def test_vllm_learns_how_the_model_is_split_and_who_leads() -> None:
    leader, worker = (one["args"] for one in containers(large()))
    assert leader == [
        *VLLM.command,
        *("--tensor-parallel-size", "8"),
        *("--pipeline-parallel-size", "2"),
        *("--nnodes", "2"),
        *("--node-rank", "$(LWS_WORKER_INDEX)"),
        *("--master-addr", "$(LWS_LEADER_ADDRESS)"),
        *("--shutdown-timeout", "295"),
    ]
    assert worker == [*leader[:-2], "--headless", *leader[-2:]]


def test_clients_reach_leaders_alone_under_a_name_that_the_set_does_not_take() -> None:
    group, entry, _ = large()
    assert entry["metadata"]["name"] == "large-leader"
    assert entry["spec"]["selector"] == {
        "leaderworkerset.sigs.k8s.io/name": "large",
        "leaderworkerset.sigs.k8s.io/worker-index": "0",
    }
    leader, worker = containers(group)
    assert "startupProbe" in leader
    assert not {"startupProbe", "livenessProbe", "lifecycle", "ports"} & worker.keys()


@pytest.mark.parametrize(("status", "ready"), [(200, True), (503, False), (None, False)])
def test_a_worker_is_ready_when_its_leader_answers(
    status: int | None, ready: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command of the probe, run as kubelet runs it: with the environment of the container, and no shell."""

    class Leader(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/health" and status else 404)
            self.end_headers()

    monkeypatch.setenv("LWS_LEADER_ADDRESS", "127.0.0.1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with HTTPServer(("127.0.0.1", 0), Leader) as leader:
        if status is not None:
            Thread(target=leader.handle_request, daemon=True).start()
        else:
            leader.server_close()
        _, worker = containers(large(server=replace(VLLM, port=leader.server_port)))
        command = worker["readinessProbe"]["exec"]["command"]
        assert (subprocess.run(command, check=False, capture_output=True, timeout=20).returncode == 0) is ready


def test_a_group_in_a_queue_gets_all_its_nodes_at_once_and_near_to_each_other() -> None:
    group, *_ = large(queue="gpu-jobs", same_layer=3)
    check_everywhere([group])
    assert group["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpu-jobs"
    template = group["spec"]["leaderWorkerTemplate"]
    for part in ("leaderTemplate", "workerTemplate"):
        assert template[part]["metadata"]["annotations"] == {
            "kueue.x-k8s.io/podset-required-topology": "topology.k8s.aws/network-node-layer-3",
            "kueue.x-k8s.io/podset-group-name": "server",
        }
    assert "annotations" not in large()[0]["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["metadata"]


def test_weights_of_all_nodes_are_one_volume() -> None:
    objects = large(server=replace(VLLM, weights_path="/weights", weights_uri="s3://my-models/large"))
    check_everywhere(objects)
    claims = {pod["volumes"][1]["persistentVolumeClaim"]["claimName"] for pod in pod_specs(objects)}
    assert claims == {objects[1]["metadata"]["name"]}


@pytest.mark.parametrize(
    ("pool", "given", "found"),
    [
        (trainers(), {"nodes_per_server": 1}, ["GPU-K8S-002"]),
        (trainers(), {"nodes_per_server": 17}, ["GPU-K8S-002"]),
        (trainers(), {"servers": 9}, ["GPU-K8S-002"]),
        (trainers(), {"servers": 0}, ["GPU-K8S-002"]),
        (slices(node_count=2), {}, ["GPU-K8S-003"]),
        (pool_of("inf2.48xlarge"), {}, ["GPU-K8S-004"]),
        (trainers(), {"queue": "gpu-jobs", "same_layer": 9}, ["GPU-K8S-015"]),
        (trainers(), {"same_layer": 3}, ["GPU-K8S-015"]),
        (trainers(), {"namespace": "No", "queue": "No"}, ["GPU-K8S-001", "GPU-K8S-001"]),
    ],
)
def test_groups_that_never_start_are_refused(pool: NodePool, given: dict[str, Any], found: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        large(pool, replace(VLLM, weights_path=None), **given)
    assert [finding.id for finding in caught.value.findings] == found
