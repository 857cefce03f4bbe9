"""All files of a cluster, by their path."""

from __future__ import annotations

from cdk_gpu_clusters.kubernetes.lustre_volume import lustre_volume
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.objects import yaml_text
from cdk_gpu_clusters.kubernetes.queues import queues
from cdk_gpu_clusters.node.kubernetes_node import node_health_rights
from cdk_gpu_clusters_stacks.manifests.fleet import inference_files, training_files
from cdk_gpu_clusters_stacks.manifests.pools import node_pools, volumes
from cdk_gpu_clusters_stacks.manifests.software import install_script, releases, values_files
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec


def cluster_manifests(spec: ClusterSpec) -> dict[str, str]:
    """What a cluster file makes inside Kubernetes: text by the path of its file.

    `install.sh` installs the charts below `software/`, then applies the files below `cluster/`. What lies below
    `fleets/` is to be started by people.

    Args:
        spec: A cluster without errors, with `orchestrator: eks`.

    Raises:
        ConfigError: Faults of pools, software and model servers.
    """
    stores = volumes(spec)
    pools = node_pools(spec, stores)
    charts = releases(spec, pools.values())
    objects = {"cluster/queues.yaml": yaml_text(queues(list(pools.values())))}
    objects["cluster/node-health.yaml"] = yaml_text(node_health_rights())
    mounted = {one.name: one for pool in pools.values() for one in pool.mounts.values()}
    for name, volume in mounted.items():
        objects[f"cluster/volume-{name}.yaml"] = yaml_text(lustre_volume(volume))
    return {
        "install.sh": install_script(spec, charts, objects),
        **values_files(charts),
        **objects,
        **_fleets(spec, pools),
    }


def _fleets(spec: ClusterSpec, pools: dict[str, NodePool]) -> dict[str, str]:
    files = {}
    for name, fleet in spec.training.fleets.items():
        made = training_files(name, fleet, pools[name], trainer=spec.eks.software.trainer)
        files.update({f"fleets/{name}/{file}": text for file, text in made.items()})
    for name, serving in spec.inference.fleets.items():
        made = inference_files(name, serving, pools[name])
        files.update({f"fleets/{name}/{file}": text for file, text in made.items()})
    return files
