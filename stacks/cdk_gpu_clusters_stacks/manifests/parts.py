"""All that a cluster file makes inside Kubernetes, as objects: what is applied, and jobs that people start."""

from __future__ import annotations

from collections.abc import Mapping

from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.queues import queues
from cdk_gpu_clusters.kubernetes.software.release import SoftwareSource
from cdk_gpu_clusters.kubernetes.volumes import lustre_volume
from cdk_gpu_clusters.node.kubernetes_node import node_health_rights
from cdk_gpu_clusters_stacks.manifests.fleet import Manifest, inference_jobs, model_services, training_jobs
from cdk_gpu_clusters_stacks.manifests.software import mirror_of
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec


def applied(spec: ClusterSpec, pools: Mapping[str, NodePool]) -> dict[str, Manifest]:
    """What installing the cluster applies after its charts, in order, by a path without its ending.

    Args:
        spec: The cluster.
        pools: Its fleets by name.

    Raises:
        ConfigError: Faults of queues, volumes and model servers.
    """
    parts = {
        "cluster/queues": Manifest(objects=queues(list(pools.values()))),
        "cluster/node-health": Manifest(objects=node_health_rights()),
    }
    mounted = {one.name: one for pool in pools.values() for one in pool.mounts.values()}
    for name, volume in mounted.items():
        parts[f"cluster/volume-{name}"] = Manifest(objects=lustre_volume(volume))
    for name, fleet in spec.inference.fleets.items():
        for each, manifest in model_services(name, fleet, pools[name]).items():
            parts[f"services/{each}"] = manifest
    return parts


def jobs(spec: ClusterSpec, pools: Mapping[str, NodePool]) -> dict[str, Manifest]:
    """Jobs that people start, by a path without its ending.

    Args:
        spec: The cluster.
        pools: Its fleets by name.
    """
    trainer = spec.eks.software.trainer
    pytorch = SoftwareSource(mirror=mirror_of(spec)).reference("pytorch")
    by_fleet = {
        **{
            name: training_jobs(name, fleet, pools[name], image=pytorch, trainer=trainer)
            for name, fleet in spec.training.fleets.items()
        },
        **{
            name: inference_jobs(name, serving, pools[name])
            for name, serving in spec.inference.fleets.items()
        },
    }
    return {f"jobs/{name}/{job}": one for name, found in by_fleet.items() for job, one in found.items()}
