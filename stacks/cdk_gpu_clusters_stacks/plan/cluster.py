"""From a cluster file to its plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cdk_gpu_clusters.errors import Finding, raise_for
from cdk_gpu_clusters.fleet.profile import GroupKind
from cdk_gpu_clusters_stacks.spec._parts import parts_of
from cdk_gpu_clusters_stacks.spec.capacity import NewReservation
from cdk_gpu_clusters_stacks.spec.check import check_fleets
from cdk_gpu_clusters_stacks.spec.data import FILE_SYSTEMS, NEW_FILE_SYSTEMS, CheckpointsSpec, LustreSpec
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.inference import InferenceFleetSpec
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS, ClusterSpec
from cdk_gpu_clusters_stacks.spec.network import NewNetwork
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet, planned_fleets
from cdk_gpu_clusters_stacks.stack_names import (
    capacity_stack,
    data_stack,
    eks_stack,
    fabric_stack,
    hyperpod_stack,
    inference_stack,
    karpenter_stack,
    link_stack,
    login_stack,
    monitoring_stack,
    network_stack,
    parallelcluster_stack,
    queue_stack,
    serving_stack,
    slurm_stack,
    software_stack,
    training_stack,
)

from ._cost import cluster_cost
from ._fleet import report_fleet
from ._hyperpod import plan_hyperpod
from ._kubernetes import plan_kubernetes
from ._network import plan_network
from ._parallelcluster import plan_parallelcluster
from ._slurm import plan_slurm
from ._store import plan_store
from .model import ClusterPlan, FleetReport, StackPlan, Totals


def plan_cluster(spec: ClusterSpec, findings: Sequence[Finding] | None = None) -> ClusterPlan:
    """Say what a cluster file makes.

    Every decision is asked of the rules that the constructs ask; nothing is looked up in an account, and no clock is
    read.

    Args:
        spec: The cluster.
        findings: What reading its file found; the rules are asked again if left out.

    Raises:
        ConfigError: If the cluster has errors, with all of them.

    Example:
        >>> from cdk_gpu_clusters_stacks.spec import load_cluster
        >>> plan = plan_cluster(load_cluster("examples/p5-capacity-block.yaml"))
        >>> plan.totals.accelerators, plan.fleets[0].placement.reason
        (128, 'no placement group: a Capacity Block is already placed, and EC2 refuses one')
    """
    if findings is None:
        found, views = check_fleets(spec)
    else:
        found, views = list(findings), planned_fleets(spec)
    raise_for(found)
    fleets = tuple(report_fleet(view, spec) for view in views)
    stores = tuple(plan_store(name, store, spec, views) for name, store in spec.data.items())
    kubernetes, slurm, hyperpod = plan_kubernetes(spec, views), plan_slurm(spec), plan_hyperpod(spec)
    parallelcluster = plan_parallelcluster(spec)
    return ClusterPlan(
        name=spec.name,
        region=spec.region,
        account=spec.account,
        orchestrator=spec.orchestrator,
        tags=dict(spec.tags),
        network=plan_network(spec, views),
        fleets=fleets,
        stores=stores,
        stacks=plan_stacks(spec, views),
        totals=_totals(fleets),
        cost=cluster_cost(
            fleets, stores, kubernetes, slurm, parallelcluster, is_new_network=isinstance(spec.network, NewNetwork)
        ),
        kubernetes=kubernetes,
        slurm=slurm,
        parallelcluster=parallelcluster,
        hyperpod=hyperpod,
        findings=tuple(found),
    )


def _totals(fleets: Sequence[FleetReport]) -> Totals:
    least = _amounts([(fleet, fleet.minimum_nodes) for fleet in fleets])
    most = _amounts([(fleet, fleet.maximum_nodes) for fleet in fleets])
    return Totals(
        minimum_nodes=sum(fleet.minimum_nodes for fleet in fleets),
        maximum_nodes=sum(fleet.maximum_nodes for fleet in fleets),
        minimum_accelerators=least[0],
        minimum_accelerator_memory_gib=least[1],
        minimum_mig_slices=least[2],
        minimum_model_servers=least[3],
        accelerators=most[0],
        accelerator_memory_gib=most[1],
        mig_slices=most[2],
        model_servers=most[3],
    )


def _amounts(fleets: Sequence[tuple[FleetReport, int]]) -> tuple[int, float, int, int]:
    """Accelerators, their memory in GiB, MIG slices and model servers of so many nodes of each fleet."""
    devices = [(nodes * one.count, one.memory_gib_each) for fleet, nodes in fleets if (one := fleet.node.accelerator)]
    return (
        sum(many for many, _ in devices),
        sum(many * gib for many, gib in devices),
        sum(nodes * fleet.node.mig.slices for fleet, nodes in fleets if fleet.node.mig is not None),
        sum(fleet.servers.count_on(nodes) for fleet, nodes in fleets if fleet.servers is not None),
    )


# The stacks of a cluster, as `app.build_cluster` makes them.


def plan_stacks(spec: ClusterSpec, views: list[PlannedFleet]) -> tuple[StackPlan, ...]:
    """The stacks in an order in which they can be deployed."""
    stacks: dict[str, StackPlan] = {}
    for stack in _stacks(spec, views):
        stacks.setdefault(stack.name, stack)
    return tuple(stacks.values())


def _stacks(spec: ClusterSpec, views: list[PlannedFleet]) -> Iterator[StackPlan]:
    network = (network_stack(spec.name),) if isinstance(spec.network, NewNetwork) else ()
    for name in network:
        yield StackPlan(name=name, kind="network", of="", outlives=False)
    for name, store in spec.data.items():
        if isinstance(store, (*NEW_FILE_SYSTEMS, CheckpointsSpec)):
            depends = network if isinstance(store, NEW_FILE_SYSTEMS) else ()
            yield StackPlan(name=data_stack(spec.name, name), kind="data", of=name, outlives=True, depends_on=depends)
    joined: tuple[str, ...] = ()
    if parts_of(spec).makes_eks:
        joined = (eks_stack(spec.name),)
        yield StackPlan(name=joined[0], kind="kubernetes", of="", outlives=False, depends_on=network)
    elif parts_of(spec).makes_slurm:
        joined = (slurm_stack(spec.name),)
        yield StackPlan(name=joined[0], kind="slurm", of="", outlives=False, depends_on=network)
    karpenter = (karpenter_stack(spec.name),) if spec.has_karpenter else ()
    for name in karpenter:
        yield StackPlan(name=name, kind="karpenter", of="", outlives=False, depends_on=(*network, *joined))
    yield from _of_fleets(spec, views, network, (*joined, *karpenter))
    if ORCHESTRATORS[spec.orchestrator].joins_slurm:
        yield from _of_slurm(spec, network, joined)
    monitoring = [_of_monitoring(spec, views, network, joined)] if spec.monitoring.has_stack else []
    if ORCHESTRATORS[spec.orchestrator].joins_eks:
        yield from _of_kubernetes(spec, views, (*network, *joined), monitoring)
    else:
        yield from monitoring


def _of_kubernetes(
    spec: ClusterSpec, views: Sequence[PlannedFleet], before: tuple[str, ...], monitoring: Sequence[StackPlan]
) -> Iterator[StackPlan]:
    """What is installed in the cluster of Amazon EKS, and the roles of what serves models in it."""
    serves, installs = spec.eks.has_serving_roles, spec.eks.software.apply
    if installs and not serves:
        yield _of_software(spec, views, before)
    yield from monitoring
    if serves:
        # Roles of KEDA and Argo Rollouts are for the workspace of the metrics.
        metrics = tuple(one.name for one in monitoring) if spec.eks.software.reads_metrics else ()
        name, depends = serving_stack(spec.name), (*before, *metrics)
        yield StackPlan(name=name, kind="serving", of="", outlives=False, depends_on=depends)
        if installs:
            yield _of_software(spec, views, (*depends, name))


def _of_software(spec: ClusterSpec, views: Sequence[PlannedFleet], before: tuple[str, ...]) -> StackPlan:
    """What is installed in the cluster of Amazon EKS."""
    autoscaled = [
        (inference_stack if isinstance(view.spec, InferenceFleetSpec) else training_stack)(spec.name, view.name)
        for view in views
        if view.is_autoscaled
    ]
    stores = [data_stack(spec.name, name) for name, one in spec.data.items() if isinstance(one, NEW_FILE_SYSTEMS)]
    name = software_stack(spec.name)
    return StackPlan(name=name, kind="software", of="", outlives=False, depends_on=(*before, *stores, *autoscaled))


def _of_fleets(
    spec: ClusterSpec, views: Sequence[PlannedFleet], network: tuple[str, ...], joined: tuple[str, ...]
) -> Iterator[StackPlan]:
    """The fleets: a stack of each, or one on HyperPod and ParallelCluster. A node pool is made after Karpenter."""
    if ORCHESTRATORS[spec.orchestrator].joins_parallelcluster:
        yield from _of_parallelcluster(spec, views, network)
        return
    if ORCHESTRATORS[spec.orchestrator].joins_hyperpod:
        yield _of_hyperpod(spec, views, (*network, *joined))
        return
    karpenter = karpenter_stack(spec.name)
    for view in views:
        yield from _of_fleet(spec, view, network, tuple(one for one in joined if one != karpenter or view.is_pool))


def _of_fleet(
    spec: ClusterSpec, view: PlannedFleet, network: tuple[str, ...], joined: tuple[str, ...]
) -> Iterator[StackPlan]:
    fleet, depends = view.spec, [*network, *joined]
    if isinstance(fleet, FleetSpec) and view.plan.efa:
        fabric = fabric_stack(spec.name, fleet.fabric)
        yield StackPlan(name=fabric, kind="fabric", of=fleet.fabric, outlives=False, depends_on=network)
        depends.append(fabric)
    if isinstance(fleet.capacity, NewReservation):
        reservation = capacity_stack(spec.name, view.name)
        yield StackPlan(name=reservation, kind="capacity", of=view.name, outlives=False)
        depends.append(reservation)
    for name in sorted({*fleet.mounts.values(), *_checkpoints(fleet)}):
        store = spec.data[name]
        if isinstance(store, (*NEW_FILE_SYSTEMS, CheckpointsSpec)):
            depends.append(data_stack(spec.name, name))
        if isinstance(fleet, FleetSpec) and view.plan.efa and isinstance(store, FILE_SYSTEMS):
            link = link_stack(spec.name, name, fleet.fabric)
            own = (data_stack(spec.name, name),) if isinstance(store, NEW_FILE_SYSTEMS) else ()
            yield StackPlan(
                name=link,
                kind="link",
                of=name,
                outlives=False,
                depends_on=(*own, fabric_stack(spec.name, fleet.fabric)),
            )
            depends.append(link)
    is_serving = isinstance(fleet, InferenceFleetSpec)
    stack_name = inference_stack if is_serving else training_stack
    yield StackPlan(
        name=stack_name(spec.name, view.name),
        kind="inference" if is_serving else "fleet",
        of=view.name,
        outlives=False,
        depends_on=tuple(depends),
    )


def _of_parallelcluster(
    spec: ClusterSpec, views: Sequence[PlannedFleet], network: tuple[str, ...]
) -> Iterator[StackPlan]:
    """Reservations, and what nodes of AWS ParallelCluster get. ParallelCluster makes the nodes in stacks of its own."""
    reserved = [view.name for view in views if isinstance(view.spec.capacity, NewReservation)]
    for fleet in reserved:
        yield StackPlan(name=capacity_stack(spec.name, fleet), kind="capacity", of=fleet, outlives=False)
    used = sorted({name for view in views for name in (*view.spec.mounts.values(), *_checkpoints(view.spec))})
    made = [name for name in used if isinstance(spec.data[name], (*NEW_FILE_SYSTEMS, CheckpointsSpec))]
    depends = (*network, *(data_stack(spec.name, name) for name in made))
    if spec.parallelcluster.custom_resource is not None:  # its configuration names them
        depends += tuple(capacity_stack(spec.name, fleet) for fleet in reserved)
    name = parallelcluster_stack(spec.name)
    yield StackPlan(name=name, kind="pcluster", of="", outlives=False, depends_on=depends)


def _of_hyperpod(spec: ClusterSpec, views: Sequence[PlannedFleet], before: tuple[str, ...]) -> StackPlan:
    """The cluster of HyperPod with all its groups."""
    on_slurm, login = ORCHESTRATORS[spec.orchestrator].is_hyperpod_slurm, spec.hyperpod.login
    named = dict.fromkeys(login.mounts.values() if on_slurm and login.nodes else ())
    for view in views:
        named |= dict.fromkeys([*view.spec.mounts.values(), *_checkpoints(view.spec)])
    stores = tuple(
        data_stack(spec.name, name)
        for name in named
        if isinstance(spec.data[name], (*NEW_FILE_SYSTEMS, CheckpointsSpec))
    )
    name = hyperpod_stack(spec.name)
    return StackPlan(name=name, kind="hyperpod", of="", outlives=False, depends_on=(*before, *stores))


def _of_slurm(spec: ClusterSpec, network: tuple[str, ...], cluster: tuple[str, ...]) -> Iterator[StackPlan]:
    """The queues over several fleets, and the login nodes."""
    for name, queue in spec.pcs.queues.items():
        fleets = tuple(training_stack(spec.name, fleet) for fleet in queue.fleets)
        depends = (*network, *cluster, *fleets)
        yield StackPlan(name=queue_stack(spec.name, name), kind="queue", of=name, outlives=False, depends_on=depends)
    if spec.pcs.login.nodes:
        stores = tuple(
            data_stack(spec.name, name)
            for name in sorted(set(spec.pcs.login.mounts.values()))
            if isinstance(spec.data[name], NEW_FILE_SYSTEMS)
        )
        depends = (*network, *cluster, *stores)
        yield StackPlan(name=login_stack(spec.name), kind="login", of="", outlives=False, depends_on=depends)


def _checkpoints(fleet: FleetSpec | InferenceFleetSpec) -> list[str]:
    name = fleet.checkpoints if isinstance(fleet, FleetSpec) else None
    return [] if name is None else [name]


def _of_monitoring(
    spec: ClusterSpec, views: list[PlannedFleet], network: tuple[str, ...], joined: tuple[str, ...]
) -> StackPlan:
    """The dashboard, the budget and the collector of metrics. A budget reads other stacks for its brake only."""
    shows, scrapes = spec.monitoring.dashboard, spec.monitoring.metrics is not None
    brake = spec.monitoring.brake
    braked = () if brake is None else brake.fleets
    depends = [*network, *joined] if scrapes else []
    if shows:
        depends += [data_stack(spec.name, name) for name, store in spec.data.items() if isinstance(store, LustreSpec)]
    for view in views:
        if shows and isinstance(view.spec.capacity, NewReservation):
            depends.append(capacity_stack(spec.name, view.name))
        is_shown = shows and view.profile.group is GroupKind.AUTO_SCALING_GROUP
        if is_shown or view.has_dns_record or view.name in braked:
            is_serving = isinstance(view.spec, InferenceFleetSpec)
            depends.append((inference_stack if is_serving else training_stack)(spec.name, view.name))
    return StackPlan(
        name=monitoring_stack(spec.name), kind="monitoring", of="", outlives=False, depends_on=tuple(depends)
    )
