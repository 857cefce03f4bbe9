"""Ray on the GPU nodes of a group, by KubeRay: a cluster that stays, a job with a cluster of its own, and a service.

Every worker takes an entire node. The head runs on nodes without accelerators, and takes no tasks and actors.

Sources: ray-project/kuberay @ 59d663a (v1.7.0), ray-operator/apis/ray/v1 and controllers/ray/utils/validation.go;
kubernetes-sigs/kueue v0.19.2, pkg/controller/jobs/raycluster and rayjob; Ray documentation, "KubeRay" and "Cluster
Management CLI", ray start (read 2026-11-27).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdk_gpu_clusters.errors import Finding, Severity, check, define_rule, raise_for
from cdk_gpu_clusters.kubernetes.compute_domain import check_compute_domain, domain_affinity
from cdk_gpu_clusters.kubernetes.device_claims import DeviceClaims
from cdk_gpu_clusters.kubernetes.gang_job import RESTARTS, check_fabric, check_gpus, check_nodes, queue_label
from cdk_gpu_clusters.kubernetes.gpu_pod import (
    container_security,
    memory_mib,
    nccl_environment,
    placement,
    plain_variables,
    pod_claims,
    pod_resources,
    shared_memory,
    whole_node,
)
from cdk_gpu_clusters.kubernetes.model_server import SecretKey, check_secret
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import (
    DEFAULT_NAMESPACE,
    DEFAULT_SERVICE_ACCOUNT,
    KubernetesObject,
    check_name,
    document_text,
    kubernetes_object,
)
from cdk_gpu_clusters.kubernetes.queues import (
    DEFAULT_QUEUE,
    anywhere_annotation,
    check_layer,
    topology_annotation,
)
from cdk_gpu_clusters.kubernetes.ray_head import RayHead, check_head
from cdk_gpu_clusters.kubernetes.software.charts import KUBERAY_NAMESPACE, EfaSoftware
from cdk_gpu_clusters.kubernetes.volumes import claimed, volume_mount
from cdk_gpu_clusters.rules.harmful_variables import check_variable
from cdk_gpu_clusters.rules.model_servers import check_container_image, check_variables
from cdk_gpu_clusters.rules.secrets import OF_JOB, check_container_secrets, check_secret_variables

_API = "ray.io/v1"
#: On the pods of a head, with the name of its object: what its NetworkPolicy selects.
_HEAD_LABEL = "gpu-cluster/ray-head"
#: On the pods of workers, with the name of their object: what the affinity of a ComputeDomain selects.
_WORKERS_LABEL = "gpu-cluster/ray-workers"
#: ray-project/kuberay v1.7.0, controllers/ray/utils/constant.go: DefaultDashboardPort, DefaultMetricsPort.
_DASHBOARD_PORT, _METRICS_PORT = 8265, 8080
#: Where Ray sends statistics of its use otherwise, which a closed network does not reach (Ray documentation, "Usage
#: Stats Collection").
_NO_STATISTICS = {"RAY_USAGE_STATS_ENABLED": "0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RayRedis:
    """A Redis in which the head keeps what it knows, so that a new head goes on with it.

    Example:
        >>> RayRedis(address="rediss://ray.abcdef.use1.cache.amazonaws.com:6379").address[:6]
        'rediss'

    Attributes:
        address: `host:port`, or `rediss://host:port` where Redis has TLS, such as in Amazon ElastiCache.
        username: Secret with the user's name; none if left out.
        password: Secret with the password; none if left out.
    """

    address: str
    username: SecretKey | None = None
    password: SecretKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RayAutoscaling:
    """Ray's own autoscaler: it adds pods for tasks and actors that wait, and ends idle ones.

    It takes no queue, and a namespace without a LocalQueue called `default`, which those of teams have: Kueue puts a
    RayCluster without a queue into that one, and refuses one that scales (kubernetes-sigs/kueue v0.19.2,
    pkg/controller/jobs/raycluster/raycluster_webhook.go).

    Attributes:
        min_nodes: Fewest workers.
        idle_seconds: After how many idle seconds a worker ends. Ray's own default is 60.
    """

    min_nodes: int = 0
    idle_seconds: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RayPods:
    """What the pods of a Ray cluster run.

    Example:
        >>> RayPods(image="rayproject/ray:2.60.0-py312-gpu", ray_version="2.60.0").head.cpus
        1

    Attributes:
        image: Container image of head and workers, with bash, wget and Ray. For EFA it also has libfabric and
            aws-ofi-nccl, which the images of rayproject/ray lack.
        ray_version: Version of Ray in the image, such as `2.60.0`.
        environment: Variables of head and workers, over those of NCCL. No secrets, because they are in the manifest.
        head: Size and place of the head.
        same_layer: Layer of the network, from 1 at the top, in which all workers must share a network node; as near as
            there is room if left out. Kueue places them: it takes a queue.
        redis: Where the head keeps its state; in its memory, which is lost with it, if left out.
        autoscaling: Ray's autoscaler; a fixed number of workers if left out.
        token: Whether clients need the token that KubeRay puts into a Secret of the cluster's name. Without it,
            everyone who reaches the head runs code on all nodes.
        mounts: Mount points of the group that the containers have; all of them if left out.
        service_account: Service account of the pods, by which EKS Pod Identity gives them a role.
        efa: What gives the workers EFA interfaces, as in `cluster_software(efa=...)`.
        compute_domain: Whether the workers share the memory of their GPUs over the NVLink of one UltraServer, by a
            ComputeDomain of the cluster. Needs NVIDIA's DRA driver: `cluster_software(compute_domains=True)`. A
            service takes none.
    """

    image: str
    ray_version: str
    environment: Mapping[str, str] = field(default_factory=dict)
    head: RayHead = field(default_factory=RayHead)
    same_layer: int | None = None
    redis: RayRedis | None = None
    autoscaling: RayAutoscaling | None = None
    token: bool = True
    mounts: Sequence[str] | None = None
    service_account: str = DEFAULT_SERVICE_ACCOUNT
    efa: EfaSoftware = EfaSoftware.DEVICE_PLUGIN
    compute_domain: bool = False


def gpu_ray_cluster(
    name: str,
    pool: NodePool,
    pods: RayPods,
    *,
    node_count: int,
    namespace: str = DEFAULT_NAMESPACE,
    queue: str | None = DEFAULT_QUEUE,
) -> list[KubernetesObject]:
    """A RayCluster that stays until it is deleted, and the NetworkPolicy of its head.

    It holds its nodes, and their quota in the queue, while it exists. The object leaves `suspend` to Kueue: a second
    `kubectl apply` would end a running cluster otherwise.

    Args:
        name: Name of the cluster, of up to 53 characters.
        pool: Group of its workers.
        pods: What its pods run.
        node_count: Workers; with `autoscaling` the most.
        namespace: Namespace.
        queue: LocalQueue of Kueue, so that head and workers start together; None: as they find room. Autoscaling takes
            None.

    Raises:
        ConfigError: GPU-RAY-001 and -003 to -008, GPU-K8S-001 to -004, -009, -015, GPU-INF-006 and -008, all at once.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("trainers", instance_type="p5.48xlarge", node_count=16)
        >>> pods = RayPods(image="rayproject/ray:2.60.0-py312-gpu", ray_version="2.60.0")
        >>> cluster, policy = gpu_ray_cluster("tune", pool, pods, node_count=4)
        >>> workers = cluster["spec"]["workerGroupSpecs"][0]
        >>> workers["replicas"], workers["rayStartParams"]["num-gpus"]
        (4, '8')
    """
    raise_for(check_ray(name, pool, pods, node_count=node_count, namespace=namespace, queue=queue))
    claims = _claims(name, pool, pods, namespace)
    spec = _cluster(name, pool, pods, node_count, queue, claims)
    return [
        *claims.objects,
        kubernetes_object(_API, "RayCluster", name, spec, namespace=namespace, labels=queue_label(queue)),
        _head_policy(name, namespace),
    ]


def gpu_ray_job(
    name: str,
    pool: NodePool,
    pods: RayPods,
    *,
    node_count: int,
    command: Sequence[str],
    runtime_env: Mapping[str, Any] | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    queue: str | None = DEFAULT_QUEUE,
    max_restarts: int = 0,
    keep_seconds: int = 0,
) -> list[KubernetesObject]:
    """A RayJob: a Ray cluster for one program, deleted when it ends, and the NetworkPolicy of its head.

    Args:
        name: Name of the job, of up to 47 characters.
        pool: Group of its workers.
        pods: What its pods run.
        node_count: Workers; with `autoscaling` the most.
        command: The program and its arguments. It runs on the head, and its tasks and actors on the workers.
        runtime_env: Runtime environment of Ray, such as `{"working_dir": "s3://..."}`; none if left out.
        namespace: Namespace.
        queue: LocalQueue of Kueue; None for none. Autoscaling takes None.
        max_restarts: How often a failed program starts again, each time in a new cluster. It continues from its own
            checkpoints. If the head is lost, KubeRay starts the program again on the next head, and does not count
            that; with `redis` it is a failure.
        keep_seconds: How long the cluster stays after the program's end, to look at it. It holds its nodes meanwhile.

    Raises:
        ConfigError: As `gpu_ray_cluster`, GPU-RAY-009 and GPU-K8S-017, all at once.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("trainers", instance_type="p5.48xlarge", node_count=16)
        >>> pods = RayPods(image="rayproject/ray:2.60.0-py312-gpu", ray_version="2.60.0")
        >>> job, policy = gpu_ray_job("fine-tune", pool, pods, node_count=4, command=["python", "train.py"])
        >>> job["spec"]["entrypoint"], job["spec"]["shutdownAfterJobFinishes"]
        ('python train.py', True)
    """
    counts = {"max_restarts": max_restarts, "keep_seconds": keep_seconds}
    raise_for(
        [
            *check_ray(name, pool, pods, node_count=node_count, namespace=namespace, queue=queue, is_owned=True),
            *check_entrypoint(command, counts),
            *_check_runtime_env(runtime_env or {}),
        ]
    )
    claims = _claims(name, pool, pods, namespace)
    spec = {
        "entrypoint": shlex.join(command),
        **({} if runtime_env is None else {"runtimeEnvYAML": document_text(runtime_env)}),
        # By the operator. Kueue would count the pod of `K8sJobMode` beside those of the cluster (kubernetes-sigs/kueue
        # v0.19.2, rayjob_controller.go), and give it a place on a GPU node.
        "submissionMode": "HTTPMode",
        # Kueue takes no other job, and nothing else gives the nodes back.
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": keep_seconds,
        "backoffLimit": max_restarts,
        "rayClusterSpec": _cluster(name, pool, pods, node_count, queue, claims),
    }
    return [
        *claims.objects,
        kubernetes_object(_API, "RayJob", name, spec, namespace=namespace, labels=queue_label(queue)),
        _head_policy(name, namespace),
    ]


def gpu_ray_service(
    name: str,
    pool: NodePool,
    pods: RayPods,
    *,
    node_count: int,
    serve_config: Mapping[str, Any],
    namespace: str = DEFAULT_NAMESPACE,
    queue: str | None = None,
) -> list[KubernetesObject]:
    """A RayService: applications of Ray Serve on a cluster of their own, and the NetworkPolicy of its head.

    Clients call the Service `<name>-serve-svc`, port 8000. The head is not behind it. A new `serve_config` changes
    the applications in the running cluster. For other changes KubeRay makes a second cluster, and moves the clients
    to it when it serves; where the group has no room for two, it makes none (`upgradeStrategy`), and such a change
    takes a deletion.

    Args:
        name: Name of the service, of up to 47 characters.
        pool: Group of its workers.
        pods: What its pods run. `redis` keeps the applications running while the head is away.
        node_count: Workers; with `autoscaling` the most.
        serve_config: Config file of Ray Serve: `applications`, each with `name`, `import_path` and `route_prefix`.
        namespace: Namespace.
        queue: LocalQueue of Kueue; model servers keep their nodes, and are in none if left out.

    Raises:
        ConfigError: As `gpu_ray_cluster`, and GPU-RAY-010, all at once.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("large", instance_type="p5.48xlarge", node_count=4)
        >>> pods = RayPods(image="rayproject/ray:2.60.0-py312-gpu", ray_version="2.60.0")
        >>> applications = {"applications": [{"name": "chat", "import_path": "chat:app", "route_prefix": "/"}]}
        >>> service, policy = gpu_ray_service("chat", pool, pods, node_count=2, serve_config=applications)
        >>> service["spec"]["upgradeStrategy"]
        {'type': 'NewCluster'}
    """
    raise_for(
        [
            *check_ray(name, pool, pods, node_count=node_count, namespace=namespace, queue=queue, is_owned=True),
            *check_serve(serve_config),
            *_check_no_domain(pods),
        ]
    )
    claims = _claims(name, pool, pods, namespace)
    has_room = 2 * node_count <= pool.node_count
    spec = {
        "serveConfigV2": document_text(serve_config),
        "excludeHeadPodFromServeSvc": True,
        "upgradeStrategy": {"type": "NewCluster" if has_room else "None"},
        "rayClusterConfig": _cluster(name, pool, pods, node_count, queue, claims),
    }
    return [
        *claims.objects,
        kubernetes_object(_API, "RayService", name, spec, namespace=namespace, labels=queue_label(queue)),
        _head_policy(name, namespace),
    ]


def _claims(name: str, pool: NodePool, pods: RayPods, namespace: str) -> DeviceClaims:
    """What the workers claim. The head has no GPUs, and claims nothing."""
    return DeviceClaims(name=name, pool=pool, namespace=namespace, efa=pods.efa, has_domain=pods.compute_domain)


def _cluster(
    name: str, pool: NodePool, pods: RayPods, node_count: int, queue: str | None, claims: DeviceClaims
) -> dict[str, Any]:
    """The spec of a RayCluster."""
    scaling = pods.autoscaling
    fewest = node_count if scaling is None else scaling.min_nodes
    return {
        "rayVersion": pods.ray_version,
        **({"authOptions": {"mode": "token"}} if pods.token else {}),
        **({} if pods.redis is None else {"gcsFaultToleranceOptions": _fault_tolerance(pods.redis)}),
        **({} if scaling is None else _autoscaling(scaling)),
        "headGroupSpec": {
            # KubeRay would count the CPUs that the container asks for.
            "rayStartParams": {"num-cpus": "0", "num-gpus": "0"},
            "template": _head(name, pods, queue),
        },
        "workerGroupSpecs": [
            {
                "groupName": pool.name,
                "replicas": fewest,
                "minReplicas": fewest,
                "maxReplicas": node_count,
                "rayStartParams": _worker_parameters(pool),
                "template": _worker(pool, pods, queue, claims),
            }
        ],
    }


def _fault_tolerance(redis: RayRedis) -> dict[str, Any]:
    secrets = {"redisUsername": redis.username, "redisPassword": redis.password}
    return {
        "redisAddress": redis.address,
        **{
            field: {"valueFrom": {"secretKeyRef": {"name": one.name, "key": one.key}}}
            for field, one in secrets.items()
            if one is not None
        },
    }


def _autoscaling(scaling: RayAutoscaling) -> dict[str, Any]:
    return {
        "enableInTreeAutoscaling": True,
        "autoscalerOptions": {"version": "v2", "idleTimeoutSeconds": scaling.idle_seconds},
    }


def _head(name: str, pods: RayPods, queue: str | None) -> dict[str, Any]:
    # The autoscaler beside the head changes the RayCluster: it has a service account that KubeRay makes.
    account: dict[str, Any] = {} if pods.service_account == DEFAULT_SERVICE_ACCOUNT else _account(pods)
    if pods.autoscaling is None:
        account = {**_account(pods), "automountServiceAccountToken": False}
    anywhere = anywhere_annotation(pods.head.pool, queue)
    return {
        "metadata": {"labels": {_HEAD_LABEL: name}, **({"annotations": anywhere} if anywhere else {})},
        "spec": {
            **account,
            **pods.head.placement,
            "containers": [
                {
                    "name": "ray-head",
                    "image": pods.image,
                    "env": plain_variables({**_NO_STATISTICS, **pods.environment}),
                    "resources": pods.head.resources,
                    "securityContext": container_security(),
                }
            ],
        },
    }


def _account(pods: RayPods) -> dict[str, Any]:
    return {"serviceAccountName": pods.service_account}


def _worker_parameters(pool: NodePool) -> dict[str, str]:
    """Arguments of `ray start` on a worker.

    Ray's own object store has 30 % of the memory, or all of /dev/shm where that is less, which leaves nothing of it to
    NCCL and data loaders. Here it has one half of /dev/shm.
    """
    share = whole_node(pool)
    store = memory_mib(pool, share) // 4 * 2**20
    return {"num-gpus": str(share.count), "object-store-memory": str(store)}


def _worker(pool: NodePool, pods: RayPods, queue: str | None, claims: DeviceClaims) -> dict[str, Any]:
    share = whole_node(pool)
    shm, shm_mount = shared_memory(memory_mib(pool, share) // 2)
    points = list(pool.mounts) if pods.mounts is None else list(pods.mounts)
    stores = {point: pool.mounts[point] for point in points}
    variables = {**nccl_environment(pool, share), **_NO_STATISTICS, **pods.environment}
    near = topology_annotation(pool, pods.same_layer, same_ultraserver=pods.compute_domain)
    # Kueue keeps the workers of a queue in one UltraServer.
    alone = {_WORKERS_LABEL: claims.name} if pods.compute_domain and queue is None else {}
    metadata = {**({"labels": alone} if alone else {}), **({} if queue is None else {"annotations": near})}
    return {
        **({"metadata": metadata} if metadata else {}),
        "spec": {
            "terminationGracePeriodSeconds": pool.grace_period_seconds,
            **_account(pods),
            "automountServiceAccountToken": False,
            **placement(pool),
            **(domain_affinity(alone) if alone else {}),
            **pod_claims(claims.of_pod),
            "containers": [
                {
                    "name": "ray-worker",
                    "image": pods.image,
                    "env": plain_variables(variables),
                    "resources": pod_resources(pool, share, claims=claims.of_pod),
                    "securityContext": container_security(),
                    "volumeMounts": [shm_mount, *(volume_mount(one, point) for point, one in stores.items())],
                }
            ],
            "volumes": [shm, *claimed(stores.values())],
        },
    }


# In a namespace of `job_namespace` the operator would not reach a head, and a job would wait until it fails: it polls
# the dashboard from its own namespace (ray-project/kuberay v1.7.0, controllers/ray/rayjob_controller.go).
_FROM_OPERATOR = {
    "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": KUBERAY_NAMESPACE}}}],
    "ports": [{"protocol": "TCP", "port": _DASHBOARD_PORT}],
}


def _head_policy(name: str, namespace: str) -> KubernetesObject:
    """Who connects to a head: pods of its namespace and KubeRay's operator; everyone to its metrics."""
    spec = {
        "podSelector": {"matchLabels": {_HEAD_LABEL: name}},
        "policyTypes": ["Ingress"],
        "ingress": [
            {"from": [{"podSelector": {}}]},
            dict(_FROM_OPERATOR),
            {"ports": [{"protocol": "TCP", "port": _METRICS_PORT}]},
        ],
    }
    return kubernetes_object("networking.k8s.io/v1", "NetworkPolicy", f"{name}-ray-head", spec, namespace=namespace)


