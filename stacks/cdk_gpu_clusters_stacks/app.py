"""The CDK app: one cluster file in, one cloud assembly out.

`cdk synth --app "python -m cdk_gpu_clusters_stacks" -c cluster=cluster.yaml`
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

import aws_cdk as cdk

from cdk_gpu_clusters import GpuClusterRules
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters_stacks.capacity import CapacityStack
from cdk_gpu_clusters_stacks.data import MOUNTED, LinkStack, data_stacks
from cdk_gpu_clusters_stacks.fleets import FleetStack, MonitoredFleet, NodesStack, Site
from cdk_gpu_clusters_stacks.network import FabricStack, cluster_place
from cdk_gpu_clusters_stacks.spec.capacity import NewReservation
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.load import read_cluster, report
from cdk_gpu_clusters_stacks.spec.model import ORCHESTRATORS, ClusterSpec
from cdk_gpu_clusters_stacks.spec.planned_fleet import PlannedFleet, planned_fleets
from cdk_gpu_clusters_stacks.stack_names import fabric_stack, link_stack
from cdk_gpu_clusters_stacks.terminal import steps

if TYPE_CHECKING:  # takes long to load
    from cdk_gpu_clusters import EksGpuNodeGroup
    from cdk_gpu_clusters_stacks.eks import EksStack, ExistingEks
    from cdk_gpu_clusters_stacks.slurm import ExistingSlurm, SlurmStack

DEFAULT_CLUSTER_FILE = "cluster.yaml"


def build_cluster(app: cdk.App, spec: ClusterSpec, *, on_built: Callable[[], object] = lambda: None) -> None:
    """Define the stacks of a cluster.

    Stacks follow life spans: the network, one for each store, one for each fabric and for its way to a store, the
    cluster of EKS if the fleets join one, one for each fleet's reservation, one for each fleet, and one for what
    monitors them. All are named after their key in the cluster file, so that a fleet that comes, goes or moves leaves
    every other template byte-identical, but for a dashboard that shows it.

    Args:
        app: Where the stacks are defined.
        spec: The cluster.
        on_built: Called each time that more stacks are built, to show progress.
    """
    for key, value in {"gpu-cluster": spec.name, **spec.tags}.items():
        cdk.Tags.of(app).add(key, value)
    env = cdk.Environment(account=spec.account, region=spec.region)
    place = cluster_place(app, spec, env)
    on_built()
    site = Site(app, spec, place, data_stacks(app, spec, place, env), env)
    on_built()
    profile = ORCHESTRATORS[spec.orchestrator]
    if profile.joins_eks:
        _join_eks(site, on_built)
    elif profile.joins_slurm:
        _join_slurm(site, on_built)
    elif profile.joins_batch:
        _make_fleets(site, partial(_on_batch, site), on_built)
    elif profile.joins_parallelcluster:
        _prepare_parallelcluster(site, on_built)
    elif profile.joins_hyperpod:
        _join_hyperpod(site, on_built)
    else:
        _make_fleets(site, partial(_on_ec2, site), on_built)


def _join_eks(site: Site, on_built: Callable[[], object]) -> None:
    """The cluster of Amazon EKS, its node groups and its software."""
    from cdk_gpu_clusters_stacks.eks import (  # takes long to load
        KarpenterStack,
        ServingStack,
        SoftwareStack,
        eks_cluster,
    )
    from cdk_gpu_clusters_stacks.node_groups import NodeGroupStack, NodePoolStack

    cluster = eks_cluster(site.app, site.spec, site.place, site.env)
    on_built()
    karpenter = KarpenterStack(site, cluster) if site.spec.has_karpenter else None
    autoscaled: dict[cdk.Stack, EksGpuNodeGroup] = {}

    def make(fleet: PlannedFleet, *, fabric: FabricStack | None, capacity: CapacityStack | None) -> NodesStack:
        if karpenter is not None and fleet.is_pool:
            return NodePoolStack(site, fleet, karpenter=karpenter, cluster=cluster, fabric=fabric, capacity=capacity)
        made = NodeGroupStack(site, fleet, cluster=cluster, fabric=fabric, capacity=capacity)
        if fleet.is_autoscaled:
            autoscaled[made] = made.node_group
        return made

    monitoring = _make_fleets(site, make, on_built, kubernetes=cluster)
    serving = None
    if site.spec.eks.has_serving_roles:
        serving = ServingStack(site, cluster, monitoring if site.spec.eks.software.reads_metrics else None)
        on_built()
    if site.spec.eks.software.apply:
        SoftwareStack(site, cluster, serving, autoscaled=autoscaled)
        on_built()


def _join_slurm(site: Site, on_built: Callable[[], object]) -> None:
    """The Slurm cluster of AWS PCS, its compute node groups, queues and login nodes."""
    from cdk_gpu_clusters_stacks.slurm import (  # takes long to load
        ComputeNodeGroupStack,
        LoginStack,
        QueueStack,
        slurm_cluster,
    )

    spec = site.spec.pcs
    cluster = slurm_cluster(site.app, spec, name=site.spec.name, place=site.place, env=site.env)
    on_built()
    fleets: dict[str, ComputeNodeGroupStack] = {}

    def make(
        fleet: PlannedFleet, *, fabric: FabricStack | None, capacity: CapacityStack | None
    ) -> ComputeNodeGroupStack:
        fleets[fleet.name] = ComputeNodeGroupStack(site, fleet, cluster=cluster, fabric=fabric, capacity=capacity)
        return fleets[fleet.name]

    _make_fleets(site, make, on_built, slurm=cluster)
    for name in spec.queues:
        QueueStack(site, name, cluster=cluster, fleets=fleets)
        on_built()
    if spec.login.nodes:
        LoginStack(site, spec.login, cluster)
        on_built()


def _prepare_parallelcluster(site: Site, on_built: Callable[[], object]) -> None:
    """What a configuration of AWS ParallelCluster names: reservations, and what its nodes get from the file."""
    from cdk_gpu_clusters_stacks.parallelcluster import ParallelClusterStack  # takes long to load

    fleets = planned_fleets(site.spec)
    for fleet in fleets:
        _capacity(site, fleet)
    ParallelClusterStack(site, fleets)
    on_built()
    _monitor(site, [], on_built)


def _join_hyperpod(site: Site, on_built: Callable[[], object]) -> None:
    """The cluster of SageMaker HyperPod, whose instance groups are the fleets."""
    from cdk_gpu_clusters_stacks.hyperpod import HyperPodStack  # takes long to load

    kubernetes = None
    if ORCHESTRATORS[site.spec.orchestrator].uses_eks:
        from cdk_gpu_clusters_stacks.eks import eks_cluster  # takes long to load

        kubernetes = eks_cluster(site.app, site.spec, site.place, site.env)
        on_built()
    made = HyperPodStack(site, planned_fleets(site.spec), kubernetes=kubernetes)
    on_built()
    _monitor(site, made.fleets, on_built)


class MakeFleet(Protocol):
    """Makes the stack of a fleet."""

    def __call__(
        self, fleet: PlannedFleet, *, fabric: FabricStack | None, capacity: CapacityStack | None
    ) -> NodesStack: ...


def _make_fleets(
    site: Site,
    make: MakeFleet,
    on_built: Callable[[], object],
    *,
    slurm: SlurmStack | ExistingSlurm | None = None,
    kubernetes: EksStack | ExistingEks | None = None,
) -> cdk.Stack | None:
    """Make the fleets, each after its fabric, its reservation and its ways to the stores, and what monitors them.

    Returns:
        The stack that monitors them, if there is one.
    """
    fabrics, stacks = Fabrics(site), list[NodesStack]()
    for fleet in planned_fleets(site.spec):
        made = make(fleet, fabric=fabrics.of(fleet), capacity=_capacity(site, fleet))
        fabrics.link(fleet, made)
        stacks.append(made)
        on_built()
    return _monitor(site, stacks, on_built, slurm=slurm, kubernetes=kubernetes)


def _monitor(
    site: Site,
    fleets: Sequence[MonitoredFleet],
    on_built: Callable[[], object],
    *,
    slurm: SlurmStack | ExistingSlurm | None = None,
    kubernetes: EksStack | ExistingEks | None = None,
) -> cdk.Stack | None:
    """Make what monitors the fleets, if the file asks for it."""
    if not site.spec.monitoring.has_stack:
        return None
    from cdk_gpu_clusters_stacks.monitoring import MonitoringStack  # takes long to load

    monitoring = MonitoringStack(site, fleets, slurm=slurm, kubernetes=kubernetes)
    on_built()
    return monitoring


def _on_ec2(
    site: Site, fleet: PlannedFleet, *, fabric: FabricStack | None, capacity: CapacityStack | None
) -> NodesStack:
    """The stack of an Auto Scaling group."""
    if isinstance(fleet.spec, FleetSpec):
        return FleetStack(site, fleet, fleet.spec, fabric=fabric, capacity=capacity)
    from cdk_gpu_clusters_stacks.inference import InferenceStack  # takes long to load

    return InferenceStack(site, fleet, fleet.spec, capacity=capacity)


def _on_batch(
    site: Site, fleet: PlannedFleet, *, fabric: FabricStack | None, capacity: CapacityStack | None
) -> NodesStack:
    """The stack of a compute environment of AWS Batch, with its queue and job."""
    from cdk_gpu_clusters_stacks.batch import BatchFleetStack  # takes long to load

    assert isinstance(fleet.spec, FleetSpec)  # noqa: S101 - the check refuses others
    return BatchFleetStack(site, fleet, fleet.spec, fabric=fabric, capacity=capacity)


def _capacity(site: Site, fleet: PlannedFleet) -> CapacityStack | None:
    """The stack of a reservation that is made for a fleet."""
    capacity = fleet.spec.capacity
    if not isinstance(capacity, NewReservation):
        return None
    return CapacityStack(site.app, site.spec, fleet, capacity.new_reservation, env=site.env)


class Fabrics:
    """The EFA fabrics of a cluster and their ways to its stores, each made when the first fleet needs it."""

    def __init__(self, site: Site) -> None:
        """Begin with none."""
        self._site = site
        self._fabrics: dict[str, FabricStack] = {}
        self._links: dict[str, LinkStack] = {}

    def of(self, fleet: PlannedFleet) -> FabricStack | None:
        """The fabric of a fleet, None without EFA."""
        site, spec = self._site, fleet.spec
        if not isinstance(spec, FleetSpec) or not fleet.plan.efa:
            return None
        if spec.fabric not in self._fabrics:
            name = fabric_stack(site.spec.name, spec.fabric)
            self._fabrics[spec.fabric] = FabricStack(site.app, name, place=site.place, env=site.env)
        return self._fabrics[spec.fabric]

    def link(self, fleet: PlannedFleet, made: cdk.Stack) -> None:
        """Make the ways from a fleet's fabric to what it mounts, each once, before the fleet."""
        site, spec, fabric = self._site, fleet.spec, self.of(fleet)
        if fabric is None or not isinstance(spec, FleetSpec):
            return
        for name in sorted(set(spec.mounts.values())):
            store, stack_name = site.stores[name], link_stack(site.spec.name, name, spec.fabric)
            if stack_name not in self._links and isinstance(store, MOUNTED):
                self._links[stack_name] = LinkStack(site.app, stack_name, store=store, fabric=fabric, env=site.env)
            made.add_stack_dependency(self._links[stack_name])


