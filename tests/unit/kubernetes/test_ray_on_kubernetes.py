"""Ray by KubeRay: clusters, jobs and services, held against the published CRDs and the operator's own checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from cdk_gpu_clusters.catalogue import instance_types
from cdk_gpu_clusters.errors import ConfigError, Severity
from cdk_gpu_clusters.kubernetes.gpu_pod import allocatable
from cdk_gpu_clusters.kubernetes.model_server import SecretKey
from cdk_gpu_clusters.kubernetes.node_pool import NodePool, node_pool
from cdk_gpu_clusters.kubernetes.queues import queues
from cdk_gpu_clusters.kubernetes.ray import (
    RayAutoscaling,
    RayPods,
    RayRedis,
    check_ray,
    gpu_ray_cluster,
    gpu_ray_job,
    gpu_ray_service,
)
from cdk_gpu_clusters.kubernetes.ray_head import RayHead
from cdk_gpu_clusters.kubernetes.torchrun import torchrun_job
from kubernetes_pools import (
    MIXED,
    Objects,
    check_everywhere,
    gpu_types,
    kinds,
    number,
    pod_specs,
    pool_of,
    requests,
    slices,
    trainers,
)
from kubernetes_schemas import CRDS

IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/tuning:v3"
REDIS = RayRedis(
    address="rediss://ray.abcdef.use1.cache.amazonaws.com:6379",
    username=SecretKey(name="redis", key="user"),
    password=SecretKey(name="redis", key="password"),
)
SERVE: dict[str, Any] = {"applications": [{"name": "chat", "import_path": "chat:app", "route_prefix": "/"}]}
CPU = node_pool("preprocessing", instance_type="m7i.4xlarge", node_count=2)


def pods(**given: Any) -> RayPods:
    return RayPods(**{"image": IMAGE, "ray_version": "2.58.0", **given})


def cluster(pool: NodePool, *, node_count: int = 2, queue: str | None = "gpu-jobs", **given: Any) -> Objects:
    return gpu_ray_cluster("tune", pool, pods(**given), node_count=node_count, queue=queue)


def every_kind(pool: NodePool, **given: Any) -> dict[str, Objects]:
    """The same pods in a cluster, a job and a service."""
    queue = None if "autoscaling" in given else "gpu-jobs"
    told = pods(**given)
    return {
        "RayCluster": gpu_ray_cluster("tune", pool, told, node_count=2, queue=queue),
        "RayJob": gpu_ray_job("tune", pool, told, node_count=2, command=["python", "tune.py"], queue=queue),
        "RayService": gpu_ray_service("tune", pool, told, node_count=2, serve_config=SERVE),
    }


def spec_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of the RayCluster in an object."""
    spec: dict[str, Any] = item["spec"]
    return spec.get("rayClusterSpec") or spec.get("rayClusterConfig") or spec


def group(item: Mapping[str, Any]) -> dict[str, Any]:
    (found,) = spec_of(item)["workerGroupSpecs"]
    return dict(found)


