"""The manifest of a job: what `gpu-clusters run --on eks` applies."""

from __future__ import annotations

from cdk_gpu_clusters.catalogue import Architecture
from cdk_gpu_clusters.catalogue.kubernetes import image as catalogue_image
from cdk_gpu_clusters.kubernetes.objects import yaml_text
from cdk_gpu_clusters.kubernetes.torchrun import torchrun_job
from cdk_gpu_clusters.node.gpunode.fleet_jobs.request import JobRequest
from cdk_gpu_clusters_stacks.manifests.cluster import node_pools, volumes
from cdk_gpu_clusters_stacks.spec import ClusterSpec

_LAUNCHER = "torchrun"


class ManifestError(Exception):
    """A job has no manifest; the text is the reason."""


def job_manifest(request: JobRequest, spec: ClusterSpec, fleet: str) -> str:
    """The JobSet that runs a job by torchrun on a fleet of a cluster file, as YAML.

    Args:
        request: The job; without an image it gets AWS's with PyTorch, which is built for x86_64 only.
        spec: The cluster, with `orchestrator: eks`.
        fleet: Key of the fleet.

    Raises:
        ManifestError: If there is no such fleet, its nodes cannot run the image, or the job does not start by torchrun.
        ConfigError: Faults of the job.
    """
    pools = node_pools(spec, volumes(spec))
    if fleet not in pools:
        raise ManifestError(f"the cluster file has no fleet {fleet}; it has {', '.join(sorted(pools)) or 'none'}")
    if request.command[0] != _LAUNCHER:
        raise ManifestError(f"on EKS a job starts by torchrun: torchrun train.py, got {request.command[0]}")
    type_of_nodes = pools[fleet].instance_type
    if not request.image and type_of_nodes.architecture is not Architecture.X86_64:
        raise ManifestError(f"{type_of_nodes.name} is of arm64, and AWS's image of x86_64: give --image")
    objects = torchrun_job(
        f"job-{request.job_id}",
        pools[fleet],
        node_count=request.nodes,
        image=request.image or catalogue_image("pytorch").reference,
        command=request.command[1:],
        efa=spec.eks.software.efa_software,
        checkpoint_directory=request.checkpoint_directory or None,
        environment=request.environment,
        max_restarts=request.max_restarts,
        grace_period_seconds=request.grace_seconds,
    )
    return yaml_text(objects)
