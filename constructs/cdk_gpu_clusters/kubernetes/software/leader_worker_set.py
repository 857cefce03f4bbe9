"""LeaderWorkerSet: groups of pods that serve one model from several nodes."""

from __future__ import annotations

from cdk_gpu_clusters.kubernetes.software.release import ChartRelease, SoftwareSource


def leader_worker_set(source: SoftwareSource | None = None) -> ChartRelease:
    """The chart.

    Args:
        source: From where charts and images come.
    """
    source = source or SoftwareSource()
    manager = {**source.repository_and_tag("lws"), "pullPolicy": "IfNotPresent"}
    return source.release("lws", "lws-system", {"image": {"manager": manager}})
