"""Argo Workflows, an option: runs the Workflow that fans out over the slices of MIG (`kubernetes.mig_fan_out`)."""

from __future__ import annotations

from cdk_gpu_clusters.kubernetes.software.release import ChartRelease, SoftwareSource


def argo_workflows(source: SoftwareSource | None = None) -> ChartRelease:
    """The chart, without its web server.

    It makes a service account for workflows, `argo-workflow` in the namespace `default`, which a Workflow names. CRDs
    are the small ones, which lie in the chart: the others come by a Job that downloads them from GitHub (values.yaml,
    `crds.full`).

    Args:
        source: From where charts and images come.
    """
    source = source or SoftwareSource()
    values = {
        "images": {"pullPolicy": "IfNotPresent"},
        "crds": {"full": False},
        "workflow": {"serviceAccount": {"create": True}},
        "controller": {"image": source.registry_and_path("workflow-controller")},
        "executor": {"image": source.registry_and_path("argoexec")},
        "server": {"enabled": False},
    }
    return source.release("argo-workflows", "argo", values)
