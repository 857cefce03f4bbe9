"""Jobs over whole nodes: `torchrun`, and the test of NCCL."""

from __future__ import annotations

from typing import Any

import pytest

from cdk_gpu_clusters.catalogue import instance_types
from cdk_gpu_clusters.catalogue.nccl import all_reduce_bandwidths
from cdk_gpu_clusters.errors import ConfigError, Severity
from cdk_gpu_clusters.kubernetes.gang_job import GangJob, check_gang_job
from cdk_gpu_clusters.kubernetes.gpu_pod import allocatable
from cdk_gpu_clusters.kubernetes.nccl_test import nccl_test
from cdk_gpu_clusters.kubernetes.node_pool import NodePool, node_pool
from cdk_gpu_clusters.kubernetes.software import EfaSoftware
from cdk_gpu_clusters.kubernetes.torchrun import check_torchrun, torchrun_job
from kubernetes_pools import (
    MIXED,
    check_everywhere,
    containers,
    gpu_types,
    kinds,
    number,
    pod_specs,
    pool_of,
    requests,
    slices,
    trainers,
)
from kubernetes_schemas import check_objects

IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/llama:v3"


def job(pool: NodePool, **given: Any) -> list[dict[str, Any]]:
    asked: dict[str, Any] = {"node_count": pool.node_count, "image": IMAGE, "command": ["train.py"], **given}
    return torchrun_job("llama", pool, **asked)


