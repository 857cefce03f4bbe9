"""Jobs that share memory of GPUs over the NVLink of an UltraServer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cdk_gpu_clusters.catalogue import instance_types
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.kubernetes.compute_domain import CHANNEL_RESOURCE, domain_nodes, in_ultraservers
from cdk_gpu_clusters.kubernetes.model_server import ServerPod
from cdk_gpu_clusters.kubernetes.multi_node_model import multi_node_model
from cdk_gpu_clusters.kubernetes.nccl_test import nccl_test
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.queues import queues
from cdk_gpu_clusters.kubernetes.ray import RayPods, gpu_ray_cluster, gpu_ray_job, gpu_ray_service
from cdk_gpu_clusters.kubernetes.software import EfaSoftware
from cdk_gpu_clusters.kubernetes.torchrun import torchrun_job
from kubernetes_pools import VERSIONS, check_everywhere, kinds, pod_specs, pool_of
from kubernetes_schemas import WrongObjectsError, check_objects

IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/llama:v3"
CLIQUE = "nvidia.com/gpu.clique"


def rack(node_count: int = 18) -> NodePool:
    return pool_of("p6e-gb200.36xlarge", node_count=node_count)


def job(pool: NodePool, **given: Any) -> list[dict[str, Any]]:
    asked: dict[str, Any] = {"node_count": pool.node_count, "image": IMAGE, "command": ["train.py"], **given}
    return torchrun_job("llama", pool, **{"compute_domain": True, **asked})


def faults(pool: NodePool, **given: Any) -> list[tuple[str, str | None]]:
    with pytest.raises(ConfigError) as caught:
        job(pool, **given)
    return [(finding.id, finding.path) for finding in caught.value.findings]


@pytest.mark.parametrize(("trainer", "others"), [(False, ["JobSet"]), (True, ["TrainingRuntime", "TrainJob"])])
def test_every_pod_claims_a_channel_of_the_domain_that_comes_before_the_job(trainer: bool, others: list[str]) -> None:
    objects = job(rack(), trainer=trainer)
    assert kinds(objects) == ["ComputeDomain", *others]
    domain = objects[0]
    (pod,) = pod_specs(objects)
    (claim,), (container,) = pod["resourceClaims"], pod["containers"]
    assert claim["resourceClaimTemplateName"] == domain["spec"]["channel"]["resourceClaimTemplate"]["name"]
    assert container["resources"]["claims"] == [{"name": claim["name"]}]
    # The GPUs come from the device plugin.
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "4"
    assert domain["metadata"]["namespace"] == "default"


@pytest.mark.parametrize("version", VERSIONS)
def test_domains_and_claims_fit_the_schemas_of_kubernetes_and_of_the_driver(version: str) -> None:
    for objects in (job(rack()), job(rack(), queue=None), nccl_test(rack(), image=IMAGE, compute_domain=True)):
        assert check_objects(objects, version) == len(objects)
    wrong = job(rack())[0]
    wrong["spec"]["numNodes"] = -1
    with pytest.raises(WrongObjectsError, match="minimum"):
        check_objects([wrong], version)


def test_a_domain_depends_on_the_name_alone_because_its_spec_is_immutable() -> None:
    """The CRD's rule is `self == oldSelf`: a job that is applied again with other nodes must bring the same domain."""
    assert job(rack(), node_count=9)[0] == job(rack(), node_count=18, max_restarts=7, image=f"{IMAGE}.1")[0]


