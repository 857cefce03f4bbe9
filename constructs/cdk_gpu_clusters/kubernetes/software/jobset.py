"""JobSet: groups of Jobs that start, fail and restart as one, such as the nodes of a training run."""

from __future__ import annotations

from cdk_gpu_clusters.kubernetes.software.release import ChartRelease, SoftwareSource


def jobset(source: SoftwareSource | None = None) -> ChartRelease:
    """The chart.

    Args:
        source: From where charts and images come.
    """
    source = source or SoftwareSource()
    image = {**source.repository_and_tag("jobset"), "pullPolicy": "IfNotPresent"}
    return source.release("jobset", "jobset-system", {"image": image})
