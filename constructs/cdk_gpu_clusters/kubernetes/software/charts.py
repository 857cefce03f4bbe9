"""The charts of a cluster's software: device plugins, metrics, queues, and groups of jobs and pods."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from cdk_gpu_clusters.catalogue import AcceleratorKind
from cdk_gpu_clusters.catalogue.kubernetes import DcgmField, dcgm_fields, system_pods
from cdk_gpu_clusters.kubernetes.compute_domain import in_ultraservers
from cdk_gpu_clusters.kubernetes.node_pool import NodePool
from cdk_gpu_clusters.kubernetes.software.release import ChartRelease, SoftwareSource
from cdk_gpu_clusters.rules.kubernetes_labels import ACCELERATOR_LABEL, EFA_LABEL, FLEET_LABEL, device_plugin_config
from cdk_gpu_clusters.rules.mig import MigStrategy

#: Namespace of KubeRay's operator, which connects to the heads of Ray.
KUBERAY_NAMESPACE = "kuberay-system"
#: What GPU nodes are selected by.
GPU_NODES = {ACCELERATOR_LABEL: AcceleratorKind.GPU.value}


def gpu_pools(pools: Iterable[NodePool]) -> list[NodePool]:
    """Pools whose nodes have NVIDIA GPUs."""
    kinds = ((pool, pool.instance_type.accelerator) for pool in pools)
    return [pool for pool, accelerator in kinds if accelerator and accelerator.kind is AcceleratorKind.GPU]


def efa_pools(pools: Iterable[NodePool]) -> list[NodePool]:
    """Pools whose nodes have EFA interfaces."""
    return [pool for pool in pools if pool.efa_count]


def tolerations(pools: Sequence[NodePool]) -> list[dict[str, str]]:
    """Tolerations of every taint of some pools, whatever its value.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> tolerations([node_pool("dev", instance_type="g5.xlarge", node_count=1)])
        [{'key': 'nvidia.com/gpu', 'operator': 'Exists', 'effect': 'NoSchedule'}]
    """
    taints = sorted({(taint.key, taint.effect) for pool in pools for taint in pool.taints})
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in taints]


# NVIDIA's device plugin with GPU feature discovery: GPUs and slices become resources and labels of their nodes.
#
# Nodes of different MIG strategy live in one cluster: the chart holds a configuration for each, and a node takes the
# one that its label `nvidia.com/device-plugin.config` names, which node groups of this library carry
# (NVIDIA/k8s-device-plugin @ 1b826ac, README, "Updating per-node configuration with a node label", and the chart's
# `config.map`).


def device_plugin(pools: Sequence[NodePool], source: SoftwareSource) -> ChartRelease | None:
    """The chart for the GPU nodes of a cluster; None if it has none.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> release = device_plugin([node_pool("dev", instance_type="g5.xlarge", node_count=1)], SoftwareSource())
        >>> release.values["config"]["default"] if release else None
        'mig-none'
    """
    gpus = gpu_pools(pools)
    if not gpus:
        return None
    values: dict[str, Any] = {
        "config": {
            "map": {
                device_plugin_config(one): f"version: v1\nflags:\n  migStrategy: {one.value}\n" for one in MigStrategy
            },
            "default": device_plugin_config(MigStrategy.NONE),
        },
        # It would take EFA devices for those of Mellanox (0.19 and later, AWS's EFA page for EKS).
        "mofedEnabled": False,
        "image": source.repository_and_tag("k8s-device-plugin"),
        # The chart's own terms wait for labels of node feature discovery; a list replaces them.
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_gpu_term()]}}
        },
        "tolerations": tolerations(gpus),
        "gfd": {"enabled": True},
        # Its worker carries the labels of GPU feature discovery to the node. The chart lets it tolerate the taint
        # nvidia.com/gpu=present only.
        "nfd": {
            "image": source.repository_and_tag("node-feature-discovery"),
            "worker": {"nodeSelector": dict(GPU_NODES), "tolerations": tolerations(gpus)},
        },
    }
    return source.release("nvidia-device-plugin", "nvidia-device-plugin", values)


def _gpu_term() -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in GPU_NODES.items()]}


# NVIDIA's DRA driver, for ComputeDomains alone.
#
# It can advertise GPUs, too, beside the device plugin: each would give the same GPUs away, in silence (Amazon EKS user
# guide, "Use the NVIDIA DRA driver or device plugin on Amazon EKS" @ 43d79bd). GPUs are the device plugin's here.


def dra_driver(pools: Sequence[NodePool], source: SoftwareSource) -> ChartRelease | None:
    """The chart of NVIDIA's DRA driver for the UltraServers of a cluster; None if it has none.

    Its CRDs lie in the chart: Helm installs them once, and does not update them.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> rack = node_pool("rack", instance_type="p6e-gb200.36xlarge", node_count=18)
        >>> release = dra_driver([rack], SoftwareSource())
        >>> release.values["resources"] if release else None
        {'gpus': {'enabled': False}, 'computeDomains': {'enabled': True}}
    """
    racks = [pool for pool in pools if in_ultraservers(pool)]
    if not racks:
        return None
    fleets = sorted({pool.labels[FLEET_LABEL] for pool in racks})
    term = {"matchExpressions": [{"key": FLEET_LABEL, "operator": "In", "values": fleets}]}
    values: dict[str, Any] = {
        "resources": {"gpus": {"enabled": False}, "computeDomains": {"enabled": True}},
        "image": source.repository_and_tag("dra-driver-nvidia-gpu"),
        # The chart's own terms wait for labels of node feature discovery; a list replaces them.
        "kubeletPlugin": {
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            },
            "tolerations": tolerations(racks),
        },
        # The control plane of EKS has no nodes that it could prefer (Amazon EKS user guide, "Use P6e-GB200 UltraServers
        # with Amazon EKS").
        "controller": {"affinity": None, "tolerations": []},
    }
    return source.release("dra-driver-nvidia-gpu", "nvidia-dra-driver-gpu", values)


# EFA in pods: AWS's device plugin, or its driver for dynamic resource allocation (DRA).
#
# The device plugin gives `vpc.amazonaws.com/efa` as a number, on every Kubernetes version; the manifests of this
# library ask for it. The driver gives each interface as a device with its place on PCIe, which pods ask for by a
# ResourceClaim; EKS recommends it for new clusters of Kubernetes 1.34 and later. Only one of them may be there: each
# would give the same interfaces away.


class EfaSoftware(StrEnum):
    """How pods get EFA interfaces.

    Attributes:
        DEVICE_PLUGIN: As the resource `vpc.amazonaws.com/efa`.
        DRA_DRIVER: By a ResourceClaim of the device class `efa.networking.k8s.aws`.
    """

    DEVICE_PLUGIN = "device-plugin"
    DRA_DRIVER = "dra-driver"


def efa_software(
    pools: Sequence[NodePool],
    source: SoftwareSource,
    *,
    kind: EfaSoftware = EfaSoftware.DEVICE_PLUGIN,
) -> ChartRelease | None:
    """The chart for the EFA nodes of a cluster; None if it has none.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> train = node_pool("train", instance_type="p5.48xlarge", node_count=2)
        >>> release = efa_software([train], SoftwareSource())
        >>> release.values["supportedInstanceLabels"] if release else None
        {'keys': ['gpu-cluster/efa-count'], 'values': ['32']}
    """
    efa = efa_pools(pools)
    if not efa:
        return None
    plugin = kind is EfaSoftware.DEVICE_PLUGIN
    values: dict[str, Any] = {
        "image": source.repository_and_tag("aws-efa-k8s-device-plugin" if plugin else "dranet"),
        # The charts list instance types. A node of such a type may have no EFA, and a new type may not be listed.
        "supportedInstanceLabels": {
            "keys": [EFA_LABEL],
            "values": [str(count) for count in sorted({pool.efa_count for pool in efa})],
        },
        "tolerations": tolerations(efa),
    }
    return source.release("aws-efa-k8s-device-plugin" if plugin else "aws-dranet", "kube-system", values)


# What NVIDIA's GPU Operator must leave alone to live beside nodes of this library.
#
# The library does not install the operator: the image of a node has the driver and the container toolkit, MIG is set
# before kubelet starts, and the charts of `cluster_software` do the rest. Two that do one thing undo each other.


class OperatorSwitch(NamedTuple):
    """One thing that the operator would do.

    Attributes:
        key: Key in the values of its chart.
        value: What it must be.
        done_by: What does it here.
    """

    key: str
    value: bool
    done_by: str


#: All of them are true by themselves.
#: Source: NVIDIA/gpu-operator @ 10ee5b3 (v26.7.0), deployments/gpu-operator/values.yaml (read 2026-11-22).
SWITCHES = (
    OperatorSwitch("driver.enabled", False, "the image of the node"),
    OperatorSwitch("toolkit.enabled", False, "the image of the node"),
    # NVIDIA/gpu-operator issue 2415: its manager restarts kubelet.
    OperatorSwitch("migManager.enabled", False, "`gpu-mig`, before kubelet starts; the operator's restarts it"),
    OperatorSwitch("devicePlugin.enabled", False, "the release `nvidia-device-plugin`"),
    OperatorSwitch("gfd.enabled", False, "the release `nvidia-device-plugin`"),
    OperatorSwitch("nfd.enabled", False, "the release `nvidia-device-plugin`"),
    OperatorSwitch("dcgmExporter.enabled", False, "the release `dcgm-exporter`"),
)


def gpu_operator_values() -> dict[str, Any]:
    """Values of the chart `gpu-operator` with which it leaves the nodes of this library alone.

    Example:
        >>> gpu_operator_values()["driver"]
        {'enabled': False}
    """
    values: dict[str, Any] = {}
    for switch in SWITCHES:
        section, _, key = switch.key.partition(".")
        values.setdefault(section, {})[key] = switch.value
    return values


_PORT = 9400


def dcgm_exporter(
    pools: Sequence[NodePool], source: SoftwareSource, *, service_monitor: bool = False
) -> ChartRelease | None:
    """The chart for the GPU nodes of a cluster; None if it has none.

    Args:
        pools: Its groups of nodes.
        source: From where charts and images come.
        service_monitor: Whether to make a ServiceMonitor, a kind of the Prometheus Operator. The chart makes one by
            itself, and cannot be installed then where the operator is not. Pods carry the `prometheus.io` annotations
            in any case.

    Example:
        >>> from cdk_gpu_clusters.kubernetes.node_pool import node_pool
        >>> from cdk_gpu_clusters.rules.mig import MigLayout
        >>> slices = MigLayout(["1g.5gb"] * 7)
        >>> pools = [node_pool("serve", instance_type="p4d.24xlarge", node_count=1, mig=slices)]
        >>> release = dcgm_exporter(pools, SoftwareSource())
        >>> "DCGM_FI_DEV_GPU_UTIL" in release.values["customMetrics"] if release else None
        False
    """
    gpus = gpu_pools(pools)
    if not gpus:
        return None
    values: dict[str, Any] = {
        "image": source.repository_and_tag("dcgm-exporter"),
        "customMetrics": "".join(f"{one.name}, {one.kind}, {one.help}\n" for one in metric_fields(gpus)),
        "serviceMonitor": {"enabled": service_monitor},
        "podAnnotations": {"prometheus.io/scrape": "true", "prometheus.io/port": str(_PORT)},
        "nodeSelector": dict(GPU_NODES),
        "tolerations": tolerations(gpus),
        # The chart's limit of 512Mi ends the exporter on nodes with 8 GPUs, and Go counts the CPUs of the whole node:
        # pytorch/ci-infra issues 1011 and 1018.
        "resources": {"limits": {"memory": "2Gi"}},
        "extraEnv": [{"name": "GOMAXPROCS", "value": "2"}],
    }
    return source.release("dcgm-exporter", "dcgm-exporter", values)


def metric_fields(pools: Sequence[NodePool]) -> tuple[DcgmField, ...]:
    """Fields that some GPU of the pools has: a cluster of slices alone has no utilization, but the profiling fields."""
    has_whole_gpus = any(pool.mig is None for pool in pools)
    return tuple(one for one in dcgm_fields() if has_whole_gpus or not one.whole_gpus_only)


# Kueue: jobs wait until all their pods have room, and start where the network is near.
#
# The configuration here replaces the chart's. `managedJobsNamespaceSelector` is left to Kueue, which leaves `kube-
# system` and its own namespace alone.


def kueue(
    source: SoftwareSource,
    *,
    trainer: bool = False,
    ray: bool = False,
    fair_sharing: bool = False,
    device_classes: Mapping[str, str] | None = None,
) -> ChartRelease:
    """The chart, for Jobs, JobSets and LeaderWorkerSets.

    Args:
        source: From where charts and images come.
        trainer: Whether it also manages TrainJobs of Kubeflow Trainer.
        ray: Whether it also manages RayClusters, RayJobs and RayServices of KubeRay.
        fair_sharing: Whether teams share by weight what is idle, and its metrics have the use and quota of each.
        device_classes: What queues call the devices that pods claim, by their DeviceClass. Kueue admits no pod with a
            claim on another class (pkg/dra/claims.go at v0.19.2).
    """
    image = {**source.repository_and_tag("kueue"), "pullPolicy": "IfNotPresent"}
    mappings = [{"name": name, "deviceClassNames": [one]} for one, name in (device_classes or {}).items()]
    of_devices = {"resources": {"deviceClassMappings": mappings}} if mappings else {}
    configuration = {**_configuration(trainer, ray, fair_sharing), **of_devices}
    values = {
        "controllerManager": {
            # The default since Kueue 0.14; explicit here because the manifests rely on it.
            "featureGates": [{"name": "TopologyAwareScheduling", "enabled": True}],
            "manager": {"image": image, "resources": _requests("kueue")},
            # While none of them runs, its webhooks refuse every Job: one on each system node, of which a drain leaves
            # one.
            "replicas": system_pods("kueue").replicas,
            "podDisruptionBudget": {"enabled": True},
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "kueue"}},
                }
            ],
        },
        # Every JSON document is a YAML document.
        "managerConfig": {"controllerManagerConfigYaml": json.dumps(configuration, indent=2)},
    }
    return source.release("kueue", "kueue-system", values)


def _configuration(trainer: bool, ray: bool, fair_sharing: bool) -> dict[str, Any]:
    # Not pod, deployment and statefulset: the chart's webhooks for them would stop every pod of the cluster while Kueue
    # is away (failurePolicy Fail in templates/webhook/manifests.yaml). LeaderWorkerSets do without since Kueue 0.15.
    frameworks = ["batch/job", "jobset.x-k8s.io/jobset", "leaderworkerset.x-k8s.io/leaderworkerset"]
    frameworks += ["trainer.kubeflow.org/trainjob"] if trainer else []
    frameworks += ["ray.io/raycluster", "ray.io/rayjob", "ray.io/rayservice"] if ray else []
    # The order of Kueue's documentation ("Preemption", Fair Sharing): one of the three that pkg/config/validation.go
    # takes. By the first, a team within its quota, whose share is 0, always gets its devices back.
    strategies = ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
    sharing = {"fairSharing": {"preemptionStrategies": strategies}} if fair_sharing else {}
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443", **({"enableClusterQueueResources": True} if fair_sharing else {})},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "clientConnection": {"qps": 300, "burst": 500},
        "integrations": {"frameworks": frameworks},
        **sharing,
    }


def jobset(source: SoftwareSource) -> ChartRelease:
    """The chart of JobSet: groups of Jobs that start, fail and restart as one, such as the nodes of a training run."""
    image = {**source.repository_and_tag("jobset"), "pullPolicy": "IfNotPresent"}
    values = {"image": image, "controller": {"resources": _requests("jobset")}}
    return source.release("jobset", "jobset-system", values)


def leader_worker_set(source: SoftwareSource) -> ChartRelease:
    """The chart of LeaderWorkerSet: groups of pods that serve one model from several nodes."""
    manager = {**source.repository_and_tag("lws"), "pullPolicy": "IfNotPresent"}
    return source.release("lws", "lws-system", {"image": {"manager": manager}, "resources": _requests("lws")})


def _requests(name: str) -> dict[str, Any]:
    """What a controller asks for. By the charts' own requests no system node has room for one more while it updates."""
    pods = system_pods(name)
    return {"requests": {"cpu": f"{pods.cpu_millicores}m", "memory": f"{pods.memory_mib}Mi"}}


