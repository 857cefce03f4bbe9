"""The cluster inside Kubernetes: node pools with their volumes, and the charts with their install script."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from cdk_gpu_clusters.catalogue.homes import nfs_options
from cdk_gpu_clusters.catalogue.kubernetes import DEFAULT_KUBERNETES_VERSION
from cdk_gpu_clusters.kubernetes.gateway import READINESS_LABEL
from cdk_gpu_clusters.kubernetes.model_server import ServerPod
from cdk_gpu_clusters.kubernetes.node_pool import LustreVolume, NfsVolume, NodePool, SharedVolume
from cdk_gpu_clusters.kubernetes.objects import DEFAULT_NAMESPACE, KubernetesObject, document_text
from cdk_gpu_clusters.kubernetes.queue_scaling import PrometheusWorkspace
from cdk_gpu_clusters.kubernetes.software import ChartRelease, ImageMirror, cluster_software, slurm_software
from cdk_gpu_clusters.kubernetes.software.inference import (
    agentgateway_charts,
    inference_pool_chart,
    inference_pool_definition,
)
from cdk_gpu_clusters.kubernetes.software.node_scaling import cluster_autoscaler_chart, karpenter_chart
from cdk_gpu_clusters.kubernetes.software.serving import (
    argo_rollouts_chart,
    external_dns_chart,
    gateway_api_chart,
    keda_chart,
    load_balancer_controller_chart,
)
from cdk_gpu_clusters_stacks.spec.data import (
    NEW_FILE_SYSTEMS,
    ExistingLustreSpec,
    LustreSpec,
    OpenZfsSpec,
    existing_homes,
    homes_export,
    homes_service,
)
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import ExistingNetwork
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet, planned_fleets
from cdk_gpu_clusters_stacks.spec.served_models import served_models
from cdk_gpu_clusters_stacks.stack_names import data_stack, eks_stack, monitoring_stack, network_stack

#: What stands in a text for a value that only the deployed stack knows: a variable of the shell.
FILE_SYSTEM_ID, DNS_NAME, MOUNT_NAME = "FILE_SYSTEM_ID", "DNS_NAME", "MOUNT_NAME"
#: Variable -> the output of the store's stack that has its value.
OUTPUTS = {FILE_SYSTEM_ID: "FileSystemId", DNS_NAME: "DnsName", MOUNT_NAME: "MountName"}


def variable(store: str, name: str) -> str:
    """The shell variable that holds a value of a store, such as `CORPUS_DNS_NAME`."""
    return f"{store.upper().replace('-', '_')}_{name}"


def store_stacks(spec: ClusterSpec) -> dict[str, str]:
    """The stacks of the file systems that are made here, by the store's name."""
    return {name: data_stack(spec.name, name) for name, one in spec.data.items() if isinstance(one, NEW_FILE_SYSTEMS)}


def volumes(spec: ClusterSpec) -> dict[str, SharedVolume]:
    """The file systems of a cluster file by name; of one that is made here, variables represent what is not known."""
    found: dict[str, SharedVolume] = {}
    for name, store in spec.data.items():
        service, existing = homes_service(store), existing_homes(store)
        if service is not None:
            found[name] = NfsVolume(
                name=name,
                dns_name=f"${{{variable(name, DNS_NAME)}}}"
                if existing is None
                else existing.dns_name or service.dns_name(existing.file_system_id, spec.region, _suffix(spec.region)),
                export_path=homes_export(store, service),
                options=nfs_options(service),
                storage_capacity_gib=store.openzfs.storage_capacity_gib if isinstance(store, OpenZfsSpec) else None,
            )
        elif isinstance(store, ExistingLustreSpec):
            options = store.existing_lustre
            found[name] = LustreVolume(
                name=name,
                file_system_id=options.file_system_id,
                dns_name=options.dns_name or _dns_name(options.file_system_id, spec.region),
                mount_name=options.mount_name,
            )
        elif isinstance(store, LustreSpec):
            found[name] = LustreVolume(
                name=name,
                file_system_id=f"${{{variable(name, FILE_SYSTEM_ID)}}}",
                dns_name=f"${{{variable(name, DNS_NAME)}}}",
                mount_name=f"${{{variable(name, MOUNT_NAME)}}}",
                storage_capacity_gib=store.lustre.storage_capacity_gib,
            )
    return found