def operator_policy(namespace: str) -> KubernetesObject:
    """Lets KubeRay's operator connect to all heads of a namespace whose users make no network policies.

    Args:
        namespace: The namespace.

    Example:
        >>> operator_policy("research")["spec"]["podSelector"]
        {'matchExpressions': [{'key': 'gpu-cluster/ray-head', 'operator': 'Exists'}]}
    """
    spec = {
        "podSelector": {"matchExpressions": [{"key": _HEAD_LABEL, "operator": "Exists"}]},
        "policyTypes": ["Ingress"],
        "ingress": [dict(_FROM_OPERATOR)],
    }
    return kubernetes_object("networking.k8s.io/v1", "NetworkPolicy", "ray-operator", spec, namespace=namespace)


VERSION = define_rule(
    "GPU-RAY-003",
    "the version of Ray is stated as three numbers, and knows tokens",
    source="ray-project/kuberay v1.7.0, controllers/ray/utils/validation.go: authOptions.mode token takes Ray 2.52.0",
)
SAME_VERSION = define_rule(
    "GPU-RAY-004",
    "the stated version of Ray is that of the image",
    source="ray-project/kuberay v1.7.0, apis/ray/v1: RayVersion decides about commands; tags of rayproject/ray",
)
GROUP_NAME = define_rule(
    "GPU-RAY-005",
    "no group of workers is called head",
    source="kubernetes-sigs/kueue v0.19.2, pkg/controller/jobs/raycluster: reserved for the head",
)
SCALING = define_rule(
    "GPU-RAY-006",
    "Ray's autoscaler has room between its limits, and no queue",
    source="kubernetes-sigs/kueue v0.19.2, pkg/controller/jobs/raycluster, webhook: enableInTreeAutoscaling",
)
REDIS = define_rule(
    "GPU-RAY-007",
    "the address of Redis is host:port, with redis:// or rediss:// if need be",
    source="ray 2.60.0 (PyPI), ray/_private/services.py: RAY_REDIS_ADDRESS",
)
MOUNTS = define_rule(
    "GPU-RAY-008",
    "pods mount what their group mounts",
    source="a mount point without a file system has no claim",
)
ENTRYPOINT = define_rule(
    "GPU-RAY-009",
    "a job names what it runs",
    source="ray-project/kuberay, docs/guidance/rayjob.md: the entrypoint is the shell command of the job",
)
APPLICATIONS = define_rule(
    "GPU-RAY-010",
    "a service has applications of Ray Serve, each with a name of its own and an import path",
    source='Ray documentation, "Serve Config Files" (read 2026-11-27)',
)
NO_DOMAIN = define_rule(
    "GPU-RAY-014",
    "a service of Ray has no ComputeDomain",
    source="ray-project/kuberay v1.7.0, apis/ray/v1/rayservice_types.go: an upgrade runs two clusters of one template",
)
IMAGE = define_rule(
    "GPU-RAY-011",
    "workers with EFA have an image with EFA's libraries",
    source="ray-project/ray, docker/base-deps/Dockerfile: neither libfabric nor aws-ofi-nccl",
)