def only(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (container,) = (one for item in objects for one in containers(item))
    return container


def variables(container: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container["env"]}


def faults(pool: NodePool, **given: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        job(pool, **given)
    return [finding.id for finding in caught.value.findings]


@pytest.mark.parametrize("name", gpu_types())
def test_a_pod_has_a_whole_node_of_every_type_and_no_more_than_it_allocates(name: str) -> None:
    record, pool = instance_types()[name], pool_of(name)
    accelerator = record.accelerator
    assert accelerator is not None
    efa = len(record.network.efa.recommended_cards) if record.network.efa is not None else 0
    image = IMAGE if record.architecture.value == "arm64" else None
    for objects in (job(pool), job(pool, trainer=True), nccl_test(pool, image=image)):
        check_everywhere(objects)
        asked = requests(only(objects))
        assert asked.pop("nvidia.com/gpu") == accelerator.logical_count
        assert asked.pop("vpc.amazonaws.com/efa", 0) == efa
        room = allocatable(pool)
        assert asked.pop("cpu") * 1000 == room.cpu_millicores < record.vcpus * 1000
        assert asked.pop("memory") == room.memory_mib * 2**20 < record.memory_mib * 2**20
        assert asked.pop("hugepages-2Mi", 0) == room.huge_pages_mib * 2**20
        assert not asked


@pytest.mark.parametrize("name", gpu_types())
def test_by_the_dra_driver_a_pod_claims_as_many_efa_interfaces_and_asks_for_none(name: str) -> None:
    pool, claims = pool_of(name), EfaSoftware.DRA_DRIVER
    image = IMAGE if instance_types()[name].architecture.value == "arm64" else None
    for plain, objects in (
        (job(pool), job(pool, efa=claims)),
        (job(pool, trainer=True), job(pool, trainer=True, efa=claims)),
        (nccl_test(pool, image=image), nccl_test(pool, image=image, efa=claims)),
    ):
        # ResourceClaimTemplates of resource.k8s.io/v1, which GPU-K8S-020 is about.
        assert check_objects(objects, "1.34") == len(objects)
        resources, before = only(objects)["resources"], only(plain)["resources"]
        if not pool.efa_count:
            assert objects == plain
            continue
        (template,) = [one for one in objects if one["kind"] == "ResourceClaimTemplate"]
        (request,) = template["spec"]["spec"]["devices"]["requests"]
        # 32 devices are the most of a claim (Kubernetes API reference, ResourceClaim: AllocationResultsMaxSize).
        assert request["exactly"]["count"] == int(before["limits"].pop("vpc.amazonaws.com/efa")) <= 32
        assert resources.pop("claims") == [{"name": "efa"}]
        before["requests"].pop("vpc.amazonaws.com/efa", None)
        assert resources == before
        (pod,) = pod_specs(objects)
        assert pod["resourceClaims"] == [
            {"name": "efa", "resourceClaimTemplateName": template["metadata"]["name"]},
        ]


def test_memory_huge_pages_and_devices_are_limited_to_what_is_asked_for_and_cpu_is_not() -> None:
    resources = only(job(trainers()))["resources"]
    assert {**resources["limits"], "cpu": resources["requests"]["cpu"]} == resources["requests"]


def test_pods_go_to_their_group_and_tolerate_its_taint() -> None:
    (pod,) = pod_specs(job(trainers()))
    assert pod["nodeSelector"] == {"gpu-cluster/fleet": "trainers"}
    assert pod["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
    ]
    assert pod["restartPolicy"] == "Never"
    assert pod["automountServiceAccountToken"] is False
    assert pod["serviceAccountName"] == "default"
    (theirs,) = pod_specs(job(trainers(), service_account="trainer"))
    assert theirs["serviceAccountName"] == "trainer"


def test_shared_memory_is_a_quarter_of_the_pod() -> None:
    (pod,) = pod_specs(job(trainers()))
    volume, mount = pod["volumes"][0], pod["containers"][0]["volumeMounts"][0]
    assert mount == {"name": volume["name"], "mountPath": "/dev/shm"}  # noqa: S108
    assert volume["emptyDir"]["medium"] == "Memory"
    part = number(volume["emptyDir"]["sizeLimit"]) / requests(only(job(trainers())))["memory"]
    assert 0.24 < part <= 0.25


def test_variables_are_those_of_the_catalogue_by_type_and_the_users_own_win() -> None:
    told = variables(only(job(trainers(), environment={"NCCL_DEBUG": "INFO", "FI_PROVIDER": "tcp"})))
    assert told["NCCL_SOCKET_IFNAME"] == "^docker,lo,veth"
    assert told["NCCL_DEBUG"] == "INFO"
    assert told["FI_PROVIDER"] == "tcp"
    assert "FI_EFA_USE_DEVICE_RDMA" not in told
    assert "NCCL_SHM_USE_CUDA_MEMCPY" not in told
    without_nvlink = variables(only(job(pool_of("g6.48xlarge"))))
    assert without_nvlink["NCCL_SHM_USE_CUDA_MEMCPY"] == "1"
    assert "FI_PROVIDER" not in variables(only(job(pool_of("p5.48xlarge", efa=False))))


def test_torchrun_learns_its_ranks_and_the_address_of_the_first_pod() -> None:
    (item,) = job(trainers())
    told = variables(only([item]))
    assert (told["PET_NNODES"], told["PET_NPROC_PER_NODE"]) == ("16", "8")
    assert told["PET_MASTER_ADDR"] == "llama-node-0-0.llama"
    rank = next(one for one in only([item])["env"] if one["name"] == "PET_NODE_RANK")
    assert "job-completion-index" in rank["valueFrom"]["fieldRef"]["fieldPath"]
    assert item["spec"]["network"] == {"enableDNSHostnames": True, "subdomain": "llama"}
    assert only([item])["args"] == ["torchrun", "train.py"]
    assert "command" not in only([item])


def test_a_gang_starts_whole_by_kueue_and_restarts_whole() -> None:
    (item,) = job(trainers())
    assert item["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpu-jobs"
    (nodes,) = item["spec"]["replicatedJobs"]
    spec = nodes["template"]["spec"]
    assert (spec["parallelism"], spec["completions"], spec["completionMode"]) == (16, 16, "Indexed")
    assert spec["backoffLimit"] == 0
    policy = item["spec"]["failurePolicy"]
    assert (policy["maxRestarts"], policy["restartStrategy"]) == (3, "BlockingRecreate")
    assert policy["rules"][0]["action"] == "RestartJobSetAndIgnoreMaxRestarts"
    assert spec["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["type"] == "DisruptionTarget"
    (alone,) = job(trainers(), queue=None)
    assert "kueue.x-k8s.io/queue-name" not in alone["metadata"]["labels"]


@pytest.mark.parametrize(
    ("name", "layer", "annotation"),
    [
        ("p5.48xlarge", None, ("preferred", "topology.k8s.aws/network-node-layer-3")),
        ("p6-b200.48xlarge", None, ("preferred", "topology.k8s.aws/network-node-layer-4")),
        ("p5.48xlarge", 2, ("required", "topology.k8s.aws/network-node-layer-2")),
        ("g6.48xlarge", None, ("preferred", "kubernetes.io/hostname")),
    ],
)
def test_pods_stand_near_to_each_other_in_the_network(
    name: str, layer: int | None, annotation: tuple[str, str]
) -> None:
    (item,) = job(pool_of(name), same_layer=layer)
    template = item["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    word, label = annotation
    assert template["metadata"]["annotations"] == {f"kueue.x-k8s.io/podset-{word}-topology": label}


def test_file_systems_of_the_group_are_mounted_and_checkpoints_lie_there() -> None:
    container = only(job(trainers(), checkpoint_directory="/fsx/llama"))
    assert {"name": "corpus", "mountPath": "/fsx"} in container["volumeMounts"]
    assert variables(container)["CHECKPOINT_DIR"] == "/fsx/llama"
    assert "CHECKPOINT_DIR" not in variables(only(job(trainers())))


def test_trainer_gets_the_same_pods_and_tells_torchrun_by_itself() -> None:
    plain, runtime = job(trainers())[0], job(trainers(), trainer=True)
    assert kinds(runtime) == ["TrainingRuntime", "TrainJob"]
    ours, theirs = only([plain]), only(runtime)
    assert ours["name"] == theirs["name"] == "node"
    told = [one for one in ours["env"] if not one["name"].startswith("PET_")]
    assert {**ours, "env": told} == theirs
    labels = runtime[0]["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["metadata"]["labels"]
    assert labels == {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    assert runtime[1]["spec"]["trainer"] == {"numNodes": 16, "numProcPerNode": 8}
    assert runtime[1]["spec"]["runtimeRef"]["name"] == runtime[0]["metadata"]["name"]
    assert runtime[1]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpu-jobs"
    assert "kueue.x-k8s.io/queue-name" not in runtime[0]["metadata"]["labels"]


def test_names_of_pods_stay_labels_of_dns() -> None:
    pool = pool_of("p5.48xlarge", node_count=1000)
    longest = "a" * (63 - len("-node-0-999-abcde"))
    assert torchrun_job(longest, pool, node_count=1000, image=IMAGE, command=["train.py"])
    with pytest.raises(ConfigError, match=f"GPU-K8S-001.*1 to {len(longest)} "):
        torchrun_job(f"{longest}a", pool, node_count=1000, image=IMAGE, command=["train.py"])


def test_all_faults_are_told_at_once() -> None:
    assert faults(
        slices(MIXED),
        node_count=2,
        image="no image",
        command=[],
        namespace="No",
        service_account="No",
        queue="No",
        same_layer=4,
        max_restarts=-1,
        checkpoint_directory="/home",
        environment={"A B": "1"},
    ) == [
        "GPU-K8S-001",
        "GPU-K8S-001",
        "GPU-K8S-001",
        "GPU-K8S-002",
        "GPU-K8S-003",
        "GPU-K8S-015",
        "GPU-K8S-017",
        "GPU-INF-006",
        "GPU-INF-008",
        "GPU-K8S-018",
        "GPU-K8S-013",
    ]


@pytest.mark.parametrize("name", ["m8g.4xlarge", "trn2.48xlarge"])
def test_nodes_without_nvidia_gpus_are_refused(name: str) -> None:
    assert "GPU-K8S-004" in faults(pool_of(name))
    with pytest.raises(ConfigError, match="GPU-K8S-004"):
        nccl_test(pool_of(name), image=IMAGE)


@pytest.mark.parametrize(("count", "refused"), [(0, True), (1, False), (2, False), (3, True)])
def test_a_job_takes_no_more_nodes_than_its_group_has(count: int, refused: bool) -> None:
    pool = pool_of("p5.48xlarge", node_count=2)
    if refused:
        assert faults(pool, node_count=count) == ["GPU-K8S-002"]
    else:
        assert job(pool, node_count=count)


def test_nodes_without_efa_are_warned_of_where_there_are_several() -> None:
    def found(count: int) -> list[tuple[str, Severity]]:
        asked = GangJob(
            name="llama",
            pool=pool_of("p5.48xlarge", efa=False),
            node_count=count,
            image=IMAGE,
            command=["torchrun", "train.py"],
            environment={"NCCL_PROTO": "simple"},
        )
        assert check_gang_job(asked) == check_torchrun(asked)[: len(check_gang_job(asked))]
        return [(finding.id, finding.severity) for finding in check_torchrun(asked)]

    harmful = ("GPU-UD-004", Severity.WARNING)
    assert found(1) == [harmful]
    assert found(2) == [("GPU-K8S-005", Severity.WARNING), harmful]


@pytest.mark.parametrize(
    "row", all_reduce_bandwidths(), ids=lambda row: f"{row.instance_type}-{row.nodes}-{row.size_gib}"
)
def test_the_nccl_test_expects_what_somebody_has_published(row: Any) -> None:
    largest = max(
        one.size_gib
        for one in all_reduce_bandwidths()
        if (one.instance_type, one.nodes) == (row.instance_type, row.nodes)
    )
    told = variables(only(nccl_test(pool_of(row.instance_type, node_count=row.nodes), node_count=row.nodes)))
    assert int(told["MAX_BYTES"]) == largest * 2**30
    if row.size_gib == largest:
        assert float(told["EXPECTED_GBYTES_PER_S"]) == row.gbytes_per_s
        assert told["EXPECTED_SOURCE"] == row.source


def test_the_nccl_test_expects_nothing_where_nobody_has_published_or_the_size_is_another() -> None:
    assert "EXPECTED_GBYTES_PER_S" not in variables(only(nccl_test(trainers(), node_count=3)))
    assert "EXPECTED_GBYTES_PER_S" not in variables(only(nccl_test(trainers(), max_size_gib=8)))
    assert variables(only(nccl_test(trainers(), tolerance_percent=5)))["TOLERANCE_PERCENT"] == "5"


def test_the_nccl_test_brings_its_program_and_an_image() -> None:
    settings, job_set = nccl_test(trainers())
    (pod,) = pod_specs(job_set)
    assert settings["data"]["all_reduce.py"].startswith('"""Measure')
    assert {"name": "nccl-test-program", "configMap": {"name": settings["metadata"]["name"]}} in pod["volumes"]
    assert only([job_set])["args"] == ["torchrun", "/opt/gpu-cluster/all_reduce.py"]
    assert only([job_set])["image"].startswith("public.ecr.aws/deep-learning-containers/pytorch:")
    assert all(mount["mountPath"] != "/fsx" for mount in only([job_set])["volumeMounts"])


def test_the_nccl_tests_messages_fit_every_gpu() -> None:
    for name in gpu_types():
        accelerator = instance_types()[name].accelerator
        assert accelerator is not None
        size = int(variables(only(nccl_test(pool_of(name), image=IMAGE)))["MAX_BYTES"])
        assert 8 * 2**20 <= size <= accelerator.memory_mib_each * 2**20 * 3 / 4, name
    with pytest.raises(ConfigError, match=r"GPU-K8S-006.*got 80 GiB.*1 to 60 GiB"):
        nccl_test(trainers(), max_size_gib=80)


def test_the_nccl_test_has_no_image_for_arm() -> None:
    with pytest.raises(ConfigError, match="GPU-K8S-016"):
        nccl_test(pool_of("p6e-gb200.36xlarge"))
    assert nccl_test(pool_of("p6e-gb200.36xlarge"), image=IMAGE)
    with pytest.raises(ConfigError, match="GPU-INF-006"):
        nccl_test(trainers(), image="https://no")


@pytest.mark.parametrize(("of_pool", "of_job", "seconds"), [(90, None, 90), (480, None, 480), (480, 30, 30)])
def test_pods_have_the_time_that_the_end_of_their_node_leaves(of_pool: int, of_job: int | None, seconds: int) -> None:
    pool = node_pool("blocks", instance_type="p5.48xlarge", node_count=2, grace_period_seconds=of_pool)
    job = torchrun_job(
        "llama", pool, node_count=2, image="i:v1", command=["train.py"], grace_period_seconds=of_job, queue=None
    )
    (pod,) = pod_specs(job)
    assert pod["terminationGracePeriodSeconds"] == seconds
