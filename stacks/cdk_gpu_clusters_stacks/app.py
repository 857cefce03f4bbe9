"""The CDK app: one cluster file in, one cloud assembly out.

`cdk synth --app "python -m cdk_gpu_clusters_stacks" -c cluster=cluster.yaml`
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import aws_cdk as cdk

from cdk_gpu_clusters import GpuClusterRules
from cdk_gpu_clusters.errors import ConfigError
from cdk_gpu_clusters.rules.interfaces import uses_efa
from cdk_gpu_clusters.rules.placement import reservation_is_placed
from cdk_gpu_clusters_stacks.capacity import CapacityStack
from cdk_gpu_clusters_stacks.data import (
    CheckpointStack,
    ExistingCheckpoints,
    ExistingLustre,
    LinkStack,
    LustreStack,
    Store,
    data_stacks,
)
from cdk_gpu_clusters_stacks.fleets import FleetStack
from cdk_gpu_clusters_stacks.inference import InferenceStack
from cdk_gpu_clusters_stacks.network import ClusterNetworkRef, FabricStack, cluster_place
from cdk_gpu_clusters_stacks.spec.capacity import NewReservation
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec, NodesSpec
from cdk_gpu_clusters_stacks.spec.load import read_cluster, report
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.stack_names import (
    capacity_stack,
    fabric_stack,
    inference_stack,
    link_stack,
    software_stack,
    training_stack,
)

DEFAULT_CLUSTER_FILE = "cluster.yaml"


def build_cluster(app: cdk.App, spec: ClusterSpec) -> None:
    """Define the stacks of a cluster.

    Stacks follow life spans: the network, one for each store, one for each fabric and for its way to a store, the
    cluster of EKS if the fleets join one, one for each fleet's reservation, one for each fleet, all named after their
    key in the cluster file. So a fleet that comes,
    goes or moves leaves every other template byte-identical.

    Args:
        app: The app.
        spec: The cluster.
    """
    env = _env(spec)
    for key, value in {"gpu-cluster": spec.name, **spec.tags}.items():
        cdk.Tags.of(app).add(key, value)
    place = cluster_place(app, spec, env)
    stores = data_stacks(app, spec, place, env)
    if spec.orchestrator == "eks":
        _on_eks(app, spec, place, stores)
    else:
        _on_ec2(app, spec, place, stores)


def _on_ec2(app: cdk.App, spec: ClusterSpec, place: ClusterNetworkRef, stores: Mapping[str, Store]) -> None:
    """Make every fleet an Auto Scaling group."""
    env = _env(spec)
    fabrics = Fabrics(app, spec, place, stores, env)
    for name, fleet in spec.training.fleets.items():
        fabric = fabrics.of(fleet)
        made = FleetStack(
            app,
            training_stack(spec.name, name),
            fleet=fleet,
            place=place,
            fabric=fabric,
            capacity=_training_capacity(app, spec, name, fleet),
            mounts=_mounts(stores, fleet),
            checkpoints=_checkpoints(stores, fleet),
            env=env,
        )
        fabrics.link(fleet, made)
    for name, serving in spec.inference.fleets.items():
        InferenceStack(
            app,
            inference_stack(spec.name, name),
            fleet=serving,
            place=place,
            capacity=_capacity_stack(app, spec, name, serving, placed=False),
            mounts=_mounts(stores, serving),
            env=env,
        )


def _on_eks(app: cdk.App, spec: ClusterSpec, place: ClusterNetworkRef, stores: Mapping[str, Store]) -> None:
    """Make every fleet a node group of one cluster."""
    from cdk_gpu_clusters_stacks.eks import eks_cluster  # takes long to load
    from cdk_gpu_clusters_stacks.node_groups import NodeGroupStack

    env = _env(spec)
    fabrics = Fabrics(app, spec, place, stores, env)
    cluster = eks_cluster(app, spec, place, env)
    for name, fleet in spec.training.fleets.items():
        made = NodeGroupStack(
            app,
            training_stack(spec.name, name),
            name=name,
            fleet=fleet,
            cluster=cluster,
            place=place,
            fabric=fabrics.of(fleet),
            capacity=_training_capacity(app, spec, name, fleet),
            mounts=_mounts(stores, fleet),
            checkpoints=_checkpoints(stores, fleet),
            kubectl=spec.eks.kubectl,
            env=env,
        )
        fabrics.link(fleet, made)
    for name, serving in spec.inference.fleets.items():
        NodeGroupStack(
            app,
            inference_stack(spec.name, name),
            name=name,
            fleet=serving,
            cluster=cluster,
            place=place,
            fabric=None,
            capacity=_capacity_stack(app, spec, name, serving, placed=False),
            mounts=_mounts(stores, serving),
            checkpoints=None,
            kubectl=spec.eks.kubectl,
            env=env,
        )
    if spec.eks.software.apply:
        from cdk_gpu_clusters_stacks.eks import SoftwareStack

        SoftwareStack(
            app,
            software_stack(spec.name),
            spec=spec,
            cluster=cluster,
            place=place,
            stores=stores,
            env=env,
        )


def _env(spec: ClusterSpec) -> cdk.Environment:
    return cdk.Environment(account=spec.account, region=spec.region)


def _mounts(stores: Mapping[str, Store], fleet: NodesSpec) -> dict[str, LustreStack | ExistingLustre]:
    found = {point: stores[name] for point, name in fleet.mounts.items()}
    return {point: one for point, one in found.items() if isinstance(one, LustreStack | ExistingLustre)}


def _checkpoints(stores: Mapping[str, Store], fleet: FleetSpec) -> CheckpointStack | ExistingCheckpoints | None:
    store = None if fleet.checkpoints is None else stores[fleet.checkpoints]
    return store if isinstance(store, CheckpointStack | ExistingCheckpoints) else None


def _training_capacity(app: cdk.App, spec: ClusterSpec, name: str, fleet: FleetSpec) -> CapacityStack | None:
    efa = uses_efa(fleet.instance_type, fleet.efa)
    placed = reservation_is_placed(fleet.placement_strategy, efa=efa)
    return _capacity_stack(app, spec, name, fleet, placed=placed)


def _capacity_stack(
    app: cdk.App, spec: ClusterSpec, name: str, fleet: NodesSpec, *, placed: bool
) -> CapacityStack | None:
    if not isinstance(fleet.capacity, NewReservation):
        return None
    return CapacityStack(
        app,
        capacity_stack(spec.name, name),
        fleet=fleet,
        options=fleet.capacity,
        placed=placed,
        availability_zone=spec.network.availability_zone,
        env=_env(spec),
    )


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
        build_cluster(app, reading.spec)
    except ConfigError as error:
        report(error.findings)
        _stop(app)
    app.synth()
    if app.node.try_get_context("report"):
        _write_report(reading.spec, Path(app.outdir))


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


# The EFA fabrics of a cluster and their ways to its stores.


class Fabrics:
    """The EFA fabrics of a cluster and their ways to its stores, each made when the first fleet needs it."""

    def __init__(
        self,
        app: cdk.App,
        spec: ClusterSpec,
        place: ClusterNetworkRef,
        stores: Mapping[str, Store],
        env: cdk.Environment,
    ) -> None:
        """Begin with none."""
        self._app, self._spec, self._place, self._stores, self._env = app, spec, place, stores, env
        self._fabrics: dict[str, FabricStack] = {}
        self._links: dict[str, LinkStack] = {}

    def of(self, fleet: FleetSpec) -> FabricStack | None:
        """The fabric of a fleet, None without EFA."""
        if not uses_efa(fleet.instance_type, fleet.efa):
            return None
        if fleet.fabric not in self._fabrics:
            name = fabric_stack(self._spec.name, fleet.fabric)
            made = FabricStack(self._app, name, place=self._place, env=self._env)
            self._fabrics[fleet.fabric] = made
        return self._fabrics[fleet.fabric]

    def link(self, fleet: FleetSpec, made: cdk.Stack) -> None:
        """Make the ways from a fleet's fabric to what it mounts, each once, before the fleet."""
        fabric = self.of(fleet)
        if fabric is None:
            return
        for name in sorted(set(fleet.mounts.values())):
            store, stack_name = self._stores[name], link_stack(self._spec.name, name, fleet.fabric)
            if stack_name not in self._links and isinstance(store, LustreStack | ExistingLustre):
                self._links[stack_name] = LinkStack(self._app, stack_name, store=store, fabric=fabric, env=self._env)
            made.add_stack_dependency(self._links[stack_name])