#: ray-project/kuberay v1.7.0, controllers/ray/utils/constant.go: MaxRayClusterNameLength; names of clusters that a job
#: or a service makes are six letters longer.
_LONGEST_CLUSTER, _ADDED = 53, 6
_FIRST_WITH_TOKEN = (2, 52, 0)
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})\.(\d{1,4})", re.ASCII)
_REDIS = re.compile(r"(rediss?://)?[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?:\d{1,5}", re.ASCII)


def check_ray(
    name: str,
    pool: NodePool,
    pods: RayPods,
    *,
    node_count: int,
    namespace: str = DEFAULT_NAMESPACE,
    queue: str | None = DEFAULT_QUEUE,
    is_owned: bool = False,
) -> list[Finding]:
    """Find what keeps a Ray cluster from ever running, or lets it run slowly; warnings are among it.

    Args:
        name: Name of the object.
        pool: Group of the workers.
        pods: What the pods run.
        node_count: Workers.
        namespace: Namespace.
        queue: LocalQueue of Kueue, None for none.
        is_owned: Whether a job or a service makes the cluster, which adds letters to the name.
    """
    return [
        *check_name(name, longest=_LONGEST_CLUSTER - (_ADDED if is_owned else 0)),
        *check_name(namespace, path="namespace"),
        *check_name(pods.service_account, path="service_account"),
        *([] if queue is None else check_name(queue, path="queue")),
        *check_nodes(pool, node_count),
        *check_gpus(pool),
        *check_fabric(pool, node_count),
        *check_layer(pool, pods.same_layer, queue),
        *check_head(pods.head, pool),
        *_check_version(pods),
        *_check_image(pool, pods),
        *_check_group(pool),
        *(check_compute_domain(pool, node_count) if pods.compute_domain else []),
        *_check_scaling(pods.autoscaling, node_count, queue),
        *_check_redis(pods.redis),
        *_check_mounts(pool, pods),
        *check_variables(pods.environment, ()),
        *check_container_secrets(pods.environment, (), fix=OF_JOB),
        *(one for name, value in pods.environment.items() for one in check_variable(name, value, path="environment")),
    ]


