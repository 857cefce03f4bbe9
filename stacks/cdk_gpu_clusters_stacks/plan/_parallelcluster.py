"""The cluster of AWS ParallelCluster of the plan, and fleets that are queues of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cdk_gpu_clusters.catalogue import Architecture, instance_type
from cdk_gpu_clusters.catalogue.parallelcluster import PARALLELCLUSTER_VERSION
from cdk_gpu_clusters.fleet.parallelcluster import capacity_type, static_nodes
from cdk_gpu_clusters.rules.slurm_conf import JOB_SETTINGS, merged_settings
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS, ClusterSpec
from cdk_gpu_clusters_stacks.spec.parallelcluster import HEAD_TYPES, LOGIN_TYPES, ParallelClusterSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet
from cdk_gpu_clusters_stacks.stack_names import parallelcluster_stack

from ._cost import prices_used, usd_amount
from .model import LoginNodesPlan, ParallelClusterPlan, QueuePlan, SlurmQueueReport
from .rates import on_demand_hour


def plan_parallelcluster(spec: ClusterSpec) -> ParallelClusterPlan | None:
    """Describe the cluster of AWS ParallelCluster; None under another orchestrator."""
    if not ORCHESTRATORS[spec.orchestrator].joins_parallelcluster:
        return None
    section = spec.parallelcluster
    types, made = machine_types(spec), section.custom_resource
    return ParallelClusterPlan(
        stack_name=parallelcluster_stack(spec.name),
        is_deployed=made is not None,
        deleted_with_stack=made is not None and made.delete_with_stack,
        version=PARALLELCLUSTER_VERSION if made is None else made.version,
        slurm_settings=merged_settings(JOB_SETTINGS, section.slurm_settings),
        queues=tuple(_queues(spec)),
        head_node=_machine(spec, types["head node"], 1),
        login=_machine(spec, types["login nodes"], section.login.nodes) if section.login.nodes else None,
    )


def machine_types(spec: ClusterSpec) -> Mapping[str, str]:
    """Types of the nodes beside the fleets: those of the file, or small ones of the fleets' architecture."""
    section, fleet = spec.parallelcluster, next(iter(spec.training.fleets.values()), None)
    architecture = Architecture.X86_64 if fleet is None else instance_type(fleet.instance_type).architecture
    return {
        "head node": section.head_node.instance_type or HEAD_TYPES[architecture],
        "login nodes": section.login.instance_type or LOGIN_TYPES[architecture],
    }


def _machine(spec: ClusterSpec, kind: str, count: int) -> LoginNodesPlan:
    hour, cidr = on_demand_hour(kind, spec.region), spec.parallelcluster.head_node.ssh_cidr
    usd = None if hour.low is None else usd_amount(hour.low * count)
    return LoginNodesPlan(
        stack_name=spec.name,
        instance_type=kind,
        node_count=count,
        mounts={point: store for fleet in spec.training.fleets.values() for point, store in fleet.mounts.items()},
        ssh_cidrs=() if cidr is None else (cidr,),
        usd_per_hour=usd,
        prices=prices_used(hour.prices),
        unknown={} if usd is not None else {"usd_per_hour": hour.reason},
    )


def _queues(spec: ClusterSpec) -> Iterator[QueuePlan]:
    """A queue for each fleet, and the partitions over several."""
    given = spec.parallelcluster.queues
    for name in spec.training.fleets:
        own = given[name].slurm_settings if name in given else {}
        yield QueuePlan(name=name, stack_name=spec.name, fleets=(name,), slurm_settings=dict(own))
    for name, queue in given.items():
        if name not in spec.training.fleets:
            settings = dict(queue.slurm_settings)
            yield QueuePlan(name=name, stack_name=spec.name, fleets=queue.fleets, slurm_settings=settings)


def report_slurm_queue(view: PlannedFleet) -> SlurmQueueReport:
    """Describe the queue of a fleet."""
    fixed, most = static_nodes(view.plan), view.plan.maximum
    return SlurmQueueReport(
        capacity_type=capacity_type(view.plan),
        static_nodes=fixed,
        dynamic_nodes=most - fixed,
        slurm_settings=dict(view.slurm_node_settings),
        grown_by="a fixed size: ParallelCluster launches nodes in the place of lost ones"
        if fixed == most
        else "Slurm starts nodes for waiting jobs, and ends idle ones",
        update=f"{_updater(view)} drains a queue that changes, and replaces its nodes when their jobs have ended",
    )


def _updater(view: PlannedFleet) -> str:
    section = view.parts.slurm_section
    is_deployed = isinstance(section, ParallelClusterSpec) and section.custom_resource is not None
    return "a deployment" if is_deployed else "pcluster update-cluster"
