"""A training job by `torchrun` over entire nodes.

Sources: PyTorch documentation, torchrun; kubeflow/trainer v2.3.0, pkg/apis/trainer/v1alpha1 (read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cdk_gpu_clusters.errors import Finding, define_rule, raise_for
from cdk_gpu_clusters.kubernetes.gang_job import (
    NODE,
    GangJob,
    check_gang_job,
    claims_of,
    failure_policy,
    job_policy,
    job_set,
    pod_template,
    queue_label,
)
from cdk_gpu_clusters.kubernetes.gpu_pod import whole_node
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import (
    DEFAULT_NAMESPACE,
    DEFAULT_SERVICE_ACCOUNT,
    KubernetesObject,
    kubernetes_object,
)
from cdk_gpu_clusters.kubernetes.queues import DEFAULT_QUEUE
from cdk_gpu_clusters.kubernetes.software.charts import EfaSoftware
from cdk_gpu_clusters.kubernetes.volumes import store_of
from cdk_gpu_clusters.rules.harmful_variables import check_variable
from cdk_gpu_clusters.rules.model_servers import check_container_image, check_variables
from cdk_gpu_clusters.rules.secrets import OF_JOB, check_container_secrets

_TRAINER_API = "trainer.kubeflow.org/v1alpha1"
#: What the variable of the place for checkpoints is called, as on nodes without Kubernetes.
_CHECKPOINTS = "CHECKPOINT_DIR"

CHECKPOINTS = define_rule(
    "GPU-K8S-013",
    "checkpoints of a job lie on a file system that its group mounts",
    source="a pod that starts again may be on another node: a disk of its own is gone",
)
COMMAND = define_rule(
    "GPU-K8S-018",
    "a job names what torchrun runs",
    source="PyTorch documentation, torchrun: the training script and its arguments",
)


def torchrun_job(
    name: str,
    pool: NodePool,
    *,
    node_count: int,
    image: str,
    command: Sequence[str],
    checkpoint_directory: str | None = None,
    environment: Mapping[str, str] | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    queue: str | None = DEFAULT_QUEUE,
    same_layer: int | None = None,
    compute_domain: bool = False,
    efa: EfaSoftware = EfaSoftware.DEVICE_PLUGIN,
    max_restarts: int = 3,
    grace_period_seconds: int | None = None,
    service_account: str = DEFAULT_SERVICE_ACCOUNT,
    trainer: bool = False,
) -> list[KubernetesObject]:
    """A job that runs a script by `torchrun` on entire nodes, one process for each GPU.

    Args:
        name: Name of the job.
        pool: Group of its nodes; its file systems are mounted.
        node_count: How many nodes.
        image: Container image with PyTorch and, for EFA, aws-ofi-nccl.
        command: Script with its arguments, as they follow `torchrun`.
        checkpoint_directory: Folder on a file system of the group, given as CHECKPOINT_DIR; none if left out.
        environment: Variables, over those of NCCL.
        namespace: Namespace.
        queue: LocalQueue of Kueue; with None nothing keeps half of the pods from waiting for the other half.
        same_layer: Layer of the network, from 1 at the top, in which all nodes must share a network node; as near as
            there is room if left out.
        compute_domain: Whether the GPUs of its pods share memory over the NVLink of one UltraServer, by a ComputeDomain
            of its own. Needs `cluster_software(compute_domains=True)`.
        efa: What gives its pods EFA interfaces, as in `cluster_software(efa=...)`: the device plugin by number, or
            AWS's DRA driver by a claim.
        max_restarts: How often all pods start again when one has failed; the end of a node does not count.
        grace_period_seconds: Time for a last checkpoint after SIGTERM; 480 on a Capacity Block, 90 elsewhere, if left
            out.
        service_account: Service account of the pods, by which EKS Pod Identity gives them a role, such as to read S3.
        trainer: Whether Kubeflow Trainer runs it. It makes the JobSet by itself, of a TrainingRuntime and a TrainJob.

    Returns:
        A JobSet; for Trainer a TrainingRuntime and a TrainJob. Before them the ComputeDomain and the
        ResourceClaimTemplate, if there are some.

    Raises:
        ConfigError: GPU-K8S-001 to -004, -013, -015, -017, -018, GPU-IMEX-001 and -002, GPU-INF-006 and -008, all at
            once.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> pool = node_pool("trainers", instance_type="p5.48xlarge", node_count=16)
        >>> image = "111122223333.dkr.ecr.us-east-1.amazonaws.com/llama:v3"
        >>> (job,) = torchrun_job("llama", pool, node_count=16, image=image, command=["train.py"])
        >>> job["kind"], job["spec"]["replicatedJobs"][0]["template"]["spec"]["parallelism"]
        ('JobSet', 16)
    """
    job = GangJob(
        name=name,
        pool=pool,
        node_count=node_count,
        image=image,
        command=["torchrun", *command],
        environment=environment or {},
        namespace=namespace,
        queue=queue,
        same_layer=same_layer,
        compute_domain=compute_domain,
        efa=efa,
        max_restarts=max_restarts,
        grace_period_seconds=grace_period_seconds,
        service_account=service_account,
    )
    raise_for(check_torchrun(job, checkpoint_directory))
    told = _told(job, checkpoint_directory)
    job_objects = [_training_runtime(told), _train_job(told)] if trainer else [job_set(told)]
    return [*claims_of(told).objects, *job_objects]


def check_torchrun(job: GangJob, checkpoint_directory: str | None = None) -> list[Finding]:
    """Find what is wrong with a job; warnings are among it."""
    return [
        *check_gang_job(job),
        *check_container_image(job.image),
        *check_variables(job.environment, ()),
        *check_container_secrets(job.environment, job.command, fix=OF_JOB),
        *(one for name, value in job.environment.items() for one in check_variable(name, value, path="environment")),
        *_check_command(job.command),
        *_check_checkpoints(job.pool, checkpoint_directory),
    ]


def _told(job: GangJob, checkpoint_directory: str | None) -> GangJob:
    if checkpoint_directory is None:
        return job
    return replace(job, environment={_CHECKPOINTS: checkpoint_directory, **job.environment})


def _training_runtime(job: GangJob) -> KubernetesObject:
    spec = {
        "mlPolicy": {"numNodes": job.node_count, "torch": {}},
        "template": {
            "spec": {
                "failurePolicy": failure_policy(job),
                "replicatedJobs": [
                    {
                        "name": NODE,
                        "template": {
                            # By this label Trainer knows the job whose nodes it counts.
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {**job_policy(), "template": pod_template(job, environment=())},
                        },
                    }
                ],
            }
        },
    }
    return kubernetes_object(_TRAINER_API, "TrainingRuntime", job.name, spec, namespace=job.namespace)


def _train_job(job: GangJob) -> KubernetesObject:
    spec = {
        "runtimeRef": {
            "apiGroup": "trainer.kubeflow.org",
            "kind": "TrainingRuntime",
            "name": job.name,
        },
        "trainer": {
            "numNodes": job.node_count,
            "numProcPerNode": whole_node(job.pool).count,
        },
    }
    return kubernetes_object(
        _TRAINER_API, "TrainJob", job.name, spec, namespace=job.namespace, labels=queue_label(job.queue)
    )


def _check_command(command: Sequence[str]) -> Iterator[Finding]:
    if len(command) <= 1 or not all(argument.isprintable() and argument for argument in command):
        yield COMMAND.finding(
            cause="torchrun would have nothing to run",
            got=repr(list(command[1:])),
            allowed="a script and its arguments, one printable line each",
            fix="give the script, such as [train.py, --epochs, '3']",
            path="command",
        )


def _check_checkpoints(pool: NodePool, folder: str | None) -> Iterator[Finding]:
    found = None if folder is None else store_of(pool, folder)
    if folder is not None and (found is None or found[1].read_only):
        yield CHECKPOINTS.finding(
            cause="a pod that starts again would not find its checkpoints",
            got=folder,
            allowed=f"a folder below {', '.join(pool.mounts)}" if pool.mounts else "none: no file system is mounted",
            fix="choose another folder, or add a file system to the group's mounts",
            path="checkpoint_directory",
        )