def _check_version(pods: RayPods) -> Iterator[Finding]:
    found = _VERSION.fullmatch(pods.ray_version)
    if found is None:
        yield VERSION.finding(
            cause="KubeRay does not know this version of Ray",
            got=repr(pods.ray_version),
            allowed="three numbers, such as 2.60.0",
            fix="write what `ray --version` prints in the image",
            path="ray_version",
        )
    elif pods.token and tuple(map(int, found.groups())) < _FIRST_WITH_TOKEN:
        yield VERSION.finding(
            cause="this version of Ray has no tokens, so that everyone who reaches the head runs code on all nodes",
            got=pods.ray_version,
            allowed="2.52.0 or later",
            fix="take a later image, or set token to False where a network policy protects the head",
            path="ray_version",
        )


def _check_image(pool: NodePool, pods: RayPods) -> Iterator[Finding]:
    yield from check_container_image(pods.image)
    repository, _, tag = pods.image.partition("@")[0].rpartition(":")
    owner, _, image = repository.rpartition("/")
    if owner.rpartition("/")[2] != "rayproject":
        return
    told = tag.partition("-")[0]
    if _VERSION.fullmatch(told) and told != pods.ray_version:
        yield SAME_VERSION.finding(
            cause="head, workers and the operator's commands would be of two versions",
            got=f"{image}:{tag}, and ray_version {pods.ray_version}",
            allowed=f"ray_version {told}",
            fix="change one of them",
            path="ray_version",
        )
    if pool.efa_count:
        yield IMAGE.finding(
            cause="this image has no libfabric and no aws-ofi-nccl, so the nodes exchange data over TCP",
            got=pods.image,
            allowed="an image with both",
            fix="add Ray to AWS's PyTorch container (aws/deep-learning-containers), or the EFA installer to the image",
            path="image",
            severity=Severity.WARNING,
        )


