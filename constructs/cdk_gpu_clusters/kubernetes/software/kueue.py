"""Kueue: jobs wait until all their pods have room, and start where the network is near.

The configuration here replaces the chart's. `managedJobsNamespaceSelector` is left to Kueue, which leaves `kube-system`
and its own namespace alone.
"""

from __future__ import annotations

import json
from typing import Any

from cdk_gpu_clusters.kubernetes.software.release import ChartRelease, SoftwareSource

_NAMESPACE = "kueue-system"


def kueue(source: SoftwareSource | None = None, *, trainer: bool = False) -> ChartRelease:
    """The chart, for Jobs, JobSets and LeaderWorkerSets.

    Args:
        source: From where charts and images come.
        trainer: Whether it also manages TrainJobs of Kubeflow Trainer.
    """
    source = source or SoftwareSource()
    image = {**source.repository_and_tag("kueue"), "pullPolicy": "IfNotPresent"}
    values = {
        "controllerManager": {
            # On by itself since Kueue 0.14; said aloud, since the manifests rely on it.
            "featureGates": [{"name": "TopologyAwareScheduling", "enabled": True}],
            "manager": {"image": image},
        },
        # Every JSON document is a YAML document.
        "managerConfig": {"controllerManagerConfigYaml": json.dumps(_configuration(trainer), indent=2)},
    }
    return source.release("kueue", _NAMESPACE, values)


def _configuration(trainer: bool) -> dict[str, Any]:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443"},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "clientConnection": {"qps": 300, "burst": 500},
        "integrations": {"frameworks": _frameworks(trainer)},
    }


def _frameworks(trainer: bool) -> list[str]:
    # Not pod, deployment and statefulset: the chart's webhooks for them would stop every pod of the cluster while Kueue
    # is away (failurePolicy Fail in templates/webhook/manifests.yaml). LeaderWorkerSets do without since Kueue 0.15.
    frameworks = ["batch/job", "jobset.x-k8s.io/jobset", "leaderworkerset.x-k8s.io/leaderworkerset"]
    return [*frameworks, "trainer.kubeflow.org/trainjob"] if trainer else frameworks