def node_pools(spec: ClusterSpec, known: Mapping[str, SharedVolume]) -> dict[str, NodePool]:
    """The fleets of a cluster file by name."""
    return {
        fleet.name: replace(
            fleet.node_pool,
            mounts={point: known[store] for point, store in fleet.spec.mounts.items() if store in known},
        )
        for fleet in planned_fleets(spec)
    }


def _dns_name(file_system_id: str, region: str) -> str:
    """Name of a file system (FSx for Lustre user guide, "Mounting from an EC2 instance")."""
    return f"{file_system_id}.fsx.{region}.{_suffix(region)}"


def _suffix(region: str) -> str:
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"


# Charts of a cluster: their values as files, and the shell script that installs everything in order.


def kubernetes_version(spec: ClusterSpec) -> str:
    """The version of the cluster of a cluster file."""
    eks = spec.eks
    return eks.existing.kubernetes_version if eks.existing else eks.kubernetes_version or DEFAULT_KUBERNETES_VERSION


def mirror_of(spec: ClusterSpec) -> ImageMirror | None:
    """The registry that holds copies of charts and images; None if the public ones serve them."""
    registry = spec.eks.software.mirror
    return None if registry is None else ImageMirror.in_registry(registry)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingNames:
    """What the charts and objects that serve models have to name; of what is made here, a deployment knows it.

    Attributes:
        cluster_name: Name of the cluster.
        vpc_id: Its network.
        workspace_id: Workspace of the metrics.
    """

    cluster_name: str
    vpc_id: str
    workspace_id: str

    def metrics(self, spec: ClusterSpec) -> PrometheusWorkspace:
        """The workspace, as the autoscaler of model servers takes it."""
        return PrometheusWorkspace(workspace_id=self.workspace_id, region=spec.region, domain=_suffix(spec.region))


#: Variables of the shell that hold them, in a text.
_CLUSTER_NAME, _VPC_ID, _WORKSPACE = "CLUSTER_NAME", "VPC_ID", "METRICS_WORKSPACE_ID"


def serving_names(spec: ClusterSpec) -> ServingNames:
    """What is known of the names of a cluster file; variables of the shell represent what is not."""
    existing, network = spec.eks.existing, spec.network
    return ServingNames(
        cluster_name=f"${{{_CLUSTER_NAME}}}" if existing is None else existing.cluster_name,
        vpc_id=network.vpc_id if isinstance(network, ExistingNetwork) else f"${{{_VPC_ID}}}",
        workspace_id=f"${{{_WORKSPACE}}}",
    )


def _outputs(spec: ClusterSpec) -> dict[str, tuple[str, str]]:
    """Variable -> the stack and the output that have its value."""
    stores = {
        variable(store, name): (stack, output)
        for store, stack in store_stacks(spec).items()
        for name, output in OUTPUTS.items()
    }
    return {
        **stores,
        _CLUSTER_NAME: (eks_stack(spec.name), "ClusterName"),
        _VPC_ID: (network_stack(spec.name), "VpcId"),
        _WORKSPACE: (monitoring_stack(spec.name), "WorkspaceId"),
    }


def releases(
    spec: ClusterSpec, pools: Iterable[NodePool], names: ServingNames | None = None
) -> tuple[ChartRelease, ...]:
    """The charts of a cluster file, in the order in which they are installed.

    Args:
        spec: The cluster.
        pools: Its groups of nodes.
        names: What charts have to name; variables of the shell by default.
    """
    known = tuple(pools)
    named = serving_names(spec) if names is None else names
    models = _pools_of_models(spec, known) if spec.eks.has_pools else ()
    return (*_software(spec, known), *_serving(spec, named), *models)


def _pools_of_models(spec: ClusterSpec, pools: Iterable[NodePool]) -> Iterable[ChartRelease]:
    """The charts of the inference extension."""
    mirror, by_name = mirror_of(spec), {pool.name: pool for pool in pools}
    yield from agentgateway_charts(mirror=mirror)
    for name, fleet in spec.inference.fleets.items():
        server = ServerPod(image=fleet.server.image, command=fleet.server.command, port=fleet.server.port)
        for model in served_models(name, fleet, by_name[name]):
            nodes = fleet.nodes_per_server or 1
            yield inference_pool_chart(model.name, server, nodes_per_server=nodes, mirror=mirror)


def definitions(spec: ClusterSpec) -> dict[str, list[KubernetesObject]]:
    """Definitions of custom kinds that come before the charts, by a path without its ending."""
    return {"definitions/inference-pools": [inference_pool_definition()]} if spec.eks.has_pools else {}