def main() -> None:
    """Synthesize the cluster file named by the context value `cluster`; `cluster.yaml` if there is none.

    The context value `deployed` may name the file as it was deployed: a change that would replace one of its stores is
    refused then. With the context value `report`, `report.html` is written beside the templates. Faults of the file go
    to standard error, all at once, and nothing is written; so do warnings. The GPU rules look at every template.
    """
    app = cdk.App()
    cdk.Validations.of(app).add_plugins(GpuClusterRules())
    earlier = app.node.try_get_context("deployed")
    deployed = None
    if earlier:
        before = read_cluster(Path(earlier))
        deployed = before.spec
        if deployed is None:
            report(before.findings)
            _stop(app)
    file = Path(app.node.try_get_context("cluster") or DEFAULT_CLUSTER_FILE)
    reading = read_cluster(file, deployed=deployed)
    report(reading.findings)
    if reading.spec is None:
        _stop(app)
    try:
        _build(app, reading.spec)
    except ConfigError as error:
        report(error.findings)
        _stop(app)
    # CDK resolves, writes and validates all templates in one call.
    with steps("writing and validating the templates"):
        app.synth()
    if app.node.try_get_context("report"):
        _write_report(reading.spec, Path(app.outdir))


def _build(app: cdk.App, spec: ClusterSpec) -> None:
    """Define the stacks; on a terminal each gets a line when it is built."""
    seen: set[str] = set()
    with steps(f"building the stacks of {spec.name}") as on_steps:
        build_cluster(app, spec, on_built=lambda: on_steps(_new_stacks(app, seen)))


def _new_stacks(app: cdk.App, seen: set[str]) -> Iterator[str]:
    """Names of the stacks that were not seen before."""
    for child in app.node.children:
        name = child.node.id
        if name not in seen and cdk.Stack.is_stack(child):
            seen.add(name)
            yield f"stack {name}"


def _write_report(spec: ClusterSpec, folder: Path) -> None:
    """Write the page about the cluster; only who asks for it pays for what it imports."""
    from cdk_gpu_clusters_stacks.plan import plan_cluster
    from cdk_gpu_clusters_stacks.report_page import report_html

    (folder / "report.html").write_text(report_html(plan_cluster(spec)), encoding="utf-8")


def _stop(app: cdk.App) -> NoReturn:
    """End with nothing written: an App makes its output folder before it has anything to put there."""
    with suppress(OSError):  # a folder with an earlier assembly stays
        Path(app.outdir).rmdir()
    sys.exit(1)
