"""What the dashboard of a cluster shows of its fleets and file systems, without the names that AWS gives."""

from __future__ import annotations

from dataclasses import replace

from cdk_gpu_clusters.catalogue.prices import Price
from cdk_gpu_clusters.fleet.profile import GroupKind
from cdk_gpu_clusters.kubernetes.model_server import SERVER_CONTAINER
from cdk_gpu_clusters.observability.eks_targets import EKS_POD_TARGETS
from cdk_gpu_clusters.observability.exporter_panels import exporter_rows
from cdk_gpu_clusters.observability.panels import DashboardFleet, Row, plan_prometheus_dashboard
from cdk_gpu_clusters.observability.targets import Exporter
from cdk_gpu_clusters.rules.scrape import PodTarget
from cdk_gpu_clusters.rules.vllm import is_vllm
from cdk_gpu_clusters_stacks.spec.data import LUSTRE
from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS, ClusterSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet, planned_fleets
from cdk_gpu_clusters_stacks.stack_names import inference_stack, training_stack

_VLLM = "vllm"


def dashboard_fleet(view: PlannedFleet, spec: ClusterSpec) -> DashboardFleet:
    """A fleet as the dashboard shows it; its stack knows its path, its group and a reservation made here."""
    terms, mig = view.plan.terms, view.plan.mig
    return DashboardFleet(
        name=view.name,
        path="",
        group_name="" if view.profile.group is GroupKind.AUTO_SCALING_GROUP else None,
        instance_type=view.spec.instance_type,
        whole_gpus=mig is None or mig.whole_gpus_per_node > 0,
        mig=mig is not None,
        efa=view.plan.efa,
        lustre=any(isinstance(spec.data[name], LUSTRE) for name in view.spec.mounts.values()),
        reservation_ids=terms.reservation_ids,
        ends_at=terms.ends_at,
        prepaid=terms.kind.is_block,
        price=_exact_price(view, spec.region),
    )


def scraped_rows(spec: ClusterSpec) -> tuple[Row, ...]:
    """The rows of what the collector of the cluster file scrapes; none without `monitoring.metrics`."""
    fleets = scraped_fleets(spec)
    exporters = {exporter for view in planned_fleets(spec) for exporter in scraped_ports(view, spec)}
    if spec.monitoring.metrics is not None and ORCHESTRATORS[spec.orchestrator].joins_eks:
        exporters |= {Exporter.DCGM, *([Exporter.VLLM] if _vllm_ports(spec) else [])}
    if spec.monitoring.metrics is not None and scrapes_controller(spec):
        exporters.add(Exporter.SLURMCTLD)
    return (*plan_prometheus_dashboard(fleets), *exporter_rows(exporters))


def scraped_fleets(spec: ClusterSpec) -> list[DashboardFleet]:
    """The fleets whose metrics Prometheus scrapes, by name, with the paths that their metrics have."""
    scraped = sorted((view for view in planned_fleets(spec) if view.serves_metrics), key=lambda one: one.name)
    return [replace(dashboard_fleet(view, spec), path=_path(view, spec.name)) for view in scraped]


def scraped_ports(view: PlannedFleet, spec: ClusterSpec) -> dict[Exporter, int]:
    """What a collector of the cluster file scrapes from the nodes of a fleet, and at which port.

    The balancer of a node with one server of vLLM passes the metrics of that server on. With several servers, each
    scrape would read another one.
    """
    metrics = spec.monitoring.metrics
    if metrics is None or not view.serves_metrics:
        return {}
    exporters = [Exporter.GPUNODE, *(Exporter[name.upper()] for name in metrics.exporters)]
    ports = {exporter: exporter.default_port for exporter in exporters}
    servers = view.server_settings
    if servers is not None and servers.plan.server_count == 1 and is_vllm(servers.image):
        ports[Exporter.VLLM] = servers.plan.port
    return ports


def scrapes_controller(spec: ClusterSpec) -> bool:
    """Whether Slurm's controller serves metrics; of an existing cluster it is not known, and taken for granted."""
    return ORCHESTRATORS[spec.orchestrator].joins_slurm and (spec.pcs.metrics or spec.pcs.existing is not None)


def scraped_pods(spec: ClusterSpec) -> list[PodTarget]:
    """The pods that a collector of the cluster file scrapes on Amazon EKS."""
    found, ports = [one for one in EKS_POD_TARGETS if one.job != _VLLM], _vllm_ports(spec)
    if ports:
        found.append(PodTarget(job=_VLLM, ports=ports, containers=[SERVER_CONTAINER]))
    metrics = spec.monitoring.metrics
    if metrics is not None and "node" in metrics.exporters:
        found.append(PodTarget(job="node", ports=[Exporter.NODE.default_port]))
    return found


def _vllm_ports(spec: ClusterSpec) -> list[int]:
    """Ports of the servers of vLLM of the cluster file."""
    servers = [fleet.server for fleet in spec.inference.fleets.values()]
    return sorted({one.port for one in servers if is_vllm(one.image)})


def _path(view: PlannedFleet, cluster: str) -> str:
    """Path of the construct of the nodes in the app."""
    is_serving = isinstance(view.spec, InferenceFleetSpec)
    stack = (inference_stack if is_serving else training_stack)(cluster, view.name)
    if view.profile.joins_eks or view.profile.joins_slurm:
        return f"{stack}/Nodes"
    return f"{stack}/Service/Fleet" if is_serving else f"{stack}/Fleet"


def _exact_price(view: PlannedFleet, region: str) -> Price | None:
    """The one price of a node; None for a range, a limit of Spot instances, and an unknown price."""
    hour = view.node_hour(region)
    if hour.low is None or hour.low != hour.high or hour.is_ceiling or len(hour.prices) != 1:
        return None
    return hour.prices[0]