def _serving(spec: ClusterSpec, names: ServingNames) -> Iterable[ChartRelease]:
    """The charts of what serves models to clients."""
    gateway, mirror = spec.eks.gateway, mirror_of(spec)
    if gateway is not None:
        yield gateway_api_chart(mirror=mirror)
        yield load_balancer_controller_chart(
            cluster_name=names.cluster_name, vpc_id=names.vpc_id, region=spec.region, mirror=mirror
        )
        if gateway.hosted_zone is not None:
            yield external_dns_chart(
                cluster_name=names.cluster_name,
                zone_id=gateway.hosted_zone.zone_id,
                zone_name=gateway.hosted_zone.zone_name,
                region=spec.region,
                mirror=mirror,
            )
    if spec.eks.software.keda:
        yield keda_chart(mirror=mirror)
    if spec.eks.software.argo_rollouts:
        yield argo_rollouts_chart(region=spec.region, domain=_suffix(spec.region), mirror=mirror)


def _software(spec: ClusterSpec, pools: Iterable[NodePool]) -> tuple[ChartRelease, ...]:
    software, by_name = spec.eks.software, {pool.name: pool for pool in pools}
    made = cluster_software(
        tuple(by_name.values()),
        kubernetes_version=kubernetes_version(spec),
        efa=software.efa_software,
        trainer=software.trainer,
        ray=software.ray,
        fair_sharing=bool(spec.eks.teams),
        compute_domains=software.compute_domains,
        mirror=mirror_of(spec),
        region=spec.region,
    )
    if software.slurm is None:
        return made
    of_slurm = [by_name[name] for name in spec.slinky_fleets]
    return (*made, *slurm_software(of_slurm, software.slurm.cluster, mirror=mirror_of(spec)))


def scaling_releases(spec: ClusterSpec, fleets: Iterable[PlannedFleet]) -> tuple[ChartRelease, ...]:
    """The charts of what launches nodes, which the deployment installs with what only it knows: names of queues.

    Args:
        spec: The cluster.
        fleets: Its fleets.
    """
    mirror, known = mirror_of(spec), "${CLUSTER_NAME}"
    karpenter = karpenter_chart(cluster_name=known, interruption_queue="${QUEUE_NAME}", mirror=mirror)
    groups = [{"eks:nodegroup-name": f"${{{variable(one.name, 'NODE_GROUP')}}}"} for one in fleets if one.is_autoscaled]
    return (
        *([karpenter] if spec.has_karpenter else []),
        *(
            [cluster_autoscaler_chart(cluster_name=known, groups=groups, region=spec.region, mirror=mirror)]
            if groups and spec.eks.software.apply
            else []
        ),
    )


def values_files(charts: Sequence[ChartRelease]) -> dict[str, str]:
    """The values of each chart by the path of their file; the numbers are the order of installation."""
    return {values_file(index, one): document_text(one.values) for index, one in enumerate(charts, start=1)}


def values_file(index: int, one: ChartRelease) -> str:
    """Path of a chart's values."""
    return f"software/{index}-{one.name}.values.yaml"


_SLURM = "slurm"
_INSIDE = (
    "# The API server is reached from inside the network only: run this there, such as in an AWS CloudShell VPC",
    "# environment, or let the deployment install everything (eks.software.apply: true).",
)


# An apply removes a field that the last one had, and the Deployment then has the default: one server, however many run.
# So the last one is made to have had none, which changes no pods (Kubernetes documentation, "Horizontal Pod
# Autoscaling": "Migrating Deployments and StatefulSets to horizontal autoscaling").
_KEEP_SERVERS = r"""
# A model that gets an autoscaler keeps its present number of servers, until the autoscaler changes it.
keep_servers() {
  last=$(kubectl get "$1" --namespace "$2" --ignore-not-found \
    --output 'jsonpath={.metadata.annotations.kubectl\.kubernetes\.io/last-applied-configuration}')
  case $last in
  *'"replicas":'*) printf '%s\n' "$last" | sed 's/"replicas":[0-9]*,//' | kubectl apply set-last-applied -f - ;;
  esac
}
"""