def faults(pool: NodePool, **given: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        cluster(pool, **given)
    return [finding.id for finding in caught.value.findings]


def warnings(pool: NodePool, **given: Any) -> list[str]:
    found = check_ray("tune", pool, pods(**given), node_count=2)
    return [one.id for one in found if one.severity is Severity.WARNING]


@pytest.mark.parametrize("name", gpu_types())
def test_a_worker_has_a_whole_node_of_every_type(name: str) -> None:
    pool, accelerator = pool_of(name), instance_types()[name].accelerator
    assert accelerator is not None
    (item, _) = cluster(pool)
    (container,) = group(item)["template"]["spec"]["containers"]
    asked = requests(container)
    assert asked["nvidia.com/gpu"] == accelerator.logical_count
    assert asked.get("vpc.amazonaws.com/efa", 0) == pool.efa_count
    assert asked.get("hugepages-2Mi", 0) == allocatable(pool).huge_pages_mib * 2**20
    assert group(item)["rayStartParams"]["num-gpus"] == str(accelerator.logical_count)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "redis": {"redis": REDIS},
    "autoscaling": {"autoscaling": RayAutoscaling(min_nodes=1, idle_seconds=300)},
    "no token": {"token": False, "ray_version": "2.40.0"},
    "head on a group": {"head": RayHead(cpus=8, memory_gib=32, pool=CPU)},
    "account": {"service_account": "tuner", "mounts": [], "environment": {"NCCL_DEBUG": "INFO"}},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_every_object_fits_the_published_schema(options: dict[str, Any]) -> None:
    for kind, objects in every_kind(trainers(), **options).items():
        assert kinds(objects) == [kind, "NetworkPolicy"]
        check_everywhere(objects)


def fields_with_rules(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Fields on which a CRD has rules in CEL."""
    if isinstance(schema, dict):
        if "x-kubernetes-validations" in schema:
            yield path
        for key, inner in schema.items():
            yield from fields_with_rules(inner, (*path, key) if isinstance(inner, dict) else path)
    elif isinstance(schema, list):
        for inner in schema:
            yield from fields_with_rules(inner, path)


def keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


def test_no_field_is_set_on_which_the_crds_have_rules_in_cel() -> None:
    crds = [
        yaml.safe_load((CRDS / f"ray.io_{kind}.yaml").read_text()) for kind in ("raycluster", "rayjob", "rayservice")
    ]
    ruled = {path[-1] for crd in crds for path in fields_with_rules(crd["versions"])}
    assert ruled == {"managedBy", "backend", "deletionStrategy", "condition"}
    for options in OPTIONS.values():
        for objects in every_kind(trainers(), **options).values():
            assert not keys(objects) & ruled


def test_no_task_lands_on_the_head() -> None:
    for objects in every_kind(trainers()).values():
        head = spec_of(objects[0])["headGroupSpec"]
        assert head["rayStartParams"] == {"num-cpus": "0", "num-gpus": "0"}
        (container,) = head["template"]["spec"]["containers"]
        assert set(container["resources"]["limits"]) == {"memory"}, "no GPU"


# Kubernetes documentation, "Assigning Pods to Nodes": operators of node affinity.
def selects(pod: Mapping[str, Any], labels: Mapping[str, str], allowed: set[str]) -> bool:
    """Whether a pod may run on nodes with some labels, as far as it asks about the allowed ones."""
    selector = {key: value for key, value in pod.get("nodeSelector", {}).items() if key in allowed}
    affinity = pod.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    for term in affinity.get("nodeSelectorTerms", []):
        for one in term["matchExpressions"]:
            assert one["operator"] == "DoesNotExist"
            if one["key"] in allowed and one["key"] in labels:
                return False
    return selector.items() <= labels.items()


@pytest.mark.parametrize(
    ("head", "flavor"), [(RayHead(), "ray-heads"), (RayHead(pool=CPU), "preprocessing")], ids=["outside", "group"]
)
def test_kueue_finds_one_flavor_for_the_head_and_one_for_the_workers(head: RayHead, flavor: str) -> None:
    # kubernetes-sigs/kueue v0.19.2, pkg/scheduler/flavorassigner: selectors count as far as flavors have their keys.
    objects = queues([trainers(), CPU], ray_heads=[head])
    flavors = {one["metadata"]["name"]: one["spec"]["nodeLabels"] for one in objects if one["kind"] == "ResourceFlavor"}
    allowed = {key for labels in flavors.values() for key in labels}
    (item, _) = cluster(trainers(), head=head)
    ours, theirs = spec_of(item)["headGroupSpec"]["template"]["spec"], group(item)["template"]["spec"]
    assert [name for name, labels in flavors.items() if selects(ours, labels, allowed)] == [flavor]
    assert [name for name, labels in flavors.items() if selects(theirs, labels, allowed)] == ["trainers"]


def test_the_quota_of_the_heads_is_what_they_ask_for() -> None:
    plain = queues([trainers()])
    objects = queues([trainers()], ray_heads=[RayHead(), RayHead(cpus=2, memory_gib=8), RayHead(pool=CPU)])
    check_everywhere(objects)
    (queue,) = [one for one in objects if one["kind"] == "ClusterQueue"]
    (resources,) = queue["spec"]["resourceGroups"]
    last = resources["flavors"][-1]
    given = {one["name"]: int(number(one["nominalQuota"])) for one in last["resources"]}
    assert last["name"] == "ray-heads"
    assert (given["cpu"], given["memory"]) == (3, 12 * 2**30)
    assert given["nvidia.com/gpu"] == given["vpc.amazonaws.com/efa"] == 0
    # All flavors keep a topology: jobs without a wish for one would find no place otherwise.
    assert all(one["spec"].get("topologyName") for one in objects if one["kind"] == "ResourceFlavor")
    assert kinds(plain) == ["Topology", "ResourceFlavor", "ClusterQueue", "LocalQueue"]
    assert queues([trainers()], ray_heads=[RayHead(pool=CPU)]) == plain
    with pytest.raises(ConfigError, match="GPU-K8S-014"):
        queues([node_pool("ray-heads", instance_type="g5.xlarge", node_count=1)], ray_heads=[RayHead()])


def test_a_head_has_a_place_beside_groups_that_scale() -> None:
    """Kueue implies no topology in a queue in which one flavor has none."""
    anywhere = "kueue.x-k8s.io/podset-unconstrained-topology"
    growing = replace(trainers(), scales=True)
    flavors = [one for one in queues([growing], ray_heads=[RayHead()]) if one["kind"] == "ResourceFlavor"]
    assert {one["metadata"]["name"]: "topologyName" in one["spec"] for one in flavors} == {
        growing.name: False,
        "ray-heads": True,
    }
    for queue, pool, is_placed in (
        ("gpu-jobs", None, True),
        (None, None, False),
        ("gpu-jobs", replace(CPU, scales=True), False),
    ):
        (item, _) = gpu_ray_cluster("tune", growing, pods(head=RayHead(pool=pool)), node_count=2, queue=queue)
        head = spec_of(item)["headGroupSpec"]["template"]["metadata"]
        assert (head.get("annotations") == {anywhere: "true"}) is is_placed


def test_the_head_runs_outside_all_groups_or_on_the_group_it_is_given() -> None:
    (item, _) = cluster(trainers())
    head = spec_of(item)["headGroupSpec"]["template"]["spec"]
    assert "nodeSelector" not in head
    assert "tolerations" not in head, "nodes with GPUs repel it"
    (item, _) = cluster(trainers(), head=RayHead(cpus=8, memory_gib=32, pool=CPU))
    head = spec_of(item)["headGroupSpec"]["template"]["spec"]
    assert head["nodeSelector"] == {"gpu-cluster/fleet": "preprocessing"}
    assert head["containers"][0]["resources"]["requests"] == {"cpu": "8", "memory": "32Gi"}


def test_workers_have_variables_volumes_and_the_taint_of_their_group() -> None:
    (item, _) = cluster(trainers(), environment={"FI_PROVIDER": "tcp"})
    worker = group(item)["template"]
    (container,) = worker["spec"]["containers"]
    told = {one["name"]: one["value"] for one in container["env"]}
    assert told["NCCL_SOCKET_IFNAME"] == "^docker,lo,veth"
    assert told["FI_PROVIDER"] == "tcp", "the user's own takes precedence"
    assert [one["mountPath"] for one in container["volumeMounts"]] == ["/dev/shm", "/fsx"]  # noqa: S108
    (expected,) = pod_specs(torchrun_job("a", trainers(), node_count=2, image=IMAGE, command=["train.py"]))
    for key in ("nodeSelector", "tolerations", "terminationGracePeriodSeconds"):
        assert worker["spec"][key] == expected[key]
    (item, _) = cluster(trainers(), mounts=[])
    assert len(group(item)["template"]["spec"]["volumes"]) == 1


def test_the_object_store_leaves_half_of_shared_memory_to_nccl() -> None:
    (item, _) = cluster(trainers())
    spec = group(item)["template"]["spec"]
    shared = number(spec["volumes"][0]["emptyDir"]["sizeLimit"])
    store = int(group(item)["rayStartParams"]["object-store-memory"])
    memory = requests(spec["containers"][0])["memory"]
    assert store * 2 <= shared <= memory / 2
    assert store * 2 > shared * 0.99


def test_kueue_starts_head_and_workers_together_and_near() -> None:
    for objects in every_kind(trainers()).values():
        item = objects[0]
        wanted = None if item["kind"] == "RayService" else "gpu-jobs"
        assert item["metadata"]["labels"].get("kueue.x-k8s.io/queue-name") == wanted
        assert "suspend" not in item["spec"], "Kueue's webhook sets it, and a second apply must not"
    (item, _) = cluster(trainers(), same_layer=2)
    annotations = group(item)["template"]["metadata"]["annotations"]
    assert annotations == {"kueue.x-k8s.io/podset-required-topology": "topology.k8s.aws/network-node-layer-2"}
    (item, _) = cluster(trainers(), queue=None)
    assert "metadata" not in group(item)["template"]


def test_clients_need_a_token_unless_told_otherwise() -> None:
    (item, _) = cluster(trainers())
    assert spec_of(item)["authOptions"] == {"mode": "token"}
    (item, _) = cluster(trainers(), token=False)
    assert "authOptions" not in spec_of(item)


def test_the_head_is_reached_from_its_namespace_and_by_the_operator_alone() -> None:
    item, policy = cluster(trainers())
    labels = spec_of(item)["headGroupSpec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"] == labels == {"gpu-cluster/ray-head": "tune"}
    own, operator, metrics = policy["spec"]["ingress"]
    assert own == {"from": [{"podSelector": {}}]}
    assert [one["port"] for one in operator["ports"]] == [8265]
    (source,) = operator["from"]
    assert source["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "kuberay-system"}
    assert metrics == {"ports": [{"protocol": "TCP", "port": 8080}]}


def test_the_state_of_the_head_lies_in_redis_with_its_secrets_by_name() -> None:
    (item, _) = cluster(trainers(), redis=REDIS)
    options = spec_of(item)["gcsFaultToleranceOptions"]
    assert options["redisAddress"].startswith("rediss://")
    assert options["redisPassword"]["valueFrom"]["secretKeyRef"] == {"name": "redis", "key": "password"}
    (item, _) = cluster(trainers(), redis=RayRedis(address="redis:6379"))
    assert spec_of(item)["gcsFaultToleranceOptions"] == {"redisAddress": "redis:6379"}
    (item, _) = cluster(trainers())
    assert "gcsFaultToleranceOptions" not in spec_of(item)


def test_the_number_of_workers_changes_only_with_the_autoscaler() -> None:
    (item, _) = cluster(trainers(), node_count=4)
    assert [group(item)[key] for key in ("replicas", "minReplicas", "maxReplicas")] == [4, 4, 4]
    assert "enableInTreeAutoscaling" not in spec_of(item)
    scaling = RayAutoscaling(min_nodes=1, idle_seconds=300)
    (item, _) = cluster(trainers(), node_count=4, queue=None, autoscaling=scaling)
    assert [group(item)[key] for key in ("replicas", "minReplicas", "maxReplicas")] == [1, 1, 4]
    assert spec_of(item)["autoscalerOptions"] == {"version": "v2", "idleTimeoutSeconds": 300}
    head = spec_of(item)["headGroupSpec"]["template"]["spec"]
    # The operator's checks for version 2: pods do not restart in place, and its container calls Kubernetes.
    assert "restartPolicy" not in head | group(item)["template"]["spec"]
    assert "automountServiceAccountToken" not in head
    assert "serviceAccountName" not in head
    (item, _) = cluster(trainers())
    assert spec_of(item)["headGroupSpec"]["template"]["spec"]["automountServiceAccountToken"] is False


def test_a_job_deletes_its_cluster_and_starts_again_in_a_new_one() -> None:
    (item, _) = gpu_ray_job(
        "tune", trainers(), pods(), node_count=2, command=["python", "-c", "print('a b')"],
        runtime_env={"working_dir": "s3://code/tune.zip"}, max_restarts=2, keep_seconds=600,
    )  # fmt: skip
    spec = item["spec"]
    assert spec["shutdownAfterJobFinishes"] is True
    # Kueue would count a pod that submits it, for which `queues` has no quota.
    assert spec["submissionMode"] == "HTTPMode"
    assert (spec["backoffLimit"], spec["ttlSecondsAfterFinished"]) == (2, 600)
    assert yaml.safe_load(spec["runtimeEnvYAML"]) == {"working_dir": "s3://code/tune.zip"}
    assert spec["entrypoint"] == """python -c 'print('"'"'a b'"'"')'"""


@pytest.mark.parametrize(("node_count", "kind"), [(8, "NewCluster"), (9, "None")])
def test_a_service_gets_a_second_cluster_only_where_the_group_has_room(node_count: int, kind: str) -> None:
    (item, _) = gpu_ray_service("chat", trainers(), pods(), node_count=node_count, serve_config=SERVE)
    assert item["spec"]["upgradeStrategy"] == {"type": kind}
    assert yaml.safe_load(item["spec"]["serveConfigV2"]) == SERVE
    assert item["spec"]["excludeHeadPodFromServeSvc"] is True


@pytest.mark.parametrize(
    ("given", "ids"),
    [
        ({"head": RayHead(cpus=0)}, ["GPU-RAY-001"]),
        ({"head": RayHead(memory_gib=64, pool=CPU)}, ["GPU-RAY-001"]),
        ({"head": RayHead(pool=pool_of("g5.xlarge"))}, ["GPU-RAY-001"]),
        ({"ray_version": "latest"}, ["GPU-RAY-003"]),
        ({"ray_version": "2.51.2"}, ["GPU-RAY-003"]),
        ({"image": "rayproject/ray:2.57.0-py312-gpu"}, ["GPU-RAY-004"]),
        ({"queue": "gpu-jobs", "autoscaling": RayAutoscaling()}, ["GPU-RAY-006"]),
        ({"queue": None, "autoscaling": RayAutoscaling(min_nodes=2)}, ["GPU-RAY-006"]),
        ({"queue": None, "autoscaling": RayAutoscaling(idle_seconds=0)}, ["GPU-RAY-006"]),
        ({"redis": RayRedis(address="redis")}, ["GPU-RAY-007"]),
        ({"redis": RayRedis(address="https://redis:6379")}, ["GPU-RAY-007"]),
        ({"redis": RayRedis(address="a:1", password=SecretKey(name="A", key="b"))}, ["GPU-K8S-009"]),
        ({"mounts": ["/data"]}, ["GPU-RAY-008"]),
        ({"node_count": 17}, ["GPU-K8S-002"]),
        ({"same_layer": 9}, ["GPU-K8S-015"]),
        ({"image": "Not An Image"}, ["GPU-INF-006"]),
        ({"environment": {"HF_TOKEN": "hf_abcdefghijklmnopqrstuvwxyzabcdef01"}}, ["GPU-UD-002"]),
        ({"service_account": "A", "ray_version": "2", "mounts": ["/b"]}, ["GPU-K8S-001", "GPU-RAY-003", "GPU-RAY-008"]),
    ],
)  # fmt: skip
def test_faults_come_at_once_by_their_ids(given: dict[str, Any], ids: list[str]) -> None:
    assert faults(trainers(), **given) == ids


def test_groups_on_which_no_cluster_runs_are_refused() -> None:
    assert faults(slices(MIXED), node_count=1) == ["GPU-K8S-003"]
    assert faults(CPU) == ["GPU-K8S-004"]
    assert faults(node_pool("head", instance_type="p5.48xlarge", node_count=2)) == ["GPU-RAY-005"]


def test_an_address_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(ConfigError) as caught:
        cluster(trainers(), redis=RayRedis(address="rediss://:sesame@redis.example.com:6379"))
    assert "GPU-RAY-007" in str(caught.value)
    assert "sesame" not in str(caught.value)


def test_names_leave_room_for_what_the_operator_adds() -> None:
    # ray-project/kuberay v1.7.0: 53 characters for a cluster, 47 for a job and a service.
    assert gpu_ray_cluster("a" * 53, trainers(), pods(), node_count=2)
    assert gpu_ray_job("a" * 47, trainers(), pods(), node_count=2, command=["true"])
    with pytest.raises(ConfigError, match="GPU-K8S-001"):
        gpu_ray_cluster("a" * 54, trainers(), pods(), node_count=2)
    with pytest.raises(ConfigError, match="GPU-K8S-001"):
        gpu_ray_job("a" * 48, trainers(), pods(), node_count=2, command=["true"])
    with pytest.raises(ConfigError, match="GPU-K8S-001"):
        gpu_ray_service("a" * 48, trainers(), pods(), node_count=2, serve_config=SERVE)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"command": []}, "GPU-RAY-009"),
        ({"command": ["python", ""]}, "GPU-RAY-009"),
        ({"max_restarts": -1}, "GPU-K8S-017"),
        ({"keep_seconds": -1}, "GPU-K8S-017"),
        ({"runtime_env": {"env_vars": {"HF_TOKEN": "hf_abcdefghijklmnopqrstuvwxyzabcdef01"}}}, "GPU-UD-002"),
    ],
)
def test_a_job_that_cannot_run_is_refused(given: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        gpu_ray_job("tune", trainers(), pods(), **{"node_count": 2, "command": ["true"], **given})


@pytest.mark.parametrize(
    "applications",
    [None, [], "chat:app", [{"name": "chat"}], [{"import_path": "chat:app"}], ["chat"], [*SERVE["applications"]] * 2],
)
def test_a_service_without_applications_is_refused(applications: Any) -> None:
    config = {} if applications is None else {"applications": applications}
    with pytest.raises(ConfigError, match="GPU-RAY-010"):
        gpu_ray_service("chat", trainers(), pods(), node_count=2, serve_config=config)


def test_what_only_slows_a_cluster_down_is_a_warning() -> None:
    assert warnings(trainers()) == []
    assert warnings(trainers(), image="rayproject/ray:2.58.0-py312-gpu") == ["GPU-RAY-011"]
    assert warnings(pool_of("g6.xlarge"), image="rayproject/ray:2.58.0-py312-gpu") == ["GPU-K8S-005"]
    arm = node_pool("arm", instance_type="m8g.4xlarge", node_count=1)
    assert warnings(trainers(), head=RayHead(pool=arm)) == ["GPU-RAY-002"]
    assert warnings(trainers(), environment={"NCCL_ALGO": "Ring"}) == ["GPU-UD-004"]
