"""Checks of a cluster of EKS, of fleets that join one, and of their pods."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from cdk_gpu_clusters.catalogue import AcceleratorKind, instance_type, instance_types
from cdk_gpu_clusters.catalogue.kubernetes import DEFAULT_KUBERNETES_VERSION, SystemPods
from cdk_gpu_clusters.errors import ConfigError, Finding, Severity
from cdk_gpu_clusters.fleet.karpenter import check_karpenter
from cdk_gpu_clusters.kubernetes.compute_domain import ULTRASERVERS, check_domains_version, connects_nodes
from cdk_gpu_clusters.kubernetes.ray_head import RayHead, ray_system_pods
from cdk_gpu_clusters.kubernetes.software.charts import EfaSoftware
from cdk_gpu_clusters.kubernetes.software.cluster import check_efa_driver
from cdk_gpu_clusters.kubernetes.software.inference import check_picked_server, inference_pods
from cdk_gpu_clusters.rules.eks_cluster import (
    check_public_cidrs,
    check_support,
    check_system_nodes,
    check_version,
    check_version_change,
)
from cdk_gpu_clusters.rules.inference import check_tls
from cdk_gpu_clusters.rules.karpenter import ROOM_FOR_DRIFT
from cdk_gpu_clusters.rules.model_servers import CACHE_ON_SCRATCH
from cdk_gpu_clusters.rules.node_group import check_autoscaled

from ._base import SpecModel
from ._check_nodes import clock
from ._check_values import check_arn
from ._document import Fault, Key, faults_at
from ._parts import FleetPart, SpecParts
from ._rules import (
    EKS_EFA,
    EKS_EXISTING,
    EKS_GATEWAY,
    EKS_IMAGE,
    EKS_MIRROR,
    EKS_NAMES,
    EKS_NEURON,
    EKS_QUEUE_METRICS,
    EKS_SECTION,
    EKS_SERVING_NETWORK,
    EKS_SUBNETS,
    EKS_UNUSED,
    EKS_WEIGHTS,
    NODE_SCALING,
)
from .eks import EksSpec, GatewaySpec
from .fleet import FleetSpec, ImageByOs
from .inference import InferenceFleetSpec
from .model import ORCHESTRATORS, ClusterSpec
from .network import ExistingNetwork, NewNetwork
from .planned_fleet import PlannedFleet

_CONTROL_PLANE_ZONES = 2
#: What an existing cluster has of its own.
_OF_A_NEW_CLUSTER = (
    "kubernetes_version",
    "public_access_cidrs",
    "admin_principal_arns",
    "control_plane",
    "system_nodes",
)
#: Keys of fleets that only plain EC2 acts on, and what is in their place on EKS.
_UNUSED = {
    "metadata_users": "a role of each pod, by EKS Pod Identity,",
    "load_balancer": "a Service inside the cluster",
    "min_servers_per_node": "the probes of each pod",
    "requests_per_minute_per_node": "a HorizontalPodAutoscaler",
}


def check_eks(parts: SpecParts) -> list[Fault]:
    """Find what is wrong with the cluster of EKS, and what of the fleets does not go with it."""
    if not parts.profile.uses_eks:
        return [] if parts.eks is None else faults_at(("eks",), [_NOT_ON_EKS], at_key=True)
    spec = parts.eks or EksSpec()
    if not parts.profile.joins_eks:  # fleets and software are HyperPod's
        return _check_existing(spec) if spec.existing else _check_control_plane(parts) + _check_new(spec, parts)
    faults = [fault for part in parts.fleets for fault in _check_fleet(part)]
    faults += [*check_names(parts), *_check_mirror(spec, parts), *_check_serving(spec, parts)]
    faults += [*_check_autoscaler(spec, parts), *_check_domains(spec, parts)]
    if spec.existing is not None:
        return faults + _check_existing(spec)
    return faults + _check_control_plane(parts) + _check_new(spec, parts)


_NOT_ON_EKS = EKS_SECTION.finding(
    cause="no cluster of EKS is made",
    got="eks without orchestrator: eks",
    fix="write orchestrator: eks, or remove the section",
    severity=Severity.WARNING,
)


def _check_mirror(spec: EksSpec, parts: SpecParts) -> list[Fault]:
    """Find a closed network whose nodes reach none of the images; an error where the deployment needs them."""
    network, mirror = parts.network, spec.software.mirror
    is_closed = isinstance(network, NewNetwork) and network.egress == "closed"
    if not is_closed or parts.region is None:
        return []
    if mirror is not None and f".dkr.ecr.{parts.region}." in mirror:
        return []
    finding = EKS_MIRROR.finding(
        cause="a closed network reaches no registry but ECR in its Region",
        got=mirror or "no mirror",
        allowed=f"<account>.dkr.ecr.{parts.region}.amazonaws.com/<path>",
        fix="copy charts and images into ECR (docs: software of a cluster on Amazon EKS), or write egress: nat",
        severity=Severity.ERROR if spec.software.apply else Severity.WARNING,
    )
    return faults_at(("network", "egress") if mirror is None else ("eks", "software", "mirror"), [finding])


def _check_domains(spec: EksSpec, parts: SpecParts) -> list[Fault]:
    """Find ComputeDomains that no fleet can have, or that the version of the cluster does not know."""
    records = [instance_types().get(part.spec.instance_type) for part in parts.fleets]
    if not spec.software.compute_domains or None in records:
        return []
    about = check_domains_version(_version(spec))
    if not any(connects_nodes(one) for one in records if one is not None):
        about = [
            ULTRASERVERS.finding(
                cause="no fleet is in UltraServers, so that the driver is left out",
                got="compute_domains: true",
                allowed="a fleet of p6e-gb200.36xlarge",
                fix="remove compute_domains, or add the fleet",
                severity=Severity.WARNING,
            )
        ]
    return faults_at(("eks", "software", "compute_domains"), about)


def _version(spec: EksSpec) -> str:
    given = spec.existing.kubernetes_version if spec.existing else spec.kubernetes_version
    return given or DEFAULT_KUBERNETES_VERSION


_EFA = ("eks", "software", "efa")
_TAKE_PLUGIN = "write eks.software.efa: device-plugin"


def check_efa_claims(parts: SpecParts, fleets: Sequence[PlannedFleet]) -> list[Fault]:
    """Find fleets whose pods cannot claim their EFA interfaces from a DRA driver."""
    spec = parts.eks
    if spec is None or not parts.profile.joins_eks or spec.software.efa_software is not EfaSoftware.DRA_DRIVER:
        return []
    planned = [(one, one.plan.interfaces_or_none) for one in fleets]
    with_efa = [one for one, interfaces in planned if interfaces is not None and interfaces.efa_count]
    faults = faults_at(_EFA, check_efa_driver(_version(spec))) if with_efa else []
    for one in with_efa:
        if one.is_pool or one.spec.scales:
            finding = EKS_EFA.finding(
                cause="what launches these nodes ignores the claims of pods that wait",
                got="managed_by: karpenter" if one.is_pool else "min_nodes and max_nodes",
                allowed="a managed node group, and nodes: with the number of nodes",
                fix=_TAKE_PLUGIN,
            )
            faults += faults_at((*one.key, "managed_by" if one.is_pool else "max_nodes"), [finding])
    slurm = spec.software.slurm
    training = [part.name for part in parts.fleets if isinstance(part.spec, FleetSpec)]
    of_slurm = set() if slurm is None else set(slurm.fleet_names(training))
    if any(one.name in of_slurm for one in with_efa):
        finding = EKS_EFA.finding(
            cause="the nodes of Slurm ask the device plugin for their EFA interfaces, and would wait forever",
            got="slurm on fleets with EFA",
            allowed="efa: device-plugin",
            fix=f"{_TAKE_PLUGIN}, or leave these fleets out of eks.software.slurm.fleets",
        )
        faults += faults_at(_EFA, [finding])
    return faults


_GATEWAY = ("eks", "gateway")
#: What reads metrics of model servers in the cluster, by the key that asks for it.
_READERS = {"keda": "KEDA", "argo_rollouts": "Argo Rollouts"}


def _check_serving(spec: EksSpec, parts: SpecParts) -> list[Fault]:
    """Find what serves no model, or reaches nothing of what it needs."""
    readers = [("eks", "software", name) for name in _READERS if getattr(spec.software, name)]
    asked: list[Key] = [*([_GATEWAY] if spec.gateway is not None else []), *readers]
    faults: list[Fault] = []
    if isinstance(parts.network, NewNetwork) and parts.network.egress == "closed":
        finding = EKS_SERVING_NETWORK.finding(
            cause="a closed network that is made here has no endpoints for it",
            got="egress: closed",
            allowed="egress: nat, or an existing network with these endpoints",
            fix="write egress: nat, or remove this key",
        )
        faults += [fault for key in asked for fault in faults_at(key, [finding])]
    if spec.gateway is not None:
        faults += _check_gateway(spec.gateway, parts)
    metrics = None if parts.monitoring is None else parts.monitoring.metrics
    has_workspace = metrics is not None and metrics.destination == "workspace"
    for key in [] if has_workspace or parts.monitoring_is_broken else readers:
        finding = EKS_QUEUE_METRICS.finding(
            cause=f"{_READERS[key[-1]]} has no metrics to read",
            got="no monitoring.metrics" if metrics is None else f"destination: {metrics.destination}",
            allowed="monitoring: { metrics: { destination: workspace } }",
            fix=f"add it, or remove {key[-1]}",
        )
        faults += faults_at(key, [finding])
    return faults


def _check_gateway(gateway: GatewaySpec, parts: SpecParts) -> list[Fault]:
    findings = [
        replace(
            one,
            got=one.got.replace("plain_http=True", "plain_http: true"),
            allowed="certificate_arn, or plain_http: true",
            fix="give one of certificate_arn and plain_http",
        )
        for one in check_tls(
            has_certificate=gateway.certificate_arn is not None, plain_http=gateway.plain_http, internet_facing=False
        )
    ]
    if not gateway.clients:
        findings.append(
            EKS_GATEWAY.finding(
                cause="all addresses could connect",
                got="no clients",
                allowed="such as [10.0.0.0/16]",
                fix="name those who may connect",
            )
        )
    if parts.fleets and not any(isinstance(part.spec, InferenceFleetSpec) for part in parts.fleets):
        findings.append(
            EKS_GATEWAY.finding(
                cause="no model is behind it",
                got="no inference fleet",
                allowed="one fleet of inference or more",
                fix="add a fleet, or remove gateway",
            )
        )
    zone = gateway.hosted_zone
    if zone is not None and not f".{gateway.hostname}".endswith(f".{zone.zone_name}"):
        findings.append(
            EKS_GATEWAY.finding(
                cause="the hosted zone keeps no such name",
                got="no hostname" if gateway.hostname is None else gateway.hostname,
                allowed=f"a name in {zone.zone_name}",
                fix="change hostname, or leave hosted_zone out",
            )
        )
    faults = faults_at(_GATEWAY, findings)
    if gateway.inference_extension:
        faults += [fault for part in parts.fleets for fault in _check_pool(part)]
    if gateway.certificate_arn is not None and parts.region is not None:
        faults += check_arn((*_GATEWAY, "certificate_arn"), gateway.certificate_arn, parts.region, "certificate")
    return faults


def _check_pool(part: FleetPart) -> list[Fault]:
    """Find model servers whose queue and cache an endpoint picker cannot read."""
    if not isinstance(part.spec, InferenceFleetSpec) or part.broken & {"server", "server.image", "server.command"}:
        return []
    fix = "serve it by vLLM with its statistics, or remove inference_extension"
    found = check_picked_server(part.spec.server.image, part.spec.server.command)
    return [
        fault
        for one in found
        for fault in faults_at((*part.key, *str(one.path).split(".")), [replace(one, path="", fix=fix)])
    ]


def _check_existing(spec: EksSpec) -> list[Fault]:
    given = [name for name in _OF_A_NEW_CLUSTER if _is_given(spec, name)]
    finding = EKS_EXISTING.finding(
        cause="an existing cluster is as it is",
        got=", ".join(given),
        allowed="existing, with software or without",
        fix="remove these keys, or remove existing",
    )
    faults = faults_at(("eks",), [finding] if given else [])
    existing = spec.existing
    if spec.software.apply and existing is not None and existing.kubectl_role_arn is None:
        finding = EKS_EXISTING.finding(
            cause="no one may install software in the existing cluster",
            got="software.apply: true without kubectl_role_arn",
            fix="add kubectl_role_arn, or apply what gpu-clusters manifests writes",
        )
        faults += faults_at(("eks", "software", "apply"), [finding])
    return faults


def _check_control_plane(parts: SpecParts) -> list[Fault]:
    network = parts.network
    if not isinstance(network, ExistingNetwork) or len(network.service_subnets) >= _CONTROL_PLANE_ZONES:
        return []
    finding = EKS_SUBNETS.finding(
        cause="the API server and the system nodes have no subnets in two zones",
        got=f"{len(network.service_subnets)} of service_subnets",
        allowed="private subnets in two zones or more",
        fix="add service_subnets: {zone: subnet-…, zone: subnet-…}, or name an existing cluster in eks.existing",
    )
    return faults_at(("network",), [finding])


def _check_new(spec: EksSpec, parts: SpecParts) -> list[Fault]:
    """Find what the construct would refuse, with its place in the file, and system nodes without room for Ray."""
    version = spec.kubernetes_version
    in_words = f'write kubernetes_version: "{DEFAULT_KUBERNETES_VERSION}"'
    versions = [] if version is None else [replace(one, fix=in_words) for one in check_version(version)]
    versions += [] if version is None else check_support(version, clock().date())
    return [
        *faults_at(("eks", "kubernetes_version"), versions),
        *faults_at(("eks", "public_access_cidrs"), check_public_cidrs(spec.public_access_cidrs)),
        *faults_at(("eks", "system_nodes", "instance_type"), _about_system_nodes(spec, parts)),
    ]


def check_new_version(deployed: ClusterSpec, wanted: ClusterSpec) -> list[Fault]:
    """Find a version to which the control plane of a deployed cluster does not go in one deployment."""
    if any(not ORCHESTRATORS[one.orchestrator].uses_eks or one.eks.existing for one in (deployed, wanted)):
        return []
    before, after = (one.eks.kubernetes_version or DEFAULT_KUBERNETES_VERSION for one in (deployed, wanted))
    return faults_at(("eks", "kubernetes_version"), check_version_change(before, after))


def _about_system_nodes(spec: EksSpec, parts: SpecParts) -> list[Finding]:
    nodes = spec.system_nodes
    heads = [RayHead()] * (_ray_fleets(spec, parts) if spec.software.ray else 0)
    of_ray = ray_system_pods(heads) if heads else []
    try:
        type_ = instance_type(nodes.instance_type)
        found = check_system_nodes(type_, nodes.nodes, _pods_of_pools(spec, parts), heads=of_ray)
    except ConfigError as unknown:
        return list(unknown.findings)
    type_name = "m7i.xlarge" if heads else "m7i.large"
    fix = f"write a type such as {type_name}, or more nodes; fleets hold the GPU nodes"
    return [replace(one, fix=fix) for one in found]


def _pods_of_pools(spec: EksSpec, parts: SpecParts) -> tuple[SystemPods, ...]:
    """What the inference extension runs on the system nodes; of fleets with MIG one model is counted."""
    models = sum(isinstance(part.spec, InferenceFleetSpec) for part in parts.fleets)
    return inference_pods(models) if spec.has_pools else ()


def _ray_fleets(spec: EksSpec, parts: SpecParts) -> int:
    """Fleets with a RayJob, each of which has a head on the system nodes."""
    training = {one.name: one.spec for one in parts.fleets if isinstance(one.spec, FleetSpec)}
    of_slurm = () if spec.software.slurm is None else spec.software.slurm.fleet_names(training)
    records = [
        instance_types().get(fleet.instance_type)
        for name, fleet in training.items()
        if name not in of_slurm and fleet.mig is None
    ]
    accelerators = [one.accelerator for one in records if one is not None and one.accelerator is not None]
    return sum(one.kind is AcceleratorKind.GPU for one in accelerators)


def check_devices(view: PlannedFleet) -> list[Fault]:
    """Find nodes whose devices no pod sees with what is installed."""
    accelerator = view.plan.instance_type.accelerator
    if not view.profile.joins_eks or accelerator is None or accelerator.kind is not AcceleratorKind.NEURON:
        return []
    finding = EKS_NEURON.finding(
        cause="no pod gets a Neuron device with the charts of this release",
        got=view.plan.instance_type.name,
        fix="install AWS's Neuron device plugin in the cluster, too",
        severity=Severity.WARNING,
    )
    return faults_at((*view.key, "instance_type"), [finding])


# What launches nodes for pods: Karpenter, or the Cluster Autoscaler.

#: Paths of findings about a node pool -> the field that decides.
_FIELDS = {"update_policy": "update"}
_NO_DRIFT = "write update: never, and delete old nodes yourself: kubectl delete nodeclaim"


def check_node_pool(view: PlannedFleet) -> list[Fault]:
    """Find fleets that Karpenter is to launch and cannot."""
    key, spec = (*view.key, "managed_by"), view.spec
    if spec.managed_by is not None and not view.profile.joins_eks:
        finding = NODE_SCALING.finding(
            cause="a managed node group and Karpenter are of Amazon EKS",
            got=f"managed_by: {spec.managed_by} without orchestrator: eks",
            fix="write orchestrator: eks, or remove managed_by",
            severity=Severity.WARNING,
        )
        return faults_at(key, [finding])
    if not view.is_pool or view.plan.interfaces_or_none is None:
        return []
    faults = [] if view.parts.eks_is_broken else _check_applied(view.parts.eks or EksSpec(), key, "Karpenter")
    for finding in check_karpenter(view.plan, view.node_group):
        field = _FIELDS.get(finding.path, finding.path)
        if field == "nodes" and spec.scales:
            field = "min_nodes"
        fix = _NO_DRIFT if finding.id == ROOM_FOR_DRIFT.id else finding.fix
        faults += faults_at((*view.key, field), [replace(finding, path="", fix=fix)])
    return faults


def _check_applied(spec: EksSpec, key: Key, program: str) -> list[Fault]:
    if spec.software.apply:
        return []
    finding = NODE_SCALING.finding(
        cause=f"{program} gets its rights, its chart and its objects from one deployment",
        got="eks.software.apply: false",
        fix="write eks.software.apply: true",
    )
    return faults_at(key, [finding])


def _check_autoscaler(spec: EksSpec, parts: SpecParts) -> list[Fault]:
    """Find a Cluster Autoscaler that is not installed, or has nothing to do."""
    if not spec.software.cluster_autoscaler:
        return []
    key = ("eks", "software", "cluster_autoscaler")
    faults = _check_applied(spec, key, "the Cluster Autoscaler")
    bounded = {one.name: False for one in parts.fleets if one.spec.scales and one.spec.managed_by != "karpenter"}
    unknown = any(one.broken & {"nodes", "min_nodes", "max_nodes", "managed_by"} for one in parts.fleets)
    found = [] if unknown else [replace(one, path="", fix=_NO_GROUPS) for one in check_autoscaled(bounded)]
    return faults + faults_at(key, found)


_NO_GROUPS = "give a fleet min_nodes and max_nodes and no managed_by: karpenter, or remove cluster_autoscaler"


def _check_fleet(part: FleetPart) -> list[Fault]:
    faults: list[Fault] = []
    spec = part.spec
    image = spec.image
    if image is not None and not (isinstance(image, ImageByOs) and image.os == "al2023" and not image.framework):
        finding = EKS_IMAGE.finding(
            cause="the node group names the image, and merges its own part into the user data",
            got="another image than that of EKS",
            allowed="no image, or os: al2023 alone",
            fix="remove image",
        )
        faults += faults_at((*part.key, "image"), [finding])
    if isinstance(spec, InferenceFleetSpec):
        faults += [*check_weights(part), *_check_cache(part, spec)]
    return faults + _check_unused(part)


def _check_unused(part: FleetPart) -> list[Fault]:
    return [
        fault
        for name, instead in _UNUSED.items()
        if name in type(part.spec).model_fields and _is_given(part.spec, name)
        for fault in faults_at(
            (*part.key, name),
            [
                EKS_UNUSED.finding(
                    cause=f"on EKS {instead} takes its place",
                    got=name,
                    severity=Severity.INFO,
                )
            ],
        )
    ]


def _is_given(spec: SpecModel, name: str) -> bool:
    """Whether the file differs from the default."""
    return bool(getattr(spec, name) != type(spec).model_fields[name].get_default())


# Names of pods, and folders that they see.

#: What `gpu-clusters manifests` puts behind the name of a fleet: whole GPUs of a training fleet, and slices.
_OF_JOBS, _OF_SLICES = r"-(job|train-job|nccl-test)", r"-(mig-.+|all(-mig-.+)?)"


def check_names(parts: SpecParts) -> Iterator[Fault]:
    """Find model servers whose Service would also find the pods of another fleet."""
    for part in parts.fleets:
        for other in parts.fleets:
            if isinstance(part.spec, InferenceFleetSpec) and _meets(part.name, other):
                finding = EKS_NAMES.finding(
                    cause="a job or server of another fleet has this name, and the Service would send requests to it",
                    got=f"{part.name}, beside {other.name}",
                    fix="rename one of the fleets",
                )
                yield from faults_at(part.key, [finding], at_key=True)


def check_weights(part: FleetPart) -> list[Fault]:
    """Find weights that no pod sees."""
    spec = part.spec
    weights = spec.server.weights if isinstance(spec, InferenceFleetSpec) else None
    if weights is None or weights.path is None or weights.s3_uri is not None or "mounts" in part.broken:
        return []
    if any(PurePosixPath(weights.path).is_relative_to(point) for point in spec.mounts):
        return []
    finding = EKS_WEIGHTS.finding(
        cause="a pod does not see this folder of its node",
        got=weights.path,
        allowed=f"a folder below {', '.join(spec.mounts)}" if spec.mounts else "a folder of a mounted store",
        fix="add a store to the fleet's mounts, or give s3_uri",
    )
    return faults_at((*part.key, "server", "weights", "path"), [finding])


def _check_cache(part: FleetPart, spec: InferenceFleetSpec) -> list[Fault]:
    path = spec.server.cache_path
    if path is None:
        return []
    finding = CACHE_ON_SCRATCH.finding(
        cause="on EKS a pod does not see the local disks of its node",
        got=path,
        allowed="no cache_path with orchestrator: eks",
        fix="remove cache_path, and add a volume to the manifests",
    )
    return faults_at((*part.key, "server", "cache_path"), [finding])


def _meets(name: str, other: FleetPart) -> bool:
    if other.spec.mig:
        ends = _OF_SLICES
    elif isinstance(other.spec, InferenceFleetSpec):
        return False
    else:
        ends = _OF_JOBS
    return re.fullmatch(re.escape(other.name) + ends, name) is not None
