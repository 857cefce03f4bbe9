"""A test of NCCL's all-reduce over nodes of a group: their bandwidth, and whether sums come out right.

It is a JobSet with PyTorch, as a training job is, and needs nothing else: `all_reduce_perf` of nccl-tests would need
MPI with an operator, or SSH keys in a secret. The formula of the bandwidth is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

from cdk_gpu_clusters.catalogue import Architecture
from cdk_gpu_clusters.catalogue.kubernetes import image as image_of
from cdk_gpu_clusters.catalogue.nccl import AllReduceBandwidth, all_reduce_bandwidths
from cdk_gpu_clusters.errors import Finding, check, define_rule, raise_for
from cdk_gpu_clusters.kubernetes.gang_job import GangJob, check_gang_job, claims_of, job_set
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import DEFAULT_NAMESPACE, KubernetesObject, metadata
from cdk_gpu_clusters.kubernetes.queues import DEFAULT_QUEUE
from cdk_gpu_clusters.kubernetes.software.charts import EfaSoftware
from cdk_gpu_clusters.rules.model_servers import check_container_image

_PROGRAM = "all_reduce.py"
_FOLDER = "/opt/gpu-cluster"
_MIB = 1024**2
#: 8 MiB: below, latency tells more than bandwidth. This library's choice.
_SMALLEST = 8 * _MIB
_LARGEST_GIB = 16

SIZE = define_rule(
    "GPU-K8S-006",
    "a message of the all-reduce test fits the memory of a GPU, and has 8 MiB or more",
    source="the test holds one message on each GPU; NCCL and PyTorch take memory beside it",
)
NO_IMAGE = define_rule(
    "GPU-K8S-016",
    "an image of the catalogue is used on nodes of its architecture alone",
    source="catalogue: kubernetes_software.json",
)


def nccl_test(
    pool: NodePool,
    *,
    name: str = "nccl-test",
    node_count: int = 2,
    image: str | None = None,
    max_size_gib: int | None = None,
    tolerance_percent: int = 10,
    namespace: str = DEFAULT_NAMESPACE,
    queue: str | None = DEFAULT_QUEUE,
    same_layer: int | None = None,
    compute_domain: bool = False,
    efa: EfaSoftware = EfaSoftware.DEVICE_PLUGIN,
) -> list[KubernetesObject]:
    """A JobSet that measures NCCL's all-reduce over entire nodes, and the ConfigMap of its program.

    The pod of rank 0 logs a line for each size. The job fails where a sum comes out wrong, or where the largest size
    reaches less than the published result for as many nodes of the type.

    Args:
        pool: Group of the nodes.
        name: Name of the job.
        node_count: How many nodes.
        image: Image with PyTorch, and with aws-ofi-nccl for EFA; AWS's Deep Learning Container if left out.
        max_size_gib: Largest message in GiB; 16 or what is published if left out, where the GPU's memory allows it.
        tolerance_percent: How much slower is still well; 10 is this library's choice.
        namespace: Namespace.
        queue: LocalQueue of Kueue, None for none.
        same_layer: Layer of the network, from 1 at the top, in which all nodes must share a network node.
        compute_domain: Whether NCCL goes over the NVLink of one UltraServer, by a ComputeDomain.
        efa: What gives its pods EFA interfaces, as in `cluster_software(efa=...)`.

    Raises:
        ConfigError: GPU-K8S-001 to -004, -006, -015, -016, GPU-IMEX-001 and -002, GPU-INF-006, all at once.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("trainers", instance_type="p5.48xlarge", node_count=16)
        >>> [one["kind"] for one in nccl_test(pool, node_count=2)]
        ['ConfigMap', 'JobSet']
    """
    published = published_bandwidth(pool, node_count)
    size_gib = max_size_gib or _largest_gib(pool, published)
    told = {} if published is None or published.size_gib != size_gib else _expectation(published)
    job = GangJob(
        name=name,
        pool=pool,
        node_count=node_count,
        image=image or image_of("pytorch").reference,
        command=["torchrun", f"{_FOLDER}/{_PROGRAM}"],
        environment={
            "MIN_BYTES": str(_SMALLEST),
            "MAX_BYTES": str(int(size_gib * 1024 * _MIB)),
            **told,
            "TOLERANCE_PERCENT": str(tolerance_percent),
        },
        namespace=namespace,
        queue=queue,
        same_layer=same_layer,
        compute_domain=compute_domain,
        efa=efa,
        files={_FOLDER: f"{name}-program"},
        mounts=(),
    )
    raise_for(
        [
            *check_gang_job(job),
            *(_check_architecture(pool) if image is None else check_container_image(image)),
            *_check_size(pool, size_gib),
        ]
    )
    return [_program(job), *claims_of(job).objects, job_set(job)]


def published_bandwidth(pool: NodePool, node_count: int) -> AllReduceBandwidth | None:
    """A published measurement on as many nodes of the type, at the largest size that they give.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("trainers", instance_type="p5.48xlarge", node_count=16)
        >>> published_bandwidth(pool, 2).gbytes_per_s
        480
    """
    wanted = (pool.instance_type.name, node_count)
    rows = [row for row in all_reduce_bandwidths() if (row.instance_type, row.nodes) == wanted]
    return max(rows, key=lambda row: row.size_gib, default=None)


def _expectation(published: AllReduceBandwidth) -> dict[str, str]:
    return {
        "EXPECTED_GBYTES_PER_S": f"{published.gbytes_per_s:g}",
        "EXPECTED_SOURCE": published.source,
    }


def _largest_gib(pool: NodePool, published: AllReduceBandwidth | None) -> float:
    """The size with a published bandwidth, or the largest power of two up to 16 GiB that fits."""
    wanted: float = _LARGEST_GIB if published is None else published.size_gib
    while wanted > 1 / 64 and wanted > _room_gib(pool):
        wanted /= 2
    return wanted


def _room_gib(pool: NodePool) -> float:
    """Three quarters of a GPU's memory: NCCL and CUDA take of it, too. This library's choice."""
    accelerator = pool.instance_type.accelerator
    return 0 if accelerator is None else accelerator.memory_mib_each / 1024 * 3 / 4


def _program(job: GangJob) -> KubernetesObject:
    text = (files(f"{__package__}.programs") / _PROGRAM).read_text(encoding="utf-8")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(job.files[_FOLDER], namespace=job.namespace),
        "data": {_PROGRAM: text},
    }


def _check_size(pool: NodePool, size_gib: float) -> Iterator[Finding]:
    room = _room_gib(pool)
    # Where there is no GPU, another rule says so.
    if room and not _SMALLEST / _MIB / 1024 <= size_gib <= room:
        yield SIZE.finding(
            cause="a GPU cannot hold a message of this size, or it is too small to measure bandwidth with",
            got=f"{size_gib:g} GiB",
            allowed=f"1 to {room:.0f} GiB on {pool.instance_type.name}",
            fix="change max_size_gib, or leave it out",
            path="max_size_gib",
        )


@check
def _check_architecture(pool: NodePool) -> Iterator[Finding]:
    if pool.instance_type.architecture is not Architecture.X86_64:
        yield NO_IMAGE.finding(
            cause="the catalogue has no image of PyTorch for these nodes",
            got=f"{pool.instance_type.name}, which is {pool.instance_type.architecture.value}",
            allowed="an image of yours with PyTorch and aws-ofi-nccl",
            fix="give image",
            path="image",
        )