def install_script(
    spec: ClusterSpec,
    charts: Sequence[ChartRelease],
    objects: Mapping[str, str],
    scaled: Mapping[str, Sequence[str]] | None = None,
    first: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The script that installs charts, then applies objects; it asks CloudFormation for what only a deployment knows.

    Args:
        objects: Text of each file to apply, by its path, in order.
        scaled: Deployments and Rollouts of a file whose number of servers an autoscaler sets, by its path.
        first: Text of each file with definitions of custom kinds, which charts need.
    """
    scaled = {} if scaled is None else scaled
    needed = "helm 3.8 or later, and kubectl" if charts else "kubectl"
    lines = [
        "#!/bin/sh",
        f"# Installs what the cluster {spec.name} needs inside Kubernetes. May run again after every change;",
        "# what is no longer in these files stays in the cluster until you delete it.",
        f"# Needs {needed} with a context of this cluster; for file systems that the cluster file",
        "# makes, the AWS CLI and envsubst, too."
        if not spec.eks.has_serving_roles
        else "# makes, and for names of other stacks, the AWS CLI and envsubst, too.",
        "set -eu",
        'cd "$(dirname "$0")"',
        *([] if spec.eks.existing or spec.eks.public_access_cidrs else _INSIDE),
        "",
    ]
    known = _outputs(spec)
    values = values_files(charts)
    of_charts, of_objects = _named(known, values), _named(known, objects)
    lines += _lookups(spec, of_charts)
    for path in first:
        lines += [
            _apply(path, "", []),
            f"kubectl wait --for condition=established --timeout 60s -f {shlex.quote(path)}",
        ]
    lines += [
        _install(index, one, _named(known, [text]))
        for index, (one, text) in enumerate(zip(charts, values.values(), strict=True), start=1)
    ]
    lines += ["", *_lookups(spec, [one for one in of_objects if one not in of_charts])]
    if spec.eks.gateway is not None:
        lines.append(f"kubectl label --overwrite namespace {DEFAULT_NAMESPACE} {READINESS_LABEL}=enabled")
    lines += _KEEP_SERVERS.splitlines() if any(scaled.values()) else []
    for path, text in objects.items():
        lines += [f"keep_servers {shlex.quote(name)} {DEFAULT_NAMESPACE}" for name in scaled.get(path, ())]
        lines.append(_apply(path, text, _named(known, [text])))
    return "\n".join(lines) + "\n"


def _named(known: Iterable[str], texts: Mapping[str, str] | Sequence[str]) -> list[str]:
    """The variables that some texts name."""
    every = texts.values() if isinstance(texts, Mapping) else texts
    return [name for name in known if any(f"${{{name}}}" in text for text in every)]


def _escaped(names: Iterable[str]) -> str:
    # Only these: what looks like a variable in somebody's command stays.
    return " ".join(f"\\${{{name}}}" for name in names)


def _apply(path: str, text: str, known: Sequence[str]) -> str:
    if not _named(known, [text]):
        return f"kubectl apply -f {shlex.quote(path)}"
    return f'envsubst "{_escaped(known)}" <{shlex.quote(path)} | kubectl apply -f -'


def _install(index: int, one: ChartRelease, known: Sequence[str]) -> str:
    place = [one.repository] if one.repository.startswith("oci://") else [one.chart, "--repo", one.repository]
    head = ["helm", "upgrade", "--install", one.name, *place, "--version", one.version]
    path = values_file(index, one)
    tail = ["--namespace", one.namespace, "--create-namespace", "--values", "-" if known else path]
    # Pods of Slurm run on nodes that may not be there yet.
    tail += [] if one.chart == _SLURM else ["--wait"]
    command = shlex.join([*head, *tail])
    return f'envsubst "{_escaped(known)}" <{shlex.quote(path)} | {command}' if known else command


def _lookups(spec: ClusterSpec, names: Sequence[str]) -> list[str]:
    """Lines that set variables by the outputs of stacks."""
    outputs = _outputs(spec)
    told = [
        f"{name}=$(aws cloudformation describe-stacks --region {spec.region} --stack-name {stack} "
        f"--query \"Stacks[0].Outputs[?OutputKey=='{output}'].OutputValue\" --output text)"
        for name in names
        for stack, output in [outputs[name]]
    ]
    of_stores = all(outputs[name][0] in store_stacks(spec).values() for name in names)
    return [*told, *_check_lookups(names, "of a file system " if of_stores else ""), ""] if names else []


def _check_lookups(names: Sequence[str], which: str) -> list[str]:
    """Lines that stop where a stack has no such output, for which the AWS CLI prints `None`."""
    values = " ".join(f"${name}" for name in names)
    told = f"echo 'a stack {which}has no such output: deploy it first' >&2; exit 1"
    return [f'case " {values} " in *" None "*) {told} ;; esac', f"export {' '.join(names)}"]