@check
def _check_group(pool: NodePool) -> Iterator[Finding]:
    if pool.name == "head":
        yield GROUP_NAME.finding(
            cause="Kueue and KubeRay call the group of the head so",
            got=pool.name,
            allowed="any other name",
            fix="rename the group of nodes",
            path="pool",
        )


@check
def _check_no_domain(pods: RayPods) -> Iterator[Finding]:
    if pods.compute_domain:
        yield NO_DOMAIN.finding(
            cause="a new version of a service runs beside the old one, and both would be in one domain",
            got="compute_domain=True",
            allowed="a domain of gpu_ray_cluster or gpu_ray_job",
            fix="leave compute_domain out: NCCL uses EFA between the nodes",
            path="compute_domain",
        )


@check
def _check_scaling(scaling: RayAutoscaling | None, node_count: int, queue: str | None) -> Iterator[Finding]:
    if scaling is None:
        return
    if queue is not None:
        yield SCALING.finding(
            cause="Kueue refuses a cluster that changes its size by itself",
            got=f"autoscaling, queue {queue}",
            allowed="no queue, or no autoscaling",
            fix="set queue to None, or leave autoscaling out",
            path="autoscaling",
        )
    if not 0 <= scaling.min_nodes < node_count or scaling.idle_seconds < 1:
        yield SCALING.finding(
            cause="the autoscaler would have nothing to do, or end workers at once",
            got=f"{scaling.min_nodes} to {node_count} workers, idle for {scaling.idle_seconds} s",
            allowed=f"0 to {max(0, node_count - 1)} workers at least, idle for 1 s or more",
            fix="lower min_nodes, or leave autoscaling out",
            path="autoscaling",
        )


