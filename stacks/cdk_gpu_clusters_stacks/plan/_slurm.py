"""The Slurm cluster of the plan, and fleets that are compute node groups of it."""

from __future__ import annotations

from collections.abc import Iterator

from cdk_gpu_clusters.catalogue.pcs import DEFAULT_SLURM_VERSION, slurm_versions
from cdk_gpu_clusters.node.slurm_settings import cluster_settings
from cdk_gpu_clusters.rules.pcs import ClusterSize
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS, ClusterSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet
from cdk_gpu_clusters_stacks.stack_names import login_stack, queue_stack, slurm_stack, training_stack

from ._cost import prices_used, usd_amount
from .model import ComputeNodeGroupReport, LoginNodesPlan, QueuePlan, SlurmPlan
from .rates import login_node_hour

_NO_END = "the catalogue has no end of this version"
_EXISTS = "the cluster is there already"


def plan_slurm(spec: ClusterSpec) -> SlurmPlan | None:
    """Describe the Slurm cluster that the fleets join; None under another orchestrator."""
    if not ORCHESTRATORS[spec.orchestrator].joins_slurm:
        return None
    pcs, existing = spec.pcs, spec.pcs.existing
    version = existing.slurm_version if existing else pcs.slurm_version or DEFAULT_SLURM_VERSION
    known = slurm_versions().get(version)
    ends = None if known is None or known.ends is None else str(known.ends)
    size = None if existing else ClusterSize(pcs.size.upper())
    unknown = {} if ends else {"version_ends": _NO_END}
    if existing:
        unknown |= dict.fromkeys(("size", "most_nodes", "most_jobs", "accounting"), _EXISTS)
    return SlurmPlan(
        stack_name=None if existing else slurm_stack(spec.name),
        cluster_id=existing.cluster_id if existing else None,
        slurm_version=version,
        version_ends=ends,
        size=None if size is None else pcs.size,
        most_nodes=None if size is None else size.nodes,
        most_jobs=None if size is None else size.jobs,
        accounting=None if existing else pcs.accounting.enabled,
        rest_api=pcs.rest_api,
        metrics=pcs.metrics,
        slurm_settings={} if existing else cluster_settings(pcs.slurm_settings, slurm_version=version),
        queues=tuple(_queues(spec)),
        login=_login(spec) if pcs.login.nodes else None,
        unknown=unknown,
    )


def _queues(spec: ClusterSpec) -> Iterator[QueuePlan]:
    """The queues: those of the file, or one for each training fleet, in its stack."""
    for name, queue in spec.pcs.queues.items():
        yield QueuePlan(
            name=name,
            stack_name=queue_stack(spec.name, name),
            fleets=queue.fleets,
            slurm_settings=dict(queue.slurm_settings),
        )
    for name in () if spec.pcs.queues else spec.training.fleets:
        yield QueuePlan(name=name, stack_name=training_stack(spec.name, name), fleets=(name,), slurm_settings={})


def _login(spec: ClusterSpec) -> LoginNodesPlan:
    login, hour = spec.pcs.login, login_node_hour(spec)
    usd = None if hour.low is None else usd_amount(hour.low * login.nodes)
    return LoginNodesPlan(
        stack_name=login_stack(spec.name),
        instance_type=login.instance_type,
        node_count=login.nodes,
        mounts=dict(login.mounts),
        ssh_cidrs=login.ssh_cidrs,
        usd_per_hour=usd,
        prices=prices_used(hour.prices),
        unknown={} if usd is not None else {"usd_per_hour": hour.reason},
    )


# A fleet that is a compute node group.

_UPDATE = "a deployment that changes image, template or scripts replaces each node when its jobs have ended"


def report_compute_node_group(view: PlannedFleet) -> ComputeNodeGroupReport:
    """Describe the compute node group of a fleet."""
    group = view.compute_node_group
    return ComputeNodeGroupReport(
        name=group.name,
        purchase_option=group.purchase_option.value,
        minimum_nodes=group.minimum,
        maximum_nodes=group.maximum,
        grown_by=_grown_by(view),
        slurm_settings=dict(group.slurm_settings),
        gres_records=tuple(dict(one) for one in group.gres_records),
        update=_UPDATE,
    )


def _grown_by(view: PlannedFleet) -> str:
    if view.plan.terms.kind.is_block:
        return "a state machine keeps the group at its size from the start of the block to its drain"
    if isinstance(view.spec, FleetSpec) and view.spec.scales:
        return "Slurm starts nodes for waiting jobs, and ends idle ones"
    return "a fixed size, which the deployment sets"
