"""All files of a cluster, by their path."""

from __future__ import annotations

from cdk_gpu_clusters_stacks.manifests.parts import applied, jobs
from cdk_gpu_clusters_stacks.manifests.pools import node_pools, volumes
from cdk_gpu_clusters_stacks.manifests.software import install_script, releases, values_files
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec


def cluster_manifests(spec: ClusterSpec) -> dict[str, str]:
    """What a cluster file makes inside Kubernetes: text by the path of its file.

    `install.sh` installs the charts below `software/`, then applies the files below `cluster/` and `services/`. What
    lies below `jobs/` is for people to start.

    Args:
        spec: A cluster without errors, with `orchestrator: eks`.

    Raises:
        ConfigError: Faults of pools, software and model servers.
    """
    pools = node_pools(spec, volumes(spec))
    charts = releases(spec, pools.values())
    objects = {f"{path}.yaml": one.text for path, one in applied(spec, pools).items()}
    return {
        "install.sh": install_script(spec, charts, objects),
        **values_files(charts),
        **objects,
        **{f"{path}.yaml": one.text for path, one in jobs(spec, pools).items()},
    }