def trainer(source: SoftwareSource) -> ChartRelease:
    """The chart of Kubeflow Trainer, without JobSet, which has a release of its own, and without its training runtimes.

    The chart's runtimes come by a Job that installs kubectl from the Internet at run time (values.yaml,
    `runtimes.installer`); make a ClusterTrainingRuntime of your own.
    """
    values = {
        "image": source.registry_and_path("trainer-controller-manager"),
        "jobset": {"install": False},
        "dataCache": {"enabled": False},
    }
    return source.release("kubeflow-trainer", "kubeflow-system", values)


def argo_workflows(source: SoftwareSource) -> ChartRelease:
    """The chart of Argo Workflows, which runs the Workflow of `kubernetes.mig_workflow`, without its web server.

    It makes a service account for workflows, `argo-workflow` in the namespace `default`, which a Workflow names. CRDs
    are the small ones, which lie in the chart: the others come by a Job that downloads them from GitHub (values.yaml,
    `crds.full`).
    """
    values = {
        "images": {"pullPolicy": "IfNotPresent"},
        "crds": {"full": False},
        "workflow": {"serviceAccount": {"create": True}},
        "controller": {"image": source.registry_and_path("workflow-controller")},
        "executor": {"image": source.registry_and_path("argoexec")},
        "server": {"enabled": False},
    }
    return source.release("argo-workflows", "argo", values)


def kuberay(source: SoftwareSource) -> ChartRelease:
    """The chart of KubeRay's operator, which runs Ray clusters, jobs and services (`kubernetes.ray`).

    Its CRDs lie in the chart: Helm installs them once, and does not update them (helm.sh, "Custom Resource
    Definitions").
    """
    values = {
        "image": source.repository_and_tag("kuberay-operator"),
        "env": [{"name": "RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS", "value": str(_RAY_SILENCE_SECONDS)}],
    }
    return source.release("kuberay-operator", KUBERAY_NAMESPACE, values)


#: How long the head of a RayJob may be silent: for longer, the job fails and is not tried again. KubeRay's own 300 s is
#: less than the boot of a node, or the pull of a large image (ray-project/kuberay v1.7.0, ray-operator/controllers/ray,
#: rayjob_controller.go:1336-1354 and utils/constant.go:290). This library's choice.
_RAY_SILENCE_SECONDS = 3600
