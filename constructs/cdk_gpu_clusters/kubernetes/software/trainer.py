"""Kubeflow Trainer, an option: TrainJobs, which it makes JobSets of."""

from __future__ import annotations

from cdk_gpu_clusters.kubernetes.software.release import ChartRelease, SoftwareSource


def trainer(source: SoftwareSource | None = None) -> ChartRelease:
    """The chart, without JobSet, which has a release of its own, and without its training runtimes.

    The chart's runtimes come by a Job that installs kubectl from the Internet at run time (values.yaml,
    `runtimes.installer`); make a ClusterTrainingRuntime of your own.

    Args:
        source: From where charts and images come.
    """
    source = source or SoftwareSource()
    values = {
        "image": source.registry_and_path("trainer-controller-manager"),
        "jobset": {"install": False},
        "dataCache": {"enabled": False},
    }
    return source.release("kubeflow-trainer", "kubeflow-system", values)