def _check_redis(redis: RayRedis | None) -> Iterator[Finding]:
    if redis is None:
        return
    if not _REDIS.fullmatch(redis.address):
        yield REDIS.finding(
            cause="Ray does not find a Redis there",
            got=repr(redis.address.rpartition("@")[2]),
            allowed="such as ray.example.com:6379, or rediss://ray.example.com:6379 with TLS",
            fix="write host and port; a password belongs in a Secret (password)",
            path="redis.address",
        )
    for field_name, secret in (("username", redis.username), ("password", redis.password)):
        if secret is not None:
            yield from check_secret(field_name, secret, path=f"redis.{field_name}")


@check
def _check_mounts(pool: NodePool, pods: RayPods) -> Iterator[Finding]:
    unknown = [point for point in pods.mounts or () if point not in pool.mounts]
    if unknown:
        yield MOUNTS.finding(
            cause="nothing is mounted there",
            got=", ".join(unknown),
            allowed=", ".join(pool.mounts) or "none: the group mounts no file system",
            fix="leave them out, or add a file system to the group's mounts",
            path="mounts",
        )


@check
def check_entrypoint(command: Sequence[str], counts: Mapping[str, int]) -> Iterator[Finding]:
    """Find a job that runs nothing, or a negative count.

    Args:
        command: The program and its arguments.
        counts: Counts by the name of their parameter.

    Example:
        >>> [one.id for one in check_entrypoint([], {"max_restarts": -1})]
        ['GPU-RAY-009', 'GPU-K8S-017']
    """
    if not command or not all(word and word.isprintable() for word in command):
        yield ENTRYPOINT.finding(
            cause="Ray would have nothing to run",
            got=repr(list(command)),
            allowed="a program and its arguments, one printable line each",
            fix="give the program, such as [python, train.py]",
            path="command",
        )
    yield from check_container_secrets({}, command, fix=OF_JOB)
    for name, count in counts.items():
        if count < 0:
            yield RESTARTS.finding(cause="this cannot be", got=str(count), allowed="0 or more", path=name)