def test_a_queue_places_the_job_in_one_ultraserver_and_an_affinity_does_without_one() -> None:
    template = job(rack())[1]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert template["metadata"]["annotations"] == {"kueue.x-k8s.io/podset-required-topology": CLIQUE}
    assert "affinity" not in template["spec"]

    template = job(rack(), queue=None)[1]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    (term,) = template["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == CLIQUE
    assert term["labelSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_the_topology_of_ultraservers_has_the_ultraserver_above_the_host_and_a_channel_for_each_node() -> None:
    objects = queues([rack()])
    check_everywhere(objects)
    topology = next(one for one in objects if one["kind"] == "Topology")
    assert [level["nodeLabel"] for level in topology["spec"]["levels"]] == [CLIQUE, "kubernetes.io/hostname"]
    (group,) = next(one for one in objects if one["kind"] == "ClusterQueue")["spec"]["resourceGroups"]
    (flavor,) = group["flavors"]
    assert {"name": CHANNEL_RESOURCE, "nominalQuota": "18"} in flavor["resources"]


def test_a_job_without_a_domain_prefers_one_ultraserver_and_claims_nothing() -> None:
    objects = job(rack(), compute_domain=False)
    assert kinds(objects) == ["JobSet"]
    template = objects[0]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert template["metadata"]["annotations"] == {"kueue.x-k8s.io/podset-preferred-topology": CLIQUE}
    assert "resourceClaims" not in template["spec"]
    assert "claims" not in template["spec"]["containers"][0]["resources"]


@pytest.mark.parametrize(("nodes", "most"), [(9, 9), (18, 18), (27, 18), (36, 18)])
def test_a_domain_is_no_wider_than_an_ultraserver(nodes: int, most: int) -> None:
    assert domain_nodes(rack(nodes)) == most
    assert job(rack(nodes), node_count=most)
    if nodes > most:
        assert faults(rack(nodes), node_count=most + 1) == [("GPU-IMEX-002", "node_count")]


@pytest.mark.parametrize("name", ["p5.48xlarge", "p6-b200.48xlarge"])
def test_nodes_outside_of_ultraservers_have_no_domain(name: str) -> None:
    assert faults(pool_of(name), node_count=2) == [("GPU-IMEX-001", "compute_domain")]


def test_faults_of_a_domain_come_with_those_of_its_job() -> None:
    found = faults(rack(36), node_count=37, same_layer=2)
    assert found == [("GPU-K8S-002", "node_count"), ("GPU-K8S-015", "same_layer"), ("GPU-IMEX-002", "node_count")]


def test_ultraservers_of_trainium_have_no_imex() -> None:
    racks = {name for name, one in instance_types().items() if one.ultraservers}
    assert {name for name in racks if in_ultraservers(pool_of(name))} == {"p6e-gb200.36xlarge"} < racks


def test_a_pod_may_claim_a_channel_and_efa_interfaces() -> None:
    objects = job(rack(), efa=EfaSoftware.DRA_DRIVER)
    assert kinds(objects) == ["ComputeDomain", "ResourceClaimTemplate", "JobSet"]
    (pod,) = pod_specs(objects)
    templates = [one["resourceClaimTemplateName"] for one in pod["resourceClaims"]]
    assert templates == ["llama-channel", "llama-efa"]
    assert pod["containers"][0]["resources"]["claims"] == [{"name": one["name"]} for one in pod["resourceClaims"]]


def check_claims(objects: list[dict[str, Any]]) -> None:
    """Compare with the schemas of every version that has claims in resource.k8s.io/v1."""
    for version in VERSIONS:
        if version != "1.33":
            assert check_objects(objects, version) == len(objects)


def ray_pods(**given: Any) -> RayPods:
    return RayPods(image=IMAGE, ray_version="2.60.0", **{"compute_domain": True, **given})


def test_the_workers_of_ray_claim_a_channel_and_efa_interfaces_and_the_head_claims_nothing() -> None:
    told = ray_pods(efa=EfaSoftware.DRA_DRIVER)
    for objects in (
        gpu_ray_cluster("tune", rack(), told, node_count=18),
        gpu_ray_job("tune", rack(), told, node_count=18, command=["python", "tune.py"]),
    ):
        assert kinds(objects)[:2] == ["ComputeDomain", "ResourceClaimTemplate"]
        check_claims(objects)
        spec = objects[2]["spec"]
        cluster = spec.get("rayClusterSpec", spec)
        worker, head = cluster["workerGroupSpecs"][0]["template"], cluster["headGroupSpec"]["template"]
        assert [one["resourceClaimTemplateName"] for one in worker["spec"]["resourceClaims"]] == [
            objects[0]["spec"]["channel"]["resourceClaimTemplate"]["name"],
            objects[1]["metadata"]["name"],
        ]
        resources = worker["spec"]["containers"][0]["resources"]
        assert [one["name"] for one in worker["spec"]["resourceClaims"]] == [one["name"] for one in resources["claims"]]
        assert "vpc.amazonaws.com/efa" not in resources["limits"]
        assert worker["metadata"]["annotations"] == {"kueue.x-k8s.io/podset-required-topology": CLIQUE}
        assert "resourceClaims" not in head["spec"]


def test_an_affinity_keeps_workers_of_ray_without_a_queue_in_one_ultraserver() -> None:
    objects = gpu_ray_cluster("tune", rack(), ray_pods(), node_count=18, queue=None)
    worker = objects[1]["spec"]["workerGroupSpecs"][0]["template"]
    (term,) = worker["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert (term["topologyKey"], term["labelSelector"]["matchLabels"]) == (CLIQUE, worker["metadata"]["labels"])
    # KubeRay sets these itself, on the head too.
    assert not {one for one in worker["metadata"]["labels"] if one.startswith(("ray.io/", "app.kubernetes.io/"))}


def test_a_domain_of_ray_is_no_wider_than_an_ultraserver_and_not_of_a_service() -> None:
    serve = {"applications": [{"name": "chat", "import_path": "chat:app", "route_prefix": "/"}]}
    cases: list[tuple[Callable[[], object], list[str]]] = [
        (lambda: gpu_ray_cluster("tune", rack(36), ray_pods(), node_count=19), ["GPU-IMEX-002"]),
        (lambda: gpu_ray_cluster("tune", pool_of("p5.48xlarge"), ray_pods(), node_count=2), ["GPU-IMEX-001"]),
        (lambda: gpu_ray_service("chat", rack(), ray_pods(), node_count=2, serve_config=serve), ["GPU-RAY-014"]),
    ]
    for make, ids in cases:
        with pytest.raises(ConfigError) as caught:
            make()
        assert [one.id for one in caught.value.findings] == ids


def model(pool: NodePool, **given: Any) -> list[dict[str, Any]]:
    server = ServerPod(image=IMAGE, command=["--model", "/models/large"])
    return multi_node_model("large", pool, server, **{"nodes_per_server": 18, "compute_domain": True, **given})


@pytest.mark.parametrize("queue", ["gpu-jobs", None])
def test_all_pods_of_a_server_over_an_ultraserver_claim_a_channel_of_its_domain(queue: str | None) -> None:
    objects = model(rack(), efa=EfaSoftware.DRA_DRIVER, queue=queue)
    check_claims(objects)
    assert kinds(objects)[:3] == ["ComputeDomain", "ResourceClaimTemplate", "LeaderWorkerSet"]
    domain, _, servers = objects[:3]
    assert servers["spec"]["replicas"] == 1
    for part in ("leaderTemplate", "workerTemplate"):
        template = servers["spec"]["leaderWorkerTemplate"][part]
        pod = template["spec"]
        assert [one["resourceClaimTemplateName"] for one in pod["resourceClaims"]] == [
            domain["spec"]["channel"]["resourceClaimTemplate"]["name"],
            "large-efa",
        ]
        resources = pod["containers"][0]["resources"]
        assert [one["name"] for one in resources["claims"]] == [one["name"] for one in pod["resourceClaims"]]
        # The GPUs come from the device plugin.
        assert resources["limits"]["nvidia.com/gpu"] == "4"
        annotations = template["metadata"].get("annotations", {})
        if queue is None:
            (term,) = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            # LeaderWorkerSet puts this label on leaders and workers (kubernetes-sigs/lws v0.10.0, api).
            labels = {"leaderworkerset.sigs.k8s.io/name": "large"}
            assert (term["topologyKey"], term["labelSelector"]["matchLabels"]) == (CLIQUE, labels)
            assert annotations == {}
        else:
            assert annotations["kueue.x-k8s.io/podset-required-topology"] == CLIQUE
            # Leader and workers are placed as one.
            assert annotations["kueue.x-k8s.io/podset-group-name"]
            assert "affinity" not in pod


def test_a_server_without_a_domain_claims_no_channel() -> None:
    objects = model(rack(), compute_domain=False, nodes_per_server=9)
    assert kinds(objects)[0] == "LeaderWorkerSet"
    assert objects[0]["spec"]["replicas"] == 2
    assert "resourceClaims" not in str(objects)


@pytest.mark.parametrize(
    ("pool", "given", "expected"),
    [
        (rack(36), {"nodes_per_server": 19}, [("GPU-IMEX-002", "nodes_per_server")]),
        (rack(18), {"nodes_per_server": 9}, [("GPU-IMEX-004", "servers")]),
        (rack(36), {"nodes_per_server": 18, "servers": 2}, [("GPU-IMEX-004", "servers")]),
        (rack(36), {"nodes_per_server": 18, "servers": 1}, []),
        (rack(18), {"nodes_per_server": 10}, []),
        (
            pool_of("p5.48xlarge", node_count=4),
            {"nodes_per_server": 2, "same_layer": 9},
            [("GPU-IMEX-001", "compute_domain"), ("GPU-IMEX-004", "servers"), ("GPU-K8S-015", "same_layer")],
        ),
    ],
)
def test_a_domain_of_a_model_is_of_one_server_in_one_ultraserver(
    pool: NodePool, given: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    found: list[tuple[str, str | None]] = []
    try:
        assert model(pool, **given)[0]["kind"] == "ComputeDomain"
    except ConfigError as error:
        found = [(one.id, one.path) for one in error.findings]
    assert found == expected


def test_servers_over_several_nodes_claim_efa_interfaces_in_every_pod() -> None:
    server = ServerPod(image=IMAGE, command=["--model", "/models/large"])
    pool = pool_of("p5.48xlarge", node_count=4)
    objects = multi_node_model("large", pool, server, nodes_per_server=2, efa=EfaSoftware.DRA_DRIVER)
    check_claims(objects)
    claims, servers = objects[0], objects[1]
    assert claims["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] == pool.efa_count
    for part in ("leaderTemplate", "workerTemplate"):
        pod = servers["spec"]["leaderWorkerTemplate"][part]["spec"]
        assert pod["resourceClaims"] == [{"name": "efa", "resourceClaimTemplateName": claims["metadata"]["name"]}]
        resources = pod["containers"][0]["resources"]
        assert resources["claims"] == [{"name": "efa"}]
        assert "vpc.amazonaws.com/efa" not in resources["limits"]
        assert "hugepages-2Mi" in resources["limits"]
