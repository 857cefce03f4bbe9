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
from cdk_gpu_clusters.rules.efa_choice import uses_efa
from cdk_gpu_clusters.rules.placement_choice import reservation_is_placed
from cdk_gpu_clusters_stacks.capacity import CapacityStack
from cdk_gpu_clusters_stacks.checkpoints import CheckpointStack, ExistingCheckpoints
from cdk_gpu_clusters_stacks.data import (
    ExistingLustre,
    LinkStack,
    LustreStack,
    Store,
    data_stacks,
)
from cdk_gpu_clusters_stacks.fabric import FabricStack
from cdk_gpu_clusters_stacks.inference import InferenceStack
from cdk_gpu_clusters_stacks.network import ClusterPlace, cluster_place
from cdk_gpu_clusters_stacks.spec.capacity import NewReservation
from cdk_gpu_clusters_stacks.spec.fleet import FleetSpec
from cdk_gpu_clusters_stacks.spec.load import read_cluster
from cdk_gpu_clusters_stacks.spec.model import ClusterSpec
from cdk_gpu_clusters_stacks.spec.nodes import NodesSpec
from cdk_gpu_clusters_stacks.spec.report import report
from cdk_gpu_clusters_stacks.stack_names import (
    capacity_stack,
    fabric_stack,
    inference_stack,
    link_stack,
    training_stack,
)
from cdk_gpu_clusters_stacks.training import FleetStack

DEFAULT_CLUSTER_FILE = "cluster.yaml"


def build_cluster(app: cdk.App, spec: ClusterSpec) -> None:
    """Define the stacks of a cluster.

    Stacks follow life spans: the network, one for each store, one for each fabric and for its way to a store, one for
    each fleet's reservation, one for each fleet, all named after their key in the cluster file. So a fleet that comes,
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
    _training(app, spec, place, stores)
    for name, fleet in spec.inference.fleets.items():
        InferenceStack(
            app,
            inference_stack(spec.name, name),
            fleet=fleet,
            place=place,
            capacity=_capacity_stack(app, spec, name, fleet, placed=False),
            mounts=_mounts(stores, fleet),
            env=env,
        )


def _training(app: cdk.App, spec: ClusterSpec, place: ClusterPlace, stores: Mapping[str, Store]) -> None:
    fabrics: dict[str, FabricStack] = {}
    links: dict[str, LinkStack] = {}
    env = _env(spec)
    for name, fleet in spec.training.fleets.items():
        efa = uses_efa(fleet.instance_type, fleet.efa)
        if efa and fleet.fabric not in fabrics:
            fabrics[fleet.fabric] = FabricStack(
                app, fabric_stack(spec.name, fleet.fabric), place=place, env=env
            )
        made = FleetStack(
            app,
            training_stack(spec.name, name),
            fleet=fleet,
            place=place,
            fabric=fabrics[fleet.fabric] if efa else None,
            capacity=_capacity_stack(
                app, spec, name, fleet, placed=reservation_is_placed(fleet.placement_strategy, efa=efa)
            ),
            mounts=_mounts(stores, fleet),
            checkpoints=_checkpoints(stores, fleet),
            env=env,
        )
        if efa:
            _link(app, spec, fleet, stores, fabrics[fleet.fabric], links, made)


def _link(
    app: cdk.App,
    spec: ClusterSpec,
    fleet: FleetSpec,
    stores: Mapping[str, Store],
    fabric: FabricStack,
    links: dict[str, LinkStack],
    made: FleetStack,
) -> None:
    """Make the ways from a fleet's fabric to what it mounts, each once, before the fleet."""
    for name in sorted(set(fleet.mounts.values())):
        store = stores[name]
        stack_name = link_stack(spec.name, name, fleet.fabric)
        if stack_name not in links and isinstance(store, LustreStack | ExistingLustre):
            links[stack_name] = LinkStack(app, stack_name, store=store, fabric=fabric, env=_env(spec))
        made.add_stack_dependency(links[stack_name])


def _env(spec: ClusterSpec) -> cdk.Environment:
    return cdk.Environment(account=spec.account, region=spec.region)


def _mounts(stores: Mapping[str, Store], fleet: NodesSpec) -> dict[str, LustreStack | ExistingLustre]:
    found = {point: stores[name] for point, name in fleet.mounts.items()}
    return {point: one for point, one in found.items() if isinstance(one, LustreStack | ExistingLustre)}


def _checkpoints(
    stores: Mapping[str, Store], fleet: FleetSpec
) -> CheckpointStack | ExistingCheckpoints | None:
    store = None if fleet.checkpoints is None else stores[fleet.checkpoints]
    return store if isinstance(store, CheckpointStack | ExistingCheckpoints) else None


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