def _check_runtime_env(runtime_env: Mapping[str, Any]) -> list[Finding]:
    variables = runtime_env.get("env_vars")
    if not isinstance(variables, Mapping):
        return []
    told = {str(name): str(value) for name, value in variables.items()}
    return [one.at("runtime_env.env_vars") for one in check_secret_variables(told, fix=OF_JOB)]


@check
def check_serve(serve_config: Mapping[str, Any]) -> Iterator[Finding]:
    """Find a config file of Ray Serve that serves nothing.

    Args:
        serve_config: The config file.

    Example:
        >>> [one.id for one in check_serve({"applications": [{"name": "chat"}]})]
        ['GPU-RAY-010']
    """
    applications = serve_config.get("applications")
    rows = applications if isinstance(applications, Sequence) and not isinstance(applications, str) else []
    names = [one.get("name") if isinstance(one, Mapping) else None for one in rows]
    paths = [one.get("import_path") if isinstance(one, Mapping) else None for one in rows]
    wrong = "none" if not rows else ""
    wrong = wrong or next((f"{name} twice" for name in names if names.count(name) > 1), "")
    if wrong or not all(isinstance(word, str) and word for word in (*names, *paths)):
        yield APPLICATIONS.finding(
            cause="Ray Serve would serve nothing, or refuse its config file",
            got=wrong or f"names {names}, import paths {paths}",
            allowed="applications, each with a name of its own and an import_path such as chat:app",
            fix="write what `serve build` writes",
            path="serve_config.applications",
        )
